"""Stage ``cost``: the data cost of level 0 and its pyramid."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np

from stereo_bp_ros.config import quantisation
from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.hierarchical import cost_formats, formats
from stereo_bp_ros.engines.cuda.hierarchical.cost_formats import CostFormat
from stereo_bp_ros.engines.cuda.hierarchical.formats import MessageFormat
from stereo_bp_ros.engines.cuda.runtime import compiler
from stereo_bp_ros.engines.cuda.runtime.arena import upload
from stereo_bp_ros.engines.cuda.runtime.structures import declared_in
from stereo_bp_ros.engines.partitions import Partition, Partitioning

#: Pixels of a block of ``data_cost``, and the levels that it fills; as in ``cost.cuh``.
TILE_WIDTH, TILE_HEIGHT, TILE_LEVELS = 32, 16, 5

#: Warps of a block of ``data_cost``: the most that compute, and the least that load.
MAX_WARPS, MIN_WARPS = 8, 4

#: Columns of a block of ``parent_cost``, and parts of the chunks.
PARENT_BLOCK = (64, 4, 1)


@declared_in('hierarchical/cost.cuh')
class CostLevel(ctypes.Structure):
    """``CostLevel`` in ``cost.cuh``."""


@declared_in('hierarchical/cost.cuh')
class CostLaunch(ctypes.Structure):
    """Arguments of ``data_cost``, in ``cost.cuh``."""


@functools.lru_cache(maxsize=16)
def is_exact_in_float32(config: ResolvedConfig) -> bool:
    """Whether float32 gives the same 16-bit costs as float64 between any two matched pixels.

    Only the Sobel x derivative of whole grey values is known to have few values: all of their
    pairs are tried.
    """
    if (not MessageFormat.of(config).is_int16 or config.preprocessing != 'sobel_x'
            or config.smoothing_sigma > 0):
        return False
    values = np.arange(-4 * 255, 4 * 255 + 1, dtype=np.float32) * np.float32(config.sobel_scale)
    cap = np.float32(config.prefilter_cap or np.inf)
    values = np.unique(np.clip(values, -cap, cap))
    factor = config.data_weight * quantisation.message_scale(config)

    def costs(values: np.ndarray[Any, Any], value: Any) -> np.ndarray[Any, Any]:
        kind = values.dtype.type
        kept = np.minimum(np.abs(values - value), kind(config.data_truncation))
        return np.floor(kind(factor) * kept + kind(0.5))

    wide = values.astype(np.float64)
    return all(np.array_equal(costs(values, values[i]), costs(wide, wide[i]))
               for i in range(values.size))


def way(config: ResolvedConfig, image: str, has_whole_grey: bool, base: str | None = None) -> str:
    """How costs are computed; ``Way`` in ``cost.cuh``.

    :param image: type of the pixels that are matched, 'uint8' or 'float'.
    :param has_whole_grey: the images were of 8 bits, whatever became of them.
    :param base: type of the data cost of level 0; None = as images of any type have it.
    """
    if not MessageFormat.of(config).is_int16:
        return 'FOUR_AT_ONCE' if base == 'Multiples' else 'REAL'
    if image == 'float':
        exact = has_whole_grey and is_exact_in_float32(config)
        return 'IN_FLOAT32' if exact else 'IN_FLOAT64'
    return 'FOUR_AT_ONCE' if cost_formats.packed(config) else 'FROM_TABLE'


def kernels(config: ResolvedConfig, image: str, has_whole_grey: bool, base: str | None = None
            ) -> list[tuple[str, str]]:
    """File and name of the kernels of this stage; parameters as those of ``way``."""
    labels = config.disparity_range
    kinds = ', '.join(CostFormat.of(config, k, base).name for k in range(3))
    names = [('hierarchical/cost.cu', f'data_cost<{kinds}, {image}, {labels}, '
                         f'{way(config, image, has_whole_grey, base)}>')]
    if config.levels > TILE_LEVELS:
        names.append(('hierarchical/cost.cu',
                      f'parent_cost<{CostFormat.of(config, 3, base).name}, {labels}>'))
    return names


def parameters(config: ResolvedConfig, table: int) -> CostLaunch:
    """Arguments of whatever computes data costs, except for images, levels and stamp.

    :param table: address of the table on the device.
    """
    factor = cost_formats.real_factor(config)
    whole = cost_formats.packed(config) or cost_formats.Packed(0, 0)
    return CostLaunch(
        table=table, min_disparity=config.min_disparity, factor=factor,
        truncation=config.data_truncation, float_factor=factor,
        float_truncation=config.data_truncation, packed_factor=whole.factor,
        packed_truncation=whole.truncation * 0x01010101)


def send_table(config: ResolvedConfig, address: int, stream: int) -> None:
    """Send the table of 16-bit costs to the device."""
    upload(address, cost_formats.table(config), stream)


class Cost:
    """The stage for one configuration and size.

    :param parts: how the image is cut.
    """

    def __init__(self, context: Context, parts: Partitioning) -> None:
        arrays, config = context.arena.device, context.config
        self._device = context.device
        self._config = config
        self._chunks = MessageFormat.of(config).chunks
        pyramid = formats.levels(config, parts.width, parts.height)
        self._levels = [CostLevel(arrays[f'cost_{k}'], *level) for k, level in enumerate(pyramid)]
        self._launch = parameters(config, arrays['table'])
        self._launch.levels = (CostLevel * TILE_LEVELS)(*self._levels[:TILE_LEVELS])
        self._launch.image_width = context.width

    def load(self, image: str, has_whole_grey: bool, base: str | None = None) -> None:
        """Compile or load what ``enqueue`` of such images launches."""
        for file, name in kernels(self._config, image, has_whole_grey, base):
            compiler.kernel(self._device, file, name)

    def initialise(self, stream: int) -> None:
        """Send the table of 16-bit costs to the device."""
        send_table(self._config, self._launch.table, stream)

    def enqueue(self, stream: int, image: str, has_whole_grey: bool, left: int, right: int,
                part: Partition, stamp: int | None, base: str | None = None) -> None:
        """Fill the costs of every level of a partition from the matched images.

        :param image: 'uint8' or 'float'; ``left`` and ``right``: addresses of such pixels.
        :param has_whole_grey: as for ``way``.
        :param stamp: address of the time at which the stage starts; None = not wanted.
        :param base: as for ``kernels``.
        """
        first, *rest = (compiler.kernel(self._device, file, name)
                        for file, name in kernels(self._config, image, has_whole_grey, base))
        level, costs = self._levels[0], self._launch
        first_pixel = (part.y * costs.image_width + part.x) * (1 if image == 'uint8' else 4)
        costs.left, costs.right, costs.stamp = left + first_pixel, right + first_pixel, stamp
        costs.first_x = part.x
        first.launch(stream, (-(-level.width // TILE_WIDTH), -(-level.height // TILE_HEIGHT), 1),
                     (32, _warps(self._chunks), 1), 0, costs)
        for k in range(TILE_LEVELS, len(self._levels)):
            parents = self._levels[k]
            rest[0].launch(
                stream, (-(-parents.width // PARENT_BLOCK[0]), parents.height, 1),
                (PARENT_BLOCK[0], min(PARENT_BLOCK[1], self._chunks), 1), 0,
                self._levels[k - 1], parents)


def _warps(chunks: int) -> int:
    """Warps of a block of ``data_cost``; as ``Warps`` in ``cost.cuh``."""
    rounds = -(-chunks // MAX_WARPS)
    return max(MIN_WARPS, -(-chunks // rounds))
