"""MCAP files for the reader of bags, whatever else is in them, and up to where they were cut off.

The format: https://mcap.dev/spec. A channel whose messages are neither CDR nor of ROS 1, such as
one of protobuf or JSON, is listed and not read.
"""

from __future__ import annotations

import collections
import heapq
import operator
import pathlib
import struct
import zlib
from collections.abc import Collection, Iterator
from typing import BinaryIO, NamedTuple

import numpy as np
from rosbags.interfaces import Connection
from rosbags.typesys.msg import normalize_msgtype

from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.evaluation.bag_storage import (
    MAX_MESSAGE_BYTES,
    MAX_TOPICS_BYTES,
    check_size,
    decompress,
    make_connection,
)

_MAGIC = b'\x89MCAP0\r\n'

# Codes of records.
_HEADER, _FOOTER, _SCHEMA, _CHANNEL, _MESSAGE, _CHUNK = 1, 2, 3, 4, 5, 6
_CHUNK_INDEX, _STATISTICS, _DATA_END = 8, 11, 15

#: Code and length in front of each record; the same record of the end of a file, with its magic.
_FRAME, _FOOTER_BYTES = struct.Struct('<BQ'), 9 + 20 + len(_MAGIC)

_NO_RECORD = bytes(_FRAME.size)

#: Bytes in front of a message: channel, sequence, time of recording and of publishing.
_MESSAGE_HEAD = struct.Struct('<HIQQ')

#: Where a message lies in a chunk, and when it was recorded.
_PLACE = np.dtype([('channel', '<u2'), ('time_ns', '<u8'), ('start', '<u8'), ('stop', '<u8')])

#: Bytes of the fields in front of the records in a chunk, at most: the compression has a name.
_MAX_CHUNK_HEAD = 256

#: Messages outside of chunks are read in runs of at least as many bytes, a chunk's usual size.
_RUN_BYTES = 2**20


class _Chunk(NamedTuple):
    """Where messages lie: a chunk record, or a run of records outside of chunks.

    counts: messages by channel.
    kind:   'chunk', 'run', or 'cut' of a chunk that is not whole.
    """

    start: int
    end: int
    first_ns: int
    last_ns: int
    counts: dict[int, int]
    kind: str = 'chunk'


class _Cursor:
    """Reads the fields of a record one after another.

    :raises struct.error, IndexError: there are fewer bytes than the fields need.
    """

    def __init__(self, data: bytes | memoryview) -> None:
        self._data, self.place = data, 0

    def numbers(self, form: str) -> tuple[int, ...]:
        found = struct.unpack_from(f'<{form}', self._data, self.place)
        self.place += struct.calcsize(f'<{form}')
        return found

    def bytes(self, length: int) -> bytes:
        found = bytes(self._data[self.place:self.place + length])
        if len(found) < length:
            raise struct.error(f'{length} bytes are wanted, and {len(found)} are there')
        self.place += length
        return found

    def text(self) -> str:
        return self.bytes(*self.numbers('I')).decode('utf-8', 'replace')


class McapStorage:
    """One file. Its index is that of the file, or made from all records where there is none."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.connections: list[Connection] = []
        self.note = ''
        self._file: BinaryIO | None = None
        self._schemas: dict[int, tuple[str, str, bytes]] = {}
        self._channels: dict[int, Connection] = {}
        self._defined_bytes = 0
        self._chunks: list[_Chunk] = []
        self._counts: collections.Counter[int] = collections.Counter()

    def open(self) -> None:
        """Read the index.

        :raises StereoError, ValueError, OSError: it is no MCAP file, or damaged.
        """
        self._file = self.path.open('rb')
        self._size = self.path.stat().st_size
        start, summary = self._start(), self._summary_start()
        if not (summary and self._read_summary(summary)):
            self._scan(start, summary is not None)
        self.connections = [one._replace(msgcount=self._counts[one.id])
                            for one in self._channels.values()]

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def messages(self, connections: Collection[Connection], start: int | None = None,
                 stop: int | None = None) -> Iterator[tuple[Connection, int, bytes]]:
        """Messages in the order of recording; holds the chunks that overlap in time.

        :raises StereoError: these are too large.
        """
        wanted = {one.id: one for one in connections}
        held: collections.Counter[str] = collections.Counter()
        runs = [self._run(one, wanted, start, stop, held) for one in self._chunks
                if one.counts.keys() & wanted.keys()
                and (start is None or one.last_ns >= start)
                and (stop is None or one.first_ns < stop)]
        for time_ns, connection, data in heapq.merge(*runs, key=operator.itemgetter(0)):
            if connection is not None:
                yield connection, time_ns, data

    def _run(self, chunk: _Chunk, wanted: dict[int, Connection], start: int | None,
             stop: int | None, held: collections.Counter[str]
             ) -> Iterator[tuple[int, Connection | None, bytes]]:
        """Messages of a chunk by time; it is read after the first item, which is none."""
        yield chunk.first_ns, None, b''
        content = memoryview(self._content(chunk))
        held['bytes'] += len(content)
        check_size(f'what chunks that overlap in time hold at {chunk.first_ns} ns',
                   held['bytes'], MAX_MESSAGE_BYTES)
        places = np.fromiter(_messages(content), _PLACE)
        places = places[np.isin(places['channel'], list(wanted))]
        for place in np.argsort(places['time_ns'], kind='stable'):
            channel, time_ns, first, end = places[place].tolist()
            if (start is None or time_ns >= start) and (stop is None or time_ns < stop):
                yield time_ns, wanted[channel], bytes(content[first:end])
        held['bytes'] -= len(content)

    def _read(self, start: int, length: int) -> bytes:
        assert self._file is not None
        check_size('a message, chunk or index', min(length, self._size), MAX_MESSAGE_BYTES)
        self._file.seek(start)
        return self._file.read(length)

    def _start(self) -> int:
        """Where the first record behind the header begins."""
        if self._read(0, len(_MAGIC)) != _MAGIC:
            raise StereoError('it is empty' if not self._size else
                              'its first bytes are not those of an MCAP file')
        head = self._read(len(_MAGIC), _FRAME.size)
        if len(head) < _FRAME.size or head[0] != _HEADER:
            raise StereoError('it has no header')
        return len(_MAGIC) + _FRAME.size + int(_FRAME.unpack(head)[1])

    def _summary_start(self) -> int | None:
        """Where the index begins, 0 = there is none; None: the end of the file is missing."""
        end = self._read(max(0, self._size - _FOOTER_BYTES), _FOOTER_BYTES)
        if len(end) < _FOOTER_BYTES or not end.endswith(_MAGIC) or (
                _FRAME.unpack_from(end) != (_FOOTER, 20)):
            return None
        start, = struct.unpack_from('<Q', end, _FRAME.size)
        return int(start) if start < self._size else 0

    def _read_summary(self, start: int) -> bool:
        """Take the index of the file; False: it is not one of everything."""
        content = self._read(start, self._size - _FOOTER_BYTES - start)
        chunks_told = messages_told = -1
        for code, first, stop in _records(content):
            fields = _Cursor(memoryview(content)[first:stop])
            if code in (_SCHEMA, _CHANNEL):
                self._define(code, fields)
            elif code == _CHUNK_INDEX:
                self._chunks.append(_indexed(fields))
                self._counts.update(self._chunks[-1].counts)
            elif code == _STATISTICS:
                messages_told, _, _, _, _, chunks_told, _, _ = fields.numbers('QHIIIIQQ')
        if (len(self._chunks) == chunks_told and sum(self._counts.values()) == messages_told
                and self._counts.keys() <= self._channels.keys()):
            return True
        self._chunks, self._defined_bytes = [], 0
        for one in (self._counts, self._schemas, self._channels):
            one.clear()
        return False

    def _scan(self, place: int, is_ended: bool) -> None:
        """Make an index from all records, up to the first that is not whole."""
        end = self._size - _FOOTER_BYTES if is_ended else self._size
        run = place             # where records outside of chunks begin that are not taken yet
        while True:
            head = self._read(place, _FRAME.size) if place + _FRAME.size <= end else _NO_RECORD
            code, length = _FRAME.unpack(head)
            behind = place + _FRAME.size + length
            is_whole = code not in (0, _DATA_END, _FOOTER) and behind <= end
            in_run = is_whole and code in (_SCHEMA, _CHANNEL, _MESSAGE)
            if run < place and (not in_run or behind - run > _RUN_BYTES):
                self._take(_Chunk(run, place, 0, 0, {}, 'run'))
                run = place
            if code == _CHUNK:
                kind = 'chunk' if is_whole else 'cut'
                try:
                    self._take(_Chunk(place, min(behind, end), 0, 0, {}, kind))
                except Exception:
                    if is_ended:
                        raise
                    break           # what the disk has in place of what was written last
            elif not is_whole:
                break
            place = min(behind, end)
            if not in_run:
                run = place
        if not is_ended:
            self.note = self._about_cut(self._size - place)

    def _about_cut(self, left: int) -> str:
        count = sum(self._counts.values())
        if not count:
            raise StereoError('it was cut off before its first whole message')
        last_ns = max(one.last_ns for one in self._chunks)
        return (f'{self.path} was cut off: its {count} messages up to {last_ns / 1e9:.3f} s are '
                f'read' + (f', and {left} bytes behind them are not' if left else '')
                + f'. `mcap recover {self.path.name}` makes a whole file of it')

    def _take(self, chunk: _Chunk) -> None:
        """Learn channels, counts and times of a chunk; keep it where it has messages."""
        content = self._content(chunk)
        for code, start, stop in _records(content):
            if code in (_SCHEMA, _CHANNEL):
                self._define(code, _Cursor(memoryview(content)[start:stop]))
        counts: collections.Counter[int] = collections.Counter()
        first_ns, last_ns = 2**64, 0
        for channel, time_ns, _, _ in _messages(content):
            counts[channel] += 1
            first_ns, last_ns = min(first_ns, time_ns), max(last_ns, time_ns)
        self._counts.update(counts)
        if counts:
            self._chunks.append(chunk._replace(first_ns=first_ns, last_ns=last_ns,
                                               counts=dict(counts)))

    def _content(self, chunk: _Chunk) -> bytes | bytearray:
        """The records of a chunk or run."""
        if chunk.kind == 'run':
            return self._read(chunk.start, chunk.end - chunk.start)
        fields = _Cursor(self._read(chunk.start + _FRAME.size, _MAX_CHUNK_HEAD))
        _, _, size, crc = fields.numbers('QQQI')
        compression = fields.text()
        length, = fields.numbers('Q')
        start = chunk.start + _FRAME.size + fields.place
        check_size('a chunk', size, MAX_MESSAGE_BYTES)
        content, is_whole = decompress(
            self._read(start, max(0, min(length, chunk.end - start))), compression)
        if chunk.kind == 'chunk':
            if not is_whole or len(content) != size:
                raise StereoError(f'a chunk has {len(content)} bytes in place of {size}')
            if crc and zlib.crc32(content) != crc:
                raise StereoError('a chunk does not have the checksum that is told')
        return content

    def _define(self, code: int, fields: _Cursor) -> None:
        """Take in the record of a schema or channel."""
        number, = fields.numbers('H')
        if number in (self._schemas if code == _SCHEMA else self._channels):
            return
        if code == _SCHEMA:
            name, form = fields.text(), fields.text()
            self._schemas[number] = name, form, fields.bytes(*fields.numbers('I'))
        else:
            schema, = fields.numbers('H')
            topic, encoding = fields.text(), fields.text()
            kind, form, data = self._schemas.get(schema, ('', '', b''))
            if kind and encoding in ('cdr', 'ros1'):
                kind = str(normalize_msgtype(kind))
            self._channels[number] = make_connection(
                number, topic, kind, encoding, form, data.decode('utf-8', 'replace'), self)
            self._defined_bytes += len(kind)
        self._defined_bytes += fields.place
        check_size('the list of topics and their definitions', self._defined_bytes,
                   MAX_TOPICS_BYTES)


def _records(content: bytes | bytearray | memoryview) -> Iterator[tuple[int, int, int]]:
    """Code, start and stop of the records in a part of a file, up to the first that is not whole.

    No record has the code 0.
    """
    place = 0
    while place + _FRAME.size <= len(content):
        code, length = _FRAME.unpack_from(content, place)
        place += _FRAME.size
        if not code or place + length > len(content):
            return
        yield code, place, place + length
        place += length


def _messages(content: bytes | bytearray | memoryview) -> Iterator[tuple[int, int, int, int]]:
    """Channel, time of recording in ns, start and stop of the messages among records."""
    for code, start, stop in _records(content):
        if code == _MESSAGE:
            if stop - start < _MESSAGE_HEAD.size:
                raise StereoError(f'a message has a head of {stop - start} bytes')
            channel, _, time_ns, _ = _MESSAGE_HEAD.unpack_from(content, start)
            yield channel, time_ns, start + _MESSAGE_HEAD.size, stop


def _indexed(fields: _Cursor) -> _Chunk:
    """A chunk by its index, in which every channel has a list of 15 bytes and 16 a message."""
    first_ns, last_ns, start, length = fields.numbers('QQQQ')
    size, = fields.numbers('I')
    places = sorted((place, channel) for channel, place in struct.iter_unpack(
        '<HQ', fields.bytes(size)))
    size, = fields.numbers('Q')
    ends = [*(place for place, _ in places[1:]), start + length + size]
    counts = {channel: (end - place - 15) // 16
              for (place, channel), end in zip(places, ends, strict=False)}
    return _Chunk(start, start + length, first_ns, last_ns, counts)
