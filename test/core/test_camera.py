"""Calibration from CameraInfo: binning, regions of interest, and what is refused."""

from __future__ import annotations

import re
import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stereo_bp_ros.cameras.calibration import Calibration, image_size, projection
from stereo_bp_ros.checks.checks import check_image_size, check_projections
from stereo_bp_ros.errors import InputError
from stereo_bp_ros.issues import IssueCode

FINITE = st.floats(allow_nan=False, allow_infinity=False)


def camera_info(side='left', *, focal=500.0, cx=320.0, cy=240.0, baseline=0.2, binning=(0, 0),
                roi=(0, 0, 0, 0), size=(640, 480)):
    offset = 0.0 if side == 'left' else -focal * baseline
    return types.SimpleNamespace(
        width=size[0], height=size[1], binning_x=binning[0], binning_y=binning[1],
        p=[focal, 0, cx, offset, 0, focal, cy, 0, 0, 0, 1, 0],
        roi=types.SimpleNamespace(x_offset=roi[0], y_offset=roi[1], width=roi[2], height=roi[3]))


def vertical(baseline):
    info = camera_info('right', baseline=0.0)
    info.p[7] = -500.0 * baseline
    return info


def test_focal_length_and_baseline_come_from_the_right_camera():
    calibration = Calibration.from_camera_info(camera_info(), camera_info('right', cx=330.0))
    assert calibration == Calibration(500.0, 0.2, 320.0, 330.0, 240.0, width=640, height=480)
    assert calibration.shift == -10.0


def test_binning_and_region_of_interest_are_applied():
    left = camera_info(binning=(2, 2), roi=(40, 20, 400, 300))
    right = camera_info('right', cx=321.0, binning=(2, 2), roi=(40, 20, 400, 300))
    calibration = Calibration.from_camera_info(left, right)
    assert calibration == Calibration(250.0, 0.2, 140.0, 140.5, 110.0, width=200, height=150)
    assert image_size(left) == (200, 150)
    # Zero counts as one, and as the full sensor.
    assert image_size(camera_info()) == (640, 480)
    assert image_size(camera_info(binning=(1, 2))) == (640, 240)


def test_rows_and_columns_may_have_focal_lengths_of_their_own():
    left, right = (camera_info(side, binning=(2, 1)) for side in ('left', 'right'))
    assert (left.p[5], Calibration.from_camera_info(left, right).focal_y_px) == (500.0, 500.0)
    assert Calibration.from_camera_info(left, right).focal_px == 250.0
    left.p[5] = 0.0         # not known
    assert Calibration.from_camera_info(left, right).focal_y_px == 250.0
    assert Calibration(450.0, 0.2, 320.0, 320.0, 240.0).focal_y_px == 450.0
    left.p[5] = -500.0
    with pytest.raises(InputError, match=r'focal_y_px is -500.0; the vertical focal length must'):
        Calibration.from_camera_info(left, right)


@pytest.mark.parametrize(('fields', 'words'), [
    ({'roi': (40, 20, 620, 300)}, 'ends at x = 660 (x_offset 40, width 620), and width is 640'),
    ({'roi': (2**32 - 1, 0, 0, 0)}, 'ends at x = 4294967296 (x_offset 4294967295, width 0), and'),
    ({'roi': (0, 0, 40, 40), 'binning': (41, 1)}, 'binning_x of the right camera_info is 41'),
    ({'binning': (1, 2**32 - 1)}, 'binning_y of the right camera_info is 4294967295')])
def test_a_region_that_is_no_part_of_the_image_is_refused_in_words(fields, words):
    with pytest.raises(InputError, match=re.escape(words)) as error:
        Calibration.from_camera_info(camera_info(), camera_info('right', **fields))
    assert error.value.code is IssueCode.BAD_CALIBRATION
    assert 'right camera_info' in str(error.value)


def test_a_region_may_end_where_the_image_ends_and_begin_anywhere_in_one_of_unknown_size():
    assert projection('left', camera_info(roi=(40, 20, 600, 460), binning=(600, 1)))
    assert projection('left', camera_info(roi=(40, 20, 0, 0)))
    assert projection('left', camera_info(size=(0, 0), roi=(40, 20, 0, 0), binning=(2, 2)))


@pytest.mark.parametrize(('values', 'words'), [
    (np.array([500, 0, np.nan, 0, 0, 500, 0, 0, 0, 0, 1, 0]), 'left P[2] is nan'),
    (np.array([500, 0, 0, 0, 0, 500, 0, 0, 0, 0, 1, -np.inf]), 'left P[11] is -inf'),
    (np.zeros(100_000), 'left P has 100000 values; it must have 12')])
def test_a_number_that_is_none_is_named_by_its_place(values, words):
    """As ROS gives them, in arrays of NumPy."""
    left = camera_info()
    left.p = values
    with pytest.raises(InputError, match=re.escape(words)) as error:
        Calibration.from_camera_info(left, camera_info('right'))
    assert 'np.' not in str(error.value)
    assert len(str(error.value)) < 200


@pytest.mark.parametrize(('left', 'right', 'reason'), [
    (camera_info(), camera_info('right', baseline=0.0), IssueCode.ZERO_BASELINE),
    (camera_info(), camera_info('right', baseline=-0.2), IssueCode.SWAPPED_CAMERAS),
    (camera_info(), vertical(baseline=0.2), IssueCode.VERTICAL_PAIR),
    (camera_info(focal=0.0), camera_info('right'), IssueCode.BAD_CALIBRATION),
    (camera_info(cx=float('nan')), camera_info('right'), IssueCode.BAD_CALIBRATION),
    (camera_info(), camera_info('right', focal=float('inf')), IssueCode.BAD_CALIBRATION),
])
def test_calibrations_that_cannot_be_are_refused_with_their_reason(left, right, reason):
    with pytest.raises(InputError) as error:
        Calibration.from_camera_info(left, right)
    assert error.value.code is reason


@pytest.mark.parametrize(('name', 'fields'), [
    ('focal_px', {'focal': 4e38}),
    ('focal_px', {'focal': 1e-46}),
    ('baseline_m', {'focal': 1e-10, 'baseline': 1e39}),
    ('focal_px x baseline_m', {'focal': 1e25, 'baseline': 1e10}),
    ('cy', {'cy': -1e39}),
])
def test_numbers_that_float32_does_not_hold_are_refused_by_name(name, fields):
    """They would leave in messages as infinite, or as 0."""
    with pytest.raises(InputError, match=rf'bad calibration: {name} is .*float32'):
        Calibration.from_camera_info(camera_info(**fields), camera_info('right', **fields))
    with pytest.raises(InputError, match=r'cx_left - cx_right is .*float32'):
        Calibration.from_camera_info(camera_info(cx=3e38), camera_info('right', cx=-3e38))


@given(focal=FINITE, baseline=FINITE, cx_left=FINITE, cx_right=FINITE)
def test_an_accepted_calibration_gives_finite_float32_numbers(focal, baseline, cx_left, cx_right):
    try:
        calibration = Calibration(focal, baseline, cx_left, cx_right, 0.0)
    except InputError:
        return
    with np.errstate(over='raise'):
        focal, baseline, shift = (np.float32(value) for value in (
            calibration.focal_px, calibration.baseline_m, calibration.shift))
        least, disparity, most = (np.float32(value) for value in (-4096.0, 1 / 16, 4096.0))
        numbers = (focal, baseline, least - shift, most - shift, focal * baseline / disparity)
    assert focal > 0
    assert baseline > 0
    assert np.isfinite(numbers).all()


def test_an_image_of_another_size_than_its_camera_info_is_refused_naming_both():
    check_image_size('left', camera_info(), 640, 480)
    with pytest.raises(InputError, match=r'the left image is 320 x 240.*describes 640 x 480'):
        check_image_size('left', camera_info(), 320, 240)
    check_image_size('left', camera_info(size=(0, 0)), 320, 240)        # as simulators leave it


@pytest.mark.parametrize(('index', 'value', 'words'), [
    (0, 500.0, ''), (7, 10.0, 'vertical baseline'), (7, 0.4, ''), (0, 505.0, 'depth is wrong'),
    (0, 520.0, 'focal lengths differ'), (5, 505.0, 'rows do not match'), (6, 243.0, '3 rows')])
def test_each_number_of_the_right_camera_that_does_not_fit_is_named(index, value, words):
    """KITTI's colour cameras are 2.7 mm above each other: half a row at 100 px of disparity."""
    right = camera_info('right')
    right.p[index] = value
    issues = check_projections(Calibration.from_camera_info(camera_info(), right))
    assert [words in issue.text for issue in issues] == [True] * bool(words)


def test_what_displaces_both_cameras_alike_is_no_vertical_baseline():
    left, right = camera_info(), camera_info('right')
    left.p[7] = right.p[7] = 10.0
    assert check_projections(Calibration.from_camera_info(left, right)) == []
    right.p[7] = 0.0
    issue, = check_projections(Calibration.from_camera_info(left, right))
    assert 'P[7] (10 and 0)' in issue.text


def test_both_cameras_may_be_displaced_from_the_origin_of_the_rig():
    left, right = camera_info(focal=707.0912), camera_info('right', focal=707.0912)
    left.p[3], right.p[3] = 46.88783, -339.5242        # KITTI's colour cameras
    calibration = Calibration.from_camera_info(left, right)
    assert calibration.baseline_m == pytest.approx(0.5465, abs=1e-4)
    left.p[3], right.p[3] = 1e-13, -141.4
    assert Calibration.from_camera_info(left, right).baseline_m == pytest.approx(0.2, abs=1e-3)


def test_projections_are_arrays_of_3_x_4_or_their_numbers():
    left, right = camera_info(), camera_info('right')
    arrays = [np.reshape(info.p, (3, 4)) for info in (left, right)]
    assert (Calibration.from_projections(*arrays, (640, 480))
            == Calibration.from_projections(left.p, right.p))
    with pytest.raises(InputError, match=r'left P has the shape \(4, 3\); it must be \(3, 4\)'):
        Calibration.from_projections(arrays[0].T, arrays[1])


@pytest.mark.parametrize(('cx_right', 'focal_y'), [(320.0, 500.0), (310.0, 250.0)])
def test_q_is_that_of_opencv_and_leads_back(cx_right, focal_y):
    cv2 = pytest.importorskip('cv2')
    calibration = Calibration(500.0, 0.2, 320.0, cx_right, 240.0, focal_y)
    assert Calibration.from_q(calibration.Q) == calibration
    x, y, z = 1.0, -2.0, 8.0
    disparity = 500.0 * 0.2 / z + calibration.shift
    column, row = 500.0 * x / z + 320.0, focal_y * y / z + 240.0
    point = calibration.Q @ (column, row, disparity, 1)
    assert np.allclose(point[:3] / point[3], (x, y, z))
    if focal_y == 500.0:
        k = np.array([[500.0, 0, 320], [0, 500, 240], [0, 0, 1]])
        q = cv2.stereoRectify(k, np.zeros(5), k, np.zeros(5), (640, 480), np.eye(3),
                              np.array([[-0.2], [0], [0]]))[4]
        assert Calibration.from_q(q).baseline_m == pytest.approx(0.2)


@pytest.mark.parametrize(('q', 'words'), [
    (np.eye(4), r'Q\[3\]\[2\] is 0'), (np.zeros((3, 4)), 'shape'),
    (np.full((4, 4), np.nan), 'finite')])
def test_a_q_without_a_baseline_is_rejected(q, words):
    with pytest.raises(InputError, match=words):
        Calibration.from_q(q)
