"""Combined costs in plans of the CUDA engine: arithmetic that needs neither CuPy nor a GPU."""

from __future__ import annotations

import pytest

from stereo_bp_ros import MatcherConfig, partitions
from stereo_bp_ros.engines.cuda.hierarchical import messages, schedule
from stereo_bp_ros.engines.cuda.hierarchical.cost_formats import CostFormat
from stereo_bp_ros.engines.cuda.hierarchical.formats import MessageFormat
from stereo_bp_ros.engines.cuda.plan import plan_of


def combined(disparities: int, **changes: object) -> MatcherConfig:
    return MatcherConfig.from_mapping({
        'disparity_range': disparities, 'census_weight': 0.8, 'sobel_weight': 1.0,
        'discontinuity_slope': 20.0, 'discontinuity_truncation': 120.0, 'levels': 3, **changes})


@pytest.mark.parametrize('disparities', [16, 21, 64, 128])
@pytest.mark.parametrize('weight', [0.15, 1.0])     # of the plain cost, which is not computed
def test_combined_costs_are_bytes_at_level_0_alone(disparities: int, weight: float) -> None:
    config = combined(disparities, data_weight=weight, data_truncation=15.0)
    assert [CostFormat.of(config, k).name for k in range(3)] == ['Bytes', 'Int16', 'Int16']
    for image in ('uint8', 'float'):
        steps = schedule.launches(config, 640, 480)
        assert messages.base_cost(config, image, steps) == 'Bytes'
    assert MessageFormat.of(config).name == 'Int16Bytes'


def test_combined_costs_have_volumes_of_a_partition_and_features_of_the_image() -> None:
    config = combined(21, path_sums=True, preprocessing='sobel_x')
    across, down = partitions.split(200, 2, 4, 16), partitions.split(90, 1, 4, 16)
    assert across is not None
    assert down is not None
    found = plan_of(config, 200, 90, parts=partitions.Partitioning(across, down))
    arrays = {spec.name: (spec.shape, str(spec.dtype)) for spec in found.memory.arrays}
    assert arrays['left_census_feature'] == ((90, 200), 'uint64')
    assert arrays['right_sobel_feature'] == ((90, 200), 'uint8')
    assert arrays['data_cost'] == ((90, across.size, 24), 'uint8')
    assert arrays['path_costs'] == ((4, 90, across.size, 24), 'uint8')
    assert not {'table', 'left_matched', 'left_grey_feature'} & arrays.keys()
    without = plan_of(config.replace(path_sums=False), 200, 90)
    assert 'path_costs' not in {spec.name for spec in without.memory.arrays}
