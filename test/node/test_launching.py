"""What the node's launch file makes of its arguments, without launch."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import yaml

from stereo_bp_ros import StereoError
from stereo_bp_ros.config.files import preset_names
from stereo_bp_ros.config.mappings import all_settings
from stereo_bp_ros.node import launching
from stereo_bp_ros.node.main import EXIT_DEVICE_LOST, EXIT_REFUSED
from test.cases import every


def test_booleans_have_the_spellings_of_yaml():
    for text, value in (('true', True), ('TRUE', True), ('yes', True), ('On', True),
                        ('False', False), ('no', False)):
        assert launching.parse_boolean('respawn', text) is value
        assert launching.parameter_values({'use_sim_time': text}) == {'use_sim_time': value}
    for text in ('maybe', '1.5', 'tru'):
        with pytest.raises(StereoError, match=r'use_sim_time is .* must be true or false'):
            launching.parse_boolean('use_sim_time', text)


def test_every_parameter_is_taken_in_its_own_type_and_what_is_not_set_is_left_out():
    given = {name: str(setting.default) for name, setting in all_settings().items()}
    values = launching.parameter_values({**given, 'name': 'engine', 'respawn': 'true'})
    expected = {name: setting.default for name, setting in all_settings().items()
                if setting.default != ''}
    assert values == expected
    assert every(type(values[name]) is type(expected[name]) for name in expected)
    assert launching.parameter_values(dict.fromkeys(given, '')) == {}
    assert launching.parameter_values({'stereo_algorithm': '1'}) == {'stereo_algorithm': 1}
    assert launching.parameter_values({'stereo_algorithm': 'bp'}) == {'stereo_algorithm': 'bp'}
    with pytest.raises(StereoError, match='disparity_range is 1000, but must be'):
        launching.parameter_values({'disparity_range': '1000'})


def test_a_parameter_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(StereoError, match=r'params_file is .*/missing\.yaml.* no such file'):
        launching.parameter_file('/missing.yaml')       # errors shorten long paths
    (tmp_path / 'mine.yaml').touch()
    assert launching.parameter_file(str(tmp_path / 'mine.yaml')) == [str(tmp_path / 'mine.yaml')]
    assert launching.parameter_file('') == []


def test_an_unknown_argument_of_the_file_that_was_started_is_named_with_the_closest():
    def told(file, argument, *others):
        return [*launching.unknown_arguments(
            'stereo_bp.launch.py', ['ros2', 'launch', *file, argument], [argument, *others],
            (), ['approximate_sync', 'preset']).values()]

    for file in (('stereo_bp_ros', 'stereo_bp.launch.py'), ('/ws/launch/stereo_bp.launch.py',)):
        sentence, = told(file, 'approximate_syn:=1', 'preset:=road', '--debug')
        assert 'no argument approximate_syn; did you mean approximate_sync?' in sentence
        assert told(file, 'launch-prefix:=gdb --args', 'launch-prefix-filter:=.*node') == []
        sentence, = told(file, 'zzz:=1')
        assert 'did you mean' not in sentence
    assert not told(('robot', 'bringup.launch.py'), 'camera:=zed')      # which includes it


def test_an_included_file_names_what_resembles_its_arguments_and_leaves_its_parents_alone():
    """A file sees all that is set in those around it."""
    known = ['namespace', 'name', 'params_file', 'rectify', *all_settings()]

    def told(*given):
        return launching.unknown_arguments(
            'stereo_bp.launch.py', ['ros2', 'launch', 'robot', 'bringup.launch.py'], [],
            given, known)

    found = told('preset', 'presett', 'rectfiy', 'container', 'launch_image_proc', 'launch-prefix')
    assert list(found) == ['presett', 'rectfiy', 'container', 'launch_image_proc']
    assert 'no argument presett, which is set; did you mean preset?' in found['presett']
    assert 'set rectify to match raw images' in found['launch_image_proc']
    assert 'leave it out' in found['container']
    assert not told('camera_model', 'robot_namespace', 'use_rviz', 'map', 'ros_namespace',
                    'global_params', 'camera_name', 'output', 'left_image', 'right_info')


def test_only_a_refused_configuration_is_final():
    assert 'refused to start' in launching.refusal(EXIT_REFUSED)
    for status in (0, 1, EXIT_DEVICE_LOST, -6, -9):
        assert launching.refusal(status) == ''


#: The launch file's own arguments, with the texts that some are limited to.
CHOICES = {**dict.fromkeys(('namespace', 'name', 'left_namespace', 'right_namespace',
                            'params_file', 'use_sim_time', 'cameras', 'view', 'diagnostics',
                            'respawn',
                            *all_settings()), ()),
           'preset': ('', 'road', 'sad_fast'), 'log_level': ('', 'info', 'debug')}


def cameras(tmp_path: pathlib.Path, content: Any, **given: str) -> list[dict[str, Any]]:
    """The cameras of a file, which None leaves away, with further arguments."""
    file = tmp_path / 'cameras.yaml'
    if content is not None:
        file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return launching.cameras({**dict.fromkeys(CHOICES, ''), 'cameras': str(file), **given},
                             CHOICES)


def test_without_a_file_of_cameras_there_is_the_one_of_the_command_line():
    given = {**dict.fromkeys(CHOICES, ''), 'preset': 'road'}
    assert launching.cameras(given, CHOICES) == [given]


def test_each_camera_has_its_own_arguments_and_those_of_the_command_line(tmp_path):
    front, rear = cameras(tmp_path, [
        {'namespace': 'front', 'preset': 'road', 'num_threads': 2,
         'remappings': {'left/image_rect': '/infra1/image_rect_raw'}},
        {'namespace': '/rear', 'use_sim_time': False, 'max_latency': 1}],
        namespace='robot', preset='sad_fast', use_sim_time='true')
    assert (front['namespace'], rear['namespace']) == ('robot/front', '/rear')
    assert launching.parameter_values(front) == {
        'preset': 'road', 'num_threads': 2, 'use_sim_time': True}
    assert launching.parameter_values(rear) == {
        'preset': 'sad_fast', 'max_latency': 1.0, 'use_sim_time': False}
    assert front['remappings'] == [('left/image_rect', '/infra1/image_rect_raw')]
    assert rear['remappings'] == []


def test_the_files_of_a_camera_lie_beside_the_file_of_cameras(tmp_path):
    (tmp_path / 'front.yaml').touch()
    front, = cameras(tmp_path, [{'namespace': 'front', 'params_file': 'front.yaml',
                                 'calibration': 'left.yaml'}])
    assert front['params_file'] == str(tmp_path / 'front.yaml')
    assert front['calibration'] == str(tmp_path / 'left.yaml')


@pytest.mark.parametrize(('content', 'words'), [
    (None, 'it cannot be read: No such file'),
    ('cameras: []', 'must be a list of cameras'),
    ('[]', 'must be a list of cameras'),
    ('- namespace: [', 'it cannot be read'),
    ([{'namespace': 'front'}, 'rear'], 'camera 2: the entry is .*rear.* must be a mapping'),
    ([{'preset': 'road'}], 'camera 1: namespace is .*needs one of its own'),
    ([{'namespace': 'front'}, {'namespace': 'rear'}, {'namespace': '/front'}],
     'camera 3: namespace is ./front., but an earlier camera has the same'),
    ([{'namespace': 'a', 'disparity_rnage': 64}],
     'camera 1: disparity_rnage is 64, but .* did you mean disparity_range'),
    ([{'namespace': 'a', 'remapping': {}}], 'did you mean remappings'),
    ([{'namespace': 'a', 'cameras': 'b.yaml'}], 'camera 1: cameras is .*no argument of this name'),
    ([{'namespace': 'a', 'disparity_range': 1000}], 'camera 1: disparity_range is 1000, but'),
    ([{'namespace': 'a', 'num_threads': None}], 'camera 1: num_threads is None, but'),
    ([{'namespace': 'a', 'preset': 'roda'}], 'preset is .roda., but must be one of road, sad'),
    ([{'namespace': 'a', 'respawn': 'maybe'}], 'respawn is .maybe., but must be true or false'),
    ([{'namespace': 'a', 'name': 5}], 'camera 1: name is 5, but must be a text'),
    ([{'namespace': 'a', 'params_file': 'no.yaml'}], 'params_file is .* no such file'),
    ([{'namespace': 'a', 'remappings': {'depth': 1}}], 'remappings is .* mapping of topics')])
def test_a_mistake_in_a_file_of_cameras_is_named_with_its_camera(tmp_path, content, words):
    with pytest.raises(StereoError, match=f'cameras.yaml.*{words}'):
        cameras(tmp_path, content)


def test_every_shipped_file_of_cameras_is_accepted_and_maps_all_inputs(repository):
    choices = {**CHOICES, 'preset': ('', *preset_names())}
    files = sorted((repository / 'config/cameras').iterdir())
    assert len(files) >= 5
    for file in files:
        given = {**dict.fromkeys(CHOICES, ''), 'cameras': str(file)}
        for camera in launching.cameras(given, choices):
            image = 'image_raw' if camera.get('rectify') else 'image_rect'
            expected = {image} if camera.get('side_by_side') else {
                f'{side}/{image}' for side in ('left', 'right')}
            if not camera.get('calibration'):
                expected |= {f'{side}/camera_info' for side in ('left', 'right')}
            assert camera['left_namespace'] or {
                topic for topic, _ in camera['remappings']} == expected, file


def test_analyzers_tell_the_statuses_of_two_nodes_apart():
    found = launching.analyzers(['/front/stereo_bp', '/front/stereo_bp2'])
    prefixes = [group['find_and_remove_prefix'] for group in found.values()
                if isinstance(group, dict)]
    for status, group in (('/front/stereo_bp: input', 0), ('/front/stereo_bp2: input', 1)):
        assert [status.startswith(prefix) for prefix, in prefixes] == [group == 0, group == 1]
