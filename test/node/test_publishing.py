"""The table of topics: what is computed and published for whom."""

from __future__ import annotations

import threading
import time
import types
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')

from builtin_interfaces.msg import Time

from stereo_bp_ros.config import MatcherConfig, NodeConfig
from stereo_bp_ros.node import publishing
from stereo_bp_ros.node.diagnostics.conditions import Conditions
from stereo_bp_ros.node.diagnostics.ledger import PairDrop
from stereo_bp_ros.node.diagnostics.monitors import FrameLatency
from stereo_bp_ros.node.messages import ImageMessage
from stereo_bp_ros.node.pairing import Generation
from stereo_bp_ros.node.publishing import TOPICS, OutputPublishers, Topic
from stereo_bp_ros.types import OUTPUTS
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
        self.generation = Generation()
        self.conditions = Conditions(lambda level, text: None)
        self.outputs = OutputPublishers(
            self.node, group=None, qos_watch=types.SimpleNamespace(publisher=lambda topic: None),
            generation=self.generation, conditions=self.conditions,
            settings=NodeConfig(**settings), on_buffer=self.buffers.append)
        self.matcher = FakeMatcher(MatcherConfig(min_disparity=3))

    def publish(self, *subscribed: str, stamp: int = 12) -> dict[str, list[Any]]:
        """Match and publish one pair; returns the messages by topic, but for compressed ones."""
        for topic, publisher in self.node.publishers.items():
            publisher.subscribers = int(topic in subscribed)
            publisher.published.clear()
        topics = self.outputs.wanted()
        out = self.outputs.buffers(topics, 32, 24)
        frame = self.matcher.compute(types.SimpleNamespace(width=32, height=24), None,
                                     outputs=tuple(out), out=out)
        with self.generation.gate(self.generation.number):
            self.outputs.publish(topics, result()._replace(frame=frame,
                                                           stamp=Time(sec=stamp, nanosec=34)))
        return {topic: publisher.published for topic, publisher in self.node.publishers.items()
                if publisher.published}

    def compressed(self, topic: str, stamp: int = 12) -> Any:
        """Wait for the message of this stamp."""
        end = time.monotonic() + 60
        while True:
            for message in list(self.node.publishers[topic].published):
                if message.header.stamp.sec == stamp:
                    return message
            assert time.monotonic() < end, 'nothing was compressed'
            time.sleep(0.001)


@pytest.mark.parametrize('topic', [name for name, topic in TOPICS.items() if topic.output])
def test_a_subscriber_of_one_topic_gets_its_message_and_nothing_else_is_computed(
        topic: str) -> None:
    bench = Bench()
    messages = bench.publish(topic)
    message = bench.compressed(topic)
    assert set(messages) <= {topic}
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


class Gate:
    """A compressor that waits until it may go on, and tells of what it was given."""

    def __init__(self) -> None:
        self.entered, self.opened = threading.Semaphore(0), threading.Event()
        self.given: list[tuple[int, int]] = []

    def __call__(self, pixels: np.ndarray, encoding: str, result: Any) -> Any:
        self.given.append((result.stamp.sec, int(pixels[0, 0, 0])))
        self.entered.release()
        assert self.opened.wait(60)
        assert self.given[-1][1] == pixels[0, 0, 0]
        return types.SimpleNamespace(header=types.SimpleNamespace(stamp=result.stamp))


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    gate = Gate()
    monkeypatch.setitem(publishing.TOPICS, 'disparity_color/compressed',
                        Topic('disparity_color', ImageMessage, gate))
    return gate


def test_slow_compression_delays_no_result_and_skips_to_the_newest_frame(gate: Gate) -> None:
    bench, topic = Bench(), 'disparity_color/compressed'
    for stamp in range(1, 6):
        # Every frame overwrites the buffer of the one before, but not what is being compressed.
        bench.matcher.config = MatcherConfig(min_disparity=stamp)
        messages = bench.publish(topic, 'disparity_color', stamp=stamp)
        assert messages['disparity_color'][0].header.stamp.sec == stamp
        assert messages['disparity_color'][0].data[0] == stamp
        if stamp == 1:
            assert gate.entered.acquire(timeout=60)
    gate.opened.set()
    bench.compressed(topic, 5)
    assert gate.given == [(1, 1), (5, 5)]


def test_what_is_compressed_when_its_generation_has_ended_is_not_published(gate: Gate) -> None:
    bench, topic = Bench(), 'disparity_color/compressed'
    bench.publish(topic, stamp=1)
    assert gate.entered.acquire(timeout=60)
    bench.generation.advance(PairDrop.DEACTIVATED)
    gate.opened.set()
    bench.publish(topic, stamp=2)
    bench.compressed(topic, 2)
    assert [message.header.stamp.sec
            for message in bench.node.publishers[topic].published] == [2]


def test_an_exception_in_compression_is_told_and_the_next_frame_is_compressed(
        monkeypatch: pytest.MonkeyPatch) -> None:
    failures = [RuntimeError('no memory')]

    def compress(*arguments: Any) -> Any:
        if failures:
            raise failures.pop()
        return publishing.compressed_color(*arguments)

    monkeypatch.setitem(publishing.TOPICS, 'disparity_color/compressed',
                        Topic('disparity_color', ImageMessage, compress))
    bench, topic = Bench(), 'disparity_color/compressed'
    bench.publish(topic)
    end = time.monotonic() + 60
    while not bench.conditions.active('compression'):
        assert time.monotonic() < end
        time.sleep(0.001)
    condition, = bench.conditions.active('compression')
    assert 'no memory' in condition.text
    bench.publish(topic, stamp=13)
    assert bench.compressed(topic, 13).format == 'bgr8; jpeg compressed bgr8'


def test_the_thread_that_compresses_ends_with_the_node_or_is_told_of(
        gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    def threads() -> list[str]:
        return [thread.name for thread in threading.enumerate()
                if thread.name == 'stereo_bp_compressor']

    before = threads()
    bench = Bench()
    bench.publish('disparity_color')
    assert threads() == before
    bench.publish('disparity_color/compressed')
    assert len(threads()) == len(before) + 1
    assert gate.entered.acquire(timeout=60)
    monkeypatch.setattr(publishing, 'COMPRESSION_LIMIT', 0.01)
    assert not bench.outputs.stop()
    gate.opened.set()
    monkeypatch.setattr(publishing, 'COMPRESSION_LIMIT', 60.0)
    assert bench.outputs.stop()
    assert threads() == before
    bench.publish('disparity_color/compressed')
    assert threads() == before
