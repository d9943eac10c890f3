"""Belief propagation with messages of floats on a GPU: how they are kept, and labels of theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest

from test.engines.support import naive_bp

pytest.importorskip('cupy')
from stereo_bp_ros import MatcherConfig
from stereo_bp_ros.engines.cuda.hierarchical import formats, launch, messages, schedule
from stereo_bp_ros.engines.cuda.hierarchical.cost_formats import CostFormat
from stereo_bp_ros.engines.cuda.hierarchical.formats import MessageFormat
from stereo_bp_ros.engines.cuda.plan import forget
from stereo_bp_ros.frame.disparity_frame import OUTPUTS
from test.engines.support.cuda_runs import labels, naive_labels, run, tiled_as
from test.engines.support.outputs import assert_same
from test.engines.support.pairs import noisy_pair
from test.settings import paper

pytestmark = pytest.mark.gpu

#: (configuration, outputs, every n-th way): what each way finds.
InEachWay = Callable[..., list[dict[str, np.ndarray]]]
RANGES = (2, 12, 21, 40, 64, 77, 128, 150, 300, 512)


def kinds_of(disparities: int) -> list[tuple[str, tuple[float, float], float]]:
    """Ways to keep float32, and limits of layout for which it is so: costs of whole numbers, of
    three bytes."""
    never, always = float('inf'), formats.MIN_COST_OF_THREE_BYTES
    halves = disparities > 56
    found = [('Float32ThreeBytesSplit' if halves else 'Float32ThreeBytes', (never, never), always),
             ('Float32Split' if halves else 'Float32', (never, never), never)]
    if 56 < disparities <= 128:
        found.insert(0, ('Fixed32', formats.COSTS_OF_FIXED, always))
    return found


@pytest.fixture
def in_each_way(monkeypatch: pytest.MonkeyPatch) -> Iterator[InEachWay]:
    """Has a configuration matched with its messages kept in each of these ways, float32 last."""
    def match(config: MatcherConfig, names: Iterable[str] = ('disparity',), every: int = 1
              ) -> list[dict[str, np.ndarray]]:
        results = []
        for kind, fixed, least in kinds_of(config.disparity_range)[::every]:
            monkeypatch.setattr(formats, 'COSTS_OF_FIXED', fixed)
            monkeypatch.setattr(formats, 'MIN_COST_OF_THREE_BYTES', least)
            forget()
            assert MessageFormat.of(config).name == kind
            results.append(run(config, *noisy_pair(149, 75), tuple(names)))
        return results
    yield match
    monkeypatch.undo()
    forget()


@pytest.mark.parametrize('disparities', RANGES)
@pytest.mark.parametrize('changes', [{}, {'data_truncation': 15.3}, {'preprocessing': 'sobel_x'}])
def test_fewer_bytes_are_as_good_as_four(in_each_way: InEachWay, disparities: int,
                                         changes: dict[str, Any]) -> None:
    config = paper(disparities, **{'message_type': 'float32', 'levels': 3, 'subpixel': True,
                                   **changes})
    *others, expected = in_each_way(config, ('disparity', 'confidence'))
    # Another order of sums alone does as much to beliefs that are hardly apart. A pixel with
    # another label changes the confidence of all whose windows have it, each by a little.
    for found in others:
        assert np.mean(np.abs(found['disparity'] - expected['disparity']) > 1 / 16) < 0.002
        assert np.mean(np.abs(found['confidence'] - expected['confidence'])) < 0.002


@pytest.mark.parametrize('disparities', [21, 77, 128])
def test_labels_with_a_lead_are_found_whatever_a_step_is(in_each_way: InEachWay,
                                                         disparities: int) -> None:
    # No step is a part of this slope. Without a lead, rounding decides, which iterations amplify.
    config = paper(disparities, message_type='float32', levels=3, discontinuity_slope=0.7310585)
    left, right = noisy_pair(149, 75)
    beliefs = naive_bp.belief_propagation(left.astype(np.float32), right.astype(np.float32),
                                          config)
    least, second = np.moveaxis(np.sort(beliefs, axis=2)[..., :2], 2, 0)
    decided = second - least > 0.01
    assert decided.mean() > 0.4
    for found in in_each_way(config):
        assert np.array_equal(labels(config, found['disparity'])[decided],
                              naive_bp.labels(beliefs)[decided])


#: Costs, slope and truncation are multiples of 1/8.
EIGHTHS = {'message_type': 'float32', 'levels': 3, 'data_weight': 0.125,
           'discontinuity_slope': 0.5, 'discontinuity_truncation': 7.5}


@pytest.mark.parametrize('disparities', [64, 121, 128])
@pytest.mark.parametrize('changes', [{}, {'preprocessing': 'sobel_x'}, {'levels': 1},
                                     {'iterations': 1}, {'iterations': 0}, {'data_weight': 1.0}])
def test_whole_numbers_are_exact_where_float32_is(in_each_way: InEachWay, disparities: int,
                                                  changes: dict[str, Any]) -> None:
    config = paper(disparities, **{
        **EIGHTHS, 'subpixel': True, 'disp12_max_diff': 1, 'uniqueness_ratio': 3.0,
        'sobel_scale': 1.0, **changes})
    assert_same(*in_each_way(config, OUTPUTS, every=2))


@pytest.mark.parametrize('disparities', [64, 128])
@pytest.mark.parametrize('changes', [{}, {'levels': 1}, {'iterations': 1}, {'iterations': 0}])
def test_whole_numbers_have_the_labels_of_the_plain_implementation(
        disparities: int, changes: dict[str, Any]) -> None:
    # Means of as many labels are exact, which the plain implementation subtracts.
    config = paper(disparities, **{**EIGHTHS, **changes})
    assert isinstance(MessageFormat.of(config), formats.Fixed32)
    left, right = noisy_pair(149, 75)
    found = labels(config, run(config, left, right)['disparity'])
    assert np.array_equal(found, naive_labels(config, left, right))


@pytest.mark.parametrize('disparities', [64, 128])
def test_costs_far_below_the_truncation_are_still_told_apart(disparities: int) -> None:
    # Three bytes would have few steps for them.
    config = paper(disparities, message_type='float32', levels=3, data_weight=5e-4)
    assert MessageFormat.of(config).name == 'Float32Split'
    left, right = noisy_pair(149, 75)
    found = labels(config, run(config, left, right)['disparity'])
    assert np.mean(found != naive_labels(config, left, right)) < 0.006


@pytest.mark.parametrize('disparities', RANGES)
@pytest.mark.parametrize('directions', [1, 2, 4])
@pytest.mark.parametrize('truncation', [15.0, 15.3])
def test_what_else_is_wanted_changes_no_label(disparities: int, directions: int,
                                              truncation: float) -> None:
    config = paper(disparities, message_type='float32', levels=2, iterations=4,
                   data_truncation=truncation)
    left, right = noisy_pair(149, 45)
    one = launch.Tiling(1, 16, 8, 128, directions)
    side = 4 if disparities < 500 else 2
    for last in (launch.Tiling(1, side + 2, side, 128, directions),
                 launch.Tiling(2, side, side, 128, directions),
                 *([launch.Tiling(2, 4, 4, 1024, directions, True)] * (disparities <= 40))):
        tiles = {0: one._replace(last=last)}
        with tiled_as(tiles):
            steps = schedule.launches(config, 149, 45)
        assert messages.base_cost(config, 'uint8', steps) == (
            'Multiples' if truncation == 15.0 else CostFormat.of(config, 0).name)
        alone, with_more = (run(config, left, right, names, tilings=tiles)['disparity']
                            for names in (('disparity',), ('disparity', 'confidence')))
        assert np.array_equal(alone, with_more)
