"""Records what the node publishes into a rosbag2 folder, as the bytes that arrive."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import threading
import time
from collections.abc import Mapping

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from rosbags.typesys import Stores, get_typestore
from stereo_msgs.msg import DisparityImage

from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.config.settings import Value
from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.replay import frames
from stereo_bp_ros.replay.listening import Spinner
from stereo_bp_ros.replay.parameter_requests import RemoteParameters
from stereo_bp_ros.sources.bag_messages import opened_bag

#: Topics that are recorded, relative to the node's namespace unless they begin with '/'.
RECORDED: Mapping[str, type] = {
    'disparity': DisparityImage, 'latency': DiagnosticArray, '/diagnostics': DiagnosticArray}


#: Settings that say which images are a pair.
SYNC = ('approximate_sync', 'approximate_sync_tolerance_seconds')

#: Seconds that the node's settings are waited for; it has compiled by then.
SETTINGS_LIMIT_S = 10.0


@dataclasses.dataclass(frozen=True)
class Told:
    """The node's counters when they came, in seconds of ``time.monotonic``."""

    at_s: float
    counters: frames.Counters


class Recorder:
    """Subscribes to the node's results and writes them in the order of arrival.

    Only /diagnostics is decoded, once a second, so that recording takes as little as it can from
    the node's machine.

    :param depth: messages of a topic that may wait between two writes.

    counts: messages recorded, by topic.
    first, last: counters that the node has reported; None before the first.
    device: what computes, as the node has reported last; empty before.
    failures: why a node could not become active, by node; '' = nothing is wrong.
    """

    def __init__(self, node: Node, path: pathlib.Path, depth: int) -> None:
        self._opened = contextlib.ExitStack()
        self._writer = self._opened.enter_context(opened_bag(path))
        self._failure: OSError | None = None
        self.counts = dict.fromkeys(RECORDED, 0)
        self.first: Told | None = None
        self.last: Told | None = None
        self.device: dict[str, str] = {}
        self.failures: Mapping[str, str] = {}
        self._lock = threading.Lock()
        self._node = node
        store = get_typestore(Stores.ROS2_KILTED)
        qos = QoSProfile(depth=depth, reliability=ReliabilityPolicy.RELIABLE)
        for topic, kind in RECORDED.items():
            module = kind.__module__.split('.')[0]
            connection = self._writer.add_connection(
                f'/{topic.lstrip("/")}', f'{module}/msg/{kind.__name__}', typestore=store)
            node.create_subscription(
                kind, topic, lambda data, t=topic, c=connection: self._write(t, c, data), qos,
                raw=True)
        self._spinner = Spinner(node, 'recorder')

    def check(self) -> None:
        """Reject a bag that cannot be written, as once the disk is full; it is removed.

        :raises ValueError: names it and the reason.
        """
        with self._lock:
            if self._failure:
                self._opened.__exit__(OSError, self._failure, self._failure.__traceback__)

    def close(self) -> None:
        """Stop recording and close the bag.

        :raises ValueError: as ``check``.
        """
        self._spinner.close()
        self.check()
        self._opened.close()

    def settings_of_publisher(self, topic: str) -> dict[str, Value]:
        """Settings of the matcher and ``SYNC`` of the node that publishes a topic.

        Empty where it is unknown.
        """
        publishers = self._node.get_publishers_info_by_topic(self._node.resolve_topic_name(topic))
        if len(publishers) != 1:
            return {}
        where = f'{publishers[0].node_namespace.rstrip("/")}/{publishers[0].node_name}'
        # Every node has these; settings of a single program are not parameters.
        names = [*MatcherConfig().to_mapping(), *SYNC]
        with contextlib.suppress(StereoError):
            return RemoteParameters(self._node, where, SETTINGS_LIMIT_S).get(names)
        return {}

    def _write(self, topic: str, connection: object, data: bytes) -> None:
        with self._lock:
            if self._failure:
                return
            try:
                self._writer.write(connection, time.time_ns(), data)
            except OSError as error:
                self._failure = error
                return
            self.counts[topic] += 1
        if topic == '/diagnostics':
            message = deserialize_message(data, DiagnosticArray)
            self.device = frames.device(message) or self.device
            self.failures = {**self.failures, **frames.failures(message)}
            found = frames.counters(message)
            if found:
                self.last = Told(time.monotonic(), found)
                self.first = self.first or self.last
