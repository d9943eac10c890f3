"""Stereo bags: rosbag2 folders written and read without ROS, through the rosbags library."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import os
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any

import cv2
import numpy as np
from rosbags.highlevel import AnyReader
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.errors import StereoError, shown
from stereo_bp_ros.evaluation import files
from stereo_bp_ros.evaluation.bag_topics import (
    CAMERA_INFO,
    COMPRESSED_IMAGE,
    IMAGE,
    TRUTH_TOPIC,
    StereoTopics,
    file_without_metadata,
    find_stereo_topics,
    is_rectified_name,
)
from stereo_bp_ros.images import RawImage

CLOCK = 'rosgraph_msgs/msg/Clock'

TRUTH_SCALE = 256.0

#: Bytes of a serialised message up to the end of its stamp, in ROS 1 or 2, at least.
LEAST_BYTES = 12

FRAME_IDS = {'left': 'left_camera_optical_frame', 'right': 'right_camera_optical_frame'}

_STORE = get_typestore(Stores.ROS2_KILTED)


@dataclasses.dataclass(frozen=True)
class BagPair:
    """One stereo pair of a bag.

    disparity: float32 H x W in pixels, NaN = unknown; None where the bag has no truth.
    """

    stamp_ns: int
    left: RawImage
    right: RawImage
    calibration: Calibration | None
    disparity: np.ndarray | None


def serialize_image(stamp_ns: int, side: str, pixels: np.ndarray, encoding: str) -> memoryview:
    """CDR bytes of a ``sensor_msgs/Image``; ``pixels`` is H x W or H x W x C, native order."""
    pixels = np.ascontiguousarray(pixels)
    message = _type(IMAGE)(
        header=_header(stamp_ns, FRAME_IDS[side]), height=pixels.shape[0], width=pixels.shape[1],
        encoding=encoding, is_bigendian=0, step=pixels.strides[0],
        data=pixels.reshape(-1).view(np.uint8))
    return _STORE.serialize_cdr(message, IMAGE)


def serialize_camera_info(stamp_ns: int, side: str, calibration: Calibration, width: int,
                          height: int) -> memoryview:
    """CDR bytes of the ``sensor_msgs/CameraInfo`` of one side of a rectified pair."""
    cx = calibration.cx_left if side == 'left' else calibration.cx_right
    focal = calibration.focal_px
    offset = 0.0 if side == 'left' else -focal * calibration.baseline_m
    roi = _type('sensor_msgs/msg/RegionOfInterest')(
        x_offset=0, y_offset=0, height=0, width=0, do_rectify=False)
    message = _type(CAMERA_INFO)(
        header=_header(stamp_ns, FRAME_IDS[side]), height=height, width=width,
        distortion_model='plumb_bob', d=np.zeros(5),
        k=np.array([focal, 0, cx, 0, focal, calibration.cy, 0, 0, 1.0]),
        r=np.eye(3).reshape(-1),
        p=np.array([focal, 0, cx, offset, 0, focal, calibration.cy, 0, 0, 0, 1.0, 0]),
        binning_x=0, binning_y=0, roi=roi)
    return _STORE.serialize_cdr(message, CAMERA_INFO)


def serialize_truth(stamp_ns: int, disparity: np.ndarray) -> memoryview:
    """CDR bytes of a ground truth: float32 H x W in pixels, NaN = unknown (``TRUTH_TOPIC``)."""
    # 0 means unknown, so a surface at infinity becomes the smallest disparity there is.
    values = np.clip(np.nan_to_num(disparity * TRUTH_SCALE + 0.5, nan=0.0), 0, 65535)
    values = np.where(np.isnan(disparity), 0, np.maximum(values, 1)).astype(np.uint16)
    _, png = cv2.imencode('.png', values, [cv2.IMWRITE_PNG_COMPRESSION, 1])
    message = _type(COMPRESSED_IMAGE)(
        header=_header(stamp_ns, FRAME_IDS['left']), format='16UC1; png', data=png.reshape(-1))
    return _STORE.serialize_cdr(message, COMPRESSED_IMAGE)


def serialize_clock(time_ns: int) -> memoryview:
    """CDR bytes of a ``rosgraph_msgs/Clock``."""
    return _STORE.serialize_cdr(_type(CLOCK)(clock=_time(time_ns)), CLOCK)


def stamp_of(data: bytes | memoryview) -> int:
    """Header stamp in ns of CDR bytes that begin with a ``std_msgs/Header``."""
    order = 'little' if data[1] & 1 else 'big'
    seconds = int.from_bytes(data[4:8], order, signed=True)     # type: ignore[arg-type]
    return seconds * 10**9 + int.from_bytes(data[8:12], order)  # type: ignore[arg-type]


def with_stamp(data: bytes | memoryview, stamp_ns: int) -> bytes:
    """The same CDR bytes with another header stamp.

    :raises StereoError: the stamp does not fit a message.
    """
    order = 'little' if data[1] & 1 else 'big'
    seconds, nanoseconds = divmod(stamp_ns, 10**9)
    if not -2**31 <= seconds < 2**31:
        raise StereoError(f'a stamp of {seconds} s does not fit a message: is the source damaged?')
    return b''.join((data[:4], seconds.to_bytes(4, order, signed=True),  # type: ignore[arg-type]
                     nanoseconds.to_bytes(4, order), data[12:]))         # type: ignore[arg-type]


class StereoBagWriter:
    """Writes pairs with calibration and, where given, ground truth into a new rosbag2 folder.

    A context manager. Images are mono8; topics are the node's own relative names.

    :raises StereoError: the folder exists.
    """

    def __init__(self, path: str | os.PathLike[str], calibration: Calibration) -> None:
        self._path = pathlib.Path(path)
        if self._path.exists():
            raise StereoError(f'{self._path} exists: bags are not overwritten')
        self._calibration = calibration
        self._writer = Writer(self._path, version=9, storage_plugin=StoragePlugin.MCAP)

    def __enter__(self) -> StereoBagWriter:
        self._writer.open()
        self._connections = {
            topic: self._writer.add_connection(f'/{topic}', kind, typestore=_STORE)
            for topic, kind in (
                ('left/image_rect', IMAGE), ('left/camera_info', CAMERA_INFO),
                ('right/image_rect', IMAGE), ('right/camera_info', CAMERA_INFO),
                (TRUTH_TOPIC, COMPRESSED_IMAGE))}
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def write(self, stamp_ns: int, left: np.ndarray, right: np.ndarray,
              disparity: np.ndarray | None = None) -> None:
        """Append one pair: uint8 H x W each, truth float32 H x W in pixels (NaN = unknown)."""
        for side, image in (('left', left), ('right', right)):
            self._write(f'{side}/camera_info', stamp_ns, serialize_camera_info(
                stamp_ns, side, self._calibration, image.shape[1], image.shape[0]))
            self._write(f'{side}/image_rect', stamp_ns,
                        serialize_image(stamp_ns, side, image, 'mono8'))
        if disparity is not None:
            self._write(TRUTH_TOPIC, stamp_ns, serialize_truth(stamp_ns, disparity))

    def _write(self, topic: str, stamp_ns: int, data: memoryview) -> None:
        self._writer.write(self._connections[topic], stamp_ns, data)


class _Reader(AnyReader):
    """Says which message of which topic is damaged.

    rosbags checks nothing that it parses: damage raises whatever it leads to.
    """

    _place = 'its index'

    def messages(self, *arguments: Any, **options: Any) -> Iterator[tuple[Any, int, bytes]]:
        counts: collections.Counter[str] = collections.Counter()
        found = super().messages(*arguments, **options)
        while True:
            try:
                connection, time_ns, data = next(found)
            except StopIteration:
                return
            except Exception as error:
                raise StereoError(f'{self.paths[0]} is damaged behind {self._place}: '
                                  f'{_described(error)}') from error
            counts[connection.topic] += 1
            self._place = f'message {counts[connection.topic]} of {connection.topic}'
            if len(data) < LEAST_BYTES:
                raise StereoError(f'{self.paths[0]}: {self._place} is damaged: '
                                  f'{len(data)} bytes are no message with a header')
            yield connection, time_ns, data

    def deserialize(self, rawdata: bytes | memoryview, typ: str) -> Any:
        try:
            return super().deserialize(rawdata, typ)
        except Exception as error:
            raise StereoError(f'{self.paths[0]}: {self._place} is damaged: '
                              f'{_described(error)}') from error


def _described(error: Exception) -> str:
    return f'{type(error).__name__} {error}'.strip()


class StereoBag:
    """A recorded stereo sequence: a rosbag2 folder, a file of one, or a ROS 1 bag file.

    A context manager. ``topics`` names topics that are not, or not alone, found by their names.
    Messages of ROS 1 come as ROS 2 has them.

    :raises StereoError: no bag, or no unambiguous stereo topics in it.
    """

    def __init__(self, path: str | os.PathLike[str], topics: StereoTopics | None = None) -> None:
        self.path = pathlib.Path(path)
        try:
            self._reader = _Reader([file_without_metadata(self.path) or self.path],
                                   default_typestore=_STORE)
            self._reader.open()
        except Exception as error:
            raise StereoError(f'{self.path} cannot be read as a bag: {error}') from error
        try:
            self.topics = find_stereo_topics(
                {connection.topic: connection.msgtype
                 for connection in self._reader.connections}, topics)
        except StereoError:
            self._reader.close()
            raise

    def __enter__(self) -> StereoBag:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    @property
    def compressed(self) -> bool:
        """Whether the images are ``sensor_msgs/CompressedImage``."""
        return self._connections(self.topics.left_image)[0].msgtype == COMPRESSED_IMAGE

    @property
    def is_ros1(self) -> bool:
        """Whether this is a ROS 1 bag, whose bytes are not CDR."""
        return not self._reader.is2

    @property
    def pairs(self) -> int:
        """Number of left images."""
        return sum(c.msgcount for c in self._connections(self.topics.left_image))

    def warnings(self) -> list[str]:
        """Sentences about images that are not rectified; empty when all is well."""
        images = {'left/camera_info': self.topics.left_image,
                  'right/camera_info': self.topics.right_image}
        found = (rectification_warning(images[role], info)
                 for role, info in self._first_infos().items())
        return [warning for warning in found if warning]

    def raw(self) -> Iterator[tuple[str, int, bytes]]:
        """(node's relative topic, time of recording in ns, CDR bytes) in recorded order."""
        roles = self.topics.roles()
        for connection, time_ns, data in self._reader.messages(self._connections(*roles)):
            if self.is_ros1:
                data = bytes(_STORE.serialize_cdr(self._message(connection, data),
                                                  connection.msgtype))
            yield roles[connection.topic], time_ns, data

    def read(self) -> Iterator[BagPair]:
        """Pairs of equal stamps with their latest calibration, in the order of completion."""
        roles = self.topics.roles()
        truth_topic = self.topics.truth
        waiting: dict[int, dict[str, Any]] = {}
        # A recorder may have written the first camera_info after its image.
        infos = self._first_infos()
        wanted = self._connections(*roles, truth_topic)
        for connection, _, data in self._reader.messages(wanted):
            message = self._message(connection, data)
            role = roles.get(connection.topic, 'truth')
            if role.endswith('camera_info'):
                infos[role] = message
                continue
            stamp_ns = message.header.stamp.sec * 10**9 + message.header.stamp.nanosec
            parts = waiting.setdefault(stamp_ns, {})
            parts[role] = message
            if {'left/image_rect', 'right/image_rect'} <= parts.keys() and (
                    not truth_topic or 'truth' in parts):
                yield _pair(stamp_ns, waiting.pop(stamp_ns), infos)
            elif len(waiting) > 100:        # unmatched images must not fill the memory
                del waiting[min(waiting)]
        for stamp_ns, parts in sorted(waiting.items()):     # pairs without truth
            if {'left/image_rect', 'right/image_rect'} <= parts.keys():
                yield _pair(stamp_ns, parts, infos)

    def _connections(self, *topics: str) -> list[Any]:
        return [c for c in self._reader.connections if c.topic in topics]

    def _first_infos(self) -> dict[str, Any]:
        """The first camera_info of each side by its role; without those that have none."""
        roles = self.topics.roles()
        return {roles[topic]: self._message(connection, data)
                for topic in (self.topics.left_info, self.topics.right_info)
                for connection, _, data in itertools.islice(
                    self._reader.messages(self._connections(topic)), 1)}

    def _message(self, connection: Any, data: bytes) -> Any:
        message = self._reader.deserialize(data, connection.msgtype)
        return _from_ros1(message, connection.msgtype) if self.is_ros1 else message


def rectification_warning(topic: str, info: Any) -> str:
    """Why the images of a topic are not rectified by its ``CameraInfo``; '' = they may be.

    A CameraInfo describes the camera beside its rectified images, so that distortion alone
    tells nothing about a topic that is named as rectified.
    """
    k, p = (np.reshape(np.asarray(values, float), (3, -1)) for values in (info.k, info.p))
    if is_rectified_name(topic) or not k.any():
        return ''
    reasons = [reason for reason, holds in (
        ('distortion', np.any(np.asarray(info.d, float))),
        ('a rotation R', not np.allclose(np.reshape(info.r, (3, 3)), np.eye(3), atol=1e-6)),
        ('K unlike P', not np.allclose(k, p[:, :3], rtol=1e-6, atol=1e-3))) if holds]
    if not reasons:
        return ''
    return (f'{topic} is not rectified: its camera_info has {", ".join(reasons)}. Rectify the '
            'images first, e.g. with image_proc, and match its image_rect')


def _pair(stamp_ns: int, parts: dict[str, Any], infos: dict[str, Any]) -> BagPair:
    calibration = None
    try:
        if {'left/camera_info', 'right/camera_info'} <= infos.keys():
            calibration = Calibration.from_camera_info(infos['left/camera_info'],
                                                       infos['right/camera_info'])
        return BagPair(stamp_ns, _raw_image(parts['left/image_rect']),
                       _raw_image(parts['right/image_rect']), calibration,
                       _truth(parts['truth']) if 'truth' in parts else None)
    except ValueError as error:
        raise StereoError(f'the pair of stamp {stamp_ns} ns: {error}') from error


def _raw_image(message: Any) -> RawImage:
    if not hasattr(message, 'format'):
        return RawImage.from_message(message)
    decoded = files.decode(message.data, f'a compressed image of format {shown(message.format)}')
    colour = 'bgr8' if decoded.ndim == 3 and decoded.shape[2] == 3 else None
    return RawImage.from_array(decoded, colour)


def _truth(message: Any) -> np.ndarray:
    decoded = files.decode(message.data, 'a ground truth')
    if decoded.dtype != np.uint16 or decoded.ndim != 2:
        raise ValueError('a ground truth image is not a 16-bit grey PNG')
    values = decoded.astype(np.float32)
    values[values == 0] = np.nan
    return values / np.float32(TRUTH_SCALE)


def _from_ros1(message: Any, kind: str) -> Any:
    """The same message in ROS 2: no header.seq, and CameraInfo's D, K, R and P are small."""
    values = {}
    for field in dataclasses.fields(_type(kind)):
        value = getattr(message, field.name, None)
        if value is None:
            value = getattr(message, field.name.upper())
        inner = getattr(value, '__msgtype__', '')
        values[field.name] = _from_ros1(value, inner) if inner else value
    return _type(kind)(**values)


def _type(name: str) -> Any:
    return _STORE.types[name]


def _time(time_ns: int) -> Any:
    seconds, nanoseconds = divmod(time_ns, 10**9)
    return _type('builtin_interfaces/msg/Time')(sec=seconds, nanosec=nanoseconds)


def _header(stamp_ns: int, frame_id: str) -> Any:
    return _type('std_msgs/msg/Header')(stamp=_time(stamp_ns), frame_id=frame_id)


def write_bag(path: str | os.PathLike[str], calibration: Calibration,
              frames: Iterable[tuple[int, np.ndarray, np.ndarray, np.ndarray | None]]) -> int:
    """Write (stamp in ns, left, right, truth) into a new bag; returns the number of pairs."""
    count = 0
    with StereoBagWriter(path, calibration) as writer:
        for count, frame in enumerate(frames, 1):       # noqa: B007
            writer.write(*frame)
    return count
