"""``min_depth``: the search ends at the disparity of a distance, whatever the calibration."""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from stereo_bp_ros import (
    Calibration,
    ConfigError,
    InputError,
    MatcherConfig,
    MemoryLimitError,
    StereoMatcher,
)
from stereo_bp_ros.cameras.rectification import RawCamera, Rectification
from stereo_bp_ros.engines import geometry
from stereo_bp_ros.engines.cuda.costs import terms
from stereo_bp_ros.engines.cuda.hierarchical.formats import CHUNK, MessageFormat

KITTI = Calibration(720.0, 0.54, 600.0, 600.0, 180.0)
#: A point at 1 m has the disparity 20.
NEAR = Calibration(100.0, 0.2, 32.0, 32.0, 16.0)
SMALL = MatcherConfig(min_depth=1.0, disparity_range=16, levels=2, iterations=2, backend='cpu')

Pair = Callable[..., tuple[np.ndarray, np.ndarray]]


def last_disparity(calibration: Calibration, **settings: float) -> int:
    return geometry.effective(MatcherConfig(**settings), calibration).max_disparity


@pytest.fixture
def matcher() -> Iterator[StereoMatcher]:
    with StereoMatcher(SMALL) as made:
        yield made


def test_without_min_depth_or_a_calibration_the_range_counts() -> None:
    config = MatcherConfig(disparity_range=77)
    assert geometry.effective(config, KITTI) is config
    assert geometry.effective(config.replace(min_depth=2.0), None) == config


@pytest.mark.parametrize(('depth', 'disparities'), [
    (720 * 0.54 / 127, 128), (720 * 0.54 / 127.01, 136), (1000.0, 8), (720 * 0.54 / 511, 512)])
def test_the_last_disparity_is_the_least_of_whole_chunks_that_reaches_the_depth(
        depth: float, disparities: int) -> None:
    found = geometry.effective(MatcherConfig(min_depth=depth, disparity_range=3), KITTI)
    assert (found.disparity_range, found.min_depth) == (disparities, 0.0)


def test_the_range_leaves_no_label_of_cudas_chunks_empty() -> None:
    config = MatcherConfig.preset('road_full')
    for last in range(5, 192, 7):
        found = geometry.effective(config.replace(min_depth=720 * 0.54 / last), KITTI)
        disparities = found.disparity_range
        assert MessageFormat.of(found).chunks * CHUNK == disparities
        assert terms.padded_labels(disparities) == disparities


@pytest.mark.parametrize(('shift', 'first', 'downscale'), [
    (0.0, 0, 1), (-30.0, -8, 2), (0.5, 12, 4), (-0.5, 0, 2), (30.0, -8, 1)])
def test_a_point_at_that_depth_lies_within_the_search_and_one_chunk_of_its_end(
        shift: float, first: int, downscale: int) -> None:
    calibration = dataclasses.replace(KITTI, cx_left=600.0 + shift)
    for depth in (2.0, 3.1, 3.456):
        disparity = 720 * 0.54 / depth + shift      # between the images as they are
        last = last_disparity(calibration, min_depth=depth, min_disparity=first,
                              downscale=downscale)
        assert 0 <= last - math.ceil(disparity) < geometry.WHOLE_LABELS * downscale


def test_the_depth_of_the_last_disparity_is_not_beyond_min_depth(textured_pair: Pair) -> None:
    """The sign of the shift, by the engine's own depths."""
    for cx_left in (22.0, 32.0, 42.0):
        calibration = dataclasses.replace(NEAR, cx_left=cx_left)
        shift = int(calibration.shift)
        # At 2 m: 10 px between rays, and the shift between the images.
        with StereoMatcher(SMALL.replace(min_depth=2.0, min_disparity=min(0, shift))) as matcher:
            frame = matcher.compute(*textured_pair(96, 40, 10 + shift), calibration=calibration,
                                    outputs=('depth',))
            assert 20.0 / frame.max_disparity <= 2.0
            assert frame.depth is not None
            assert np.nanmedian(frame.depth) == pytest.approx(2.0, rel=0.05)


def test_binning_and_the_size_of_rectified_images_scale_the_search() -> None:
    def info(side: str, binning: int) -> types.SimpleNamespace:
        p = [800.0, 0, 320, 0 if side == 'left' else -80.0, 0, 800.0, 240, 0, 0, 0, 1, 0]
        roi = types.SimpleNamespace(x_offset=40, y_offset=0, width=0, height=0)
        return types.SimpleNamespace(p=p, binning_x=binning, binning_y=binning, roi=roi,
                                     width=680, height=480)
    for binning, last in ((1, 87), (2, 47)):        # 80 px at 1 m, or 40
        calibration = Calibration.from_camera_info(info('left', binning), info('right', binning))
        assert last_disparity(calibration, min_depth=1.0) == last
    cameras = [RawCamera('plumb_bob', (), (800, 0, 320, 0, 800, 240, 0, 0, 1), (0,) * 9, p)
               for p in (info('left', 1).p, info('right', 1).p)]
    half = Rectification(*cameras, 640, 480, 320, 240)
    assert last_disparity(half.calibration, min_depth=1.0) == 47


def test_a_depth_out_of_reach_is_refused_with_the_least_that_is_not() -> None:
    with pytest.raises(ConfigError, match=r'disparity 972, and the search ends at 511') as error:
        geometry.effective(MatcherConfig(min_depth=0.4), KITTI)
    assert '\n' not in str(error.value)
    least = float(str(error.value).partition('at least ')[2].partition(',')[0])
    assert last_disparity(KITTI, min_depth=least) == 511
    with pytest.raises(ConfigError, match='min_depth'):
        geometry.effective(MatcherConfig(min_depth=5e-324), KITTI)
    shifted = dataclasses.replace(KITTI, cx_left=1200.0)
    with pytest.raises(ConfigError, match=r': raise min_disparity$'):
        geometry.effective(MatcherConfig(min_depth=1.0), shifted)
    with pytest.raises(ConfigError, match=r'below min_disparity \(64\)'):
        geometry.effective(MatcherConfig(min_depth=10.0, min_disparity=64), KITTI)


def test_a_calibration_ends_the_search_from_its_frame_on(matcher: StereoMatcher,
                                                         textured_pair: Pair) -> None:
    left, right = pair = textured_pair(80, 40, 7)
    with pytest.raises(InputError):
        matcher.compute(left, right[:-1], calibration=NEAR)     # a refused pair changes nothing
    assert matcher.calibration is None
    assert matcher.compute(*pair).max_disparity == 15
    frame = matcher.compute(*pair, calibration=NEAR)
    assert frame.max_disparity == 23
    with StereoMatcher(SMALL.replace(min_depth=0.0, disparity_range=24)) as set_by_hand:
        expected = set_by_hand.compute(*pair, calibration=NEAR)
    assert np.array_equal(frame.disparity, expected.disparity)
    assert frame.valid_window == expected.valid_window
    wider = dataclasses.replace(NEAR, baseline_m=0.3)
    assert matcher.compute(*pair, calibration=wider).max_disparity == 31
    assert matcher.compute(*pair).max_disparity == 31       # the latest one counts
    assert (matcher.config, matcher.calibration) == (SMALL, wider)
    assert matcher.effective_config == SMALL.replace(min_depth=0.0, disparity_range=32)


def test_only_a_calibration_that_changes_the_range_builds_an_engine(
        matcher: StereoMatcher, textured_pair: Pair) -> None:
    pair = textured_pair(80, 40, 7)
    matcher.prepare(80, 40, NEAR)
    engines = [matcher._current.engine]
    wider = dataclasses.replace(NEAR, baseline_m=0.3)
    for calibration in (NEAR, dataclasses.replace(NEAR, cy=3.0),            # the same search
                        dataclasses.replace(NEAR, baseline_m=0.19), None, wider):
        matcher.compute(*pair, calibration=calibration)
        engines.append(matcher._current.engine)
    assert [engine is engines[0] for engine in engines] == [True] * 5 + [False]
    # Another size with another calibration has its own range.
    assert matcher.compute(*textured_pair(64, 32, 7), calibration=NEAR).max_disparity == 23
    assert matcher.compute(*pair, calibration=wider).max_disparity == 31


def test_reconfiguring_keeps_the_calibration(matcher: StereoMatcher, textured_pair: Pair) -> None:
    pair = textured_pair(80, 40, 7)
    matcher.compute(*pair, calibration=NEAR)
    assert not matcher.reconfigure(SMALL.replace(min_depth=0.99))       # the same search
    assert not matcher.reconfigure(matcher.config.replace(speckle_size=5))
    assert matcher.reconfigure(SMALL.replace(min_depth=0.5))
    assert matcher.compute(*pair).max_disparity == 47
    assert matcher.reconfigure(SMALL.replace(min_depth=0.0))
    assert matcher.compute(*pair, calibration=NEAR).max_disparity == 15


def test_a_calibration_that_is_refused_leaves_the_one_before(
        matcher: StereoMatcher, textured_pair: Pair) -> None:
    pair = textured_pair(80, 40, 7)
    matcher.compute(*pair, calibration=NEAR)
    engine = matcher._current.engine
    for _ in range(2):
        with pytest.raises(ConfigError, match='min_depth is 1'):
            matcher.compute(*pair, calibration=dataclasses.replace(NEAR, baseline_m=20.0))
    assert matcher.compute(*pair, calibration=NEAR).max_disparity == 23
    assert matcher._current.engine is engine


def test_a_range_that_does_not_fit_the_memory_is_refused(textured_pair: Pair) -> None:
    pair = textured_pair(80, 40, 7)
    with StereoMatcher(SMALL.replace(stereo_algorithm='tiled_bp')) as matcher:
        matcher.compute(*pair, calibration=NEAR)
        assert matcher.memory_plan is not None
        limit = matcher.memory_plan.total
        matcher.reconfigure(matcher.config.replace(memory_limit=limit))
        for _ in range(2):
            with pytest.raises(MemoryLimitError):
                matcher.compute(*pair, calibration=dataclasses.replace(NEAR, baseline_m=2.0))
        assert matcher.compute(*pair, calibration=NEAR).max_disparity == 23


def test_pairs_of_one_calibration_share_the_configuration_that_they_are_matched_with() -> None:
    config = MatcherConfig(min_depth=3.0)
    found = [geometry.effective(config, Calibration(700.0, 0.5, 320.0, 320.0, 120.0))
             for _ in range(2)]
    assert found[0] is found[1]
    assert geometry.effective(config, Calibration(350.0, 0.5, 320.0, 320.0, 120.0)) != found[0]
