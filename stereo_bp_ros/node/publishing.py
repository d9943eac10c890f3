"""The topics of results, in one table, and their publishers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.callback_groups import CallbackGroup
from rclpy.lifecycle import LifecycleNode, LifecyclePublisher
from sensor_msgs.msg import CameraInfo
from std_msgs.msg import Float64MultiArray

from stereo_bp_ros.config.node import NodeConfig
from stereo_bp_ros.node import qos
from stereo_bp_ros.node.diagnostics.monitors import FrameLatency
from stereo_bp_ros.node.frames import Result
from stereo_bp_ros.node.messages import (
    CameraInfoMessage,
    DisparityMessage,
    ImageMessage,
    KeptMessage,
    OutputMessage,
    PointCloudMessage,
    latency_message,
    latency_numbers,
)
from stereo_bp_ros.node.qos import QosWatch


class Topic(NamedTuple):
    """What a topic of results carries.

    output:  what the engine is to compute, a name of ``OUTPUTS``; '' = nothing: published
             with the frames that others want.
    message: what keeps and fills the message. Topics of the same output share one.
    """

    output: str
    message: type[KeptMessage]


TOPICS = {
    'disparity': Topic('disparity', DisparityMessage),
    'depth': Topic('depth', ImageMessage),
    'depth/image_rect': Topic('depth', ImageMessage),
    'depth/camera_info': Topic('', CameraInfoMessage),
    'confidence': Topic('confidence', ImageMessage),
    'disparity_color': Topic('disparity_color', ImageMessage),
    'points2': Topic('points', PointCloudMessage),
}

LATENCY, LATENCY_MS = 'latency', 'latency_ms'

#: The right camera_info that needs no correction of rows; latched.
CORRECTED_INFO = 'right/corrected_camera_info'

#: Output in place of ``depth``, by ``depth_encoding``.
DEPTHS = {'32FC1': 'depth', '16UC1': 'depth_mm'}


class OutputPublishers:
    """Publishes what somebody subscribes to; made by configure, destroyed by cleanup.

    Used by the worker's thread, except for making and destroying.

    :param group: for the events of the publishers.
    :param on_buffer: is given every new buffer that results will be written into.
    """

    def __init__(self, node: LifecycleNode, *, group: CallbackGroup, qos_watch: QosWatch,
                 settings: NodeConfig, on_buffer: Callable[[Any], object]) -> None:
        self._node = node
        self._name = node.get_fully_qualified_name()
        depth = DEPTHS[settings.depth_encoding]
        self._topics = {name: topic._replace(output=depth) if topic.output == 'depth' else topic
                        for name, topic in TOPICS.items()}
        self._messages = {topic.output: topic.message(topic.output, on_buffer)
                          for topic in self._topics.values()}
        self._publishers: dict[str, LifecyclePublisher] = {}
        kinds = {name: topic.message.kind for name, topic in self._topics.items()}
        try:
            for name, kind in {**kinds, LATENCY: DiagnosticArray,
                               LATENCY_MS: Float64MultiArray, CORRECTED_INFO: CameraInfo}.items():
                self._publishers[name] = node.create_lifecycle_publisher(
                    kind, name, qos.latched() if name == CORRECTED_INFO else qos.publisher(),
                    callback_group=group,
                    event_callbacks=qos_watch.publisher(node.resolve_topic_name(name)),
                    qos_overriding_options=qos.overriding_options())
        except BaseException:
            self.destroy()
            raise

    def wanted(self) -> tuple[str, ...]:
        """The topics that somebody subscribes to; none where no output is among them."""
        topics = tuple(name for name in self._topics
                       if self._publishers[name].get_subscription_count())
        return topics if any(self._topics[name].output for name in topics) else ()

    def buffers(self, topics: tuple[str, ...], width: int, height: int, decimation: int = 1
                ) -> dict[str, np.ndarray]:
        """The outputs of these topics by name, each once: the data of their messages."""
        messages = {name: self._messages[name] for name in dict.fromkeys(
            self._topics[topic].output for topic in topics)}
        return {name: message.pixels(width, height, decimation)
                for name, message in messages.items() if isinstance(message, OutputMessage)}

    def publish(self, topics: tuple[str, ...], result: Result) -> None:
        """Publish topics whose buffers have been filled."""
        for name in topics:
            self._publishers[name].publish(
                self._messages[self._topics[name].output].fill(result))

    def publish_corrected_info(self, info: CameraInfo) -> None:
        """Publish what the right camera_info would have to be."""
        self._publishers[CORRECTED_INFO].publish(info)

    def publish_latency(self, stamp: Any, latency: FrameLatency) -> None:
        """Publish where the time of a frame went, if somebody wants to know."""
        publisher = self._publishers[LATENCY]
        if publisher.get_subscription_count():
            publisher.publish(latency_message(stamp, self._name, latency))
        numbers = self._publishers[LATENCY_MS]
        if numbers.get_subscription_count():
            numbers.publish(latency_numbers(latency))

    def destroy(self) -> None:
        """Destroy the publishers."""
        while self._publishers:
            self._node.destroy_lifecycle_publisher(self._publishers.popitem()[1])
