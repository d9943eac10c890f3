"""What the replay launch file makes of its arguments, without launch."""

from __future__ import annotations

import numpy as np
import pytest
from rosbags.rosbag2 import Writer
from rosbags.typesys import Stores, get_typestore

from stereo_bp_ros import Calibration, StereoError
from stereo_bp_ros.evaluation import bags
from stereo_bp_ros.replay.launching import plan


@pytest.fixture
def bag(tmp_path):
    """One pair."""
    image = np.zeros((32, 64), np.uint8)
    bags.write_bag(tmp_path / 'bag', Calibration(400, 0.1, 32, 32, 16),
                   [(10**18, image, image, None)])
    return tmp_path / 'bag'


def of_topics(folder, image):
    """A bag of such topics of compressed images; nothing in them."""
    store = get_typestore(Stores.ROS2_KILTED)
    with Writer(folder, version=9) as writer:
        for side in ('left', 'right'):
            writer.add_connection(f'/{side}/{image}/compressed', bags.COMPRESSED_IMAGE,
                                  typestore=store)
            writer.add_connection(f'/{side}/camera_info', bags.CAMERA_INFO, typestore=store)
    return folder


@pytest.fixture
def compressed(tmp_path):
    return of_topics(tmp_path / 'compressed', 'image_rect')


def options(player):
    """Options of the player after its path and the three that are always there."""
    assert player[0] == 'replay'
    assert player[2::2][:3] == ['--rate', '--loop', '--wait']
    return player[8:]


def test_a_replay_is_recorded_in_the_time_of_the_bag(bag):
    found = plan({'bag': str(bag)})
    assert found.node == {'use_sim_time': 'true'}
    assert options(found.player) == ['--output', 'stereo_bp_replay']
    assert options(plan({'bag': str(bag), 'output': 'mine'}).player) == ['--output', 'mine']


def test_a_recording_is_not_played_to_several_cameras(bag):
    with pytest.raises(StereoError, match='played to one camera'):
        plan({'bag': str(bag), 'cameras': 'cameras.yaml'})


@pytest.mark.parametrize(('given', 'expected'), [
    ({'output': 'none'}, []),
    ({'loop': '0'}, []),
    ({'use_sim_time': 'False'}, []),
    ({'loop': '0', 'use_sim_time': 'True'}, ['--clock']),
    ({'output': 'none', 'use_sim_time': 'yes'}, ['--clock'])])
def test_nothing_is_recorded_where_that_has_no_end_or_nobody_wants_it(bag, given, expected):
    found = plan({'bag': str(bag), **given})
    assert found.node == {}
    assert options(found.player) == expected


@pytest.mark.parametrize(('given', 'text'), [
    ({'loop': '0'}, 'loop is 0, but a replay that is recorded has an end'),
    ({'use_sim_time': 'false'}, 'use_sim_time is False, but a replay that is recorded lives in'),
    ({'loop': '-1'}, 'loop is -1, but must be a whole number of at least 0'),
    ({'images': 'too'}, 'one of the two')])
def test_arguments_that_contradict_each_other_are_refused(bag, given, text):
    with pytest.raises(StereoError, match=text):
        plan({'bag': str(bag), 'output': 'mine', **given})


def test_image_transport_follows_the_bag_unless_the_user_sets_it(bag, compressed, tmp_path):
    assert 'image_transport' not in plan({'bag': str(bag)}).node
    assert plan({'bag': str(compressed)}).node['image_transport'] == 'compressed'
    given = {'bag': str(compressed), 'image_transport': 'raw'}
    assert 'image_transport' not in plan(given).node
    file = tmp_path / 'mine.yaml'
    file.write_text('/**:\n  ros__parameters: {image_transport: raw, use_sim_time: false}\n')
    found = plan({'bag': str(compressed), 'params_file': str(file)})
    assert found.node == {}
    assert options(found.player) == []


def test_images_of_the_player_go_to_where_the_node_takes_them(bag, tmp_path):
    assert plan({'bag': str(bag)}).remappings == {}
    assert plan({'bag': str(bag), 'left_namespace': '/cam'}).remappings == {
        f'left/{name}': f'/cam/{name}'
        for name in ('image_rect', 'image_rect/compressed', 'camera_info')}
    raw = of_topics(tmp_path / 'raw', 'image_raw')
    file = tmp_path / 'mine.yaml'
    file.write_text('/**:\n  ros__parameters: {rectify: true}\n')
    for given in ({'rectify': 'true'}, {'params_file': str(file)}):
        assert plan({'bag': str(raw), 'right_namespace': 'r', **given}).remappings == {
            'left/image_rect': 'left/image_raw',
            'left/image_rect/compressed': 'left/image_raw/compressed',
            'right/image_rect': 'r/image_raw',
            'right/image_rect/compressed': 'r/image_raw/compressed',
            'right/camera_info': 'r/camera_info'}


def test_images_that_are_rectified_by_their_name_are_not_rectified_again(bag):
    with pytest.raises(StereoError, match='rectify is True, but /left/image_rect of the bag is '
                                          'rectified by its name'):
        plan({'bag': str(bag), 'rectify': 'true'})


def test_topics_are_handed_on_to_the_player(bag):
    given = {'bag': str(bag), 'output': 'none', 'left_image': '/left/image_rect',
             'right_info': '/right/camera_info'}
    assert options(plan(given).player) == ['--left', '/left/image_rect', '--right-info',
                                           '/right/camera_info']
    with pytest.raises(StereoError, match='no image topic /front among /ground_truth'):
        plan({**given, 'left_image': '/front'})
