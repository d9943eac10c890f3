"""Multi-feature costs and path aggregation on the CPU: bits of their definitions in NumPy."""

from __future__ import annotations

import math
from typing import Any

import cv2
import numpy as np
import pytest

from test.cases import slow
from test.engines.support import naive_bp, naive_costs
from test.engines.support.pairs import noisy_pair as pair
from test.engines.support.pairs import parts_of

pytest.importorskip('numba')
from stereo_bp_ros import ConfigError, MatcherConfig, RawImage
from stereo_bp_ros.engines import partitions
from stereo_bp_ros.engines.cpu import memory
from stereo_bp_ros.engines.cpu.costs import features
from stereo_bp_ros.engines.cpu.engine import CpuEngine
from stereo_bp_ros.engines.cpu.hierarchical import cost
from stereo_bp_ros.engines.cpu.plan import plan_of, resolve
from stereo_bp_ros.engines.cpu.simd import runtime
from test.slanted_plane import SlantedPlane

ALL = {'census_weight': 0.8, 'sparse_census_weight': 0.6, 'sobel_weight': 1.0,
       'grey_weight': 0.35}
SUMS = {**ALL, 'path_aggregation': True}
TRUNCATION = {'discontinuity_slope': 20.0, 'discontinuity_truncation': 120.0}


def combined(disparity_range: int, **changes: Any) -> MatcherConfig:
    return MatcherConfig(disparity_range=disparity_range, **{'levels': 3, **TRUNCATION, **changes})


def by_pixel(values: np.ndarray, level: memory.Level) -> np.ndarray:
    """H x W x D of what lies as ``memory.Level`` says; beyond the image there must be zeros."""
    tiles = values.reshape(level.height, 2, level.tiles, level.cost_planes, -1)
    columns = tiles[:, :, :, :level.labels].transpose(0, 1, 2, 4, 3).reshape(
        level.height, 2, -1, level.labels)
    found = np.empty((level.height, 2 * columns.shape[2], level.labels), values.dtype)
    for y in range(level.height):
        for odd in range(2):
            found[y, odd::2] = columns[y, (y + odd) % 2]
    assert not found[:, level.width:].any()
    return found[:, :level.width]


def costs_of(left: np.ndarray, right: np.ndarray, config: MatcherConfig,
             parts: partitions.Partitioning | None = None) -> list[list[np.ndarray]]:
    """Of each partition the costs of every level, computed on arrays full of rubbish."""
    plan = plan_of(config, left.shape[1], left.shape[0], parts)
    arrays = {spec.name: np.full(spec.nbytes, 0xa5, np.uint8).view(spec.dtype).reshape(spec.shape)
              for spec in plan.memory.arrays}
    levels = memory.levels(config, plan.parts.width, plan.parts.height)
    found = []
    with runtime.frame(config.num_threads):
        for side, image in (('left', left), ('right', right)):
            features.extract(image.astype(np.float32), side, config, arrays)
        for part in plan.parts.partitions:
            cost.fill_costs(plan, plan.config, part, levels, arrays)
            found.append([by_pixel(arrays[f'cost_{k}'].copy(), level)
                          for k, level in enumerate(levels)])
    return found


def expected_costs(left: np.ndarray, right: np.ndarray, config: MatcherConfig,
                   parts: partitions.Partitioning | None = None) -> list[list[np.ndarray]]:
    """The same from the definitions."""
    parts = parts or partitions.whole(*left.shape[::-1])
    volume = naive_costs.combined_cost(left, right, config)
    found = []
    for part in parts.partitions:
        own = volume[part.y:part.y + parts.height, part.x:part.x + parts.width]
        levels = [naive_costs.path_aggregation(own, config) if config.path_aggregation else own]
        while len(levels) < config.levels:
            levels.append(naive_costs.coarser(levels[-1], int(config.truncation)))
        found.append(levels)
    return found


def assert_defined(left: np.ndarray, right: np.ndarray, config: MatcherConfig,
                   parts: partitions.Partitioning | None = None) -> None:
    found, expected = (function(left, right, config, parts)
                       for function in (costs_of, expected_costs))
    assert len(found) == len(expected)
    for part, (of_part, as_defined) in enumerate(zip(found, expected, strict=True)):
        for k, (own, defined) in enumerate(zip(of_part, as_defined, strict=True)):
            np.testing.assert_array_equal(own, defined, err_msg=f'level {k} of partition {part}')


@pytest.mark.parametrize(('size', 'labels', 'changes'), [
    *(((97, 41), 37, {name: value, 'path_aggregation': has_paths})
      for name, value in ALL.items() for has_paths in (False, True)),
    *(((75, 40), 16, {name: 1.0, 'census_window': window})
      for name in ('census_weight', 'sparse_census_weight') for window in ('5x5', '7x5', '9x7')),
    *(((75, 40), 21, {'sobel_weight': 1.0, **changes}) for changes in (
        {'sobel_scale': 16.0, 'prefilter_cap': 0.0, 'sobel_bound': 255},
        {'sobel_scale': 0.13, 'prefilter_cap': 20.3}, {'sobel_weight': 16.0, 'sobel_bound': 255},
        {'grey_weight': 16.0, 'census_weight': 16.0},
        {'grey_weight': 0.01, 'grey_bound': 255, 'sobel_bound': 1},
        {'outside_cost': 255, 'grey_weight': 0.001}, {'outside_cost': 0})),
    *(((75, 40), 45, {**SUMS, 'path_step_penalty': step, 'path_jump_penalty': jump})
      for step, jump in ((0, 0), (0, 255), (255, 255), (3, 9), (40, 40))),
    *(((75, 40), 12, {**ALL, 'levels': 5, 'discontinuity_truncation': truncation})
      for truncation in (20.0, 300.0, 2000.0)),
    *((size, labels, {**SUMS, 'min_disparity': least}) for size, labels, least in (
        ((16, 16), 2, 0), ((17, 19), 5, -3), ((130, 20), 64, 0), ((129, 21), 65, 11),
        ((200, 17), 128, -40), ((150, 18), 131, 0), ((64, 18), 63, 70), ((40, 16), 200, -100),
        ((33, 16), 9, -2048), ((33, 16), 9, 2048)))], ids=str)
def test_every_setting_size_and_range_is_as_defined(size: tuple[int, int], labels: int,
                                                    changes: dict[str, Any]) -> None:
    assert_defined(*pair(*size), combined(labels, **changes))


@pytest.mark.parametrize('settings', [ALL, SUMS], ids=['costs', 'sums'])
def test_partitions_have_costs_of_the_image_and_paths_of_their_own(
        settings: dict[str, Any]) -> None:
    parts = parts_of(150, 70, 3, 2, 8, 8)
    assert parts.count == 6
    assert_defined(*pair(150, 70), combined(19, min_disparity=-2, **settings), parts)


@pytest.mark.parametrize('settings', [ALL, SUMS], ids=['costs', 'sums'])
@pytest.mark.parametrize('threads', [1, 3, 7])
def test_the_number_of_parts_changes_no_cost(threads: int, settings: dict[str, Any],
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, 'threads', lambda config: threads)
    assert_defined(*pair(300, 37), combined(30, num_threads=threads, **settings))


def frame(config: MatcherConfig, left: np.ndarray, right: np.ndarray,
          parts: partitions.Partitioning | None = None) -> dict[str, np.ndarray]:
    """Arrays of an engine after a frame that is not its first, by name."""
    height, width = left.shape[:2]
    engine = CpuEngine.of(config, width, height, parts)
    disparity = np.empty((height, width), np.float32)
    for images in ((right, left), (left, right)):
        engine.compute(*map(RawImage.from_array, images), None, {'disparity': disparity})
    levels = memory.levels(config, width, height)
    found = {name: values.copy() for name, values in engine._arrays.items()}
    engine.close()
    if parts is None:
        found |= {f'cost_{k}': by_pixel(found[f'cost_{k}'].reshape(-1), level)
                  for k, level in enumerate(levels)}
    return {**found, 'disparity': disparity}


@pytest.mark.parametrize('changes', [
    {}, {'path_aggregation': True},
    {'discontinuity_edge_threshold': 30, 'discontinuity_first_step': 10.0},
    {'discontinuity_edge_threshold': 30, 'discontinuity_edge_truncation': 7.5},
    {'discontinuity_edge_threshold': 12, 'iterations': '0, 9', 'num_threads': 2,
     'path_aggregation': True},
    *slow(*({'discontinuity_edge_threshold': threshold, 'levels': 1} for threshold in (1, 255)),
          {'discontinuity_edge_threshold': 30, 'disparity_range': 70,
           'discontinuity_slope': 200.0, 'discontinuity_first_step': 60.0,
           'discontinuity_truncation': 900.0, 'discontinuity_edge_truncation': 150.0})], ids=str)
def test_labels_are_those_of_the_definitions(changes: dict[str, Any]) -> None:
    """Messages across edges of the image have a truncation of their own."""
    width, height = 101, 47
    left, right = pair(width, height)
    config = combined(**{'disparity_range': 20, 'iterations': 3, **ALL, **changes})
    slope, truncation = int(config.discontinuity_slope), int(config.truncation)
    threshold = config.discontinuity_edge_threshold
    uncut = partitions.whole(width, height)
    for parts in (uncut, parts_of(width, height, 2, 1, 5, partitions.alignment(config))):
        expected = np.zeros((height, width), np.int64)
        costs_of_parts = expected_costs(left, right, config, parts)
        for (x, y, kept), costs in zip(parts.partitions, costs_of_parts, strict=True):
            rows, columns = costs[0].shape[:2]
            grey = left[y:y + rows, x:x + columns]
            labels = naive_bp.labels(naive_bp.beliefs_from(
                [values.astype(np.int64) for values in costs], slope, truncation,
                config.iterations_of_levels, int(config.discontinuity_first_step) or None,
                naive_bp.edge_truncations(grey, config) if threshold else None))
            expected[kept.top:kept.bottom, kept.left:kept.right] = labels[
                kept.top - y:kept.bottom - y, kept.left - x:kept.right - x]
        found = frame(config, left, right, parts)['label']
        np.testing.assert_array_equal(found[1:-1, 1:-1], expected[1:-1, 1:-1])
    if 0 < threshold < 255:             # so large a difference is hardly anywhere
        usual = frame(config.replace(discontinuity_edge_threshold=0), left, right)['label']
        assert (found == usual).mean() < 0.99


def test_costs_are_those_of_images_that_are_scaled_smoothed_rounded_and_mirrored() -> None:
    left, right = pair(90, 40)
    side = 2 * (math.ceil(4 * 0.8) + 1) + 1
    smoothed = [cv2.GaussianBlur(image.astype(np.float32), (side, side), 0.8,
                                 borderType=cv2.BORDER_REPLICATE) for image in (left, right)]
    wide = [image.astype(np.uint16) * 250 for image in (left, right)]
    scaled = [np.minimum(image.astype(np.float32) * np.float32(0.004), 255) for image in wide]
    for changes, images, matched in (
            ({'smoothing_sigma': 0.8}, (left, right), smoothed),
            ({'mono16_scale': 0.004}, wide, scaled),
            ({'reference_image': 'right', 'min_disparity': 2}, (left, right),
             (right[:, ::-1], left[:, ::-1]))):
        config = combined(18, **SUMS, **changes)
        expected = expected_costs(*(np.floor(image.astype(np.float64) + 0.5).astype(np.uint8)
                                    for image in matched), config)[0]
        found = frame(config, *images)
        for k, defined in enumerate(expected):
            np.testing.assert_array_equal(found[f'cost_{k}'], defined)


def assert_fractions_are_defined(config: MatcherConfig, left: np.ndarray, right: np.ndarray,
                                 parts: partitions.Partitioning | None = None) -> None:
    """Of the labels that were found; ``left`` is the image that is matched."""
    height, width = left.shape
    images = (left, right) if config.reference_image == 'left' else (
        np.ascontiguousarray(right[:, ::-1]), np.ascontiguousarray(left[:, ::-1]))
    found = frame(config, *images, parts)
    volume, label = naive_costs.combined_cost(left, right, config), found['label']
    parts = parts or partitions.whole(width, height)
    for part in parts.partitions:
        own = np.s_[part.y:part.y + parts.height, part.x:part.x + parts.width]
        expected = np.full((height, width), 99)
        expected[own] = naive_costs.fractions(volume[own], label[own])
        kept = np.s_[part.kept.top:part.kept.bottom, part.kept.left:part.kept.right]
        np.testing.assert_array_equal(found['fraction'][kept], expected[kept])
    assert len(np.unique(found['fraction'])) > 5


@pytest.mark.parametrize(('width', 'height', 'labels', 'changes'), [
    (65, 20, 16, ALL), (97, 41, 21, {**SUMS, 'min_disparity': -3}),
    (200, 33, 128, {**SUMS, 'min_disparity': -20}), (85, 40, 18, {**ALL,
                                                                  'reference_image': 'right'})])
def test_fractions_are_those_of_the_data_cost(width: int, height: int, labels: int,
                                              changes: dict[str, Any]) -> None:
    assert_fractions_are_defined(combined(labels, **changes), *pair(width, height))


def test_windows_of_fractions_are_replicated_beyond_a_partition() -> None:
    assert_fractions_are_defined(combined(19, min_disparity=-2, **SUMS), *pair(150, 70),
                                 parts_of(150, 70, 3, 2, 0, 8))


def test_fractions_follow_a_subpixel_that_is_switched_while_frames_come() -> None:
    images = [RawImage.from_array(image) for image in pair(90, 40)]
    config = combined(20, subpixel=False, **SUMS)
    engine = CpuEngine.of(config, 90, 40)
    disparity = np.empty((40, 90), np.float32)
    engine.compute(*images, None, {'disparity': disparity})
    whole = disparity.copy()
    assert (whole == np.floor(whole)).all()
    engine.update(resolve(config.replace(subpixel=True)))
    engine.compute(*images, None, {'disparity': disparity})
    arrays = engine._arrays
    volume = naive_costs.combined_cost(*pair(90, 40), config)
    expected = whole + naive_costs.fractions(volume, arrays['label']) / 16
    is_found = whole >= 0
    np.testing.assert_array_equal(disparity[is_found], expected[is_found])
    assert (disparity != whole).any()
    engine.update(resolve(config))
    engine.compute(*images, None, {'disparity': disparity})
    np.testing.assert_array_equal(disparity, whole)
    engine.close()


@pytest.mark.parametrize('has_path_sums', [False, True])
def test_fractions_of_a_slanted_plane_do_not_lock_to_whole_pixels(has_path_sums: bool) -> None:
    """Each eighth of a pixel has 1/8 of all disparities within a third of it."""
    scene = SlantedPlane(width=320, height=240, disparity=12.0).frame(0)
    config = combined(32, discontinuity_first_step=10.0, iterations='3,5,5',
                      census_weight=0.8, sobel_weight=1.0, sobel_bound=20,
                      path_aggregation=has_path_sums)
    found = frame(config, scene.left, scene.right)['disparity']
    is_found = found >= 0
    assert is_found.mean() > 0.85
    shares = np.bincount((found[is_found] * 8 % 8).astype(int), minlength=8) / is_found.sum()
    assert np.abs(8 * shares - 1).max() < 1 / 3
    error = found[is_found] - scene.disparity[is_found]
    assert np.sqrt((error ** 2).mean()) < 0.15


def test_the_plan_has_only_what_the_configuration_needs() -> None:
    def names(**changes: Any) -> set[str]:
        return {array.name for array in plan_of(combined(32, **changes), 320, 240).memory.arrays}

    plain, costs, sums = names(), names(**ALL), names(**SUMS)
    assert costs - plain == {'left_features', 'right_features', 'bordered_grey', 'bordered_mean',
                             'census_planes', 'data_cost'}
    assert costs - names(**{**ALL, 'sparse_census_weight': 0.0}) == {'bordered_mean'}
    assert plain - costs == {'left_matched', 'right_matched', 'image_rows', 'cost_rows'}
    assert sums - costs == {'path_down', 'path_up', 'path_across', 'path_total'}


@pytest.mark.parametrize(('changes', 'says'), [
    *(({name: 1.0, 'message_type': 'float32'}, 'needs stereo_algorithm bp') for name in ALL),
    ({'path_aggregation': True}, 'needs a weight above 0'),
    ({'discontinuity_first_step': 9.0}, 'at most discontinuity_slope'),
    ({'discontinuity_edge_threshold': 16}, 'needs a weight above 0'),
    ({'census_weight': 1.0, 'discontinuity_edge_threshold': 16,
      'discontinuity_edge_truncation': 6.5}, 'at most discontinuity_truncation'),
    ({'iterations': '3,x'}, 'several with commas'),
    ({'iterations': '1,2,3', 'levels': 2}, 'at most levels'),
    ({'grey_weight': 1.0, 'path_aggregation': True, 'path_step_penalty': 9,
      'path_jump_penalty': 5}, 'at most path_jump_penalty'),
    ({'census_weight': 1.0, **TRUNCATION, 'discontinuity_truncation': 2048.0}, '2048')])
def test_what_cannot_be_combined_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        MatcherConfig(**changes)


def test_iterations_of_levels_repeat_the_last() -> None:
    assert MatcherConfig(levels=4, iterations='3, 5').iterations_of_levels == (3, 5, 5, 5)
    assert MatcherConfig(levels=2, iterations=6).iterations_of_levels == (6, 6)

def test_definitions_by_hand() -> None:
    """|L - R| of grey values, weight 0.5, bound 8; the label beyond the image costs 20."""
    config = MatcherConfig(grey_weight=0.5, grey_bound=8, disparity_range=2, outside_cost=20,
                           path_aggregation=True, path_step_penalty=3, path_jump_penalty=5)
    cost = naive_costs.combined_cost(*np.array([[[10, 30]], [[13, 70]]], np.uint8), config)
    # 0.5 * 3 rounded half up; 0.5 * 8, cut from 40; and 0.5 * 8, cut from 17.
    assert cost.tolist() == [[[2, 20], [4, 4]]]
    # Of 10 and 30 with replicated borders the means are 10, 17, 23 and 30 from one pixel outside
    # the image on, and a neighbour is two pixels away.
    assert naive_costs.mean(np.array([[10, 10, 30, 30]])).tolist() == [[10, 17, 23, 30]]
    bits = naive_costs.sparse_census(np.array([[10, 30]], np.uint8), '5x5')
    assert bits.reshape(2, -1)[:, 10:14].tolist() == [[True, True, False, False]] * 2
    # From the left the second pixel has 9 + 0, 0 + 3; from the right the first 0 + 3, 9 + 0.
    # Each adds its own cost on the other three ways (a single row: above and below alike).
    row = np.array([[[0, 9], [9, 0]]], np.uint8)
    assert naive_costs.path_aggregation(row, config).tolist() == [[[0, 8], [8, 0]]]
    # Lines of slope 8 through (-1, 6) and (1, 8) meet at -1/8: two sixteenths to the left.
    for sides, sixteenths in (((6, 0, 8), -2), ((8, 0, 6), 2), ((5, 5, 9), -8), ((9, 5, 5), 8),
                              ((16, 0, 15), 1), ((15, 0, 16), 0), ((4, 5, 9), 0)):
        volume = np.broadcast_to(np.array(sides, np.uint8), (2, 3, 3))
        found = naive_costs.fractions(volume, np.ones((2, 3), np.int16))
        assert found.tolist() == [[sixteenths] * 3] * 2
