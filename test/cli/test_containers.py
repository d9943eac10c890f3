"""Recordings of every container are read, whatever else they hold, and up to where they end."""

from __future__ import annotations

import pathlib
import shutil
import sqlite3
from collections.abc import Iterator

import lz4.frame
import numpy as np
import pytest
import yaml
from rosbags.rosbag2.storage_mcap import zstd

from stereo_bp_ros import Calibration, StereoError
from stereo_bp_ros.sources import bags
from test.cli import mcap_files, recordings
from test.cli.mcap_files import Channel

CALIBRATION = Calibration(400.0, 0.25, 31.5, 31.5, 16.0)
STORE = recordings.STORE
COUNT, START = 6, 10**18


def image(index: int, side: str) -> np.ndarray:
    return np.full((32, 64), 10 * index + 100 * (side == 'right'), np.uint8)


def recorded(count: int = COUNT, coded: str = '') -> Iterator[recordings.Recorded]:
    for index in range(count):
        yield from recordings.pair(START + index * 10**8, image(index, 'left'),
                                   image(index, 'right'), CALIBRATION, coded=coded)


def channels(encoding: str = 'cdr') -> list[Channel]:
    """The four topics as rosbag2 writes them; 'ros1': as converters from ROS 1 do."""
    store = recordings.ROS1 if encoding == 'ros1' else STORE
    found = []
    for topic, _, message in recorded(1):
        kind = message.__msgtype__
        text, _ = store.generate_msgdef(kind, ros_version=1 if encoding == 'ros1' else 2)
        name = kind.replace('/msg/', '/') if encoding == 'ros1' else kind
        found.append(Channel(topic, encoding, name, f'ros{1 if encoding == "ros1" else 2}msg',
                             text.encode()))
    return found


def messages(encoding: str = 'cdr') -> list[tuple[str, int, bytes]]:
    return [(topic, time_ns, bytes(
        recordings.ROS1.serialize_ros1(recordings._of_ros1(one), one.__msgtype__)
        if encoding == 'ros1' else STORE.serialize_cdr(one, one.__msgtype__)))
        for topic, time_ns, one in recorded()]


def assert_read(path: pathlib.Path, count: int = COUNT) -> list[str]:
    """Returns the warnings."""
    with bags.StereoBag(path) as bag:
        pairs = list(bag.read())
        assert [pair.stamp_ns for pair in pairs] == [START + k * 10**8 for k in range(count)]
        for index, pair in enumerate(pairs):
            for side in ('left', 'right'):      # which JPEG keeps to a grey level
                assert abs(int(getattr(pair, side).pixels[3, 5]) - int(image(index, side)[0, 0])
                           ) <= bag.compressed
            assert pair.calibration == CALIBRATION
        return bag.warnings()


@pytest.mark.parametrize(('plugin', 'mode', 'file'), [
    ('sqlite3', '', 'x.db3'), ('mcap', '', 'x.mcap'), ('sqlite3', 'FILE', 'x.db3.zstd'),
    ('mcap', 'FILE', 'x.mcap.zstd'), ('sqlite3', 'MESSAGE', 'x.db3'),
    ('mcap', 'MESSAGE', 'x.mcap'), ('mcap', 'STORAGE', 'x.mcap')])
def test_every_storage_and_compression_of_rosbag2_is_read_and_a_file_alone(
        tmp_path, plugin, mode, file):
    path = recordings.write(tmp_path / 'x', recorded(), plugin, mode)
    assert sorted(path.name for path in path.iterdir()) == ['metadata.yaml', file]
    assert assert_read(path) == []
    if not mode:
        assert assert_read((path / file).rename(tmp_path / file)) == []


@pytest.mark.parametrize('coded', ['png', 'jpg'])
def test_images_that_were_compressed_by_image_transport_are_read(tmp_path, coded):
    assert assert_read(recordings.write(tmp_path / 'x', recorded(coded=coded))) == []


@pytest.mark.parametrize('chunks', ['', 'BZ2', 'LZ4'])
def test_a_ros_1_bag_is_read_and_played_as_the_messages_of_ros_2(tmp_path, chunks):
    path = recordings.write(tmp_path / 'old', recorded(), 'ros1', chunks)
    assert assert_read(path) == []
    with bags.StereoBag(path) as bag:
        assert bag.is_ros1
        assert bag.count == COUNT
        events = list(bag.raw())
    assert len(events) == 4 * COUNT
    assert {topic for topic, *_ in events} == {
        'left/image_rect', 'left/camera_info', 'right/image_rect', 'right/camera_info'}
    for topic, time_ns, data in events:
        kind = bags.CAMERA_INFO if topic.endswith('info') else bags.IMAGE
        message = STORE.deserialize_cdr(data, kind)
        stamp = message.header.stamp
        assert time_ns == bags.stamp_of(data) == stamp.sec * 10**9 + stamp.nanosec
        assert message.header.frame_id == 'left_camera_optical_frame' or kind == bags.IMAGE
        assert (message.width, message.height) == (64, 32)
        if kind == bags.CAMERA_INFO:
            assert message.p[3] == (0 if topic.startswith('left') else -100)
            assert list(message.r) == [1, 0, 0, 0, 1, 0, 0, 0, 1]
        else:
            assert message.data.size == 32 * 64


OTHERS = {
    'service event': Channel('/add/_service_event', 'cdr', 'a_msgs/srv/Add_Event', 'ros2msg',
                             b'service_msgs/ServiceEventInfo info\nMSG: no definition'),
    'protobuf': Channel('/pose', 'protobuf', 'foxglove.Pose', 'protobuf', b'\n\xff\xfe\x80\x01'),
    'ros2idl': Channel('/path', 'cdr', 'a_msgs/msg/Path', 'ros2idl', b'=' * 80 + b'\nIDL: x\n??'),
    'unknown': Channel('/x', 'xml', 'x', 'my own', b''),
    'no schema': Channel('/raw', 'cdr', '', '', b''),
    'an image in JSON': Channel('/zed/left/image', 'json', 'sensor_msgs/msg/Image', 'jsonschema',
                                b'{}')}


@pytest.mark.parametrize('per_chunk', [0, 5])
def test_channels_of_other_kinds_in_an_mcap_file_are_passed_over(tmp_path, per_chunk):
    every = [one for message in messages() for one in (
        message, *((other.topic, message[1], b'{}') for other in OTHERS.values()))]
    path = mcap_files.write(tmp_path / 'x.mcap', [*OTHERS.values(), *channels()], every,
                            per_chunk=per_chunk)
    assert assert_read(path) == []


def test_a_file_without_images_lists_what_it_has(tmp_path):
    path = mcap_files.write(tmp_path / 'x.mcap', OTHERS.values(), [])
    with pytest.raises(StereoError, match=r'no pair of left and right image topics among .*/pose'):
        bags.StereoBag(path)


@pytest.mark.parametrize(('profile', 'encoding', 'per_chunk'), [
    ('', 'cdr', 5), ('ros1', 'ros1', 0), ('', 'ros1', 5), ('my own', 'cdr', 0)])
def test_messages_of_ros_1_and_2_are_read_whatever_profile_a_file_has(
        tmp_path, profile, encoding, per_chunk):
    path = mcap_files.write(tmp_path / 'x.mcap', channels(encoding), messages(encoding),
                            profile=profile, per_chunk=per_chunk)
    assert assert_read(path) == []
    with bags.StereoBag(path) as bag:
        assert bag.is_ros1 == (encoding == 'ros1')
        assert len(list(bag.raw())) == 4 * COUNT


@pytest.mark.parametrize('options', [
    {'has_summary': False}, {'has_summary': False, 'per_chunk': 5},
    {'has_message_index': False, 'per_chunk': 5}])
def test_an_mcap_file_without_an_index_is_read(tmp_path, options):
    assert assert_read(mcap_files.write(tmp_path / 'x.mcap', channels(), messages(), **options)
                       ) == []


def test_messages_outside_of_chunks_are_sorted_by_time(tmp_path):
    every = messages()
    every[4:8], every[8:12] = every[8:12], every[4:8]
    assert_read(mcap_files.write(tmp_path / 'x.mcap', channels(), every))


COMPRESSORS = {'': bytes, 'lz4': lz4.frame.compress, 'zstd': zstd.compress}


@pytest.mark.parametrize(('per_chunk', 'compression'), [
    (0, ''), (4, ''), (4, 'zstd'), (4, 'lz4')])
def test_an_mcap_file_that_was_cut_off_is_read_up_to_the_cut(tmp_path, per_chunk, compression):
    path = mcap_files.write(tmp_path / 'x.mcap', channels(), messages(), per_chunk=per_chunk,
                            compression=compression, compress=COMPRESSORS[compression])
    whole = path.read_bytes()
    # In the middle of what is written of the fifth pair.
    place = (whole.index(bytes(image(4, 'left'))) + 700 if not compression else
             len(whole) * 3 // 5)
    path.write_bytes(whole[:place])
    count = 4
    if compression:
        with bags.StereoBag(path) as bag:
            count = len(list(bag.read()))
    assert count >= 2
    warning, = assert_read(path, count)
    assert 'x.mcap was cut off: its ' in warning
    # The camera_info of a pair comes before its image; a chunk that is cut is not read.
    told = '16 messages up to 1000000000.300 s' if per_chunk else (
        '17 messages up to 1000000000.400 s')
    assert compression or f'its {told} are read' in warning
    assert '`mcap recover x.mcap` makes a whole file of it' in warning
    # The disk may have nothing but zeros in place of what was written last.
    path.write_bytes(whole[:place] + bytes(5000))
    assert len(assert_read(path, count)) == 1


def test_an_mcap_file_that_was_cut_off_in_front_of_its_index_is_read_whole(tmp_path):
    path = mcap_files.write(tmp_path / 'x.mcap', channels(), messages(), per_chunk=4)
    path.write_bytes(path.read_bytes()[:-40])
    warning, = assert_read(path)
    assert f'its {4 * COUNT} messages up to' in warning
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(StereoError, match='cut off before its first whole message or chunk'):
        bags.StereoBag(path)


def write_sqlite(path: pathlib.Path) -> pathlib.Path:
    recordings.write(path, recorded(), 'sqlite3')
    file, = path.glob('*.db3')
    return file


@pytest.mark.parametrize('change', [
    "UPDATE message_definitions SET encoding = 'unknown', encoded_message_definition = ''",
    "INSERT INTO message_definitions VALUES (99, 'a_msgs/msg/B', 'ros2msg', 'no! definition', '')",
    "INSERT INTO message_definitions VALUES (99, 'a_msgs/msg/B', 'ros3', '', '')",
    "UPDATE topics SET type_description_hash = 'RIHS01_of_another_distribution'"])
def test_topics_of_any_type_in_a_database_are_passed_over(tmp_path, change):
    file = write_sqlite(tmp_path / 'bag')
    with sqlite3.connect(file) as database:
        database.execute("INSERT INTO topics VALUES (99, '/b', 'a_msgs/msg/B', 'cdr', '', '')")
        database.execute("INSERT INTO topics VALUES (98, '/p', 'a_msgs/msg/P', 'json', '', '')")
        database.execute("INSERT INTO messages VALUES (999, 99, 5, X'00')")
        database.execute(change)
    assert assert_read(file) == []
    assert assert_read(tmp_path / 'bag') == []


@pytest.mark.parametrize('is_writable', [True, False])
def test_what_a_database_has_not_taken_in_yet_is_read(tmp_path, monkeypatch, is_writable):
    file = write_sqlite(tmp_path / 'bag')
    database = sqlite3.connect(file)
    database.execute('PRAGMA journal_mode=WAL')
    topics, kept = database.execute('SELECT * FROM messages').fetchall(), file.read_bytes()
    database.execute('DELETE FROM messages')
    database.commit()
    database.execute('PRAGMA wal_checkpoint(TRUNCATE)')
    database.executemany('INSERT INTO messages VALUES (?, ?, ?, ?)', topics)
    database.commit()
    cut = tmp_path / 'cut'
    cut.mkdir()
    for suffix in ('', '-wal'):
        shutil.copy(f'{file}{suffix}', cut / f'cut_0.db3{suffix}')
    database.close()
    before = {path.name: path.read_bytes() for path in cut.iterdir()}
    assert before['cut_0.db3'] != kept
    if is_writable:
        warning, = assert_read(cut)
        assert 'has no metadata.yaml, which the end of a recording writes: cut_0.db3 is read' in (
            warning)
    else:                       # which root would not notice
        connect = sqlite3.connect
        monkeypatch.setattr(sqlite3, 'connect', lambda name, **options: connect(
            'file:/nowhere?mode=ro' if 'mode=ro' in name else name, **options))
        with pytest.raises(StereoError, match=r'cut_0\.db3-wal has a part of it, .* copy both to'):
            bags.StereoBag(cut)
    assert {name: (cut / name).read_bytes() for name in before} == before


def test_an_error_of_a_database_that_was_cut_off_names_what_may_save_it(tmp_path):
    file = write_sqlite(tmp_path / 'bag')
    content = file.read_bytes()
    file.write_bytes(content[:len(content) * 3 // 4])
    with pytest.raises(StereoError, match=r'malformed: `sqlite3 bag\.db3 \.recover` and `ros2 bag '
                                          'reindex` may save what is left'):
        bags.StereoBag(file)


@pytest.mark.parametrize('kind', ['mcap', 'sqlite3'])
def test_the_parts_of_a_recording_without_metadata_are_read_in_turn(tmp_path, kind):
    folder = tmp_path / 'drive'
    folder.mkdir()
    suffix = {'mcap': 'mcap', 'sqlite3': 'db3'}[kind]
    every = list(recorded(12))
    for number in range(12):        # the tenth follows the ninth
        part = recordings.write(tmp_path / f'part{number}', every[4 * number:4 * number + 4], kind)
        file, = part.glob(f'*.{suffix}')
        file.rename(folder / f'drive_{number}.{suffix}')
    warning, = assert_read(folder, 12)
    assert 'drive_9.' in warning
    (folder / 'metadata.yaml').write_text(yaml.safe_dump({'rosbag2_bagfile_information': {
        'relative_file_paths': [f'drive_{number}.{suffix}' for number in range(12)]}}))
    assert assert_read(folder, 12) == []
    (folder / 'metadata.yaml').write_bytes(bytes(512))      # named, and never written
    assert_read(folder, 12)
    (folder / 'metadata.yaml').unlink()
    (folder / f'drive_3.{suffix}').rename(folder / f'another_3.{suffix}')
    with pytest.raises(StereoError, match='ros2 bag reindex'):
        bags.StereoBag(folder)


@pytest.mark.parametrize('chunks', ['', 'BZ2', 'LZ4'])
def test_a_ros_1_bag_without_an_index_is_read_up_to_the_cut(tmp_path, chunks):
    path = tmp_path / 'old.bag.active'
    whole = bytearray(recordings.write(
        tmp_path / 'old', recorded(), 'ros1', chunks, chunk_bytes=5000).read_bytes())
    place = whole.index(b'index_pos=') + 10
    start = int.from_bytes(whole[place:place + 8], 'little')
    whole[place:place + 8] = bytes(8)
    path.write_bytes(whole[:start])
    warning, = assert_read(path)
    assert f'has no index, which the end of a recording writes: its {4 * COUNT} messages' in (
        warning)
    assert '`rosbag reindex old.bag.active`' in warning
    path.write_bytes(whole[:start * 2 // 3])
    with bags.StereoBag(path) as bag:
        assert 1 <= len(list(bag.read())) < COUNT
        assert 'bytes behind them are not' in bag.warnings()[0]
