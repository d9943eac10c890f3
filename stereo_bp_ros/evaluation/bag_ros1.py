"""ROS 1 bags for the reader of bags, also those whose index was not written."""

from __future__ import annotations

import functools
import io
import pathlib

from rosbags import rosbag1
from rosbags.interfaces import Connection
from rosbags.rosbag1.reader import (
    Chunk,
    ChunkInfo,
    Header,
    IndexData,
    RecordType,
    read_bytes,
    read_uint32,
)

from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.evaluation.bag_bytes import MAX_MESSAGE_BYTES, check_size, decompress


class Ros1Storage(rosbag1.Reader):
    """A bag. Where its index is missing, all chunks are read to make one.

    note: a sentence about a missing index; '' = there is one.
    """

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
