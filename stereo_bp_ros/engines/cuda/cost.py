"""Stage ``cost``: the data cost of level 0 and its pyramid."""

from __future__ import annotations

import ctypes
import functools
from typing import Any, NamedTuple

import numpy as np

from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines.cuda import compiler, layout
from stereo_bp_ros.engines.cuda.arena import Arena
from stereo_bp_ros.engines.cuda.device import Properties
from stereo_bp_ros.partitions import Partition, Partitioning

#: Pixels of a block of ``data_cost``, and the levels that it fills; as in ``cost.cuh``.
TILE_WIDTH, TILE_HEIGHT, TILE_LEVELS = 32, 16, 5

#: Warps of a block of ``data_cost``: the most that compute, and the least that load.
MOST_WARPS, LEAST_WARPS = 8, 4

#: Columns of a block of ``parent_cost``, and parts of the chunks.
PARENT_BLOCK = (64, 4, 1)

#: Of as many differences as a node of the coarsest level has pixels 16 bits hold this.
LARGEST_SUM = 65535

#: Of a byte and the real factor; rounded to whole numbers where it is less.
LARGEST_PRODUCT = 2 ** 22


class CostLevel(ctypes.Structure):
    """``CostLevel`` in ``cost.cuh``."""

    _fields_ = (('cost', ctypes.c_void_p), ('width', ctypes.c_int), ('height', ctypes.c_int),
                ('half', ctypes.c_int))


class CostPass(ctypes.Structure):
    """``CostPass`` in ``cost.cuh``."""

    _fields_ = (('left', ctypes.c_void_p), ('right', ctypes.c_void_p),
                ('table', ctypes.c_void_p), ('levels', CostLevel * TILE_LEVELS),
                ('image_width', ctypes.c_int), ('first_x', ctypes.c_int),
                ('min_disparity', ctypes.c_int), ('factor', ctypes.c_double),
                ('truncation', ctypes.c_double), ('float_factor', ctypes.c_float),
                ('float_truncation', ctypes.c_float), ('packed_factor', ctypes.c_uint32),
                ('packed_truncation', ctypes.c_uint32), ('stamp', ctypes.c_void_p))


class Packed(NamedTuple):
    """Costs of bytes as ``factor * min(difference, truncation)`` in whole numbers.

    Beside messages of floats what is to be multiplied by a real factor; that here is 1.
    """

    factor: int
    truncation: int


def table(config: MatcherConfig) -> np.ndarray[Any, Any]:
    """Data cost of every difference of two grey values 0..255 with 16 bits: uint16, 256."""
    kept = np.minimum(np.arange(256, dtype=np.float64), config.data_truncation)
    factor = config.data_weight * config.message_scale()
    return np.floor(factor * kept + 0.5).astype(np.uint16)


def packed(config: MatcherConfig) -> Packed | None:
    """The whole numbers that give the costs of the table, where there are such.

    The kernel that computes four bytes at a time needs a truncation of 7 bits. Beside messages of
    floats the sums of every level are to fit 16.
    """
    if config.message_type != 'int16':
        truncation = min(config.data_truncation, 255.0)
        is_whole = (truncation < 128 and truncation == int(truncation)
                    and truncation * 4 ** (config.levels - 1) <= LARGEST_SUM)
        return Packed(1, int(truncation)) if is_whole else None
    if not layout.has_byte_costs(config, 0):
        return None
    costs = table(config).astype(int)
    factor = int(costs[1])
    if factor == 0:
        return None
    found = Packed(factor, int(costs[-1]) // factor)
    is_equal = np.array_equal(costs, factor * np.minimum(np.arange(256), found.truncation))
    return found if is_equal and found.truncation < 128 else None


@functools.lru_cache(maxsize=16)
def is_exact_in_float32(config: MatcherConfig) -> bool:
    """Whether float32 gives the same 16-bit costs as float64 between any two matched pixels.

    Only the Sobel x derivative of whole grey values is known to have few values: all of their
    pairs are tried.
    """
    if (config.message_type != 'int16' or config.preprocessing != 'sobel_x'
            or config.smoothing_sigma > 0):
        return False
    values = np.arange(-4 * 255, 4 * 255 + 1, dtype=np.float32) * np.float32(config.sobel_scale)
    cap = np.float32(config.prefilter_cap or np.inf)
    values = np.unique(np.clip(values, -cap, cap))
    factor = config.data_weight * config.message_scale()

    def costs(values: np.ndarray[Any, Any], value: Any) -> np.ndarray[Any, Any]:
        kind = values.dtype.type
        kept = np.minimum(np.abs(values - value), kind(config.data_truncation))
        return np.floor(kind(factor) * kept + kind(0.5))

    wide = values.astype(np.float64)
    return all(np.array_equal(costs(values, values[i]), costs(wide, wide[i]))
               for i in range(values.size))


def kept_type(config: MatcherConfig, k: int, base: str | None) -> str:
    """The C++ type of the data cost of level ``k``; ``base``: that of level 0, as for ``way``."""
    if k == 0 and base:
        return base
    whole = packed(config)
    if base == 'Multiples' and whole:
        largest = 4 ** k * whole.truncation
        is_small = k <= 2 and largest <= 255 and largest * real_factor(config) < LARGEST_PRODUCT
        return base if is_small else 'MultipleSums'
    return layout.cost_type(config, k)


def kept_factor(config: MatcherConfig) -> int:
    """What costs of type Nibbles are multiples of; the pattern of that of Multiples."""
    if config.message_type != 'int16':
        return int(np.float32(real_factor(config)).view(np.uint32))
    whole = packed(config)
    return whole.factor if whole else 0


def way(config: MatcherConfig, image: str, has_whole_grey: bool, base: str | None = None) -> str:
    """How costs are computed; ``Way`` in ``cost.cuh``.

    :param image: type of the pixels that are matched, 'uint8' or 'float'.
    :param has_whole_grey: the images were of 8 bits, whatever became of them.
    :param base: type of the data cost of level 0; None = as images of any type have it.
    """
    if config.message_type != 'int16':
        return 'FOUR_AT_ONCE' if base == 'Multiples' else 'REAL'
    if image == 'float':
        exact = has_whole_grey and is_exact_in_float32(config)
        return 'IN_FLOAT32' if exact else 'IN_FLOAT64'
    return 'FOUR_AT_ONCE' if packed(config) else 'FROM_TABLE'


def kernels(config: MatcherConfig, image: str, has_whole_grey: bool, base: str | None = None
            ) -> list[tuple[str, str]]:
    """File and name of the kernels of this stage; parameters as those of ``way``."""
    labels = config.disparity_range
    kinds = ', '.join(kept_type(config, k, base) for k in range(3))
    names = [('cost.cu', f'data_cost<{kinds}, {image}, {labels}, '
                         f'{way(config, image, has_whole_grey, base)}>')]
    if config.levels > TILE_LEVELS:
        names.append(('cost.cu', f'parent_cost<{kept_type(config, 3, base)}, {labels}>'))
    return names


def real_factor(config: MatcherConfig) -> float:
    """From a difference of grey values to its cost in units of the device's messages."""
    return config.data_weight * config.message_scale() * layout.float_scale(config)


def parameters(config: MatcherConfig, table: int) -> CostPass:
    """Arguments of whatever computes data costs, but for images, levels and stamp.

    :param table: address of the table on the device.
    """
    factor = real_factor(config)
    whole = packed(config) or Packed(0, 0)
    return CostPass(
        table=table, min_disparity=config.min_disparity, factor=factor,
        truncation=config.data_truncation, float_factor=factor,
        float_truncation=config.data_truncation, packed_factor=whole.factor,
        packed_truncation=whole.truncation * 0x01010101)


def send_table(config: MatcherConfig, address: int, stream: int) -> None:
    """Send the table of 16-bit costs to the device."""
    from cupy.cuda import runtime
    values = table(config)
    runtime.memcpyAsync(address, values.ctypes.data, values.nbytes,
                        runtime.memcpyHostToDevice, stream)


class Cost:
    """The stage for one configuration and size.

    :param width: of the image, pixels; ``parts``: how it is cut.
    """

    def __init__(self, found: Properties, config: MatcherConfig, width: int, arena: Arena,
                 parts: Partitioning) -> None:
        device = arena.device
        self._found = found
        self._config = config
        self._chunks = layout.shape(config).chunks
        pyramid = layout.levels(config, parts.width, parts.height)
        self._levels = [CostLevel(device[f'cost_{k}'], *level) for k, level in enumerate(pyramid)]
        self._pass = parameters(config, device['table'])
        self._pass.levels = (CostLevel * TILE_LEVELS)(*self._levels[:TILE_LEVELS])
        self._pass.image_width = width

    def load(self, image: str, has_whole_grey: bool, base: str | None = None) -> None:
        """Compile or load what ``enqueue`` of such images launches."""
        for file, name in kernels(self._config, image, has_whole_grey, base):
            compiler.kernel(self._found, file, name)

    def initialise(self, stream: int) -> None:
        """Send the table of 16-bit costs to the device."""
        send_table(self._config, self._pass.table, stream)

    def enqueue(self, stream: int, image: str, has_whole_grey: bool, left: int, right: int,
                part: Partition, stamp: int | None, base: str | None = None) -> None:
        """Fill the costs of every level of a partition from the matched images.

        :param image: 'uint8' or 'float'; ``left`` and ``right``: addresses of such pixels.
        :param has_whole_grey: as for ``way``.
        :param stamp: address of the time at which the stage starts; None = not wanted.
        :param base: as for ``kernels``.
        """
        first, *rest = (compiler.kernel(self._found, file, name)
                        for file, name in kernels(self._config, image, has_whole_grey, base))
        level, costs = self._levels[0], self._pass
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
    rounds = -(-chunks // MOST_WARPS)
    return max(LEAST_WARPS, -(-chunks // rounds))
