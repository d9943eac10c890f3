"""Grey values, and the absolute difference of bytes, which other costs have, too."""

from __future__ import annotations

from typing import Any

from stereo_bp_ros.engines.cpu.costs.bordered import Bordered, Target
from stereo_bp_ros.engines.cpu.simd.bytes import (
    load_bytes,
    saturating_difference,
    saturating_sum,
)
from stereo_bp_ros.engines.cpu.simd.runtime import kernel
from stereo_bp_ros.engines.cpu.simd.vectors import splat


def feature(grey: Bordered, config: Any, target: Target, scratch: Any) -> None:
    """The grey value itself; uint8."""
    _copy(*grey, *target)


@kernel
def distance(left: Any, own: int, right: Any, others: int) -> Any:
    value, values = splat(left[own]), load_bytes(right, others)
    return saturating_sum(saturating_difference(value, values),
                          saturating_difference(values, value))


@kernel
def _copy(grey: Any, reach: int, out: Any, first: int, step: int, begin: int, end: int) -> None:
    for y in range(out.shape[0]):
        for x in range(begin, end):
            out[y, first + step * x] = grey[y + reach, x + reach]
