"""Recordings of a stereo camera, a LiDAR and its transforms, in every kind of bag."""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import shutil
from collections.abc import Callable, Collection, Iterable
from typing import Any

import cv2
import numpy as np
from rosbags import rosbag1
from rosbags.highlevel import AnyReader
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from stereo_bp_ros import Calibration
from stereo_bp_ros.sources import bags

STORE = get_typestore(Stores.ROS2_KILTED)
ROS1 = get_typestore(Stores.ROS1_NOETIC)
TF = 'tf2_msgs/msg/TFMessage'
ROS1.register(get_types_from_msg('geometry_msgs/TransformStamped[] transforms', TF))
CLOUD, DISPARITY = 'sensor_msgs/msg/PointCloud2', 'stereo_msgs/msg/DisparityImage'
KINDS = ('mcap', 'sqlite3', 'ros1')

#: Topic, time of recording in ns, and a message of ROS 2.
Recorded = tuple[str, int, Any]


def write(path: pathlib.Path, recorded: Iterable[Recorded], kind: str = 'mcap',
          compression: str = '', chunk_bytes: int = 2**20) -> pathlib.Path:
    """A bag of these messages in the order of their times; returns its path.

    :param compression: FILE, MESSAGE or STORAGE with zstd; BZ2 or LZ4 of ROS 1.
    :param chunk_bytes: of ROS 1.
    """
    recorded = sorted(recorded, key=lambda one: one[1])
    if kind == 'ros1':
        path = path.with_suffix('.bag')
        writer, store = rosbag1.Writer(path), ROS1
        writer.chunk_threshold = chunk_bytes
        if compression:
            writer.set_compression(rosbag1.Writer.CompressionFormat[compression])
    else:
        writer = Writer(path, version=9, storage_plugin=StoragePlugin[kind.upper()])
        store = STORE
        if compression:
            writer.set_compression(CompressionMode[compression], CompressionFormat.ZSTD)
    connections: dict[str, Any] = {}
    with writer:
        for topic, time_ns, message in recorded:
            name = message.__msgtype__
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, name, typestore=store)
            data = (store.serialize_ros1(_of_ros1(message), name) if kind == 'ros1'
                    else store.serialize_cdr(message, name))
            writer.write(connections[topic], time_ns, data)
    return path


def rewritten(source: pathlib.Path, target: pathlib.Path, topic: str, places: Collection[int],
              change: Callable[[bytes], bytes]) -> None:
    """A copy of a bag with other bytes in the messages of this topic and these numbers, from 0."""
    shutil.rmtree(target, ignore_errors=True)
    numbers = itertools.count()
    with AnyReader([source]) as reader, Writer(target, version=9) as writer:
        connections = {one.id: writer.add_connection(one.topic, one.msgtype, typestore=STORE)
                       for one in reader.connections}
        for connection, time_ns, data in reader.messages():
            if connection.topic == topic and next(numbers) in places:
                data = change(data)
            writer.write(connections[connection.id], time_ns, data)


def _of_ros1(message: Any) -> Any:
    """The same message in ROS 1: with header.seq, and with capitals where it has them."""
    kind = ROS1.types[message.__msgtype__]
    values = {}
    for field in dataclasses.fields(kind):
        if field.name in ('seq', '__msgtype__'):
            continue
        value = getattr(message, field.name, None)
        value = getattr(message, field.name.lower()) if value is None else value
        if isinstance(value, list) and value and hasattr(value[0], '__msgtype__'):
            value = [_of_ros1(one) for one in value]
        values[field.name] = _of_ros1(value) if hasattr(value, '__msgtype__') else value
    return kind(**({'seq': 7} if message.__msgtype__ == 'std_msgs/msg/Header' else {}), **values)


def header(stamp_ns: int, frame: str) -> Any:
    return STORE.types['std_msgs/msg/Header'](
        stamp=STORE.types['builtin_interfaces/msg/Time'](*divmod(stamp_ns, 10**9)),
        frame_id=frame)


def pair(stamp_ns: int, left: np.ndarray, right: np.ndarray, calibration: Calibration,
         frame: str = 'left_camera_optical_frame', *, coded: str = '') -> list[Recorded]:
    """Both images, mono8, and their camera_info.

    :param coded: png or jpg of image_transport; '' = raw.
    """
    found: list[Recorded] = []
    for side, pixels in (('left', left), ('right', right)):
        info = STORE.deserialize_cdr(bags.serialize_camera_info(
            stamp_ns, side, calibration, pixels.shape[1], pixels.shape[0]), bags.CAMERA_INFO)
        info.header.frame_id = frame
        topic, one = f'/{side}/image_rect', image(stamp_ns, pixels, 'mono8')
        if coded:
            topic, one = f'{topic}/compressed', compressed(
                stamp_ns, cv2.imencode(f'.{coded}', pixels)[1], f'mono8; {coded} compressed ')
        found += [(f'/{side}/camera_info', stamp_ns, info), (topic, stamp_ns, one)]
    return found


def truth(stamp_ns: int, disparity: np.ndarray) -> Recorded:
    return f'/{bags.TRUTH_TOPIC}', stamp_ns, STORE.deserialize_cdr(
        bags.serialize_truth(stamp_ns, disparity), bags.COMPRESSED_IMAGE)


def image(stamp_ns: int, pixels: np.ndarray, encoding: str) -> Any:
    return STORE.deserialize_cdr(bags.serialize_image(stamp_ns, 'left', pixels, encoding),
                                 bags.IMAGE)


def disparity_image(stamp_ns: int, disparity: np.ndarray) -> Any:
    height, width = disparity.shape
    return STORE.types[DISPARITY](
        header=header(stamp_ns, 'left'), image=image(stamp_ns, disparity, '32FC1'), f=100.0,
        t=0.5, valid_window=STORE.types['sensor_msgs/msg/RegionOfInterest'](
            0, 0, height, width, False),
        min_disparity=0.0, max_disparity=63.0, delta_d=0.0625)


def compressed(stamp_ns: int, data: bytes, format_: str) -> Any:
    return STORE.types[bags.COMPRESSED_IMAGE](
        header=header(stamp_ns, 'left'), format=format_, data=np.frombuffer(data, np.uint8))


def cloud(stamp_ns: int, points: np.ndarray, frame: str = 'lidar', *, kind: str = '<f4',
          pad: int = 0, height: int = 1) -> Any:
    """A PointCloud2 of N x 3 points with an intensity in front, and bytes behind each row."""
    dtype = np.dtype({'names': ['intensity', *'xyz'], 'formats': ['<f4', *3 * [kind]],
                      'offsets': [0, *(4 + k * np.dtype(kind).itemsize for k in range(3))]})
    records = np.zeros(len(points), dtype)
    for name, values in zip('xyz', np.asarray(points).T, strict=True):
        records[name] = values
    width = len(points) // height
    rows = np.full((height, width * dtype.itemsize + pad), 0xAA, np.uint8)
    rows[:, :width * dtype.itemsize] = records.view(np.uint8).reshape(height, -1)
    field = STORE.types['sensor_msgs/msg/PointField']
    number = 8 if kind.endswith('8') else 7
    return STORE.types[CLOUD](
        header=header(stamp_ns, frame), height=height, width=width,
        fields=[field('intensity', 0, 7, 1), *(
            field(name, dtype.fields[name][1], number, 1) for name in 'xyz')],
        is_bigendian=kind.startswith('>'), point_step=dtype.itemsize, row_step=rows.shape[1],
        data=rows.reshape(-1), is_dense=True)


def transforms(stamp_ns: int, *links: tuple[str, str, Iterable[float], Iterable[float]]
               ) -> Any:
    """A TFMessage of parent, child, translation and quaternion x, y, z, w of each link."""
    vector, quaternion, transform, stamped = (
        STORE.types[f'geometry_msgs/msg/{name}']
        for name in ('Vector3', 'Quaternion', 'Transform', 'TransformStamped'))
    return STORE.types[TF](transforms=[
        stamped(header=header(stamp_ns, parent), child_frame_id=child, transform=transform(
            vector(*map(float, moved)), quaternion(*map(float, turned))))
        for parent, child, moved, turned in links])
