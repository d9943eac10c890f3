"""A right camera with an error of calibration: the picture moves as told, the truth stays."""

import dataclasses
import functools

import cv2
import numpy as np
import pytest

from stereo_bp_ros.sources.scenes.misalignment import MAX_ERRORS, Misalignment
from stereo_bp_ros.sources.scenes.renderer import Camera
from stereo_bp_ros.sources.scenes.sequence import RoadSequence
from test.evaluation.streets import TRUTH, assert_same

PERFECT = RoadSequence(width=480, height=240, max_disparity=48, noise_sigma=0.0, frames=20)
INDEX = 3
FOCAL, CX, CY = PERFECT.focal_px, PERFECT.cx, PERFECT.cy
ERRORS = {'vertical_offset_px': 1.5, 'pitch_deg': 0.4, 'yaw_deg': -0.5, 'roll_deg': 0.6,
          'focal_error_percent': 1.2}


@functools.cache
def drawn(**errors):
    return dataclasses.replace(PERFECT, misalignment=Misalignment(**errors)).frame(INDEX)


def camera():
    return Camera(PERFECT.width, PERFECT.height, FOCAL, CX, CY, PERFECT.baseline_m)


def moved(errors, x, y):
    """Where a place of the perfect picture is shown."""
    place = Misalignment(**errors).homography(camera()) @ (x, y, 1)
    return place[:2] / place[2]


def measured_shift(image, reference, x, y, size, guess=(0.0, 0.0)):
    """Of the picture around a place, columns and rows, by Evangelidis and Psarakis (2008)."""
    half = size // 2
    box = (slice(y - half, y + half + 1), slice(x - half, x + half + 1))
    start = np.array([[1, 0, guess[0]], [0, 1, guess[1]]], np.float32)
    alike, found = cv2.findTransformECC(
        reference[box], image, start @ np.array([[1, 0, box[1].start], [0, 1, box[0].start],
                                                 [0, 0, 1]], np.float32), cv2.MOTION_TRANSLATION,
        (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 200, 1e-6))
    assert alike > 0.98
    return found[:, 2] - (box[1].start, box[0].start)


def test_truth_masks_and_left_image_stay_those_of_the_perfect_pair():
    frame, perfect = drawn(**ERRORS), drawn()
    assert_same(frame, perfect, 'left', *TRUTH)
    assert np.mean(frame.right != perfect.right) > 0.5


@pytest.mark.parametrize('rows', [-7, 6])
def test_a_vertical_offset_moves_the_rows_by_as_many(rows):
    right, perfect = drawn(vertical_offset_px=float(rows)).right, drawn().right
    inside, other = (slice(max(0, by), PERFECT.height + min(0, by)) for by in (rows, -rows))
    difference = np.abs(right[inside].astype(int) - perfect[other])
    # The wider picture is drawn anew: where a sample lies on an edge it may fall to either side.
    assert difference.max() <= 1
    assert np.count_nonzero(difference) < 1e-3 * difference.size
    # Beyond the perfect picture's border there is street, not a repeated row.
    rim = right[:rows] if rows > 0 else right[rows:]
    assert np.abs(np.diff(rim.astype(int), axis=1)).mean() > 1
    assert np.abs(np.diff(right.astype(int), axis=0)).sum(axis=1).min() > 0


def test_an_offset_of_half_a_row_moves_the_picture_by_it_without_blur():
    offset = drawn(vertical_offset_px=0.5).right
    shift = measured_shift(offset, drawn().right, 240, 130, 81)
    np.testing.assert_allclose(shift, (0, 0.5), atol=0.03)
    # Else a curve over an error would measure the blur of its interpolation, too.
    detail = [np.abs(cv2.Laplacian(image, cv2.CV_32F)).mean() for image in (
        drawn().right, offset, drawn(roll_deg=1.0).right)]
    assert min(detail[1:]) > 0.85 * detail[0]
    # Nor is the sensor's noise interpolated.
    noisy = dataclasses.replace(PERFECT, noise_sigma=4.0,
                                misalignment=Misalignment(vertical_offset_px=0.5)).frame(INDEX)
    use = (offset > 20) & (offset < 235)
    assert (noisy.right - offset.astype(float))[use].std() == pytest.approx(4.0, rel=0.05)


@pytest.mark.parametrize('degrees', [-0.6, 1.0])
def test_an_error_of_an_angle_shifts_the_middle_by_the_focal_length_times_its_tangent(degrees):
    pixels = FOCAL * np.tan(np.radians(degrees))
    np.testing.assert_allclose(moved({'pitch_deg': degrees}, CX, CY), (CX, CY + pixels))
    np.testing.assert_allclose(moved({'yaw_deg': degrees}, CX, CY), (CX - pixels, CY))
    np.testing.assert_allclose(moved({'roll_deg': degrees}, CX, CY), (CX, CY))
    for name, shift in (('pitch_deg', (0, pixels)), ('yaw_deg', (-pixels, 0))):
        image = drawn(**{name: degrees}).right
        found = measured_shift(image, drawn().right, round(CX), round(CY), 61, shift)
        np.testing.assert_allclose(found, shift, atol=0.03)


def test_a_roll_turns_the_picture_and_a_longer_focal_length_enlarges_it():
    """About the principal point."""
    turn = np.radians(1)
    np.testing.assert_allclose(moved({'roll_deg': 1.0}, CX + 100, CY),
                               (CX + 100 * np.cos(turn), CY - 100 * np.sin(turn)))
    for x in (120, 360):
        shift = (0, (CX - x) * np.sin(turn))
        found = measured_shift(drawn(roll_deg=1.0).right, drawn().right, x, round(CY), 41, shift)
        np.testing.assert_allclose(found, shift, atol=0.25)
    np.testing.assert_allclose(moved({'focal_error_percent': 2.0}, CX + 100, CY - 50),
                               (CX + 102, CY - 51))
    shift = (0.02 * (120 - CX), 0.02 * (130 - CY))
    longer = drawn(focal_error_percent=2.0).right
    np.testing.assert_allclose(measured_shift(longer, drawn().right, 120, 130, 41, shift), shift,
                               atol=0.1)


def test_errors_follow_each_other_as_described():
    angles = {name: ERRORS[name] for name in ('pitch_deg', 'yaw_deg', 'roll_deg')}
    place = np.array([300.0, 50.0])
    for name in ('yaw_deg', 'pitch_deg', 'roll_deg'):
        place = moved({name: angles[name]}, *place)
    np.testing.assert_allclose(moved(angles, 300.0, 50.0), place)


def test_a_white_sky_stays_white_in_a_misaligned_camera():
    hard = dataclasses.replace(RoadSequence.hard(width=320, height=160, max_disparity=32),
                               noise_sigma=0.0)
    perfect, frame, half = (
        dataclasses.replace(hard, misalignment=Misalignment(vertical_offset_px=rows)).frame(INDEX)
        for rows in (0.0, 3.0, 0.5))
    np.testing.assert_array_equal(frame.occluded, perfect.occluded)
    assert (perfect.right == 255).mean() > 0.05
    difference = np.abs(frame.right[3:].astype(int) - perfect.right[:-3])
    assert np.percentile(difference, 99) <= 1
    # No ringing: nothing is darker than what stands there.
    inside = (slice(2, -2), slice(2, -2))
    dark = cv2.erode(perfect.right, np.ones((5, 5), np.uint8)).astype(int)
    assert (half.right[inside] >= dark[inside] - 1).all()
    white = cv2.erode((perfect.right == 255).astype(np.uint8), np.ones((11, 11), np.uint8)) > 0
    assert (half.right[white] == 255).all()


@pytest.mark.parametrize('name', MAX_ERRORS)
def test_an_error_beyond_its_bounds_is_refused_in_words(name):
    for value in (-1.1 * MAX_ERRORS[name], float('nan')):
        with pytest.raises(ValueError, match=f'{name} is .* but must be from -'):
            Misalignment(**{name: value})
