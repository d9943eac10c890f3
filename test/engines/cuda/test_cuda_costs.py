"""Multi-feature costs and path aggregation on a GPU: the same bits as on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip('cupy')
from stereo_bp_ros import MatcherConfig
from stereo_bp_ros.engines.cuda.costs import terms
from stereo_bp_ros.engines.cuda.engine import CudaEngine
from test.engines.support import naive_costs
from test.engines.support.cuda_runs import run
from test.engines.support.pairs import all_outputs, compare_engines, noisy_pair

pytestmark = pytest.mark.gpu

ALL = {'census_weight': 0.8, 'sparse_census_weight': 0.6, 'sobel_weight': 1.0,
       'grey_weight': 0.5}


def configured(disparities: int, **changes: Any) -> MatcherConfig:
    return MatcherConfig.from_mapping({
        'disparity_range': disparities, 'discontinuity_slope': 20.0,
        'discontinuity_truncation': 120.0, 'levels': 3, 'iterations': 4,
        'census_weight': 0.8, 'sobel_weight': 1.0, **changes})


@pytest.mark.parametrize('path_aggregation', [False, True])
@pytest.mark.parametrize(('disparities', 'min_disparity', 'width', 'height'), [
    (2, 0, 40, 17), (16, -5, 71, 43), (21, 0, 99, 38), (64, 3, 131, 60), (128, 0, 301, 75),
    (192, -20, 260, 33), (300, -40, 333, 30)])
def test_both_engines_find_the_same(disparities: int, min_disparity: int, width: int,
                                    height: int, path_aggregation: bool) -> None:
    config = configured(disparities, min_disparity=min_disparity,
                        path_aggregation=path_aggregation)
    compare_engines(config, *noisy_pair(width, height))


@pytest.mark.parametrize('changes', [
    ALL, {'census_window': '5x5'}, {'census_window': '7x5', 'outside_cost': 255},
    {'census_weight': 0.0, 'sobel_scale': 0.37, 'prefilter_cap': 0.0},
    {'census_weight': 0.0, 'sobel_weight': 0.0, 'grey_weight': 0.3},
    *({'census_weight': 0.0, 'sobel_weight': 0.0, 'sparse_census_weight': 1.0,
       'census_window': window} for window in ('5x5', '7x5', '9x7')),
    {'sparse_census_weight': 0.6, 'reference_image': 'right', 'partition_columns': 2,
     'partition_rows': 2, 'partition_padding': 16},
    {'partition_columns': 2, 'partition_rows': 2, 'partition_padding': 16},
    {'texture_threshold': 50, 'uniqueness_ratio': 3.0, 'disp12_max_diff': 1},
    {'discontinuity_truncation': 20.0}, {'discontinuity_truncation': 1000.0},
    {'path_step_penalty': 0, 'path_jump_penalty': 7}, {'reference_image': 'right'},
    {'discontinuity_first_step': 10.0, 'discontinuity_edge_threshold': 12},
    {'discontinuity_edge_threshold': 1, 'discontinuity_edge_truncation': 0.5},
    {'discontinuity_edge_threshold': 60, 'partition_columns': 2, 'partition_rows': 2,
     'partition_padding': 16, 'reference_image': 'right', 'downscale': 2, 'levels': 5},
    {'discontinuity_edge_threshold': 20, 'discontinuity_truncation': 1000.0,
     'discontinuity_edge_truncation': 300.0, 'levels': 1}])
def test_both_engines_find_the_same_with_path_sums_and(changes: dict[str, Any]) -> None:
    config = configured(40, path_aggregation=True, **changes)
    compare_engines(config, *noisy_pair(149, 75))


def test_a_gaussian_leaves_hardly_a_pixel_another_value() -> None:
    # The last bits of smoothed values depend on the order of sums, and with them, rarely, how a
    # feature is rounded.
    from stereo_bp_ros.engines.cpu.engine import CpuEngine
    config = configured(40, path_aggregation=True, smoothing_sigma=0.7)
    left, right = noisy_pair(149, 75)
    found, expected = (all_outputs(kind.of(config, 149, 75), left, right)
                       for kind in (CudaEngine, CpuEngine))
    assert np.mean(found['disparity'] != expected['disparity']) < 0.002
    # A pixel with another label changes the confidence of all whose windows have it.
    assert np.mean(np.abs(found['confidence'] - expected['confidence'])) < 0.002


@pytest.mark.parametrize(('disparities', 'width', 'height'), [
    (2, 40, 17), (21, 99, 38), (64, 131, 60), (128, 301, 75), (192, 260, 33), (300, 333, 30)])
def test_volumes_are_what_is_defined(disparities: int, width: int, height: int) -> None:
    from cupy.cuda import runtime
    config = configured(disparities, path_aggregation=True, **ALL)
    left, right = noisy_pair(width, height)
    engine = CudaEngine.of(config, width, height)
    run(config, left, right, engine=engine)
    found = np.empty((height, width, terms.padded_labels(disparities)), np.uint8)
    runtime.memcpy(found.ctypes.data, engine._arena.device['data_cost'], found.nbytes,
                   runtime.memcpyDeviceToHost)
    engine.close()
    assert np.array_equal(found[..., :disparities],
                          naive_costs.combined_cost(left, right, config))
    assert (found[..., disparities:] == 255).all()
