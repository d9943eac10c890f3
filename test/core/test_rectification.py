"""Rectification from CameraInfo: its maps, its models, and what is refused."""

from __future__ import annotations

import dataclasses
import types

import numpy as np
import pytest

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.cameras.rectification import IDENTITY, Maps, RawCamera, Rectification, RightWarp
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.errors import ConfigError, InputError
from stereo_bp_ros.issues import IssueCode
from stereo_bp_ros.matcher.stereo_matcher import StereoMatcher
from test.other_nodes import package
from test.raw_cameras import (
    BASELINE,
    COEFFICIENTS,
    FOCAL,
    HEIGHT,
    MODELS,
    PLUMB_BOB,
    WIDTH,
    K,
    camera_info,
    projected,
    rectification,
)


def positions(found: Rectification, side: str) -> np.ndarray:
    """Where the rectified pixels lie in the raw image, H x W x 2, pixels."""
    return positions_of(found.maps(side))


def positions_of(maps: Maps) -> np.ndarray:
    whole, parts = maps
    assert whole.dtype == np.int16
    assert parts.dtype == np.uint16
    assert parts.max() < 1024
    return whole + np.stack([parts % 32, parts // 32], -1) / 32


@pytest.mark.parametrize(('model', 'd'), MODELS)
def test_maps_lead_to_the_raw_pixel_that_shows_the_same_point(model, d):
    side = 'left' if len(d) == 5 else 'right'
    found = rectification(model=model, d=d)
    info = camera_info(side, model=model, d=d)
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    expected = projected(info, np.stack([x, y], -1).reshape(-1, 2).astype(float))
    difference = positions(found, side).reshape(-1, 2) - expected
    # 32nds of a pixel, rounded to the nearest.
    assert np.abs(difference).max() <= 1 / 64 + 1e-6


@pytest.mark.parametrize(('model', 'd'), [one for one in MODELS if one[0] != 'equidistant'])
def test_image_geometry_of_python_rectifies_these_raw_pixels_to_the_same_pixels(model, d):
    """Equidistant cameras it takes for others."""
    info = camera_info(model=model, d=d)
    info.header = types.SimpleNamespace(frame_id='left_camera', stamp=0)
    camera = package('image_geometry').PinholeCameraModel()
    camera.fromCameraInfo(info)
    raw = positions(rectification(model=model, d=d), 'left')
    for y, x in np.ndindex(HEIGHT // 20, WIDTH // 20):
        found = camera.rectifyPoint(raw[20 * y, 20 * x])
        np.testing.assert_allclose(found, (20 * x, 20 * y), atol=1 / 16)


@pytest.mark.parametrize('model', COEFFICIENTS)
@pytest.mark.parametrize('r', [IDENTITY, (0.0,) * 9])
def test_a_camera_without_distortion_or_rotation_is_mapped_to_itself(model, r):
    """Of equidistant cameras this is the projection, which no coefficient is needed for."""
    k = (FOCAL, 0, 46.0, 0, FOCAL, 30.0, 0, 0, 1)
    found = rectification(model=model, d=(), k=k, r=r)
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    if model == 'equidistant':
        expected = projected(camera_info(model=model, d=(0.0,) * 4, k=k, r=IDENTITY),
                             np.stack([x, y], -1).reshape(-1, 2)).reshape(HEIGHT, WIDTH, 2)
        assert np.abs(positions(found, 'left') - expected).max() <= 1 / 64 + 1e-6
    else:
        np.testing.assert_array_equal(positions(found, 'left'), np.stack([x, y], -1))


@pytest.mark.parametrize('model', COEFFICIENTS)
def test_a_region_of_interest_is_a_piece_of_the_whole_sensor(model):
    d = COEFFICIENTS[model][0]
    whole = positions(rectification(model=model, d=d), 'left')
    piece = rectification(model=model, d=d, roi=(10, 6, 50, 40))
    assert (piece.width, piece.height) == (50, 40)
    difference = positions(piece, 'left') - (whole[6:46, 10:60] - [10, 6])
    assert np.abs(difference).max() <= 1 / 32
    assert piece.calibration.cx_left == 36.0


def test_binning_scales_positions_and_calibration():
    whole = positions(rectification(size=(96, 60)), 'right')
    binned = rectification(binning=(2, 2), size=(96, 60))
    assert (binned.width, binned.height) == (48, 30)
    difference = positions(binned, 'right') - whole[::2, ::2] / 2
    assert np.abs(difference).max() <= 1 / 32
    assert binned.calibration == Calibration(FOCAL / 2, BASELINE, 23.0, 23.0, 15.0)


def test_another_size_of_the_rectified_images_scales_their_projection_alone():
    whole = rectification(size=(96, 60))
    half = Rectification.from_camera_info(camera_info(size=(96, 60)),
                                          camera_info('right', size=(96, 60)), 48, 30)
    assert (half.width, half.height) == (96, 60)
    assert half.calibration == Calibration(FOCAL / 2, BASELINE, 23.0, 23.0, 15.0)
    np.testing.assert_array_equal(positions(half, 'left'), positions(whole, 'left')[::2, ::2])


HOMOGRAPHY = (1.003, 0.02, -1.4, -0.015, 1.004, 1.7, 2e-5, 1e-5, 1.0)


@pytest.mark.parametrize(('model', 'd'), MODELS)
def test_a_homography_is_applied_to_rectified_pixels_before_the_camera(model, d):
    """Whatever the model: OpenCV takes any 3 x 3 matrix in place of P, for fisheye, too."""
    found, info = rectification(model=model, d=d), camera_info('right', model=model, d=d)
    at = positions_of(found.maps('right', HOMOGRAPHY))
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    pixels = np.stack([x, y, np.ones_like(x)], -1).reshape(-1, 3) @ np.reshape(
        HOMOGRAPHY, (3, 3)).T
    expected = projected(info, pixels[:, :2] / pixels[:, 2:]).reshape(HEIGHT, WIDTH, 2)
    assert np.abs(at - expected).max() < 1 / 64 + 1e-3


@pytest.mark.parametrize(('model', 'd'), MODELS)
def test_rows_of_a_warp_beside_its_homography_are_those_of_rectified_pixels(model, d):
    found, info = rectification(model=model, d=d), camera_info('right', model=model, d=d)
    k, column, row = 1e-3, 48.0, 30.0
    at = positions_of(found.maps('right', (*HOMOGRAPHY, k, column, row)))
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    pixels = np.stack([x, y, np.ones_like(x)], -1) @ np.reshape(HOMOGRAPHY, (3, 3)).T
    pixels = pixels[..., :2] / pixels[..., 2:]
    pixels[..., 1] += k * (x - column) * (y - row)      # of warped ones
    expected = projected(info, pixels.reshape(-1, 2)).reshape(HEIGHT, WIDTH, 2)
    assert np.abs(at - expected).max() < 0.06


def test_a_warp_of_rectified_images_is_its_homography_and_its_maps_are_computed_once():
    warp = RightWarp(HOMOGRAPHY)
    warp.prepare(None, 640, 480)
    maps = warp.maps
    y, x = np.mgrid[:480, :640]
    pixels = np.stack([x, y, np.ones_like(x)], -1) @ np.reshape(HOMOGRAPHY, (3, 3)).T
    at = positions_of(maps)
    assert np.abs(at - pixels[..., :2] / pixels[..., 2:]).max() < 1 / 64 + 1e-3
    warp.prepare(None, 640, 480)
    assert warp.maps is maps
    warp.prepare(rectification(), WIDTH, HEIGHT)
    for one, other in zip(warp.maps, rectification().maps('right', HOMOGRAPHY), strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(InputError, match='32767 x 8 to be warped'):
        warp.prepare(None, 32767, 8)


def test_rectifications_are_equal_and_hashed_by_value():
    info = camera_info()
    camera = RawCamera('plumb_bob', np.array(info.d), np.reshape(info.k, (3, 3)),
                       np.reshape(info.r, (3, 3)), np.reshape(info.p, (3, 4)))
    assert camera == RawCamera.from_camera_info('left', info)
    assert rectification() == rectification()
    assert len({rectification(), rectification(), rectification(d=PLUMB_BOB[:4])}) == 2
    changed = [rectification(**fields) for fields in (
        {}, {'d': (*PLUMB_BOB[:4], 0.02)}, {'k': (FOCAL + 1, *K[1:])}, {'r': IDENTITY},
        {'roi': (2, 0, 0, 0)}, {'binning': (2, 2)})]
    assert len(set(changed)) == len(changed)


NAN = float('nan')


@pytest.mark.parametrize(('fields', 'words'), [
    ({'model': 'thin_prism'}, "distortion model is 'thin_prism'; rectify needs one of"),
    ({'d': (0.1,) * 3}, 'D has 3 values; it must have 0 or 4 or 5 or 8 or 12 or 14'),
    ({'model': 'equidistant', 'd': (0.1,) * 5}, 'D has 5 values; it must have 0 or 4'),
    ({'d': (0.1, NAN, 0, 0, 0)}, r'D\[1\] is nan; .*finite'),
    ({'k': (0,) * 9}, r'K\[0\] is 0; .*is the camera calibrated'),
    ({'k': (FOCAL, 0, NAN, *K[3:])}, r'K\[2\] is nan; .*finite'),
    ({'r': (*IDENTITY[:8], NAN)}, r'R\[8\] is nan; .*finite'),
    ({'r': (-1.0, *IDENTITY[1:])}, r'R is \[-1.0, .*must be a rotation'),
    ({'r': (1e200, *IDENTITY[1:])}, r'R is \[1e\+200, .*must be a rotation'),
    ({'p': (0.0,) * 12}, r'P\[0\] is 0; .*is the camera calibrated'),
])
@pytest.mark.filterwarnings('error')
def test_what_no_image_can_be_rectified_with_is_refused_in_words(fields, words):
    with pytest.raises(InputError, match=f'bad calibration: left {words}') as error:
        rectification(**fields)
    assert error.value.code is IssueCode.BAD_CALIBRATION


def test_a_pair_that_has_no_geometry_is_refused():
    with pytest.raises(InputError) as error:
        Rectification.from_camera_info(camera_info('right'), camera_info('left'))
    assert error.value.code is IssueCode.SWAPPED_CAMERAS
    with pytest.raises(InputError, match='right distortion model'):
        Rectification.from_camera_info(camera_info(), camera_info('right', model='unknown'))
    with pytest.raises(InputError, match='97 x 61 and 96 x 61') as error:
        Rectification.from_camera_info(camera_info(), camera_info('right', size=(96, 61)))
    assert error.value.code is IssueCode.SIZE_MISMATCH


@pytest.mark.parametrize(('size', 'reason'), [((32767, 60), IssueCode.TOO_LARGE),
                                              ((0, 60), IssueCode.BAD_SIZE)])
def test_sizes_that_the_maps_do_not_hold_are_refused(size, reason):
    with pytest.raises(InputError) as error:
        rectification(size=size)
    assert error.value.code is reason
    with pytest.raises(InputError, match='32766 pixels'):
        dataclasses.replace(rectification(), rectified_width=40000)
    for name, value in (('rectified_width', 96.0), ('width', 97.0), ('height', True)):
        with pytest.raises(InputError, match=f'{name} is {value}; .* whole number') as error:
            dataclasses.replace(rectification(), **{name: value})
        assert error.value.code is IssueCode.BAD_SIZE


def test_a_keystone_moves_an_image_of_one_row_as_the_first_row_of_two():
    keystone = (1, 0, 0, 0, 1, 0.5, 0, 0, 1, 1e-3, 3, 7)
    one, two = (rectification().left.maps(97, height, keystone) for height in (1, 2))
    for found, wanted in zip(one, two, strict=True):
        assert found.shape[:2] == (1, 97)
        np.testing.assert_array_equal(found, wanted[:1])


# StereoMatcher with raw pairs

SMALL = MatcherConfig(disparity_range=16, levels=3, iterations=4, backend='cpu')


def test_raw_images_need_a_rectification_and_it_needs_the_setting(textured_pair):
    left, right = textured_pair(97, 61, 5)
    found = rectification()
    with StereoMatcher(SMALL.replace(rectify=True)) as matcher:
        with pytest.raises(InputError, match='no rectification was given; the setting rectify'):
            matcher.compute(left, right)
        assert matcher.submit(left, right, rectification=found).result().disparity is not None
    with StereoMatcher(SMALL) as matcher, pytest.raises(ConfigError, match='rectify is False'):
        matcher.compute(left, right, rectification=found)


def test_a_rectification_of_other_sizes_is_refused_naming_both(textured_pair):
    with StereoMatcher(SMALL.replace(rectify=True)) as matcher:
        with pytest.raises(InputError, match='images are 96 x 61; the rectification has 97 x 61'):
            matcher.compute(*textured_pair(96, 61, 5), rectification=rectification())
        small = dataclasses.replace(rectification(), rectified_width=48, rectified_height=30)
        with pytest.raises(InputError, match=r'rectified images are 97 x 61; .* has 48 x 30'):
            matcher.compute(*textured_pair(97, 61, 5), rectification=small)


def test_a_rectification_shifts_disparities_as_its_calibration_does(textured_pair):
    pair = textured_pair(97, 61, 5)
    shifted = Rectification.from_camera_info(
        camera_info(), camera_info('right', p=(80, 0, 43.0, -16, 0, 80, 30, 0, 0, 0, 1, 0)))
    with StereoMatcher(SMALL.replace(rectify=True)) as matcher:
        frame = matcher.compute(*pair, rectification=shifted)
        given = Calibration(80, 0.2, 46, 44, 30)
        other = matcher.compute(*pair, rectification=shifted, calibration=given)
    assert (frame.min_disparity, other.min_disparity) == (-3, -2)
