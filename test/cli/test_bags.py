"""Stereo bags: written, read back, found by their topics."""

from __future__ import annotations

import json
import types

import numpy as np
import pytest
from rosbags.typesys import Stores, get_typestore

from stereo_bp_ros import Calibration, StereoError
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.evaluation import bags
from stereo_bp_ros.evaluation.bag_rectification import why_not_rectified
from stereo_bp_ros.evaluation.sources import open_pairs
from test.cases import every
from test.cli import recordings

CALIBRATION = Calibration(400.0, 0.25, 31.5, 33.5, 20.0)


@pytest.fixture
def bag(tmp_path):
    """Three pairs, the second without truth."""
    frames = []
    for index in range(3):
        truth = np.full((32, 64), index + 1.5, np.float32)
        truth[0, 0] = np.nan
        truth[1, 1] = 0
        frames.append((10**18 + index * 10**8, np.full((32, 64), 10 + index, np.uint8),
                       np.full((32, 64), 20 + index, np.uint8), None if index == 1 else truth))
    bags.write_bag(tmp_path / 'bag', CALIBRATION, frames)
    return tmp_path / 'bag'


def test_pairs_calibration_and_truth_come_back(bag):
    with bags.StereoBag(bag) as opened:
        assert opened.count == 3
        pairs = sorted(opened.read(), key=lambda pair: pair.stamp_ns)
    assert [p.stamp_ns for p in pairs] == [10**18 + i * 10**8 for i in range(3)]
    assert [int(p.left.pixels[0, 0]) for p in pairs] == [10, 11, 12]
    assert [int(p.right.pixels[0, 0]) for p in pairs] == [20, 21, 22]
    assert every(p.calibration == CALIBRATION for p in pairs)
    assert pairs[1].truth is None
    truth = pairs[2].truth
    assert np.isnan(truth[0, 0])
    assert truth[5, 5] == 3.5
    assert 0 < truth[1, 1] < 0.01       # infinitely far is known, and stays so


def test_a_bag_is_not_overwritten(bag):
    with pytest.raises(StereoError, match='not overwritten'):
        bags.StereoBagWriter(bag, CALIBRATION)


def test_stamps_are_read_and_replaced_in_the_bytes():
    data = bags.serialize_camera_info(5 * 10**9 + 7, 'left', CALIBRATION, 64, 32)
    assert bags.stamp_of(data) == 5 * 10**9 + 7
    changed = bags.with_stamp(data, 123456789012345678)
    assert bags.stamp_of(changed) == 123456789012345678
    assert bytes(changed[12:]) == bytes(data[12:])


def write_ros1_bag(path, sides=('left', 'right'), name='image_rect', d=(0.0,) * 5, count=3):
    """Pairs in a ROS 1 bag, with header.seq and CameraInfo's D, K, R and P."""
    recorded = []
    for index in range(count):
        stamp_ns = 10**18 + index * 10**8 + 7
        images = (np.full((32, 64), level + index, np.uint8) for level in (10, 20))
        for topic, _, message in recordings.pair(stamp_ns, *images, CALIBRATION):
            _, side, topic = topic.split('/')
            message.header.frame_id = side = sides[side == 'right']
            if topic == 'camera_info':
                message.d = np.array(d)
            recorded.append((f'/{side}/{topic.replace("image_rect", name)}', stamp_ns + 10**6,
                             message))
    return recordings.write(path, recorded, 'ros1')


def test_a_ros_1_bag_is_read(tmp_path):
    with bags.StereoBag(write_ros1_bag(tmp_path / 'old.bag')) as bag:
        assert bag.is_ros1
        assert bag.count == 3
        assert bag.warnings() == []
        pairs = list(bag.read())
    assert [p.stamp_ns for p in pairs] == [10**18 + i * 10**8 + 7 for i in range(3)]
    assert [int(p.left.pixels[3, 5]) for p in pairs] == [10, 11, 12]
    assert [int(p.right.pixels[3, 5]) for p in pairs] == [20, 21, 22]
    assert every(p.calibration == CALIBRATION for p in pairs)


def test_a_ros_1_bag_is_played_as_the_messages_of_ros_2(tmp_path):
    ros2 = get_typestore(Stores.ROS2_KILTED)
    with bags.StereoBag(write_ros1_bag(tmp_path / 'old.bag')) as bag:
        events = list(bag.raw())
    assert len(events) == 12
    seen = set()
    for topic, time_ns, data in events:
        kind = bags.CAMERA_INFO if topic.endswith('info') else bags.IMAGE
        message = ros2.deserialize_cdr(data, kind)
        stamp_ns = message.header.stamp.sec * 10**9 + message.header.stamp.nanosec
        assert time_ns == stamp_ns + 10**6
        assert bags.stamp_of(data) == stamp_ns
        side = topic.partition('/')[0]
        assert message.header.frame_id == side
        assert (message.width, message.height) == (64, 32)
        if kind == bags.CAMERA_INFO:
            assert message.p[3] == (0 if side == 'left' else -100)
            assert list(message.r) == [1, 0, 0, 0, 1, 0, 0, 0, 1]
        else:
            assert message.data.size == 32 * 64
        seen.add(topic)
    assert seen == {'left/image_rect', 'left/camera_info', 'right/image_rect',
                    'right/camera_info'}


def info(d=(0.0,) * 5, k=(400.0, 0, 32, 0, 400, 20, 0, 0, 1), r=(1, 0, 0, 0, 1, 0, 0, 0, 1),
         p=(400.0, 0, 32, 0, 0, 400, 20, 0, 0, 0, 1, 0), model='plumb_bob'):
    return types.SimpleNamespace(distortion_model=model, d=np.array(d), k=np.array(k),
                                 r=np.array(r), p=np.array(p))


DISTORTED = (-0.3, 0.1, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(('topic', 'message', 'reason'), [
    ('/left/image_raw', info(d=DISTORTED), 'distortion'),
    ('/left/image_raw', info(r=(0, 1, 0, -1, 0, 0, 0, 0, 1)), 'a rotation R'),
    ('/left/image', info(k=(390.0, 0, 32, 0, 390, 20, 0, 0, 1)), 'K unlike P'),
    ('/left/image_raw', info(model='equidistant'), 'an equidistant lens'),      # whatever its D
    ('/left/image_raw', info(), ''),                        # rendered, or rectified offline
    ('/left/image_rect', info(d=DISTORTED), ''),            # image_proc keeps the camera_info
    ('/left/image_raw', info(k=(0,) * 9), '')])             # says nothing about the camera
def test_images_that_are_not_rectified_are_told_from_their_camera_info(topic, message, reason):
    warning = why_not_rectified(topic, message)
    if reason:
        assert reason in warning
        assert f'{topic} is not rectified' in warning
    else:
        assert warning == ''


def test_evaluate_takes_a_ros_1_bag_and_says_that_its_images_are_not_rectified(
        tmp_path, capsys, caplog):
    path = write_ros1_bag(tmp_path / 'old.bag', sides=('a', 'b'), name='image_raw', d=DISTORTED)
    command = ['evaluate', str(path), '--preset', 'sad_fast', '--set', 'disparity_range=16',
               '--repeat', '1', '--backend', 'cpu', '--json']
    assert main(command) == 2
    assert f'{tmp_path}' in (said := capsys.readouterr().err)
    assert 'no pair of left and right image topics' in said
    assert main([*command, '--left', '/a/image_raw', '--right', '/b/image_raw']) == 0
    assert len(json.loads(capsys.readouterr().out)['pairs']) == 3
    assert '/a/image_raw is not rectified: its camera_info has distortion' in caplog.text
    assert caplog.text.count('/a/image_raw is not rectified') == 1
    # A report opens a bag again for each loop of a run, and does not say it again.
    caplog.clear()
    topics = bags.StereoTopics('/a/image_raw', '/b/image_raw')
    assert len(list(open_pairs(path, topics)[1])) == 3
    assert caplog.text == ''


def test_what_is_no_bag_is_named(tmp_path):
    with pytest.raises(StereoError, match='nothing'):
        bags.StereoBag(tmp_path / 'nothing')
