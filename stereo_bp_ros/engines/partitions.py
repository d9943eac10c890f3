"""Images cut into padded partitions: arithmetic only, no array is made here.

Where the memory plan exceeds the memory allowed, belief propagation runs on one partition of the
image after the other (LCPC 2010, section 9). Everything else is done once for the whole image.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections.abc import Callable
from typing import NamedTuple

from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.engines.geometry import MemoryPlan
from stereo_bp_ros.errors import ConfigError, MemoryLimitError

#: Minimum width and height of an image, and so of a partition, pixels.
MIN_SIZE = 16


class Split(NamedTuple):
    """How one side of an image is cut into overlapping pieces of one size.

    size: pixels of every piece, with its padding; starts: first pixel of each piece, a multiple
    of the alignment; bounds: of piece i the pixels [bounds[i], bounds[i + 1]) are kept.
    """

    size: int
    starts: tuple[int, ...]
    bounds: tuple[int, ...]


class Rectangle(NamedTuple):
    """Pixels with left <= x < right and top <= y < bottom."""

    left: int
    top: int
    right: int
    bottom: int


class Partition(NamedTuple):
    """A padded rectangle of the image: its first pixel, and the pixels of the image it is for."""

    x: int
    y: int
    kept: Rectangle


@dataclasses.dataclass(frozen=True)
class Partitioning:
    """All partitions of an image: all of one size, so that one set of arrays does for them."""

    columns: Split
    rows: Split

    @property
    def width(self) -> int:
        """Of every partition, pixels."""
        return self.columns.size

    @property
    def height(self) -> int:
        """Of every partition, pixels."""
        return self.rows.size

    @property
    def count(self) -> int:
        """How many partitions there are; 1 = the image is not cut."""
        return len(self.columns.starts) * len(self.rows.starts)

    @property
    def nodes(self) -> int:
        """Pixels of all partitions together: what is computed on."""
        return self.count * self.width * self.height

    @property
    def padding(self) -> int:
        """Minimum distance of a kept pixel from the border of its partition in the image."""
        overlaps = [bound - start for side in (self.columns, self.rows)
                    for start, bound in zip(side.starts[1:], side.bounds[1:-1], strict=True)]
        return min(overlaps, default=0)

    @property
    def partitions(self) -> list[Partition]:
        """From left to right in each row, the topmost row first."""
        across, down = (list(zip(side.starts, itertools.pairwise(side.bounds), strict=True))
                        for side in (self.columns, self.rows))
        return [Partition(x, y, Rectangle(left, top, right, bottom))
                for y, (top, bottom) in down for x, (left, right) in across]

    def __str__(self) -> str:
        return (f'{len(self.columns.starts)} x {len(self.rows.starts)} partitions of '
                f'{self.width} x {self.height} pixels')


def whole(width: int, height: int) -> Partitioning:
    """The image as the only partition."""
    return Partitioning(Split(width, (0,), (0, width)), Split(height, (0,), (0, height)))


def split(length: int, count: int, alignment: int, padding: int) -> Split | None:
    """Split ``length`` pixels into ``count`` pieces of the minimum size; None = too short.

    Pieces start at multiples of ``alignment``, and the last one ends with the image. At a cut
    both of its pieces go on for ``padding`` pixels at least.
    """
    if count == 1:
        return Split(length, (0,), (0, length))
    size = _min_size(length, count, alignment, padding)
    if size is None:
        return None
    steps = (length - size) // alignment
    starts = tuple(alignment * (i * steps // (count - 1)) for i in range(count))
    middles = ((after + before + size) // 2 for before, after in itertools.pairwise(starts))
    return Split(size, starts, (0, *middles, length))


def _min_size(length: int, count: int, alignment: int, padding: int) -> int | None:
    """Pixels of the pieces of ``split`` for a count of at least 2; None = too short for that."""
    # The most steps from the first to the last start at which the longest step and the padding
    # on both of its sides still fit a piece: steps + ceil(steps / (count - 1)) <= available.
    available = (length - 2 * padding) // alignment
    steps = available * (count - 1) // count
    size = length - alignment * steps
    return None if steps < count - 1 or size < MIN_SIZE else size


def alignment(config: MatcherConfig) -> int:
    """Where partitions may start: multiples of this many pixels.

    Then every level of a partition's pyramid has the image's nodes, each of its own colour.
    """
    return 2 ** config.levels


def of_coarse(config: MatcherConfig, width: int, height: int, parts: Partitioning
              ) -> Partitioning:
    """How the images of a first pass are cut: as those of the second, if they are large enough.

    :param config: of the first pass.
    :param width, height: of its images, pixels.
    """
    padding, step = -(-config.partition_padding // 2), alignment(config)
    uncut = whole(width, height)
    return Partitioning(split(width, len(parts.columns.starts), step, padding) or uncut.columns,
                        split(height, len(parts.rows.starts), step, padding) or uncut.rows)


def can_be_cut(config: MatcherConfig) -> bool:
    """Whether the way of matching is one that partitions are for.

    The papers' plain steps are not: they are there to be measured as they are.
    """
    return config.stereo_algorithm == 'bp' and config.program == 'default'


def choose(config: MatcherConfig, width: int, height: int, allowed: int,
           plan_of: Callable[[Partitioning], MemoryPlan]) -> Partitioning:
    """How an image is cut so that its plan fits: not at all, else with the fewest nodes.

    Partitions smaller than thrice their padding are not thought of: with them the padding would
    take nearly all of the time.

    :param allowed: bytes; ``plan_of``: the plan of an engine that cuts images in this way.
    :raises MemoryLimitError: not even the smallest partitions fit.
    :raises ConfigError: partition_columns or partition_rows do not fit into the image.
    """
    uncut = whole(width, height)
    if not can_be_cut(config):
        plan_of(uncut).check(allowed)
        return uncut
    if config.partition_columns == config.partition_rows == 0:
        needed = plan_of(uncut).total
        if needed <= allowed:
            return uncut
    found = list(itertools.starmap(Partitioning, itertools.product(
        _splits(config, 'partition_columns', width), _splits(config, 'partition_rows', height))))
    # The larger a partition, the more memory: the largest that fits is found by halving.
    by_area = sorted({p.width * p.height: p for p in found}.values(),
                     key=lambda p: p.width * p.height)
    fitting = bisect.bisect_right(by_area, allowed, key=lambda p: plan_of(p).total)
    if fitting:
        most = by_area[fitting - 1].width * by_area[fitting - 1].height
        for candidate in sorted((p for p in found if p.width * p.height <= most),
                                key=lambda p: (p.nodes, p.count)):
            if plan_of(candidate).total <= allowed:
                return candidate
    raise MemoryLimitError(plan_of(by_area[0]).total, allowed)


def _splits(config: MatcherConfig, name: str, length: int) -> list[Split]:
    """Candidate splits of one side, or the one that is asked for."""
    padding, count = config.partition_padding, getattr(config, name)
    step = alignment(config)
    if count:
        asked = split(length, count, step, padding)
        if asked is None:
            raise ConfigError(name, count, f'with padding {padding} and {config.levels} levels '
                              f'{length} pixels cannot be cut into so many')
        return [asked]
    found = [Split(length, (0,), (0, length))]
    for pieces in range(2, length // max(step, padding) + 2):
        size = _min_size(length, pieces, step, padding)
        if size is None or size < 3 * padding:
            break
        if size < found[-1].size and (made := split(length, pieces, step, padding)):
            found.append(made)
    return found
