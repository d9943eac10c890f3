"""How data costs lie in memory beside each format of messages. No CuPy here."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from stereo_bp_ros.config import ResolvedConfig, quantisation
from stereo_bp_ros.engines.cuda.hierarchical.formats import (
    MAX_COMBINED_COST,
    MessageFormat,
    largest_cost,
)

#: The largest multiple that 4 bits hold.
LARGEST_NIBBLE = 15

#: 16 bits hold the sum of the differences of a node of the coarsest level up to this.
LARGEST_SUM = 65535

#: The kernels round products of a byte and the real factor to whole numbers below this.
LARGEST_PRODUCT = 2 ** 22


class Packed(NamedTuple):
    """Costs of bytes as ``factor * min(difference, truncation)`` in whole numbers.

    Beside messages of floats the factor is 1, and a real factor multiplies the result.
    """

    factor: int
    truncation: int


@dataclasses.dataclass(frozen=True)
class CostFormat:
    """How the data cost of one node lies in memory.

    name: in C++. units: of one chunk of 8 disparities; unit_bytes: of each. factor: multiplies
    ``Nibbles``; of ``Multiples`` and ``MultipleSums``, the pattern of a float32.

    | name | a disparity | chosen where |
    | --- | --- | --- |
    | Nibbles | 4 bits, multiples of an integer | ``messages.base_cost`` says so |
    | Bytes | 8 bits | int16, level 0 or 1, costs up to 255 |
    | Multiples | 8 bits, multiples of a real number | the same, and products are small |
    | MultipleSums | 16 bits, the same | coarser levels beside ``Multiples`` |
    | Int16 | 16 bits | int16 otherwise |
    | Float32 | 32 bits | floats otherwise |
    """

    name: str
    factor: int

    @staticmethod
    def of(config: ResolvedConfig, level: int, base: str | None = None) -> CostFormat:
        """The format of a level.

        :param base: name of the format of level 0; None = as images of any type have it.
        """
        return CostFormat(_cost_name(config, level, base), _cost_factor(config))

    @property
    def units(self) -> int:
        """Units of one chunk."""
        return 2 if self.name == 'Float32' else 1

    @property
    def unit_bytes(self) -> int:
        """Bytes of a unit."""
        return {'Nibbles': 4, 'Bytes': 8, 'Multiples': 8}.get(self.name, 16)


def _cost_name(config: ResolvedConfig, level: int, base: str | None) -> str:
    if level == 0 and base:
        return base
    whole = packed(config)
    if base == 'Multiples' and whole:
        largest = 4 ** level * whole.truncation
        is_small = (level <= 2 and largest <= MAX_COMBINED_COST
                    and largest * real_factor(config) < LARGEST_PRODUCT)
        return base if is_small else 'MultipleSums'
    if MessageFormat.of(config).is_int16:
        return 'Bytes' if level < 2 and _fits_bytes(config, level) else 'Int16'
    return 'Float32'


def _cost_factor(config: ResolvedConfig) -> int:
    if not MessageFormat.of(config).is_int16:
        return int(np.float32(real_factor(config)).view(np.uint32))
    whole = packed(config)
    return whole.factor if whole else 0


def _fits_bytes(config: ResolvedConfig, level: int) -> bool:
    """Whether 8 bits hold the integer costs of a level."""
    return largest_cost(config) * 4 ** level <= MAX_COMBINED_COST


def table(config: ResolvedConfig) -> np.ndarray[Any, Any]:
    """Data cost of every difference of two grey values 0..255 with 16 bits: uint16, 256."""
    kept = np.minimum(np.arange(256, dtype=np.float64), config.data_truncation)
    factor = config.data_weight * quantisation.message_scale(config)
    return np.floor(factor * kept + 0.5).astype(np.uint16)


def packed(config: ResolvedConfig) -> Packed | None:
    """The whole numbers that give the costs of the table; None where there are none.

    The kernel that computes four bytes at a time needs a truncation of 7 bits. Beside messages of
    floats 16 bits must hold the sums of every level. Combined costs are sums of several.
    """
    if config.has_combined_cost:
        return None
    if not MessageFormat.of(config).is_int16:
        truncation = min(config.data_truncation, 255.0)
        is_whole = (truncation < 128 and truncation == int(truncation)
                    and truncation * 4 ** (config.levels - 1) <= LARGEST_SUM)
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
