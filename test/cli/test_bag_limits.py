"""Small bags that would fill the memory, the disk or the day are refused, and large ones read."""

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import sqlite3
import struct
import tempfile
import tracemalloc
from collections.abc import Iterator

import lz4.frame
import numpy as np
import pytest
from rosbags.rosbag2.storage_mcap import zstd

from stereo_bp_ros import Calibration, StereoError
from stereo_bp_ros.sources import bags
from test.cli import mcap_files, recordings
from test.cli.mcap_files import Channel
from test.machine import file_size_limit

CALIBRATION = Calibration(400.0, 0.25, 31.5, 31.5, 16.0)
STORE = recordings.STORE
START = 10**18
VARIABLE = 'STEREO_BP_LIMIT_FACTOR'

#: Bytes of each image, which compress well, and what bags may hold where they are refused.
SIZE, LIMIT = 2**25, 2**21
FACTOR = str(LIMIT / 2**29)


@pytest.fixture(autouse=True)
def temporary_folder(tmp_path, monkeypatch) -> Iterator[pathlib.Path]:
    folder = tmp_path / 'temporary'
    folder.mkdir()
    monkeypatch.setattr(tempfile, 'tempdir', str(folder))
    yield folder
    assert not list(folder.iterdir())


def recorded(size: int = SIZE) -> list[recordings.Recorded]:
    image = np.zeros((size // 8192, 8192), np.uint8)
    return recordings.pair(START, image, image, CALIBRATION)


def channels(definition: bytes = b'', encoding: str = '') -> list[Channel]:
    """Those of ``recorded``; all have the same definition."""
    return [Channel(topic, 'cdr', one.__msgtype__, encoding, definition)
            for topic, _, one in recorded(8192)]


def messages(size: int = SIZE) -> list[tuple[str, int, bytes]]:
    return [(topic, time_ns, bytes(STORE.serialize_cdr(one, one.__msgtype__)))
            for topic, time_ns, one in recorded(size)]


def rosbag2(path: pathlib.Path, mode: str = '', size: int = SIZE) -> pathlib.Path:
    file, = recordings.write(path, recorded(size), 'sqlite3', mode).glob('*.db3')
    with sqlite3.connect(file) as database:     # whose limit is not what is tested
        database.execute('DELETE FROM message_definitions')
    return file


def streamed(data: bytes) -> bytes:
    """A frame that does not say how many bytes it holds."""
    one = zstd.ZstdCompressor()
    return one.compress(data) + one.flush()


BAGS = {
    'a large message': lambda path: rosbag2(path / 'bag'),
    'messages of zstd': lambda path: rosbag2(path / 'bag', 'MESSAGE'),
    'large chunks': lambda path: mcap_files.write(
        path / 'x.mcap', channels(), messages(), per_chunk=4),
    'no chunks': lambda path: mcap_files.write(path / 'x.mcap', channels(), messages()),
    'chunks of zstd': lambda path: mcap_files.write(
        path / 'x.mcap', channels(), messages(), per_chunk=4, compression='zstd',
        compress=zstd.compress),
    'chunks of streamed zstd without an index': lambda path: mcap_files.write(
        path / 'x.mcap', channels(), messages(), per_chunk=4, compression='zstd',
        compress=streamed, has_summary=False),
    'chunks of lz4': lambda path: mcap_files.write(
        path / 'x.mcap', channels(), messages(), per_chunk=4, compression='lz4',
        compress=lz4.frame.compress),
    'chunks of bz2 in ROS 1': lambda path: recordings.write(
        path / 'old', recorded(), 'ros1', 'BZ2'),
    'chunks of lz4 in ROS 1': lambda path: recordings.write(
        path / 'old', recorded(), 'ros1', 'LZ4')}


@pytest.mark.parametrize('name', BAGS)
def test_what_becomes_larger_than_the_limit_is_refused_and_is_read_with_a_higher_one(
        tmp_path, monkeypatch, name):
    path = BAGS[name](tmp_path)
    monkeypatch.setenv(VARIABLE, FACTOR)
    with traced() as peak, pytest.raises(
            StereoError, match=rf'more than {LIMIT} bytes; .* {VARIABLE}=0.0078125 '), \
            bags.StereoBag(path) as bag:
        list(bag.read())
    assert peak[0] < 0.75 * SIZE
    monkeypatch.delenv(VARIABLE)
    with bags.StereoBag(path) as bag:
        pair, = bag.read()
    assert pair.left.pixels.size == SIZE


def test_a_chunk_whose_size_is_not_what_the_file_says_is_refused(tmp_path, monkeypatch):
    def compress(content: bytes) -> bytes:
        return zstd.compress(content + bytes(SIZE))

    path = mcap_files.write(tmp_path / 'x.mcap', channels(), messages(8192), per_chunk=4,
                            compression='zstd', compress=compress)
    with bags.StereoBag(path) as bag, pytest.raises(StereoError, match=r'bytes in place of \d+'):
        list(bag.read())
    monkeypatch.setenv(VARIABLE, FACTOR)
    with bags.StereoBag(path) as bag, pytest.raises(StereoError, match=VARIABLE):
        list(bag.read())


@contextlib.contextmanager
def traced() -> Iterator[list[int]]:
    """The most bytes that Python holds within it, once it is left."""
    peak: list[int] = []
    tracemalloc.start()
    try:
        yield peak
    finally:
        peak.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()


@pytest.mark.parametrize('compress', [zstd.compress, streamed])
def test_a_compressed_file_fills_no_disk(tmp_path, temporary_folder, monkeypatch, compress):
    file = rosbag2(tmp_path / 'bag', size=8192)
    path = tmp_path / 'bag.db3.zstd'
    path.write_bytes(compress(file.read_bytes() + bytes(SIZE)))
    monkeypatch.setenv(VARIABLE, str(2**20 / 2**35))
    with file_size_limit(2**22), pytest.raises(
            StereoError, match=rf'content of bag.* more than {2**20} bytes; .* {VARIABLE}='):
        bags.StereoBag(path)
    monkeypatch.delenv(VARIABLE)
    with bags.StereoBag(path) as bag:
        assert len(list(bag.read())) == 1
    usage = type('Usage', (), {'free': 2**20})
    monkeypatch.setattr('shutil.disk_usage', lambda folder: usage)
    with pytest.raises(StereoError, match='half of what is free in'):
        bags.StereoBag(path)


def test_chunks_that_overlap_in_time_are_held_up_to_the_limit(tmp_path, monkeypatch):
    every = [(topic, time_ns + 1000 * place + number, data) for number in range(40)
             for place, (topic, time_ns, data) in enumerate(messages(2**17))]
    path = mcap_files.write(tmp_path / 'x.mcap', channels(), every, per_chunk=4,
                            compression='zstd', compress=zstd.compress)
    monkeypatch.setenv(VARIABLE, FACTOR)
    with bags.StereoBag(path) as bag, pytest.raises(
            StereoError, match=f'chunks that overlap in time .* more than {LIMIT} bytes'):
        list(bag.read())
    every = [(topic, time_ns + number * 10**8, data) for number in range(40)
             for topic, time_ns, data in messages(2**17)]
    path = mcap_files.write(tmp_path / 'y.mcap', channels(), every, per_chunk=4,
                            compression='zstd', compress=zstd.compress)
    with bags.StereoBag(path) as bag:
        assert len(list(bag.raw())) == 160


def test_a_chunk_is_held_with_its_messages_alone(tmp_path):
    every = [(topic, time_ns + number, data) for number in range(8)
             for topic, time_ns, data in messages(2**21)]
    path = mcap_files.write(tmp_path / 'x.mcap', channels(), every, per_chunk=len(every))
    size = path.stat().st_size
    with bags.StereoBag(path) as bag, traced() as peak:
        count = sum(1 for _ in bag.raw())
    assert count == len(every)
    assert peak[0] < 2.3 * size


SEPARATOR = '=' * 80
HOSTILE = {
    'types of types': ('std_msgs/Header header\nfoo/T0 a\n' + ''.join(
        f'{SEPARATOR}\nMSG: foo/T{k}\nfoo/T{k + 1} a\nfoo/T{k + 1} b\n' for k in range(30))
        + f'{SEPARATOR}\nMSG: foo/T30\nuint8 x\n'),
    'itself': 'sensor_msgs/Image a\n',
    'an array of nothing': f'foo/E[4000000000] a\n{SEPARATOR}\nMSG: foo/E\n'}


@pytest.mark.parametrize('name', HOSTILE)
def test_a_definition_is_compared_within_bounds(tmp_path, name):
    path = mcap_files.write(tmp_path / 'x.mcap', channels(HOSTILE[name].encode(), 'ros2msg'),
                            messages(8192))
    with bags.StereoBag(path) as bag, pytest.raises(
            StereoError, match=r'defines sensor_msgs/msg/\w+ (otherwise|is too large)|'
                               'no sound definition of sensor_msgs/msg/'):
        list(bag.read())


def test_a_definition_in_idl_is_not_compared(tmp_path):
    path = mcap_files.write(tmp_path / 'x.mcap', channels(b'"\\' * 2**14, 'ros2idl'),
                            messages(8192))
    with bags.StereoBag(path) as bag:
        assert len(list(bag.read())) == 1


ENDLESS = 'WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT '
VIEWS = {
    'messages': 'i AS id, 1 AS topic_id, i AS timestamp, (SELECT data FROM t LIMIT 1) AS data '
                'FROM r',
    'topics': 't.* FROM t, r', 'message_definitions': 't.* FROM t, r'}


@pytest.mark.parametrize('table', VIEWS)
def test_a_view_that_never_ends_is_no_table(tmp_path, table):
    path = rosbag2(tmp_path / 'bag', size=8192)
    with sqlite3.connect(path) as database:
        database.execute(f'ALTER TABLE {table} RENAME TO t')
        database.execute(f'CREATE VIEW {table} AS {ENDLESS}{VIEWS[table]}')
    if table == 'message_definitions':
        with bags.StereoBag(path) as bag:
            assert len(list(bag.read())) == 1
    else:
        with pytest.raises(StereoError, match='no tables of topics and messages'):
            bags.StereoBag(path)


def test_a_time_of_recording_that_is_none_is_said_in_one_line(tmp_path):
    path = rosbag2(tmp_path / 'bag', size=8192)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE messages SET timestamp = 'abc' WHERE id = 3")
    with bags.StereoBag(path) as bag, pytest.raises(
            StereoError, match=r"behind message 1 of /\S+: a message has the time 'abc' ns$"):
        list(bag.raw())


def test_pages_that_lead_to_each_other_end(tmp_path):
    """Seven pages of a tree, each of which leads to the next 200 times."""
    path = rosbag2(tmp_path / 'bag', size=8192)
    with sqlite3.connect(path) as database:
        root, = database.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'messages'").fetchone()
        size, = database.execute('PRAGMA page_size').fetchone()
        database.execute('CREATE TABLE filling (data)')
        database.executemany('INSERT INTO filling VALUES (?)', [(bytes(size),)] * 12)
    content = bytearray(path.read_bytes())
    last = len(content) // size
    leaf = content[(root - 1) * size:root * size]
    chain = [root, *range(last - 6, last)]
    for page, below in itertools.pairwise(chain):
        cells = b''.join(struct.pack('>IB', below, 1) for _ in range(200))
        first = size - len(cells)
        head = struct.pack('>BHHHBI', 5, 0, 200, first, 0, below)
        pointers = b''.join(struct.pack('>H', first + 5 * k) for k in range(200))
        page_bytes = head + pointers
        content[(page - 1) * size:page * size] = (
            page_bytes + bytes(size - len(page_bytes) - len(cells)) + cells)
    content[(last - 2) * size:(last - 1) * size] = leaf
    path.write_bytes(content)
    with pytest.raises(StereoError, match=r': `sqlite3 bag\.db3 \.recover` and `ros2 bag '
                                          'reindex` may save what is left'):
        bags.StereoBag(path)


@pytest.mark.parametrize('name', ['x.db3', 'x.mcap', 'x.bag', 'x.db3.zstd', 'folder/x_0.mcap'])
def test_what_is_no_regular_file_is_refused(tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    if name.startswith('x.m'):
        path.symlink_to('/dev/zero')
    else:
        os.mkfifo(path)
    with pytest.raises(StereoError, match='is no regular file'):
        bags.StereoBag(path.parent if path.parent != tmp_path else path)


def test_chunks_of_ros_1_cannot_share_an_index(tmp_path):
    path = recordings.write(tmp_path / 'old', [
        (topic, time_ns + number, one) for number in range(40)
        for topic, time_ns, one in recorded(8192)], 'ros1')
    content = path.read_bytes()
    place = content.index(b'index_pos=') + 10
    start = _start_of_record(content, int.from_bytes(content[place:place + 8], 'little'), b'\6')
    count = content.index(b'chunk_count=') + 12
    path.write_bytes(content[:count] + (600).to_bytes(4, 'little') + content[count + 4:]
                     + content[start:] * 599)
    with pytest.raises(StereoError, match='its index has more messages than the file'):
        bags.StereoBag(path)


def _start_of_record(content: bytes, place: int, kind: bytes) -> int:
    """Where the first record of a kind behind a place of a ROS 1 bag begins."""
    while True:
        length, = struct.unpack_from('<I', content, place)
        if b'op=' + kind in content[place:place + 4 + length]:
            return place
        data, = struct.unpack_from('<I', content, place + 4 + length)
        place += 8 + length + data


def test_topics_without_end_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(2**16 / 2**26))
    many = [Channel(f'/{number}' + 'x' * 1000, 'json', '', '', b'') for number in range(100)]
    path = mcap_files.write(tmp_path / 'x.mcap', [*channels(), *many], messages(8192))
    with pytest.raises(StereoError, match=f'list of topics .* more than {2**16} bytes; '):
        bags.StereoBag(path)
    monkeypatch.delenv(VARIABLE)
    with bags.StereoBag(path) as bag:
        assert len(list(bag.read())) == 1
