"""Stereo pairs of bags, read without ROS, through the rosbags library."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.cameras.rectification import Rectification
from stereo_bp_ros.checks.byte_checks import check_bytes
from stereo_bp_ros.errors import StereoError, shown
from stereo_bp_ros.images import files
from stereo_bp_ros.images.raw_images import RawImage
from stereo_bp_ros.images.side_by_side import infos_of_halves, split
from stereo_bp_ros.images.stamps import SIDES, Image, NoPairError, PairFinder
from stereo_bp_ros.issues import Issue
from stereo_bp_ros.sources.bag_messages import (
    CLOCK,
    FRAME_IDS,
    MIN_BYTES,
    STORE,
    StereoBagWriter,
    serialize_camera_info,
    serialize_clock,
    serialize_image,
    serialize_truth,
    stamp_of,
    with_stamp,
    write_bag,
)
from stereo_bp_ros.sources.bag_reader import Reader
from stereo_bp_ros.sources.bag_rectification import (
    MEASURED_PAIRS,
    Decision,
    Rectifier,
    unused_rotation,
)
from stereo_bp_ros.sources.bag_topics import (
    CAMERA_INFO,
    COMPRESSED_IMAGE,
    IMAGE,
    TRUTH_TOPIC,
    StereoTopics,
    find_stereo_topics,
    is_rectified_name,
    name_of_first_part,
)
from stereo_bp_ros.sources.bag_truth import BagTruth, TruthEntry
from stereo_bp_ros.sources.datasets.entries import Pair, Unread
from stereo_bp_ros.sources.given_calibration import SENT_RAW, GivenCalibration

__all__ = ['CAMERA_INFO', 'CLOCK', 'COMPRESSED_IMAGE', 'FRAME_IDS', 'IMAGE', 'STORE',
           'TRUTH_TOPIC', 'StereoBag', 'StereoBagWriter', 'StereoTopics',
           'find_stereo_topics', 'serialize_camera_info', 'serialize_clock', 'serialize_image',
           'serialize_truth', 'stamp_of', 'with_stamp', 'write_bag']

#: Images at the beginning of a bag whose stamps are checked before it is read.
CHECKED_IMAGES = 200

#: Images without a partner that are kept: they must not fill the memory.
MAX_WAITING = 100

#: Bytes and message of the latest camera_info of each side, by the node's relative topics.
_Infos = dict[str, tuple[bytes, Any]]


@dataclasses.dataclass(frozen=True)
class _Damaged:
    """In the place of a message that cannot be decoded."""

    why: str


class StereoBag:
    """A recorded stereo sequence: a rosbag2 folder, a file of one, or a ROS 1 bag file.

    A context manager. ``topics`` names topics that are not, or not alone, found by their names.
    Messages of ROS 1 come as ROS 2 has them.

    :raises StereoError: no bag, or no unambiguous stereo topics in it.
    """

    def __init__(self, path: str | os.PathLike[str], topics: StereoTopics | None = None) -> None:
        self.path = pathlib.Path(path)
        self._reader = Reader(self.path)
        try:
            spoken = {one.topic: one.msgtype for one in self._reader.connections if one.msgcount}
            silent = [one.topic for one in self._reader.connections if one.topic not in spoken]
            self.topics = find_stereo_topics(spoken, topics, silent)
            self._given = GivenCalibration(self.topics)
            self._uncalibrated = '' if self.topics.left_info or self._given else (
                self._why_uncalibrated(silent))
        except StereoError as error:
            self._reader.close()
            raise StereoError(f'{self.path}: {error}') from error
        self._truth_is_named = bool(topics and topics.truth)
        self._rectifier = Rectifier(self.topics.left_image, self.topics.right_image,
                                    self.topics.rectified)

    def _why_uncalibrated(self, silent: Iterable[str]) -> str:
        """A sentence for images without camera_info that are rectified by name or option.

        :raises StereoError: nothing says that they are: nobody could rectify them.
        """
        silent = [topic for topic in silent if 'camera_info' in topic]
        on = f' on {" and ".join(silent)}' if silent else ' of camera_info'
        text = f'there is no message{on} in this recording'
        images = ' and '.join(filter(None, (self.topics.left_image, self.topics.right_image)))
        is_rectified = self.topics.rectified == 'yes' or (
            self.topics.rectified == 'auto' and is_rectified_name(self.topics.left_image))
        if is_rectified:
            return (f'{text}: {images} are taken as rectified, and there are no distances in '
                    'metres (--calibration FILE or --focal and --baseline, and --rectify FILE '
                    'for raw images)')
        first = name_of_first_part(self.path)
        raise StereoError(
            f'{text}: {images} may be raw, and cannot be rectified. '
            + (f'Open {self.path.absolute().parent}, the folder of the recording, or {first}, '
               'where it may be. ' if first else '')
            + 'Raw images need --rectify FILE; --calibration FILE, --focal and --baseline, or '
            '--rectified yes say that they are rectified')

    def __enter__(self) -> StereoBag:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()
        if '_truth' in self.__dict__ and self._truth:
            self._truth.close()

    @functools.cached_property
    def _truth(self) -> BagTruth | None:
        """The truths of the bag, which are indexed when the first is wanted."""
        return BagTruth(self.path, self.topics) if self.topics.truth else None

    @functools.cached_property
    def _decision(self) -> Decision:
        """Whether images are rectified: decided once, by the first pairs of the bag."""
        first = {role.removesuffix('/camera_info'): info
                 for role, (_, info) in self._first_infos().items()}
        if first.keys() != FRAME_IDS.keys():
            return Decision(False, '')
        try:
            found = self._rectifier.decide(first, self._read_measured())
        except (ValueError, StereoError):       # of which the pair itself tells
            found = Decision(True, '')
        if found.rectify and self.topics.side_by_side and not self.topics.right_info:
            raise StereoError(f'{self.path}: {self.topics.left_info} is of both cameras, and '
                              'describes raw images: name a camera_info of each with --left-info '
                              'and --right-info, or give --rectify FILE')
        return found

    def _read_measured(self) -> Iterator[tuple[dict[str, RawImage], dict[str, Any]]]:
        """Images and camera_infos of the first pairs."""
        pairs = self._pairs(self._decode, with_truth=False)
        for _, _, parts, infos in itertools.islice(pairs, MEASURED_PAIRS):
            if len(parts) == len(infos) == 2 and not any(
                    isinstance(content, _Damaged) for content in parts.values()):
                yield (self._images(parts),
                       {side: infos[f'{side}/camera_info'][1] for side in FRAME_IDS})

    def _images(self, parts: Mapping[str, Any]) -> dict[str, RawImage]:
        """The images of both sides, of their messages by role."""
        if self.topics.side_by_side:
            return self._halves(parts['left/image_rect'])
        return {side: _raw_image(parts[f'{side}/image_rect']) for side in SIDES}

    def _halves(self, message: Any) -> dict[str, RawImage]:
        return dict(zip(SIDES, split(_raw_image(message), self.topics.side_by_side), strict=True))

    @property
    def compressed(self) -> bool:
        """Whether the images of ``raw`` are ``sensor_msgs/CompressedImage``."""
        return not self.topics.side_by_side and (
            self._reader.of_topics(self.topics.left_image)[0].msgtype == COMPRESSED_IMAGE)

    @property
    def is_ros1(self) -> bool:
        """Whether this is a ROS 1 bag, whose bytes are not CDR."""
        return not self._reader.is2

    @property
    def is_calibrated(self) -> bool:
        """Whether there is a calibration, of the bag or of the user."""
        return bool(self.topics.left_info or self._given)

    @property
    def is_sequence(self) -> bool:
        """Whether pairs have stamps: all of a bag have."""
        return True

    @property
    def count(self) -> int:
        """Number of left images."""
        return sum(c.msgcount for c in self._reader.of_topics(self.topics.left_image))

    @property
    def right_count(self) -> int:
        """Number of right images."""
        return self.count if self.topics.side_by_side else sum(
            c.msgcount for c in self._reader.of_topics(self.topics.right_image))

    def warnings(self, played: bool = False) -> list[str]:
        """Sentences about images that are not rectified, messages that are missing because the
        recording was cut off, and a truth that does not fit the pairs.

        :param played: whether messages go out as they are (``raw``); ``read`` rectifies them.
        :raises StereoError: there is no pair, which is no error where ``played``; or none has a
            truth although its topic was named, or TF does not connect a cloud with the camera.
        """
        infos = self._first_infos()
        rectify, why = self._decision
        found = [why] if why else []
        found += filter(None, [self._uncalibrated])
        if played and self.topics.rectification:
            found.append(f'{self.path}: {SENT_RAW.format(self.topics.rectification)}')
        if why and played:
            found = [why.partition('. ')[0] + (
                '. Have the node rectify it (rectify), or match the image_rect of image_proc'
                if rectify else '. The images themselves are rectified already: leave rectify '
                'of the node off')]
        found += self._reader.notes
        found += self._rejections()
        try:
            # One is enough, else all is read: an evaluation need not begin.
            next(self._pairs(lambda *_: None, with_truth=False), None)
        except NoPairError as error:
            if not played:
                raise
            found.append(f'{error}: the node pairs them with approximate_sync')
        if self._truth:
            if self._truth.is_cloud and 'left/camera_info' in infos:
                found += filter(None, [unused_rotation(infos['left/camera_info'][1])])
            stamps = (self._reader.stamp(data) for _, _, data in self._reader.messages(
                self._reader.of_topics(self.topics.left_image)))
            found += self._truth.warnings(stamps, self._truth_is_named)
        return found

    def _rejections(self) -> list[str]:
        """What is wrong with the stamps of the first images."""
        finder = PairFinder(self.topics.tolerance_s)
        roles = {topic: role.partition('/')[0] for topic, role in self.topics.roles().items()
                 if role.endswith('image_rect')}
        for connection, time_ns, data in itertools.islice(self._reader.messages(
                self._reader.of_topics(*roles)), CHECKED_IMAGES):
            finder.add(Image(roles[connection.topic], self._reader.stamp(data), time_ns, None))
        return [f'{self.path}: {text}' for text in finder.rejections()]

    def raw(self) -> Iterator[tuple[str, int, bytes]]:
        """(node's relative topic, time of recording in ns, CDR bytes) in recorded order.

        Where the user gives the calibration, a camera_info goes before each image. Side-by-side
        images come as two.
        """
        roles = self.topics.roles()
        has_infos = bool(self.topics.left_info)
        size: tuple[int, int] | None = None
        for connection, time_ns, data in self._reader.messages(self._reader.of_topics(*roles)):
            kind, role = connection.msgtype, roles[connection.topic]
            for name, content in self._played(kind, role, data).items():
                if not has_infos:
                    if size is None:
                        size = self._size(kind, data)
                    side = name.partition('/')[0]
                    yield f'{side}/camera_info', time_ns, bytes(serialize_camera_info(
                        self._reader.stamp(data), side, self._given.camera(*size), *size))
                yield name, time_ns, content

    def _played(self, kind: str, role: str, data: bytes) -> dict[str, bytes]:
        """CDR bytes by the node's relative topics, of a message."""
        if not self.topics.side_by_side:
            return {role: bytes(STORE.serialize_cdr(self._reader.decode(kind, data), kind))
                    if self.is_ros1 else data}
        message = self._reader.decode(kind, data)
        if kind == CAMERA_INFO:
            return {name: bytes(STORE.serialize_cdr(info, kind))
                    for name, info in self._infos_by_role(role, message).items()}
        return {f'{side}/image_rect': bytes(serialize_image(
            self._reader.stamp(data), side, image.pixels, image.encoding,
            message.header.frame_id)) for side, image in self._halves(message).items()}

    def _size(self, kind: str, data: bytes) -> tuple[int, int]:
        """Width and height of the images of one side, by a message."""
        message = self._reader.decode(kind, data)
        image = (self._halves(message)['left'] if self.topics.side_by_side
                 else _raw_image(message))
        return image.width, image.height

    def read(self) -> Iterator[Pair]:
        """Pairs with their latest calibration, in the order of completion.

        Stamps are equal, or as close as ``StereoTopics.tolerance_s`` says; that of a pair is the
        left image's.

        Images that are raw by their calibration are rectified with it (``Rectifier``).
        """
        return (one.load() for one in self.unread())

    def unread(self) -> Iterator[Unread]:
        """What ``read`` reads; the names are stamps. A damaged image concerns its pair alone."""
        for stamp_ns, truth, parts, infos in self._pairs(self._decode):
            yield Unread(str(stamp_ns), functools.partial(self._pair, stamp_ns, truth, parts,
                                                          dict(infos)))

    def _pairs(self, make: Callable[[str, bytes], Any], with_truth: bool = True
               ) -> Iterator[tuple[int, TruthEntry | None, dict[str, Any], _Infos]]:
        """Stamp, truth, what was made of the images by role, and calibration of every pair.

        :param make: what becomes of the type and the bytes of an image.
        :raises NoPairError: there is none.
        """
        finder = PairFinder(self.topics.tolerance_s)
        # A recorder may have written the first camera_info after its image.
        infos = self._first_infos()
        stamp_ns = None
        for images in self._match_images(finder, infos, make):
            stamp_ns = images[0].stamp_ns
            truth = self._truth if with_truth else None
            yield (stamp_ns,
                   truth.find(stamp_ns, min(one.time_ns for one in images)) if truth else None,
                   {f'{one.side}/image_rect': one.content for one in images}, infos)
        if stamp_ns is None:
            kind = NoPairError if finder.has_stamps else StereoError
            raise kind(f'{self.path}: {finder.why_none()}')

    def _match_images(self, finder: PairFinder, infos: _Infos, make: Callable[[str, bytes], Any]
                      ) -> Iterator[tuple[Image, ...]]:
        """Left and right image of every pair.

        A damaged one without a partner, whose stamp may be what is damaged, is a pair for itself.
        """
        roles = self.topics.roles()
        for connection, time_ns, data in self._reader.messages(self._reader.of_topics(*roles)):
            side, _, name = roles[connection.topic].partition('/')
            if name == 'camera_info':
                self._keep_info(infos, roles[connection.topic], data)
                continue
            content = make(connection.msgtype, data)
            for one in SIDES if self.topics.side_by_side else (side,):
                pair = finder.add(Image(one, self._reader.stamp(data), time_ns, content))
                if pair:
                    yield pair
            yield from _keep_damaged(finder.drop(MAX_WAITING))
        yield from _keep_damaged(finder.drop(0))

    def _decode(self, kind: str, data: bytes) -> Any:
        """A message, or what is in the place of a damaged one."""
        try:
            return self._reader.decode(kind, data)
        except StereoError as error:
            # The error itself would keep open who reads.
            return _Damaged(str(error))

    def _first_infos(self) -> _Infos:
        """The first camera_info of each side; without those that have none."""
        roles = self.topics.roles()
        infos: _Infos = {}
        for topic in filter(None, (self.topics.left_info, self.topics.right_info)):
            for _, _, data in itertools.islice(
                    self._reader.messages(self._reader.of_topics(topic)), 1):
                self._keep_info(infos, roles[topic], data)
        return infos

    def _keep_info(self, infos: _Infos, role: str, data: bytes) -> None:
        """Make a camera_info the latest of its side, unless only its stamp is new."""
        if role not in infos or infos[role][0][MIN_BYTES:] != data[MIN_BYTES:]:
            message = self._reader.decode(CAMERA_INFO, data)
            for name, info in self._infos_by_role(role, message).items():
                infos[name] = bytes(data), info

    def _infos_by_role(self, role: str, message: Any) -> dict[str, Any]:
        """A camera_info, or those of both sides where it is of both.

        :raises StereoError: it has no baseline.
        """
        if not self.topics.side_by_side or self.topics.right_info:
            return {role: message}
        if not message.p[3]:
            raise StereoError(f'{self.topics.left_info} is of both cameras, and P[3] is 0: it has '
                              'no baseline; give --calibration FILE, or --left-info and '
                              '--right-info')
        return {f'{side}/camera_info': info for side, info in infos_of_halves(message).items()}

    def _pair(self, stamp_ns: int, truth: TruthEntry | None, parts: Mapping[str, Any],
              infos: _Infos) -> Pair:
        calibration = disparity = None
        issues: list[Issue] = []
        for part in parts.values():
            if isinstance(part, _Damaged):
                raise StereoError(part.why)
        try:
            images = self._images(parts)
            if {'left/camera_info', 'right/camera_info'} <= infos.keys():
                known = {side: infos[f'{side}/camera_info'][1] for side in FRAME_IDS}
                calibration = Calibration.from_camera_info(known['left'], known['right'])
                if self._rectifier.may_be_raw(known) and self._decision.rectify:
                    issues = check_bytes(images['left'], images['right'])
                    images = self._rectifier.rectified(images, known)
                    calibration = Rectification.from_camera_info(
                        known['left'], known['right']).calibration
            else:
                images, calibration = self._given.of(images)
            scale = None
            if truth and self._truth:
                left = images['left']
                disparity = self._truth.read(truth, calibration, (left.height, left.width))
                scale = self._truth.scale
            return Pair(str(stamp_ns), images['left'], images['right'], disparity, None,
                        calibration, stamp_ns, truth_scale=scale, issues=tuple(issues))
        except ValueError as error:
            raise StereoError(f'{self.path}: the pair of stamp {stamp_ns} ns: {error}') from error


def _keep_damaged(images: Iterable[Image]) -> Iterator[tuple[Image, ...]]:
    return ((one,) for one in images if isinstance(one.content, _Damaged))


def _raw_image(message: Any) -> RawImage:
    if not hasattr(message, 'format'):
        return RawImage.from_message(message)
    decoded = files.decode(message.data, f'a compressed image of format {shown(message.format)}')
    colour = 'bgr8' if decoded.ndim == 3 and decoded.shape[2] == 3 else None
    return RawImage.from_array(decoded, colour)
