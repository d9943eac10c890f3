"""A viewer beside real nodes: what it finds, what it records, and that it costs no frame."""

from __future__ import annotations

import pathlib
import time
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')
pytest.importorskip('rerun')
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.replay.viewing import Sink
from stereo_bp_ros.replay.watching import Camera, Watch
from test.cli.rerun_files import image, rows, value
from test.node.client import Client
from test.node.processes import LIMIT

pytestmark = pytest.mark.ros

W, H, DISPARITY = 64, 48, 3
PARAMETERS = {'stereo_algorithm': 'sad', 'disparity_range': 8, 'correlation_window_size': 5,
              'max_input_age': 0.0}
PAIRS, PERIOD_S = 20, 0.05


def play(client: Client, textured_pair: Callable[..., Any], pairs: int = PAIRS
         ) -> dict[str, int]:
    """Send pairs at a camera's rate; what the node has counted since."""
    left, right = (client.image(one) for one in textured_pair(W, H, DISPARITY))
    for side in ('left', 'right'):
        client.send_info(side, client.info(side, W, H))
    before = client.settled()
    for _ in range(pairs):
        client.result('disparity', client.send_pair(left, right))
        time.sleep(PERIOD_S)
    after = client.settled()
    return {name: after[name] - before[name] for name in after if 'waited' not in name}


def test_a_node_loses_nothing_by_a_viewer_and_counts_the_same_without(
        client: Client, textured_pair: Callable[..., Any], tmp_path: pathlib.Path) -> None:
    path = tmp_path / 'run.rrd'
    without = play(client, textured_pair)
    with (Sink(file=path, points_every=1) as sink,
          Watch(sink, context=client.context) as watch):
        watch.wait_for_nodes(LIMIT)
        name, = watch.names
        client.wait_until(lambda: client.node.count_subscribers('points2'), LIMIT, 'a viewer')
        assert play(client, textured_pair) == without
        assert without['published'] == PAIRS
        client.wait_until(lambda: watch.summary.startswith(f'{name}: {PAIRS} of'), LIMIT, 'frames')
    found = rows(path)
    assert {f'{name}/{kind}' for kind in (
        'camera', 'camera/left', 'disparity', 'confidence', 'points', 'latency_ms/total',
        'rate_hz', 'dropped', 'memory_mib', 'status', 'diagnostics')} <= set(found)
    pixels = image(found[f'{name}/disparity'][-1])
    assert pixels.shape == (H, W)
    assert np.median(pixels) == pytest.approx(DISPARITY, abs=0.5)
    stamps = [row['stamp'] for row in found[f'{name}/disparity']]
    assert stamps == sorted(stamps)
    assert value(found[f'{name}/camera'][0], 'resolution') == [W, H]
    assert '| device | ok | active on cpu' in value(found[f'{name}/status'][-1], 'text')


def test_diagnostics_that_mean_nothing_are_named_and_the_next_ones_shown(
        client: Client, textured_pair: Callable[..., Any], tmp_path: pathlib.Path,
        caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / 'run.rrd'
    publisher = client.node.create_publisher(DiagnosticArray, '/diagnostics', 10)
    strange = DiagnosticStatus(name='/stereo_bp: input', level=b'\x07', message='strange',
                               values=[KeyValue(key='memory', value='.')])
    with Sink(file=path) as sink, Watch(sink, context=client.context) as watch:
        watch.wait_for_nodes(LIMIT)
        client.wait_until(lambda: client.node.count_subscribers('/diagnostics') > 1, LIMIT, 'it')
        for _ in range(3):
            publisher.publish(DiagnosticArray(status=[strange]))
            time.sleep(0.1)
        client.wait_until(lambda: caplog.messages, LIMIT, 'a warning')
        play(client, textured_pair, 3)
        client.wait_until(lambda: watch.summary.endswith('3 disparity images shown'), LIMIT, '3')
    said, = caplog.messages
    assert said.startswith('/diagnostics cannot be shown: ')
    name, = watch.names
    assert len(rows(path)[f'{name}/disparity']) == 3


@pytest.mark.parametrize(('namespace', 'left', 'right', 'told'), [
    ('/front', '/front/left/image_rect', '/front/right/image_rect', False),
    ('/left_rig', '/left_rig/left/image', '/left_rig/a_right/image', False),
    ('/camera', '/camera/infra1/image_rect_raw', '/camera/infra2/image_rect_raw', True),
    ('/camera', '/camera/zero/image', '/camera/one/image', True)])
def test_the_left_image_is_that_of_the_left_camera_whatever_it_is_called(
        namespace: str, left: str, right: str, told: bool) -> None:
    subscribed: list[str] = []
    found = {topic: ['sensor_msgs/msg/Image'] for topic in sorted((left, right))}
    watch = Watch(Sink())
    watch._node = types.SimpleNamespace(        # type: ignore[assignment]
        get_publisher_names_and_types_by_node=lambda *_: [],
        get_subscriber_names_and_types_by_node=lambda *_: list(found.items()),
        create_subscription=lambda kind, topic, *_, **__: subscribed.append(topic))
    camera = Camera('front', f'{namespace}/stereo_bp')
    watch._cameras[camera.node] = camera
    if told:
        watch._find_topics(camera, 'stereo_bp', namespace)
        assert subscribed == []
        watch._show_diagnostics(DiagnosticArray(status=[DiagnosticStatus(
            name=f'{camera.node}: input', level=b'\x00', values=[
                KeyValue(key=topic, value='30 Hz') for topic in (left, right)])]))
    watch._find_topics(camera, 'stereo_bp', namespace)
    assert subscribed == [left]


def test_a_node_that_is_not_there_is_a_sentence_with_those_that_are(
        client: Client, tmp_path: pathlib.Path) -> None:
    with (Sink(file=tmp_path / 'run.rrd') as sink,
          Watch(sink, ['fornt'], context=client.context) as watch):
        time.sleep(1)
        with pytest.raises(StereoError, match=r'no node in /fornt .*; those in / do'):
            watch.wait_for_nodes(0.1)


def test_a_domain_without_a_node_is_a_sentence(context: Any, tmp_path: pathlib.Path) -> None:
    with (Sink(file=tmp_path / 'run.rrd') as sink, Watch(sink, context=context) as watch,
          pytest.raises(StereoError, match='no node publishes a disparity')):
        watch.wait_for_nodes(0.2)
    assert not (tmp_path / 'run.rrd').exists()


def test_cameras_are_told_apart_by_their_namespaces_and_any_qos_fits(
        context: Any, tmp_path: pathlib.Path) -> None:
    import rclpy
    from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
    from stereo_msgs.msg import DisparityImage

    publishers = [
        rclpy.create_node('stereo_bp', namespace=name, context=context).create_publisher(
            DisparityImage, 'disparity', QoSProfile(
                depth=1, reliability=reliability, durability=durability))
        for name, reliability, durability in (
            ('front', ReliabilityPolicy.BEST_EFFORT, DurabilityPolicy.VOLATILE),
            ('rear', ReliabilityPolicy.RELIABLE, DurabilityPolicy.TRANSIENT_LOCAL))]
    with (Sink(file=tmp_path / 'run.rrd') as sink,
          Watch(sink, ['rear', '/front'], context=context) as watch):
        watch.wait_for_nodes(LIMIT)
        assert watch.names == ['front', 'rear']
        end = time.monotonic() + LIMIT
        while ' of 0 ' in watch.summary:
            assert time.monotonic() < end, watch.summary
            for publisher in publishers:
                publisher.publish(DisparityImage())
            time.sleep(0.05)


def test_a_publisher_whose_node_is_not_known_yet_is_left_for_later(
        context: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import rclpy
    from rclpy.node import Node
    from stereo_msgs.msg import DisparityImage

    late = rclpy.create_node('stereo_bp', namespace='late', context=context)
    late.create_publisher(DisparityImage, 'disparity', 1)
    asked = Node.get_publishers_info_by_topic

    def strangers(node: Node, topic: str) -> list[Any]:
        found = asked(node, topic)
        if calls.append(topic) or len(calls) < 4:
            for one in found:
                one.node_namespace, one.node_name = '_NODE_NAMESPACE_UNKNOWN_', 'unknown'
        return found

    calls: list[str] = []
    monkeypatch.setattr(Node, 'get_publishers_info_by_topic', strangers)
    with Sink(file=tmp_path / 'run.rrd') as sink, Watch(sink, ['late'], context=context) as watch:
        watch.wait_for_nodes(LIMIT)
        assert watch.names == ['late']
    late.destroy_node()
