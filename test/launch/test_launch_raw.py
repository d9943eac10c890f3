"""Raw images through the launch files: rectified by the node, and played to it from a bag."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from rosbags.rosbag2 import Reader, Writer
from rosbags.typesys import Stores, get_typestore

from stereo_bp_ros import Calibration
from stereo_bp_ros.evaluation import bags
from test.launch.bench import Bench, parameter_files, remappings

pytestmark = pytest.mark.ros


def test_raw_images_are_rectified_by_the_node_where_that_is_asked_for(bench: Bench) -> None:
    bench.install_real('stereo_bp_node', 'stereo_bp_ros.node.main')
    with bench.running('stereo_bp.launch.py', 'preset:=sad_fast', 'rectify:=true',
                       'right_namespace:=/cam/right'):
        bench.wait_for('active: waiting for /left/image_raw, /cam/right/image_raw')


def test_raw_images_of_a_bag_are_played_to_a_node_that_rectifies_them(bench: Bench) -> None:
    for name in ('stereo_bp_node', 'stereo_bp'):
        bench.install_telling(name)
    bag = raw_bag(bench.directory)
    with bench.running('stereo_bp_replay.launch.py', f'bag:={bag}', 'rectify:=true',
                       'output:=none', 'namespace:=robot'):
        arguments, _ = bench.call('stereo_bp')
        assert parameter_files(bench.call('stereo_bp_node')[0]) == [{'rectify': True}]
    assert remappings(arguments) == {
        '__ns': '/robot', **{f'{side}/image_rect{end}': f'{side}/image_raw{end}'
                             for side in ('left', 'right') for end in ('', '/compressed')}}


def raw_bag(directory: pathlib.Path) -> pathlib.Path:
    """A bag of one pair of topics that are named as raw images are."""
    image = np.zeros((64, 96), np.uint8)
    bags.write_bag(directory / 'bag', Calibration(500, 0.1, 48, 48, 32),
                   [(10**18, image, image, None)])
    with (Reader(directory / 'bag') as reader,
          Writer(directory / 'raw', version=9) as writer):
        for connection, stamp, data in reader.messages():
            topic = connection.topic.replace('image_rect', 'image_raw')
            copied = writer.add_connection(topic, connection.msgtype,
                                           typestore=get_typestore(Stores.ROS2_KILTED))
            writer.write(copied, stamp, data)
    return directory / 'raw'
