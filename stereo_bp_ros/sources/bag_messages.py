"""Messages of a stereo camera as bytes of ROS 1 and 2, and bags that are written of them."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import re
import struct
from collections.abc import Iterable, Iterator
from typing import Any

import cv2
import numpy as np
from rosbags.interfaces import MessageDefinition, MessageDefinitionFormat
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.cameras.rectification import RawCamera, Rectification
from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.images import files
from stereo_bp_ros.sources.bag_topics import (
    CAMERA_INFO,
    COMPRESSED_IMAGE,
    IMAGE,
    TRANSFORM_TYPES,
    TRUTH_TOPIC,
)
from stereo_bp_ros.system import atomic_files

CLOCK = 'rosgraph_msgs/msg/Clock'

FRAME_IDS = {'left': 'left_camera_optical_frame', 'right': 'right_camera_optical_frame'}

#: Bytes of a serialised message up to the end of its stamp, in ROS 1 or 2, at least.
MIN_BYTES = 12

STORE = get_typestore(Stores.ROS2_KILTED)

#: Messages of ROS 1, which have no transforms in rosbags.
ROS1_STORE = get_typestore(Stores.ROS1_NOETIC)
for _name in TRANSFORM_TYPES:
    ROS1_STORE.register(get_types_from_msg('geometry_msgs/TransformStamped[] transforms', _name))


def message_type(name: str) -> Any:
    """The class of a message of ROS 2, e.g. ``sensor_msgs/msg/Image``."""
    return STORE.types[name]


def stamp_of(data: bytes | memoryview) -> int:
    """Header stamp in ns of CDR bytes that begin with a ``std_msgs/Header``."""
    seconds, nanoseconds = struct.unpack_from('<iI' if data[1] & 1 else '>iI', data, 4)
    return int(seconds * 10**9 + nanoseconds)


def with_stamp(data: bytes | memoryview, stamp_ns: int) -> bytes:
    """The same CDR bytes with another header stamp.

    :raises StereoError: the stamp does not fit a message.
    """
    try:
        stamp = struct.pack('<iI' if data[1] & 1 else '>iI', *divmod(stamp_ns, 10**9))
    except struct.error as error:
        raise StereoError(f'a stamp of {stamp_ns // 10**9} s does not fit a message: is the '
                          'source damaged?') from error
    return b''.join((data[:4], stamp, data[12:]))


def serialize_image(stamp_ns: int, side: str, pixels: np.ndarray, encoding: str,
                    frame_id: str = '') -> memoryview:
    """CDR bytes of a ``sensor_msgs/Image``; ``pixels`` is H x W or H x W x C."""
    pixels = np.ascontiguousarray(pixels, pixels.dtype.newbyteorder('<'))
    message = message_type(IMAGE)(
        header=header(stamp_ns, frame_id or FRAME_IDS[side]),
        height=pixels.shape[0], width=pixels.shape[1],
        encoding=encoding, is_bigendian=0, step=pixels.strides[0],
        data=pixels.reshape(-1).view(np.uint8))
    return STORE.serialize_cdr(message, IMAGE)


def serialize_camera_info(stamp_ns: int, side: str, cameras: Calibration | Rectification,
                          width: int, height: int) -> memoryview:
    """CDR bytes of the ``sensor_msgs/CameraInfo`` of one side of a rectified or raw pair."""
    if isinstance(cameras, Rectification):
        camera = cameras.camera(side)
    else:
        cx = cameras.cx_left if side == 'left' else cameras.cx_right
        focal, cy = cameras.focal_px, cameras.cy
        offset = 0.0 if side == 'left' else -focal * cameras.baseline_m
        camera = RawCamera('plumb_bob', (0,) * 5, (focal, 0, cx, 0, focal, cy, 0, 0, 1),
                           (0,) * 9, (focal, 0, cx, offset, 0, focal, cy, 0, 0, 0, 1, 0))
    roi = message_type('sensor_msgs/msg/RegionOfInterest')(
        x_offset=0, y_offset=0, height=0, width=0, do_rectify=False)
    message = message_type(CAMERA_INFO)(
        header=header(stamp_ns, FRAME_IDS[side]), height=height, width=width,
        distortion_model=camera.model,
        **{name: np.array(getattr(camera, name), float) for name in 'dkrp'},
        binning_x=0, binning_y=0, roi=roi)
    return STORE.serialize_cdr(message, CAMERA_INFO)


def serialize_truth(stamp_ns: int, disparity: np.ndarray) -> memoryview:
    """CDR bytes of a ground truth: float32 H x W in pixels, NaN = unknown (``TRUTH_TOPIC``)."""
    # 0 means unknown, so a surface at infinity becomes the smallest disparity there is.
    values = np.clip(np.nan_to_num(disparity * files.KITTI_SCALE + 0.5, nan=0.0), 0, 65535)
    values = np.where(np.isnan(disparity), 0, np.maximum(values, 1)).astype(np.uint16)
    _, png = cv2.imencode('.png', values, [cv2.IMWRITE_PNG_COMPRESSION, 1])
    message = message_type(COMPRESSED_IMAGE)(
        header=header(stamp_ns, FRAME_IDS['left']), format='16UC1; png', data=png.reshape(-1))
    return STORE.serialize_cdr(message, COMPRESSED_IMAGE)


def serialize_clock(time_ns: int) -> memoryview:
    """CDR bytes of a ``rosgraph_msgs/Clock``."""
    return STORE.serialize_cdr(message_type(CLOCK)(clock=_time(time_ns)), CLOCK)


def find_other_definition(kind: str, definition: MessageDefinition, usual: Typestore) -> str:
    """The message, within those of a type, that a bag defines otherwise than ROS; '' = none.

    Converters to ROS 1 leave the small letters of ROS 2's fields, such as ``d`` of CameraInfo.
    Definitions in IDL are not compared.

    :raises Exception: whatever the parser of rosbags raises for what is no definition.
    """
    found = get_types_from_msg(definition.data, kind) if definition.data and (
        definition.format == MessageDefinitionFormat.MSG) else {}
    definitions = {name: fields for name, (_, fields) in found.items()}

    def find(name: str) -> str:
        _, fields = usual.fielddefs[name]
        small = [(field.lower(), form) for field, form in fields]
        if definitions.get(name, fields) not in (fields, small):
            return name
        inner = re.findall(r"'(\w+/msg/\w+)'", str(fields))
        return next(filter(None, map(find, inner)), '')
    return find(kind)


def from_ros1(message: Any, kind: str) -> Any:
    """The same message in ROS 2: no header.seq, and CameraInfo's D, K, R and P are small."""
    values = {}
    for field in dataclasses.fields(message_type(kind)):
        value = getattr(message, field.name, None)
        if value is None:
            value = getattr(message, field.name.upper())
        inner = getattr(value, '__msgtype__', '')
        values[field.name] = from_ros1(value, inner) if inner else value
    return message_type(kind)(**values)


@contextlib.contextmanager
def opened_bag(path: pathlib.Path) -> Iterator[Writer]:
    """Write a new rosbag2 folder, which is there once the context ends well.

    :raises ValueError: it cannot be written.
    """
    with (atomic_files.folder(path) as folder,
          Writer(folder, version=9, storage_plugin=StoragePlugin.MCAP) as writer):
        yield writer


class StereoBagWriter:
    """Writes pairs with calibration and, where given, ground truth into a new rosbag2 folder.

    A context manager. Images are mono8; topics are the node's own relative names.

    :raises StereoError: the folder exists.
    :raises ValueError: the disk is full, say; there is no bag then.
    """

    def __init__(self, path: str | os.PathLike[str], calibration: Calibration) -> None:
        self._path = pathlib.Path(path)
        if self._path.exists():
            raise StereoError(f'{self._path} exists: bags are not overwritten')
        self._calibration = calibration
        self._opened = contextlib.ExitStack()

    def __enter__(self) -> StereoBagWriter:
        self._writer = self._opened.enter_context(opened_bag(self._path))
        self._connections = {
            topic: self._writer.add_connection(f'/{topic}', kind, typestore=STORE)
            for topic, kind in (
                ('left/image_rect', IMAGE), ('left/camera_info', CAMERA_INFO),
                ('right/image_rect', IMAGE), ('right/camera_info', CAMERA_INFO),
                (TRUTH_TOPIC, COMPRESSED_IMAGE))}
        return self

    def __exit__(self, *raised: Any) -> None:
        self._opened.__exit__(*raised)

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


def _time(time_ns: int) -> Any:
    seconds, nanoseconds = divmod(time_ns, 10**9)
    return message_type('builtin_interfaces/msg/Time')(sec=seconds, nanosec=nanoseconds)


def header(stamp_ns: int, frame_id: str) -> Any:
    """A ``std_msgs/Header``."""
    return message_type('std_msgs/msg/Header')(stamp=_time(stamp_ns), frame_id=frame_id)


def write_bag(path: str | os.PathLike[str], calibration: Calibration,
              frames: Iterable[tuple[int, np.ndarray, np.ndarray, np.ndarray | None]]) -> int:
    """Write (stamp in ns, left, right, truth) into a new bag; returns the number of pairs."""
    count = 0
    with StereoBagWriter(path, calibration) as writer:
        for count, frame in enumerate(frames, 1):       # noqa: B007
            writer.write(*frame)
    return count
