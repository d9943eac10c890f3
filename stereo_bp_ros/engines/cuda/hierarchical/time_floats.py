"""``time_model`` for messages of floats: coefficients, each with a worked example. No CuPy."""

from __future__ import annotations

import dataclasses
import math

from stereo_bp_ros.engines.cuda.hierarchical.formats import Level, MessageFormat
from stereo_bp_ros.engines.cuda.hierarchical.launch import (
    PUBLISHED_PER_US,
    Tiling,
    Work,
    tiles_of,
)
from stereo_bp_ros.engines.cuda.runtime.device import Speed

#: The device that all coefficients here were measured on.
ONE = Speed()

#: Bytes of a level's messages that the L2 cache holds from one iteration to the next, of 50 MiB.
CACHED_BYTES = 35e6

#: Threads of a warp of each scheduler.
SCHEDULED_THREADS = 128


def predicted(work: Work) -> float:
    """Microseconds of one launch; the first of several iterations begins with its parents'."""
    if work.launch.iterations == 1:
        if work.message.is_split:
            return _streamed_split(work)
        return _single_with_labels(work) if work.selects else _streamed(work)
    return _resident(work) if work.tiling.resident else _on_chip(work)


@dataclasses.dataclass(frozen=True)
class StreamedSplit:
    """One iteration of split vectors through device memory: traffic, and the last tile's time."""

    start: float = 1.6
    label: float = 0.0175               # of a tile that is there alone
    cached_bytes_per_us: float = 4.7e6
    bytes_per_us: float = 3.4e6


STREAMED_SPLIT = StreamedSplit()


def _streamed_split(work: Work) -> float:
    """All tiles take as long as what they move, and the last one as long as it does alone.

    64 labels of ``Fixed32``: 337500 nodes of 8 messages of 128 bytes and 64 bytes of costs move
    367 MB. The level's 346 MB of messages exceed the cache: 108 us, and 1.6 + 1.1 us.

    >>> launch = Launch(0, 0, 1, 2, LAST_COLOUR, 'messages_0_0', None, (None, 'messages_0_1'),
    ...                 Tiling(1, 32, 2, 128, 1, 2))
    >>> message = Fixed32(chunks=8, is_split=True, scale=1.0, slope=16384, truncation=131072)
    >>> round(_streamed_split(Work(message, 64, Level(900, 750, 464), launch, TYPICAL)), 1)
    110.7
    """
    c, labels, message_bytes = STREAMED_SPLIT, work.labels, work.message.message_bytes
    moved = work.pixels / 2 * (8 * message_bytes + labels)
    speed = work.device.speed
    is_cached = work.pixels * 4 * message_bytes < CACHED_BYTES * speed.cache
    return c.start + c.label * labels / speed.clock + moved / (
        c.cached_bytes_per_us * speed.chip if is_cached else c.bytes_per_us * speed.memory)


@dataclasses.dataclass(frozen=True)
class Streamed:
    """One iteration through device memory: a wave takes its bytes' time, or that of one tile."""

    start: float = 1.5
    label: float = 0.037                # of a tile that is there alone
    one_direction: float = 1.2          # factor of that
    bytes_per_us: float = 28e3          # of a multiprocessor
    cached_bytes_per_us: float = 38e3


STREAMED = Streamed()


def _streamed(work: Work) -> float:
    """One iteration that reads and writes device memory.

    24 labels in three bytes: tiles of 32 x 4 move 64 * (8 * 72 + 48) = 39.9 kB. Of 450 x 375
    nodes, whose 48.6 MB of messages exceed the cache, there are 1410, which are 10.7 waves of 132:
    9.7 waves at 1.43 us follow one of 2.4 us.

    >>> launch = Launch(0, 0, 1, 2, LAST_COLOUR, 'messages_0_0', None, (None, 'messages_0_1'),
    ...                 Tiling(1, 32, 4, 128, 1, 2))
    >>> message = Float32ThreeBytes(chunks=3, is_split=False, scale=1.0, slope=1.0, truncation=1.5)
    >>> round(_streamed(Work(message, 24, Level(450, 375, 240), launch, TYPICAL)), 1)
    16.2
    """
    c, message, labels, tiling = STREAMED, work.message, work.labels, work.tiling
    moved = tiling.width * tiling.height / 2 * (8 * message.message_bytes + 2 * labels)
    speed = work.device.speed
    alone = ((c.start + c.label * labels / speed.clock)
             * (c.one_direction if tiling.directions == 1 else 1.0))
    is_cached = work.pixels * 4 * message.message_bytes < CACHED_BYTES * speed.cache
    # A multiprocessor's part of what all of them share.
    rate = (c.cached_bytes_per_us * speed.clock if is_cached
            else c.bytes_per_us * speed.memory * speed.clock / speed.chip)
    return alone + max(work.waves - 1, 0.0) * moved / rate


@dataclasses.dataclass(frozen=True)
class SingleWithLabels:
    """One iteration on chip that ends with labels: the time of a wave."""

    start: float = 5.5
    node: float = 4.2e-5                # of a byte of a message and the root of the labels


SINGLE_WITH_LABELS = SingleWithLabels()


def _single_with_labels(work: Work) -> float:
    """One iteration whose tile, with a halo of one, ends with labels.

    24 labels in three bytes, a tile of 14 x 14: 128 nodes of 72 bytes take
    128 * 72 * 4.9 * 4.2e-5 = 1.9 us beside 5.5 us, for each of 6.75 waves.

    >>> launch = Launch(0, 6, 1, 2, LABELS, 'messages_0_0', None, (None, None),
    ...                 Tiling(1, 14, 14, 512, 1, 2))
    >>> message = Float32ThreeBytes(chunks=3, is_split=False, scale=1.0, slope=1.0, truncation=1.5)
    >>> round(_single_with_labels(Work(message, 24, Level(450, 375, 240), launch, TYPICAL)), 1)
    49.9
    """
    c, tiling = SINGLE_WITH_LABELS, work.tiling
    nodes = (tiling.width + 2) * (tiling.height + 2) / 2
    return max(work.waves, 1.0) * (
        c.start + c.node * work.message.message_bytes * math.sqrt(work.labels) * nodes
        / work.device.speed.clock)


@dataclasses.dataclass(frozen=True)
class Resident:
    """Nodes that stay with their threads."""

    start: float = 2.7
    label: float = 0.0107               # of a direction
    label_per_warp: float = 0.0052      # of a scheduler
    byte: float = 4.2e-7                # of messages on chip, loaded and stored


RESIDENT = Resident()


def _resident(work: Work) -> float:
    """Nodes that stay with their threads.

    16 labels in three bytes, two iterations, one direction, 256 threads (2 warps a scheduler): an
    iteration takes 16 * (0.0107 + 0.0104) = 0.34 us.

    >>> launch = Launch(3, 0, 2, 1, LAST_COLOUR, None, None, (None, 'messages_3_0'),
    ...                 Tiling(2, 8, 4, 256, 1, 1, resident=True), 2, 2, 6, 8, 0, 256)
    >>> message = Float32ThreeBytes(chunks=2, is_split=False, scale=1.0, slope=1.0, truncation=1.5)
    >>> round(_resident(Work(message, 16, Level(48, 36, 32), launch, TYPICAL)), 2)
    3.58
    """
    c, step = RESIDENT, work.launch
    warps = max(1.0, step.threads / SCHEDULED_THREADS)
    speed = work.device.speed
    return (c.start + work.waves_in_step * step.iterations * work.tiling.directions * work.labels
            * (c.label + c.label_per_warp * warps) / speed.clock
            + c.byte * work.bytes_on_chip / speed.chip)


@dataclasses.dataclass(frozen=True)
class OnChip:
    """Tiles with their halo in shared memory."""

    start: float = 3.0
    iteration: float = 0.1              # of a block
    value: float = 6.76e-4              # of a label of an updated node
    round: float = 0.2                  # of as many nodes as a block has threads for
    selected: float = 3.4e-4            # of a label of a pixel of a tile
    lanes_power: float = 0.45           # lanes that have parts of a side repeat the others' work
    full: float = 0.7                   # share of the shared memory from which on costs are read
    full_slope: float = 0.28            # again past the cache: more time by share
    row_unit: float = 4.7e-5            # of a unit of a row of a tile that is loaded


ON_CHIP = OnChip()


def _on_chip(work: Work) -> float:
    """Tiles with a halo: every iteration takes its nodes' time, and that of whole rounds.

    16 labels in three bytes, two iterations over tiles of 16 x 8: 18 * 10 / 2 and 64 nodes are 154
    at 16 * 6.76e-4 us, 1.7 us; a block has 256 nodes at once, 2 rounds are 0.4 us, 2 starts
    0.2 us. Three waves of 2.3 us and the units of ten rows of 360 tiles follow 3 us.

    >>> launch = Launch(1, 0, 2, 1, LAST_COLOUR, None, None, (None, 'messages_1_a_0'),
    ...                 Tiling(2, 16, 8, 256, 1, 4))
    >>> message = Float32ThreeBytes(chunks=2, is_split=False, scale=1.0, slope=1.0, truncation=1.5)
    >>> round(_on_chip(Work(message, 16, Level(320, 144, 160), launch, TYPICAL)), 1)
    10.8
    """
    c, message, step, tiling = ON_CHIP, work.message, work.launch, work.tiling
    block = c.iteration * step.iterations
    each = work.labels * (message.lanes / 2 if message.is_split else 1) ** c.lanes_power
    for i in range(step.iterations):
        nodes = work.updated(i)
        block += c.value * each * nodes + c.round * math.ceil(nodes / work.nodes_at_once)
    if work.selects:
        block += c.selected * each * tiling.width * tiling.height
    block *= 1 + c.full_slope * max(step.shared_bytes / work.device.shared_memory - c.full, 0.0)
    halo = step.iterations - 1 + work.selects
    speed = work.device.speed
    return (c.start + work.waves_in_step * block / speed.clock
            + loading(message, work.level, tiling, halo, speed))


def loading(message: MessageFormat, level: Level, tiling: Tiling, halo: int,
            speed: Speed = ONE) -> float:
    """Microseconds for messages to arrive at a launch's nodes: as many as there are rows of units.

    From the level above; from the same one, it takes that twice.

    360 tiles of 16 x 8 of 320 x 144 nodes load 10 rows each, of 6 units at 4.7e-5 us:

    >>> message = Float32ThreeBytes(chunks=2, is_split=False, scale=1.0, slope=1.0, truncation=1.5)
    >>> round(loading(message, Level(320, 144, 160), Tiling(2, 16, 8, 256, 1, 4), 1), 2)
    1.02
    """
    rows = min(tiling.height + 2 * halo, level.height)
    return ON_CHIP.row_unit * tiles_of(level, tiling) * rows * message.units / speed.chip


@dataclasses.dataclass(frozen=True)
class Labelling:
    """The labels that a last single iteration of split vectors leaves."""

    least: float = 3.0
    bytes_per_us: float = 3.5e6


LABELLING = Labelling()


def labelling(message: MessageFormat, labels: int, level: Level, speed: Speed = ONE) -> float:
    """Microseconds for these labels, and publication.

    64 labels of ``Fixed32``: 337500 nodes read 4 messages of 128 bytes and 64 bytes of costs,
    194 MB in 55.5 us; 675000 labels leave in 62.8 us.

    >>> message = Fixed32(chunks=8, is_split=True, scale=1.0, slope=16384, truncation=131072)
    >>> round(labelling(message, 64, Level(900, 750, 464)), 1)
    62.8
    """
    nodes = level.width * level.height / 2
    moved = nodes * (4 * message.message_bytes + labels)
    return max(LABELLING.least + moved / (LABELLING.bytes_per_us * speed.memory),
               level.width * level.height / PUBLISHED_PER_US)
