"""``stereo_bp param``: parameters of a running node are read and set from a shell."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

pytest.importorskip('rclpy')

from stereo_bp_ros.cli.main import main
from stereo_bp_ros.cli.param import effective
from test.node.client import Client

pytestmark = pytest.mark.ros

PARAMETERS = {'preset': 'road', 'disparity_range': 16, 'max_input_age': 30.0}

Param = Callable[..., 'tuple[int, str, str]']


@pytest.fixture
def param(client: Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
          ) -> Param:
    """``param(*words)``: exit status, output and errors of the verb in the node's domain."""
    monkeypatch.setenv('ROS_DOMAIN_ID', str(client.context.get_domain_id()))

    def param(*words: str) -> tuple[int, str, str]:
        request, *rest = words
        status = main(['param', request, '--wait', '60', *rest])
        return status, *capsys.readouterr()
    return param


def test_a_preset_changes_the_parameters_that_it_provides(client: Client, param: Param) -> None:
    client.set_parameters(preset='road')
    assert param('set', 'preset', 'sad_fast') == (0, 'preset: sad_fast\n', '')
    assert param('get', 'stereo_algorithm') == (0, 'sad\n', '')


def test_what_is_effective_stands_beside_what_is_set(client: Client, param: Param) -> None:
    client.set_parameters(min_depth=3.0, disparity_range=16)
    # With a calibration of an earlier test, or without one.
    said = client.wait_for_status('device', lambda status: 'min_depth 3 m' in status.values.get(
        'disparities', '')).values['disparities']
    assert param('get', 'disparity_range')[1] == f'16 ({said})\n'
    assert json.loads(param('get', 'disparity_range', '--json')[1]) == {
        '/stereo_bp': {'disparity_range': 16}, 'effective': {'disparity_range': f'16 ({said})'}}
    status = {'preset': 'auto (road_fast)', 'disparities': '0 to 127'}
    assert effective({'preset': 'auto', 'disparity_range': 128}, status) == {
        'preset': 'auto (road_fast)'}
    assert effective({'preset': 'road'}, status) == {}
    client.set_parameters(min_depth=0.0)
    client.wait_for_status('device', lambda status: status.values.get('disparities') == '0 to 15')


def test_a_text_means_what_the_parameter_takes(client: Client, param: Param) -> None:
    assert param('set', 'uniqueness_ratio', '7')[1] == 'uniqueness_ratio: 7.0\n'
    assert param('set', '--json', 'row_correction', 'off')[:2] == (
        0, '{\n  "/stereo_bp": {\n    "row_correction": "off"\n  }\n}\n')
    assert client.get_parameters('uniqueness_ratio', 'row_correction') == {
        'uniqueness_ratio': 7.0, 'row_correction': 'off'}


def test_the_list_has_every_parameter_with_its_value(client: Client, param: Param) -> None:
    status, printed, _ = param('list', '--json')
    (node, values), = json.loads(printed).items()
    assert (status, node) == (0, '/stereo_bp')
    assert {'preset', 'use_sim_time', 'disparity_range'} <= set(values)
    assert f'disparity_range: {values["disparity_range"]}\n' in param('list')[1]


@pytest.mark.parametrize(('words', 'sentence'), [
    (('get', 'disparity_rnage'), "no parameter 'disparity_rnage'; did you mean disparity_range?"),
    (('set', 'confidence_threshold', '7'), '/stereo_bp rejects it: '),
    (('set', 'disparity_range', 'many'), "disparity_range takes a whole number, not 'many'"),
    (('set', 'disparity_range', '64.5'), "disparity_range takes a whole number, not '64.5'"),
    (('set', 'use_sim_time', '1'), "use_sim_time takes true or false, not '1'"),
    (('set', 'disparity_range', '9' * 30), 'whole numbers of ROS have 64 bits'),
    (('set', 'preset'), 'stereo_bp param set: the following arguments are required: VALUE'),
    (('get',), 'stereo_bp param get: the following arguments are required: NAME'),
    (('get', 'preset', '--namespace', 'fornt', '--wait', '2'), 'in /fornt within')])
def test_a_mistake_is_a_sentence_and_status_2(param: Param, words: tuple[str, ...],
                                              sentence: str) -> None:
    status, printed, said = param(*words)
    assert (status, printed) == (2, '')
    assert sentence in said


def test_a_negative_value_is_a_value_and_options_stand_anywhere(client: Client, param: Param
                                                               ) -> None:
    assert param('set', 'min_disparity', '-3', '--namespace', '/')[1] == 'min_disparity: -3\n'
    assert param('set', '--namespace', '/', 'min_disparity', '0')[1] == 'min_disparity: 0\n'


def test_the_usage_names_what_a_request_takes(capsys: pytest.CaptureFixture[str]) -> None:
    for request, words in (('list', []), ('get', ['NAME']), ('set', ['NAME', 'VALUE'])):
        with pytest.raises(SystemExit):
            main(['param', request, '--help'])
        usage = capsys.readouterr().out.partition('\n\n')[0].split()
        assert usage[:4] == ['usage:', 'stereo_bp', 'param', request]
        assert [word for word in usage if word in ('NAME', 'VALUE')] == words
