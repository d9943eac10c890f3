"""Search of a narrow band on the CPU, compared with its definition over all labels."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from test.cases import examples
from test.engines.support import naive_band, naive_downscale
from test.engines.support.pairs import noisy_pair, parts_of

pytest.importorskip('numba')
from stereo_bp_ros import MatcherConfig
from stereo_bp_ros.config.quantisation import NO_SECOND
from stereo_bp_ros.engines import choice, partitions
from stereo_bp_ros.engines.cpu.engine import CpuEngine
from stereo_bp_ros.engines.cpu.passes import Pass
from stereo_bp_ros.engines.cpu.plan import plan_of
from stereo_bp_ros.engines.cpu.simd import runtime
from stereo_bp_ros.engines.plan import first_pass_of
from stereo_bp_ros.errors import ConfigError
from stereo_bp_ros.images.raw_images import RawImage

BAND: dict[str, Any] = MatcherConfig.preset('road').to_mapping()
NEIGHBOURS = {'disparity_range': 40, 'num_threads': 3, 'backend': 'cpu'}


def run(left: np.ndarray, right: np.ndarray, config: MatcherConfig,
        parts: partitions.Partitioning | None = None) -> dict[str, np.ndarray]:
    """The arrays of an engine full of rubbish after one frame of matching."""
    plan = plan_of(config, left.shape[1], left.shape[0], parts)
    arrays = {spec.name: np.full(spec.nbytes, 0xa5, np.uint8).view(spec.dtype).reshape(spec.shape)
              for spec in plan.memory.arrays}
    arrays['left_grey'][:], arrays['right_grey'][:] = left, right
    with runtime.frame(config.num_threads):
        Pass(plan, arrays).run(plan.passes, collections.defaultdict(float), ['confidence'],
                               arrays['confidence'])
    return arrays


def check(left: np.ndarray, right: np.ndarray, config: MatcherConfig,
          parts: partitions.Partitioning | None = None) -> dict[str, np.ndarray]:
    """Compare every match with the definition's, and return the arrays."""
    reduced = [naive_downscale.reduced(image, 2).astype(np.uint8) for image in (left, right)]
    cut = parts and partitions.of_coarse(first_pass_of(config), *reduced[0].shape[::-1], parts)
    coarse = run(*reduced, first_pass_of(config), cut)['final']
    expected = naive_band.match(left, right, coarse, config, parts)
    arrays = run(left, right, config, parts)
    for name in ('label', 'fraction', 'right_label'):
        np.testing.assert_array_equal(arrays[name], getattr(expected, name), err_msg=name)
    inside = expected.label >= 0
    lead = np.where(arrays['second'] == NO_SECOND, NO_SECOND, arrays['second'] - arrays['best'])
    np.testing.assert_array_equal(lead[inside], expected.lead[inside])
    return arrays


@st.composite
def cases(draw: Any) -> tuple[np.ndarray, np.ndarray, MatcherConfig]:
    width, height = draw(st.integers(1, 90)), draw(st.integers(1, 40))
    left, right = noisy_pair(width, height, draw(st.integers(0, 99)))
    radius = draw(st.integers(1, 4))
    slope = draw(st.sampled_from([14.0, 20.0, 63.0]))
    truncation = draw(st.sampled_from([20.0, 40.0, 56.0]))
    return left, right, MatcherConfig.from_mapping({
        **BAND, **NEIGHBOURS, 'band_radius': radius,
        'min_disparity': draw(st.sampled_from([0, 0, -7, 4, 5])),
        'disparity_range': draw(st.integers(4 * radius + 3, 60)),
        'discontinuity_slope': slope, 'discontinuity_truncation': truncation,
        'discontinuity_first_step': draw(st.sampled_from([0.0, slope, 14.0])),
        'discontinuity_edge_threshold': draw(st.sampled_from([0, 4])),
        'path_step_penalty': draw(st.sampled_from([0, 15, 40])),
        'path_jump_penalty': draw(st.sampled_from([40, 200, 255])),
        'disp12_max_diff': 1})


# Borders, ties, windows that meet, labels without a partner.
@settings(max_examples=examples(60))
@given(case=cases(), columns=st.integers(1, 3), rows=st.integers(1, 2), padding=st.integers(1, 9))
def test_every_match_is_that_of_the_definition_in_each_partition(
        case: tuple[np.ndarray, np.ndarray, MatcherConfig], columns: int, rows: int,
        padding: int) -> None:
    left, right, config = case
    check(left, right, config, parts_of(*left.shape[::-1], columns, rows, padding,
                                        partitions.alignment(config)))


@pytest.mark.parametrize(('width', 'height'), [(1, 1), (2, 5), (5, 1), (3, 3), (33, 20)])
def test_small_and_odd_images_have_their_labels(width: int, height: int) -> None:
    config = MatcherConfig.from_mapping({**BAND, **NEIGHBOURS})
    check(*noisy_pair(width, height), config)


def test_the_first_pass_covers_the_range_on_images_of_half_the_size() -> None:
    for first, labels, expected in ((0, 128, (0, 64)), (-7, 30, (-4, 16)), (5, 41, (2, 21))):
        coarse = first_pass_of(MatcherConfig.from_mapping(
            {**BAND, 'min_disparity': first, 'disparity_range': labels}))
        assert (coarse.min_disparity, coarse.disparity_range) == expected
        assert not coarse.searches_band
        assert coarse.census_weight == 0.8125
        assert coarse.sparse_census_weight == 0


def test_a_short_range_is_searched_whole() -> None:
    left, right = noisy_pair(60, 30)
    whole = MatcherConfig.from_mapping({**BAND, 'disparity_range': 18, 'band_radius': 0})
    band = whole.replace(band_radius=4)
    assert not band.searches_band
    found = [run(left, right, config)['final'] for config in (whole, band)]
    np.testing.assert_array_equal(*found)


def test_the_right_image_and_the_left_one_agree_where_the_scene_is_mirrored() -> None:
    left, right = noisy_pair(90, 40, nearer=12)
    config = MatcherConfig.from_mapping({**BAND, **NEIGHBOURS, 'filling': 'plane'})
    maps = []
    for images, reference in (((left, right), 'left'),
                              ((right[:, ::-1], left[:, ::-1]), 'right')):
        engine = CpuEngine.of(config.replace(reference_image=reference), 90, 40)
        outputs = {'disparity': np.empty((40, 90), np.float32)}
        engine.compute(*(RawImage.from_array(np.ascontiguousarray(image)) for image in images),
                       None, outputs)
        engine.close()
        maps.append(outputs['disparity'])
    np.testing.assert_array_equal(maps[0], maps[1][:, ::-1])
    assert np.isfinite(maps[0]).mean() > 0.9


def test_memory_that_does_not_hold_both_passes_cuts_them() -> None:
    config = MatcherConfig.from_mapping({**BAND, **NEIGHBOURS, 'partition_padding': 8})
    whole = plan_of(config, 400, 300).memory.total
    cut = choice.resolve(config.replace(memory_limit=whole * 3 // 4)).plan(400, 300)
    assert cut.parts.count > 1
    assert cut.memory.total <= whole * 3 // 4
    arrays = {spec.name: spec.shape for spec in cut.memory.arrays}
    assert arrays['coarse_data_cost'][0] * arrays['coarse_data_cost'][1] < 200 * 150


@pytest.mark.parametrize(('changes', 'name'), [
    ({'levels': 2}, 'band_radius'), ({'path_aggregation': False}, 'band_radius'),
    ({'iterations': 3}, 'iterations'), ({'discontinuity_truncation': 64.0},
                                        'discontinuity_truncation'),
    ({'discontinuity_slope': 10.0}, 'discontinuity_truncation')])
def test_what_a_band_cannot_have_is_rejected_by_its_name(changes: dict[str, Any], name: str
                                                         ) -> None:
    with pytest.raises(ConfigError) as raised:
        MatcherConfig.from_mapping({**BAND, **changes})
    assert raised.value.field == name
