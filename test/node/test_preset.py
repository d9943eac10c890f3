"""The preset of a node: chosen by configure where nothing says how is matched, and set live."""

from __future__ import annotations

import json
import pathlib
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')

from rclpy.parameter import Parameter

from stereo_bp_ros import StereoStream
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.images import files
from stereo_bp_ros.node.diagnostics.report import device_status
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
    """A node that nothing told how to match, on a CPU, after a large pair."""
    bench = make(preset=None, max_input_age=0.0, **MACHINE)
    assert bench.get('preset') == 'auto'
    bench.configure()
    bench.frame(1242, 375)
    return bench


MACHINE = {'backend': 'cpu', 'num_threads': 2, 'color_map': 'jet'}


def config_of(preset: str, **changes: Any) -> MatcherConfig:
    return MatcherConfig.preset(preset, **MACHINE, **changes)


def said(bench: Bench) -> dict[str, str]:
    """The values of the status ``device``."""
    return device_status(bench.node._report())[2]


def test_the_first_image_tells_which_preset_is_taken_and_a_later_one_does_not_change_it(
        make: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('stereo_bp_ros.engines.cpu.memory.available_threads', lambda: 8)
    logged: list[str] = []
    bench = make(preset=None, max_input_age=0.0, **MACHINE)
    monkeypatch.setattr(bench.node._reconfiguration, '_log', logged.append)
    bench.configure()
    assert bench.get('disparity_range') == 64
    assert said(bench)['preset'] == 'auto (waits for the first image)'
    for size in ((320, 240), (1242, 375)):
        bench.frame(*size)
        assert bench.matcher.config == config_of('road')
        assert bench.matcher.size == size
    assert (bench.get('preset'), bench.get('disparity_range')) == ('auto', 128)
    assert said(bench)['preset'] == 'auto (road)'
    assert [text for text in logged if 'auto' in text] == [
        'preset auto takes road on cpu (asked for), images of 320 x 240; auto is for roads: for a '
        'robot indoors set the preset indoor']


def test_a_preset_is_kept_until_cleanup_and_what_is_set_beside_it_beyond(
        make: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('stereo_bp_ros.engines.cpu.memory.available_threads', lambda: 8)
    bench = make(preset=None, max_input_age=0.0, **MACHINE)
    bench.configure()
    for trigger in ('activate', 'deactivate', 'activate'):
        assert getattr(bench.node, f'trigger_{trigger}')().name == 'SUCCESS'
        bench.frame(320, 240)
        assert bench.matcher.config == config_of('road')
    assert request(bench, uniqueness_ratio=4.0)[0].successful
    for trigger in ('deactivate', 'cleanup'):
        assert getattr(bench.node, f'trigger_{trigger}')().name == 'SUCCESS'
    assert (bench.get('disparity_range'), bench.get('uniqueness_ratio')) == (64, 4.0)
    bench.configure()
    bench.frame(1242, 375)
    assert bench.matcher.config == config_of('road_fast', uniqueness_ratio=4.0)


def test_what_is_set_before_the_first_image_counts(make: Callable[..., Bench]) -> None:
    bench = make(preset=None, max_input_age=0.0, max_image_width=64, **MACHINE)
    bench.configure()
    bench.frame(96, 64)                         # too large
    assert bench.node._configuration.awaits_preset
    assert bench.set(max_image_width=96, uniqueness_ratio=7.0).successful
    bench.frame(96, 64)
    assert bench.matcher.config == config_of('road', uniqueness_ratio=7.0, max_image_width=96)
    other = make(preset=None, max_input_age=0.0, **MACHINE)
    other.configure()
    assert request(other, preset='sad_fast')[0].successful
    other.frame(96, 64)
    assert other.matcher.config == config_of('sad_fast')


def test_a_dump_is_loaded_into_a_node_that_is_auto(road_fast: Bench) -> None:
    results = request(road_fast, preset='auto', levels=4)
    assert every(result.successful for result in results)
    assert road_fast.matcher.config == config_of('road_fast', levels=4)


@pytest.mark.parametrize(('values', 'preset', 'config'), [
    ({'disparity_range': 32}, 'none', MatcherConfig(disparity_range=32)),
    ({'P1': 3.0}, 'none', MatcherConfig()),
    ({'preset': ''}, '', MatcherConfig()),
    ({'preset': 'auto', 'levels': 4}, 'auto', MatcherConfig.preset('road_fast', levels=4)),
    ({'image_width': 96, 'image_height': 64}, 'auto', MatcherConfig.preset('road'))], ids=str)
def test_what_is_given_wins_over_the_preset(make: Callable[..., Bench], values: dict[str, Any],
                                            preset: str, config: MatcherConfig) -> None:
    bench = make(**{'preset': None, 'backend': 'cpu', 'max_input_age': 0.0, **values})
    bench.configure()
    if 'image_width' not in values:
        bench.frame(1242, 375)
    assert bench.get('preset') == preset
    assert bench.matcher.config == config.replace(backend='cpu')


def test_a_set_before_configure_is_given_too(make: Callable[..., Bench]) -> None:
    bench = make(preset=None, backend='cpu', max_input_age=0.0)
    assert bench.set(levels=4).successful
    bench.configure()
    bench.frame(1242, 375)
    assert bench.matcher.config == MatcherConfig.preset('road_fast', levels=4, backend='cpu')


def test_one_set_changes_over_to_another_preset(road_fast: Bench) -> None:
    assert request(road_fast, preset='sad_fast')[0].successful
    assert road_fast.matcher.config == config_of('sad_fast')
    assert 'is for the start' in request(road_fast, preset='auto')[0].reason
    results = request(road_fast, preset='road', filling='plane', queue_size=3)
    assert every(result.successful for result in results)
    assert len(results) == 3
    assert road_fast.matcher.config == config_of('road', filling='plane')
    assert road_fast.get('queue_size') == 3


@pytest.mark.parametrize(('values', 'words'), [
    ({'preset': 'rode'}, 'did you mean road?'),
    ({'preset': 'road', 'levels': 11}, 'levels'),
    ({'preset': 'sad_fast', 'border': 'keep'}, 'border')])
def test_what_is_no_preset_or_does_not_go_with_it_changes_nothing(
        road_fast: Bench, values: dict[str, Any], words: str) -> None:
    results = request(road_fast, **values)
    assert [result.successful for result in results] == [False] * len(values)
    assert words in results[0].reason
    assert road_fast.get('preset') == 'auto'
    assert road_fast.node._configuration.matcher == config_of('road_fast')


def test_a_preset_of_another_program_is_rejected(make: Callable[..., Bench]) -> None:
    bench = make(preset=None, program='plain_steps')
    assert bench.get('preset') == 'none'
    assert 'program' in request(bench, preset='road')[0].reason


def test_a_preset_that_cannot_be_built_is_set_back(road_fast: Bench) -> None:
    road_fast.matcher.refuse.append(StereoError('no room'))
    assert request(road_fast, preset='indoor')[0].successful
    assert road_fast.get('preset') == 'auto'
    assert road_fast.node._configuration.matcher == config_of('road_fast')


def test_node_match_evaluate_and_python_take_the_same_preset_for_a_pair(
        make: Callable[..., Bench], tmp_path: pathlib.Path,
        capsys: pytest.CaptureFixture[str]) -> None:
    images = [np.random.default_rng(5).integers(0, 256, (240, 320), np.uint8)] * 2
    paths = [tmp_path / side / '1.png' for side in ('left', 'right')]
    for path, image in zip(paths, images, strict=True):
        path.parent.mkdir()
        files.write_image(path, image)
    options = ['--json', '--backend', 'cpu', '--set', 'num_threads=1', '--set', 'color_map=jet']
    config = MatcherConfig.preset('road', **{**MACHINE, 'num_threads': 1})
    assert main(['match', *map(str, paths), *options, '-o', str(tmp_path / 'd.npy')]) == 0
    assert 'takes road' in capsys.readouterr().err
    assert main(['evaluate', str(tmp_path), '--left-glob', 'left/*.png', '--right-glob',
                 'right/*.png', '--repeat', '1', *options]) == 0
    told = capsys.readouterr()
    assert 'takes road' in told.err
    assert json.loads(told.out)['settings'] == config.to_mapping()
    with StereoStream(backend='cpu', num_threads=1, color_map='jet') as stream:
        stream.add(*images)
        assert stream.config == config
    bench = make(preset=None, max_input_age=0.0, **{**MACHINE, 'num_threads': 1})
    bench.configure()
    bench.frame(320, 240)
    assert bench.matcher.config == config
