"""What the node's launch file makes of its arguments, without launch."""

from __future__ import annotations

import pytest

from stereo_bp_ros import StereoError
from stereo_bp_ros.config import all_settings
from stereo_bp_ros.node import launching
from stereo_bp_ros.node.main import EXIT_DEVICE_LOST, EXIT_REFUSED


@pytest.mark.parametrize(('text', 'value'), [
    ('true', True), ('True', True), ('TRUE', True), ('yes', True), ('On', True),
    ('false', False), ('False', False), ('no', False), ('off', False)])
def test_booleans_have_the_spellings_of_yaml(text, value):
    assert launching.parse_boolean('respawn', text) is value
    assert launching.parameter_values({'use_sim_time': text}) == {'use_sim_time': value}


@pytest.mark.parametrize('text', ['maybe', '1.5', 'tru'])
def test_what_is_no_boolean_is_refused_by_name(text):
    with pytest.raises(StereoError, match=r'use_sim_time is .* must be true or false'):
        launching.parse_boolean('use_sim_time', text)


def test_every_parameter_is_taken_in_its_own_type_and_what_is_not_set_is_left_out():
    given = {name: str(setting.default) for name, setting in all_settings().items()}
    values = launching.parameter_values({**given, 'name': 'engine', 'respawn': 'true'})
    expected = {name: setting.default for name, setting in all_settings().items()
                if setting.default != ''}
    assert values == expected
    assert all(type(values[name]) is type(expected[name]) for name in expected)
    assert launching.parameter_values(dict.fromkeys(given, '')) == {}
    assert launching.parameter_values({'stereo_algorithm': '1'}) == {'stereo_algorithm': 'bp'}
    with pytest.raises(StereoError, match='disparity_range is 1000, but must be'):
        launching.parameter_values({'disparity_range': '1000'})


def test_a_parameter_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(StereoError, match=r'params_file is .*/missing\.yaml.* no such file'):
        launching.parameter_file('/missing.yaml')       # errors shorten long paths
    (tmp_path / 'mine.yaml').touch()
    assert launching.parameter_file(str(tmp_path / 'mine.yaml')) == [str(tmp_path / 'mine.yaml')]
    assert launching.parameter_file('') == []


@pytest.mark.parametrize('command', [
    ['/opt/ros/bin/ros2', 'launch', 'stereo_bp_ros', 'stereo_bp.launch.py', 'approximate_syn:=1'],
    ['ros2', 'launch', '/ws/src/stereo_bp_ros/launch/stereo_bp.launch.py', 'approximate_syn:=1']])
def test_an_unknown_argument_of_the_file_that_was_started_is_named_with_the_closest(command):
    known = ['approximate_sync', 'preset']
    sentence, = launching.unknown_arguments('stereo_bp.launch.py', command,
                                            ['approximate_syn:=1', 'preset:=road', '--debug'],
                                            known)
    assert 'no argument approximate_syn; did you mean approximate_sync?' in sentence
    sentence, = launching.unknown_arguments('stereo_bp.launch.py', command, ['zzz:=1'], known)
    assert 'did you mean' not in sentence


def test_a_file_that_is_included_says_nothing():
    assert not launching.unknown_arguments(
        'stereo_bp.launch.py', ['ros2', 'launch', 'robot', 'bringup.launch.py', 'camera:=zed'],
        ['camera:=zed'], ['preset'])


def test_only_a_refused_configuration_is_final():
    assert 'refused to start' in launching.refusal(EXIT_REFUSED)
    for status in (0, 1, EXIT_DEVICE_LOST, -6, -9):
        assert launching.refusal(status) == ''
