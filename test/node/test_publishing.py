"""The table of topics: what is computed and published for whom."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')

from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.config.node import NodeConfig
from stereo_bp_ros.frame.disparity_frame import OUTPUTS
from stereo_bp_ros.node.diagnostics.monitors import FrameLatency
from stereo_bp_ros.node.publishing import TOPICS, OutputPublishers
from test.node.stand_ins import FakeMatcher
from test.node.test_messages import STAMP, result

pytestmark = pytest.mark.ros


class Node:
    """Makes publishers that keep what they are given; ``fails_at`` names a topic that has none."""

    def __init__(self, fails_at: str = '') -> None:
        self.publishers: dict[str, Any] = {}
        self.fails_at = fails_at
        self.destroyed: list[Any] = []
        self.destroy_lifecycle_publisher = self.destroyed.append

    def get_fully_qualified_name(self) -> str:
        return '/node'

    def resolve_topic_name(self, topic: str) -> str:
        return f'/{topic}'

    def create_lifecycle_publisher(self, kind: type, topic: str, *_: object, **__: object) -> Any:
        if topic == self.fails_at:
            raise RuntimeError('no such topic')
        published: list[Any] = []
        publisher = types.SimpleNamespace(kind=kind, subscribers=0, published=published,
                                          publish=published.append)
        publisher.get_subscription_count = lambda: publisher.subscribers
        self.publishers[topic] = publisher
        return publisher


class Bench:
    """The publishers of a node, and a matcher that fills their buffers."""

    def __init__(self, node: Node | None = None, **settings: Any) -> None:
        self.node = node or Node()
        self.buffers: list[object] = []
        self.outputs = OutputPublishers(
            self.node, group=None, qos_watch=types.SimpleNamespace(publisher=lambda topic: None),
            settings=NodeConfig(**settings), on_buffer=self.buffers.append)
        self.matcher = FakeMatcher(MatcherConfig(min_disparity=3))

    def publish(self, *subscribed: str) -> dict[str, list[Any]]:
        """Match and publish one pair; returns the messages by topic."""
        for topic, publisher in self.node.publishers.items():
            publisher.subscribers = int(topic in subscribed)
            publisher.published.clear()
        topics = self.outputs.wanted()
        out = self.outputs.buffers(topics, 32, 24)
        frame = self.matcher.compute(types.SimpleNamespace(width=32, height=24), None,
                                     outputs=tuple(out), out=out)
        self.outputs.publish(topics, result()._replace(frame=frame))
        return {topic: publisher.published for topic, publisher in self.node.publishers.items()
                if publisher.published}


@pytest.mark.parametrize('topic', [name for name, topic in TOPICS.items() if topic.output])
def test_a_subscriber_of_one_topic_gets_its_message_and_nothing_else_is_computed(
        topic: str) -> None:
    bench = Bench()
    messages = bench.publish(topic)
    assert set(messages) == {topic}
    message, = messages[topic]
    assert type(message) is bench.node.publishers[topic].kind
    assert bench.matcher.outputs == [(TOPICS[topic].output,)]
    assert (message.header.stamp, message.header.frame_id) == (STAMP, 'left_camera')
    output = OUTPUTS[TOPICS[topic].output]
    kept, = bench.buffers
    assert np.array_equal(np.frombuffer(kept, output.dtype).reshape(output.shape((24, 32))),
                          np.full(output.shape((24, 32)), 3, output.dtype))


def test_topics_of_one_output_share_a_message_that_is_computed_once() -> None:
    bench = Bench(depth_encoding='16UC1')
    messages = bench.publish('depth', 'depth/image_rect')
    (image,), (again,) = messages['depth'], messages['depth/image_rect']
    assert image is again
    assert bench.matcher.outputs == [('depth_mm',)]
    assert (image.encoding, image.step, len(image.data)) == ('16UC1', 64, 64 * 24)
    assert len(bench.buffers) == 1


def test_without_subscribers_nothing_is_wanted_and_a_camera_info_makes_no_frame_alone() -> None:
    bench = Bench()
    for topics in ((), ('latency',), ('depth/camera_info',)):
        assert bench.publish(*topics) == {}
        assert bench.buffers == []
    messages = bench.publish('depth/camera_info', 'depth/image_rect')
    (info,), (image,) = messages['depth/camera_info'], messages['depth/image_rect']
    assert info.header == image.header
    assert bench.matcher.outputs[-1] == ('depth',)


def test_latency_is_published_to_its_subscribers_alone() -> None:
    bench = Bench()
    bench.publish('latency')
    publisher = bench.node.publishers['latency']
    bench.outputs.publish_latency(STAMP, FrameLatency({}, 1.0, 2.0))
    assert publisher.published[0].status[0].name == '/node: latency'
    bench.publish()
    bench.outputs.publish_latency(STAMP, FrameLatency({}, 1.0, 2.0))
    assert publisher.published == []


def test_publishers_are_destroyed_also_where_making_one_of_them_fails() -> None:
    bench = Bench()
    bench.outputs.destroy()
    assert bench.node.destroyed[::-1] == [*bench.node.publishers.values()]
    node = Node(fails_at='latency')
    with pytest.raises(RuntimeError):
        Bench(node)
    assert node.destroyed[::-1] == [*node.publishers.values()] != []
