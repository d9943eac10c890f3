"""The truth of a recording: images of disparity or depth, and a LiDAR's cloud through TF."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import struct
import sys
import tracemalloc

import cv2
import numpy as np
import pytest

from stereo_bp_ros import Calibration, StereoError
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.sources import bags, cloud_truth
from stereo_bp_ros.sources.bag_reader import Reader
from stereo_bp_ros.sources.bag_topics import StereoTopics
from stereo_bp_ros.sources.bag_truth import Transforms
from test.cli import recordings
from test.cli.recordings import KINDS

CALIBRATION = Calibration(200.0, 0.5, 48, 46, 24)
WIDTH, HEIGHT, START = 96, 48, 10**18
SHAPE = HEIGHT, WIDTH
OPTIONS = ['--preset', 'sad_fast', '--set', 'disparity_range=32', '--repeat', '1', '--backend',
           'cpu', '--json']

#: Of sensors: x ahead and z up in LiDAR and base, z ahead and y down in the optical frame.
OPTICAL = (-0.5, 0.5, -0.5, 0.5)
STILL = (0, 0, 0, 1)


def texture(index=0, disparity=8):
    wall = np.random.default_rng(index).integers(0, 255, (HEIGHT, WIDTH + disparity), np.uint8)
    return wall[:, :WIDTH], wall[:, disparity:]


def pairs(count=1, step_ns=10**8, frame='camera'):
    return [message for index in range(count) for message in recordings.pair(
        START + index * step_ns, *texture(index), CALIBRATION, frame)]


def truth_map():
    """Disparities of 4 to 10 px, every one at hand in 1/256 px and in whole millimetres."""
    columns = np.broadcast_to(np.arange(WIDTH), SHAPE)
    metres = 10.0 + 5.0 * (columns // 32)
    return np.float32(100 / metres + CALIBRATION.shift), np.float32(metres)


def read(path, **topics):
    with bags.StereoBag(path, StereoTopics(**topics)) as bag:
        return [pair.truth for pair in bag.read()]


def depth_png(metres, factor=3000.0, offset=7.0):
    """The transport compressedDepth of metres: 12 bytes and a PNG of factor / depth + offset."""
    values = np.where(np.isfinite(metres), factor / metres + offset, 0)
    png = cv2.imencode('.png', np.rint(values).astype(np.uint16))[1].tobytes()
    return struct.pack('<iff', 0, factor, offset) + png


def truths():
    """Topic and message of every form of a truth; the pixel at 0, 0 is unknown in each."""
    disparity, metres = truth_map()
    disparity[0, 0], metres[0, 0] = np.nan, np.nan
    millimetres = np.nan_to_num(metres * 1000).astype(np.uint16)
    steps = np.rint(np.nan_to_num(disparity) * 256).astype(np.uint16)
    no_shift = disparity - np.float32(CALIBRATION.shift)
    return {
        'DisparityImage': ('/stereo/d', recordings.disparity_image(
            START, np.where(np.isnan(no_shift), np.float32(-1), no_shift))),
        'float disparity': ('/left/disparity', recordings.image(START, disparity, '32FC1')),
        'whole disparity': ('/left/disparity', recordings.image(START, steps, '16UC1')),
        'metres': ('/sim/depth', recordings.image(START, metres, '32FC1')),
        'millimetres': ('/sim/depth', recordings.image(START, millimetres, '16UC1')),
        'PNG of millimetres': ('/sim/depth/compressed', recordings.compressed(
            START, cv2.imencode('.png', millimetres)[1].tobytes(), '16UC1; png compressed ')),
        'compressedDepth of metres': ('/sim/depth/compressedDepth', recordings.compressed(
            START, depth_png(metres), '32FC1; compressedDepth png')),
        'compressedDepth of millimetres': ('/sim/depth/compressedDepth', recordings.compressed(
            START, bytes(12) + cv2.imencode('.png', millimetres)[1].tobytes(),
            '16UC1; compressedDepth'))}


@pytest.mark.parametrize('form', truths())
def test_images_of_disparity_or_depth_are_a_truth(tmp_path, form):
    topic, message = truths()[form]
    kind = KINDS[list(truths()).index(form) % len(KINDS)]
    path = recordings.write(tmp_path / 'bag', [*pairs(), (topic, START + 5, message)], kind)
    found, = read(path, truth=topic)
    expected, _ = truth_map()
    assert np.isnan(found[0, 0])
    found[0, 0] = expected[0, 0]
    # 1/512 px of a PNG; a step of compressedDepth at 10 m.
    np.testing.assert_allclose(found, expected, atol=0.002 if 'whole' in form else 0.02
                               if 'compressedDepth of metres' in form else 1e-5)
    assert read(path) == [None]


def test_topics_of_a_truth_are_found_by_their_names(tmp_path):
    disparity, metres = truth_map()
    for name, pixels in (('disparity', disparity), ('depth', metres)):
        path = recordings.write(tmp_path / name, [*pairs(), (
            f'/ground_truth/{name}', START, recordings.image(START, pixels, '32FC1'))])
        found, = read(path)
        np.testing.assert_allclose(found, disparity, atol=1e-5)


def test_a_topic_of_a_truth_without_messages_is_no_truth(tmp_path):
    bags.write_bag(tmp_path / 'bag', CALIBRATION, [(START, *texture(), None)])
    with bags.StereoBag(tmp_path / 'bag') as bag:
        assert bag.topics.truth == ''
        assert bag.warnings() == []
    with pytest.raises(StereoError, match=r'there is no message on ground_truth/.*compressed'):
        bags.StereoBag(tmp_path / 'bag', StereoTopics(truth=bags.TRUTH_TOPIC))


def test_the_truth_of_the_nearest_stamp_within_the_tolerance_counts(tmp_path):
    recorded = pairs(3)
    for offset_ms, value in ((-4, 1.0), (3, 2.0), (105, 3.0), (230, 4.0)):
        stamp = START + offset_ms * 10**6
        recorded.append(('/d/disparity', stamp + 10**9, recordings.image(
            stamp, np.full(SHAPE, value, np.float32), '32FC1')))
    path = recordings.write(tmp_path / 'bag', recorded)
    first, second, third = read(path, truth='d/disparity')
    assert (first[0, 0], second[0, 0], third) == (2.0, 3.0, None)
    assert read(path, truth='d/disparity', truth_tolerance_s=0.03)[2][0, 0] == 4.0
    assert read(path, truth='d/disparity', truth_tolerance_s=0.001) == [None] * 3
    with bags.StereoBag(path, StereoTopics(truth='/d/disparity')) as bag:
        warning, = bag.warnings()
    assert '1 of the first 3 left images have no truth' in warning
    assert '0.03 s away, and --truth-tolerance is 0.01 s' in warning


# A vehicle: odom, base, mast, which turns, with the LiDAR on it; and the camera.

def vehicle(moving_until_ns=10**9):
    """TF, static and dynamic: the vehicle drives and turns, and the mast turns on it."""
    recorded = [('/tf_static', START - 10**9, recordings.transforms(
        START - 10**9, ('base', 'rig', (1, 0, 1.2), STILL),
        ('rig', 'camera', (0, 0.1, 0), OPTICAL), ('mast', 'lidar', (0, 0, 0.4), STILL)))]
    for stamp in range(START - 10**8, START + moving_until_ns, 5 * 10**7):
        t = (stamp - START) / 1e9
        half, turn = 0.3 * t / 2, 0.2 * t / 2
        recorded.append(('/tf', stamp + 10**6, recordings.transforms(
            stamp, ('odom', 'base', (8 * t, t, 0), (0, 0, np.sin(half), np.cos(half))),
            ('base', 'mast', (0.2, 0, 1.0), (0, 0, np.sin(turn), np.cos(turn))))))
    return recorded


def turned(angle, moved):
    pose = np.eye(4)
    pose[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    pose[:3, 3] = moved
    return pose


def poses(t):
    """Base in odom, LiDAR in base, and camera in base at a time in seconds: 4 x 4 each."""
    camera = np.array([[0, 0, 1, 1], [-1, 0, 0, 0.1], [0, -1, 0, 1.2], [0, 0, 0, 1.0]])
    lidar = turned(0.2 * t, (0.2, 0, 1.0)) @ turned(0, (0, 0, 0.4))
    return turned(0.3 * t, (8 * t, t, 0)), lidar, camera


def wall_cloud(cloud_t, pair_t):
    """What a LiDAR measures at one time of points that lie in pixels of the camera at another."""
    columns, rows = np.meshgrid(np.arange(2, WIDTH, 4.0), np.arange(2, HEIGHT, 4.0))
    _, metres = truth_map()
    z = metres[2::4, 2::4].astype(np.float64)
    optical = np.stack([(columns - CALIBRATION.cx_left) * z / CALIBRATION.focal_px,
                        (rows - CALIBRATION.cy) * z / CALIBRATION.focal_px, z,
                        np.ones_like(z)]).reshape(4, -1)
    base_then, _, camera = poses(pair_t)
    base_now, lidar, _ = poses(cloud_t)
    return (np.linalg.inv(base_now @ lidar) @ base_then @ camera @ optical)[:3].T


def assert_is_the_wall(found, tolerance=0.01):
    expected, _ = truth_map()
    sampled = np.zeros(SHAPE, bool)
    sampled[2::4, 2::4] = True
    assert not np.isfinite(found[~sampled]).any()
    known = np.isfinite(found)
    assert known.sum() > 0.7 * sampled.sum()        # but for what lies beside a step
    assert np.abs(found - expected)[known].max() <= tolerance


@pytest.mark.parametrize('kind', ['mcap', 'ros1'])
def test_a_cloud_is_seen_through_static_and_moving_links(tmp_path, kind):
    clouds = [('/points', START + index * 10**8, recordings.cloud(
        START + index * 10**8, wall_cloud(index / 10, index / 10))) for index in range(4)]
    path = recordings.write(tmp_path / 'bag', [*pairs(4), *vehicle(), *clouds], kind)
    found = read(path, truth='/points')
    assert len(found) == 4
    for disparity in found:
        assert_is_the_wall(disparity)
    assert read(path) == [None] * 4     # a cloud may be the stereo camera's own


def test_the_way_of_the_vehicle_between_cloud_and_pair_is_taken_into_account(tmp_path):
    # 20 ms before and between the transforms, whose way is straight but for a turn of 6 mrad.
    cloud = recordings.cloud(START + 8 * 10**7, wall_cloud(0.08, 0.1))
    path = recordings.write(tmp_path / 'bag', [
        *pairs(2), *vehicle(), ('/points', START, cloud)])
    first, second = read(path, truth='/points', truth_tolerance_s=0.03)
    assert first is None
    assert_is_the_wall(second, 0.02)


def test_transforms_are_interpolated_and_names_may_begin_with_a_slash(tmp_path, monkeypatch):
    quarter = (0, 0, np.sin(np.pi / 4), np.cos(np.pi / 4))
    path = recordings.write(tmp_path / 'bag', [*pairs(), *(
        ('/tf', START + k, recordings.transforms(START + k, (
            '/map', '/car', (k, 0, 0), [k and -1 * value for value in turn] if k else turn)))
        for k, turn in ((0, STILL), (100, quarter)))])
    with contextlib.closing(Reader(path)) as reader:
        found = Transforms(reader, 'car', 'map')
        for share in (0, 25, 50, 100):
            np.testing.assert_allclose(
                found.between(START + share, START + share),
                turned(np.pi / 2 * share / 100, (share, 0, 0)), atol=1e-12)
        assert found.between(START - 1, START - 1) is None
        assert found.between(START + 101, START + 101) is None
        monkeypatch.setitem(sys.modules, 'scipy.spatial.transform', None)
        with pytest.raises(StereoError, match='need SciPy: pip install scipy'):
            found.between(START, START)


@pytest.mark.parametrize(('recorded', 'words'), [
    pytest.param([('/tf_static', START, recordings.transforms(
        START, ('base', 'camera', (0, 0, 0), STILL), ('mast', 'lidar', (0, 0, 0), STILL)))],
        "no chain of transforms leads from the frame 'lidar' to 'camera': .* "
        'base, camera, lidar, mast', id='two trees'),
    pytest.param([], '/tf and /tf_static of the bag have no transforms', id='no TF'),
    pytest.param([('/tf_static', START, recordings.transforms(
        START, ('lidar', 'camera', (0, 0, 0), (0, 0, 0, 0))))],
        "transform of the frame 'camera' is none", id='no rotation'),
    pytest.param([('/tf', START, recordings.transforms(
        START - 10**9, ('lidar', 'camera', (0, 0, 0), OPTICAL)))],
        'no left image has a truth in /points. /tf does not cover', id='other times')])
def test_a_cloud_without_its_transforms_is_refused_with_the_reason(
        tmp_path, capsys, recorded, words):
    path = recordings.write(tmp_path / 'bag', [*pairs(), *recorded, (
        '/points', START, recordings.cloud(START, wall_cloud(0, 0)))])
    assert main(['evaluate', str(path), *OPTIONS, '--truth-topic', '/points']) == 2
    error = capsys.readouterr().err
    assert re.search(words, error)
    assert error.count('\n') == 1


@pytest.mark.parametrize(('topic', 'message', 'words'), [
    ('/d/depth', recordings.image(START, np.ones((8, 8), np.float32), '32FC1'),
     'it is 8 x 8, but the left image 96 x 48'),
    ('/d/depth', recordings.image(START, np.ones(SHAPE, np.uint8), 'mono8'),
     "encoding is 'mono8', but must be one of 32FC1, 16UC1"),
    ('/d/compressedDepth', recordings.compressed(START, bytes(40), '32FC1; compressedDepth rvl'),
     'cannot be read: this is ')])
def test_a_truth_that_cannot_be_read_is_named_with_its_topic(tmp_path, topic, message, words):
    path = recordings.write(tmp_path / 'bag', [*pairs(), (topic, START, message)])
    with pytest.raises(StereoError, match=f'the truth in {topic}: .*{words}'):
        read(path, truth=topic)


def test_a_topic_that_is_no_truth_is_refused_with_those_that_may_be(tmp_path, capsys):
    disparity, _ = truth_map()
    path = recordings.write(tmp_path / 'bag', [*pairs(), (
        '/d/disparity', START - 3 * 10**9, recordings.image(
            START - 3 * 10**9, disparity, '32FC1'))])
    assert main(['evaluate', str(path), *OPTIONS, '--truth-topic', '/left/camera_info']) == 2
    assert 'no truth topic /left/camera_info among /d/disparity' in capsys.readouterr().err
    assert main(['evaluate', str(path), *OPTIONS, '--truth-topic', '/d/disparity']) == 2
    assert 'is 999999997.000 s, 3 s away, and --truth-tolerance is 0.01 s' \
        in capsys.readouterr().err


@pytest.mark.parametrize(('kind', 'pad', 'height'), [
    ('<f4', 0, 1), ('<f8', 0, 1), ('>f4', 0, 1), ('<f4', 7, 12)])
def test_every_layout_of_a_cloud_is_read(kind, pad, height):
    points = wall_cloud(0, 0)
    points[:2] = [[np.nan] * 3, [0] * 3]        # no light came back
    found = cloud_truth.points_of(
        recordings.cloud(START, points, kind=kind, pad=pad, height=height))
    np.testing.assert_allclose(found, points[2:], rtol=1e-6)


def test_the_frame_of_raw_images_is_said_to_be_taken_as_rectified(tmp_path, capsys, caplog):
    recorded = pairs()
    for _, _, message in recorded:
        if hasattr(message, 'r'):
            message.r = cv2.Rodrigues(np.array([0, 0.02, 0]))[0].reshape(-1)
    path = recordings.write(tmp_path / 'bag', [*recorded, *vehicle(), (
        '/points', START, recordings.cloud(START, wall_cloud(0, 0)))])
    with caplog.at_level(logging.WARNING):
        assert main(['evaluate', str(path), *OPTIONS, '--truth-topic', '/points']) == 0
    report = json.loads(capsys.readouterr().out)
    assert report['pairs'][0]['score']['known'] == np.isfinite(
        read(path, truth='/points')[0]).sum() > 200
    assert "The frame 'camera' is taken as that of the rectified left image" in caplog.text
    assert '1.1 degrees' in caplog.text


@pytest.mark.parametrize('kind', ['mcap', 'sqlite3'])
def test_reading_takes_no_more_memory_for_a_longer_recording(tmp_path, kind):
    large = np.zeros((240, 320), np.uint8)
    peaks = []
    for count in (10, 40):
        recorded = [message for index in range(count) for message in (
            *recordings.pair(START + index * 10**8, large, large, CALIBRATION, 'camera'),
            ('/points', START + index * 10**8, recordings.cloud(
                START + index * 10**8, np.ones((10_000, 3)), 'camera')))]
        path = recordings.write(tmp_path / f'bag{count}', recorded, kind)
        del recorded
        tracemalloc.start()
        with bags.StereoBag(path, StereoTopics(truth='/points')) as bag:
            tracemalloc.reset_peak()
            assert bag.warnings() == []
            assert sum(1 for _ in bag.read()) == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # 30 pairs more hold 9 MB.
    assert peaks[1] - peaks[0] < 1e6
