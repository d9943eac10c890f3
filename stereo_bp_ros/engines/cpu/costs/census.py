"""Census: which neighbours are darker, and in how many the two images differ."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from stereo_bp_ros.engines.cpu.costs.bordered import Bordered, Target
from stereo_bp_ros.engines.cpu.simd import VECTOR_BYTES
from stereo_bp_ros.engines.cpu.simd.bytes import differing_bits, load_bytes, store_bytes
from stereo_bp_ros.engines.cpu.simd.runtime import kernel, parallel_kernel
from stereo_bp_ros.engines.cpu.simd.vectors import address, splat, where_less


def feature(grey: Bordered, config: Any, target: Target, scratch: Any) -> None:
    """A bit for each pixel of the window but the centre: darker than it; uint64."""
    columns, rows = map(int, config.census_window.split('x'))
    _census(*grey, columns // 2, rows // 2, *target, scratch['census_planes'])


@kernel
def distance(left: Any, own: int, right: Any, others: int) -> Any:
    return differing_bits(left, own, right, others)


@parallel_kernel
def _census(grey: Any, reach: int, radius_x: int, radius_y: int, out: Any, first: int, step: int,
            begin: int, end: int, scratch: Any) -> None:
    height, stride = out.shape[0], grey.shape[1]
    parts = scratch.shape[0]
    for part in numba.prange(parts):
        planes = scratch[part].reshape(-1)
        for y in range(part * height // parts, (part + 1) * height // parts):
            for x in range(begin, end, VECTOR_BYTES):
                _planes(address(grey), (y + reach) * stride + reach + x, stride, radius_x,
                        radius_y, address(planes))
                for lane in range(min(VECTOR_BYTES, end - x)):
                    word = np.uint64(0)
                    for plane in range(8):
                        word |= np.uint64(planes[plane * VECTOR_BYTES + lane]) << np.uint64(
                            8 * plane)
                    out[y, first + step * (x + lane)] = word


@kernel
def _planes(grey: Any, centre: int, stride: int, radius_x: int, radius_y: int,
            planes: Any) -> None:
    """Of 64 pixels from ``centre`` on the bits, eight of them in a plane of bytes."""
    own, zero = load_bytes(grey, centre), splat(np.uint8(0))
    total = zero
    bits = 0
    for y in range(-radius_y, radius_y + 1):
        for x in range(-radius_x, radius_x + 1):
            if x == 0 and y == 0:
                continue
            other = load_bytes(grey, centre + y * stride + x)
            total = total + where_less(other, own, splat(np.uint8(1 << bits % 8)), zero)
            bits += 1
            if bits % 8 == 0:
                store_bytes(planes, (bits // 8 - 1) * VECTOR_BYTES, total)
                total = zero
    for plane in range(bits // 8, 8):
        store_bytes(planes, plane * VECTOR_BYTES, total)
        total = zero
