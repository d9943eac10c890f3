"""Multi-feature costs: the feature of each, and how it differs between two pixels.

Features are of both images for every cost that counts: part of the stage ``preprocess``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numba import types

from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines.cpu.costs import layout
from stereo_bp_ros.engines.cpu.simd import VECTOR_BYTES
from stereo_bp_ros.engines.cpu.simd.groups import (
    differing_bits_of_groups,
    load_groups,
    spread_bytes,
)
from stereo_bp_ros.engines.cpu.simd.parallel import parallel_kernel
from stereo_bp_ros.engines.cpu.simd.runtime import by_types, kernel
from stereo_bp_ros.engines.cpu.simd.vectors import (
    address,
    differing_bits,
    interleave,
    load_bytes,
    saturating_difference,
    saturating_sum,
    splat,
    store_bytes,
    where_less,
)


class Target(NamedTuple):
    """Where the feature of pixel (x, y) with begin <= x < end goes: ``out[y, first + step x]``."""

    out: np.ndarray[Any, Any]
    first: int
    step: int
    begin: int
    end: int


def extract(smoothed: np.ndarray[Any, Any], side: str, config: ResolvedConfig,
            arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Fill the features of one image as ``layout.Term`` says.

    :param smoothed: float32 H x W, the image after the Gaussian.
    :param side: left or right.
    :param arrays: those of ``layout.feature_arrays``.
    """
    width = smoothed.shape[1]
    rows, grey, reach = arrays[f'{side}_features'], arrays['bordered_grey'], layout.border(config)
    _fill_bordered(smoothed, grey, reach)
    first, step, begin, end = 0, 1, 0, width
    pixels = layout.row_pixels(config, width)[side == 'right']
    if side == 'right':
        first, step = width - 1 - config.min_disparity, -1
        begin, end = max(0, first - pixels + 1), min(width, first + 1)
    for name, term in zip(layout.COSTS, layout.terms(config, width), strict=True):
        if term.weight and begin < end:
            start, size = getattr(term, side), layout.COSTS[name]
            out = rows[:, start:start + size * pixels].view(f'uint{8 * size}')
            FEATURES[name].fill(grey, reach, config, Target(out, first, step, begin, end), arrays)


@kernel
def _fill_bordered(grey: Any, image: Any, reach: int) -> None:
    """uint8 with ``reach`` replicated pixels around the image, and some beyond."""
    height, width = grey.shape
    for row in range(height + 2 * reach):
        y = min(max(row - reach, 0), height - 1)
        for x in range(width):
            image[row, reach + x] = np.uint8(rounded(grey[y, x]))
        image[row, :reach] = image[row, reach]
        image[row, reach + width:] = image[row, reach + width - 1]


@kernel
def rounded(grey: Any) -> Any:
    """A grey value half up to 0..255, int32."""
    # In float64: 0.49999997 + 0.5 is 1 in float32.
    value = np.float64(grey) + 0.5
    value = 0.0 if value < 0.0 else value
    return np.int32(255.0 if value > 255.0 else value)


# --- census: which neighbours are darker, and in how many the two images differ

def _fill_census(grey: Any, reach: int, config: ResolvedConfig, target: Target,
                 arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """A bit for each pixel of the window but the centre: darker than it; uint64."""
    columns, rows = map(int, config.census_window.split('x'))
    planes = arrays['census_planes']
    _census(len(planes), grey, reach, 1, columns // 2, rows // 2, *target, planes)


def _fill_sparse_census(grey: Any, reach: int, config: ResolvedConfig, target: Target,
                        arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """The same bits of the 3 x 3 mean, with twice the spacing; uint64."""
    columns, rows = map(int, config.census_window.split('x'))
    mean, planes = arrays['bordered_mean'], arrays['census_planes']
    _fill_mean(len(grey) - 2, grey, mean)
    _census(len(planes), mean, reach, layout.SPARSE_SPACING, columns // 2, rows // 2, *target,
            planes)


@parallel_kernel
def _fill_mean(inner: int, grey: Any, mean: Any) -> None:
    """Of 3 x 3 pixels, rounded half up; not of those at the border of ``grey``."""
    above, own, below = grey[inner], grey[inner + 1], grey[inner + 2]
    out = mean[inner + 1, 1:]
    for x in range(grey.shape[1] - 2):
        total = np.uint32(4)    # half of nine, which is odd: there are no ties
        for column in range(3):
            total += np.uint32(above[x + column])
            total += np.uint32(own[x + column])
            total += np.uint32(below[x + column])
        out[x] = np.uint8(total // np.uint32(9))


@parallel_kernel
def _census(part: int, grey: Any, reach: int, spacing: int, radius_x: int, radius_y: int, out: Any,
            first: int, step: int, begin: int, end: int, scratch: Any) -> None:
    """The bits of an image with borders; ``spacing``: pixels from one neighbour to the next."""
    height, stride = out.shape[0], grey.shape[1]
    parts = scratch.shape[0]
    planes = scratch[part].reshape(-1)
    words = address(planes.view(np.uint64))
    for y in range(part * height // parts, (part + 1) * height // parts):
        to = address(out[y])
        for x in range(begin, end, VECTOR_BYTES):
            _census_planes(address(grey), (y + reach) * stride + reach + x, spacing,
                           spacing * stride, radius_x, radius_y, address(planes))
            join_planes(address(planes), 0, VECTOR_BYTES, address(planes))
            place = first + step * x
            for lane in range(min(VECTOR_BYTES, end - x)):
                to[place + step * lane] = words[lane]


@kernel
def _census_planes(grey: Any, centre: int, step_x: int, step_y: int, radius_x: int,
                   radius_y: int, planes: Any) -> None:
    """Of 64 pixels from ``centre`` on the bits, eight of them in a plane of bytes.

    :param step_x, step_y: bytes from one neighbour to the next and to the one below.
    """
    own, zero = load_bytes(grey, centre), splat(np.uint8(0))
    total = zero
    bits = 0
    for y in range(-radius_y, radius_y + 1):
        for x in range(-radius_x, radius_x + 1):
            if x == 0 and y == 0:
                continue
            other = load_bytes(grey, centre + y * step_y + x * step_x)
            total = total + where_less(other, own, splat(np.uint8(1 << bits % 8)), zero)
            bits += 1
            if bits % 8 == 0:
                store_bytes(planes, (bits // 8 - 1) * VECTOR_BYTES, total)
                total = zero
    for plane in range(bits // 8, 8):
        store_bytes(planes, plane * VECTOR_BYTES, total)
        total = zero


@kernel
def join_planes(planes: Any, place: int, stride: int, words: Any) -> None:
    """64 words of eight bytes, one from each plane; addresses of uint8, which may be the same.

    :param place, stride: where the first plane begins, and from one to the next.
    """
    a, b = load_bytes(planes, place), load_bytes(planes, place + stride)
    c, d = load_bytes(planes, place + 2 * stride), load_bytes(planes, place + 3 * stride)
    e, f = load_bytes(planes, place + 4 * stride), load_bytes(planes, place + 5 * stride)
    g, h = load_bytes(planes, place + 6 * stride), load_bytes(planes, place + 7 * stride)
    ae, bf, cg, dh = interleave(a, e), interleave(b, f), interleave(c, g), interleave(d, h)
    for half in range(2):
        aceg, bdfh = interleave(ae[half], cg[half]), interleave(bf[half], dh[half])
        for quarter in range(2):
            first, last = interleave(aceg[quarter], bdfh[quarter])
            target = (4 * half + 2 * quarter) * VECTOR_BYTES
            store_bytes(words, target, first)
            store_bytes(words, target + VECTOR_BYTES, last)


# --- bytes, which differ by their absolute difference

def _fill_grey(grey: Any, reach: int, config: ResolvedConfig, target: Target,
               arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """The grey value itself."""
    out, first, step, begin, end = target
    values = grey[reach:reach + len(out), reach + begin:reach + end]
    if step > 0:
        out[:, first + begin:first + end] = values
    else:
        out[:, first - end + 1:first - begin + 1] = values[:, ::-1]


def _fill_sobel(grey: Any, reach: int, config: ResolvedConfig, target: Target,
                arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """The x derivative times ``sobel_scale``, clipped to +-``prefilter_cap``, plus 128."""
    _sobel(len(target[0]), grey, reach, np.float32(config.sobel_scale),
           np.float32(config.prefilter_cap or math.inf), *target)


@parallel_kernel
def _sobel(y: int, grey: Any, reach: int, scale: Any, cap: Any, out: Any, first: int, step: int,
           begin: int, end: int) -> None:
    found, to = np.empty(end - begin, np.uint8), out[y]
    _sobel_row(grey[y + reach - 1, begin + reach - 1:], grey[y + reach, begin + reach - 1:],
               grey[y + reach + 1, begin + reach - 1:], scale, cap, found)
    for x in range(begin, end):
        to[first + step * x] = found[x - begin]


@kernel
def _sobel_row(above: Any, own: Any, below: Any, scale: Any, cap: Any, out: Any) -> None:
    for x in range(out.shape[0]):
        derivative = (np.int32(above[x + 2]) - np.int32(above[x])
                      + 2 * (np.int32(own[x + 2]) - np.int32(own[x]))
                      + np.int32(below[x + 2]) - np.int32(below[x]))
        value = np.float32(np.int32(derivative)) * scale
        value = cap if value > cap else value
        value = -cap if value < -cap else value
        # In float64: 0.49999997 + 0.5 is 1 in float32.
        exact = np.float64(value) + 128.5
        exact = 0.0 if exact < 0.0 else exact
        out[x] = np.uint8(np.int32(255.0 if exact > 255.0 else exact))


# --- how far features are from each other: of one pixel, or of two, whose places are tuples

@by_types
def offsets(start: int, size: int, pixels: Any) -> Any:
    """Of features of ``size`` bytes, from the numbers of their pixels."""
    if not isinstance(pixels, types.BaseTuple):
        return lambda start, size, pixels: start + size * pixels
    if len(pixels) == 2:
        return lambda start, size, pixels: (start + size * pixels[0], start + size * pixels[1])
    return lambda start, size, pixels: (start + size * pixels[0], start + size * pixels[1],
                                        start + size * pixels[2], start + size * pixels[3])


@by_types
def _differing_bits(left: Any, own: Any, right: Any, others: Any) -> Any:
    if isinstance(others, types.BaseTuple):
        return lambda left, own, right, others: differing_bits_of_groups(left, own, right, others)
    return lambda left, own, right, others: differing_bits(left, own, right, others)


@by_types
def _absolute_difference(left: Any, own: Any, right: Any, others: Any) -> Any:
    if isinstance(others, types.BaseTuple):
        return lambda left, own, right, others: _distance(
            spread_bytes(left, own[0], own[1]), load_groups(right, others))
    return lambda left, own, right, others: _distance(splat(left[own]),
                                                      load_bytes(right, others))


@kernel
def _distance(value: Any, values: Any) -> Any:
    return saturating_sum(saturating_difference(value, values),
                          saturating_difference(values, value))


class Feature(NamedTuple):
    """One cost: ``fill`` writes the feature of pixels to a ``Target``.

    ``differ``: of 64 labels how far the feature of a pixel is from its partners', or of four
    times 16 of two pixels.
    """

    fill: Callable[[Any, int, ResolvedConfig, Target, Mapping[str, np.ndarray[Any, Any]]], None]
    differ: Any


#: By the names of ``layout.COSTS``.
FEATURES = {'census': Feature(_fill_census, _differing_bits),
            'sparse_census': Feature(_fill_sparse_census, _differing_bits),
            'sobel': Feature(_fill_sobel, _absolute_difference),
            'grey': Feature(_fill_grey, _absolute_difference)}
