"""Reads the messages of a bag, also without its end, and says which one is damaged."""

from __future__ import annotations

import collections
import contextlib
import heapq
import itertools
import pathlib
import tempfile
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from rosbags.interfaces import Connection

from stereo_bp_ros.config.files import read_yaml
from stereo_bp_ros.errors import StereoError, shown
from stereo_bp_ros.sources.bag_mcap import McapStorage
from stereo_bp_ros.sources.bag_messages import (
    MIN_BYTES,
    ROS1_STORE,
    STORE,
    find_other_definition,
    from_ros1,
    stamp_of,
)
from stereo_bp_ros.sources.bag_storage import (
    MAX_DEFINITION_BYTES,
    Ros1Storage,
    SqliteStorage,
    check_size,
    decompress,
    decompress_file,
)
from stereo_bp_ros.sources.bag_topics import (
    CAMERA_INFO,
    COMPRESSED,
    TRANSFORM_TYPES,
    TRUTH_TYPES,
    is_storage,
    part_of,
    plain_name,
    storage_files,
)

Storage = McapStorage | SqliteStorage | Ros1Storage

#: Storage of a file by its suffix; others are bags of ROS 1.
STORAGES: Mapping[str, type[Storage]] = {'.mcap': McapStorage, '.db3': SqliteStorage}

#: Types of messages that are read; others may be defined as they like.
READ_TYPES = (*TRUTH_TYPES, CAMERA_INFO, *TRANSFORM_TYPES)

#: First bytes of a message that was compressed alone: no message of ROS 2 begins with them.
_ZSTD_MAGIC = b'\x28\xb5\x2f\xfd'

#: Bytes of a file that are read to see whether it has any content.
_BLANK = 4096


class Reader:
    """A rosbag2 folder, a file of one, or a ROS 1 bag; to be closed.

    Message types are those of ROS: what a bag has as their definitions is only compared with
    these. An error says which message of which topic is damaged. Messages are read one after
    another and not kept, so that the memory does not grow with the bag.

    connections: topics of all files.
    notes:       sentences about what is missing.
    is2:         whether messages are of ROS 2.

    :raises StereoError: no bag.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self.notes: list[str] = []
        self._storages: list[Storage] = []
        self._unpacked_bytes = 0
        self._place = 'its index'
        self._compared: set[str] = set()
        self._opened = contextlib.ExitStack()
        try:
            for file in self._files():
                self._open(file)
        except BaseException as error:
            self.close()
            if isinstance(error, Exception):
                raise StereoError(f'{path} cannot be read as a bag: {error}') from error
            raise
        self._sort()
        self.connections = self._merged_connections()
        # An MCAP file may hold messages of ROS 1, too.
        self.is2 = not any(getattr(one.ext, 'serialization_format', 'ros1') == 'ros1'
                           for one in self.connections if one.msgtype in READ_TYPES)

    def _open(self, file: pathlib.Path) -> None:
        if file.exists() and not file.is_file():        # it need not end
            raise StereoError(f'{file.name} is no regular file')
        storage = STORAGES.get(plain_name(file).suffix, Ros1Storage)(self._decompressed(file))
        self._opened.callback(storage.close)
        try:
            storage.open()
        except StereoError as error:
            raise StereoError(f'{file.name}: {error}' if self._path.is_dir()
                              else str(error)) from error
        self._storages.append(storage)
        self.notes += filter(None, [storage.note])

    def _sort(self) -> None:
        """Sort the files by their first message, and say where they were listed otherwise."""
        ordered = sorted(self._storages, key=lambda one: one.first_ns)
        if ordered != self._storages:
            self.notes.append(
                f'{self._path}: the files {", ".join(one.path.name for one in self._storages)} '
                'are not in the order of their messages: they are read by time, beginning with '
                f'{ordered[0].path.name}')
            self._storages = ordered

    def _merged_connections(self) -> list[Connection]:
        found: dict[tuple[str, str], Connection] = {}
        counts: collections.Counter[tuple[str, str]] = collections.Counter()
        for one in (one for storage in self._storages for one in storage.connections):
            key = one.topic, one.msgtype
            counts[key] += one.msgcount
            if key not in found or not found[key].msgdef.data:
                found[key] = one
        return [one._replace(id=number, msgcount=counts[key], owner=self)
                for number, (key, one) in enumerate(found.items(), 1)]

    def close(self) -> None:
        """Close the files."""
        self._opened.close()

    def of_topics(self, *topics: str) -> list[Connection]:
        """The connections of these topics."""
        return [one for one in self.connections if one.topic in topics]

    def stamp(self, data: bytes) -> int:
        """Header stamp in ns of a message's bytes."""
        # ROS 1 is little-endian, and has header.seq where CDR says so.
        return stamp_of(data if self.is2 else b'\0\1\0\0' + data[4:MIN_BYTES])

    def messages(self, connections: Collection[Connection], start: int | None = None
                 ) -> Iterator[tuple[Connection, int, bytes]]:
        """Connection, time of recording in ns, and bytes, by time.

        :raises StereoError: what is behind the last message is damaged, or too large.
        """
        counts: collections.Counter[str] = collections.Counter()
        since = f' from {start} ns on' if start else ''
        found = self._messages({(one.topic, one.msgtype): one for one in connections}, start)
        while True:
            try:
                connection, time_ns, data = next(found)
            except StopIteration:
                return
            except StereoError as error:
                raise StereoError(f'{self._path} cannot be read behind {self._place}: {error}'
                                  ) from error
            except Exception as error:
                raise StereoError(f'{self._path} is damaged behind {self._place}: '
                                  f'{_described(error)}') from error
            counts[connection.topic] += 1
            self._place = f'message {counts[connection.topic]} of {connection.topic}{since}'
            if len(data) < MIN_BYTES:
                raise StereoError(f'{self._path}: {self._place} is damaged: '
                                  f'{len(data)} bytes are no message with a header')
            yield connection, time_ns, data

    def _messages(self, wanted: Mapping[tuple[str, str], Connection], start: int | None
                  ) -> Iterator[tuple[Connection, int, bytes]]:
        for connection, time_ns, data in self._by_time(wanted, start):
            if self.is2 and data.startswith(_ZSTD_MAGIC):
                whole, is_whole = decompress(data, 'zstd')
                data = bytes(whole)
                if not is_whole:
                    raise StereoError('the end of a compressed message is missing')
            yield wanted[connection.topic, connection.msgtype], time_ns, bytes(data)

    def _by_time(self, wanted: Mapping[tuple[str, str], Connection], start: int | None
                 ) -> Iterator[tuple[Connection, int, bytes]]:
        """Messages of all files. One is begun when its time has come: most follow each other."""
        begun: list[tuple[int, int, Connection, bytes, Iterator[tuple[Connection, int, bytes]]]]
        begun = []

        def advance(number: int, messages: Iterator[tuple[Connection, int, bytes]]) -> None:
            for connection, time_ns, data in itertools.islice(messages, 1):
                heapq.heappush(begun, (time_ns, number, connection, data, messages))

        for number, storage in enumerate(self._storages):
            while begun and begun[0][0] < storage.first_ns:
                time_ns, place, connection, data, messages = heapq.heappop(begun)
                yield connection, time_ns, data
                advance(place, messages)
            own = [one for one in storage.connections if (one.topic, one.msgtype) in wanted]
            if own:
                advance(number, iter(storage.messages(own, start)))
        while begun:
            time_ns, place, connection, data, messages = heapq.heappop(begun)
            yield connection, time_ns, data
            advance(place, messages)

    def decode(self, kind: str, data: bytes) -> Any:
        """A message of ROS 2 from its bytes, or from those of the same of ROS 1."""
        message = self.deserialize(data, kind)
        return message if self.is2 else from_ros1(message, kind)

    def deserialize(self, data: bytes | memoryview, kind: str) -> Any:
        """A message of ROS 1 or 2.

        :raises StereoError: it is damaged, or the bag defines it otherwise than ROS.
        """
        if kind not in self._compared:
            self._compare(kind)
            self._compared.add(kind)
        try:
            return STORE.deserialize_cdr(data, kind) if self.is2 else (
                ROS1_STORE.deserialize_ros1(data, kind))
        except Exception as error:      # rosbags checks nothing that it parses
            raise StereoError(f'{self._path}: {self._place} is damaged: '
                              f'{_described(error)}') from error

    def _compare(self, kind: str) -> None:
        """Compare the bag's definitions of a type with that of ROS."""
        definitions = {one.msgdef for one in self.connections if one.msgtype == kind}
        check_size(f'{self._path}: what defines {kind}',
                   sum(len(one.data) for one in definitions), MAX_DEFINITION_BYTES)
        for one in definitions:
            try:
                other = find_other_definition(kind, one, STORE if self.is2 else ROS1_STORE)
            except Exception as error:      # also where its parser finds no end
                raise StereoError(f'{self._path} has no sound definition of {kind}: '
                                  f'{_described(error)[:200]}') from error
            if other:
                raise StereoError(f'{self._path} defines {other} otherwise than ROS '
                                  f'{2 if self.is2 else 1}')

    def _files(self) -> list[pathlib.Path]:
        """The files that metadata.yaml names; without one those that there are."""
        if not self._path.is_dir():
            return [self._path]
        told = self._path / 'metadata.yaml'
        if told.is_file() and _has_content(told):
            # People edit the list: a file that is there twice is one.
            named = list(dict.fromkeys(self._named(name) for name in _names(told)))
            recordings = {part_of(file).recording for file in named}
            lost = [file.name for file in sorted(self._path.iterdir())
                    if is_storage(file) and file not in named and part_of(file).number >= 0
                    and part_of(file).recording in recordings]
            if lost:
                self.notes.append(
                    f'{self._path}: metadata.yaml does not list {", ".join(lost)}, which is not '
                    'read: `ros2 bag reindex` makes a metadata.yaml of all files')
            return named
        files = storage_files(self._path)
        if not files:
            raise StereoError('it has no metadata.yaml: `ros2 bag reindex` makes one')
        self.notes.append(f'{self._path} has no metadata.yaml, which the end of a recording '
                          f'writes: {", ".join(file.name for file in files)} '
                          f'{"are" if len(files) > 1 else "is"} read')
        return files

    def _named(self, name: Any) -> pathlib.Path:
        path = self._path / pathlib.PurePath(str(name)).name
        for file in (path, path.with_name(path.name + COMPRESSED)):
            if file.exists() and is_storage(file):
                return file
        raise StereoError(f'metadata.yaml names the file {shown(name)}, which is not there')

    def _decompressed(self, file: pathlib.Path) -> pathlib.Path:
        if file.suffix != COMPRESSED:
            return file
        folder = self._opened.enter_context(tempfile.TemporaryDirectory())
        path = decompress_file(file, pathlib.Path(folder), self._unpacked_bytes)
        self._unpacked_bytes += path.stat().st_size
        return path


def _has_content(path: pathlib.Path) -> bool:
    """Whether anything was written before a computer stopped: some file systems leave zeros."""
    with path.open('rb') as file:
        return bool(file.read(_BLANK).strip(b'\0 \n'))


def _names(path: pathlib.Path) -> list[Any]:
    """Names of files in a metadata.yaml."""
    try:
        content = read_yaml(path)
    except ValueError as error:
        raise StereoError(f'its metadata.yaml is refused: {error}') from error
    about = content.get('rosbag2_bagfile_information') if isinstance(content, Mapping) else None
    names = about.get('relative_file_paths') if isinstance(about, Mapping) else None
    if not isinstance(names, list) or not names:
        raise StereoError('its metadata.yaml names no files: `ros2 bag reindex` makes another one')
    return names


def _described(error: Exception) -> str:
    return f'{type(error).__name__} {error}'.strip()
