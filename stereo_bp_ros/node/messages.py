"""The messages of results: kept from frame to frame, filled in place.

A message may be reused once publish() has returned. Assigning an array to ``data`` would convert
it element by element, which takes up to 200 ms a frame; here results are written straight into
the message's own ``array.array('B')``.
"""

from __future__ import annotations

import abc
import array
import copy
import sys
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from sensor_msgs.msg import CameraInfo, Image, PointCloud2, PointField
from std_msgs.msg import Float64MultiArray, Header, MultiArrayDimension
from stereo_msgs.msg import DisparityImage

from stereo_bp_ros.frame.disparity_frame import OUTPUTS
from stereo_bp_ros.node.diagnostics.monitors import FrameLatency
from stereo_bp_ros.node.diagnostics.report import hardware_id
from stereo_bp_ros.node.frames import Result

#: Encodings of images by type and channels of the pixels.
ENCODINGS = {('float32', 0): '32FC1', ('uint16', 0): '16UC1', ('uint8', 3): 'bgr8'}


class KeptMessage:
    """A message that is kept from frame to frame.

    :param output: the output of the engine that it shows.
    :param on_buffer: is given every new ``array.array`` that an output will be written into.
    """

    #: The class of the message.
    kind: ClassVar[type]

    def __init__(self, output: str, on_buffer: Callable[[Any], object]) -> None:
        self.message = self.kind()

    def fill(self, result: Result) -> Any:
        """Everything but an output; returns the message."""
        self.message.header.stamp = result.stamp
        self.message.header.frame_id = result.frame_id
        return self.message


class CameraInfoMessage(KeptMessage):
    """``sensor_msgs/CameraInfo`` of an image in the frame of the reference camera.

    As ``Result`` has it, but that P has a translation only where that camera is not at the origin
    of its frame: a right camera's ``camera_info`` has one in either case.
    """

    kind = CameraInfo

    def fill(self, result: Result) -> CameraInfo:
        self.message = copy.copy(result.camera_info)
        self.message.header = Header()
        if not result.camera_x:
            self.message.p = [0.0 if place == 3 else value
                              for place, value in enumerate(result.camera_info.p)]
        return super().fill(result)


class OutputMessage(KeptMessage, abc.ABC):
    """A message whose ``data`` is one output of the engine, computed in place."""

    def __init__(self, output: str, on_buffer: Callable[[Any], object]) -> None:
        super().__init__(output, on_buffer)
        self._output = OUTPUTS[output]
        self._on_buffer = on_buffer
        self._pixels = self._output.empty((0, 0))

    @property
    def carrier(self) -> Any:
        """The part of the message that has width, height and data."""
        return self.message

    def pixels(self, width: int, height: int, decimation: int = 1) -> np.ndarray:
        """Where the output is to be written: of the shape and type that ``OUTPUTS`` says,
        C-contiguous, valid until another shape is asked for.

        :param width, height: of the images, pixels.
        :param decimation: the setting ``points_decimation``.
        """
        shape = self._output.shape((height, width), decimation)
        if self._pixels.shape != shape:
            carrier = self.carrier
            carrier.height, carrier.width = shape[:2]
            carrier.is_bigendian = sys.byteorder == 'big'
            self.describe(self._pixels.itemsize * (self._output.channels or 1))
            # A new buffer, never a resized one: a view of the old one may still be alive.
            carrier.data = array.array('B', bytes(int(np.prod(shape)) * self._pixels.itemsize))
            # Read back, because without field checks the setter stores a copy.
            self._pixels = np.frombuffer(carrier.data, self._output.dtype).reshape(shape)
            self._on_buffer(carrier.data)
        return self._pixels

    @abc.abstractmethod
    def describe(self, pixel_bytes: int) -> None:
        """Say how the data are to be read, after a change of the size.

        :param pixel_bytes: bytes of a pixel.
        """


class ImageMessage(OutputMessage):
    """``sensor_msgs/Image``."""

    kind = Image

    def describe(self, pixel_bytes: int) -> None:
        self.carrier.encoding = ENCODINGS[self._output.dtype, self._output.channels]
        self.carrier.step = pixel_bytes * self.carrier.width


class DisparityMessage(ImageMessage):
    """``stereo_msgs/DisparityImage``."""

    kind = DisparityImage

    @property
    def carrier(self) -> Any:
        return self.message.image

    def fill(self, result: Result) -> DisparityImage:
        message = super().fill(result)
        message.image.header.stamp = result.stamp
        message.image.header.frame_id = result.frame_id
        message.f = result.calibration.focal_px
        message.t = result.calibration.baseline_m
        frame = result.frame
        window = message.valid_window
        window.x_offset = frame.valid_window.x_offset
        window.y_offset = frame.valid_window.y_offset
        window.width = frame.valid_window.width
        window.height = frame.valid_window.height
        message.min_disparity = float(frame.min_disparity)
        message.max_disparity = float(frame.max_disparity)
        message.delta_d = float(frame.delta_d)
        return message


class PointCloudMessage(OutputMessage):
    """``sensor_msgs/PointCloud2`` of x, y, z and rgb without padding: organized, or only the
    points that there are."""

    kind = PointCloud2

    def __init__(self, output: str, on_buffer: Callable[[Any], object]) -> None:
        super().__init__(output, on_buffer)
        self._dense = self.kind(height=1, is_dense=True)
        for message in (self.message, self._dense):
            message.fields = [
                PointField(name=name, offset=4 * i, datatype=PointField.FLOAT32, count=1)
                for i, name in enumerate(('x', 'y', 'z', 'rgb'))]
            message.is_bigendian = sys.byteorder == 'big'

    def describe(self, pixel_bytes: int) -> None:
        self.message.point_step = self._dense.point_step = pixel_bytes
        self.message.row_step = pixel_bytes * self.message.width

    def fill(self, result: Result) -> PointCloud2:
        message = super().fill(result)
        if result.camera_x:
            self._pixels[:, :, 0] += np.float32(result.camera_x)
        return message if result.settings.points_organized else self._without_gaps()

    def _without_gaps(self) -> PointCloud2:
        dense = self._dense
        data = dense.data       # the message's own, without a copy
        there = np.flatnonzero(np.isfinite(self._pixels[:, :, 2]))
        size = there.size * dense.point_step
        # Its memory stays, except for what is missing or too much since the frame before.
        if len(data) > size:
            del data[size:]
        else:
            data.frombytes(bytes(size - len(data)))
        # A complex number has the size of a point: each is copied whole.
        points = self._pixels.reshape(-1).view(np.complex128)
        # Other modes than clip fill a buffer of their own first.
        np.take(points, there, out=np.frombuffer(data, points.dtype), mode='clip')
        dense.header = self.message.header
        dense.width, dense.row_step = there.size, size
        return dense


def latency_message(stamp: Any, node: str, latency: FrameLatency) -> DiagnosticArray:
    """One frame's stages in milliseconds, as one status.

    :param node: fully qualified name of the node.
    """
    message = DiagnosticArray()
    message.header.stamp = stamp
    message.status = [DiagnosticStatus(
        level=DiagnosticStatus.OK, name=f'{node}: latency', hardware_id=hardware_id(node),
        message=f'total {latency.total:.3f} ms',
        values=[KeyValue(key=key, value=f'{value:.3f}') for key, value in latency.items()])]
    return message


def latency_numbers(latency: FrameLatency) -> Float64MultiArray:
    """One frame's milliseconds for tools that plot numbers: total, age, and then every stage.

    The first two keep their places when a stage is added. The dimension's label has the names.
    """
    *stages, total, age = latency.items()
    names, values = zip(total, age, *stages, strict=True)
    message = Float64MultiArray(data=array.array('d', values))
    message.layout.dim = [MultiArrayDimension(label=','.join(names), size=len(names),
                                              stride=len(names))]
    return message
