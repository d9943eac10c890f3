"""What the replay launch file makes of its arguments, without launch."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

from stereo_bp_ros import Calibration, StereoError
from stereo_bp_ros.replay.launching import plan
from test.cli import recordings


def of_topics(folder: pathlib.Path, image: str = 'image_rect', coded: str = '') -> str:
    """A bag of one pair on such topics."""
    pixels = np.zeros((32, 64), np.uint8)
    return str(recordings.write(folder, [
        (topic.replace('image_rect', image), time_ns, message) for topic, time_ns, message
        in recordings.pair(10**18, pixels, pixels, Calibration(400, 0.1, 32, 32, 16),
                           coded=coded)]))


@pytest.fixture
def bag(tmp_path):
    return of_topics(tmp_path / 'bag')


def options(player):
    """Options of the player after its path and the three that are always there."""
    assert player[0] == 'replay'
    assert player[2::2][:3] == ['--rate', '--loop', '--wait']
    return player[8:]


@pytest.mark.parametrize(('given', 'node', 'expected'), [
    ({}, {'use_sim_time': 'true'}, ['--output', 'stereo_bp_replay']),
    ({'output': 'mine'}, {'use_sim_time': 'true'}, ['--output', 'mine']),
    ({'output': 'none'}, {}, []), ({'loop': '0'}, {}, []), ({'use_sim_time': 'False'}, {}, []),
    ({'loop': '0', 'use_sim_time': 'True'}, {}, ['--clock'])])
def test_a_replay_is_recorded_in_the_time_of_the_bag_unless_it_has_no_end_or_nobody_wants_it(
        bag, given, node, expected):
    found = plan({'bag': bag, **given})
    assert found.node == node
    assert options(found.player) == expected


@pytest.mark.parametrize(('given', 'text'), [
    ({'loop': '0'}, 'loop is 0, but a replay that is recorded has an end'),
    ({'use_sim_time': 'false'}, 'use_sim_time is False, but a replay that is recorded lives in'),
    ({'loop': '-1'}, 'loop is -1, but must be a whole number of at least 0'),
    ({'images': 'too'}, 'one of the two'), ({'cameras': 'cameras.yaml'}, 'played to one camera'),
    ({'side_by_side': 'left_right'}, "side_by_side is 'left_right', but a replay sends"),
    ({'rectify': 'true'}, 'rectify is True, but /left/image_rect of the bag is rectified by its'),
    ({'left_image': '/front'}, 'no image topic /front among /left/image_rect')])
def test_arguments_that_contradict_each_other_are_refused(bag, given, text):
    with pytest.raises(StereoError, match=text):
        plan({'bag': bag, 'output': 'mine', **given})


def test_image_transport_follows_the_bag_unless_the_user_sets_it(bag, tmp_path):
    assert 'image_transport' not in plan({'bag': bag}).node
    given = {'bag': of_topics(tmp_path / 'compressed', coded='png')}
    assert plan(given).node['image_transport'] == 'compressed'
    assert 'image_transport' not in plan({**given, 'image_transport': 'raw'}).node
    file = tmp_path / 'mine.yaml'
    file.write_text('/**:\n  ros__parameters: {image_transport: raw, use_sim_time: false}\n')
    found = plan({**given, 'params_file': str(file)})
    assert found.node == {}
    assert options(found.player) == []


def test_images_of_the_player_go_to_where_the_node_takes_them(bag, tmp_path):
    assert plan({'bag': bag}).remappings == {}
    assert plan({'bag': bag, 'left_namespace': '/cam'}).remappings == {
        f'left/{name}': f'/cam/{name}'
        for name in ('image_rect', 'image_rect/compressed', 'camera_info')}
    raw = of_topics(tmp_path / 'raw', 'image_raw')
    file = tmp_path / 'mine.yaml'
    file.write_text('/**:\n  ros__parameters: {rectify: true}\n')
    for given in ({'rectify': 'true'}, {'params_file': str(file)}):
        assert plan({'bag': raw, 'right_namespace': 'r', **given}).remappings == {
            'left/image_rect': 'left/image_raw',
            'left/image_rect/compressed': 'left/image_raw/compressed',
            'right/image_rect': 'r/image_raw',
            'right/image_rect/compressed': 'r/image_raw/compressed',
            'right/camera_info': 'r/camera_info'}


def test_topics_are_handed_on_to_the_player(bag):
    given = {'bag': bag, 'output': 'none', 'left_image': '/left/image_rect',
             'right_info': '/right/camera_info'}
    assert options(plan(given).player) == ['--left', '/left/image_rect', '--right-info',
                                           '/right/camera_info']
