"""The truth of a bag: a disparity, a depth or a LiDAR's cloud for each pair, by its stamp.

Where a cloud lies to the camera is interpolated from /tf and /tf_static of the bag.
"""

from __future__ import annotations

import array
import dataclasses
import functools
import itertools
import pathlib
import struct
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.checks.truth_checks import TruthScale
from stereo_bp_ros.errors import StereoError, shown
from stereo_bp_ros.images import files
from stereo_bp_ros.images.stamps import header_stamp
from stereo_bp_ros.sources import cloud_truth
from stereo_bp_ros.sources.bag_reader import Reader
from stereo_bp_ros.sources.bag_topics import (
    DISPARITY_IMAGE,
    POINT_CLOUD,
    TRANSFORM_TYPES,
    StereoTopics,
)

#: Pairs that ``warnings`` compares with the truths.
CHECKED = 100

#: Bytes in front of the PNG of the transport compressedDepth: format, factor and offset.
_DEPTH_HEADER = 12

_ENCODINGS = {'32FC1': 'f4', '16UC1': 'u2', 'mono16': 'u2'}

#: Values that mark pixels without a truth.
MAX_MARKS = 8

#: Frames that an error names.
MAX_NAMED = 40

#: Length of a quaternion below which it is no rotation.
MIN_QUATERNION = 1e-6


@dataclasses.dataclass(frozen=True)
class TruthEntry:
    """Where the truth of a pair lies in its bag.

    stamp_ns, time_ns: of its header and its recording.
    pose:              of a cloud: 4 x 4, row by row, its points to the left camera in metres.
    """

    stamp_ns: int
    time_ns: int
    pose: tuple[float, ...] = ()


class BagTruth:
    """The truths of one topic of a bag; to be closed.

    Of the messages only stamps and times are kept, 16 bytes each. The bag is opened once more,
    as not every storage can be read at two places in turn.
    """

    def __init__(self, path: pathlib.Path, topics: StereoTopics) -> None:
        self._path, self._topic, self._of_camera = path, topics.truth, (
            topics.left_info or topics.left_image)
        self._given = topics.truth_scale
        #: By which the last truth was read.
        self.scale = TruthScale()
        self._tolerance_ns = round(topics.truth_tolerance_s * 1e9)
        self._reader = Reader(path)
        self._connections = self._reader.of_topics(self._topic)
        self._kind = self._connections[0].msgtype
        self._messages: Iterator[tuple[Any, int, bytes]] = iter(())
        self._last: tuple[TruthEntry | None, Any] = None, None

    @property
    def is_cloud(self) -> bool:
        """Whether the truths are points of a LiDAR."""
        return bool(self._kind == POINT_CLOUD)

    def close(self) -> None:
        """Close the bag."""
        self._reader.close()

    def find(self, stamp_ns: int, time_ns: int) -> TruthEntry | None:
        """The truth of the nearest stamp; of several with it, the one recorded nearest to a time.

        None: none lies within the tolerance, or TF does not cover the stamps of a cloud.

        :raises StereoError: TF does not connect a cloud with the camera at all.
        """
        stamps, times = self._index
        first = int(np.searchsorted(stamps, stamp_ns - self._tolerance_ns))
        behind = int(np.searchsorted(stamps, stamp_ns + self._tolerance_ns, 'right'))
        places = range(first, behind)
        if not places:
            return None
        place = min(places, key=lambda one: (abs(int(stamps[one]) - stamp_ns),
                                             abs(int(times[one]) - time_ns)))
        found = TruthEntry(int(stamps[place]), int(times[place]))
        if not self.is_cloud:
            return found
        transforms = self._transforms
        pose = transforms.between(found.stamp_ns, stamp_ns) if transforms else np.eye(4)
        return None if pose is None else dataclasses.replace(found, pose=tuple(pose.flat))

    def read(self, entry: TruthEntry, calibration: Calibration | None, shape: tuple[int, int]
             ) -> np.ndarray:
        """Disparity of the left image, float32 H x W in pixels, NaN = unknown.

        :param shape: of the left image, which the truth must have unless it is a cloud.
        :raises ValueError: it cannot be read, or has another size, or needs a calibration.
        :raises StereoError: the bag has changed or is damaged.
        """
        try:
            message = self._message(entry)
            if self.is_cloud:
                pose = np.reshape(entry.pose, (4, 4))
                self.scale = TruthScale(self._given or 1.0, is_depth=True)
                points = cloud_truth.transform(
                    cloud_truth.points_of(message) / self.scale.numbers, pose)
                return cloud_truth.disparity_of(points, _needed(calibration), shape)
            found = self._disparity(message, calibration)
            if found.shape != shape:
                raise ValueError(f'it is {found.shape[1]} x {found.shape[0]}, but the left image '
                                 f'{shape[1]} x {shape[0]}')
            return found
        except ValueError as error:
            raise ValueError(f'the truth in {self._topic}: {error}') from error

    def warnings(self, stamps: Iterable[int], must_fit: bool) -> list[str]:
        """A sentence about the first ``CHECKED`` pairs of which some have no truth.

        :param stamps: of the left images, of which more are looked at until one has a truth.
        :param must_fit: whether it is an error that none has.
        """
        stamps = iter(stamps)
        checked, lacking, problem = 0, 0, ''
        for stamp_ns in itertools.islice(stamps, CHECKED):
            checked += 1
            if self.find(stamp_ns, stamp_ns) is None:
                lacking += 1
                problem = problem or self._why_not(stamp_ns)
        if not lacking:
            return []
        if lacking < checked or any(self.find(one, one) for one in stamps):
            return [f'{lacking} of the first {checked} left images have no truth. {problem}']
        if must_fit:
            raise StereoError(f'no left image has a truth in {self._topic}. {problem}')
        return [f'no left image has a truth in {self._topic}. {problem}']

    def _why_not(self, stamp_ns: int) -> str:
        stamps, _ = self._index
        nearest = int(stamps[np.argmin(np.abs(stamps - stamp_ns))])
        away = abs(nearest - stamp_ns)
        if away > self._tolerance_ns:
            return (f'The stamp of {self._topic} nearest to {stamp_ns / 1e9:.3f} s is '
                    f'{nearest / 1e9:.3f} s, {away / 1e9:.3g} s away, and --truth-tolerance is '
                    f'{self._tolerance_ns / 1e9:g} s')
        return (f'/tf does not cover the stamps {nearest / 1e9:.3f} s of {self._topic} and '
                f'{stamp_ns / 1e9:.3f} s of the pair')

    @functools.cached_property
    def _index(self) -> tuple[np.ndarray, np.ndarray]:
        """Stamps, sorted, and times of recording of all messages, int64, nanoseconds."""
        stamps, times = array.array('q'), array.array('q')
        for _, time_ns, data in self._reader.messages(self._connections):
            stamps.append(self._reader.stamp(data))
            times.append(time_ns)
        order = np.argsort(np.asarray(stamps), kind='stable')
        return np.asarray(stamps)[order], np.asarray(times)[order]

    @functools.cached_property
    def _transforms(self) -> Transforms | None:
        """From the frame of the cloud to that of the left camera; None: they are one."""
        cloud, camera = self._frame(self._topic), self._frame(self._of_camera)
        try:
            return Transforms(self._reader, cloud, camera) if cloud != camera else None
        except StereoError as error:
            raise StereoError(f'{self._topic} cannot be seen from the left camera: {error}'
                              ) from error

    def _frame(self, topic: str) -> str:
        """The frame of the first message of a topic.

        :raises StereoError: there is none, or it is empty.
        """
        for connection, _, data in self._reader.messages(self._reader.of_topics(topic)):
            header = self._reader.decode(connection.msgtype, data).header
            if header.frame_id.removeprefix('/'):
                return str(header.frame_id.removeprefix('/'))
            break
        raise StereoError(f'{topic} has no message with a frame_id, without which {self._topic} '
                          'cannot be seen from the left camera')

    def _message(self, entry: TruthEntry) -> Any:
        """The message of an entry: quickest in their order, and kept for the next pair."""
        if self._last[0] and self._last[0].time_ns == entry.time_ns and (
                self._last[0].stamp_ns == entry.stamp_ns):
            return self._last[1]
        for _ in range(2):
            for _, time_ns, data in self._messages:
                if time_ns == entry.time_ns and self._reader.stamp(data) == entry.stamp_ns:
                    self._last = entry, self._reader.decode(self._kind, data)
                    return self._last[1]
                if time_ns > entry.time_ns:
                    break
            self._messages = self._reader.messages(self._connections, start=entry.time_ns)
        raise StereoError(f'{self._path} has changed: the truth of stamp {entry.stamp_ns} ns is '
                          'no longer where it was')

    def _disparity(self, message: Any, calibration: Calibration | None) -> np.ndarray:
        """Disparity of an image between the images as they are, whatever the message has."""
        if self._kind == DISPARITY_IMAGE:
            self.scale = TruthScale(self._given or 1.0)
            values = np.asarray(_pixels(message.image), np.float32)
            known = _known(values, values >= np.float32(message.min_disparity))
            # stereo_msgs has disparities of the principal points: Z = f T / d.
            shift = calibration.shift if calibration else 0.0
            return np.where(known, values / np.float32(self.scale.numbers) + np.float32(shift),
                            np.float32(np.nan))
        values = _pixels(message)
        is_depth = 'disparity' not in self._topic.lower()
        numbers = 1.0 if values.dtype != np.uint16 else 1000.0 if is_depth else files.KITTI_SCALE
        self.scale = TruthScale(self._given or numbers, is_depth)
        known = _known(values, values > 0)
        found = np.where(known, values, 1) / self.scale.numbers
        if is_depth:
            about = _needed(calibration)
            found = about.focal_px * about.baseline_m / found + about.shift
        with np.errstate(over='ignore'):        # what float32 does not hold is unknown
            return np.where(known, found, np.nan).astype(np.float32)


def _known(values: np.ndarray, are_valid: np.ndarray) -> np.ndarray:
    """Where a truth is known: where its values are valid, or of the other sign.

    Pixels without a truth have one value, or a few. Where most of the others have many, below what
    is valid, they are no gaps: with the valid ones alone, a perfect score would come from the sky.
    """
    finite = np.isfinite(values)
    known = finite & are_valid
    others = values[finite & ~known & (values != 0)]
    if 2 * others.size > np.count_nonzero(finite) and np.unique(others).size > MAX_MARKS:
        return np.asarray(finite)
    return np.asarray(known)


def _needed(calibration: Calibration | None) -> Calibration:
    if calibration is None:
        raise ValueError('metres become disparities with a calibration only, which both '
                         'camera_info have')
    return calibration


def _pixels(message: Any) -> np.ndarray:
    """float32 or uint16 H x W of an Image, or of a CompressedImage of any transport.

    :raises ValueError: of another type, or damaged.
    """
    if hasattr(message, 'format'):
        return _decompressed(message)
    name = _ENCODINGS.get(message.encoding)
    if name is None:
        raise ValueError(f'its encoding is {shown(message.encoding)}, but must be one of '
                         + ', '.join(_ENCODINGS))
    kind = np.dtype(('>' if message.is_bigendian else '<') + name)
    height, width, step = int(message.height), int(message.width), int(message.step)
    data = np.ascontiguousarray(message.data, np.uint8).reshape(-1)
    if step < width * kind.itemsize or data.size < step * height:
        raise ValueError(f'an image of {width} x {height} pixels has {data.size} bytes and a step '
                         f'of {step}: these do not fit')
    rows = data[:step * height].reshape(height, step)[:, :width * kind.itemsize]
    return np.ascontiguousarray(rows).view(kind).astype(kind.newbyteorder('='))


def _decompressed(message: Any) -> np.ndarray:
    data, what = message.data, f'an image of format {shown(message.format)}'
    is_depth = 'compressedDepth' in message.format
    values = files.decode(data[_DEPTH_HEADER:] if is_depth else data, what)
    if values.ndim != 2 or values.dtype not in (np.uint16, np.float32):
        raise ValueError(f'{what} has not one channel of 16-bit or float32 values')
    if is_depth and message.format.startswith('32FC1'):
        # compressed_depth_image_transport: factor / (value - offset) metres, 0 = unknown.
        factor, offset = struct.unpack('<ff', bytes(data[4:_DEPTH_HEADER]))
        known = (values > 0) & (values > offset)
        return np.where(known, factor / np.where(known, values - offset, 1.0),
                        0).astype(np.float32)
    return values


class Transforms:
    """Transforms from one frame of a bag into another, at any time that the bag covers.

    Of moving frames only those between the two, and above them, are kept: 64 bytes a message.

    :param source, target: names of the frames, without the first slash of ROS 1.
    :raises StereoError: no chain of transforms connects the frames, or one is not a transform.
    """

    def __init__(self, reader: Reader, source: str, target: str) -> None:
        self._parents: dict[str, str] = {}
        self._fixed: dict[str, tuple[float, ...]] = {}
        for is_static, child, parent, transform in _transforms(reader):
            self._parents[child] = parent
            if is_static:
                self._fixed[child] = _numbers(transform)
        self._source, self._target = self._ancestors(source), self._ancestors(target)
        #: Frames above both, the lowest first.
        self._shared = [one for one in self._source if one in self._target]
        if not self._shared:
            frames = sorted({*self._parents, *self._parents.values()})
            more = f' and {len(frames) - MAX_NAMED} more' if len(frames) > MAX_NAMED else ''
            raise StereoError(
                f'no chain of transforms leads from the frame {shown(source)} to '
                f'{shown(target)}: /tf and /tf_static of the bag have '
                + (f'the frames {", ".join(frames[:MAX_NAMED])}{more}' if frames
                   else 'no transforms'))
        self._moving = self._read_moving(reader)

    def _ancestors(self, frame: str) -> list[str]:
        """The frame itself, its parent, and so on up to the root."""
        found = [frame]
        while (parent := self._parents.get(found[-1])) is not None and parent not in found:
            found.append(parent)
        return found

    def _read_moving(self, reader: Reader) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Stamps, int64 N, sorted, and x, y, z and quaternion, N x 7, of each moving frame."""
        wanted = {*self._source, *self._target} & self._parents.keys() - self._fixed.keys()
        if not wanted:
            return {}
        samples = {child: (array.array('q'), array.array('d')) for child in wanted}
        for _, child, parent, transform in _transforms(reader):
            if child in wanted and parent == self._parents[child]:
                samples[child][0].append(header_stamp(transform))
                samples[child][1].extend(_numbers(transform))
        found = {}
        for child, (stamps, numbers) in samples.items():
            order = np.argsort(np.asarray(stamps), kind='stable')
            found[child] = (np.asarray(stamps)[order], np.asarray(numbers).reshape(-1, 7)[order])
        return found

    def between(self, source_ns: int, target_ns: int) -> np.ndarray | None:
        """Points of the source at one time in the target at another: 4 x 4; None = not covered.

        Both are related by the highest frame above both whose way the bag knows at both times:
        a map or an odometry frame takes the motion in between into account.
        """
        shared = self._shared if source_ns != target_ns else self._shared[:1]
        for top in reversed(shared):
            source = self._rise(self._source, top, source_ns)
            target = self._rise(self._target, top, target_ns)
            if source is not None and target is not None:
                return np.asarray(np.linalg.inv(target) @ source)
        return None

    def _rise(self, frames: list[str], top: str, stamp_ns: int) -> np.ndarray | None:
        """From the first of the frames up to another one; None where the bag does not cover it."""
        found = np.eye(4)
        for child in frames[:frames.index(top)]:
            pose = self._pose(child, stamp_ns)
            if pose is None:
                return None
            found = pose @ found
        return found

    def _pose(self, child: str, stamp_ns: int) -> np.ndarray | None:
        """A frame in its parent at a time; None where the bag does not cover it."""
        if child in self._fixed:
            return _interpolated(child, np.array([self._fixed[child]] * 2), 0.0)
        stamps, numbers = self._moving[child]
        after = int(np.searchsorted(stamps, stamp_ns))
        if after == len(stamps) or (after == 0 and stamps[0] != stamp_ns):
            return None
        before = max(0, after - 1)
        share = float(stamp_ns - stamps[before]) / max(1.0, float(stamps[after] - stamps[before]))
        return _interpolated(child, numbers[[before, after]], share)


def _transforms(reader: Reader) -> Iterator[tuple[bool, str, str, Any]]:
    """Whether it is static, child, parent and TransformStamped of every transform of the bag."""
    topics = [one for one in reader.connections if one.msgtype in TRANSFORM_TYPES]
    if not topics:
        return
    for connection, _, data in reader.messages(topics):
        is_static = connection.topic.rpartition('/')[2] == 'tf_static'
        # The types of ROS 1 and 2 have the same fields below their headers.
        for transform in reader.deserialize(data, connection.msgtype).transforms:
            child, parent = (name.removeprefix('/') for name in (
                transform.child_frame_id, transform.header.frame_id))
            if child != parent:
                yield is_static, child, parent, transform


def _numbers(stamped: Any) -> tuple[float, ...]:
    moved, turned = stamped.transform.translation, stamped.transform.rotation
    return moved.x, moved.y, moved.z, turned.x, turned.y, turned.z, turned.w


def _interpolated(child: str, ends: np.ndarray, share: float) -> np.ndarray:
    """4 x 4 between two transforms: translations linearly, rotations along the shortest arc.

    :param ends: 2 x 7: x, y, z in metres and a quaternion x, y, z, w of any length above 0.
    :raises StereoError: one of them is not finite, or has no rotation.
    """
    try:
        from scipy.spatial.transform import Rotation, Slerp
    except ImportError as error:
        raise StereoError("transforms of a bag need SciPy: pip install scipy, or the extra "
                          "'evaluation' of this package") from error
    for numbers in ends:
        if not np.isfinite(numbers).all() or np.linalg.norm(numbers[3:]) < MIN_QUATERNION:
            raise StereoError(f'the transform of the frame {shown(child)} is none: translation '
                              f'and quaternion are {[float(number) for number in numbers]}')
    pose = np.eye(4)
    pose[:3, :3] = Slerp((0, 1), Rotation.from_quat(ends[:, 3:]))(share).as_matrix()
    pose[:3, 3] = ends[0, :3] + share * (ends[1, :3] - ends[0, :3])
    return pose
