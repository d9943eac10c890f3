"""Where two frames of a bag are to each other: its /tf and /tf_static, interpolated."""

from __future__ import annotations

import array
import math
from typing import Any

import numpy as np

from stereo_bp_ros.errors import StereoError, shown
from stereo_bp_ros.evaluation.bag_reader import Reader
from stereo_bp_ros.evaluation.bag_topics import TRANSFORM_TYPES

#: Frames that an error names.
MOST_NAMED = 40


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
                self._fixed[child] = _matrix(child, *_numbers(transform))
        self._source = self._ancestors(source)
        self._target = self._ancestors(target)
        self._meeting = next((one for one in self._source if one in self._target), None)
        if self._meeting is None:
            frames = sorted({*self._parents, *self._parents.values()})
            more = f' and {len(frames) - MOST_NAMED} more' if len(frames) > MOST_NAMED else ''
            raise StereoError(
                f'no chain of transforms leads from the frame {shown(source)} to '
                f'{shown(target)}: /tf and /tf_static of the bag have '
                + (f'the frames {", ".join(frames[:MOST_NAMED])}{more}' if frames
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
        """A frame in its parent at a time; None where the bag does not cover it.

        The translation is interpolated linearly, the rotation along the shortest arc.
        """
        if child in self._fixed:
            return self._fixed[child]
        stamps, numbers = self._moving[child]
        after = int(np.searchsorted(stamps, stamp_ns))
        if after == len(stamps) or (after == 0 and stamps[0] != stamp_ns):
            return None
        if stamps[after] == stamp_ns:
            return _matrix(child, *numbers[after])
        share = float(stamp_ns - stamps[after - 1]) / float(stamps[after] - stamps[after - 1])
        one, other = numbers[after - 1], numbers[after]
        return _matrix(child, *(one[:3] + share * (other[:3] - one[:3])),
                       *slerp(one[3:], other[3:], share))


def moved(points: np.ndarray, pose: np.ndarray) -> np.ndarray:
    """Points n x 3 by a pose 4 x 4; without linear algebra, whose threads split many points."""
    x, y, z = pose[:3, :3].T
    return np.asarray(points[:, :1] * x + points[:, 1:2] * y + points[:, 2:] * z + pose[:3, 3])


def slerp(one: np.ndarray, other: np.ndarray, share: float) -> np.ndarray:
    """The rotation a share of the shortest arc from one to another: quaternions of length 4.

    Spherical linear interpolation, Shoemake, "Animating rotation with quaternion curves" (1985).
    """
    one, other = one / np.linalg.norm(one), other / np.linalg.norm(other)
    cosine = float(one @ other)
    if cosine < 0:      # q and -q are one rotation
        other, cosine = -other, -cosine
    angle = math.acos(min(1.0, cosine))
    if angle < 1e-6:
        return one + share * (other - one)
    return (math.sin((1 - share) * angle) * one + math.sin(share * angle) * other) \
        / math.sin(angle)


def _transforms(reader: Reader) -> Any:
    """Whether it is static, child, parent and TransformStamped of every transform of the bag."""
    topics = [one for one in reader.connections if one.msgtype in TRANSFORM_TYPES]
    if not topics:
        return
    for connection, _, data in reader.messages(topics):
        is_static = connection.topic.rpartition('/')[2] == 'tf_static'
        # The types of ROS 1 and 2 have the same fields below their headers.
        for transform in reader.deserialize(data, connection.msgtype).transforms:
            child, parent = plain(transform.child_frame_id), plain(transform.header.frame_id)
            if child != parent:
                yield is_static, child, parent, transform


def plain(frame: str) -> str:
    """The name of a frame without the first slash that ROS 1 allowed."""
    return frame.removeprefix('/')


def _numbers(stamped: Any) -> tuple[float, ...]:
    moved, turned = stamped.transform.translation, stamped.transform.rotation
    return moved.x, moved.y, moved.z, turned.x, turned.y, turned.z, turned.w


def _matrix(child: str, *numbers: float) -> np.ndarray:
    """4 x 4 of x, y, z in metres and a quaternion x, y, z, w of any length above 0."""
    length = math.hypot(*numbers[3:])
    if not all(map(math.isfinite, numbers)) or length < 1e-6:
        raise StereoError(f'the transform of the frame {shown(child)} is none: translation and '
                          f'quaternion are {[float(number) for number in numbers]}')
    x, y, z, w = (number / length for number in numbers[3:])
    return np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w), numbers[0]],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w), numbers[1]],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y), numbers[2]],
        [0, 0, 0, 1]])
