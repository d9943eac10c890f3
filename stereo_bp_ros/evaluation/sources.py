"""Stereo pairs of bags, folders and drawn streets, one after another or in chunks."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import itertools
import logging
import pathlib
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from stereo_bp_ros.bounded import resolved
from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.evaluation import datasets
from stereo_bp_ros.evaluation.bag_topics import StereoTopics, is_bag
from stereo_bp_ros.evaluation.datasets.entries import Pair, Unread
from stereo_bp_ros.evaluation.scenes.sequence import RoadSequence
from stereo_bp_ros.stamps import sync_setting

if TYPE_CHECKING:
    from stereo_bp_ros.evaluation import bags
    from stereo_bp_ros.evaluation.rows import RowTracker

_log = logging.getLogger(__name__)

#: Share of the left images that may lack a partner without a word.
MAX_ALONE = 0.02

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
            with _open_source(one.source, topics) as source:
                self._counts.append(min(source.count, limit or source.count))
                if isinstance(source, _Numbered):
                    self.warnings += source.warnings

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
        with _open_source(one.source, self._topics) as source:
            for pair in itertools.islice(source.unread(), count):
                found += 1
                yield _label_pair(label, pair)
        self._warn_unpaired(one, count, found)

    def _warn_unpaired(self, one: Input, count: int, found: int) -> None:
        """Warn of images without a partner, where all pairs of an input were found."""
        if count - found > MAX_ALONE * count and one.name not in self._told:
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
            places = [0, *range(1, count, size), count]
            with _open_source(source, self._topics) as opened:
                index: Iterator[Any] = opened.index()
                for start, stop in itertools.pairwise(places):
                    entries = tuple(itertools.islice(index, stop - start))
                    if not entries:         # a bag may have left images without a partner
                        continue
                    stop = start + len(entries)
                    yield dataclasses.replace(whole, start=start, stop=stop, entries=entries,
                                              before=before)
                    before = dataclasses.replace(whole, start=stop - 1, stop=stop,
                                                 entries=entries[-1:])
                    first = whole.first + stop
            self._warn_unpaired(one, count, first - whole.first)

    def _label(self, one: Input) -> str:
        return one.name if len(self.inputs) > 1 else ''


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Consecutive pairs of an input, of which nothing is read yet.

    input:       its path is absolute.
    topics:      of a bag.
    start, stop: indices of the pairs in the input, the last one excluded.
    entries:     where the source has them.
    before:      the pair before the first one; None: there is none.
    rows:        what the pairs before it show of their rows; None: nobody asks.
    label:       the name of the input, where there are several.
    first:       pairs of the inputs before this one.
    """

    input: Input
    topics: StereoTopics | None
    start: int
    stop: int
    entries: tuple[bags.BagEntry | int, ...] = ()
    before: Chunk | None = None
    rows: RowTracker | None = None
    label: str = ''
    first: int = 0

    @property
    def place(self) -> int:
        """Of the first pair among those of all inputs, from 0."""
        return self.first + self.start


@dataclasses.dataclass(frozen=True)
class _Numbered:
    """A source whose pairs have numbers: a folder, or a street that is drawn."""

    title: str
    names: Sequence[str]
    load: Callable[[int], Pair]
    warnings: Sequence[str] = ()

    @property
    def count(self) -> int:
        return len(self.names)

    def unread(self) -> Iterator[Unread]:
        return self.unread_entries(range(self.count))

    def index(self) -> Iterator[int]:
        return iter(range(self.count))

    def unread_entries(self, entries: Sequence[int]) -> Iterator[Unread]:
        if entries and entries[-1] >= self.count:
            raise StereoError(f'{self.title} has changed: it had {entries[-1] + 1} pairs or more, '
                              f'and has {self.count}')
        return (Unread(self.names[place], functools.partial(self.load, place))
                for place in entries)


@contextlib.contextmanager
def _open_source(source: pathlib.Path | RoadSequence, topics: StereoTopics | None
                 ) -> Iterator[_Numbered | bags.StereoBag]:
    globs = topics.globs if topics else None
    if isinstance(source, RoadSequence):
        yield _Numbered('the street', [f'{place:06d}' for place in range(len(source))],
                        functools.partial(pair_of_street, source))
    elif not globs and is_bag(source):
        # Needs rosbags, which folders of images do without.
        from stereo_bp_ros.evaluation import bags
        with bags.StereoBag(source, topics) as bag:
            yield bag
    else:
        dataset = datasets.open_dataset(source, _tolerance_s(topics), globs)
        yield _Numbered(str(source), dataset.names, dataset.__getitem__, dataset.warnings)


def _tolerance_s(topics: StereoTopics | None) -> float:
    return topics.tolerance_s if topics else 0.0


class ChunkReader:
    """Reads chunks, and keeps the latest source open; to be closed, or used in ``with``."""

    def __init__(self) -> None:
        self._opened = contextlib.ExitStack()
        self._source: tuple[pathlib.Path | RoadSequence, StereoTopics | None] | None = None

    def __enter__(self) -> ChunkReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def read(self, chunk: Chunk) -> Iterator[Pair]:
        """The pairs of a chunk, as ``Sources.pairs`` has them; the last chunk is to be read whole.

        :raises ValueError, StereoError: the source cannot be read, or has changed.
        :raises ImportError: a bag without rosbags.
        """
        return (one.load() for one in self.unread(chunk))

    def unread(self, chunk: Chunk) -> Iterator[Unread]:
        """What ``read`` reads."""
        source = chunk.input.source
        if self._source != (source, chunk.topics):
            self._source = None
            self._opened.close()
            self._reader: Any = self._opened.enter_context(_open_source(source, chunk.topics))
            self._source = source, chunk.topics
        for one in self._reader.unread_entries(chunk.entries):
            yield _label_pair(chunk.label, one)


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
