"""MCAP files as other programs write them: any channels, with or without chunks and an index."""

from __future__ import annotations

import pathlib
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

MAGIC = b'\x89MCAP0\r\n'


class Channel(NamedTuple):
    """Topic, how its messages are written, and its schema; a name '' = it has none."""

    topic: str
    encoding: str
    schema: str
    schema_encoding: str
    definition: bytes


def record(code: int, *parts: bytes) -> bytes:
    content = b''.join(parts)
    return struct.pack('<BQ', code, len(content)) + content


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack('<I', len(data)) + data


def definitions(channels: Iterable[Channel]) -> bytes:
    found = b''
    for number, one in enumerate(channels, 1):
        if one.schema:
            found += record(3, struct.pack('<H', number), text(one.schema),
                            text(one.schema_encoding), text(one.definition))
        found += record(4, struct.pack('<HH', number, number if one.schema else 0),
                        text(one.topic), text(one.encoding), text(b''))
    return found


def write(path: pathlib.Path, channels: Iterable[Channel],
          messages: Iterable[tuple[str, int, bytes]], *, profile: str = 'ros2',
          per_chunk: int = 0, compression: str = '',
          compress: Callable[[bytes], bytes] = bytes, has_summary: bool = True,
          has_message_index: bool = True) -> pathlib.Path:
    """A file of (topic, time in ns, bytes).

    :param per_chunk: messages of each chunk; 0 = there are no chunks.
    :param has_summary: whether there is an index at the end.
    """
    channels, messages = list(channels), list(messages)
    numbers = {one.topic: number for number, one in enumerate(channels, 1)}
    found = MAGIC + record(1, text(profile), text('test'))
    if not per_chunk:
        found += definitions(channels)
    index = b''
    counts: dict[int, int] = dict.fromkeys(numbers.values(), 0)
    size = per_chunk or 1
    for first in range(0, len(messages), size):
        content = definitions(channels) if per_chunk and not first else b''
        places: dict[int, list[tuple[int, int]]] = {}
        times = [time_ns for _, time_ns, _ in messages[first:first + size]]
        for topic, time_ns, data in messages[first:first + size]:
            counts[numbers[topic]] += 1
            places.setdefault(numbers[topic], []).append((time_ns, len(content)))
            content += record(5, struct.pack('<HIQQ', numbers[topic], 0, time_ns, time_ns), data)
        if not per_chunk:
            found += content
            continue
        start, packed = len(found), compress(content)
        found += record(6, struct.pack('<QQQI', min(times), max(times), len(content), 0),
                        text(compression), struct.pack('<Q', len(packed)), packed)
        end, offsets = len(found), b''
        for number, entries in places.items() if has_message_index else ():
            offsets += struct.pack('<HQ', number, len(found))
            found += record(7, struct.pack('<H', number), text(b''.join(
                struct.pack('<QQ', *entry) for entry in entries)))
        index += record(8, struct.pack('<QQQQ', min(times), max(times), start, end - start),
                        text(offsets), struct.pack('<Q', len(found) - end), text(compression),
                        struct.pack('<QQ', len(packed), len(content)))
    found += record(15, bytes(4))
    start = len(found)
    if has_summary:
        found += definitions(channels) + index + _statistics(len(messages), channels, counts,
                                                             -(-len(messages) // size)
                                                             if per_chunk else 0)
    found += record(2, struct.pack('<QQI', start if has_summary else 0, 0, 0)) + MAGIC
    path.write_bytes(found)
    return path


def _statistics(messages: int, channels: list[Channel], counts: Mapping[int, int], chunks: int
                ) -> bytes:
    return record(11, struct.pack('<QHIIIIQQ', messages, len(channels), len(channels), 0, 0,
                                  chunks, 0, 2**62),
                  text(b''.join(struct.pack('<HQ', *one) for one in counts.items())))
