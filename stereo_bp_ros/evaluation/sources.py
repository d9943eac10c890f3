"""Stereo pairs of bags, folders and drawn streets, one after another or in chunks."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import itertools
import logging
import pathlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.evaluation import datasets
from stereo_bp_ros.evaluation.bag_topics import StereoTopics, is_bag
from stereo_bp_ros.evaluation.datasets.entries import Pair
from stereo_bp_ros.evaluation.scenes.sequence import RoadSequence
from stereo_bp_ros.stamps import sync_setting

if TYPE_CHECKING:
    from stereo_bp_ros.evaluation import bags

_log = logging.getLogger(__name__)

#: Share of the left images that may lack a partner without a word.
FEW = 0.02

__all__ = ['Chunk', 'ChunkReader', 'Input', 'Pair', 'Sources', 'Unread', 'inputs_of',
           'open_pairs', 'pair_of_street']


@dataclasses.dataclass(frozen=True)
class Input:
    """Pairs of one kind: a folder or bag, or a street that is drawn.

    name: pairs of one of several inputs have it before their own (``Pair.input``).
    """

    name: str
    source: pathlib.Path | RoadSequence

    def __str__(self) -> str:
        return str(self.source) if isinstance(self.source, pathlib.Path) else self.name


class Unread(NamedTuple):
    """A pair that is not read yet.

    name: as ``Pair.name``.
    load: reads or draws it, while its source is open; raises StereoError or ValueError where it
          cannot be read, which concerns no other pair.
    """

    name: str
    load: Callable[[], Pair]


def inputs_of(paths: Sequence[pathlib.Path]) -> tuple[Input, ...]:
    """Inputs with the names of their folders or files; where two have the same, with their paths.

    :raises ValueError: a path is there twice.
    """
    places = [path.resolve() for path in paths]
    for path, place in zip(paths, places, strict=True):
        if places.count(place) > 1:
            raise ValueError(f'{path} is there twice')
    names = collections.Counter(place.name for place in places)
    return tuple(Input(place.name if names[place.name] == 1 else str(path), path)
                 for path, place in zip(paths, places, strict=True))


def open_pairs(path: pathlib.Path, topics: StereoTopics | None = None
               ) -> tuple[int, Iterator[Pair]]:
    """Number of pairs and the pairs of one bag or data set folder, as ``Sources`` has them."""
    found = Sources(inputs_of([path]), topics)
    return found.count, found.pairs()


class Sources:
    """Pairs of several inputs, one input after another.

    A warning says once for each input how many of its images have no partner, if they are more
    than a few.

    :param topics: those of bags that are not to be found by their names, and how pairs are found.
    :param limit: pairs of each input, from the first on; 0 = all.
    :raises ValueError, StereoError: an input cannot be read.
    :raises ImportError: a bag without rosbags.

    ``warnings`` has sentences about what is in folders and is not read.
    """

    def __init__(self, inputs: Sequence[Input], topics: StereoTopics | None = None,
                 limit: int = 0) -> None:
        self.inputs = tuple(inputs)
        self._topics = topics
        self._told: set[str] = set()
        self._counts: list[int] = []
        self.warnings: list[str] = []
        for one in inputs:
            count, warnings = _inspect(one.source, topics)
            self._counts.append(min(count, limit or count))
            self.warnings += warnings

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
        return [one.source for one in self.inputs if isinstance(one.source, pathlib.Path)]

    @property
    def count(self) -> int:
        """Pairs that there are; a bag may have fewer that are whole."""
        return sum(self._counts)

    def pairs(self) -> Iterator[Pair]:
        """All pairs, each read or drawn when it is wanted."""
        return (one.load() for one in self.unread())

    def unread(self) -> Generator[Unread, None, None]:
        """What ``pairs`` reads; its source is open until this is closed or at its end."""
        for one in self.inputs:
            yield from self._unread_of(one)

    def pairs_of(self, one: Input) -> Iterator[Pair]:
        """The pairs of one of the inputs."""
        return (pair.load() for pair in self._unread_of(one))

    def _unread_of(self, one: Input) -> Iterator[Unread]:
        label, count = self._label(one), self._counts[self.inputs.index(one)]
        found = 0
        for pair in itertools.islice(_unread(one.source, self._topics), count):
            found += 1
            yield _labelled(label, pair)
        self._tell_alone(one, count, found)

    def _tell_alone(self, one: Input, count: int, found: int) -> None:
        """Warn of images without a partner, where all pairs of an input were found."""
        if count - found > FEW * count and one.name not in self._told:
            self._told.add(one.name)
            _log.warning('%s: %d of %d left images have no partner (%s)', one, count - found,
                         count, sync_setting(_tolerance_s(self._topics)))

    def chunks(self, size: int = 32) -> Iterator[Chunk]:
        """The same pairs in chunks; decodes no image, and draws none.

        The first chunk of each input is one pair. A bag is read once, for its stamps, while chunks
        are taken.

        :param size: pairs of every other chunk, at least 1.
        """
        first, before = 0, None
        for one, count in zip(self.inputs, self._counts, strict=True):
            source = one.source.absolute() if isinstance(one.source, pathlib.Path) else one.source
            whole = Chunk(Input(one.name, source), self._topics, 0, 0, label=self._label(one),
                          first=first)
            for start, stop, entries in _parts(source, self._topics, count, size):
                yield dataclasses.replace(whole, start=start, stop=stop, entries=entries,
                                          before=before)
                before = dataclasses.replace(whole, start=stop - 1, stop=stop,
                                             entries=entries[-1:])
                first = whole.first + stop
            self._tell_alone(one, count, first - whole.first)

    def _label(self, one: Input) -> str:
        return one.name if len(self.inputs) > 1 else ''


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Consecutive pairs of an input, of which nothing is read yet.

    input:       its path is absolute.
    topics:      of a bag.
    start, stop: indices of the pairs in the input, the last one excluded.
    entries:     where a bag has them; empty for others.
    before:      the pair before the first one; None: there is none.
    label:       the name of the input, where there are several.
    first:       pairs of the inputs before this one.
    """

    input: Input
    topics: StereoTopics | None
    start: int
    stop: int
    entries: tuple[bags.BagEntry, ...] = ()
    before: Chunk | None = None
    label: str = ''
    first: int = 0

    @property
    def place(self) -> int:
        """Of the first pair among those of all inputs, from 0."""
        return self.first + self.start


def _inspect(source: pathlib.Path | RoadSequence, topics: StereoTopics | None
             ) -> tuple[int, Sequence[str]]:
    """Number of pairs, and sentences about what is in a folder and is not read."""
    if isinstance(source, RoadSequence):
        return len(source), ()
    if is_bag(source):
        from stereo_bp_ros.evaluation import bags
        with bags.StereoBag(source, topics) as bag:
            return bag.pairs, ()
    dataset = datasets.open_dataset(source, _tolerance_s(topics))
    return len(dataset), dataset.warnings


def _tolerance_s(topics: StereoTopics | None) -> float:
    return topics.tolerance_s if topics else 0.0


def _unread(source: pathlib.Path | RoadSequence, topics: StereoTopics | None) -> Iterator[Unread]:
    if isinstance(source, RoadSequence):
        yield from _unread_of_street(source, range(len(source)))
    elif is_bag(source):
        # Needs rosbags, which folders of images do without.
        from stereo_bp_ros.evaluation import bags
        with bags.StereoBag(source, topics) as bag:
            yield from map(_unread_of_bag, bag.unread())
    else:
        dataset = datasets.open_dataset(source, _tolerance_s(topics))
        yield from _unread_of_dataset(dataset, range(len(dataset)))


def _parts(source: pathlib.Path | RoadSequence, topics: StereoTopics | None, count: int, size: int
           ) -> Iterator[tuple[int, int, tuple[bags.BagEntry, ...]]]:
    """Start, stop and, of a bag, entries of each chunk."""
    spans = [(start, stop) for start, stop in itertools.pairwise(
        [0, *range(1, count, size), count]) if start < stop]
    if isinstance(source, RoadSequence) or not is_bag(source):
        for start, stop in spans:
            yield start, stop, ()
        return
    from stereo_bp_ros.evaluation import bags
    with bags.StereoBag(source, topics) as bag:
        index = bag.index()
        for start, stop in spans:
            entries = tuple(itertools.islice(index, stop - start))
            if entries:         # a bag may have left images without a partner
                yield start, start + len(entries), entries


class ChunkReader:
    """Reads chunks, and keeps the latest source open; to be closed, or used in ``with``."""

    def __init__(self) -> None:
        self._opened = contextlib.ExitStack()
        self._source: tuple[pathlib.Path | RoadSequence, StereoTopics | None] | None = None
        self._bag: bags.StereoBag | None = None
        self._dataset: datasets.Dataset | None = None

    def __enter__(self) -> ChunkReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the source that is open."""
        self._source = self._bag = self._dataset = None
        self._opened.close()

    def read(self, chunk: Chunk) -> Iterator[Pair]:
        """The pairs of a chunk, as ``Sources.pairs`` has them; the last chunk is to be read whole.

        :raises ValueError, StereoError: the source cannot be read, or has changed.
        :raises ImportError: a bag without rosbags.
        """
        return (one.load() for one in self.unread(chunk))

    def unread(self, chunk: Chunk) -> Iterator[Unread]:
        """What ``read`` reads."""
        return (_labelled(chunk.label, one) for one in self._unread(chunk))

    def _unread(self, chunk: Chunk) -> Iterator[Unread]:
        source, places = chunk.input.source, range(chunk.start, chunk.stop)
        if isinstance(source, RoadSequence):
            yield from _unread_of_street(source, places)
            return
        if self._source != (source, chunk.topics):
            self.close()
            if chunk.entries:
                from stereo_bp_ros.evaluation import bags
                self._bag = self._opened.enter_context(bags.StereoBag(source, chunk.topics))
            else:
                self._dataset = datasets.open_dataset(source, _tolerance_s(chunk.topics))
            self._source = source, chunk.topics
        if self._bag is not None:
            yield from map(_unread_of_bag, self._bag.unread_entries(chunk.entries))
        elif self._dataset is not None:
            if chunk.stop > len(self._dataset):
                raise StereoError(f'{source} has changed: it had {chunk.stop} pairs or more, '
                                  f'and has {len(self._dataset)}')
            yield from _unread_of_dataset(self._dataset, places)


def _labelled(label: str, one: Unread) -> Unread:
    if not label:
        return one
    name = f'{label}/{one.name}'
    return Unread(name, lambda: dataclasses.replace(one.load(), name=name, input=label))


def _unread_of_dataset(dataset: datasets.Dataset, places: Iterable[int]) -> Iterator[Unread]:
    names = dataset.names
    return (Unread(names[place], functools.partial(dataset.__getitem__, place))
            for place in places)


def _unread_of_street(street: RoadSequence, places: Iterable[int]) -> Iterator[Unread]:
    return (Unread(f'{place:06d}', functools.partial(pair_of_street, street, place))
            for place in places)


def _unread_of_bag(found: tuple[int, Callable[[], bags.BagPair]]) -> Unread:
    stamp_ns, load = found
    return Unread(str(stamp_ns), lambda: _pair_of_bag(load()))


def pair_of_street(street: RoadSequence, place: int) -> Pair:
    """Draw a pair. The sky is no truth, as for a laser scanner; it is scored by its mask."""
    frame = street.frame(place)
    calibration = Calibration(street.focal_px, street.baseline_m, street.cx, street.cx, street.cy)
    return Pair(f'{frame.index:06d}', frame.left, frame.right,
                np.where(frame.sky, np.float32(np.nan), frame.disparity), None, calibration,
                frame.stamp_ns, frame.vehicles, frame.sky, frame.occluded, frame.classes)


def _pair_of_bag(pair: bags.BagPair) -> Pair:
    return Pair(str(pair.stamp_ns), pair.left, pair.right, pair.disparity, None,
                pair.calibration, pair.stamp_ns)
