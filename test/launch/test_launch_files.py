"""The launch files, run by the real launch and launch_ros."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import time
from typing import Any

import cv2
import numpy as np
import pytest

from stereo_bp_ros import Calibration
from stereo_bp_ros.config.mappings import all_settings
from stereo_bp_ros.replay import session
from stereo_bp_ros.sources import bags
from test.launch.bench import Bench, parameter_files, remappings
from test.node.processes import LIMIT

pytestmark = pytest.mark.ros


@pytest.mark.usefixtures('launch_of_ros')
@pytest.mark.parametrize('file', ['stereo_bp.launch.py', 'stereo_bp_replay.launch.py'])
def test_every_argument_is_described(repository: pathlib.Path, file: str) -> None:
    from launch import LaunchContext
    from launch.launch_description_sources import PythonLaunchDescriptionSource

    source = PythonLaunchDescriptionSource(str(repository / 'launch' / file))
    description = source.get_launch_description(LaunchContext())
    arguments = {a.name: a for a in description.get_launch_arguments()}
    assert {'namespace', 'name', 'left_namespace', 'right_namespace', 'params_file', 'preset',
            'use_sim_time', 'log_level', 'autostart', 'respawn'} <= set(arguments)
    for argument in arguments.values():
        assert argument.description
        assert argument.default_value is not None
    for name in ('preset', 'log_level'):
        assert len(arguments[name].choices) >= 2
    for name in ('use_sim_time', 'autostart', 'respawn'):
        assert 'true or false' in arguments[name].description
    # Every parameter is an argument, and none is that of something else, too.
    for name, setting in all_settings().items():
        assert name == 'preset' or setting.meaning in arguments[name].description


def test_what_is_not_set_is_not_passed_on(bench: Bench) -> None:
    bench.install_telling('stereo_bp_node')
    with bench.running('stereo_bp.launch.py'):
        arguments, environment = bench.call('stereo_bp_node')
    assert '--params-file' not in arguments
    assert remappings(arguments) == {}
    assert '--log-level' not in arguments
    profile = pathlib.Path(environment['FASTDDS_DEFAULT_PROFILES_FILE'])
    assert profile == bench.repository / 'config/fastdds_large_images.xml'
    assert '<segment_size>16777216</segment_size>' in profile.read_text()


def test_what_is_set_arrives(bench: Bench) -> None:
    bench.install_telling('stereo_bp_node')
    file = bench.directory / 'mine.yaml'
    file.write_text('/**:\n  ros__parameters:\n    disparity_range: 40\n    autostart: true\n')
    with bench.running(
            'stereo_bp.launch.py', 'namespace:=robot', 'name:=engine', f'params_file:={file}',
            'preset:=road', 'use_sim_time:=true', 'autostart:=false', 'log_level:=DEBUG',
            'stereo_algorithm:=0', 'uniqueness_ratio:=15',
            'left_namespace:=/front/left'):
        arguments, _ = bench.call('stereo_bp_node')
        files = parameter_files(arguments)
    assert remappings(arguments) == {
        '__ns': '/robot', '__node': 'engine',
        'left/image_rect': '/front/left/image_rect',
        'left/image_raw': '/front/left/image_raw',
        'left/camera_info': '/front/left/camera_info'}
    assert arguments[arguments.index('--log-level') + 1] == 'DEBUG'
    assert files == [{'disparity_range': 40, 'autostart': True},
                     {'preset': 'road', 'use_sim_time': True, 'autostart': False,
                      'stereo_algorithm': 0, 'uniqueness_ratio': 15.0}]


@pytest.mark.parametrize('name', ['FASTDDS_DEFAULT_PROFILES_FILE',
                                  'FASTRTPS_DEFAULT_PROFILES_FILE'])
def test_the_users_own_dds_profile_stays(bench: Bench, name: str) -> None:
    bench.install_telling('stereo_bp_node')
    with bench.running('stereo_bp.launch.py', **{name: '/their/own.xml'}):
        _, environment = bench.call('stereo_bp_node')
    assert {k: v for k, v in environment.items() if 'PROFILES_FILE' in k} == {
        name: '/their/own.xml'}


def test_an_unknown_argument_is_a_warning_with_the_closest_one(bench: Bench) -> None:
    bench.install_telling('stereo_bp_node')
    with bench.running('stereo_bp.launch.py', 'aproximate_sync:=true', 'preset:=road',
                       'sigterm_timeout:=1'):
        bench.call('stereo_bp_node')
    assert ('stereo_bp.launch.py has no argument aproximate_sync; '
            'did you mean approximate_sync?') in bench.log
    assert bench.log.count('has no argument') == 1


def test_a_file_that_is_included_names_misspelled_arguments_and_leaves_its_parents_alone(
        bench: Bench) -> None:
    bench.install_telling('stereo_bp_node')
    parent = bench.directory / 'bringup.launch.py'
    parent.write_text(f"""
from launch import LaunchDescription
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
def generate_launch_description():
    return LaunchDescription([IncludeLaunchDescription(
        PythonLaunchDescriptionSource({str(bench.repository / 'launch/stereo_bp.launch.py')!r}),
        launch_arguments=[('disparity_range', '96'), ('presett', 'road')])])
""")
    with bench.running(str(parent), 'camera_model:=zed'):
        arguments, _ = bench.call('stereo_bp_node')
        assert parameter_files(arguments) == [{'disparity_range': 96}]
    assert 'camera_model' not in bench.log
    assert 'stereo_bp.launch.py has no argument presett, which is set; did you mean' in bench.log


def test_two_includes_share_arguments_unless_each_is_in_a_group(bench: Bench) -> None:
    """As the page on deploying has it."""
    bench.install_telling('stereo_bp_node')
    parent = bench.directory / 'bringup.launch.py'
    parent.write_text(f"""
from launch import LaunchDescription
from launch.actions import GroupAction, IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
def include(**arguments):
    return IncludeLaunchDescription(
        PythonLaunchDescriptionSource({str(bench.repository / 'launch/stereo_bp.launch.py')!r}),
        launch_arguments=arguments.items())
def generate_launch_description():
    return LaunchDescription([
        GroupAction([include(namespace='front', preset='road')]),
        GroupAction([include(namespace='rear')]),
        include(namespace='left', preset='indoor'), include(namespace='right')])
""")
    with bench.running(str(parent)):
        calls = [arguments for arguments, _ in bench.calls('stereo_bp_node', 4)]
        presets = {remappings(arguments)['__ns']: parameter_files(arguments)
                   for arguments in calls}
    assert presets == {'/front': [{'preset': 'road'}], '/rear': [],
                       '/left': [{'preset': 'indoor'}], '/right': [{'preset': 'indoor'}]}


@pytest.mark.parametrize('argument', ['preset:=nowhere', 'params_file:=/no/file'])
def test_other_values_than_the_choices_are_refused(bench: Bench, argument: str) -> None:
    bench.install_telling('stereo_bp_node')
    with bench.running('stereo_bp.launch.py', argument) as process:
        assert process.wait(LIMIT) != 0
    assert argument.split(':=')[0] in bench.log
    assert not list(bench.told.iterdir())


@pytest.mark.parametrize('status', [0, 3])
def test_an_end_or_a_lost_device_is_followed_by_a_new_start(bench: Bench, status: int) -> None:
    bench.install_telling('stereo_bp_node', seconds=0.1, status=status)
    with bench.running('stereo_bp.launch.py'):
        bench.wait_for('process started with pid', 15, count=3)
    assert 'not started again' not in bench.log


def test_a_node_that_is_down_for_good_lets_what_else_was_launched_run(bench: Bench) -> None:
    bench.install_telling('stereo_bp_node', seconds=0.1, status=2)
    parent = bench.directory / 'bringup.launch.py'
    parent.write_text(f"""
from launch import LaunchDescription
from launch.actions import ExecuteProcess, IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
def generate_launch_description():
    return LaunchDescription([
        ExecuteProcess(cmd=['sleep', '60'], name='camera'),
        IncludeLaunchDescription(PythonLaunchDescriptionSource(
            {str(bench.repository / 'launch/stereo_bp.launch.py')!r}))])
""")
    with bench.running(str(parent)) as process:
        bench.wait_for('is not started again', 15)
        time.sleep(4)       # twice the delay of respawning
        assert process.poll() is None
        assert bench.log.count('[stereo_bp_node-2]: process started with pid') == 1
        assert '[camera-1]: process has' not in bench.log
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(LIMIT) == 0


def test_without_respawn_it_is_not(bench: Bench) -> None:
    bench.install_telling('stereo_bp_node', seconds=0.1)
    with bench.running('stereo_bp.launch.py', 'respawn:=false') as process:
        process.wait(LIMIT)
    assert bench.log.count('process started with pid') == 1


def test_a_folder_of_pairs_is_replayed_to_the_node(bench: Bench, textured_pair: Any) -> None:
    bench.install_real('stereo_bp_node', 'stereo_bp_ros.node.main')
    bench.install_real('stereo_bp', 'stereo_bp_ros.cli.main')
    folder = bench.directory / 'pairs'
    for side, image in zip(('left', 'right'), textured_pair(96, 64, 5), strict=True):
        (folder / side).mkdir(parents=True)
        for k in range(4):
            cv2.imwrite(str(folder / side / f'{k:06d}.png'), image)
        p = np.array([[500, 0, 48, 0 if side == 'left' else -50], [0, 500, 32, 0], [0, 0, 1, 0]])
        np.savetxt(folder / f'P_{side}.txt', p)
    with bench.running('stereo_bp_replay.launch.py', f'images:={folder}', 'loop:=3',
                       'rate:=2.0', 'preset:=sad_fast', 'left_namespace:=/cam/left',
                       'output:=none') as process:
        assert process.wait(240) == 0
    assert '12 pairs in' in bench.log
    assert 'active: waiting for /cam/left/image_rect, /right/image_rect' in bench.log
    assert 'shutting down' in bench.log
    assert 'nobody subscribes' not in bench.log


def test_the_clock_is_played_for_sim_time(bench: Bench) -> None:
    for name in ('stereo_bp_node', 'stereo_bp'):
        bench.install_telling(name)
    with bench.running('stereo_bp_replay.launch.py', f'bag:={recording(bench)}', 'rate:=0.5',
                       'loop:=0', 'use_sim_time:=True', 'namespace:=robot',
                       'left_image:=left/image_rect'):
        arguments, _ = bench.call('stereo_bp')
        assert parameter_files(bench.call('stereo_bp_node')[0]) == [{'use_sim_time': True}]
    assert arguments[:arguments.index('--ros-args')] == [
        'replay', str(bench.directory / 'bag'), '--rate', '0.5', '--loop', '0', '--wait', '180',
        '--left', 'left/image_rect', '--clock']
    assert remappings(arguments) == {'__ns': '/robot'}


def recording(bench: Bench, image: Any = None) -> pathlib.Path:
    """A bag of twelve equal pairs, 5 px apart, with truth."""
    path = bench.directory / 'bag'
    image = np.zeros((64, 96), np.uint8) if image is None else image
    bags.write_bag(path, Calibration(500, 0.1, 48, 48, 32), (
        (10**18 + k * 10**8, np.roll(image, 5, axis=1), image, np.full(image.shape, 5, np.float32))
        for k in range(12)))
    return path


def test_a_replay_as_the_readme_has_it_computes_and_writes_the_report(
        bench: Bench, textured_pair: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one's own parameter file, and the default folder of the report."""
    bench.install_real('stereo_bp_node', 'stereo_bp_ros.node.main')
    bench.install_real('stereo_bp', 'stereo_bp_ros.cli.main')
    bag = recording(bench, textured_pair(96, 64, 5)[1])
    file = bench.directory / 'mine.yaml'
    file.write_text('/**:\n  ros__parameters:\n    disparity_range: 16\n')
    monkeypatch.chdir(bench.directory)
    with bench.running('stereo_bp_replay.launch.py', f'bag:={bag}', 'preset:=sad_fast',
                       f'params_file:={file}', 'namespace:=robot',
                       'left_namespace:=/cam/left') as process:
        assert process.wait(240) == 0
    assert 'everything has been played' in bench.log
    assert '\x1b[2K' not in bench.log     # a bar that is drawn again would fill the log
    report = json.loads((bench.directory / 'stereo_bp_replay/report.json').read_text())
    frames = report['runs']['replay']['frames']
    assert frames['sent'] == 12
    assert frames['lost_in_transport'] == 0
    assert frames['published'] >= 6
    assert report['all']['bad_3_estimated'] < 1
    assert (bench.directory / 'stereo_bp_replay/report.html').is_file()


def test_a_recorded_replay_gives_reliable_inputs_to_the_node_alone(bench: Bench) -> None:
    for name in ('stereo_bp_node', 'stereo_bp'):
        bench.install_telling(name)
    with bench.running('stereo_bp_replay.launch.py', f'bag:={recording(bench)}',
                       'namespace:=robot', 'use_sim_time:=true'):
        node, _ = bench.call('stereo_bp_node')
        player, _ = bench.call('stereo_bp')
    given = dict(word.split(':=') for word in node if word.startswith('qos_overrides.'))
    assert given == {name: str(value)
                     for name, value in session.reliable_overrides('/robot').items()}
    assert not any('qos_overrides' in word for word in player)


def test_a_node_that_refuses_its_configuration_ends_the_replay(bench: Bench) -> None:
    bench.install_telling('stereo_bp_node', seconds=0.1, status=2)
    bench.install_telling('stereo_bp')
    with bench.running('stereo_bp_replay.launch.py', f'bag:={recording(bench)}',
                       'launch-prefix:=env', 'launch-prefix-filter:=.*node') as process:
        assert process.wait(LIMIT) == 1
    assert 'is not started again' in bench.log
    assert 'there is nothing to play to' in bench.log
    assert 'has no argument' not in bench.log


def test_a_player_that_fails_ends_the_launch_with_an_error(bench: Bench) -> None:
    bench.install_telling('stereo_bp_node')
    bench.install_real('stereo_bp', 'stereo_bp_ros.cli.main')
    with bench.running('stereo_bp_replay.launch.py', f'bag:={recording(bench)}',
                       'output:=/proc/nowhere') as process:
        assert process.wait(LIMIT) == 1
    assert 'the player has ended with status 2' in bench.log


@pytest.mark.parametrize('output', ['none', 'report'])
def test_a_replay_ends_at_once_where_the_node_cannot_be_configured(bench: Bench, output: str
                                                                   ) -> None:
    bench.install_real('stereo_bp_node', 'stereo_bp_ros.node.main')
    bench.install_real('stereo_bp', 'stereo_bp_ros.cli.main')
    with bench.running('stereo_bp_replay.launch.py', f'bag:={recording(bench)}',
                       f'output:={bench.directory / output if output == "report" else output}',
                       'namespace:=robot', 'preset:=sad_fast', 'backend:=cpu',
                       'memory_limit:=1000', 'max_partitions:=1', 'image_width:=160',
                       'image_height:=120') as process:
        assert process.wait(LIMIT) == 1         # the player would wait longer for a subscriber
    assert 'stereo_bp replay: /robot/stereo_bp: configuring failed: ' in bench.log
    assert 'the player has ended with status 2' in bench.log


@pytest.mark.parametrize(('arguments', 'begun'), [
    (('output:=none', 'loop:=0'), 'pairs/s'), (('loop:=1000',), 'replay: playing')])
def test_a_replay_that_is_interrupted_ends_without_a_death(
        bench: Bench, arguments: tuple[str, ...], begun: str, monkeypatch: pytest.MonkeyPatch
        ) -> None:
    bench.install_real('stereo_bp_node', 'stereo_bp_ros.node.main')
    bench.install_real('stereo_bp', 'stereo_bp_ros.cli.main')
    bag = recording(bench)
    monkeypatch.chdir(bench.directory)
    with bench.running('stereo_bp_replay.launch.py', f'bag:={bag}', 'preset:=sad_fast',
                       *arguments) as process:
        bench.wait_for(begun)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(LIMIT) == 0
    assert 'process has died' not in bench.log
    assert bench.log.count('process has finished cleanly') == 2


def test_an_unknown_argument_of_a_replay_is_said_once(bench: Bench) -> None:
    for name in ('stereo_bp_node', 'stereo_bp'):
        bench.install_telling(name)
    with bench.running('stereo_bp_replay.launch.py', f'bag:={recording(bench)}', 'outptu:=here',
                       'presett:=road'):
        bench.call('stereo_bp')
    for sentence in ('outptu; did you mean output?', 'presett; did you mean preset?'):
        assert bench.log.count(f'has no argument {sentence}') == 1
    assert bench.log.count('has no argument') == 2


@pytest.mark.parametrize('arguments', [(), ('bag:=/a', 'images:=/b')])
def test_a_replay_needs_one_source(bench: Bench, arguments: tuple[str, ...]) -> None:
    for name in ('stereo_bp_node', 'stereo_bp'):
        bench.install_telling(name)
    with bench.running('stereo_bp_replay.launch.py', *arguments) as process:
        assert process.wait(60) != 0
    assert 'set bag:=<path> or images:=<folder>' in bench.log
