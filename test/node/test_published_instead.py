"""A node whose images nobody publishes, while other images of the same cameras are there."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

pytest.importorskip('rclpy')
import rclpy
from sensor_msgs.msg import CompressedImage, Image

from stereo_bp_ros.cli.main import main
from test.cases import slow
from test.machine import domain
from test.node.processes import LIMIT, running_node

pytestmark = pytest.mark.ros


@pytest.mark.parametrize(('parameters', 'published', 'advice'), [
    ({}, 'left/image_raw', 'rectify:=true'),
    *slow(({'rectify': True}, 'left/image_rect', 'rectify:=false'),
          ({}, 'left/image_rect/compressed', 'image_transport:=compressed'),
          ({'image_transport': 'compressed'}, 'left/image_raw',
           'rectify:=true image_transport:=raw'),
          ({'side_by_side': 'top_bottom'}, 'left/image_raw', 'rectify:=true side_by_side:=off'),
          ({}, 'image_raw', 'rectify:=true side_by_side:=left_right'))])
def test_the_log_says_once_and_the_status_always_what_takes_the_images_that_are_published(
        tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch, parameters: dict[str, Any], published: str, advice: str
        ) -> None:
    with domain() as number:
        context = rclpy.Context()
        rclpy.init(context=context, args=[], domain_id=number)
        driver = rclpy.create_node('driver', context=context, namespace='robot')
        kind = CompressedImage if published.endswith('compressed') else Image
        for topic in {published, published.replace('left', 'right')}:
            driver.create_publisher(kind, topic, 1)
        sentence = f'/robot/{published} is published, which {advice} takes'
        monkeypatch.setenv('ROS_DOMAIN_ID', str(number))
        with running_node(tmp_path, {'preset': 'sad_fast', 'backend': 'cpu', **parameters}, '-r',
                          '__ns:=/robot', domain=number, qos={}) as node:
            node.wait_for_log(sentence)
            for _ in range(2):
                assert main(['status', '--json', '--wait', str(LIMIT)]) == 1
                found = json.loads(capsys.readouterr().out)['/robot/stereo_bp']
                assert sentence in found['input']['message']
            # Ten reports or more; again only where the other side is discovered later.
            assert node.log.count(sentence) <= 2
        context.try_shutdown()
