"""A camera that is turned about its vertical axis: told by motion and by far points."""

from __future__ import annotations

import functools
import pathlib

import cv2
import numpy as np
import pytest

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.cameras.yaw import (
    DisparityOffset,
    FarPoints,
    disparity_offset,
    far_points,
    match_points,
)
from stereo_bp_ros.sources.datasets.dataset import open_dataset
from stereo_bp_ros.sources.scenes.misalignment import Misalignment
from stereo_bp_ros.sources.scenes.sequence import RoadSequence

LAST = 63
#: Disparity that a yaw of 0.2 degrees adds to the street's, pixels.
OF_YAW = 576 * np.tan(np.radians(0.2))


@functools.cache
def street(misalignment: Misalignment) -> RoadSequence:
    return RoadSequence(width=640, height=240, misalignment=misalignment)


def moved(sequence: RoadSequence, first: int = 20, later: int = 5) -> DisparityOffset | None:
    """The offset by the motion from one frame to a later one."""
    before, after = sequence.frame(first), sequence.frame(first + later)
    points, _ = match_points(before.left, before.right, sequence.calibration, LAST)
    return disparity_offset(before.left, points, after.left, after.right, sequence.calibration,
                            LAST)


@pytest.mark.parametrize('yaw', [0.0, 0.2, -0.2])
def test_half_a_second_of_driving_tells_a_yaw_of_either_sign(yaw: float) -> None:
    found = moved(street(Misalignment(yaw_deg=yaw)))
    assert found is not None
    assert found.offset == pytest.approx(np.sign(yaw) * OF_YAW, abs=0.25)
    assert found.sigma < 0.2


def test_other_errors_are_no_yaw() -> None:
    for error in (Misalignment(roll_deg=0.5), Misalignment(pitch_deg=0.2),
                  Misalignment(focal_error_percent=1)):
        found = moved(street(error))
        assert found is not None
        assert abs(found.offset) < 0.4, error


def test_cameras_at_rest_tell_nothing() -> None:
    assert moved(street(Misalignment()), later=0) is None


def test_far_points_are_behind_infinity_where_disparities_are_too_small() -> None:
    far = {}
    for yaw in (0.0, 0.2, -0.2):
        sequence = street(Misalignment(yaw_deg=yaw))
        frame = sequence.frame(60)
        points, _ = match_points(frame.left, frame.right, sequence.calibration, LAST)
        far[yaw] = far_points(points, sequence.calibration)
    assert far[0.0].negative == far[0.2].negative == 0
    assert far[-0.2].number >= 5
    assert far[-0.2].negative >= 1
    assert -OF_YAW < far[-0.2].offset < -0.5


def test_images_without_corners_have_no_points() -> None:
    plain = np.full((120, 160), 128, np.uint8)
    calibration = Calibration(150, 0.1, 80, 80, 60)
    points, index = match_points(plain, plain, calibration, LAST)
    assert len(index) == 0
    assert far_points(points, calibration) == FarPoints(0, 0, 0.0)
    assert disparity_offset(plain, points, plain, plain, calibration, LAST) is None


def test_no_far_point_of_a_real_road_is_behind_infinity(data: pathlib.Path) -> None:
    pairs = open_dataset(data / 'kitti2012')
    assert len(pairs) == 5
    calibration = Calibration(707.09, 0.537, 601.9, 601.9, 183.1)
    for pair in pairs:
        left, right = (cv2.cvtColor(image, cv2.COLOR_BGR2GRAY) if image.ndim == 3 else image
                       for image in (pair.left, pair.right))
        points, _ = match_points(left, right, calibration, 127)
        assert len(points.places) > 40
        assert far_points(points, calibration).negative == 0
