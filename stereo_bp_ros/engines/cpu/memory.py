"""The arrays of a CPU engine and how they are laid out. No Numba here."""

from __future__ import annotations

import math
import os
from typing import Any, NamedTuple

import numpy as np

from stereo_bp_ros.config import quantisation
from stereo_bp_ros.config.matcher import MatcherConfig, ResolvedConfig
from stereo_bp_ros.engines import geometry
from stereo_bp_ros.engines.cpu.costs import layout
from stereo_bp_ros.engines.cpu.simd import VECTOR_BYTES
from stereo_bp_ros.engines.geometry import Wanted
from stereo_bp_ros.engines.partitions import Partitioning

#: Where a message goes: its place in the arrays of messages.
UP, DOWN, LEFT, RIGHT = range(4)

#: Iterations that one sweep over a level applies. More of them reuse more of what is in the
#: caches; fewer leave more rows for parallel bands.
SWEEP_ITERATIONS = 8

#: Steepest slope between neighbouring labels that a byte holds.
MAX_BYTE_SLOPE = 127


class Level(NamedTuple):
    """One level of the pyramid as it lies in memory.

    A node (x, y) has the checkerboard colour (x + y) mod 2 and the column x // 2. A tile is one
    vector of neighbouring columns of one colour. ``cost`` is [row][colour][tile][plane][lane] and
    ``messages`` [slot][colour][tile][direction][plane][lane], everything contiguous, so that
    updating a tile reads and writes a few stretches of memory from end to end. A message is kept
    at its sender, under the direction it goes; ``row_slots`` says which slot a row has.

    There is a plane for each label. int8 messages are kept as differences: first a plane of upper
    bytes, then for label 0 what is left of the value, for each other label what it adds to
    the one before. The envelope bounds these by the slope, so nothing is lost. The number of
    planes is odd: tiles never lie large powers of two apart, which would share a few sets of the
    caches.

    width, height: nodes.
    labels:        disparities.
    tiles:         vectors that the columns of one colour take.
    cost_planes:   of one tile of ``cost``.
    planes:        of one message.
    """

    width: int
    height: int
    labels: int
    tiles: int
    cost_planes: int
    planes: int


class Matches(NamedTuple):
    """What matching fills, H x W of the left image. Kernels take it as it is.

    label:       int16, d - min_disparity of the minimum cost, the lowest on ties; -1 = none.
    fraction:    int8, sixteenths in [-8, 8] from the label to the minimum cost between labels; 0
                 at the first and last label and where there is no label.
    best:        int32 or float32, filled ``with_costs``: the minimum cost, 0 without a label.
    second:      as ``best``: the minimum cost of the labels further than 1 from it, ``NO_SECOND``
                 where there is none.
    right_label: int16, filled ``with_right``: for each pixel of the other image the label of the
                 lowest cost among the pixels that it is compared with, the lowest on ties;
                 -1 = none.
    """

    label: np.ndarray[Any, Any]
    fraction: np.ndarray[Any, Any]
    best: np.ndarray[Any, Any]
    second: np.ndarray[Any, Any]
    right_label: np.ndarray[Any, Any]
    with_costs: bool
    with_right: bool


def threads(config: MatcherConfig) -> int:
    """Threads of a frame: ``num_threads``, at most the cores that this process may use."""
    limit = available_threads()
    return min(config.num_threads or limit, limit)


def available_threads() -> int:
    """The cores that this process may use, or NUMBA_NUM_THREADS."""
    return int(os.environ.get('NUMBA_NUM_THREADS', '0')) or len(os.sched_getaffinity(0))


def message_dtype(config: ResolvedConfig) -> str:
    """How messages are kept.

    int16 messages are never below 0, so they are kept as uint16: the sums on the way, which may
    exceed 32767 by one step of the envelope or in the belief, need the sixteenth bit. Where the
    slope allows it int8 holds their differences from label to label.
    """
    if config.message_type == 'int16':
        steepest = min(quantisation.message_smoothness(config))
        return 'int8' if steepest <= MAX_BYTE_SLOPE else 'uint16'
    # float16 values are kept in int16 arrays, see ``vectors``.
    return 'int16' if config.message_type == 'float16' else 'float32'


def sum_dtype(config: ResolvedConfig) -> str:
    """How sums of messages and costs are kept."""
    return 'uint16' if config.message_type == 'int16' else 'float32'


def cost_dtype(config: ResolvedConfig, level: int) -> str:
    """How the data cost of a level is kept."""
    if level > 0 or config.message_type == 'float32':
        # Sums of 256 costs lose too much in float16: above level 0 only messages are kept so.
        return sum_dtype(config)
    if config.message_type == 'float16':
        return 'int16'
    largest = quantisation.round_half_up(quantisation.largest_cost(config))
    return 'uint8' if largest <= np.iinfo(np.uint8).max else 'uint16'


def levels(config: ResolvedConfig, width: int, height: int) -> list[Level]:
    """The pyramid, level 0 first."""
    labels = config.disparity_range
    planes = labels + (message_dtype(config) == 'int8')
    # Multi-feature costs come in whole vectors of labels.
    cost_planes = layout.label_bytes(config) if config.has_combined_cost else labels
    return [Level(w, h, labels, -(-((w + 1) // 2) // _lanes(config)),
                  (cost_planes if k == 0 else labels) | 1, planes | 1)
            for k, (w, h) in enumerate(geometry.pyramid(width, height, config.levels))]


def _lanes(config: ResolvedConfig) -> int:
    return VECTOR_BYTES // np.dtype(sum_dtype(config)).itemsize


def sweeps(iterations: int) -> int:
    """Into how many sweeps a level's iterations are cut.

    Without iterations one still starts a level from its parents and selects labels.
    """
    return max(1, math.ceil(iterations / SWEEP_ITERATIONS))


def bands(height: int, threads: int, steps: int) -> int:
    """How many bands of a level's rows are worked on side by side, ``steps`` times in a sweep."""
    return max(1, min(threads, (height - 2) // (2 * max(1, steps))))


def row_slots(config: ResolvedConfig, level: int, height: int) -> np.ndarray:
    """The slot of ``messages`` that each row of a level has, int64.

    Level 0 is swept once and nobody reads its messages afterwards. Rows inside a band then take
    turns in as few slots as are in use at once: two more than the steps that a row takes. Rows
    that a step at a cut between bands may read keep a slot of their own.
    """
    slots = np.arange(height)
    iterations = config.iterations_of_levels[0]
    if level > 0 or sweeps(iterations) > 1:
        return slots
    steps = iterations + 1
    cuts = bands(height, threads(config), steps)
    used = 0
    for band in range(cuts):
        top, bottom = band_edge(height, band, cuts), band_edge(height, band + 1, cuts)
        first = top + steps if band > 0 else 0
        end = bottom - steps if band < cuts - 1 else height
        turns = min(steps + 2, end - first)
        slots[first:end] = used + np.arange(end - first) % max(1, turns)
        kept = slots[end:end + 2 * steps] if band < cuts - 1 else slots[:0]
        kept[:] = used + turns + np.arange(kept.size)
        used += turns + kept.size
    return slots


def band_edge(height: int, band: int, count: int) -> int:
    """The first row of a band of the rows between the borders; of ``count`` it ends the last."""
    return 1 + band * (height - 2) // count


def images_and_matches(config: ResolvedConfig, width: int, height: int) -> Wanted:
    """Arrays between the stages, whichever way is matched."""
    image = (height, width)
    steps = ['grey', *['smoothed'] * (config.smoothing_sigma > 0),
             *['matched'] * (not config.has_combined_cost)]
    cost_dtype = 'float32' if _is_float(config) else 'int32'
    return [*((f'{side}_{step}', image, 'float32')
              for side in ('left', 'right') for step in steps),
            ('label', image, 'int16'), ('fraction', image, 'int8'),
            ('right_label', image, 'int16'), ('best', image, cost_dtype),
            ('second', image, cost_dtype)]


def _is_float(config: ResolvedConfig) -> bool:
    return config.is_belief_propagation and config.message_type != 'int16'


def belief_propagation(config: ResolvedConfig, width: int, height: int,
                       parts: Partitioning) -> Wanted:
    """Arrays of hierarchical belief propagation."""
    sums, lanes = sum_dtype(config), _lanes(config)
    wanted: Wanted = []
    pyramid = levels(config, parts.width, parts.height)
    for k, level in enumerate(pyramid):
        slots = int(row_slots(config, k, level.height).max()) + 1
        wanted += [(f'cost_{k}', (level.height, 2, level.tiles, level.cost_planes, lanes),
                    cost_dtype(config, k)),
                   (f'messages_{k}', (slots, 2, level.tiles, 4, level.planes, lanes),
                    message_dtype(config))]
        if config.discontinuity_edge_threshold:
            wanted += [(f'grey_sums_{k}', (level.height, level.width), 'int32'),
                       (f'truncations_{k}', (level.height, 2, level.tiles, 4, lanes), sums)]
    count, columns, labels = threads(config), pyramid[0].tiles * lanes, config.disparity_range
    # Rows of the images, even where the costs are those of a partition.
    of_image = levels(config, width, 1)[0].tiles * lanes
    if config.has_combined_cost:
        wanted += layout.feature_arrays(config, width, height, count)
        wanted += layout.cost_arrays(config, pyramid[0].tiles, lanes, parts.height, count)
    else:
        wanted += [('image_rows', (count, 4, of_image),
                    'float64' if sums == 'uint16' else 'float32'),
                   ('cost_rows', (count, columns), sums)]
    wanted += [
        ('message_vectors', (count, 4 * labels * lanes), sums),
        ('belief_rows', (count, 2, labels, columns), sums),
        ('selected_rows', (count, 5, columns), sums),
        ('right_rows', (count, 2, 2, of_image), sums),
    ]
    if len(parts.columns.starts) > 1:       # these offer labels to the same pixels
        wanted.append(('right_least', (height, width), sums))
    return wanted
