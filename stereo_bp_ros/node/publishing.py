"""The publishers of results, and their messages: kept from frame to frame, filled in place.

A message may be reused once publish() has returned. Assigning an array to ``data`` would convert
it element by element, which takes up to 200 ms a frame; here results are written straight into
the message's own ``array.array('B')``.
"""

from __future__ import annotations

import array
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.callback_groups import CallbackGroup
from rclpy.lifecycle import LifecycleNode, LifecyclePublisher
from sensor_msgs.msg import Image
from stereo_msgs.msg import DisparityImage

from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.node import qos
from stereo_bp_ros.node.diagnostics.latency import FrameLatency
from stereo_bp_ros.node.qos import QosWatch
from stereo_bp_ros.types import DisparityFrame


class FloatImage:
    """A 32FC1 ``sensor_msgs/Image`` whose pixels are an array to be written into.

    :param on_buffer: is given every new ``array.array`` that pixels are kept in.
    """

    def __init__(self, message: Image, on_buffer: Callable[[Any], object]) -> None:
        self.message = message
        self._on_buffer = on_buffer
        self._pixels: np.ndarray = np.empty((0, 0), np.float32)

    def pixels(self, width: int, height: int) -> np.ndarray:
        """The message's pixels: float32 H x W, C-contiguous, valid until another size is asked
        for."""
        if self._pixels.shape != (height, width):
            message = self.message
            message.height, message.width = height, width
            message.encoding = '32FC1'
            message.is_bigendian = int(sys.byteorder == 'big')
            message.step = 4 * width
            # A new buffer, never a resized one: a view of the old one may still be alive.
            message.data = array.array('B', bytes(4 * width * height))
            # Read back, because without field checks the setter stores a copy.
            self._pixels = np.frombuffer(message.data, np.float32).reshape(height, width)
            self._on_buffer(message.data)
        return self._pixels


class DepthMessage:
    """``sensor_msgs/Image`` of metres along the optical axis, NaN = no depth (REP 118).

    :param on_buffer: as of ``FloatImage``.
    """

    def __init__(self, on_buffer: Callable[[Any], object]) -> None:
        self.message = Image()
        self._image = FloatImage(self.message, on_buffer)

    def pixels(self, width: int, height: int) -> np.ndarray:
        """Where the depth is to be written: float32 H x W."""
        return self._image.pixels(width, height)

    def fill(self, stamp: Any, frame_id: str) -> Image:
        """Everything but the pixels."""
        self.message.header.stamp = stamp
        self.message.header.frame_id = frame_id
        return self.message


class DisparityMessage:
    """``stereo_msgs/DisparityImage``.

    :param on_buffer: as of ``FloatImage``.
    """

    def __init__(self, on_buffer: Callable[[Any], object]) -> None:
        self.message = DisparityImage()
        self._image = FloatImage(self.message.image, on_buffer)

    def pixels(self, width: int, height: int) -> np.ndarray:
        """Where the disparity is to be written: float32 H x W."""
        return self._image.pixels(width, height)

    def fill(self, stamp: Any, frame_id: str, calibration: Calibration,
             frame: DisparityFrame) -> DisparityImage:
        """Everything but the pixels.

        :param stamp: of the left image.
        :param frame_id: of the reference camera's camera_info.
        """
        message = self.message
        for header in (message.header, message.image.header):
            header.stamp = stamp
            header.frame_id = frame_id
        message.f = calibration.focal_px
        message.t = calibration.baseline_m
        window = message.valid_window
        window.x_offset = frame.valid_window.x_offset
        window.y_offset = frame.valid_window.y_offset
        window.width = frame.valid_window.width
        window.height = frame.valid_window.height
        message.min_disparity = float(frame.min_disparity)
        message.max_disparity = float(frame.max_disparity)
        message.delta_d = float(frame.delta_d)
        return message


def latency_message(stamp: Any, name: str, hardware_id: str,
                    latency: FrameLatency) -> DiagnosticArray:
    """One frame's stages in milliseconds, as one status."""
    message = DiagnosticArray()
    message.header.stamp = stamp
    message.status = [DiagnosticStatus(
        level=DiagnosticStatus.OK, name=name, hardware_id=hardware_id,
        message=f'total {latency.total:.3f} ms',
        values=[KeyValue(key=key, value=f'{value:.3f}') for key, value in latency.items()])]
    return message


TYPES = {'disparity': DisparityImage, 'depth': Image, 'latency': DiagnosticArray}


class OutputPublishers:
    """Publishes what somebody subscribes to; made by configure, destroyed by cleanup.

    Used by the worker's thread, but for making and destroying.

    :param group: for the events of the publishers.
    :param on_buffer: is given every new buffer that results will be written into.
    """

    def __init__(self, node: LifecycleNode, *, group: CallbackGroup, qos_watch: QosWatch,
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
                    event_callbacks=qos_watch.publisher(node.resolve_topic_name(topic)),
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
