"""``time_model`` for messages of int16: coefficients, each with a worked example. No CuPy."""

from __future__ import annotations

import dataclasses
import math

from stereo_bp_ros.engines.cuda.hierarchical.formats import (
    Int16Bytes,
    Int16Deltas,
    Int16SixBits,
    Level,
    MessageFormat,
)
from stereo_bp_ros.engines.cuda.hierarchical.launch import (
    LIMITS,
    PUBLISHED_PER_US,
    Tiling,
    Work,
    tiles_of,
)
from stereo_bp_ros.engines.cuda.runtime.device import Speed

#: The device that all coefficients here were measured on.
ONE = Speed()


def predicted(work: Work) -> float:
    """Microseconds of one launch.

    The first: a single iteration, but for labels that keep their tile on chip.
    """
    if work.launch.iterations == 1 and (
            isinstance(work.message, Int16SixBits) or not work.selects):
        return _streamed(work)
    return _resident(work) if work.tiling.resident else _on_chip(work)


@dataclasses.dataclass(frozen=True)
class Streamed:
    """One iteration of int16 through device memory: the larger of traffic and instructions."""

    start: float                # of a launch
    start_per_label: float      # the first node's way through a block
    value: float                # of a label of an updated node, in one lane
    bytes_per_us: float = 3.7e6


STREAMED = Streamed(start=2.2, start_per_label=0.01, value=2.2e-6)
STREAMED_SIX_BITS = Streamed(start=1.4, start_per_label=0.015, value=1.9e-6)


@dataclasses.dataclass(frozen=True)
class SixBitLabels:
    """What labels of a single iteration in 6 bits multiply its time by."""

    both_colours: float = 1.55          # the nodes of the other colour, and the halo
    alone: float = 0.9                  # of one wave: nothing hides its loads
    slack: float = 0.1                  # of a wave that may be missing
    tail: float = 0.6                   # exponent of the share of the last wave that is empty
    other_threads: float = 1.1          # fewer warps than ``label_threads``


SIX_BIT_LABELS = SixBitLabels()


def _streamed(work: Work) -> float:
    """One iteration that reads and writes device memory.

    64 labels in 6 bits, level 0 of 900 x 750: 337500 nodes of 8 messages of 48 bytes, read and
    written, and 64 bytes of costs move 151 MB, which takes 41 us; with 337500 * 64 values at
    1.9e-6 us the instructions take 41 us, too. 2.4 us are the start.

    >>> launch = Launch(0, 0, 1, 2, LAST_COLOUR, 'messages_0_0', None, (None, 'messages_0_1'),
    ...                 Tiling(1, 16, 8, 128, 1, 2))
    >>> message = Int16SixBits(chunks=8, is_split=False, scale=1, slope=30, truncation=256)
    >>> round(_streamed(Work(message, 64, Level(900, 750, 464), launch, TYPICAL)), 1)
    43.4
    """
    message, labels, tiling = work.message, work.labels, work.tiling
    c = STREAMED_SIX_BITS if isinstance(message, Int16SixBits) else STREAMED
    nodes = work.pixels / 2
    cost_bytes = labels * (1 if work.launch.level == 0 else 2)
    moved = nodes * (8 * message.message_bytes + cost_bytes)
    speed = work.device.speed
    time = max(moved / (c.bytes_per_us * speed.memory),
               message.lanes * (c.value * nodes * labels) / speed.chip)
    if work.selects:
        s, waves = SIX_BIT_LABELS, work.waves
        together = tiling.threads * tiling.directions // 4
        rounds = math.ceil((tiling.width + 2) * (tiling.height + 2) / 2 / together)
        time *= (rounds * together * 2 / (tiling.width * tiling.height)
                 * (s.both_colours + s.alone / waves))
        time *= max(1.0, math.ceil(waves - s.slack) / waves) ** s.tail
        if tiling.threads != LIMITS.label_threads:
            time *= s.other_threads
        time = max(time, work.pixels / PUBLISHED_PER_US)
    return time + (c.start + c.start_per_label * labels)


@dataclasses.dataclass(frozen=True)
class Labels:
    """Labels at the end of a launch of int16 on chip."""

    value: float = 0.85e-5              # of a label of a pixel of a tile
    more_labels: int = 12               # that a pixel's refinement takes as long as
    long: int = 64                      # labels; longer vectors spill with their iterations
    long_power: int = 3
    published: float = 0.35             # parts of the publication that remain to be seen:
    published_bytes: float = 0.6        # of one wave, messages in bytes
    published_wider: float = 0.4        # of one wave, others
    published_part_lines: float = 0.2   # rows of a tile are no whole lines
    line: int = 32


FINAL_LABELS = Labels()


def _selecting(work: Work) -> float:
    """The labels of one block.

    16 labels of a tile of 32 x 16 in one launch of two iterations: 28 * 512 * 0.85e-5 us, and no
    more, because the vectors are short: (16 / 64)^3 counts as 1.

    >>> launch = Launch(0, 5, 2, 2, LABELS, 'messages_0_a_1', None, (None, None),
    ...                 Tiling(2, 32, 16, 512, 1, 4))
    >>> message = Int16Bytes(chunks=2, is_split=False, scale=1, slope=8, truncation=64)
    >>> round(_selecting(Work(message, 16, Level(384, 288, 192), launch, TYPICAL)), 3)
    0.122
    """
    if not work.selects:
        return 0.0
    c, labels, tiling = FINAL_LABELS, work.labels, work.tiling
    time = (c.value * (labels + c.more_labels) * tiling.width * tiling.height
            / work.device.speed.clock)
    if work.launch.iterations > 1:
        time *= max(1.0, labels / c.long) ** c.long_power
    return time


def _publishing(work: Work) -> float:
    """The labels' way through the bus, while other tiles are worked on; best in whole lines.

    384 x 288 pixels take 10.3 us. Of one wave of tiles of 32 columns, in bytes, 0.35 + 0.6 parts
    of that remain.

    >>> launch = Launch(0, 5, 2, 2, LABELS, 'messages_0_a_1', None, (None, None),
    ...                 Tiling(2, 32, 32, 512, 1, 4))
    >>> message = Int16Bytes(chunks=2, is_split=False, scale=1, slope=8, truncation=64)
    >>> work = Work(message, 16, Level(384, 288, 192), launch, TYPICAL)
    >>> work.waves_in_step, round(_publishing(work), 1)
    (1, 9.8)
    """
    if not work.selects:
        return 0.0
    c = FINAL_LABELS
    last = c.published_bytes if isinstance(work.message, Int16Bytes) else c.published_wider
    return work.pixels / PUBLISHED_PER_US * (
        c.published + last / work.waves_in_step
        + c.published_part_lines * (work.tiling.width % c.line > 0))


@dataclasses.dataclass(frozen=True)
class ResidentBytes:
    """Nodes of ``Int16Bytes`` that stay with their threads."""

    start: float = 2.5
    iteration: float = 0.05
    iteration_per_warp: float = 0.065   # of a scheduler
    label: float = 2.4e-3               # of a direction
    label_per_warp: float = 2.2e-3
    byte: float = 0.45e-6               # of messages on chip, loaded and stored


@dataclasses.dataclass(frozen=True)
class ResidentInt16:
    """Nodes of the other formats of int16 that stay with their threads."""

    start: float = 2.3
    instructions: int = 60              # of an iteration
    word: int = 9                       # instructions of two labels of a direction
    word_of_deltas: int = 12
    label: float = 2.8e-3               # latency of the chain over labels
    instruction: float = 0.7e-3         # of a warp of a scheduler
    byte: float = 0.2e-6


RESIDENT_BYTES, RESIDENT_INT16 = ResidentBytes(), ResidentInt16()

#: Warps that hide latencies of int16 whatever there is, and threads of a warp of each scheduler.
LEAST_WARPS, SCHEDULED_THREADS = 1.5, 128


def _resident(work: Work) -> float:
    """Nodes that stay with their threads.

    16 labels in bytes, four iterations, 256 threads (2 warps a scheduler), all four directions: an
    iteration takes 0.05 + 0.13 + 64 * 6.8e-3 = 0.615 us. One wave and 35 tiles with 49152 bytes:

    >>> launch = Launch(3, 0, 4, 1, LAST_COLOUR, None, None, (None, 'messages_3_0'),
    ...                 Tiling(4, 8, 8, 256, 1, 4, resident=True), 4, 4, 8, 16, 0, 256)
    >>> message = Int16Bytes(chunks=2, is_split=False, scale=1, slope=8, truncation=64)
    >>> work = Work(message, 16, Level(48, 36, 32), launch, TYPICAL)
    >>> work.bytes_on_chip, round(_resident(work), 2)
    (245760, 5.07)
    """
    message, labels, step, speed = (work.message, work.labels, work.launch,
                                    work.device.speed)
    directions, waves = work.tiling.directions, work.waves_in_step
    warps = max(LEAST_WARPS, step.threads / SCHEDULED_THREADS)
    if isinstance(message, Int16Bytes):
        b = RESIDENT_BYTES
        iteration = (b.iteration + b.iteration_per_warp * warps
                     + directions * labels * (b.label + b.label_per_warp * warps))
        return (b.start + waves * step.iterations * iteration / speed.clock
                + work.bytes_on_chip * b.byte / speed.chip)
    c = RESIDENT_INT16
    each = c.word_of_deltas if isinstance(message, Int16Deltas) else c.word
    instructions = c.instructions + directions * labels / 2 * each
    iteration = (c.label * labels + c.instruction * instructions * warps) / speed.clock
    return (c.start + waves * (step.iterations * iteration + _selecting(work))
            + _publishing(work) + work.bytes_on_chip * c.byte / speed.chip)


@dataclasses.dataclass(frozen=True)
class OnChip:
    """Tiles of int16 with their halo in shared memory."""

    start: float = 4.5
    block_per_label: float = 0.02
    block_per_label_alone: float = 0.03     # of a single iteration
    value: float = 1.65e-4                  # of a label of an updated node, in one lane
    round: float = 0.086                    # of as many nodes as a block has threads for
    round_per_label: float = 0.0103
    byte: float = 0.055e-6                  # of messages that are loaded
    own_byte: float = 0.19e-6               # more, of messages of the same level
    sector_bytes: int = 64                  # loaded in vain at both ends of a row
    full: float = 0.85                      # share of the shared memory from which on costs are
    full_factor: float = 1.05               # read again past the cache


ON_CHIP = OnChip()


def _on_chip(work: Work) -> float:
    """Tiles with a halo: every iteration takes its nodes' time, and that of whole rounds.

    64 labels, two iterations over tiles of 24 x 16 from the parents' messages: 26 * 18 / 2 and
    24 * 16 / 2 nodes are 426 at 64 * 1.65e-4 us, 4.5 us; of 128 nodes at once each takes 2 rounds
    of 0.745 us; with 64 * 0.02 us before them the block takes 8.8 us. A multiprocessor has 13.5
    blocks, 119 us; their loads take 16 us and the start 4.5 us.

    >>> launch = Launch(0, 0, 2, 1, LAST_COLOUR, None, None, (None, 'messages_0_a_0'),
    ...                 Tiling(2, 24, 16, 256, 1, 2))
    >>> message = Int16(chunks=8, is_split=False, scale=1, slope=8, truncation=999)
    >>> round(_on_chip(Work(message, 64, Level(900, 750, 464), launch, TYPICAL)))
    139
    """
    c, message, labels, step, tiling = (ON_CHIP, work.message, work.labels, work.launch,
                                        work.tiling)
    speed = work.device.speed
    block = (_selecting(work) * speed.clock
             + (c.block_per_label if step.iterations > 1 else c.block_per_label_alone) * labels)
    for i in range(step.iterations):
        nodes = work.updated(i)
        block += c.value * labels * message.lanes * nodes
        block += math.ceil(nodes / work.nodes_at_once) * (c.round + c.round_per_label * labels)
    block /= speed.clock
    if step.shared_bytes > c.full * work.device.shared_memory:
        block *= c.full_factor
    # Rows of a tile begin and end within sectors of 32 bytes.
    sectors = 1 + c.sector_bytes / (tiling.width * message.unit_bytes)
    return (c.start + work.waves_in_step * block + _publishing(work)
            + tiles_of(work.level, tiling) * _loaded_nodes(tiling) * 4 * message.message_bytes
            * sectors * c.byte / speed.chip)


def _loaded_nodes(tiling: Tiling) -> float:
    """Nodes of one colour of a tile and of the halo that all of its iterations need.

    >>> _loaded_nodes(Tiling(2, 24, 16, 256, 1, 2))         # 28 * 20 / 2
    280.0
    """
    halo = tiling.iterations
    return (tiling.width + 2 * halo) * (tiling.height + 2 * halo) / 2


def reading(message: MessageFormat, level: Level, tiling: Tiling, speed: Speed = ONE) -> float:
    """Microseconds that messages of the own level take longer than those of the parents.

    1786 tiles of 24 x 16, two iterations, 64 labels of 16 bits: 280 nodes each load 4 messages of
    128 bytes more at 0.19e-6 us a byte.

    >>> message = Int16(chunks=8, is_split=False, scale=1, slope=8, truncation=999)
    >>> round(reading(message, Level(900, 750, 464), Tiling(2, 24, 16, 256, 1, 2)), 1)
    48.6
    """
    return (tiles_of(level, tiling) * _loaded_nodes(tiling) * 4 * message.message_bytes
            * ON_CHIP.own_byte / speed.chip)
