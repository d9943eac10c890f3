"""Stereo pairs of a bag or a folder with one face, one after another or in chunks."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.evaluation import datasets
from stereo_bp_ros.evaluation.bag_topics import StereoTopics, is_bag
from stereo_bp_ros.evaluation.datasets.entries import Pair

if TYPE_CHECKING:
    from stereo_bp_ros.evaluation import bags

__all__ = ['Chunk', 'ChunkReader', 'Pair', 'open_pairs', 'split']


def open_pairs(path: pathlib.Path, topics: StereoTopics | None = None
               ) -> tuple[int, Iterator[Pair]]:
    """Number of pairs and the pairs of a bag or a data set folder.

    :param topics: those of a bag that are not to be found by their names.
    :raises ValueError, StereoError: neither can be read.
    :raises ImportError: a bag without rosbags.
    """
    if is_bag(path):
        # Needs rosbags, which folders of images do without.
        from stereo_bp_ros.evaluation import bags
        with bags.StereoBag(path, topics) as bag:
            count = bag.pairs
        return count, _bag_pairs(path, topics)
    dataset = datasets.open_dataset(path)
    return len(dataset), iter(dataset)


def _bag_pairs(path: pathlib.Path, topics: StereoTopics | None) -> Iterator[Pair]:
    from stereo_bp_ros.evaluation import bags
    with bags.StereoBag(path, topics) as bag:
        yield from map(_pair_of_bag, bag.read())


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Consecutive pairs of a source, of which nothing is read yet.

    path:        of the source, absolute.
    topics:      of a bag.
    start, stop: indices of the pairs in the source, the last one excluded.
    entries:     where a bag has them; empty for a folder.
    before:      the pair before the first one; None: there is none.
    """

    path: pathlib.Path
    topics: StereoTopics | None
    start: int
    stop: int
    entries: tuple[bags.BagEntry, ...] = ()
    before: Chunk | None = None


def split(path: pathlib.Path, topics: StereoTopics | None = None, *, size: int = 32,
          limit: int = 0) -> tuple[int, Iterator[Chunk]]:
    """Number of pairs and chunks of them in the order of ``open_pairs``; decodes no image.

    The first chunk is one pair. A bag is read once, for its stamps, while chunks are taken.

    :param size: pairs of every other chunk, at least 1.
    :param limit: pairs of all, from the first on; 0 = all.
    :raises ValueError, StereoError, ImportError: as ``open_pairs``.
    """
    if is_bag(path):
        from stereo_bp_ros.evaluation import bags
        with bags.StereoBag(path, topics) as bag:
            count = bag.pairs
    else:
        count = len(datasets.open_dataset(path))
    count = min(count, limit or count)
    return count, _chunks(path, topics, count, size)


def _chunks(path: pathlib.Path, topics: StereoTopics | None, count: int, size: int
            ) -> Iterator[Chunk]:
    where = path.absolute()
    borders = [0, *range(1, count, size), count]
    spans = [(start, stop) for start, stop in itertools.pairwise(borders) if start < stop]
    if not is_bag(path):
        for start, stop in spans:
            before = Chunk(where, topics, start - 1, start) if start else None
            yield Chunk(where, topics, start, stop, before=before)
        return
    from stereo_bp_ros.evaluation import bags
    with bags.StereoBag(path, topics) as bag:
        index = bag.index()
        before = None
        for start, stop in spans:
            entries = tuple(itertools.islice(index, stop - start))
            if entries:         # a bag may have left images without a partner
                stop = start + len(entries)
                yield Chunk(where, topics, start, stop, entries, before)
                before = Chunk(where, topics, stop - 1, stop, entries[-1:])


class ChunkReader:
    """Reads chunks, and keeps the latest source open; to be closed, or used in ``with``."""

    def __init__(self) -> None:
        self._opened = contextlib.ExitStack()
        self._source: tuple[pathlib.Path, StereoTopics | None] | None = None
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
        """The pairs of a chunk, as ``open_pairs`` has them; the last chunk is to be read whole.

        :raises ValueError, StereoError: the source cannot be read, or has changed.
        :raises ImportError: a bag without rosbags.
        """
        if self._source != (chunk.path, chunk.topics):
            self.close()
            if chunk.entries:
                from stereo_bp_ros.evaluation import bags
                self._bag = self._opened.enter_context(bags.StereoBag(chunk.path, chunk.topics))
            else:
                self._dataset = datasets.open_dataset(chunk.path)
            self._source = chunk.path, chunk.topics
        if self._bag is not None:
            yield from map(_pair_of_bag, self._bag.read_entries(chunk.entries))
        elif self._dataset is not None:
            if chunk.stop > len(self._dataset):
                raise StereoError(f'{chunk.path} has changed: it had {chunk.stop} pairs or more, '
                                  f'and has {len(self._dataset)}')
            for index in range(chunk.start, chunk.stop):
                yield self._dataset[index]


def _pair_of_bag(pair: bags.BagPair) -> Pair:
    return Pair(str(pair.stamp_ns), pair.left, pair.right, pair.disparity, None,
                pair.calibration, pair.stamp_ns)
