"""The preset of a node: chosen by configure where nothing says how is matched, and set live."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip('rclpy')

from rclpy.parameter import Parameter

from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.errors import StereoError
from test.cases import every
from test.node.bench import Bench

pytestmark = pytest.mark.ros


def request(bench: Bench, **values: Any) -> list[Any]:
    """The results of a request of the service that sets parameters."""
    message = types.SimpleNamespace(parameters=[
        Parameter(name, value=value).to_parameter_msg() for name, value in values.items()])
    response = bench.node._parameter_services._set_parameters_callback(
        message, types.SimpleNamespace())
    bench.settle()
    return list(response.results)


@pytest.fixture
def road_fast(make: Callable[..., Bench]) -> Bench:
    """A node that nothing told how to match, on a CPU."""
    bench = make(preset=None, backend='cpu', num_threads=2, color_map='jet')
    assert bench.get('preset') == 'auto'
    bench.configure()
    return bench


def config_of(preset: str, **changes: Any) -> MatcherConfig:
    return MatcherConfig.preset(preset, backend='cpu', num_threads=2, color_map='jet', **changes)


def test_configure_takes_the_best_preset_and_keeps_it(road_fast: Bench) -> None:
    assert road_fast.get('preset') == 'road_fast'
    assert road_fast.get('disparity_range') == 128
    assert road_fast.matcher.config == config_of('road_fast')
    assert request(road_fast, levels=4)[0].successful
    assert road_fast.node.trigger_cleanup().name == 'SUCCESS'
    road_fast.configure()
    assert road_fast.matcher.config == config_of('road_fast', levels=4)


@pytest.mark.parametrize(('values', 'preset', 'config'), [
    ({'disparity_range': 32}, 'none', MatcherConfig(disparity_range=32)),
    ({'P1': 3.0}, 'none', MatcherConfig()),
    ({'preset': ''}, '', MatcherConfig()),
    ({'preset': 'auto', 'levels': 4}, 'road_fast', MatcherConfig.preset('road_fast', levels=4)),
    ({'image_width': 96, 'image_height': 64}, 'road', MatcherConfig.preset('road'))], ids=str)
def test_what_is_given_wins_over_the_preset(make: Callable[..., Bench], values: dict[str, Any],
                                            preset: str, config: MatcherConfig) -> None:
    bench = make(**{'preset': None, 'backend': 'cpu', **values})
    bench.configure()
    assert bench.get('preset') == preset
    assert bench.matcher.config == config.replace(backend='cpu')


def test_a_set_before_configure_is_given_too(make: Callable[..., Bench]) -> None:
    bench = make(preset=None, backend='cpu')
    assert bench.set(levels=4).successful
    bench.configure()
    assert bench.matcher.config == MatcherConfig.preset('road_fast', levels=4, backend='cpu')


def test_one_set_changes_over_to_another_preset(road_fast: Bench) -> None:
    assert request(road_fast, preset='sad_fast')[0].successful
    assert road_fast.matcher.config == config_of('sad_fast')
    results = request(road_fast, preset='road', filling='plane', queue_size=3)
    assert every(result.successful for result in results)
    assert len(results) == 3
    assert road_fast.matcher.config == config_of('road', filling='plane')
    assert road_fast.get('queue_size') == 3


@pytest.mark.parametrize(('values', 'words'), [
    ({'preset': 'rode'}, 'did you mean road?'), ({'preset': 'auto'}, 'is for the start'),
    ({'preset': 'road', 'levels': 11}, 'levels'),
    ({'preset': 'sad_fast', 'border': 'keep'}, 'border')])
def test_what_is_no_preset_or_does_not_go_with_it_changes_nothing(
        road_fast: Bench, values: dict[str, Any], words: str) -> None:
    results = request(road_fast, **values)
    assert [result.successful for result in results] == [False] * len(values)
    assert words in results[0].reason
    assert road_fast.get('preset') == 'road_fast'
    assert road_fast.node._configuration.matcher == config_of('road_fast')


def test_a_preset_of_another_program_is_rejected(make: Callable[..., Bench]) -> None:
    bench = make(preset=None, program='plain_steps')
    assert bench.get('preset') == 'none'
    assert 'program' in request(bench, preset='road')[0].reason


def test_a_preset_that_cannot_be_built_is_set_back(road_fast: Bench) -> None:
    road_fast.matcher.refuse.append(StereoError('no room'))
    assert request(road_fast, preset='indoor')[0].successful
    assert road_fast.get('preset') == 'road_fast'
    assert road_fast.node._configuration.matcher == config_of('road_fast')
