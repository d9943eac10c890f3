"""Every array of the CUDA engine and every pass over them, before one is made. No CuPy here."""

from __future__ import annotations

import functools
import itertools
import math
from typing import NamedTuple

from stereo_bp_ros import geometry
from stereo_bp_ros.config import MatcherConfig, round_half_up
from stereo_bp_ros.engines.cuda import sad_plan
from stereo_bp_ros.engines.cuda.device import TYPICAL, Properties
from stereo_bp_ros.errors import ConfigError

Wanted = list[tuple[str, tuple[int, ...], str]]

#: Ranges from here on keep int16 messages as differences in bytes, where these are exact: what
#: is moved is halved, what is computed grows.
LEAST_RANGE_OF_DELTAS = 32

#: Bytes of shared memory that a block takes beside what is asked for.
STATIC_SHARED = 1024

#: What a pass starts from, and what it leaves in memory; numbers as in ``messages.cu``.
FROM_ZERO, FROM_PARENTS, FROM_MESSAGES = range(3)
LAST_COLOUR, BOTH_COLOURS, LABELS = range(3)

#: The C++ types of the messages.
MESSAGE_TYPES = {'int16': 'Int16', 'float32': 'Float32', 'float16': 'Float16'}


class Shape(NamedTuple):
    """One vector over the disparities in registers and memory; as ``Shape`` in ``words.cuh``."""

    chunks: int         # of 8 disparities
    units: int          # that one thread moves at once
    unit_bytes: int     # 8 or 16, of a message
    lanes: int          # threads that share a vector
    registers: int      # of 32 bits, for one vector in one thread


class Level(NamedTuple):
    """One level of the pyramid as it lies in memory.

    width, height: nodes; half: columns of one colour, padded to whole lines of memory.
    """

    width: int
    height: int
    half: int


class Tiling(NamedTuple):
    """How the nodes of a level are given to blocks.

    iterations: of one pass; width, height: nodes of a tile, the width even; threads, blocks:
    threads of a block and blocks of a multiprocessor that the kernel is compiled for;
    directions: of the four messages of a node, how many one thread sends (1, 2 or 4).
    """

    iterations: int
    width: int
    height: int
    threads: int
    blocks: int
    directions: int


class Pass(NamedTuple):
    """Iterations [first, first + iterations) of one level in one launch."""

    level: int
    first: int
    iterations: int
    start: int
    finish: int
    source: str | None              # array that the first iteration reads
    parents: tuple[str, str] | None
    targets: tuple[str | None, str | None]      # array of the messages of each colour
    tiling: Tiling
    margin_columns: int             # of the region on chip around a tile, even
    margin_rows: int
    region_half: int
    region_height: int
    shared_bytes: int


def shape(config: MatcherConfig) -> Shape:
    """How the vectors of a configuration are laid out."""
    is_integer = config.message_type == 'int16'
    chunks = -(-config.disparity_range // 8)
    limit = 16 if is_integer else 8
    lanes = next(lanes for lanes in (1, 2, 4, 8) if chunks <= limit * lanes)
    return Shape(chunks, chunks * (2 if config.message_type == 'float32' else 1),
                 8 if keeps_deltas(config) else 16, lanes,
                 -(-chunks // lanes) * (4 if is_integer else 8))


def keeps_deltas(config: MatcherConfig) -> bool:
    """Whether messages are kept as the differences of neighbouring labels, in bytes.

    Exact where the slope fits a byte's 7 bits, and where sums of messages that are too large by
    up to the truncation still fit 16 bits.
    """
    if config.message_type != 'int16' or config.disparity_range < LEAST_RANGE_OF_DELTAS:
        return False
    slope, truncation = smoothness(config)
    largest = round_half_up(config.message_scale() * config.data_weight * config.data_truncation)
    return (config.disparity_range <= 128 and slope <= 127
            and largest * 4 ** (config.levels - 1) + 6 * truncation <= 32767)


def smoothness(config: MatcherConfig) -> tuple[float, float]:
    """Slope and truncation in units of the messages.

    A step that costs more than the truncation is never taken, and 16 bits need not hold it.
    """
    slope, truncation = config.message_smoothness()
    return min(slope, truncation), truncation


def cost_type(config: MatcherConfig, k: int) -> str:
    """The C++ type of the data cost of level ``k`` as it is kept."""
    if k > 0:
        return 'Int16' if config.message_type == 'int16' else 'Float32'
    return 'Bytes' if has_byte_costs(config) else MESSAGE_TYPES[config.message_type]


def stored_type(config: MatcherConfig) -> str:
    """The C++ type of the messages as they are kept."""
    return 'Int16Deltas' if keeps_deltas(config) else MESSAGE_TYPES[config.message_type]


def levels(config: MatcherConfig, width: int, height: int) -> list[Level]:
    """The pyramid, level 0 first."""
    return [Level(w, h, -(-((w + 1) // 2) // 16) * 16)
            for w, h in geometry.pyramid(width, height, config.levels)]


def check(config: MatcherConfig) -> None:
    """Refuse what this engine cannot compute.

    :raises ConfigError: ``exact`` belief propagation.
    """
    if config.exact and config.stereo_algorithm == 'bp':
        raise ConfigError('exact', config.exact,
                          'the CUDA engine adds in another order: use backend cpu or auto')


def has_byte_costs(config: MatcherConfig) -> bool:
    """Whether the data cost of level 0 is kept in 8 bits, where it is exact."""
    return config.message_type == 'int16' and round_half_up(
        config.message_scale() * config.data_weight * config.data_truncation) <= 255


def passes(config: MatcherConfig, width: int, height: int, device: Properties = TYPICAL,
           tilings: dict[int, Tiling] | None = None) -> list[Pass]:
    """What is launched to pass the messages, coarsest level first.

    :param tilings: level to tiling, in place of the model's choice.
    """
    pyramid = levels(config, width, height)
    found: list[Pass] = []
    if config.iterations == 0 or config.stereo_algorithm == 'sad':
        return found
    for k in reversed(range(len(pyramid))):
        chosen = (tilings or {}).get(k) or _tiling(config, width, height, k, device)
        found += _passes_of_level(config, k, chosen)
    return found


@functools.lru_cache(maxsize=256)
def _tiling(config: MatcherConfig, width: int, height: int, k: int, device: Properties) -> Tiling:
    """How level ``k`` is cut: what the model of ``_predicted_time`` likes best.

    :raises ConfigError: not even the smallest tile fits the shared memory of a block.
    """
    threads, directions = _block(config)
    level = levels(config, width, height)[k]
    best, least = None, math.inf
    for iterations in range(1, min(config.iterations, 7) + 1):
        for tile_height in (2, 4, 6, 8, 12, 16, 24, 32):
            for tile_width in (2, 4, 8, 12, 16, 24, 32, 48, 64):
                found = Tiling(iterations, tile_width, tile_height, threads, 1, directions)
                if fits(config, k, found, device):
                    time = _predicted_time(config, level, k, found, device)
                    if time < least:
                        best, least = found, time
    if best is None:
        raise ConfigError('disparity_range', config.disparity_range,
                          'vectors of this length do not fit the shared memory of the device')
    return best


def forget() -> None:
    """Drop tilings chosen earlier; for tests that change what the choice depends on."""
    _tiling.cache_clear()


def _block(config: MatcherConfig) -> tuple[int, int]:
    """Threads of a block, and of the four messages of a node, how many one of them sends.

    As many as the registers hold without a spill.
    """
    vector = shape(config)
    registers, is_integer = vector.registers, config.message_type == 'int16'
    most = 64 if is_integer and vector.lanes == 1 else 32
    directions = 4 if registers <= 16 else 2 if registers <= most else 1
    in_use = registers * directions
    if in_use <= 48:
        return 512, directions
    is_roomy = is_integer and vector.lanes == 1 and in_use <= 64
    return (384 if is_roomy else 256), directions


def _predicted_time(config: MatcherConfig, level: Level, k: int, chosen: Tiling,
                    device: Properties) -> float:
    """Microseconds of the passes over a level, fitted to an H200 (``docs/performance_cuda.md``).

    Within a tenth of what was measured for 16 to 128 labels, from 32 nodes to whole levels. Only
    the order of the candidates matters. Every iteration takes the time of its nodes, in rounds
    of as many as the threads hold, and a round at least the time of one node.
    """
    labels = config.disparity_range
    node, latency, launch, first_messages = 0.26e-3 * labels, 0.75 + 0.012 * labels, 1.2, 1.0
    if config.message_type != 'int16':
        node *= 1.6
    vector = shape(config)
    together = chosen.threads * chosen.directions // (4 * vector.lanes)
    tiles = (-(-level.width // chosen.width)) * (-(-level.height // chosen.height))
    waves = -(-tiles // device.multiprocessors)
    time = 0.0
    for step in _passes_of_level(config, k, chosen):
        block = first_messages
        for i in range(step.iterations):
            margin = step.iterations - 1 - i + (step.finish == LABELS)
            nodes = (min(chosen.width + 2 * margin, level.width)
                     * min(chosen.height + 2 * margin, level.height)) / 2
            rounds, rest = divmod(nodes, together)
            block += rounds * max(latency, together * node)
            block += max(latency, rest * node) if rest else 0.0
        if step.finish == LABELS:
            block += 2 * latency * math.ceil(chosen.width * chosen.height / 2 / chosen.threads)
        computing = launch + waves * block
        # What is read and written is not quite hidden behind the computing.
        area = ((chosen.width + step.iterations - 1) * (chosen.height + step.iterations - 1)
                / (chosen.width * chosen.height))
        vectors = 4 * area + (4 if step.finish != LABELS else 0)
        # Rows of a tile begin and end within sectors of 32 bytes.
        sectors = 1 + 64 / (chosen.width * vector.unit_bytes)
        moving = vectors * vector.units * vector.unit_bytes * tiles * sectors * (
            chosen.width * chosen.height / 2) / 4e6
        time += max(computing, moving) + 0.3 * min(computing, moving)
    if k == 0 and chosen.iterations == 1:       # the labels are a launch of their own
        time += launch + 3e-6 * level.width * level.height * labels
    return time + 1e-4 * tiles


def fits(config: MatcherConfig, k: int, chosen: Tiling, device: Properties) -> bool:
    """Whether the region of every pass of level ``k`` fits a block's shared memory."""
    return all(step.shared_bytes <= device.shared_memory // chosen.blocks - STATIC_SHARED
               for step in _passes_of_level(config, k, chosen))


def _passes_of_level(config: MatcherConfig, k: int, chosen: Tiling) -> list[Pass]:
    iterations, count = config.iterations, config.levels
    # Not fewer than two in the last pass, which leaves the messages of both colours, unless
    # every pass has one iteration and each colour has one array.
    parts = -(-iterations // chosen.iterations)
    cuts = [iterations * i // parts for i in range(parts + 1)]
    alone = chosen.iterations == 1
    found = []
    source: str | None = None
    for i, (first, end) in enumerate(itertools.pairwise(cuts)):
        is_last = end == iterations
        start = FROM_MESSAGES if i else FROM_PARENTS if k + 1 < count else FROM_ZERO
        finish = LAST_COLOUR
        if is_last and not alone:
            finish = LABELS if k == 0 else BOTH_COLOURS
        # A pass of several iterations must not write where other blocks still read.
        prefix = f'messages_{k}' if alone or is_last else f'messages_{k}_{"ab"[i % 2]}'
        colour = end % 2            # that the last iteration updates
        targets: list[str | None] = [None, None]
        if finish != LABELS:
            targets[colour] = f'{prefix}_{colour}'
        if finish == BOTH_COLOURS:
            targets[1 - colour] = f'{prefix}_{1 - colour}'
        parents = None
        if start == FROM_PARENTS:
            parents = (f'messages_{k + 1}_0', f'messages_{k + 1}_1')
        found.append(_place(config, Pass(
            k, first, end - first, start, finish, source, parents, (targets[0], targets[1]),
            chosen, 0, 0, 0, 0, 0)))
        source = targets[colour]
    return found


def _place(config: MatcherConfig, wanted: Pass) -> Pass:
    """The pass with the region that its blocks keep on chip."""
    chosen = wanted.tiling
    if wanted.iterations == 1 and wanted.finish != LABELS:
        return wanted
    reach = wanted.iterations - 1 + (wanted.finish == LABELS)
    first_colour = (wanted.first + 1) % 2
    reach += 1 - first_colour       # slots belong to nodes of colour 1
    margin = reach + reach % 2
    vector = shape(config)
    region_half = chosen.width // 2 + margin
    region_height = chosen.height + 2 * reach
    return wanted._replace(
        margin_columns=margin, margin_rows=reach, region_half=region_half,
        region_height=region_height,
        shared_bytes=(4 * vector.units * (region_half * region_height + 1)
                      * vector.unit_bytes))


def memory_plan(config: MatcherConfig, width: int, height: int, device: Properties = TYPICAL,
                tilings: dict[int, Tiling] | None = None) -> geometry.MemoryPlan:
    """The arrays on the device of an engine for images of this size, in pixels.

    :raises ConfigError: as ``check``.
    """
    check(config)
    image = (height, width)
    if config.stereo_algorithm == 'sad':
        return geometry.MemoryPlan.lay_out(
            [*_uploaded(image), *sad_plan.arrays(config, image, device), *_refinement(image)])
    pyramid = levels(config, width, height)
    vector = shape(config)
    wanted: Wanted = [*_uploaded(image), ('nothing', (16,), 'uint8'), ('table', (256,), 'float32')]
    for k, level in enumerate(pyramid):
        kind = cost_type(config, k)
        units = vector.chunks * (2 if kind == 'Float32' else 1)
        wanted.append((f'cost_{k}', (level.height, 2, units, level.half,
                                     8 if kind == 'Bytes' else 16), 'uint8'))
    for name in message_arrays(config, width, height, device, tilings):
        level = pyramid[int(name.split('_')[1])]
        wanted.append((name, (level.height, 4, vector.units, level.half,
                              vector.unit_bytes), 'uint8'))
    costs = 'int32' if config.message_type == 'int16' else 'float32'
    wanted += [('label', image, 'int16'), ('fraction', image, 'int8'), ('best', image, costs),
               ('second', image, costs), ('right_keys', image, 'uint64'),
               *_refinement(image)]
    return geometry.MemoryPlan.lay_out(wanted)


def _refinement(image: tuple[int, int]) -> Wanted:
    return [('right_label', image, 'int16'), ('sixteenths', image, 'int16'),
            ('filtered', image, 'int16'), ('regions', image, 'int32'),
            ('region_sizes', image, 'int32')]


def message_arrays(config: MatcherConfig, width: int, height: int, device: Properties = TYPICAL,
                   tilings: dict[int, Tiling] | None = None) -> list[str]:
    """Names of the message arrays that the passes read or write, each once."""
    names: dict[str, None] = {}
    for step in passes(config, width, height, device, tilings):
        names.update(dict.fromkeys(
            name for name in (step.source, *(step.parents or ()), *step.targets) if name))
    if config.iterations == 1:
        names.update(dict.fromkeys(f'messages_{k}_0' for k in range(config.levels)))
    return list(names)


def host_plan(config: MatcherConfig, width: int, height: int) -> geometry.MemoryPlan:
    """The pinned arrays on the host, through which everything goes to and from the device."""
    image = (height, width)
    wanted: Wanted = [*_uploaded(image), ('stamps', (8,), 'uint64'),
                      ('disparity', image, 'float32'), ('depth', image, 'float32'),
                      ('confidence', image, 'float32')]
    return geometry.MemoryPlan.lay_out(wanted)


def _uploaded(image: tuple[int, int]) -> Wanted:
    """What goes up with a frame; in one order on both sides, so that one copy moves it."""
    return [('left_matched', image, 'float32'), ('right_matched', image, 'float32'),
            ('texture', image, 'float32'), ('parameters', (128,), 'uint8'),
            ('left_grey', image, 'uint8'), ('right_grey', image, 'uint8')]


def scratch_plan(config: MatcherConfig, width: int, height: int) -> geometry.MemoryPlan:
    """Ordinary host memory: where images are prepared that the device does not prepare."""
    image = (height, width)
    wanted: Wanted = [('grey', image, 'float32'), ('smoothed', image, 'float32'),
                      ('plane_a', image, 'float32'), ('plane_b', image, 'float32'),
                      ('grey8', (2, *image), 'uint8')]
    return geometry.MemoryPlan.lay_out(wanted)
