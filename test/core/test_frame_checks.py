"""What the pixels of frames show, and the issues that come of it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from stereo_bp_ros import StereoMatcher
from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.checks.frame_checks import (
    LOOKS,
    NO_LONGER_PILED_UP,
    PILED_UP,
    FrameChecks,
    FrameQuality,
    frame_quality,
)
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.engines import geometry
from stereo_bp_ros.frame.disparity_frame import OUTPUTS, DisparityFrame
from stereo_bp_ros.images.grey import to_8_bits
from stereo_bp_ros.images.raw_images import RawImage
from stereo_bp_ros.issues import IssueCode
from test.cases import every
from test.slanted_plane import SlantedPlane


def test_images_of_every_kind_of_encoding_are_measured_by_their_grey_values() -> None:
    grey = np.random.default_rng(0).integers(0, 256, (24, 32), np.uint8)
    for pixels, encoding in (
            (grey.astype(np.uint16) << 8, 'mono16'), (grey[..., None].repeat(3, 2), 'rgb8'),
            (np.stack((np.full_like(grey, 128), grey), 2), 'yuv422')):
        assert np.array_equal(to_8_bits(RawImage.from_array(pixels, encoding), 1 / 256), grey)
    assert np.ptp(to_8_bits(RawImage.from_array(np.full_like(grey, 9), 'bayer_rggb8'), 1)) == 0


CAMERA = Calibration(focal_px=700.0, baseline_m=0.12, cx_left=320.0, cx_right=320.0, cy=240.0)
W, H = 160, 96


def make_frame(config: MatcherConfig, values: np.ndarray | float, output: str = 'disparity',
               calibration: Calibration = CAMERA) -> DisparityFrame:
    """A frame of which every pixel of the window has a value, or one of a row of values."""
    shift = calibration.shift if config.pre_adjust_disparity else 0.0
    arrays: dict[str, Any] = {'disparity': None, 'depth': None,
                              output: np.broadcast_to(
                                  np.asarray(values, OUTPUTS[output].dtype), (H, W)).copy()}
    return DisparityFrame(
        **arrays, confidence=None, min_disparity=config.min_disparity - shift,
        max_disparity=config.min_disparity + config.disparity_range - 1 - shift,
        delta_d=geometry.disparity_step(config),
        valid_window=geometry.valid_window(config, W, H), timings={}, backend='cpu')


def judged(config: MatcherConfig, values: np.ndarray | float, output: str = 'disparity',
           calibration: Calibration = CAMERA) -> FrameQuality:
    found = frame_quality(make_frame(config, values, output, calibration), config, calibration)
    assert found is not None
    return found


@pytest.mark.parametrize(('settings', 'nearest', 'farthest'), [
    ({'subpixel': False}, 84 / 63, 84.0),
    ({'min_disparity': 4}, 84 / 67, 21.0),
    ({'min_disparity': -10}, 84 / 53, 84.0 * 16),
    ({'subpixel': False, 'min_disparity': -80}, math.inf, 84.0)])
def test_the_depths_that_can_be_measured_follow_from_camera_and_range(
        settings: dict[str, Any], nearest: float, farthest: float) -> None:
    config = MatcherConfig(disparity_range=64, **settings)
    found = judged(config, float(config.min_disparity))
    assert (found.nearest, found.farthest) == pytest.approx((nearest, farthest))


@pytest.mark.parametrize('adjusted', [True, False])
def test_principal_points_that_differ_shift_the_depths_that_can_be_measured(adjusted: bool
                                                                            ) -> None:
    camera = Calibration(700.0, 0.12, 310.0, 340.5, 240.0)         # shift of -30.5 pixels
    config = MatcherConfig(disparity_range=64, pre_adjust_disparity=adjusted)
    last = 63 + 30.5
    for output, value in (('disparity', last if adjusted else 63.0), ('depth', 84 / last)):
        found = judged(config, value, output, camera)
        assert (found.nearest, found.farthest) == pytest.approx((84 / last, 84 / 30.5))
        assert found.at_maximum == 1.0


@pytest.mark.parametrize('output', ['disparity', 'depth', 'depth_mm'])
def test_the_last_label_and_missing_pixels_are_counted_in_either_output(output: str) -> None:
    config = MatcherConfig(disparity_range=16, subpixel=True)
    disparities = np.full(W, 10.0)
    disparities[60:70] = 14.4                   # less than half a label below the last: no
    disparities[70:80] = 14.6
    disparities[80:90] = 15.0
    disparities[90:100] = -1.0                  # invalid
    depths = 84 / np.maximum(disparities, 1)
    values = {'disparity': disparities, 'depth': np.where(disparities < 0, np.nan, depths),
              'depth_mm': np.where(disparities < 0, 0, np.floor(1000 * depths + 0.5))}[output]
    found = judged(config, values, output)
    width = geometry.valid_window(config, W, H).width
    assert found.valid == pytest.approx((width - 10) / width)
    assert found.at_maximum == pytest.approx(20 / (width - 10))


WELL = FrameQuality(0.9, 0.0, 1.5, 84.0)
PILED = FrameQuality(0.9, 0.031, 1.5, 84.0)
FEW = FrameQuality(0.02, 0.0, 1.5, 84.0)


def codes(looks: Sequence[FrameQuality | None], seen: FrameChecks | None = None,
          is_explained: bool = False) -> list[list[IssueCode]]:
    """The issues after each look, with 5 % as the least valid fraction."""
    seen = FrameChecks() if seen is None else seen
    return [[issue.code for issue in seen.update(look, 0.05, is_explained=is_explained)]
            for look in looks]


def after_a_good_frame() -> FrameChecks:
    seen = FrameChecks()
    assert codes([WELL], seen) == [[]]
    return seen


@pytest.mark.parametrize(('look', 'code', 'words'), [
    (PILED, IssueCode.PILED_UP, ('may be nearer', '1.50 m', 'raise disparity_range')),
    (FEW, IssueCode.FEW_VALID, ('fewer than 5 % of the pixels have a disparity', 'may'))])
def test_an_issue_begins_at_once_or_after_several_looks_in_a_row_and_ends_after_as_many(
        look: FrameQuality, code: IssueCode, words: Sequence[str]) -> None:
    issue, = FrameChecks().update(look, 0.05)
    assert every(word in issue.text for word in words)
    seen = after_a_good_frame()
    assert codes([look] * (LOOKS - 1) + [WELL] + [look] * (LOOKS - 1), seen) == (
        [[]] * (2 * LOOKS - 1))
    assert codes([look], seen) == [[code]]
    for begun in (seen, FrameChecks()):
        assert codes([look], begun) == [[code]]
        assert codes([WELL] * (LOOKS - 1) + [look] + [WELL] * (LOOKS - 1), begun) == (
            [[code]] * (2 * LOOKS - 1))
        assert codes([WELL, look, look], begun) == [[]] * 3
    # Between two thresholds it neither begins nor ends.
    between = dataclasses.replace(WELL, **(
        {'valid': 0.055} if look is FEW else {'at_maximum': (PILED_UP + NO_LONGER_PILED_UP) / 2}))
    seen = after_a_good_frame()
    assert codes([between] * 9, seen) == [[]] * 9
    assert codes([*[look] * LOOKS, *[between] * 9], seen)[LOOKS - 1:] == [[code]] * 10


def test_of_images_that_cannot_be_matched_no_disparities_are_judged() -> None:
    for look in (PILED, FEW, WELL, None, dataclasses.replace(WELL, valid=None)):
        seen = FrameChecks()
        assert codes([look] * 9, seen, is_explained=True) == [[]] * 9
        # Looks at such images do not count, nor does what was there before them.
        assert codes([PILED], seen) == [[]]
        assert codes([PILED] * LOOKS, seen)[-1] == [IssueCode.PILED_UP]
        assert codes([PILED], seen, is_explained=True) == [[]]
        assert codes([PILED], seen) == [[]]


def test_too_few_valid_pixels_are_the_one_cause() -> None:
    both, few = dataclasses.replace(FEW, at_maximum=1.0), [IssueCode.FEW_VALID]
    assert codes([both] * 9) == [few] * 9
    assert codes([both] * 9, after_a_good_frame()) == [[]] * (LOOKS - 1) + [few] * (10 - LOOKS)
    # Nor do these looks count once there are enough pixels again.
    seen = FrameChecks()
    codes([both] * 9, seen)
    found = codes([PILED] * (2 * LOOKS), seen)
    assert found[:LOOKS - 1] == [few] * (LOOKS - 1)
    assert every(few != one and len(one) <= 1 for one in found[LOOKS - 1:])
    assert found[-1] == [IssueCode.PILED_UP]
    # A few frames with few pixels in between are no reason for either issue.
    assert codes([PILED, PILED, both, PILED, PILED], after_a_good_frame()) == [[]] * 5


def test_an_empty_window_is_an_issue_at_once_and_other_outputs_are_not_judged() -> None:
    narrow = judged(MatcherConfig(disparity_range=256), 0.0)
    assert narrow.valid is None
    assert codes([narrow]) == [[IssueCode.TOO_NARROW]]
    config = MatcherConfig(disparity_range=16)
    frame = dataclasses.replace(make_frame(config, 1.0), disparity=None)
    assert frame_quality(frame, config, CAMERA) is None


def test_without_a_calibration_depths_are_not_known_and_pixels_are_judged_as_with_one() -> None:
    config = MatcherConfig(disparity_range=64)
    frame = make_frame(config, 63.0)
    found = frame_quality(frame, config, None)
    known = frame_quality(frame, config, CAMERA)
    assert found is not None
    assert known is not None
    assert (found.valid, found.at_maximum) == (known.valid, known.at_maximum)
    issue, = FrameChecks().update(found)
    assert issue.code is IssueCode.PILED_UP
    assert 'nan' not in issue.text


def test_a_real_matcher_piles_up_only_where_the_range_is_too_small() -> None:
    pytest.importorskip('numba')
    scene = SlantedPlane(width=320, height=120, disparity=20, slope_x=0, slope_y=0.1).frame(0)
    for disparities, piled in ((40, False), (20, True)):
        config = MatcherConfig.preset('sad_fast', disparity_range=disparities, backend='cpu')
        with StereoMatcher(config) as matcher:
            found = frame_quality(matcher.compute(scene.left, scene.right), config, CAMERA)
        assert found is not None
        assert (found.at_maximum > PILED_UP) == piled, found
