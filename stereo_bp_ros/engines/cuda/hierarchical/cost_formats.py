"""How data costs lie in memory beside each format of messages. No CuPy here."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from stereo_bp_ros.config import quantisation
from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines.cuda.hierarchical.formats import (
    MAX_BYTE,
    MessageFormat,
    largest_cost,
)

#: The largest multiple that 4 bits hold.
MAX_NIBBLE = 15

#: 16 bits hold the sum of the differences of a node of the coarsest level up to this.
MAX_SUM = 65535

#: The kernels round products of a byte and the real factor to whole numbers below this.
MAX_PRODUCT = 2 ** 22


class Packed(NamedTuple):
    """Costs of bytes as ``factor * min(difference, truncation)`` in whole numbers.

    Beside messages of floats the factor is 1, and a real factor multiplies the result.
    """

    factor: int
    truncation: int


#: Units of a chunk of 8 disparities, and bytes of each, by the format's name in C++:
#:
#: | name | a disparity | chosen where |
#: | --- | --- | --- |
#: | Nibbles | 4 bits, multiples of an integer | ``messages.base_cost`` says so |
#: | Bytes | 8 bits | int16, level 0 or 1, costs up to 255 |
#: | Multiples | 8 bits, multiples of a real number | the same, and products are small |
#: | MultipleSums | 16 bits, the same | coarser levels beside ``Multiples`` |
#: | Int16 | 16 bits | int16 otherwise |
#: | Float32 | 32 bits | floats otherwise |
UNITS = {'Nibbles': (1, 4), 'Bytes': (1, 8), 'Multiples': (1, 8), 'MultipleSums': (1, 16),
         'Int16': (1, 16), 'Float32': (2, 16)}


class CostFormat(NamedTuple):
    """How the data cost of one node lies in memory.

    name: in C++. factor: multiplies ``Nibbles``; of ``Multiples`` and ``MultipleSums``, the
    pattern of a float32.
    """

    name: str
    factor: int

    @staticmethod
    def of(config: ResolvedConfig, level: int, base: str | None = None) -> CostFormat:
        """The format of a level.

        :param base: name of the format of level 0; None = as images of any type have it.
        """
        whole = packed(config)
        if MessageFormat.of(config).is_int16:
            is_small = level < 2 and _fits_bytes(config, level)
            name, factor = 'Bytes' if is_small else 'Int16', whole.factor if whole else 0
        else:
            name, factor = 'Float32', int(np.float32(real_factor(config)).view(np.uint32))
        if level == 0 and base:
            name = base
        elif base == 'Multiples' and whole:
            largest = 4 ** level * whole.truncation
            is_small = (level <= 2 and largest <= MAX_BYTE
                        and largest * real_factor(config) < MAX_PRODUCT)
            name = base if is_small else 'MultipleSums'
        return CostFormat(name, factor)

    @property
    def units(self) -> int:
        """Units of one chunk."""
        return UNITS[self.name][0]

    @property
    def unit_bytes(self) -> int:
        """Bytes of a unit."""
        return UNITS[self.name][1]


def _fits_bytes(config: ResolvedConfig, level: int) -> bool:
    """Whether 8 bits hold the integer costs of a level."""
    return largest_cost(config) * 4 ** level <= MAX_BYTE


def table(config: ResolvedConfig) -> np.ndarray[Any, Any]:
    """Data cost of every difference of two grey values 0..255 with 16 bits: uint16, 256."""
    kept = np.minimum(np.arange(256, dtype=np.float64), config.data_truncation)
    factor = config.data_weight * quantisation.message_scale(config)
    return np.floor(factor * kept + 0.5).astype(np.uint16)


def packed(config: ResolvedConfig) -> Packed | None:
    """The whole numbers that give the costs of the table; None where there are none.

    The kernel that computes four bytes at a time needs a truncation of 7 bits. Beside messages of
    floats 16 bits must hold the sums of every level. Multi-feature costs are sums of several.
    """
    if config.has_combined_cost:
        return None
    if not MessageFormat.of(config).is_int16:
        truncation = min(config.data_truncation, 255.0)
        is_whole = (truncation < 128 and truncation == int(truncation)
                    and truncation * 4 ** (config.levels - 1) <= MAX_SUM)
        return Packed(1, int(truncation)) if is_whole else None
    if not _fits_bytes(config, 0):
        return None
    costs = table(config).astype(int)
    factor = int(costs[1])
    if factor == 0:
        return None
    whole = Packed(factor, int(costs[-1]) // factor)
    is_equal = np.array_equal(costs, factor * np.minimum(np.arange(256), whole.truncation))
    return whole if is_equal and whole.truncation < 128 else None


def real_factor(config: ResolvedConfig) -> float:
    """From a difference of grey values to its cost in device units."""
    return (config.data_weight * quantisation.message_scale(config)
            * MessageFormat.of(config).scale)
