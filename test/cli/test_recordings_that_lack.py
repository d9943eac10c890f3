"""Recordings that say one thing and hold another: topics without messages, files not listed."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import numpy as np
import pytest
import yaml

from stereo_bp_ros import Calibration, StereoError
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.sources import bags
from stereo_bp_ros.sources.bag_topics import StereoTopics, name_of_first_part, storage_files
from test.cli import recordings

CALIBRATION = Calibration(400.0, 0.25, 47.5, 47.5, 24.0)
START, PERIOD = 10**18, 10**8
OPTIONS = ['--preset', 'sad_fast', '--set', 'disparity_range=16', '--repeat', '1', '--backend',
           'cpu', '--json']


def recorded(first: int, behind: int, image: str = 'image_rect', *, has_infos: bool = True
             ) -> list[recordings.Recorded]:
    """Pairs of a range; the images of both sides, and their camera_infos or none."""
    found = []
    for index in range(first, behind):
        wall = np.random.default_rng(index).integers(0, 255, (48, 102), np.uint8)
        for topic, time_ns, message in recordings.pair(
                START + index * PERIOD, wall[:, :96], wall[:, 6:], CALIBRATION):
            if has_infos or not topic.endswith('camera_info'):
                found.append((topic.replace('image_rect', image), time_ns, message))
    return found


def silence(path: pathlib.Path, *topics: str) -> pathlib.Path:
    """Remove the messages of topics from a bag of SQLite, but not the topics."""
    import sqlite3
    file, = path.glob('*.db3')
    with sqlite3.connect(file) as database:
        database.execute(
            'DELETE FROM messages WHERE topic_id IN (SELECT id FROM topics WHERE name IN '
            f'({",".join("?" * len(topics))}))', topics)
    database.close()
    return file


INFOS = '/left/camera_info', '/right/camera_info'


@pytest.mark.parametrize('kind', ['sqlite3', 'mcap'])
def test_raw_images_without_a_message_of_camera_info_are_an_error(tmp_path, capsys, kind):
    path = recordings.write(tmp_path / 'drive_1', recorded(
        0, 3, 'image_raw', has_infos=kind == 'sqlite3'), kind)
    file = silence(path, *INFOS) if kind == 'sqlite3' else next(path.glob('*.mcap'))
    assert main(['evaluate', str(file), *OPTIONS]) == 2
    error = capsys.readouterr().err
    topics = ' and '.join(INFOS) if kind == 'sqlite3' else 'of camera_info'
    assert f'there is no message {"on " * (kind == "sqlite3")}{topics}' in error
    assert '/left/image_raw and /right/image_raw may be raw, and cannot be rectified' in error
    assert f'drive_0{file.suffix}, where it may be' in error
    assert '--rectify FILE' in error
    assert main(['evaluate', str(file), *OPTIONS, '--rectified', 'yes']) == 0
    with pytest.raises(StereoError, match='cannot be rectified'):
        bags.StereoBag(file, StereoTopics(rectified='no'))


def test_rectified_images_without_a_message_of_camera_info_are_matched_with_a_warning(
        tmp_path, caplog):
    file = silence(recordings.write(tmp_path / 'bag', recorded(0, 3), 'sqlite3'), *INFOS)
    assert main(['evaluate', str(file), *OPTIONS]) == 0
    assert 'are taken as rectified, and there are no distances in metres' in caplog.text
    with bags.StereoBag(file) as bag:
        assert [pair.calibration for pair in bag.read()] == [None] * 3


def test_of_two_image_topics_the_one_with_messages_counts(tmp_path):
    every = recorded(0, 3) + recorded(0, 3, 'image_raw', has_infos=False)
    file = silence(recordings.write(tmp_path / 'bag', every, 'sqlite3'), '/left/image_rect',
                   '/right/image_rect')
    with bags.StereoBag(file) as bag:
        assert bag.topics.left_image == '/left/image_raw'
        assert len(list(bag.read())) == 3
    with pytest.raises(StereoError, match='there is no message on /left/image_rect'):
        bags.StereoBag(file, StereoTopics('/left/image_rect', '/right/image_rect'))


def split(folder: pathlib.Path, names: list[str], listed: list[str], kind: str = 'mcap'
          ) -> pathlib.Path:
    """A recording of three pairs in each file, and a metadata.yaml that lists some of them."""
    folder.mkdir()
    for number, name in enumerate(names):
        part = recordings.write(folder.with_name(f'part_{number}'), recorded(
            3 * number, 3 * number + 3), kind)
        file, = (path for path in part.iterdir() if path.suffix in ('.mcap', '.db3'))
        file.rename(folder / name)
    if listed:
        (folder / 'metadata.yaml').write_text(yaml.safe_dump(
            {'rosbag2_bagfile_information': {'relative_file_paths': listed}}))
    return folder


def read(path: pathlib.Path) -> tuple[list[int], list[str]]:
    """Numbers of the pairs, and warnings."""
    with bags.StereoBag(path) as bag:
        return [((pair.stamp_ns or 0) - START) // PERIOD for pair in bag.read()], bag.warnings()


@pytest.mark.parametrize('kind', ['mcap', 'sqlite3'])
def test_files_are_read_in_the_order_of_their_messages(tmp_path, kind):
    names = [f'drive_{number}.{"mcap" if kind == "mcap" else "db3"}' for number in range(3)]
    path = split(tmp_path / 'drive', names, [names[2], *names, names[1]], kind)
    numbers, (warning,) = read(path)
    assert numbers == list(range(9))
    assert 'not in the order of their messages' in warning
    times = [time_ns for _, time_ns, _ in _raw(path)]
    assert times == sorted(times)


def _raw(path: pathlib.Path) -> list[tuple[str, int, bytes]]:
    with bags.StereoBag(path) as bag:
        return list(bag.raw())


def test_files_of_the_same_time_are_read_side_by_side(tmp_path):
    folder = tmp_path / 'both'
    folder.mkdir()
    for number, side in enumerate(('left', 'right')):
        part = recordings.write(tmp_path / side, [
            one for one in recorded(0, 120) if one[0].startswith(f'/{side}')])
        next(part.glob('*.mcap')).rename(folder / f'both_{number}.mcap')
    with bags.StereoBag(folder) as bag:
        assert len(list(bag.read())) == 120     # more than wait for a partner


def test_a_file_that_is_not_listed_is_named(tmp_path):
    names = ['drive_0.mcap', 'drive_1.mcap']
    path = split(tmp_path / 'drive', names, names[:1])
    (path / 'other_1.mcap').write_bytes(b'another recording')
    numbers, (warning,) = read(path)
    assert numbers == [0, 1, 2]
    assert 'does not list drive_1.mcap, which is not read: `ros2 bag reindex`' in warning


def test_names_as_newer_rosbag2_writes_them_are_one_recording(tmp_path):
    names = [f'{number}_drive_2026_01_0{2 - number % 2}-00_00_0{number}.mcap'
             for number in (0, 1, 2)]
    path = split(tmp_path / 'drive', names, [])
    assert [file.name for file in storage_files(path)] == names
    (path / f'._{names[0]}').write_bytes(b'\0\5\x16\7')
    assert read(path)[0] == list(range(9))
    assert name_of_first_part(path / names[1]) == names[0]
    (path / '0_drive_2027_01_01-00_00_00.mcap').write_bytes(b'')     # another first one
    assert storage_files(path) == []


def stamped(path: pathlib.Path, change: Callable[[str, int], int], lost: tuple[str, int] = ('', 0)
            ) -> pathlib.Path:
    """A recording whose images have other stamps, and of which one image is lost.

    :param change: from topic and number of the pair to the stamp.
    """
    found = []
    for place, (topic, time_ns, message) in enumerate(recorded(0, 4)):
        number = place // 4
        if topic.endswith('image_rect'):
            message.header = recordings.header(change(topic, number), topic)
        if (topic, number) != lost:
            found.append((topic, time_ns, message))
    return recordings.write(path, found)


@pytest.mark.parametrize('verb', ['evaluate', 'replay', 'calibrate-check'])
def test_a_recording_without_stamps_has_no_pairs(tmp_path, capsys, verb):
    path = stamped(tmp_path / 'bag', lambda topic, number: 0, ('/left/image_rect', 1))
    assert main([verb, str(path)]) == 2
    assert ('3 of 3 left images have the stamp 0, by which no pair can be found'
            in capsys.readouterr().err)


def test_images_that_the_node_would_reject_are_told_and_no_pairs(tmp_path, caplog):
    path = stamped(tmp_path / 'bag', lambda topic, number: START + number * PERIOD
                   if number != 2 else 0)
    assert read(path)[0] == [0, 1, 3]
    assert main(['evaluate', str(path), *OPTIONS]) == 0
    for side in ('left', 'right'):
        assert f'1 of 4 {side} images have the stamp 0' in caplog.text
    path = stamped(tmp_path / 'twice', lambda topic, number: START + (
        number if topic.startswith('/right') else max(1, number)) * PERIOD)
    numbers, warnings = read(path)
    assert numbers == [1, 2, 3]
    assert any('1 of 4 left images have the stamp of another image of their side' in text
               for text in warnings)
