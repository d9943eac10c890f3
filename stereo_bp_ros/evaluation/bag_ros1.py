"""ROS 1 bags for the reader of bags, also those whose index was not written."""

from __future__ import annotations

import io
import pathlib

from rosbags import rosbag1
from rosbags.interfaces import Connection
from rosbags.rosbag1.reader import (
    ChunkInfo,
    Header,
    IndexData,
    RecordType,
    read_bytes,
    read_uint32,
)


class Ros1Storage(rosbag1.Reader):
    """A bag. Where its index is missing, all chunks are read to make one.

    notes: sentences about what is missing.
    """

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__(path)
        self.indexes: dict[int, list[IndexData]] = {}
        self.notes: list[str] = []

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
            self.close()
            raise
        self.notes.append(
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
