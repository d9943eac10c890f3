"""MCAP files for the reader of bags, whatever else is in them, and up to where they were cut off.

The format: https://mcap.dev/spec. A channel whose messages are neither CDR nor of ROS 1, such as
one of protobuf or JSON, is listed and not read.
"""

from __future__ import annotations

import collections
import dataclasses
import heapq
import io
import operator
import os
import pathlib
import struct
import zlib
from collections.abc import Collection, Iterator

from mcap.exceptions import EndOfFile
from mcap.records import (
    Channel,
    Chunk,
    ChunkIndex,
    DataEnd,
    Footer,
    McapRecord,
    Message,
    Schema,
    Statistics,
)
from mcap.stream_reader import StreamReader
from rosbags.interfaces import Connection
from rosbags.typesys.msg import normalize_msgtype

from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.sources.bag_storage import (
    LAST_NS,
    MAX_MESSAGE_BYTES,
    MAX_TOPICS_BYTES,
    check_size,
    decompress,
    make_connection,
)

_MAGIC = b'\x89MCAP0\r\n'

#: The last record, of 9 and 20 bytes, and what follows it.
_FOOTER_BYTES = 29 + len(_MAGIC)

#: Messages outside of chunks are read in parts of at least as many bytes, a chunk's usual size.
_PART_BYTES = 2**20

#: What Python holds of a message beside its data.
_MESSAGE_BYTES = 512


@dataclasses.dataclass
class _Part:
    """Where messages lie: a chunk, or records outside of chunks.

    counts: messages by channel.
    """

    start: int
    end: int
    first_ns: int = LAST_NS
    last_ns: int = 0
    counts: collections.Counter[int] = dataclasses.field(default_factory=collections.Counter)

    def add(self, message: Message) -> None:
        """Take a message into account."""
        self.counts[message.channel_id] += 1
        self.first_ns = min(self.first_ns, message.log_time)
        self.last_ns = max(self.last_ns, message.log_time)


class _File(io.BufferedReader):
    """A file of which no more is read at once than it has, nor more than is allowed.

    The library does not validate the lengths within a record.
    """

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__(io.FileIO(path))
        self.size = os.fstat(self.fileno()).st_size

    def read(self, size: int | None = -1) -> bytes:
        """As of any file; reads ``size`` bytes, or to the end of the file.

        :raises StereoError: these are too many.
        """
        left = self.size - self.tell()
        size = left if size is None or size < 0 else min(size, left)
        check_size('a message, chunk or index', size, MAX_MESSAGE_BYTES)
        return super().read(size)


class McapStorage:
    """One file. Its index is that of the file, or made from all records where there is none."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.connections: list[Connection] = []
        self.note = ''
        self._file: _File | None = None
        self._schemas: dict[int, Schema] = {}
        self._channels: dict[int, Connection] = {}
        self._defined_bytes = 0
        self._parts: list[_Part] = []

    def open(self) -> None:
        """Read the index.

        :raises StereoError, ValueError, OSError: it is no MCAP file, or damaged.
        """
        self._file = _File(self.path)
        if self._file.read(len(_MAGIC)) != _MAGIC:
            raise StereoError('its first bytes are not those of an MCAP file' if self._file.size
                              else 'it is empty')
        self._file.seek(-len(_MAGIC), os.SEEK_END)
        is_ended = self._file.size > len(_MAGIC) and self._file.read() == _MAGIC
        if not (is_ended and self._read_summary(self._file)):
            self._scan(self._file, is_ended)
        counts = self._counts()
        self.connections = [one._replace(msgcount=counts[one.id])
                            for one in self._channels.values()]

    @property
    def first_ns(self) -> int:
        """Time of the first message."""
        return min((part.first_ns for part in self._parts), default=LAST_NS)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def messages(self, connections: Collection[Connection], start: int | None = None
                 ) -> Iterator[tuple[Connection, int, bytes]]:
        """Messages in the order of recording; holds the chunks that overlap in time.

        :raises StereoError: these are too large.
        """
        wanted = {one.id: one for one in connections}
        held: collections.Counter[str] = collections.Counter()
        parts = [self._of_part(one, wanted, start, held) for one in self._parts
                 if one.counts.keys() & wanted.keys()
                 and (start is None or one.last_ns >= start)]
        for time_ns, connection, data in heapq.merge(*parts, key=operator.itemgetter(0)):
            if connection is not None:
                yield connection, time_ns, data

    def _of_part(self, part: _Part, wanted: dict[int, Connection], start: int | None,
                 held: collections.Counter[str]
                 ) -> Iterator[tuple[int, Connection | None, bytes]]:
        """Messages of a part by time; it is read after the first item, which is none."""
        yield part.first_ns, None, b''
        found, size = [], 0
        for one in self._read(part):
            if one.channel_id in wanted and (start is None or one.log_time >= start):
                found.append(one)
                size += len(one.data) + _MESSAGE_BYTES
                check_size(f'what chunks that overlap in time hold at {part.first_ns} ns',
                           held['bytes'] + size, MAX_MESSAGE_BYTES)
        held['bytes'] += size
        found.sort(key=operator.attrgetter('log_time'))
        for one in found:
            yield one.log_time, wanted[one.channel_id], one.data
        held['bytes'] -= size

    def _read(self, part: _Part) -> Iterator[Message]:
        """Messages of a part as they lie; nothing else may be read meanwhile."""
        assert self._file is not None
        self._file.seek(part.start)
        for record in _records(self._file):
            for one in _opened(record):
                if isinstance(one, Message):
                    yield one
            if self._file.tell() >= part.end:
                return

    def _read_summary(self, file: _File) -> bool:
        """Take the index of the file; False: it is not one of everything."""
        records: list[McapRecord] = []
        try:
            file.seek(-_FOOTER_BYTES, os.SEEK_END)
            footer = next(_records(file), None)
            if not isinstance(footer, Footer) or not footer.summary_start:
                return False
            file.seek(footer.summary_start)
            records += _records(file)
        except Exception:       # records have what is in a damaged index
            return False
        self._parts = [_indexed(one) for one in records if isinstance(one, ChunkIndex)]
        statistics = [one for one in records if isinstance(one, Statistics)]
        channels = {one.id for one in records if isinstance(one, Channel)}
        counts = self._counts()
        if [(one.chunk_count, one.message_count) for one in statistics] != [
                (len(self._parts), counts.total())] or not counts.keys() <= channels:
            self._parts = []
            return False
        for one in records:
            self._define(one)
        return True

    def _scan(self, file: _File, is_ended: bool) -> None:
        """Make an index from all records, up to the first that is not whole."""
        file.seek(len(_MAGIC))
        part = _Part(file.tell(), file.tell())
        for record in _records(file):
            if isinstance(record, DataEnd | Footer):
                break
            if isinstance(record, Chunk):
                part = self._keep(part)
            try:
                for one in _opened(record):
                    if isinstance(one, Message):
                        part.add(one)
                    self._define(one)
            except Exception:
                if is_ended:
                    raise
                part = _Part(part.start, part.start)
                break           # what the disk has in place of what was written last
            part.end = file.tell()
            if isinstance(record, Chunk) or part.end - part.start > _PART_BYTES:
                part = self._keep(part)
            if not is_ended and file.peek(1)[:1] == b'\0':      # likewise: it is no record's code
                break
        else:
            is_ended = False
        left = file.size - self._keep(part).end
        if not is_ended:
            self.note = self._about_cut(left)

    def _keep(self, part: _Part) -> _Part:
        """Take a part in that has messages; returns the part behind it, which has none yet."""
        if part.counts:
            self._parts.append(part)
        return _Part(part.end, part.end)

    def _counts(self) -> collections.Counter[int]:
        """Messages by channel."""
        found = collections.Counter[int]()
        for one in self._parts:
            found.update(one.counts)
        return found

    def _about_cut(self, left: int) -> str:
        count = self._counts().total()
        if not count:
            raise StereoError('it was cut off before its first whole message or chunk')
        last_ns = max(one.last_ns for one in self._parts)
        return (f'{self.path} was cut off: its {count} messages up to {last_ns / 1e9:.3f} s are '
                f'read' + (f', and {left} bytes behind them are not' if left else '')
                + f'. `mcap recover {self.path.name}` makes a whole file of it')

    def _define(self, one: McapRecord) -> None:
        """Take a schema or channel in."""
        if isinstance(one, Schema) and one.id not in self._schemas:
            self._schemas[one.id] = one
            self._defined_bytes += len(one.name) + len(one.data)
        elif isinstance(one, Channel) and one.id not in self._channels:
            schema = self._schemas.get(one.schema_id, Schema(0, b'', '', ''))
            kind = schema.name
            if kind and one.message_encoding in ('cdr', 'ros1'):
                kind = str(normalize_msgtype(kind))
            self._channels[one.id] = make_connection(
                one.id, one.topic, kind, one.message_encoding, schema.encoding,
                schema.data.decode('utf-8', 'replace'), self)
            self._defined_bytes += len(one.topic) + len(kind)
        check_size('the list of topics and their definitions', self._defined_bytes,
                   MAX_TOPICS_BYTES)


def _records(stream: io.BytesIO | io.BufferedReader) -> Iterator[McapRecord]:
    """Whole records up to the end; chunks are not opened, which the library does without bounds.

    :raises Exception: whatever the library raises for what is no record.
    """
    try:
        # Sizes are checked where they are read.
        yield from StreamReader(stream, skip_magic=True, emit_chunks=True,
                                record_size_limit=None).records
    except (EndOfFile, struct.error):
        if stream.read(1):
            raise


def _opened(record: McapRecord) -> Iterator[McapRecord]:
    """The records of a chunk, or a record that is none.

    :raises StereoError: the chunk is too large, or not what it says of itself.
    """
    if not isinstance(record, Chunk):
        yield record
        return
    check_size('a chunk', record.uncompressed_size, MAX_MESSAGE_BYTES)
    content, is_whole = decompress(record.data, record.compression)
    if not is_whole or len(content) != record.uncompressed_size:
        raise StereoError(
            f'a chunk has {len(content)} bytes in place of {record.uncompressed_size}')
    if record.uncompressed_crc and zlib.crc32(content) != record.uncompressed_crc:
        raise StereoError('a chunk does not have the checksum of its record')
    stream = io.BytesIO(content)
    del content                 # of which the stream has a copy
    yield from _records(stream)


def _indexed(index: ChunkIndex) -> _Part:
    """A chunk by its index, in which every channel has a list of 15 bytes and 16 a message."""
    end = index.chunk_start_offset + index.chunk_length
    places = sorted((place, channel) for channel, place in index.message_index_offsets.items())
    ends = [*(place for place, _ in places[1:]), end + index.message_index_length]
    counts = collections.Counter({
        channel: (behind - place - 15) // 16
        for (place, channel), behind in zip(places, ends, strict=False)})
    return _Part(index.chunk_start_offset, end, index.message_start_time, index.message_end_time,
                 counts)
