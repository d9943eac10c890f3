"""Every array of the CPU engine, before one of them is made. No Numba here."""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np

from stereo_bp_ros import geometry, partitions
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines.cpu import layout_plan, scratch

Wanted = list[tuple[str, tuple[int, ...], str]]


#: Bytes that a kernel handles at once, one lane per pixel: a cache line, an AVX-512 register.
VECTOR_BYTES = 64

#: Where a message goes: its place in the arrays of messages.
UP, DOWN, LEFT, RIGHT = range(4)


class Level(NamedTuple):
    """One level of the pyramid as it lies in memory.

    ``cost`` is [row][colour][label][column] and ``messages`` [row][colour][direction][label]
    [column], everything contiguous. A node (x, y) has the checkerboard colour (x + y) mod 2 and
    the column x // 2, so that one vector holds neighbouring nodes of one colour. A message is
    kept at its sender, under the direction it goes.

    width, height: nodes.
    labels:        disparities.
    stride:        values from one label to the next: the columns of one colour, padded.
    """

    width: int
    height: int
    labels: int
    stride: int


def threads(config: MatcherConfig) -> int:
    """Threads of a frame: ``num_threads``, at most the cores that this process may use."""
    limit = int(os.environ.get('NUMBA_NUM_THREADS', '0')) or len(os.sched_getaffinity(0))
    return min(config.num_threads or limit, limit)


def message_dtype(config: MatcherConfig) -> str:
    """How messages and costs are kept.

    int16 messages are never below 0, so they are kept as uint16: the sums on the way, which may
    exceed 32767 by one step of the envelope or in the belief, need the sixteenth bit.
    """
    return _DTYPES[config.message_type][0]


def sum_dtype(config: MatcherConfig) -> str:
    """How sums of messages and costs are kept."""
    return _DTYPES[config.message_type][1]


# float16 values are kept in int16 arrays, see ``vectors``.
_DTYPES = {'int16': ('uint16', 'uint16'), 'float32': ('float32', 'float32'),
           'float16': ('int16', 'float32')}


def levels(config: MatcherConfig, width: int, height: int) -> list[Level]:
    """The pyramid, level 0 first."""
    itemsize = np.dtype(message_dtype(config)).itemsize
    return [Level(w, h, config.disparity_range, _padded((w + 1) // 2, _lanes(config), itemsize))
            for w, h in geometry.pyramid(width, height, config.levels)]


def _lanes(config: MatcherConfig) -> int:
    return VECTOR_BYTES // np.dtype(sum_dtype(config)).itemsize


def _padded(columns: int, lanes: int, itemsize: int) -> int:
    """The next whole number of vectors.

    Labels never lie multiples of 256 bytes apart, which would share a few sets of the caches.
    """
    padded = -(-columns // lanes) * lanes
    return padded + lanes if padded * itemsize % 256 == 0 else padded


def memory_plan(config: MatcherConfig, width: int, height: int,
                parts: partitions.Partitioning | None = None) -> geometry.MemoryPlan:
    """The arrays of an engine for images of this size, in pixels.

    :param parts: how belief propagation cuts the image; None = not at all.
    :raises ConfigError: a setting that only CUDA has.
    """
    layout_plan.check(config)
    parts = parts or partitions.whole(width, height)
    image = (height, width)
    steps = ('grey', 'smoothed', 'matched') if config.smoothing_sigma else ('grey', 'matched')
    wanted: Wanted = [(f'{side}_{step}', image, 'float32')
                      for side in ('left', 'right') for step in steps]
    wanted += [('label', image, 'int16'), ('fraction', image, 'int8'),
               ('right_label', image, 'int16')]
    cost_dtype = 'float32' if _is_float(config) else 'int32'
    wanted += [('best', image, cost_dtype), ('second', image, cost_dtype)]
    if config.repeats_papers:
        wanted += layout_plan.arrays(config, width, height, threads(config))
    elif config.stereo_algorithm == 'bp':
        wanted += _belief_propagation(config, width, height, parts)
    else:
        wanted += [('left_8bit', image, 'uint8'), ('right_8bit', image, 'uint8')]
    wanted += scratch.all_stages(config, width, height, threads(config))
    return geometry.MemoryPlan.lay_out(wanted)


def _is_float(config: MatcherConfig) -> bool:
    return config.stereo_algorithm == 'bp' and config.message_type != 'int16'


def _belief_propagation(config: MatcherConfig, width: int, height: int,
                        parts: partitions.Partitioning) -> Wanted:
    dtype, sums = message_dtype(config), sum_dtype(config)
    wanted: Wanted = []
    pyramid = levels(config, parts.width, parts.height)
    for k, level in enumerate(pyramid):
        # Sums of 256 costs lose too much in float16: above level 0 only messages are kept so.
        kept = dtype if k == 0 or dtype == 'uint16' else sums
        wanted.append((f'cost_{k}', (level.height, 2, level.labels, level.stride), kept))
        wanted.append((f'messages_{k}', (level.height, 2, 4, level.labels, level.stride), dtype))
    count, columns = threads(config), pyramid[0].stride
    # Rows of the images, even where the costs are those of a partition.
    of_image = levels(config, width, 1)[0].stride
    wanted += [
        ('cost_rows', (count, 5, of_image), 'float64' if dtype == 'uint16' else 'float32'),
        ('message_vectors', (count, 4 * level.labels * _lanes(config)), sums),
        ('belief_rows', (count, 2, level.labels, columns), sums),
        # Least belief, its label, second least belief.
        ('selected_rows', (count, 3, columns), sums),
        ('right_rows', (count, 2, 2, of_image), sums),
    ]
    if len(parts.columns.starts) > 1:       # these offer labels to the same pixels
        wanted.append(('right_least', (height, width), sums))
    return wanted
