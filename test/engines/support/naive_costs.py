"""Combined data costs and path aggregation, one definition after the other, in plain NumPy.

Images are uint8 H x W, volumes H x W x D: label d of pixel (x, y) meets (x - min_disparity - d, y)
of the right image.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stereo_bp_ros import MatcherConfig

Array = np.ndarray[Any, Any]


def weighted(difference: Array, weight: float, bound: int) -> Array:
    """floor(w min(difference, bound) + 1/2), w: the weight rounded to 64ths."""
    return (int(weight * 64 + 0.5) * np.minimum(difference, bound) + 32) // 64


def census(grey: Array, window: str) -> Array:
    """The bits ``neighbour < centre`` of a window, rows first, borders replicated; bool."""
    return _darker(grey, lambda values: values, window, 1)


def sparse_census(grey: Array, window: str) -> Array:
    """The same with twice the spacing, of the mean of 3 x 3 pixels of the replicated image."""
    return _darker(grey, mean, window, 2)


def _darker(grey: Array, prepare: Callable[[Array], Array], window: str, spacing: int) -> Array:
    columns, rows = map(int, window.split('x'))
    height, width = grey.shape
    reach = spacing * max(columns, rows)    # more than enough
    values = prepare(np.pad(grey, reach, 'edge'))

    def moved(x: int, y: int) -> Array:
        return values[reach + y:reach + y + height, reach + x:reach + x + width]

    return np.stack([moved(spacing * (x - columns // 2), spacing * (y - rows // 2)) < moved(0, 0)
                     for y in range(rows) for x in range(columns)
                     if (x, y) != (columns // 2, rows // 2)], -1)


def mean(grey: Array) -> Array:
    """Of 3 x 3 pixels, rounded half up; borders replicated."""
    padded = np.pad(grey.astype(np.int64), 1, 'edge')
    height, width = grey.shape
    total = sum(padded[y:y + height, x:x + width] for y in range(3) for x in range(3))
    return (2 * total + 9) // 18


def sobel(grey: Array, scale: float, cap: float) -> Array:
    """The Sobel x derivative, scaled, clipped and rounded half up, plus 128, in 0 to 255."""
    p = np.pad(grey.astype(np.int32), 1, 'edge')
    derivative = ((p[:-2, 2:] - p[:-2, :-2]) + 2 * (p[1:-1, 2:] - p[1:-1, :-2])
                  + (p[2:, 2:] - p[2:, :-2]))
    cap = np.float32(cap or np.inf)
    values = np.clip(derivative.astype(np.float32) * np.float32(scale), -cap, cap)
    return np.clip(np.floor(values.astype(np.float64) + 128.5), 0, 255).astype(np.uint8)


def combined_cost(left: Array, right: Array, config: MatcherConfig) -> Array:
    """The data cost, uint8 H x W x D, of grey images that the Gaussian has left in 8 bits."""
    height, width = left.shape
    terms = []
    for weight, bits in ((config.census_weight, census),
                         (config.sparse_census_weight, sparse_census)):
        if weight:
            terms.append((bits(left, config.census_window), bits(right, config.census_window),
                          weight, 64))
    for weight, bound, feature in (
            (config.sobel_weight, config.sobel_bound,
             lambda image: sobel(image, config.sobel_scale, config.prefilter_cap)),
            (config.grey_weight, config.grey_bound, lambda image: image)):
        if weight:
            terms.append((feature(left).astype(int)[..., None],
                          feature(right).astype(int)[..., None], weight, bound))
    cost = np.full((height, width, config.disparity_range), config.outside_cost, np.int64)
    for label in range(config.disparity_range):
        d = config.min_disparity + label
        first, end = max(0, d), min(width, width + d)
        if first >= end:
            continue
        here, there = slice(first, end), slice(first - d, end - d)
        total = sum(weighted(np.abs(own[:, here].astype(int) - other[:, there]).sum(-1), weight,
                             bound) for own, other, weight, bound in terms)
        cost[:, here, label] = np.minimum(total, 255)
    return cost.astype(np.uint8)


def path_aggregation(cost: Array, config: MatcherConfig) -> Array:
    """The costs of paths from four sides added up, less their least, a quarter of it: uint8.

    Along a path, cut at 255: L(p, d) = C(p, d) + min(L(q, d), L(q, d - 1) + step,
    L(q, d + 1) + step, min L(q) + jump) - min L(q), q the pixel before p.
    """
    total = np.zeros(cost.shape, np.int64)
    for axis, is_backward in ((1, False), (1, True), (0, False), (0, True)):
        seen, added = np.moveaxis(cost, axis, 0), np.moveaxis(total, axis, 0)
        if is_backward:
            seen, added = seen[::-1], added[::-1]
        before = None
        for own, out in zip(seen.astype(np.int64), added, strict=True):
            if before is not None:
                least = before.min(-1, keepdims=True)
                reached = np.minimum(before, least + config.path_jump_penalty)
                reached[:, 1:] = np.minimum(reached[:, 1:],
                                            before[:, :-1] + config.path_step_penalty)
                reached[:, :-1] = np.minimum(reached[:, :-1],
                                             before[:, 1:] + config.path_step_penalty)
                own = np.minimum(own + reached - least, 255)
            out += own
            before = own
    rest = total - total.min(-1, keepdims=True)
    return np.minimum((rest + 2) // 4, 255).astype(np.uint8)


def coarser(cost: Array, truncation: int) -> Array:
    """The next level of the pyramid: sums of up to four children, less their least.

    Cut at four truncations: no message can tell, and 16 bits hold all sums.
    """
    height, width, labels = cost.shape
    padded = np.zeros((height + height % 2, width + width % 2, labels), np.int64)
    padded[:height, :width] = cost
    total = padded[::2, ::2] + padded[::2, 1::2] + padded[1::2, ::2] + padded[1::2, 1::2]
    return np.minimum(total - total.min(-1, keepdims=True), 4 * truncation)


def fractions(cost: Array, label: Array) -> Array:
    """Sixteenths of a label from ``label``, int8 H x W, to where two lines of one slope meet.

    Through sums of the data cost over 5 x 5 pixels, borders replicated, of the label before, of
    the label and of the one after: 0 where it is not the least, and at the first and last label.

    :param cost: uint8 H x W x D, before path aggregation; label: H x W, -1 = none.
    """
    height, width, labels = cost.shape
    padded = np.pad(cost.astype(np.int64), ((2, 2), (2, 2), (0, 0)), 'edge')
    total = sum(padded[y:y + height, x:x + width] for y in range(5) for x in range(5))
    inner = (label > 0) & (label < labels - 1)
    middle = np.where(inner, label, 1)[..., None]
    before, least, after = (
        np.take_along_axis(total, np.minimum(middle + k, labels - 1), -1)[..., 0]
        for k in (-1, 0, 1))
    rise = np.maximum(before, after) - least
    has_fraction = inner & (least <= before) & (least <= after) & (rise > 0)
    rise = np.where(has_fraction, rise, 1)
    return np.where(has_fraction, (16 * (before - after) + rise) // (2 * rise), 0).astype(np.int8)
