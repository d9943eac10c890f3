"""Stereo bags: rosbag2 folders written and read without ROS, through the rosbags library."""

from __future__ import annotations

import dataclasses
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
from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.images import RawImage

IMAGE = 'sensor_msgs/msg/Image'
COMPRESSED_IMAGE = 'sensor_msgs/msg/CompressedImage'
CAMERA_INFO = 'sensor_msgs/msg/CameraInfo'
CLOCK = 'rosgraph_msgs/msg/Clock'

#: Exact disparity of the left image as a 16-bit PNG in units of 1/256 pixel, 0 = unknown (the
#: convention of KITTI), in a CompressedImage with the stamp of the pair.
TRUTH_TOPIC = 'ground_truth/disparity/compressed'
TRUTH_SCALE = 256.0

FRAME_IDS = {'left': 'left_camera_optical_frame', 'right': 'right_camera_optical_frame'}

_STORE = get_typestore(Stores.ROS2_KILTED)


@dataclasses.dataclass(frozen=True)
class StereoTopics:
    """Names of the topics of a pair in a bag; ``truth`` is '' where there is none."""

    left_image: str
    right_image: str
    left_info: str
    right_info: str
    truth: str = ''

    def roles(self) -> dict[str, str]:
        """Topic name to the node's relative name."""
        return {self.left_image: 'left/image_rect', self.right_image: 'right/image_rect',
                self.left_info: 'left/camera_info', self.right_info: 'right/camera_info'}


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
    """The same CDR bytes with another header stamp."""
    order = 'little' if data[1] & 1 else 'big'
    seconds, nanoseconds = divmod(stamp_ns, 10**9)
    return b''.join((data[:4], seconds.to_bytes(4, order, signed=True),  # type: ignore[arg-type]
                     nanoseconds.to_bytes(4, order), data[12:]))         # type: ignore[arg-type]


def is_bag(path: pathlib.Path) -> bool:
    """Whether a path is a rosbag2 folder or a ROS 1 bag file, by its name and metadata."""
    return path.suffix == '.bag' or (path / 'metadata.yaml').is_file()


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


class StereoBag:
    """A recorded stereo sequence: a rosbag2 folder, or a ROS 1 bag file.

    A context manager. ``topics`` names the topics where they cannot be found by their names.

    :raises StereoError: no bag, or no unambiguous stereo topics in it.
    """

    def __init__(self, path: str | os.PathLike[str], topics: StereoTopics | None = None) -> None:
        self.path = pathlib.Path(path)
        try:
            self._reader = AnyReader([self.path], default_typestore=_STORE)
            self._reader.open()
        except Exception as error:
            raise StereoError(f'{self.path} cannot be read as a bag: {error}') from error
        try:
            self.topics = topics or find_stereo_topics(
                {connection.topic: connection.msgtype
                 for connection in self._reader.connections})
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
        return self._connection(self.topics.left_image).msgtype == COMPRESSED_IMAGE

    @property
    def is_ros1(self) -> bool:
        """Whether this is a ROS 1 bag, whose bytes are not CDR."""
        return not self._reader.is2

    @property
    def pairs(self) -> int:
        """Number of left images."""
        return int(self._connection(self.topics.left_image).msgcount)

    def raw(self) -> Iterator[tuple[str, int, bytes]]:
        """(node's relative topic, time of recording in ns, CDR bytes) in recorded order."""
        roles = self.topics.roles()
        wanted = [c for c in self._reader.connections if c.topic in roles]
        for connection, time_ns, data in self._reader.messages(wanted):
            if self.is_ros1:
                message = self._reader.deserialize(data, connection.msgtype)
                data = bytes(_STORE.serialize_cdr(message, connection.msgtype))
            yield roles[connection.topic], time_ns, data

    def read(self) -> Iterator[BagPair]:
        """Pairs of equal stamps with their latest calibration, in the order of completion."""
        roles = self.topics.roles()
        truth_topic = self.topics.truth
        waiting: dict[int, dict[str, Any]] = {}
        infos: dict[str, Any] = {}
        wanted = [c for c in self._reader.connections
                  if c.topic in roles or c.topic == truth_topic]
        for connection, _, data in self._reader.messages(wanted):
            message: Any = self._reader.deserialize(data, connection.msgtype)
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

    def _connection(self, topic: str) -> Any:
        return next(c for c in self._reader.connections if c.topic == topic)


def find_stereo_topics(topics: dict[str, str]) -> StereoTopics:
    """The stereo topics among topic names and types.

    Rectified images (``image_rect``) win over others, raw over compressed.

    :raises StereoError: none or several candidates; the text lists the topics.
    """
    def find(side: str, kinds: tuple[str, ...], preferred: str) -> str:
        found = [t for t, kind in sorted(topics.items())
                 if kind in kinds and side in t and not t.strip('/').startswith('ground_truth')]
        for kind in kinds:
            same = [t for t in found if topics[t] == kind]
            best = [t for t in same if preferred in t] or same
            if len(best) == 1:
                return best[0]
            if best:
                raise StereoError(f'several {side} topics of type {kind}: ' + ', '.join(best)
                                  + '; name the one to use')
        raise StereoError(f'no {side} topic of type ' + ' or '.join(kinds) + ' among '
                          + (', '.join(sorted(topics)) or 'no topics'))
    images = (IMAGE, COMPRESSED_IMAGE)
    truth = [t for t, kind in topics.items()
             if kind == COMPRESSED_IMAGE and t.strip('/') == TRUTH_TOPIC]
    return StereoTopics(find('left', images, 'rect'), find('right', images, 'rect'),
                        find('left', (CAMERA_INFO,), 'camera_info'),
                        find('right', (CAMERA_INFO,), 'camera_info'), truth[0] if truth else '')


def _pair(stamp_ns: int, parts: dict[str, Any], infos: dict[str, Any]) -> BagPair:
    calibration = None
    if {'left/camera_info', 'right/camera_info'} <= infos.keys():
        calibration = Calibration.from_camera_info(infos['left/camera_info'],
                                                   infos['right/camera_info'])
    return BagPair(stamp_ns, _raw_image(parts['left/image_rect']),
                   _raw_image(parts['right/image_rect']), calibration,
                   _truth(parts['truth']) if 'truth' in parts else None)


def _raw_image(message: Any) -> RawImage:
    if not hasattr(message, 'format'):
        return RawImage.from_message(message)
    decoded: np.ndarray | None = cv2.imdecode(np.asarray(message.data), cv2.IMREAD_UNCHANGED)
    if decoded is None:
        raise StereoError(f'a compressed image of format {message.format!r} cannot be decoded')
    colour = 'bgr8' if decoded.ndim == 3 and decoded.shape[2] == 3 else None
    return RawImage.from_array(decoded, colour)


def _truth(message: Any) -> np.ndarray:
    decoded = cv2.imdecode(np.asarray(message.data), cv2.IMREAD_UNCHANGED)
    if decoded is None or decoded.dtype != np.uint16 or decoded.ndim != 2:
        raise StereoError('a ground truth image is not a 16-bit grey PNG')
    values = decoded.astype(np.float32)
    values[values == 0] = np.nan
    return values / np.float32(TRUTH_SCALE)


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
