"""The launches over the messages. No CuPy here."""

from __future__ import annotations

import bisect
import functools
import itertools
from collections.abc import Sequence

from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines.cuda.hierarchical import formats, launch, tilings
from stereo_bp_ros.engines.cuda.hierarchical.formats import MessageFormat
from stereo_bp_ros.engines.cuda.hierarchical.launch import (
    BOTH_COLOURS,
    FROM_MESSAGES,
    FROM_PARENTS,
    FROM_ZERO,
    LABELS,
    LAST_COLOUR,
    MAX_HALO,
    Launch,
    Tiling,
)
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL, Properties


def launches(config: ResolvedConfig, width: int, height: int, device: Properties = TYPICAL
             ) -> list[Launch]:
    """All launches that pass the messages, coarsest level first."""
    result: list[Launch] = []
    if config.stereo_algorithm == 'sad':
        return result
    for k, iterations in reversed(list(enumerate(config.iterations_of_levels))):
        if iterations:
            tiling = tilings.choose(config, width, height, k, device)
            result += _launches_of_level(config, k, tiling)
        elif result:            # both colours start, and stay, as their parents end
            result.append(Launch(k, 0, 0, FROM_PARENTS, LAST_COLOUR, None, _names(k + 1),
                                 _names(k), Tiling(1, 16, 8, 128, 4)))
    return result


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
            x + MAX_HALO + 1 | (y + MAX_HALO + 1) << 8
            | ((y + step.halo_rows) * step.halo_tile_columns
               + (x + step.halo_columns) // 2) << 16
            for _, y, x in nodes))
        counts.append(tuple(bisect.bisect_right(nodes, m, key=lambda node: node[0])
                            for m in range(MAX_HALO + 1)))
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
    tilings.choose.cache_clear()
    formats.forget()


def _launches_of_level(config: ResolvedConfig, k: int, tiling: Tiling) -> list[Launch]:
    message, iterations = MessageFormat.of(config), config.iterations_of_levels[k]
    last = tiling.last
    before = iterations - min(last.iterations, iterations) if last else iterations
    # Not fewer than two in the last launch, which leaves the messages of both colours, unless
    # every launch has one iteration and each colour has one array.
    parts = -(-before // tiling.iterations)
    bounds = [before * i // parts for i in range(parts + 1)] if parts else [0]
    each = [tiling._replace(last=None)] * parts
    if last:
        bounds.append(iterations)
        each.append(last)
    # Each colour has one array where one iteration follows the other.
    in_place = all(part.iterations == 1 for part in each)
    result = []
    source: str | None = None
    for i, (first, end) in enumerate(itertools.pairwise(bounds)):
        start = FROM_MESSAGES if i else _start(config, k)
        is_last, alone = end == iterations, end - first == 1
        finish = LAST_COLOUR
        if is_last and k == 0 and (last or not alone or message.is_split):
            finish = launch.ending(message, end - first)
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
        result.append(launch.placed(message, Launch(
            k, first, end - first, start, finish, source, parents, (targets[0], targets[1]),
            each[i])))
        source = targets[colour]
    return result


def _start(config: ResolvedConfig, k: int) -> int:
    """What the first iteration of a level reads: zeros where no coarser level has iterations."""
    return FROM_PARENTS if any(config.iterations_of_levels[k + 1:]) else FROM_ZERO


def _names(k: int) -> tuple[str, str]:
    """The messages of both colours that a level ends with."""
    return f'messages_{k}_0', f'messages_{k}_1'
