"""Part of stage ``refine``: a separable bilateral filter in whole numbers.

Tomasi, Manduchi, "Bilateral filtering for gray and color images", ICCV 1998. The weight over
disparities is Tukey's biweight, as Durand and Dorsey have it ("Fast bilateral filtering for the
display of high-dynamic-range images", SIGGRAPH 2002), over pixels a Gaussian.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stereo_bp_ros.engines.cpu.simd.parallel import parallel_kernel
from stereo_bp_ros.engines.cpu.simd.runtime import kernel
from stereo_bp_ros.engines.cpu.simd.vectors import (
    address,
    load,
    maximum,
    minimum,
    splat,
    spread,
    store,
    upper_product,
    where_less,
)

#: Weights of the pixels -7 to 7: 64 exp(-k^2 / 128), rounded half up.
SPACE = (44, 48, 53, 56, 60, 62, 64, 64, 64, 62, 60, 56, 53, 48, 44)
RADIUS = 7
TAPS = 2 * RADIUS + 1

#: Pixels that are filtered at once.
PIXELS = 32


@parallel_kernel
def along_rows(y: int, values: Any, shift: int, factor: int, out: Any) -> None:
    """Filter along x; the arguments as for ``along_columns``."""
    width = values.shape[1]
    row, near, sums = values[y], np.empty(PIXELS + TAPS, np.uint16), _sums()
    for first in range(0, width, PIXELS):
        begin = first - RADIUS
        if begin >= 0 and begin + PIXELS + TAPS <= width:
            _add_all(address(row[begin:]), 1, shift, factor, sums)
        else:
            for i in range(PIXELS + TAPS):      # borders are replicated
                near[i] = row[min(max(begin + i, 0), width - 1)]
            _add_all(address(near), 1, shift, factor, sums)
        _divide(row[first:first + PIXELS], sums, out[y, first:first + PIXELS])


@parallel_kernel
def along_columns(y: int, values: Any, shift: int, factor: int, out: Any) -> None:
    """Filter along y.

    :param values: int16 H x W, as uint16: sixteenths, below 0 = no value; such pixels take no
        part.
    :param shift, factor: of ``factors``.
    :param out: the same, other than ``values``.
    """
    height, width = values.shape
    near, sums = np.empty((TAPS, PIXELS), np.uint16), _sums()
    is_inside = RADIUS <= y < height - RADIUS
    for first in range(0, width, PIXELS):
        if is_inside and first + PIXELS <= width:
            _add_all(address(values[y - RADIUS, first:]), width, shift, factor, sums)
        else:
            for k in range(TAPS):
                other = values[min(max(y + k - RADIUS, 0), height - 1)]
                for i in range(PIXELS):
                    near[k, i] = other[min(first + i, width - 1)]
            _add_all(address(near[0]), PIXELS, shift, factor, sums)
        _divide(values[y, first:first + PIXELS], sums, out[y, first:first + PIXELS])


def factors(factor: int) -> tuple[int, int]:
    """By what ``d factor // 256`` is made of a difference d with 16 bits.

    :param factor: from differences to 65536ths of that from which on the weight is 0.
    :returns: k and ``factor`` times 2^(8 - k): ``(d 2^k) (factor 2^(8 - k)) // 65536``. A
        difference that 2^k takes beyond 16 bits has no weight.
    """
    shift = min(8, max(0, factor.bit_length() - 2))
    return shift, factor << 8 - shift


@kernel
def _sums() -> Any:
    """Of ``PIXELS`` pixels: weights, and weighted values."""
    return np.empty((2, PIXELS), np.uint32)


@kernel
def _add_all(at: Any, stride: int, shift: int, factor: int, out: Any) -> None:
    """What the pixels around weigh, ``stride`` values apart, for 32 neighbouring pixels."""
    own = load(at, RADIUS * stride)
    weights, more_weights = spread(splat(np.uint16(0)))
    sums, more_sums = weights, weights
    most, up, factors_ = (splat(np.uint16(np.uint16(65535) >> np.uint16(shift))),
                          splat(np.uint16(1 << shift)), splat(np.uint16(factor)))
    whole, nothing = splat(np.uint16(256)), splat(np.uint16(0))
    first_invalid = splat(np.uint16(32768))
    for k in range(TAPS):
        other = load(at, k * stride)
        difference = minimum(maximum(own, other) - minimum(own, other), most)
        distance = minimum(upper_product(difference * up, factors_), whole)
        weight = splat(np.uint16(SPACE[k])) * _square(whole - _square(distance))
        weight = where_less(other, first_invalid, weight, nothing)
        weight_a, weight_b = spread(weight)
        other_a, other_b = spread(other)
        weights, more_weights = weights + weight_a, more_weights + weight_b
        sums, more_sums = sums + weight_a * other_a, more_sums + weight_b * other_b
    store(out[0], 0, weights)
    store(out[0], PIXELS // 2, more_weights)
    store(out[1], 0, sums)
    store(out[1], PIXELS // 2, more_sums)


@kernel
def _square(values: Any) -> Any:
    """v^2 // 256 of values of at most 256, whose square is 0 in 16 bits."""
    return (values * values >> splat(np.uint16(8))) + (values & splat(np.uint16(256)))


@kernel
def _divide(row: Any, sums: Any, out: Any) -> None:
    # A quotient of such numbers in float64 is never rounded up to a whole number.
    for x in range(out.shape[0]):
        weight = np.int32(sums[0, x])
        mean = np.float64(np.int32(np.int32(sums[1, x]) + np.int32(weight >> np.int32(1)))
                          ) / np.float64(weight)
        out[x] = np.uint16(np.int32(mean)) if row[x] < np.uint16(32768) else row[x]
