"""Where two frames of a bag are to each other: its /tf and /tf_static, interpolated."""

from __future__ import annotations

import array
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation, Slerp

from stereo_bp_ros.errors import StereoError, shown
from stereo_bp_ros.evaluation.bag_reader import Reader
from stereo_bp_ros.evaluation.bag_topics import TRANSFORM_TYPES

#: Frames that an error names.
MAX_NAMED = 40

#: Length of a quaternion below which it is no rotation.
MIN_QUATERNION = 1e-6


class Transforms:
    """Transforms from one frame of a bag into another, at any time that the bag covers.

    Of moving frames only those between the two, and above them, are kept: 64 bytes a message.

    :param source, target: names of the frames, without the first slash of ROS 1.
    :raises StereoError: no chain of transforms connects the frames, or one is not a transform.
    """

    def __init__(self, reader: Reader, source: str, target: str) -> None:
        self._parents: dict[str, str] = {}
        self._fixed: dict[str, np.ndarray] = {}
        for is_static, child, parent, transform in _transforms(reader):
            self._parents[child] = parent
            if is_static:
                numbers = np.array(_numbers(transform))
                self._fixed[child] = _interpolated(child, numbers, numbers, 0.0)
        self._source = self._ancestors(source)
        self._target = self._ancestors(target)
        self._meeting = next((one for one in self._source if one in self._target), None)
        if self._meeting is None:
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
                stamp = transform.header.stamp
                samples[child][0].append(stamp.sec * 10**9 + stamp.nanosec)
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
        assert self._meeting is not None
        source = self._rise(self._source, source_ns)
        target = self._rise(self._target, target_ns)
        if source is None or target is None:
            return None
        above = self._ancestors(self._meeting)[:-1] if source_ns != target_ns else []
        for child in above:
            one, other = self._pose(child, source_ns), self._pose(child, target_ns)
            if one is None or other is None:
                break
            source, target = one @ source, other @ target
        return np.asarray(np.linalg.inv(target) @ source)

    def _rise(self, frames: list[str], stamp_ns: int) -> np.ndarray | None:
        """From the first of the frames to the one where both chains meet."""
        found = np.eye(4)
        for child in frames:
            if child == self._meeting:
                return found
            pose = self._pose(child, stamp_ns)
            if pose is None:
                return None
            found = pose @ found
        return found

    def _pose(self, child: str, stamp_ns: int) -> np.ndarray | None:
        """A frame in its parent at a time; None where the bag does not cover it."""
        if child in self._fixed:
            return self._fixed[child]
        stamps, numbers = self._moving[child]
        after = int(np.searchsorted(stamps, stamp_ns))
        if after == len(stamps) or (after == 0 and stamps[0] != stamp_ns):
            return None
        before = max(0, after - 1)
        share = float(stamp_ns - stamps[before]) / max(1.0, float(stamps[after] - stamps[before]))
        return _interpolated(child, numbers[before], numbers[after], share)


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


def _interpolated(child: str, one: np.ndarray, other: np.ndarray, share: float) -> np.ndarray:
    """4 x 4 between two transforms: translations linearly, rotations along the shortest arc.

    :param one, other: x, y, z in metres and a quaternion x, y, z, w of any length above 0.
    :raises StereoError: one of them is not finite, or has no rotation.
    """
    for numbers in (one, other):
        if not np.isfinite(numbers).all() or np.linalg.norm(numbers[3:]) < MIN_QUATERNION:
            raise StereoError(f'the transform of the frame {shown(child)} is none: translation '
                              f'and quaternion are {[float(number) for number in numbers]}')
    pose = np.eye(4)
    pose[:3, :3] = Slerp((0, 1), Rotation.from_quat([one[3:], other[3:]]))(share).as_matrix()
    pose[:3, 3] = one[:3] + share * (other[:3] - one[:3])
    return pose
