"""Arrays of the parallel CPU program of the GPU + CPU paper, in its layouts. No Numba here.

Grauer-Gray, "Optimizing Global Stereo Matching on NVIDIA GPUs and CPUs", sections 4, 6 and 7.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines import geometry
from stereo_bp_ros.engines.geometry import Wanted
from stereo_bp_ros.errors import ConfigError

#: Columns that aligned rows are padded to (section 6.3): a cache line of float32.
ALIGNED_COLUMNS = 16

#: Nodes that are computed at once where messages are vectorised.
LANES = 16


class PlainLevel(NamedTuple):
    """One level of the pyramid.

    The costs are [colour][values] and the messages [colour][direction][values], a node (x, y)
    having the colour (x + y) mod 2 and the column x // 2. Values are [row][label][column] in
    the disparity-major layout and [row][column][label] in the pixel-major one.

    width, height: nodes; labels: disparities; pitch: columns of a row, with what pads them.
    """

    width: int
    height: int
    labels: int
    pitch: int

    @property
    def values(self) -> int:
        return self.height * self.labels * self.pitch


def check(config: ResolvedConfig) -> None:
    """Reject what this program has on CUDA only.

    :raises ConfigError: names the setting and what it needs.
    """
    plain = config.plain_steps
    if plain.storage != 'local' or plain.packed_halves:
        name = 'packed_halves' if plain.packed_halves else 'storage'
        raise ConfigError(f'plain_steps.{name}', getattr(plain, name),
                          'is a choice of CUDA memory or instructions: use backend cuda')
    if config.message_type == 'int16':
        raise ConfigError('message_type', config.message_type,
                          'program plain_steps needs float32 or float16 on the CPU')


def levels(config: ResolvedConfig, width: int, height: int) -> list[PlainLevel]:
    """The pyramid, level 0 first."""
    unit = ALIGNED_COLUMNS if config.plain_steps.aligned_rows else 1
    return [PlainLevel(w, h, config.disparity_range, -(-((w + 1) // 2) // unit) * unit)
            for w, h in geometry.pyramid(width, height, config.levels)]


def dtypes(config: ResolvedConfig) -> tuple[str, str]:
    """Of messages and the costs of level 0, float16 as the int16 of its bits; of other costs."""
    return ('int16' if config.message_type == 'float16' else 'float32'), 'float32'


def shapes(config: ResolvedConfig, pyramid: list[PlainLevel]) -> Wanted:
    """The arrays of costs and messages."""
    stored, sums = dtypes(config)
    wanted: Wanted = []
    for k, level in enumerate(pyramid):
        wanted += [(f'cost_{k}', (2, level.values), sums if k else stored),
                   (f'sent_{k}', (2, 4, level.values), stored)]
    return wanted


def arrays(config: ResolvedConfig, width: int, height: int, threads: int) -> Wanted:
    """What the engine allocates: scratch, and costs and messages unless each frame does so."""
    wanted: Wanted = [('plain_values', (threads, config.disparity_range * LANES), 'float32'),
                      ('plain_right', (threads, 2, width), 'float32')]
    if config.plain_steps.allocation == 'once':
        wanted += shapes(config, levels(config, width, height))
    return wanted


def allocate(wanted: Wanted, is_aligned: bool) -> dict[str, np.ndarray]:
    """Arrays of a frame in one block, which goes with the last of them."""
    plan = geometry.MemoryPlan.lay_out(wanted)
    memory = np.empty(plan.total + geometry.ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % geometry.ALIGNMENT if is_aligned else 0
    return {spec.name: memory[start + spec.offset:start + spec.offset + spec.nbytes]
            .view(spec.dtype).reshape(spec.shape) for spec in plan.arrays}
