"""The publishers of results, and the messages that are kept for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.callback_groups import CallbackGroup
from rclpy.lifecycle import LifecycleNode, LifecyclePublisher
from sensor_msgs.msg import Image
from stereo_msgs.msg import DisparityImage

from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.node import qos
from stereo_bp_ros.node.conditions import Conditions
from stereo_bp_ros.node.events import publisher_events
from stereo_bp_ros.node.latency import FrameLatency
from stereo_bp_ros.node.messages import DepthMessage, DisparityMessage, latency_message
from stereo_bp_ros.types import DisparityFrame

TYPES = {'disparity': DisparityImage, 'depth': Image, 'latency': DiagnosticArray}


class OutputPublishers:
    """Publishes what somebody subscribes to; made by configure, destroyed by cleanup.

    Used by the worker's thread, but for making and destroying.

    :param group: for the events of the publishers.
    :param on_buffer: is given every new buffer that results will be written into.
    """

    def __init__(self, node: LifecycleNode, *, group: CallbackGroup, conditions: Conditions,
                 on_buffer: Callable[[Any], object]) -> None:
        self._node = node
        self._name = f'{node.get_fully_qualified_name()}: latency'
        self._messages: dict[str, DisparityMessage | DepthMessage] = {
            'disparity': DisparityMessage(on_buffer), 'depth': DepthMessage(on_buffer)}
        self._publishers: dict[str, LifecyclePublisher] = {}
        try:
            for topic, kind in TYPES.items():
                self._publishers[topic] = node.create_lifecycle_publisher(
                    kind, topic, qos.publisher(), callback_group=group,
                    event_callbacks=publisher_events(node.resolve_topic_name(topic),
                                                     conditions),
                    qos_overriding_options=qos.overriding_options())
        except BaseException:
            self.destroy()
            raise

    def wanted(self) -> tuple[str, ...]:
        """The outputs that somebody subscribes to; latency alone makes no frame."""
        return tuple(name for name in self._messages
                     if self._publishers[name].get_subscription_count())

    def buffers(self, names: tuple[str, ...], width: int, height: int) -> dict[str, np.ndarray]:
        """The pixels of these outputs' messages: float32 H x W each."""
        return {name: self._messages[name].pixels(width, height) for name in names}

    def publish(self, names: tuple[str, ...], stamp: Any, frame_id: str,
                calibration: Calibration, frame: DisparityFrame) -> None:
        """Publish outputs whose buffers have been filled.

        :param stamp: of the left image.
        :param frame_id: of the reference camera.
        """
        for name in names:
            message = self._messages[name]
            if isinstance(message, DisparityMessage):
                filled = message.fill(stamp, frame_id, calibration, frame)
            else:
                filled = message.fill(stamp, frame_id)
            self._publishers[name].publish(filled)

    def publish_latency(self, stamp: Any, backend: str, latency: FrameLatency) -> None:
        """Publish where the time of a frame went, if somebody wants to know."""
        publisher = self._publishers['latency']
        if publisher.get_subscription_count():
            publisher.publish(latency_message(stamp, self._name, backend, latency))

    def destroy(self) -> None:
        """Destroy the publishers."""
        while self._publishers:
            self._node.destroy_lifecycle_publisher(self._publishers.popitem()[1])
