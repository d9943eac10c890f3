"""How the iterations of a level are divided among launches, and the tiles of each. No CuPy.

``TABLE`` is that of an H200 (132 multiprocessors). Other devices take the row for as many nodes a
multiprocessor, and shorter launches where its tiles do not fit.
"""

from __future__ import annotations

import enum
import functools
import itertools
import math
from collections.abc import Mapping
from typing import NamedTuple

from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines.cuda.hierarchical import formats, launch
from stereo_bp_ros.engines.cuda.hierarchical.formats import (
    CHUNK,
    Int16Bytes,
    Int16SixBits,
    MessageFormat,
)
from stereo_bp_ros.engines.cuda.hierarchical.launch import (
    BOTH_COLOURS,
    FROM_MESSAGES,
    LABELS,
    LAST_COLOUR,
    Launch,
    Tiling,
)
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL, Properties
from stereo_bp_ros.errors import ConfigError


class Kind(enum.Enum):
    """Where the messages of a launch are while it runs."""

    STREAMED = 'device memory'      # one iteration
    ON_CHIP = 'shared memory'
    RESIDENT = 'registers'          # two iterations or more


class Row(NamedTuple):
    """What levels of up to ``nodes`` nodes get.

    longest: iterations of a launch; last: of the last one, 0 = the rest; last_kind: where that is
    not ``kind``.
    """

    nodes: float
    kind: Kind
    longest: int
    last_kind: Kind | None = None
    last: int = 0


class Rows(NamedTuple):
    """The rows of level 0 and of coarser levels, up to so many labels."""

    labels: int
    base: tuple[Row, ...]
    coarser: tuple[Row, ...]


STREAMED, ON_CHIP, RESIDENT = Kind
ANY = math.inf
_CHIP_5 = (Row(ANY, ON_CHIP, 5),)
_STREAM = (Row(ANY, STREAMED, 1),)
_STREAM_TO_LABELS = (Row(ANY, STREAMED, 1, ON_CHIP),)
_LONG = (Row(4.8e3, RESIDENT, 4), Row(20e3, ON_CHIP, 5, RESIDENT, 2))

#: By name of the format; floats by whether they are split.
TABLE: Mapping[str, tuple[Rows, ...]] = {
    'Int16Bytes': (
        Rows(16, _CHIP_5, (Row(30e3, RESIDENT, 7), Row(ANY, ON_CHIP, 7))),
        Rows(24, _CHIP_5, (Row(20e3, RESIDENT, 7), Row(50e3, RESIDENT, 5), Row(ANY, ON_CHIP, 7))),
        Rows(32, _CHIP_5, (Row(3.7e3, RESIDENT, 7), Row(24e3, RESIDENT, 5),
                           Row(50e3, RESIDENT, 4), *_CHIP_5)),
        Rows(48, _CHIP_5, (Row(20e3, RESIDENT, 4), *_CHIP_5)),
        Rows(80, (Row(305e3, ON_CHIP, 4), Row(310e3, ON_CHIP, 3), Row(ANY, ON_CHIP, 4)),
             (Row(10e3, RESIDENT, 5), Row(24e3, RESIDENT, 4), Row(50e3, ON_CHIP, 4, RESIDENT),
              Row(120e3, ON_CHIP, 5), Row(ANY, ON_CHIP, 4))),
        Rows(128, _STREAM_TO_LABELS, (Row(800, RESIDENT, 4), Row(5e3, RESIDENT, 2), *_STREAM)),
        Rows(512, _STREAM_TO_LABELS, _STREAM)),
    'Int16SixBits': (
        Rows(64, _STREAM_TO_LABELS, (*_LONG, Row(50e3, STREAMED, 1), Row(ANY, ON_CHIP, 4))),
        Rows(128, _STREAM_TO_LABELS,
             (Row(3.7e3, RESIDENT, 2), Row(8.2e3, STREAMED, 1, RESIDENT, 2), *_STREAM))),
    'Int16': (
        Rows(32, _CHIP_5, (Row(20e3, RESIDENT, 7), Row(ANY, RESIDENT, 5))),
        Rows(80, (Row(ANY, ON_CHIP, 4),), (*_LONG, Row(ANY, ON_CHIP, 4))),
        Rows(128, (Row(ANY, ON_CHIP, 3),), (Row(3.7e3, RESIDENT, 2), Row(ANY, ON_CHIP, 4))),
        Rows(512, _STREAM_TO_LABELS, _STREAM)),
    'floats': (
        Rows(8, _STREAM_TO_LABELS, (Row(20e3, RESIDENT, 7), *_STREAM)),
        Rows(16, (Row(250e3, STREAMED, 1, ON_CHIP), Row(ANY, RESIDENT, 3, ON_CHIP)),
             (Row(4.5e3, RESIDENT, 7), Row(20e3, RESIDENT, 4), *_STREAM)),
        Rows(24, (Row(200e3, ON_CHIP, 3), *_STREAM_TO_LABELS),
             (Row(800, RESIDENT, 7), Row(11e3, RESIDENT, 4), *_STREAM)),
        Rows(40, _STREAM_TO_LABELS, (Row(4.8e3, RESIDENT, 4), *_STREAM)),
        Rows(56, _STREAM_TO_LABELS, (Row(4.8e3, ON_CHIP, 4), *_STREAM))),
    'split floats': (
        Rows(80, _STREAM, (Row(3.7e3, ON_CHIP, 4), Row(5e3, STREAMED, 1, ON_CHIP, 3), *_STREAM)),
        Rows(128, _STREAM, (Row(3.7e3, ON_CHIP, 2), *_STREAM)),
        Rows(512, _STREAM, _STREAM)),
}

#: Tiles of nodes that stay with their threads, and of a single iteration that ends with labels.
RESIDENT_TILES = ((4, 2), (4, 4), (8, 4), (8, 8), (12, 8), (12, 12), (16, 12), (16, 16), (20, 16))
LABEL_TILES = ((64, 24), (40, 32), (32, 32), (32, 24), (24, 24), (32, 16), (16, 24), (16, 12),
               (16, 8), (12, 6), (8, 4), (4, 4), (2, 2))

SIX_BIT_TILES = ((30, 22), (30, 10), (14, 10), *LABEL_TILES[-3:])

#: Widths of other tiles; of int16 that end with labels whole lines, which the bus likes best.
WIDTHS, LABEL_WIDTHS = (64, 48, 40, 32, 24, 16, 12, 8, 4, 2), (32, 24, 16, 12, 8, 4, 2)

#: Most rows of tiles of int16 that end with labels. Up to 32 labels and three iterations have
#: fewer: their labels leave the device while other tiles are worked on.
LABEL_ROWS, EARLY_ROWS, FEW_LABELS, EARLY_ITERATIONS = 32, 16, 32, 3

#: Waves of resident tiles that are worth a smaller tile.
MAX_WAVES = 3

#: Threads of a warp of each scheduler, and of resident nodes what a direction waits for each
#: label, and a warp's other instructions of an iteration, in those of a label.
SCHEDULED_THREADS = 128
BYTE_TIMES, WORD_TIMES, FLOAT_TIMES = (1.09, 29.5, 1.5), (0.0, 11.0, 1.5), (2.06, 0.0, 1.0)


class Site(NamedTuple):
    """What tiles are chosen for: one level, and the device."""

    message: MessageFormat
    level: formats.Level
    k: int
    device: Properties

    def waves(self, width: int, height: int) -> float:
        """Tiles of this size for each multiprocessor."""
        return (-(-self.level.width // width) * -(-self.level.height // height)
                / self.device.multiprocessors)

    def step(self, tiling: Tiling, finish: int, first: int) -> Launch:
        """A launch of a tiling that begins with an even or an odd iteration."""
        return launch.placed(self.message, Launch(
            self.k, first, tiling.iterations, FROM_MESSAGES, finish, None, None, (None, None),
            tiling))

    def holds(self, tiling: Tiling, finish: int, parities: tuple[int, ...]) -> bool:
        """Whether blocks of the tiling fit the device."""
        return all(launch.fits_block(self.step(tiling, finish, first), self.device)
                   for first in parities)


@functools.lru_cache(maxsize=256)
def choose(config: ResolvedConfig, width: int, height: int, k: int, device: Properties) -> Tiling:
    """The tiling of level ``k`` that the table has.

    :raises ConfigError: not even the smallest tile fits the shared memory of a block.
    """
    site, row = _site(config, width, height, k, device)
    iterations = config.iterations_of_levels[k]
    rows = [row, *(row._replace(longest=longest) for longest in range(row.longest - 1, 1, -1)),
            Row(ANY, STREAMED, 1, row.last_kind or ON_CHIP), Row(ANY, STREAMED, 1, ON_CHIP)]
    for shorter in rows:
        tiling = _divided(site, shorter, iterations)
        if tiling is not None:
            return tiling
    raise ConfigError('disparity_range', config.disparity_range,
                      'vectors of this length do not fit the shared memory of the device')


def _site(config: ResolvedConfig, width: int, height: int, k: int, device: Properties
          ) -> tuple[Site, Row]:
    """What a level is, and its row of the table."""
    message, level = MessageFormat.of(config), formats.levels(config, width, height)[k]
    key = (message.names[0] if message.is_int16
           else 'split floats' if message.is_split else 'floats')
    rows = next(rows for rows in TABLE[key] if CHUNK * message.chunks <= rows.labels)
    nodes = level.width * level.height * TYPICAL.multiprocessors / device.multiprocessors
    row = next(row for row in (rows.coarser if k else rows.base) if nodes <= row.nodes)
    return Site(message, level, k, device), row


def _division(row: Row, iterations: int, is_base: bool) -> tuple[int, int]:
    """Iterations of a launch, and of the last one; 0 = as the others.

    Seven iterations in launches of four at most: of level 0 four and the rest. Other levels end
    with the messages of both colours, which takes two iterations or more.

    >>> row = Row(ANY, ON_CHIP, 5)
    >>> _division(row, 7, is_base=True), _division(row, 7, is_base=False)
    ((5, 2), (4, 3))
    >>> _division(Row(ANY, RESIDENT, 2), 7, is_base=False)      # 2, 2 and 3
    (2, 3)
    """
    if is_base:
        return row.longest, row.last or iterations % row.longest or row.longest
    if row.longest == 1 or row.last or iterations == 1:
        return row.longest, min(row.last, iterations) if iterations > 1 else 0
    launches = max(1, min(-(-iterations // row.longest), iterations // 2))
    each = (2 * iterations + launches) // (2 * launches)        # to the nearest
    return each, iterations - (launches - 1) * each


def _divided(site: Site, row: Row, iterations: int) -> Tiling | None:
    """The tiling of a row; None = it does not fit the device."""
    each, last = _division(row, iterations, site.k == 0)
    if not last:
        return launch.streamed_tiling(site.message)
    last = min(last, iterations)
    finish = _finish(site, last)
    # Beside int16 only the last launch's own parity counts.
    parities = (0, 1) if site.message.is_int16 else ((iterations - last) % 2,)
    end = _tiling(site, row.last_kind or row.kind, last, finish, parities,
                  is_alone=row.kind is STREAMED)
    if end is None or last == iterations:
        return end
    middle = _tiling(site, row.kind, min(each, iterations - last), LAST_COLOUR, (0, 1))
    return middle and middle._replace(last=end)


def _finish(site: Site, last: int) -> int:
    """What the last launch of a level leaves."""
    return launch.ending(site.message, last) if site.k == 0 else BOTH_COLOURS


def _tiling(site: Site, kind: Kind, iterations: int, finish: int, parities: tuple[int, ...],
            is_alone: bool = False) -> Tiling | None:
    """The tiling of one launch.

    :param is_alone: a single iteration that ends with labels, after others that stream.
    """
    if iterations == 1 and finish != LABELS:
        return launch.streamed_tiling(site.message)
    if kind is RESIDENT and finish != LABELS:
        return _resident(site, iterations, finish)
    if iterations == 1 and (is_alone or not site.message.is_int16):
        return _with_labels(site, parities)
    return _on_chip(site, iterations, finish, parities)


def _resident(site: Site, iterations: int, finish: int) -> Tiling | None:
    """The smallest tile of as few waves as may be; where these are many, the largest that fits."""
    def of(width: int, height: int) -> Tiling | None:
        for threads, directions in _resident_blocks(site, iterations, width, height, finish):
            tiling = Tiling(iterations, width, height, threads, directions, resident=True)
            if site.holds(tiling, finish, (0, 1)):
                return tiling
        return None

    for waves in range(1, MAX_WAVES + 1):
        for size in RESIDENT_TILES:
            if site.waves(*size) <= waves and (tiling := of(*size)):
                return tiling
    return next(filter(None, itertools.starmap(of, reversed(RESIDENT_TILES))), None)


def _resident_blocks(site: Site, iterations: int, width: int, height: int, finish: int
                     ) -> list[tuple[int, int]]:
    """Threads and directions of blocks whose nodes stay with them, the fastest first.

    A thread's time: that of its labels, and of the warps that share its scheduler.
    """
    message = site.message
    is_bytes = isinstance(message, Int16Bytes)
    latency, overhead, least = (BYTE_TIMES if is_bytes else
                                WORD_TIMES if message.is_int16 else FLOAT_TIMES)
    found = []
    for directions in (1, 2, 4):
        tiling = Tiling(iterations, width, height, 0, directions, resident=True)
        needed = [site.step(tiling, finish, first).threads for first in (0, 1)]
        threads = launch.resident_threads(message, directions, max(needed))
        if threads is not None:
            warps = max(least, needed[not is_bytes] / SCHEDULED_THREADS)
            found.append((directions * CHUNK * message.chunks * (latency + warps)
                          + overhead * warps, threads, directions))
    return [(threads, directions) for _, threads, directions in sorted(found)]


def _on_chip(site: Site, iterations: int, finish: int, parities: tuple[int, ...],
             most_waves: float = math.inf) -> Tiling | None:
    """As few waves of tiles as fit, all of one size, with the smallest halo.

    >>> message = formats.Int16Bytes(chunks=2, is_split=False, scale=1, slope=8, truncation=64)
    >>> site = Site(message, formats.Level(320, 240, 160), 1, TYPICAL)
    >>> _on_chip(site, 7, BOTH_COLOURS, (0, 1))[1:3]        # 10 x 12 for 132 multiprocessors
    (32, 20)
    """
    message, (width, height, _) = site.message, site.level
    has_labels = finish == LABELS and message.is_int16
    halo = iterations - 1 + (finish == LABELS)
    largest = WIDTHS[0]
    if has_labels:
        is_early = CHUNK * message.chunks <= FEW_LABELS and iterations <= EARLY_ITERATIONS
        largest = EARLY_ROWS if is_early else LABEL_ROWS
    waves, most_waves = 1, min(most_waves, width * height / site.device.multiprocessors + 1)
    while waves <= most_waves:
        found = []
        for w in LABEL_WIDTHS if has_labels else WIDTHS:
            rows = waves * site.device.multiprocessors // -(-width // w)
            h = 2 * -(-height // (2 * rows)) if rows else largest + 1
            if h > (largest if message.is_split else min(w, largest)):
                continue                # long rows are whole lines of memory
            threads, directions = launch.block(message, w * h, iterations)
            tiling = Tiling(iterations, w, h, threads, directions)
            if site.holds(tiling, finish, parities):
                # The first iteration updates all, the last the tile; split vectors wait for rows
                # that arrive.
                updated = (w + 2 * halo + 4 * message.is_split) * (h + 2 * halo) + (
                    0 if message.is_split else w * h)
                found.append((has_labels and w != LABEL_WIDTHS[0], updated, -w, tiling))
        if found:
            return min(found)[-1]
        waves += 1 + waves // 8         # many are alike
    return None


def _with_labels(site: Site, parities: tuple[int, ...]) -> Tiling | None:
    """A single iteration that ends with labels: one wave, or the largest tile that fits."""
    threads, directions = launch.block(site.message, 0, 1)
    sizes: tuple[tuple[int, int], ...] = LABEL_TILES
    if isinstance(site.message, Int16SixBits):
        sizes, threads, directions = SIX_BIT_TILES, launch.SIX_BIT_LABEL_THREADS, 2
    elif tiling := _on_chip(site, 1, LABELS, parities, most_waves=1):
        return tiling
    return next((tiling for width, height in sizes if site.holds(
        tiling := Tiling(1, width, height, threads, directions), LABELS, parities)), None)
