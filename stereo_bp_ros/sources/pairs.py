"""Stereo pairs of bags, folders, videos and drawn streets, one after another or in chunks."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import itertools
import logging
import pathlib
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.images.stamps import sync_setting
from stereo_bp_ros.sources.bag_topics import StereoTopics, is_bag
from stereo_bp_ros.sources.datasets.dataset import open_dataset
from stereo_bp_ros.sources.datasets.entries import Pair, Unread
from stereo_bp_ros.sources.given_calibration import GivenCalibration
from stereo_bp_ros.sources.scenes.sequence import RoadSequence
from stereo_bp_ros.sources.videos import StereoVideo, find_videos
from stereo_bp_ros.system.bounded import resolved

if TYPE_CHECKING:
    from stereo_bp_ros.sources import bags

_log = logging.getLogger(__name__)

#: Share of the images of a side of a bag that may lack a partner without a word.
MAX_ALONE = 0.02

__all__ = ['Chunk', 'Input', 'Pair', 'Sources', 'Unread', 'inputs_of', 'open_input', 'open_pairs',
           'pair_of_street']


@dataclasses.dataclass(frozen=True)
class Input:
    """Pairs of one kind: a folder, bag, video or image, or a street that is drawn.

    name:  pairs of one of several inputs have it before their own (``Pair.input``).
    right: the video of the right camera, where ``source`` is that of the left one.
    """

    name: str
    source: pathlib.Path | RoadSequence
    right: pathlib.Path | None = None

    @classmethod
    def of_videos(cls, left: pathlib.Path, right: pathlib.Path) -> Input:
        """The videos of both cameras."""
        return cls(f'{left.name} and {right.name}', left, right)

    @property
    def paths(self) -> list[pathlib.Path]:
        """That are read."""
        return [path for path in (self.source, self.right) if isinstance(path, pathlib.Path)]

    def __str__(self) -> str:
        return ' and '.join(map(str, self.paths)) or self.name


def inputs_of(paths: Sequence[pathlib.Path]) -> tuple[Input, ...]:
    """Inputs with the names of their folders or files; where two have the same, with their paths.

    :raises ValueError: a path is there twice.
    """
    places = [resolved(path) for path in paths]
    for path, place in zip(paths, places, strict=True):
        if places.count(place) > 1:
            raise ValueError(f'{path} is there twice')
    names = collections.Counter(place.name for place in places)
    return tuple(Input(place.name if names[place.name] == 1 else str(path), path)
                 for path, place in zip(paths, places, strict=True))


def open_pairs(path: pathlib.Path, topics: StereoTopics | None = None
               ) -> tuple[int, Iterator[Pair]]:
    """Number of pairs and the pairs of one input, as ``Sources`` has them."""
    found = Sources(inputs_of([path]), topics)
    return found.count, found.pairs()


class Sources:
    """Pairs of several inputs, one input after another.

    A warning says once for each bag how many of its images have no partner, if they are more than
    a few.

    :param topics: those of bags that are not to be found by their names, and how pairs are found.
    :param limit: pairs of each input, from the first on; 0 = all.
    :raises ValueError, StereoError: an input cannot be read.
    :raises ImportError: a bag without rosbags.

    """

    def __init__(self, inputs: Sequence[Input], topics: StereoTopics | None = None,
                 limit: int = 0) -> None:
        self.inputs = tuple(inputs)
        self._topics = topics
        self._told: set[str] = set()
        self._whole: list[Chunk] = []
        first = 0
        for one in inputs:
            with open_input(one, topics) as source:
                count = min(source.count, limit or source.count)
                rights = count if count < source.count else source.right_count
                self._whole.append(Chunk(one, topics, 0, count, source.is_sequence, first,
                                         one.name if len(self.inputs) > 1 else '', rights))
                first += count

    def __str__(self) -> str:
        return ', '.join(map(str, self.inputs))

    @property
    def title(self) -> str:
        """The name of the first input, and how many more there are."""
        more = len(self.inputs) - 1
        return self.inputs[0].name + (f' and {more} more' if more else '')

    @property
    def paths(self) -> list[pathlib.Path]:
        """Of the inputs that are read."""
        return [path for one in self.inputs for path in one.paths]

    @property
    def count(self) -> int:
        """Pairs that there are; a bag may have fewer that are whole."""
        return sum(one.stop for one in self._whole)

    def first_pair(self) -> Pair | None:
        """The first pair that can be read; None: there is none."""
        for chunk in self._whole:
            with contextlib.closing(chunk.unread()) as pairs:
                for one in pairs:
                    with contextlib.suppress(StereoError, ValueError, OSError):
                        return one.load()
        return None

    def first_size(self) -> tuple[int, int]:
        """Width and height of the images of the first pair that can be read; 0: there is none."""
        if (pair := self.first_pair()) is None:
            return 0, 0
        left, _ = pair.images
        return left.width, left.height

    @functools.cached_property
    def warnings(self) -> list[str]:
        """Sentences about what the inputs have and is not read, or is read otherwise than they
        say.

        :raises StereoError, ValueError: an input has no pair, or cannot be read.
        """
        found: list[str] = []
        for one in self.inputs:
            with open_input(one, self._topics) as source:
                found += source.warnings()
        return found

    def pairs(self) -> Iterator[Pair]:
        """All pairs, each read or drawn when it is wanted."""
        return itertools.chain.from_iterable(map(self.pairs_of, self.inputs))

    def pairs_of(self, one: Input) -> Iterator[Pair]:
        """The pairs of one of the inputs."""
        return (pair.load() for pair in self.unread(self._whole[self.inputs.index(one)]))

    def chunks(self, size: int = 0) -> Iterator[Chunk]:
        """All pairs: every sequence is one chunk, other inputs are cut. Nothing is read.

        :param size: pairs of a chunk of pairs that follow no other; 0: these are not cut either.
        """
        for one in self._whole:
            step = size if size and not one.is_sequence else max(1, one.stop)
            for start in range(0, one.stop, step):
                yield dataclasses.replace(one, start=start, stop=min(start + step, one.stop))

    def unread(self, chunk: Chunk) -> Generator[Unread, None, None]:
        """What a chunk has; behind it a warning may say that images have no partner."""
        found = 0
        with contextlib.closing(chunk.unread()) as pairs:
            for pair in pairs:
                found += 1
                yield pair
        self.warn_unpaired(chunk, found)

    def warn_unpaired(self, chunk: Chunk, found: int) -> None:
        """Warn of images without a partner, where all pairs of a chunk were found."""
        one, counts = chunk.input, {'left': chunk.stop - chunk.start, 'right': chunk.rights}
        alone = ' and '.join(f'{count - found} of {count} {side} images'
                             for side, count in counts.items()
                             if count - found > MAX_ALONE * count)
        if alone and one.name not in self._told:
            self._told.add(one.name)
            _log.warning('%s: %s have no partner (%s)', one, alone,
                         sync_setting(_tolerance_s(self._topics)))


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Consecutive pairs of an input, of which nothing is read yet.

    topics:      of a bag.
    start, stop: indices of the pairs in the input, the last one excluded.
    is_sequence: whether pairs have stamps: what is known of one depends on those before it.
    first:       pairs of the inputs before this one.
    label:       the name of the input, where there are several.
    rights:      number of right images of a whole sequence, of which some may have no left one.
    """

    input: Input
    topics: StereoTopics | None
    start: int
    stop: int
    is_sequence: bool
    first: int = 0
    label: str = ''
    rights: int = 0

    def __str__(self) -> str:
        return f'pairs {self.start + 1} to {self.stop} of {self.input}'

    @property
    def place(self) -> int:
        """Of the first pair among those of all inputs, from 0."""
        return self.first + self.start

    def unread(self) -> Generator[Unread, None, None]:
        """The pairs; their source is open until this is closed or at its end.

        :raises ValueError, StereoError: the source cannot be read, or has changed.
        :raises ImportError: a bag without rosbags.
        """
        with open_input(self.input, self.topics) as source:
            if source.count < self.stop:
                raise StereoError(f'{self.input} has changed: it had {self.stop} pairs or more, '
                                  f'and has {source.count}')
            for pair in itertools.islice(source.unread(), self.start, self.stop):
                yield _label_pair(self.label, pair)


@dataclasses.dataclass(frozen=True)
class _Numbered:
    """A source whose pairs have numbers: a folder, an image, or a street that is drawn."""

    names: Sequence[str]
    load: Callable[[int], Pair]
    is_sequence: bool
    sentences: Sequence[str] = ()
    first_image: pathlib.Path | None = None

    def warnings(self) -> Sequence[str]:
        return self.sentences

    @property
    def count(self) -> int:
        return len(self.names)

    right_count = count

    def unread(self) -> Iterator[Unread]:
        return (Unread(name, functools.partial(self.load, place))
                for place, name in enumerate(self.names))


@contextlib.contextmanager
def open_input(one: Input, topics: StereoTopics | None = None
               ) -> Iterator[_Numbered | StereoVideo | bags.StereoBag]:
    """The pairs of an input, whatever it is.

    :raises ValueError, StereoError: it cannot be read.
    :raises ImportError: a bag without rosbags.
    """
    globs, source = topics.globs if topics else None, one.source
    if isinstance(source, RoadSequence):
        yield _Numbered([f'{place:06d}' for place in range(len(source))],
                        functools.partial(pair_of_street, source), True)
    elif not globs and is_bag(source):
        # Needs rosbags, which folders of images do without.
        from stereo_bp_ros.sources import bags
        with bags.StereoBag(source, topics) as bag:
            yield bag
    elif videos := (source, one.right) if one.right else find_videos(source, topics):
        yield StereoVideo(videos, topics)
    else:
        dataset = open_dataset(source, _tolerance_s(topics), globs,
                               topics.truth_scale if topics else None,
                               topics.side_by_side if topics else '')
        given = (GivenCalibration(topics, dataset.first_image)
                 if topics and (topics.calibration or topics.rectification) else None)
        yield _Numbered(dataset.names, lambda place: (
            given.applied(dataset[place]) if given else dataset[place]),
            dataset.is_sequence, dataset.warnings, dataset.first_image)


def _tolerance_s(topics: StereoTopics | None) -> float:
    return topics.tolerance_s if topics else 0.0


def _label_pair(label: str, one: Unread) -> Unread:
    if not label:
        return one
    name = f'{label}/{one.name}'
    return Unread(name, lambda: dataclasses.replace(one.load(), name=name, input=label))


def pair_of_street(street: RoadSequence, place: int) -> Pair:
    """Draw a pair. The sky is no truth, as for a laser scanner; it is scored by its mask."""
    frame = street.frame(place)
    return Pair(f'{frame.index:06d}', frame.left, frame.right,
                np.where(frame.sky, np.float32(np.nan), frame.disparity), None,
                street.calibration, frame.stamp_ns, frame.vehicles, frame.sky, frame.occluded,
                frame.classes)
