"""What is replayed: the messages of a bag, or of pairs of images, with their times."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Iterator

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.cameras.rectification import Rectification
from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.images.stamps import SIDES
from stereo_bp_ros.sources import bags
from stereo_bp_ros.sources.bag_topics import is_bag
from stereo_bp_ros.sources.datasets.entries import Pair
from stereo_bp_ros.sources.given_calibration import SENT_RAW, GivenCalibration
from stereo_bp_ros.sources.pairs import Input, open_input


@dataclasses.dataclass(frozen=True)
class Event:
    """One message to publish: the node's relative topic, a time in ns, and CDR bytes."""

    topic: str
    time_ns: int
    data: bytes | memoryview


@dataclasses.dataclass(frozen=True)
class Source:
    """A sequence of events that can be iterated again and again.

    types: message type of every topic, as ``package/msg/Type``.
    pairs: number of stereo pairs.
    warnings: sentences about images that are not rectified, or a truth that is not read.
    images: the topics of a bag that they come from.
    """

    name: str
    types: dict[str, str]
    pairs: int
    events: Callable[[], Iterator[Event]]
    warnings: tuple[str, ...] = ()
    images: tuple[str, ...] = ()

    @property
    def compressed(self) -> bool:
        """Whether the images are ``sensor_msgs/CompressedImage``."""
        return bags.COMPRESSED_IMAGE in self.types.values()

    def image_topic(self, side: str) -> str:
        """The node's relative topic of one side's images."""
        return f'{side}/image_rect' + ('/compressed' if self.compressed else '')


def stamp_of(pair: Pair, index: int, period_s: float) -> int:
    """The stamp with which a pair is played: one that it brings, else by its place."""
    if pair.stamp_ns is None or pair.is_numbered:
        return 10**18 + round(index * period_s * 1e9)
    return pair.stamp_ns


def open_source(path: pathlib.Path, *, period_s: float = 0.1,
                calibration: Calibration | None = None,
                topics: bags.StereoTopics | None = None) -> Source:
    """A bag that ``bags.StereoBag`` opens, or a folder, video or image, as ``Sources`` has them.

    :param period_s: time between pairs without stamps.
    :param calibration: for pairs without one.
    :param topics: those of a bag that are not to be found by their names, and how pairs are
        found.
    :raises StereoError, ValueError: there are no pairs.
    """
    topics = topics or bags.StereoTopics()
    if not topics.globs and is_bag(path):
        return _bag_source(path, topics)
    return _image_source(path, period_s, calibration, topics)


def _bag_source(path: pathlib.Path, named: bags.StereoTopics) -> Source:
    with bags.StereoBag(path, named) as bag:
        if not bag.is_calibrated:
            raise StereoError(f'{path} has no message of camera_info, without which a node '
                              'publishes nothing: give --calibration FILE, --focal and '
                              '--baseline, or for raw images --rectify FILE')
        topics, pairs, warnings = bag.topics, bag.count, tuple(bag.warnings(played=True))
        image = bags.COMPRESSED_IMAGE if bag.compressed else bags.IMAGE
    suffix = '/compressed' if image == bags.COMPRESSED_IMAGE else ''

    def events() -> Iterator[Event]:
        with bags.StereoBag(path, topics) as bag:
            for topic, time_ns, data in bag.raw():
                name = topic + suffix if topic.endswith('image_rect') else topic
                yield Event(name, time_ns, data)

    types = {f'{side}/{name}': kind for side in SIDES for name, kind in (
        (f'image_rect{suffix}', image), ('camera_info', bags.CAMERA_INFO))}
    return Source(path.name, types, pairs, events, warnings,
                  (topics.left_image, topics.right_image))


def _image_source(path: pathlib.Path, period_s: float,
                  calibration: Calibration | None, topics: bags.StereoTopics) -> Source:
    """Of a folder, a video or an image, whose images go out as they are."""
    as_they_are = dataclasses.replace(topics, calibration='', rectification='')
    opened = functools.partial(open_input, Input(path.name, path), as_they_are)
    given = None
    with opened() as found:
        assert not isinstance(found, bags.StereoBag)
        pairs, warnings = found.count, tuple(found.warnings())
        if topics.calibration or topics.rectification:
            given = GivenCalibration(topics, found.first_image)
    if topics.rectification:
        warnings = (*warnings, f'{path}: {SENT_RAW.format(topics.rectification)}')

    def events() -> Iterator[Event]:
        with opened() as found:
            for index, one in enumerate(found.unread()):
                yield from _messages_of(one.load(), index)

    def _messages_of(pair: Pair, index: int) -> Iterator[Event]:
        images = dict(zip(SIDES, pair.images, strict=True))
        known: Calibration | Rectification | None = pair.calibration or calibration
        if given:
            known = given.camera(images['left'].width, images['left'].height)
        if known is None:
            raise StereoError(f'{path} has no calibration: give --calibration FILE, or '
                              '--focal and --baseline')
        stamp_ns = stamp_of(pair, index, period_s)
        for side, image in images.items():
            yield Event(f'{side}/camera_info', stamp_ns, bags.serialize_camera_info(
                stamp_ns, side, known, image.width, image.height))
            yield Event(f'{side}/image_rect', stamp_ns, bags.serialize_image(
                stamp_ns, side, image.pixels, image.encoding))

    types = {f'{side}/{name}': kind for side in SIDES
             for name, kind in (('camera_info', bags.CAMERA_INFO), ('image_rect', bags.IMAGE))}
    return Source(path.name, types, pairs, events, warnings)
