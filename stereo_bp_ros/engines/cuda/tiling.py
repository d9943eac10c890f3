"""The passes over the messages, and the tiles that each is cut into. No CuPy here."""

from __future__ import annotations

import bisect
import functools
import itertools

from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines.cuda import layout, tile_sizes, tile_times
from stereo_bp_ros.engines.cuda.device import TYPICAL, Properties
from stereo_bp_ros.engines.cuda.tiles import (
    BOTH_COLOURS,
    FROM_MESSAGES,
    FROM_PARENTS,
    FROM_ZERO,
    LABEL_THREADS,
    LABELS,
    LARGEST_MARGIN,
    LAST_COLOUR,
    OWN_LABELS,
    Pass,
    Tiling,
)
from stereo_bp_ros.errors import ConfigError

#: Bytes of shared memory that a block takes beside what is asked for.
STATIC_SHARED = 1024

def passes(config: MatcherConfig, width: int, height: int, device: Properties = TYPICAL,
           tilings: dict[int, Tiling] | None = None) -> list[Pass]:
    """What is launched to pass the messages, coarsest level first.

    :param tilings: level to tiling, in place of the model's choice.
    """
    pyramid = layout.levels(config, width, height)
    found: list[Pass] = []
    if config.iterations == 0 or config.stereo_algorithm == 'sad':
        return found
    for k in reversed(range(len(pyramid))):
        chosen = (tilings or {}).get(k) or _chosen(config, width, height, k, device)
        found += _passes_of_level(config, k, chosen)
    return found


def fits(config: MatcherConfig, k: int, chosen: Tiling, device: Properties) -> bool:
    """Whether the region of every pass of level ``k`` fits a block's shared memory and threads."""
    return all(_fits_block(step, device) for step in _passes_of_level(config, k, chosen))


@functools.lru_cache(maxsize=256)
def nodes_of(step: Pass) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
    """The nodes that a tile's threads go through, for each colour, and how many at what distance.

    A node is packed as ``Node`` in ``passes.cuh`` unpacks it; those of the tile itself come
    first, then those around it by their distance. Element m of the counts: nodes at most m away.
    """
    width, height = step.tiling.width, step.tiling.height
    margin = step.iterations - 1 + (step.finish == LABELS)
    lists, counts = [], []
    for colour in range(2):
        found = sorted(
            (max(-x, x - width + 1, -y, y - height + 1, 0), y, x)
            for y in range(-margin, height + margin)
            for x in range(-margin, width + margin) if (x + y) % 2 == colour)
        lists.append(tuple(
            x + LARGEST_MARGIN + 1 | (y + LARGEST_MARGIN + 1) << 8
            | ((y + step.margin_rows) * step.region_half + (x + step.margin_columns) // 2) << 16
            for _, y, x in found))
        counts.append(tuple(bisect.bisect_right(found, m, key=lambda node: node[0])
                            for m in range(LARGEST_MARGIN + 1)))
    return tuple(lists), tuple(counts)


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


def forget() -> None:
    """Drop tilings chosen earlier; for tests that change what the choice depends on."""
    _chosen.cache_clear()
    _of_one_pass.cache_clear()


def ranked(config: MatcherConfig, width: int, height: int, k: int,
           device: Properties) -> list[Tiling]:
    """For each way to divide the iterations of level ``k`` among passes its best tiling.

    The model's favourite first, which is what an engine takes by itself.
    """
    found: dict[object, Tiling] = {}
    for _, cut in _by_time(_ways(config, width, height, k, device, 1)):
        found.setdefault(_division(cut), cut)
    return list(found.values())


def neighbours(config: MatcherConfig, width: int, height: int, k: int, device: Properties,
               chosen: Tiling, few: int = 4) -> list[Tiling]:
    """Other tiles for passes divided as ``chosen`` has them, the model's favourites first.

    :param few: tiles that are thought of for each kind of pass.
    """
    ways = _by_time(_ways(config, width, height, k, device, few))
    return [cut for _, cut in ways if _division(cut) == _division(chosen) and cut != chosen]


def _by_time(ways: list[tuple[float, Tiling]]) -> list[tuple[float, Tiling]]:
    return sorted(ways, key=lambda way: way[0])


def _division(cut: Tiling) -> tuple[object, ...]:
    last = cut.last
    return cut.iterations, cut.resident, last and (last.iterations, last.resident)


@functools.lru_cache(maxsize=256)
def _chosen(config: MatcherConfig, width: int, height: int, k: int, device: Properties) -> Tiling:
    """How level ``k`` is cut: what the model of ``tile_times`` likes best.

    :raises ConfigError: not even the smallest tile fits the shared memory of a block.
    """
    ways = _ways(config, width, height, k, device, 1)
    if not ways:
        raise ConfigError('disparity_range', config.disparity_range,
                          'vectors of this length do not fit the shared memory of the device')
    return min(ways, key=lambda way: way[0])[1]


def _ways(config: MatcherConfig, width: int, height: int, k: int, device: Properties,
          few: int) -> list[tuple[float, Tiling]]:
    """Tilings of level ``k`` and their predicted times.

    :param few: of each kind of pass so many of the fastest are thought of.
    """
    def best(iterations: int, finish: int) -> list[tuple[float, Tiling]]:
        return _of_one_pass(config, width, height, k, device, iterations, finish)[:few]

    ways = []
    level = layout.levels(config, width, height)[k]
    longest = min(config.iterations, 5 if k == 0 else 7)
    middle = [best(n, LAST_COLOUR) for n in range(1, longest + 1)]
    # Level 0 ends with labels, the others with the messages of both colours, which only passes of
    # two iterations leave, or passes of one all the way.
    for n in range(1 if k == 0 else 2, longest + 1):
        ends = best(n, _ending(config, n) if k == 0 else BOTH_COLOURS)
        rest = config.iterations - n
        if not rest:
            ways += ends
            continue
        for m in range(1, min(rest, longest) + 1):
            parts = -(-rest // m)
            ways += [(end_time + parts * time
                      + (parts - 1) * tile_times.reading(config, level, cut),
                      cut._replace(last=end))
                     for end_time, end in ends for time, cut in middle[m - 1]
                     if not (cut.resident and rest // parts == 1)]
    if k > 0:
        ways += [(config.iterations * time, cut) for time, cut in middle[0][:1]]
    return ways


@functools.lru_cache(maxsize=512)
def _of_one_pass(config: MatcherConfig, width: int, height: int, k: int, device: Properties,
                 iterations: int, finish: int) -> list[tuple[float, Tiling]]:
    """Tilings of one pass that begins with iteration 0, the fastest first, with their times."""
    level = layout.levels(config, width, height)[k]
    start = FROM_PARENTS if k + 1 < config.levels else FROM_ZERO
    # The last pass of a level begins with the iteration that leaves so many.
    last_first = (config.iterations - iterations) % 2
    is_last = finish != LAST_COLOUR
    found = []
    for cut in _candidates(config, level, device, iterations, finish):
        steps = _steps_of(config, k, cut, iterations, start, finish)
        step = steps[last_first if is_last else 0]
        if config.message_type == 'int16':
            if not layout.keeps_bytes(config):
                step = steps[1]     # times were fitted with the room that an odd one needs
        elif is_last:
            steps = [step]
        if all(_fits_block(step, device) for step in steps):
            found.append((tile_times.predicted(config, level, step, device), cut))
    return _by_time(found)


def _candidates(config: MatcherConfig, level: layout.Level, device: Properties, iterations: int,
                finish: int) -> list[Tiling]:
    """Tilings worth a thought for one pass."""
    sizes = tile_sizes.usual() | tile_sizes.even(level, device.multiprocessors)
    found = []
    is_integer, vector = config.message_type == 'int16', layout.shape(config)
    if iterations == 1 and not is_integer:
        return _single_of_floats(config, vector, sizes, finish)
    if iterations == 1 and finish != LABELS:
        return [Tiling(1, 16, 8, 128, 1, _blocks(config)[0][1])]
    for threads, directions in _blocks(config):
        found += [Tiling(iterations, width, height, threads, 1, directions)
                  for width, height in sorted(sizes)]
    if iterations == 1 and layout.keeps_six_bits(config):
        found += [Tiling(1, width, height, LABEL_THREADS, 1, 2)
                  for width, height in sorted(tile_sizes.of_whole_rounds(LABEL_THREADS))]
    if iterations > 1 and finish != LABELS:     # a label wants more registers than are left there
        registers, more = vector.registers, 44
        share = 2.0 if layout.keeps_deltas(config) or registers >= 64 else 1.5
        if not is_integer:
            share, more = 3.2, (20 if vector.lanes == 1 else 50)
        for directions in (1, 2, 4):
            for side in (2, 4, 8, 12, 16):
                for width in sorted({side, side + 4 if side > 2 else 4}):
                    cut = Tiling(iterations, width, side, 0, 1, directions, resident=True)
                    needed = max(step.threads for step in _steps_of(
                        config, 0, cut, iterations, FROM_MESSAGES, finish))
                    threads = -(-needed // 128) * 128
                    # What the compiler was seen to need without a spill.
                    registers_needed = share * registers * directions + more
                    if threads <= 1024 and 65536 // threads >= registers_needed:
                        found.append(cut._replace(threads=threads))
    return found


def _single_of_floats(config: MatcherConfig, vector: layout.Shape, sizes: set[tuple[int, int]],
                      finish: int) -> list[Tiling]:
    """Tilings worth a thought for one iteration with messages of floats."""
    if layout.has_halves(config):       # as many nodes as a block has teams, but for many labels
        return [Tiling(1, 32, 2, 128, 1, 2)]
    needs_few = vector.chunks == 8      # registers, for vectors of this length
    if finish != LABELS:
        # Whole lines of memory; few warps with much on its way, or as many as do not spill.
        return [Tiling(1, 32, 4, 128, 1, 2), Tiling(1, 32, 4, 128, 4 if needs_few else 3, 1)]
    # Beside the usual ones regions of as many columns as a warp has lanes, or half as many.
    sizes = sizes | {(30, height) for height in range(4, 16, 2)} | {(14, 10), (14, 14)}
    directions = 2 if vector.registers <= 32 else 1
    threads = 512 if needs_few or directions == 2 else 384
    return [Tiling(1, width, height, threads, 1, directions) for width, height in sorted(sizes)]


def _ending(config: MatcherConfig, iterations: int) -> int:
    """What the last pass leaves.

    Long vectors of floats have no room on chip for many nodes: they are faster in device memory.
    """
    return OWN_LABELS if iterations == 1 and layout.has_halves(config) else LABELS


def _steps_of(config: MatcherConfig, k: int, cut: Tiling, iterations: int, start: int,
              finish: int) -> list[Pass]:
    """A pass whose first iteration is even, and one where it is odd, which needs more room."""
    return [_place(config, Pass(k, first, iterations, start, finish, None, None, (None, None),
                                cut, 0, 0, 0, 0, 0, cut.threads)) for first in (0, 1)]


def _blocks(config: MatcherConfig) -> list[tuple[int, int]]:
    """Threads of a block, and of the four messages of a node, how many one of them sends.

    As many as the registers hold without a spill; the first for passes of one iteration, too.
    """
    vector = layout.shape(config)
    registers, is_integer = vector.registers, config.message_type == 'int16'
    most = 64 if is_integer and vector.lanes == 1 else 32
    directions = 4 if registers <= 16 else 2 if registers <= most else 1
    in_use = registers * directions
    if in_use <= 48:
        return [(512, directions), (256, directions)]
    if is_integer and vector.lanes == 1 and in_use <= 64:
        return [(384, directions), *([(256, 4)] if directions == 2 else [])]
    return [(256, directions)]


def _fits_block(step: Pass, device: Properties) -> bool:
    cut = step.tiling
    room = device.shared_memory // cut.blocks - STATIC_SHARED
    if step.iterations == 1:        # what is on its way from device memory needs the cache
        room = 4 * room // 5
    return step.shared_bytes <= room and step.threads <= cut.threads


def _passes_of_level(config: MatcherConfig, k: int, chosen: Tiling) -> list[Pass]:
    iterations, count = config.iterations, config.levels
    last = chosen.last
    before = iterations - min(last.iterations, iterations) if last else iterations
    # Not fewer than two in the last pass, which leaves the messages of both colours, unless
    # every pass has one iteration and each colour has one array.
    parts = -(-before // chosen.iterations)
    cuts = [before * i // parts for i in range(parts + 1)] if parts else [0]
    tilings = [chosen._replace(last=None)] * parts
    if last:
        cuts.append(iterations)
        tilings.append(last)
    # Each colour has one array where one iteration follows the other.
    in_place = all(cut.iterations == 1 for cut in tilings)
    found = []
    source: str | None = None
    for i, (first, end) in enumerate(itertools.pairwise(cuts)):
        start = FROM_MESSAGES if i else FROM_PARENTS if k + 1 < count else FROM_ZERO
        is_last, alone = end == iterations, end - first == 1
        finish = LAST_COLOUR
        if is_last and k == 0 and (last or not alone or layout.has_halves(config)):
            finish = _ending(config, end - first)
        elif is_last and not alone:
            finish = BOTH_COLOURS
        # A pass of several iterations must not write where other blocks still read.
        prefix = f'messages_{k}' if is_last or in_place else f'messages_{k}_{"ab"[i % 2]}'
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
            tilings[i], 0, 0, 0, 0, 0, tilings[i].threads)))
        source = targets[colour]
    return found


def _place(config: MatcherConfig, wanted: Pass) -> Pass:
    """The pass with the region that its blocks keep on chip."""
    chosen = wanted.tiling
    if wanted.iterations == 1 and wanted.finish != LABELS:
        if chosen.resident:
            raise ValueError('nodes stay with their threads for two iterations or more')
        return wanted
    reach = wanted.iterations - 1 + (wanted.finish == LABELS)
    first_colour = (wanted.first + 1) % 2
    reach += 1 - first_colour       # slots belong to nodes of colour 1
    margin = reach + reach % 2
    vector = layout.shape(config)
    region_half = chosen.width // 2 + margin
    region_height = chosen.height + 2 * reach
    threads = chosen.threads
    if chosen.resident:             # a team for each two nodes of the region, in whole warps
        nodes_of_warp = 32 * chosen.directions // (4 * vector.lanes)
        threads = 32 * -(-region_half * region_height // nodes_of_warp)
    return wanted._replace(
        margin_columns=margin, margin_rows=reach, region_half=region_half,
        region_height=region_height,
        shared_bytes=(4 * vector.units * (region_half * region_height + 1)
                      * vector.unit_bytes), threads=threads)
