"""Files of bags for the reader: what all share, SQLite of rosbag2, and bags of ROS 1.

A storage has ``connections``, one for each topic, whose type says so where it cannot be read, a
``note``: a sentence about a file whose end is missing, or '', and ``first_ns``, the time of its
first message.
"""

from __future__ import annotations

import bz2
import contextlib
import functools
import io
import itertools
import pathlib
import shutil
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import lz4.frame
from rosbags import rosbag1
from rosbags.interfaces import (
    Connection,
    ConnectionExtRosbag2,
    MessageDefinition,
    MessageDefinitionFormat,
)
from rosbags.rosbag1.reader import (
    Chunk,
    ChunkInfo,
    Header,
    IndexData,
    RecordType,
    read_bytes,
    read_uint32,
)
from rosbags.rosbag2.storage_mcap import zstd

from stereo_bp_ros.errors import StereoError, printable, shown
from stereo_bp_ros.system.bounded import allowed, check_limit

#: Of a message, of a chunk, and of the chunks of an MCAP file that overlap in time.
MAX_MESSAGE_BYTES = 2**29

#: Of the names and definitions of all topics in a file.
MAX_TOPICS_BYTES = 2**26

#: Of what a bag has as definitions of one type of messages.
MAX_DEFINITION_BYTES = 2**16

#: Of the files of a recording in the temporary folder, which were compressed as a whole.
MAX_UNPACKED_BYTES = 2**35

#: Bytes that are decompressed at once. Those of LZ4 never become more than ``_MAX_PART``.
_PIECE, _MAX_PART = 2**14, 2**23

_DECOMPRESSORS: Mapping[str, Callable[[], Any]] = {
    'zstd': zstd.ZstdDecompressor, 'lz4': lz4.frame.LZ4FrameDecompressor,
    'bz2': bz2.BZ2Decompressor}

_FORMATS = {'ros2msg': MessageDefinitionFormat.MSG, 'ros1msg': MessageDefinitionFormat.MSG,
            'ros2idl': MessageDefinitionFormat.IDL, 'omgidl': MessageDefinitionFormat.IDL}

#: What SQLite has beside a file whose last changes are not in it yet.
_JOURNALS = ('-wal', '-journal')

#: Time of a message that there is not.
LAST_NS = 2**64

#: Bytes of a message that is not too large, else their number; NULL where it is no blob.
_DATA = ("CASE WHEN typeof(data) != 'blob' THEN NULL WHEN length(data) <= ? THEN data "
         'ELSE length(data) END')

#: Steps of SQLite between two looks at a query, and how many one may take besides 10 for each byte
#: of the file. A row has more bytes than steps.
_STEPS, _MAX_STEPS = 10**5, 10**6


def make_connection(number: int, topic: str, kind: str, encoding: str, form: str, text: str,
                    owner: Any) -> Connection:
    """A topic of a file of rosbag2; the type of one that cannot be read says so.

    :param form, text: format and text of the definition of its type.
    """
    if not kind or encoding not in ('cdr', 'ros1'):
        kind, form = f'{printable(kind) or "no schema"} ({printable(encoding)})', ''
    known = _FORMATS.get(form)
    definition = MessageDefinition(known or MessageDefinitionFormat.NONE, text if known else '')
    return Connection(number, topic, kind, definition, '', 0, ConnectionExtRosbag2(encoding, []),
                      owner)


def check_size(what: str, count: int, limit: int) -> None:
    """Reject what is more than a limit.

    :raises StereoError: a sentence about ``what`` that names the limit and what raises it.
    """
    try:
        check_limit(count, limit, 'bytes')
    except ValueError as error:
        raise StereoError(f'{what} is too large: {error}') from error


def decompress(data: bytes, compression: str) -> tuple[bytes | bytearray, bool]:
    """The content of a compressed message or chunk, and whether its end is there, too.

    Holds the content once.

    :param compression: as ROS 1 and MCAP call it.
    :raises StereoError: it is larger than ``MAX_MESSAGE_BYTES``, or compressed otherwise.
    """
    if compression in ('', 'none'):
        return data, True
    if compression not in _DECOMPRESSORS:
        raise StereoError(f'the compression {printable(compression)} is not known')
    if compression == 'zstd':
        check_size('a message or chunk', zstd.get_frame_info(data[:_PIECE]).decompressed_size or 0,
                   MAX_MESSAGE_BYTES)
    one, found = _DECOMPRESSORS[compression](), bytearray()
    for start in range(0, len(data), _PIECE):
        piece = bytes(data[start:start + _PIECE])
        while piece or not (one.eof or one.needs_input):
            if one.eof:         # frames may follow each other
                one = _DECOMPRESSORS[compression]()
            found += one.decompress(piece, max_length=_MAX_PART)
            check_size('a message or chunk', len(found), MAX_MESSAGE_BYTES)
            piece = (one.unused_data or b'') if one.eof else b''
    return found, bool(one.eof)


def decompress_file(source: pathlib.Path, folder: pathlib.Path, before: int) -> pathlib.Path:
    """Decompress a file of zstd into a folder, and return its path there.

    It takes at most half of what is free there.

    :param before: bytes of the recording's files that were decompressed before.
    :raises StereoError: there would be more than ``MAX_UNPACKED_BYTES``.
    """
    path = folder / source.stem
    free = shutil.disk_usage(folder).free // 2
    with source.open('rb') as file:
        told = zstd.get_frame_info(file.read(_PIECE)).decompressed_size or 0
    with zstd.open(source, 'rb') as content, path.open('wb') as target:
        written = 0
        while True:
            size = max(told, written)
            check_size(f'the content of {source.name}', before + size, MAX_UNPACKED_BYTES)
            if size > free:
                raise StereoError(f'the content of {source.name} needs more than {free} bytes, '
                                  f'half of what is free in {folder.parent}: TMPDIR names '
                                  'another folder')
            piece = content.read(2**20)
            if not piece:
                return path
            written += target.write(piece)


class SqliteStorage:
    """A file of rosbag2 in SQLite."""

    note = ''

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.first_ns = 0
        self.connections: list[Connection] = []
        self._opened = contextlib.ExitStack()

    def open(self) -> None:
        """Read the topics, and count their messages.

        :raises StereoError: it is no file of rosbag2, or damaged.
        """
        with self._explained():
            self._db = self._connect()
            if not self._has('topics', 'id') or not self._has('messages', 'data'):
                raise StereoError('it has no tables of topics and messages')
            definitions = {}
            if self._has('message_definitions', 'topic_type'):
                definitions = {kind: (form, text) for kind, form, text in self._few(
                    'SELECT topic_type, encoding, encoded_message_definition '
                    'FROM message_definitions')}
            topics = self._few(
                'SELECT id, name, type, serialization_format FROM topics ORDER BY id')
            counts: dict[int, int] = {}
            firsts: list[int] = []
            for number, count, first in self._execute(
                    'SELECT topic_id, count(*), min(timestamp) FROM messages GROUP BY topic_id'):
                counts[number] = count
                firsts += [first] * isinstance(first, int)
            self.first_ns = min(firsts, default=LAST_NS)
        self.connections = [
            make_connection(number, str(topic), str(kind), encoding,
                            *definitions.get(kind, ('', '')), self)._replace(
                                msgcount=counts.get(number, 0))
            for number, topic, kind, encoding in topics]

    def close(self) -> None:
        """Close the file."""
        self._opened.close()

    def messages(self, connections: Collection[Connection], start: int | None = None
                 ) -> Iterator[tuple[Connection, int, bytes]]:
        """Messages in the order of recording.

        :raises StereoError: one is too large or none, or what is behind the last is damaged.
        """
        wanted = {one.id: one for one in connections}
        since = [] if start is None else [start]
        with self._explained():
            for number, time_ns, data in self._execute(
                    f'SELECT topic_id, timestamp, {_DATA} FROM messages WHERE topic_id IN '
                    f'({",".join("?" * len(wanted))}){" AND timestamp >= ?" * len(since)} '
                    'ORDER BY timestamp', [allowed(MAX_MESSAGE_BYTES), *wanted, *since]):
                if isinstance(data, int):
                    check_size('a message', data, MAX_MESSAGE_BYTES)
                if not isinstance(time_ns, int):
                    raise StereoError(f'a message has the time {shown(time_ns)} ns')
                if not isinstance(data, bytes):
                    raise StereoError(f'what was recorded at {time_ns} ns is no message')
                yield wanted[number], time_ns, data

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Within it errors of SQLite name what may help."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise StereoError(f'{error}: `sqlite3 {self.path.name} .recover` and `ros2 bag '
                              'reindex` may save what is left') from error

    def _connect(self) -> sqlite3.Connection:
        """The file, which is not changed, with what SQLite has not taken into it yet."""
        journals = [path for path in (self.path.with_name(self.path.name + end)
                                      for end in _JOURNALS)
                    if path.is_file() and path.stat().st_size]
        how = 'mode=ro' if journals else 'immutable=1'
        try:
            found = sqlite3.connect(f'{self.path.absolute().as_uri()}?{how}', uri=True,
                                    check_same_thread=False)
            self._opened.callback(found.close)
            found.execute('SELECT count(*) FROM sqlite_master').fetchone()
        except sqlite3.OperationalError as error:
            if not journals:
                raise
            raise StereoError(f'{journals[0].name} has a part of it, which SQLite reads where it '
                              f'can write beside them ({error}): copy both to such a folder'
                              ) from error
        return found

    def _execute(self, words: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """A query that ends: damaged pages may lead to each other for ever."""
        count = itertools.count(0, _STEPS)
        limit = _MAX_STEPS + 10 * self.path.stat().st_size
        self._db.set_progress_handler(lambda: next(count) > limit, _STEPS)
        return self._db.execute(words, values)

    def _has(self, name: str, column: str) -> bool:
        """Whether there is such a table. A view is none: it need not end."""
        sql = self._db.execute(
            "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", [name]).fetchone()
        return bool(sql and str(sql[0]).upper().startswith('CREATE TABLE')
                    and any(row[1] == column
                            for row in self._db.execute(f'PRAGMA table_info({name})')))

    def _few(self, words: str) -> list[tuple[Any, ...]]:
        """The rows of a query about topics."""
        rows, size = [], 0
        for row in self._execute(words):
            size += sum(len(value) if isinstance(value, str | bytes) else 8 for value in row)
            check_size('the list of topics and their definitions', size, MAX_TOPICS_BYTES)
            rows.append(row)
        return rows


class Ros1Storage(rosbag1.Reader):
    """A bag of ROS 1. Where its index is missing, all chunks are read to make one."""

    #: A recording is one file.
    first_ns = 0

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__(path)
        self.indexes: dict[int, list[IndexData]] = {}
        self.note = ''

    def open(self) -> None:
        """Read the index, or the chunks.

        :raises ReaderError: it is no bag, or holds no whole chunk.
        """
        try:
            super().open()
        except rosbag1.ReaderError as error:
            if 'index' not in str(error):
                raise
            self._scan()

    def close(self) -> None:
        """Close the file, unless it was never opened."""
        if self.bio:
            super().close()

    def _scan(self) -> None:
        """Make an index from the chunks, up to the first that is not whole."""
        self.bio = self.path.open('rb')
        try:
            self.bio.readline()
            Header.read(self.bio, RecordType.BAGHEADER)
            self.bio.seek(read_uint32(self.bio), io.SEEK_CUR)
            end = self.bio.tell()
            connections: dict[int, Connection] = {}
            try:
                while True:
                    self._take_chunk(self.bio.tell(), connections)
                    end = self.bio.tell()
            except Exception:       # whatever the disk has in place of what was written last
                left = self.path.stat().st_size - end
            count = sum(map(len, self.indexes.values()))
            if not count:
                raise rosbag1.ReaderError(
                    'it is not indexed and was cut off before its first whole chunk')
            self.indexes = {number: sorted(self.indexes.get(number, [])) for number in connections}
            self.connections = [one._replace(msgcount=len(self.indexes[number]))
                                for number, one in connections.items()]
        except BaseException:
            super().close()
            raise
        self.note = (
            f'{self.path} has no index, which the end of a recording writes: its {count} messages '
            f'up to {(self.end_time - 1) / 1e9:.3f} s are read'
            + (f', and {left} bytes behind them are not' if left else '')
            + f'. `rosbag reindex {self.path.name}` makes an index')

    def _take_chunk(self, place: int, connections: dict[int, Connection]) -> None:
        """Take in the record at a place, as far as it is a chunk."""
        assert self.bio
        header = Header.read(self.bio)
        if header.get_uint8('op') != RecordType.CHUNK:
            read_bytes(self.bio, read_uint32(self.bio))
            return
        self.bio.seek(place)
        chunk = self.read_chunk()
        self.bio.seek(chunk.datapos)
        content = chunk.decompressor(read_bytes(self.bio, chunk.datasize))
        behind = self.bio.tell()
        found: dict[int, list[IndexData]] = {}
        file, self.bio = self.bio, io.BytesIO(content)
        try:
            while (offset := self.bio.tell()) < len(content):
                header = Header.read(self.bio)
                number = header.get_uint32('conn')
                if header.get_uint8('op') == RecordType.CONNECTION:
                    self.bio.seek(offset)
                    connections.setdefault(number, self.read_connection())
                else:
                    found.setdefault(number, []).append(
                        IndexData(header.get_time('time'), place, offset))
                    read_bytes(self.bio, read_uint32(self.bio))
        finally:
            self.bio = file
        self.bio.seek(behind)
        times = [one.time for index in found.values() for one in index]
        self.chunks[place] = chunk
        self.chunk_infos.append(ChunkInfo(place, min(times), max(times) + 1, {}) if times else
                                ChunkInfo(place, 2**63 - 1, 0, {}))
        for number, index in found.items():
            self.indexes.setdefault(number, []).extend(index)

    def read_chunk(self) -> Chunk:
        """As of rosbags; what decompresses the chunk ends at ``MAX_MESSAGE_BYTES``."""
        assert self.bio
        place = self.bio.tell()
        compression = Header.read(self.bio, RecordType.CHUNK).get_string('compression')
        self.bio.seek(place)
        return super().read_chunk()._replace(
            decompressor=functools.partial(_decompressed, compression))

    def read_index_data(self, pos: int, indexes: dict[int, list[IndexData]]) -> None:
        """As of rosbags; chunks may not share an index, in which each message has 12 bytes."""
        super().read_index_data(pos, indexes)
        if 12 * sum(map(len, indexes.values())) > self.path.stat().st_size:
            raise StereoError('its index has more messages than the file')


def _decompressed(compression: str, data: bytes) -> bytes:
    check_size('a chunk', len(data), MAX_MESSAGE_BYTES)
    content, is_whole = decompress(data, compression)
    if not is_whole:
        raise StereoError('the end of a compressed chunk is missing')
    return bytes(content)
