"""Stereo bags: written, read back, found by their topics."""

from __future__ import annotations

import numpy as np
import pytest

from stereo_bp_ros import Calibration, StereoError
from stereo_bp_ros.evaluation import bags

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
        assert opened.pairs == 3
        pairs = sorted(opened.read(), key=lambda pair: pair.stamp_ns)
    assert [p.stamp_ns for p in pairs] == [10**18 + i * 10**8 for i in range(3)]
    assert [int(p.left.pixels[0, 0]) for p in pairs] == [10, 11, 12]
    assert [int(p.right.pixels[0, 0]) for p in pairs] == [20, 21, 22]
    assert all(p.calibration == CALIBRATION for p in pairs)
    assert pairs[1].disparity is None
    truth = pairs[2].disparity
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


def test_rectified_and_raw_topics_are_preferred():
    image, compressed, info = bags.IMAGE, bags.COMPRESSED_IMAGE, bags.CAMERA_INFO
    topics = bags.find_stereo_topics({
        '/cam/left/image_raw': image, '/cam/left/image_rect': image,
        '/cam/left/image_rect/compressed': compressed, '/cam/left/camera_info': info,
        '/cam/right/image_raw': image, '/cam/right/image_rect': image,
        '/cam/right/camera_info': info, '/imu': 'sensor_msgs/msg/Imu'})
    assert topics.left_image == '/cam/left/image_rect'
    assert topics.right_image == '/cam/right/image_rect'
    assert topics.right_info == '/cam/right/camera_info'
    assert topics.truth == ''


def test_topics_that_cannot_be_told_apart_are_listed():
    with pytest.raises(StereoError, match=r'several left topics.*/a/left.*/b/left'):
        bags.find_stereo_topics({'/a/left': bags.IMAGE, '/b/left': bags.IMAGE})
    with pytest.raises(StereoError, match=r'no left topic.*/imu'):
        bags.find_stereo_topics({'/imu': 'sensor_msgs/msg/Imu'})


def test_what_is_no_bag_is_named(tmp_path):
    with pytest.raises(StereoError, match='nothing'):
        bags.StereoBag(tmp_path / 'nothing')
