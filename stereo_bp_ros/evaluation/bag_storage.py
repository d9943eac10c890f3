"""The files of a rosbag2 recording, one after another, also where its end was not written."""

from __future__ import annotations

import collections
import contextlib
import pathlib
import tempfile
from collections.abc import Collection, Iterator, Mapping
from types import TracebackType
from typing import Any

from rosbags.interfaces import Connection

from stereo_bp_ros.config.files import read_yaml
from stereo_bp_ros.errors import StereoError, shown
from stereo_bp_ros.evaluation import bag_mcap, bag_sqlite
from stereo_bp_ros.evaluation.bag_bytes import decompress, decompress_file
from stereo_bp_ros.evaluation.bag_mcap import McapStorage
from stereo_bp_ros.evaluation.bag_sqlite import SqliteStorage
from stereo_bp_ros.evaluation.bag_topics import COMPRESSED, is_storage, plain_name, storage_files

#: Storage of a file by its suffix.
STORAGES: Mapping[str, type[McapStorage] | type[SqliteStorage]] = {
    bag_mcap.SUFFIX: McapStorage, bag_sqlite.SUFFIX: SqliteStorage}

#: First bytes of a message that was compressed alone: no message of ROS begins with them.
_ZSTD_MAGIC = b'\x28\xb5\x2f\xfd'

#: Bytes of a file that are read to see whether it has any content.
_BLANK = 4096


class Recording:
    """A rosbag2 folder, or a file of one, as the reader of rosbags takes it: a context manager.

    connections: topics of all files.
    notes:       sentences about what is missing.

    :raises StereoError: there are no such files.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.connections: list[Connection] = []
        self.notes: list[str] = []
        self._storages: list[McapStorage | SqliteStorage] = []
        self._opened = contextlib.ExitStack()
        self._unpacked_bytes = 0

    def __enter__(self) -> Recording:
        try:
            for file in self._files():
                storage = STORAGES[plain_name(file).suffix](self._decompressed(file))
                self._opened.callback(storage.close)
                try:
                    storage.open()
                except StereoError as error:
                    raise StereoError(f'{file.name}: {error}' if self.path.is_dir()
                                      else str(error)) from error
                self._storages.append(storage)
                self.notes += filter(None, [storage.note])
        except BaseException:
            self._opened.close()
            raise
        found: dict[tuple[str, str], Connection] = {}
        counts: collections.Counter[tuple[str, str]] = collections.Counter()
        for one in (one for storage in self._storages for one in storage.connections):
            key = one.topic, one.msgtype
            counts[key] += one.msgcount
            if key not in found or not found[key].msgdef.data:
                found[key] = one
        self.connections = [one._replace(id=number, msgcount=counts[key], owner=self)
                            for number, (key, one) in enumerate(found.items(), 1)]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._opened.close()

    def messages(self, connections: Collection[Connection] = (), start: int | None = None,
                 stop: int | None = None) -> Iterator[tuple[Connection, int, bytes]]:
        """Messages of one file after another."""
        wanted = {(one.topic, one.msgtype): one for one in connections or self.connections}
        for storage in self._storages:
            own = [one for one in storage.connections if (one.topic, one.msgtype) in wanted]
            for connection, time_ns, data in storage.messages(own, start, stop) if own else ():
                yield (wanted[connection.topic, connection.msgtype], time_ns,
                       _unpacked(data) if data.startswith(_ZSTD_MAGIC) else data)

    def _files(self) -> list[pathlib.Path]:
        """The files that metadata.yaml names; without one those that there are.

        :raises StereoError: there are none, or one is no regular file: it need not end.
        """
        files = self._named_files()
        for file in files:
            if file.exists() and not file.is_file():
                raise StereoError(f'{file.name} is no regular file')
        return files

    def _named_files(self) -> list[pathlib.Path]:
        if not self.path.is_dir():
            return [self.path]
        told = self.path / 'metadata.yaml'
        if told.is_file() and _has_content(told):
            return [self._named(name) for name in _names(told)]
        files = storage_files(self.path)
        if not files:
            raise StereoError('it has no metadata.yaml: `ros2 bag reindex` makes one')
        self.notes.append(f'{self.path} has no metadata.yaml, which the end of a recording writes:'
                          f' {", ".join(file.name for file in files)} '
                          f'{"are" if len(files) > 1 else "is"} read')
        return files

    def _named(self, name: Any) -> pathlib.Path:
        path = self.path / pathlib.PurePath(str(name)).name
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


def _unpacked(data: bytes) -> bytes:
    content, is_whole = decompress(data, 'zstd')
    if not is_whole:
        raise StereoError('the end of a compressed message is missing')
    return bytes(content)


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
