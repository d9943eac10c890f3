"""Parameters: declared from the settings, checked as a whole, refused in words."""

from __future__ import annotations

import pathlib
import time
import types
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from stereo_bp_ros.config.mappings import all_settings
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.engines import choice
from stereo_bp_ros.errors import BackendUnavailable, ConfigError, StereoError

pytest.importorskip('rclpy')

from rcl_interfaces.srv import SetParametersAtomically
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException
from rclpy.parameter import Parameter

from stereo_bp_ros.node.parameters import set_together
from test.cases import every
from test.node.bench import Bench

pytestmark = pytest.mark.ros


def test_every_setting_is_a_parameter_with_meaning_limits_and_default(
        make: Callable[..., Bench]) -> None:
    bench = make(preset=None)
    assert not any(bench.node.has_parameter(name)
                   for name in all_settings().keys() - all_settings('default').keys())
    for name, setting in all_settings('default').items():
        assert bench.get(name) == setting.default
        found = bench.node.describe_parameter(name)
        assert setting.meaning in found.description
        assert found.read_only == setting.read_only
        ranges = [*found.integer_range, *found.floating_point_range]
        if setting.minimum is not None and setting.type in (int, float):
            assert (ranges[0].from_value, ranges[0].to_value) == (setting.minimum,
                                                                 setting.maximum)
    names = ['prefilter_cap', 'texture_threshold', 'disp12_max_diff', 'use_system_default_qos',
             'queue_size']       # of stereo_image_proc
    assert every(map(bench.node.has_parameter, names))


PLAIN = {'program': 'plain_steps', 'plain_steps.storage': 'register', 'plain_steps.blocks': 2}


def test_a_program_brings_its_parameters_and_keeps_those_that_can_be_built(
        make: Callable[..., Bench]) -> None:
    bench = make(preset='five_sets', **PLAIN)
    assert bench.node._configuration.matcher == MatcherConfig.preset('five_sets', **PLAIN)
    assert not bench.node.has_parameter('tiled_barriers.schedule')
    assert 'read-only' in bench.set(program='default').reason
    assert bench.set(**{'plain_steps.blocks': 4}).successful
    assert bench.node._configuration.matcher.plain_steps.blocks == 4
    assert 'must be one of' in bench.set(**{'plain_steps.storage': 'tape'}).reason
    bench.configure()
    levels = bench.get('levels')
    bench.matcher.refuse.append(StereoError('no room'))
    assert bench.set(**{'plain_steps.blocks': 3, 'levels': levels - 1}).successful
    bench.settle()
    assert (bench.get('plain_steps.blocks'), bench.get('levels')) == (4, levels)


@pytest.mark.parametrize(('values', 'sentence'), [
    ({'plain_steps.storage': 'register'},
     'it belongs to program plain_steps, and program is default'),
    ({**PLAIN, 'stereo_algorithm': 'sad'}, 'it is one of stereo_algorithm bp, which is sad'),
    ({'disparity_range': 1}, 'disparity_range'), ({'data_weight': 'much'}, 'data_weight'),
    ({'subpixel': 1}, 'subpixel'), ({'preset': 'nowhere'}, 'preset'),
    ({'image_width': 640}, 'image_width'),
    ({'message_type': 'int16', 'exact': True}, 'message_type')])
def test_refused_initial_values_end_the_start_also_those_that_ros_would_leave_out(
        make: Callable[..., Bench], values: dict[str, Any], sentence: str) -> None:
    with pytest.raises((ConfigError, InvalidParameterTypeException,
                        InvalidParameterValueException), match=sentence):
        make(**values)


@pytest.mark.parametrize('name', ['road', 'sad_fast'])
def test_a_preset_changes_the_defaults_and_set_values_win(make: Callable[..., Bench], name: str
                                                          ) -> None:
    bench = make(preset=name, speckle_size=77)
    assert bench.node._configuration.matcher == MatcherConfig.preset(name, speckle_size=77)


def test_whole_numbers_are_accepted_for_numbers_and_names_for_algorithms(
        make: Callable[..., Bench]) -> None:
    bench = make(data_weight=1, stereo_algorithm=0)
    assert bench.node._configuration.matcher.data_weight == 1.0
    assert bench.node._configuration.matcher.stereo_algorithm == 'sad'
    assert type(bench.get('data_weight')) is float
    assert bench.set(data_weight=2, stereo_algorithm='bp').successful
    assert bench.node._configuration.matcher.data_weight == 2.0
    assert type(bench.get('data_weight')) is float
    assert bench.node._configuration.matcher.stereo_algorithm == 'bp'


def test_off_in_a_parameter_file_is_a_name_though_yaml_makes_false_of_it(
        make: Callable[..., Bench]) -> None:
    bench = make(row_correction=False, side_by_side=False)
    assert not bench.node._configuration.node.is_side_by_side
    assert bench.node._configuration.matcher.row_correction == 'off'
    assert bench.get('row_correction') == 'off'
    assert bench.set(row_correction='measure').successful
    assert bench.set(row_correction=False).successful
    assert bench.node._configuration.matcher.row_correction == 'off'
    assert not bench.set(row_correction=True).successful


def test_values_for_stereo_image_proc_are_translated(make: Callable[..., Bench]) -> None:
    bench = make(stereo_algorithm=0, speckle_range=4, full_dp=True,
                 use_image_transport_camera_info=True)
    assert bench.node._configuration.matcher.speckle_range == 0.25
    # A dump holds the name, and is not translated again.
    assert (bench.get('stereo_algorithm'), bench.get('speckle_range')) == ('sad', 0.25)
    assert bench.set(speckle_range=2.0).successful
    assert bench.node._configuration.matcher.speckle_range == 2.0
    request = SetParametersAtomically.Request(parameters=[
        Parameter('stereo_algorithm', value=0).to_parameter_msg(),
        Parameter('speckle_range', value=8.0).to_parameter_msg()])
    for name in ('_set_parameters_callback', '_set_parameters_atomically_callback'):
        assert bench.set(speckle_range=2.0).successful
        getattr(bench.node._parameter_services, name)(request, types.SimpleNamespace())
        assert (bench.get('stereo_algorithm'), bench.get('speckle_range')) == ('sad', 0.5)
    assert make(preset='sad_fast', stereo_algorithm=0).get('speckle_range') == 4.0
    assert make(stereo_algorithm='sad', speckle_range=4).get('speckle_range') == 4.0


def test_a_refused_set_says_why_and_changes_nothing(make: Callable[..., Bench]) -> None:
    bench = make()
    before = bench.node._configuration.matcher, bench.node._configuration.node
    for values, words in (
            ({'disparity_range': 1}, 'out of range'),
            ({'data_weight': 'much'}, 'must be a number'),
            ({'data_weight': True}, 'must be a number'),
            ({'median_window_size': 4}, 'must be 0 (off), 3 or 5'),
            ({'preprocessing': 'nothing'}, 'must be one of none, sobel_x'),
            ({'stereo_algorithm': 3}, '0 = sad, 1 = bp, 2 = tiled_bp'),
            ({'exact': True}, 'needs message_type float32'),
            ({'rectify': True}, 'read-only'), ({'subpixel': 1}, 'Wrong parameter type')):
        result = bench.set(queue_size=17, **values)
        assert not result.successful
        assert words in result.reason
        assert (bench.node._configuration.matcher, bench.node._configuration.node) == before
        assert bench.get('queue_size') == 5
    for name in ('data_weight', 'stereo_algorithm', 'disparity_range'):
        unset = [Parameter(name, Parameter.Type.NOT_SET)]
        assert not bench.node.set_parameters_atomically(unset).successful
        assert bench.node.has_parameter(name)


def test_what_the_device_does_not_hold_is_refused_with_its_remedy_before_anything_is_built(
        make: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise BackendUnavailable('there is no GPU here', 'use backend cpu or auto')

    bench = make(image_width=640, image_height=480, backend='cpu')
    bench.configure()
    result = bench.set(memory_limit=1_000_000)
    assert not result.successful
    assert '1.0 MiB are allowed (memory_limit' in result.reason
    monkeypatch.setattr(choice, 'known', refuse)
    result = bench.set(backend='cuda')
    assert not result.successful
    assert result.reason == 'there is no GPU here; use backend cpu or auto'
    assert len(bench.made) == 1


def test_one_atomic_set_is_one_change_of_configuration_also_before_the_first_build(
        make: Callable[..., Bench]) -> None:
    bench = make()
    assert bench.set(disparity_range=48).successful
    bench.settle()
    assert bench.made == []
    bench.configure()
    assert bench.matcher.config.disparity_range == 48
    calls: list[MatcherConfig] = []
    reconfigure = bench.matcher.reconfigure
    bench.matcher.reconfigure = lambda config, *calibration: (
        calls.append(config), reconfigure(config, *calibration))[1]
    assert bench.set(disparity_range=32, message_type='float32', exact=True,
                     queue_size=9).successful
    bench.settle()
    assert [(c.disparity_range, c.exact) for c in calls] == [(32, True)]
    assert bench.node._pairing.settings.queue_size == 9


def test_what_cannot_be_built_is_set_back_but_for_what_was_set_in_the_meantime(
        make: Callable[..., Bench]) -> None:
    bench = make()
    bench.configure()
    bench.node._ticker.stop()           # a report forgets what has happened

    def refuse(config: MatcherConfig, calibration: Any) -> bool:
        del bench.matcher.reconfigure
        if config.levels == 4:
            bench.set(speckle_size=11, disparity_range=20)
        raise StereoError('no room')

    bench.matcher.reconfigure = refuse
    assert bench.set(disparity_range=128, speckle_size=5).successful
    bench.settle()
    assert (bench.get('disparity_range'), bench.get('speckle_size')) == (64, 0)
    assert bench.matcher.config == MatcherConfig()
    text, = (c.text for c in bench.node._issues.active('configuration'))
    assert 'no room' in text
    bench.matcher.reconfigure = refuse
    assert bench.set(disparity_range=128, levels=4).successful
    bench.settle()
    bench.settle()
    assert (bench.get('disparity_range'), bench.get('levels'), bench.get('speckle_size')
            ) == (20, 5, 11)
    assert (bench.matcher.config.disparity_range, bench.matcher.config.levels) == (20, 5)
    assert bench.node._issues.active('configuration') == []


def test_parameters_that_are_ignored_or_misspelt_are_warned_of(
        make: Callable[..., Bench], capfd: pytest.CaptureFixture[str]) -> None:
    make(P1=10.0, sgbm_mode=0, dispartiy_range=32)
    deadline = time.monotonic() + 60
    log = ''
    while 'did you mean' not in log and time.monotonic() < deadline:
        log += ''.join(capfd.readouterr())
    assert 'P1 has no effect: it belongs to semi-global matching' in log
    assert 'sgbm_mode has no effect' in log
    assert 'no parameter P1' not in log
    assert 'did you mean disparity_range?' in log


def test_values_that_belong_together_can_be_set_in_any_order_and_only_bad_ones_are_refused(
        make: Callable[..., Bench]) -> None:
    bench = make()
    results = set_together(bench.node, [
        Parameter('exact', value=True), Parameter('disparity_range', value=1),
        Parameter('message_type', value='float32'), Parameter('autostart', value=False),
        Parameter('autostart', value=True), Parameter('nonsense', value=1)])
    assert [r.successful for r in results] == [True, False, True, False, True, False]
    assert bench.node._configuration.matcher.exact
    assert bench.get('disparity_range') == 64


# Between processes

def values_of(client: Any) -> dict[str, Any]:
    """Everything that ``ros2 param dump`` would write."""
    from rcl_interfaces.srv import ListParameters

    return client.get_parameters(*sorted(client.call(ListParameters, 'list_parameters'
                                                     ).result.names))


PARAMETERS = {'max_input_age': 30.0}


def test_live_changes_refusals_dump_and_load(client: Any, start: Any, textured_pair: Any,
                                             tmp_path: pathlib.Path) -> None:
    pair = textured_pair(96, 64, 5)
    assert client.match(*pair).max_disparity == 15.0
    # Live: from the next frame on.
    assert client.set_parameters(subpixel=False)[0].successful
    assert client.match(*pair).delta_d == 1.0
    # A rebuild: nothing is lost, nothing of the old configuration comes after it.
    assert client.set_parameters(disparity_range=24)[0].successful
    assert client.match(*pair).max_disparity == 23.0
    refused, = client.set_parameters(disparity_range=1000)
    assert not refused.successful
    assert '512' in refused.reason
    refused, = client.set_parameters(median_window_size=4)
    assert refused.reason == ('median_window_size is 4, but must be 0 (off), 3 or 5')
    assert client.match(*pair).max_disparity == 23.0
    accepted, = client.set_parameters(
        atomically=True, min_disparity=2, disparity_range=12, uniqueness_ratio=1)
    assert accepted.successful
    found = client.match(*pair)
    assert (found.min_disparity, found.max_disparity) == (2.0, 13.0)
    dumped = values_of(client)

    # A dump is a parameter file: for a start, and to be loaded into a running node.
    assert dumped['disparity_range'] == 12
    assert dumped['uniqueness_ratio'] == 1.0
    assert 'qos_overrides./left/image_rect.subscription.depth' in dumped
    path = tmp_path / 'dump.yaml'
    path.write_text(yaml.safe_dump({'/stereo_bp': {'ros__parameters': dumped}}))
    assert values_of(start({}, '--params-file', str(path), client={'topics': ()})) == dumped
    assert client.set_parameters(True, disparity_range=64, min_disparity=0, exact=True,
                                 message_type='float32')[0].successful
    results = client.set_parameters(**dumped)
    assert [(n, r.reason) for n, r in zip(dumped, results, strict=True) if not r.successful] == []
    assert values_of(client) == dumped


def test_without_post_set_callbacks_parameters_work_all_the_same(
        make: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    """Humble has on-set callbacks only."""
    monkeypatch.delattr('rclpy.node.Node.add_post_set_parameters_callback')
    monkeypatch.delattr('rclpy.node.Node.add_pre_set_parameters_callback')
    bench = make(data_weight=1)
    bench.configure()
    assert bench.set(data_weight=2, queue_size=8).successful
    bench.settle()
    assert bench.matcher.config.data_weight == 2.0
    assert bench.node._pairing.settings.queue_size == 8
    assert not bench.set(exact=True).successful
    bench.matcher.refuse.append(StereoError('no room'))
    assert bench.set(disparity_range=128).successful
    bench.settle()
    assert bench.get('disparity_range') == 64
