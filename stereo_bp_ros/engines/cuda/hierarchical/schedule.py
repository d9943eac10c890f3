"""The launches over the messages, and the tiles of each. No CuPy here."""

from __future__ import annotations

import bisect
import functools
import itertools
from collections.abc import Sequence

from stereo_bp_ros.config import ResolvedConfig
from stereo_bp_ros.engines.cuda.hierarchical import formats, launch, time_model
from stereo_bp_ros.engines.cuda.hierarchical.formats import Int16Bytes, Int16SixBits, MessageFormat
from stereo_bp_ros.engines.cuda.hierarchical.launch import (
    BOTH_COLOURS,
    FROM_MESSAGES,
    FROM_PARENTS,
    FROM_ZERO,
    LABELS,
    LARGEST_HALO,
    LAST_COLOUR,
    LIMITS,
    OWN_LABELS,
    Launch,
    Tiling,
)
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL, Properties
from stereo_bp_ros.errors import ConfigError

#: Bytes of shared memory that a block takes beside what is asked for.
STATIC_SHARED = 1024

#: Part of the shared memory that one iteration on chip may take: loads on their way from device
#: memory need the rest as cache.
SHARED_OF_ONE_ITERATION = 4, 5

#: The longest launches of level 0, and of the others.
LONGEST_OF_LEVEL_0, LONGEST = 5, 7


def launches(config: ResolvedConfig, width: int, height: int, device: Properties = TYPICAL,
             tilings: dict[int, Tiling] | None = None) -> list[Launch]:
    """All launches that pass the messages, coarsest level first.

    :param tilings: level to tiling, in place of the model's choice.
    """
    result: list[Launch] = []
    if config.stereo_algorithm == 'sad':
        return result
    for k, iterations in reversed(list(enumerate(config.iterations_of_levels))):
        if iterations:
            tiling = (tilings or {}).get(k) or _chosen(config, width, height, k, device)
            result += _launches_of_level(config, k, tiling)
        elif result:            # both colours start, and stay, as their parents end
            result.append(Launch(k, 0, 0, FROM_PARENTS, LAST_COLOUR, None, _names(k + 1),
                                 _names(k), Tiling(1, 16, 8, 128, 1, 4)))
    return result


def fits(config: ResolvedConfig, k: int, tiling: Tiling, device: Properties) -> bool:
    """Whether every launch of level ``k`` fits a block's shared memory and threads."""
    return config.iterations_of_levels[k] > 0 and all(
        _fits_block(step, device) for step in _launches_of_level(config, k, tiling))


@functools.lru_cache(maxsize=256)
def nodes_of(step: Launch) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
    """The nodes that a tile's threads go through, for each colour, and how many at what distance.

    A node is packed as ``Node`` in ``halo_tile.cuh`` unpacks it; those of the tile itself come
    first, then those around it by their distance. Element m of the counts: nodes at most m away.
    """
    width, height = step.tiling.width, step.tiling.height
    halo = step.iterations - 1 + (step.finish == LABELS)
    lists, counts = [], []
    for colour in range(2):
        nodes = sorted(
            (max(-x, x - width + 1, -y, y - height + 1, 0), y, x)
            for y in range(-halo, height + halo)
            for x in range(-halo, width + halo) if (x + y) % 2 == colour)
        lists.append(tuple(
            x + LARGEST_HALO + 1 | (y + LARGEST_HALO + 1) << 8
            | ((y + step.halo_rows) * step.halo_tile_columns
               + (x + step.halo_columns) // 2) << 16
            for _, y, x in nodes))
        counts.append(tuple(bisect.bisect_right(nodes, m, key=lambda node: node[0])
                            for m in range(LARGEST_HALO + 1)))
    return tuple(lists), tuple(counts)


def message_arrays(config: ResolvedConfig, steps: Sequence[Launch]) -> list[str]:
    """Names of the message arrays that the launches read or write, each once."""
    names: dict[str, None] = {}
    for step in steps:
        names.update(dict.fromkeys(
            name for name in (step.source, *(step.parents or ()), *step.targets) if name))
    names.update(dict.fromkeys(f'messages_{k}_0' for k, iterations
                               in enumerate(config.iterations_of_levels) if iterations == 1))
    return list(names)


def forget() -> None:
    """Drop tilings and formats found earlier; for tests that change what the choice depends on."""
    _chosen.cache_clear()
    _of_one_launch.cache_clear()
    formats.forget()


def ranked(config: ResolvedConfig, width: int, height: int, k: int,
           device: Properties) -> list[Tiling]:
    """For each way to divide the iterations of level ``k`` among launches its best tiling.

    The model's favourite first, which is what an engine takes by itself.
    """
    best: dict[object, Tiling] = {}
    for _, tiling in _by_time(_ways(config, width, height, k, device, 1)):
        best.setdefault(_division(tiling), tiling)
    return list(best.values())


def neighbours(config: ResolvedConfig, width: int, height: int, k: int, device: Properties,
               chosen: Tiling, few: int = 4) -> list[Tiling]:
    """Other tiles for launches divided as ``chosen`` has them, the model's favourites first.

    :param few: tiles that are thought of for each kind of launch.
    """
    ways = _by_time(_ways(config, width, height, k, device, few))
    return [tiling for _, tiling in ways
            if _division(tiling) == _division(chosen) and tiling != chosen]


def _by_time(ways: list[tuple[float, Tiling]]) -> list[tuple[float, Tiling]]:
    return sorted(ways, key=lambda way: way[0])


def _division(tiling: Tiling) -> tuple[object, ...]:
    last = tiling.last
    return tiling.iterations, tiling.resident, last and (last.iterations, last.resident)


@functools.lru_cache(maxsize=256)
def _chosen(config: ResolvedConfig, width: int, height: int, k: int, device: Properties) -> Tiling:
    """The tiling of level ``k`` that ``time_model`` likes best.

    :raises ConfigError: not even the smallest tile fits the shared memory of a block.
    """
    ways = _ways(config, width, height, k, device, 1)
    if not ways:
        raise ConfigError('disparity_range', config.disparity_range,
                          'vectors of this length do not fit the shared memory of the device')
    return min(ways, key=lambda way: way[0])[1]


def _ways(config: ResolvedConfig, width: int, height: int, k: int, device: Properties,
          few: int) -> list[tuple[float, Tiling]]:
    """Tilings of level ``k`` and their predicted times.

    :param few: of each kind of launch so many of the fastest are thought of.
    """
    def best(iterations: int, finish: int) -> list[tuple[float, Tiling]]:
        return _of_one_launch(config, width, height, k, device, iterations, finish)[:few]

    ways = []
    message, level = MessageFormat.of(config), formats.levels(config, width, height)[k]
    iterations = config.iterations_of_levels[k]
    longest = min(iterations, LONGEST_OF_LEVEL_0 if k == 0 else LONGEST)
    middle = [best(n, LAST_COLOUR) for n in range(1, longest + 1)]
    # Level 0 ends with labels, the others with the messages of both colours, which only launches
    # of two iterations leave, or launches of one all the way.
    for n in range(1 if k == 0 else 2, longest + 1):
        ends = best(n, _ending(message, n) if k == 0 else BOTH_COLOURS)
        rest = iterations - n
        if not rest:
            ways += ends
            continue
        for m in range(1, min(rest, longest) + 1):
            parts = -(-rest // m)
            ways += [(end_time + parts * time
                      + (parts - 1) * time_model.reading(message, level, tiling, device),
                      tiling._replace(last=end))
                     for end_time, end in ends for time, tiling in middle[m - 1]
                     if not (tiling.resident and rest // parts == 1)]
    if k > 0:
        ways += [(iterations * time, tiling) for time, tiling in middle[0][:1]]
    return ways


@functools.lru_cache(maxsize=512)
def _of_one_launch(config: ResolvedConfig, width: int, height: int, k: int, device: Properties,
                   iterations: int, finish: int) -> list[tuple[float, Tiling]]:
    """Tilings of a launch that begins with iteration 0, the fastest first, with their times."""
    message, level = MessageFormat.of(config), formats.levels(config, width, height)[k]
    start = _start(config, k)
    # The last launch of a level begins with the iteration that leaves so many.
    last_first = (config.iterations_of_levels[k] - iterations) % 2
    is_last = finish != LAST_COLOUR
    tilings = []
    for tiling in _candidates(message, level, device, iterations, finish):
        steps = _steps_of(message, k, tiling, iterations, start, finish)
        step = steps[last_first if is_last else 0]
        if message.is_int16:
            if not isinstance(message, Int16Bytes):
                step = steps[1]     # times were fitted with the room that an odd one needs
        elif is_last:
            steps = [step]
        if all(_fits_block(step, device) for step in steps):
            time = time_model.predicted(message, config.disparity_range, level, step, device)
            tilings.append((time, tiling))
    return _by_time(tilings)


def _candidates(message: MessageFormat, level: formats.Level, device: Properties, iterations: int,
                finish: int) -> list[Tiling]:
    """Candidate tilings of one launch."""
    if iterations == 1 and finish != LABELS:
        return launch.streamed_tilings(message)
    sizes = usual_sizes() | even_sizes(level, device.multiprocessors)
    if iterations == 1 and not message.is_int16:
        if message.is_split:
            return launch.streamed_tilings(message)
        # Beside the usual ones tiles with a halo of as many columns as a warp has lanes, or half.
        sizes |= {(30, height) for height in range(4, 16, 2)} | {(14, 10), (14, 14)}
        threads, directions = launch.float_label_blocks(message)
        return [Tiling(1, width, height, threads, 1, directions)
                for width, height in sorted(sizes)]
    tilings = [Tiling(iterations, width, height, threads, 1, directions)
               for threads, directions in launch.block_choices(message)
               for width, height in sorted(sizes)]
    if iterations == 1 and isinstance(message, Int16SixBits):
        tilings += [Tiling(1, width, height, LIMITS.label_threads, 1, 2)
                    for width, height in sorted(sizes_of_whole_rounds(LIMITS.label_threads))]
    if iterations > 1 and finish != LABELS:     # a label wants more registers than are left there
        tilings += _resident(message, iterations, finish)
    return tilings


def _resident(message: MessageFormat, iterations: int, finish: int) -> list[Tiling]:
    """Tilings whose nodes stay with their threads."""
    tilings = []
    for directions in (1, 2, 4):
        for side in (2, 4, 8, 12, 16):
            for width in sorted({side, side + 4 if side > 2 else 4}):
                tiling = Tiling(iterations, width, side, 0, 1, directions, resident=True)
                needed = max(step.threads for step in _steps_of(
                    message, 0, tiling, iterations, FROM_MESSAGES, finish))
                threads = launch.resident_threads(message, directions, needed)
                if threads is not None:
                    tilings.append(tiling._replace(threads=threads))
    return tilings


def usual_sizes() -> set[tuple[int, int]]:
    """Width and height of tiles, both even, for any level."""
    sides = (2, 4, 6, 8, 12, 16, 24, 32)
    return {(width, height) for height in sides for width in (*sides, 48, 64) if width != 6}


def even_sizes(level: formats.Level, multiprocessors: int) -> set[tuple[int, int]]:
    """Tiles of which each multiprocessor has one, two or three, and the last no less.

    Their rows are whole sectors of memory.
    """
    sizes = set()
    for waves, columns in itertools.product((1, 2, 3), range(1, level.width // 8 + 1)):
        rows = waves * multiprocessors // columns
        if rows:
            width = 8 * -(-level.width // (8 * columns))
            height = 2 * -(-level.height // (2 * rows))
            if 8 <= height <= width <= min(4 * height, 64):
                sizes.add((width, height))
    return sizes


def sizes_of_whole_rounds(threads: int) -> set[tuple[int, int]]:
    """Tiles whose nodes, with a halo of one, are work for all threads every time.

    For two of the four messages of a node a thread: they make as many nodes, of both colours, at
    once as they are.
    """
    sizes = {(width, rounds * threads // (width + 2) - 2)
             for width in (14, 30, 46, 62) for rounds in (1, 2, 3, 4)
             if rounds * threads % (2 * (width + 2)) == 0}
    return {(width, height) for width, height in sizes if height >= 4}


def _ending(message: MessageFormat, iterations: int) -> int:
    """The finish of the last launch of level 0.

    Long vectors of floats have no room on chip for many nodes: they are faster in device memory.
    """
    return OWN_LABELS if iterations == 1 and message.is_split else LABELS


def _steps_of(message: MessageFormat, k: int, tiling: Tiling, iterations: int, start: int,
              finish: int) -> list[Launch]:
    """A launch whose first iteration is even, and one where it is odd, which needs more room."""
    return [_placed(message, Launch(k, first, iterations, start, finish, None, None, (None, None),
                                    tiling)) for first in (0, 1)]


def _fits_block(step: Launch, device: Properties) -> bool:
    tiling = step.tiling
    room = device.shared_memory // tiling.blocks - STATIC_SHARED
    if step.iterations == 1:
        part, whole = SHARED_OF_ONE_ITERATION
        room = part * room // whole
    return step.shared_bytes <= room and step.threads <= tiling.threads


def _launches_of_level(config: ResolvedConfig, k: int, tiling: Tiling) -> list[Launch]:
    message, iterations = MessageFormat.of(config), config.iterations_of_levels[k]
    last = tiling.last
    before = iterations - min(last.iterations, iterations) if last else iterations
    # Not fewer than two in the last launch, which leaves the messages of both colours, unless
    # every launch has one iteration and each colour has one array.
    parts = -(-before // tiling.iterations)
    bounds = [before * i // parts for i in range(parts + 1)] if parts else [0]
    tilings = [tiling._replace(last=None)] * parts
    if last:
        bounds.append(iterations)
        tilings.append(last)
    # Each colour has one array where one iteration follows the other.
    in_place = all(each.iterations == 1 for each in tilings)
    result = []
    source: str | None = None
    for i, (first, end) in enumerate(itertools.pairwise(bounds)):
        start = FROM_MESSAGES if i else _start(config, k)
        is_last, alone = end == iterations, end - first == 1
        finish = LAST_COLOUR
        if is_last and k == 0 and (last or not alone or message.is_split):
            finish = _ending(message, end - first)
        elif is_last and not alone:
            finish = BOTH_COLOURS
        # A launch of several iterations must not write where other blocks still read.
        prefix = f'messages_{k}' if is_last or in_place else f'messages_{k}_{"ab"[i % 2]}'
        colour = end % 2            # that the last iteration updates
        targets: list[str | None] = [None, None]
        if finish != LABELS:
            targets[colour] = f'{prefix}_{colour}'
        if finish == BOTH_COLOURS:
            targets[1 - colour] = f'{prefix}_{1 - colour}'
        parents = _names(k + 1) if start == FROM_PARENTS else None
        result.append(_placed(message, Launch(
            k, first, end - first, start, finish, source, parents, (targets[0], targets[1]),
            tilings[i])))
        source = targets[colour]
    return result


def _start(config: ResolvedConfig, k: int) -> int:
    """What the first iteration of a level reads: zeros where no coarser level has iterations."""
    return FROM_PARENTS if any(config.iterations_of_levels[k + 1:]) else FROM_ZERO


def _names(k: int) -> tuple[str, str]:
    """The messages of both colours that a level ends with."""
    return f'messages_{k}_0', f'messages_{k}_1'


def _placed(message: MessageFormat, step: Launch) -> Launch:
    """The launch with the halo that its blocks keep on chip, and their threads.

    >>> message = formats.Int16(chunks=2, is_split=False, scale=1, slope=8, truncation=999)
    >>> step = _placed(message, Launch(0, 0, 3, FROM_MESSAGES, LAST_COLOUR, 'a', None, (None, 'b'),
    ...                                Tiling(3, 16, 8, 256, 1, 4)))
    >>> step.halo_rows, step.halo_columns                   # two iterations more, both even
    (2, 2)
    >>> step.halo_tile_columns, step.halo_tile_height       # (16 + 2 * 2) / 2, 8 + 2 * 2
    (10, 12)
    >>> step.shared_bytes                                   # 4 slots a node, and a spare one
    15488
    """
    tiling = step.tiling
    if step.is_streamed:
        if tiling.resident:
            raise ValueError('nodes stay with their threads for two iterations or more')
        return step._replace(threads=tiling.threads)
    reach = step.iterations - 1 + (step.finish == LABELS)
    first_colour = (step.first + 1) % 2
    reach += 1 - first_colour       # slots belong to nodes of colour 1
    halo_columns = reach + reach % 2
    columns, rows = tiling.width // 2 + halo_columns, tiling.height + 2 * reach
    threads = tiling.threads
    if tiling.resident:             # a team for each two nodes of the halo tile, in whole warps
        nodes_of_warp = 32 * tiling.directions // (4 * message.lanes)
        threads = 32 * -(-columns * rows // nodes_of_warp)
    return step._replace(
        halo_columns=halo_columns, halo_rows=reach, halo_tile_columns=columns,
        halo_tile_height=rows, shared_bytes=4 * message.message_bytes * (columns * rows + 1),
        threads=threads)
