"""Belief propagation straight from ``docs/explanation/algorithms.md``: slow, and plainly right.

Arrays are [row][x][label]; nothing of the layout, order or arithmetic of an engine is shared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stereo_bp_ros.config import quantisation
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.engines.partitions import Partitioning, whole

#: (y, x, dy, dx) -> the truncations of the messages that nodes send to neighbours, nodes x 1.
Truncations = Callable[[np.ndarray, np.ndarray, int, int], Any]


def belief_propagation(left: np.ndarray, right: np.ndarray, config: MatcherConfig,
                       parts: Partitioning | None = None) -> np.ndarray:
    """Beliefs H x W x D of float32 images: int64 with int16 messages, float32 with ``exact``.

    :param parts: what is kept of each partition, which is matched as an image of its own would
        be but for the data cost, which is the whole image's.
    """
    cost = _data_cost(left, right, config, quantisation.message_scale(config))
    beliefs = np.zeros_like(cost)
    for x, y, kept in (parts or whole(left.shape[1], left.shape[0])).partitions:
        height, width = (parts.height, parts.width) if parts else left.shape
        part = _pass_messages(cost[y:y + height, x:x + width], config)
        beliefs[kept.top:kept.bottom, kept.left:kept.right] = part[
            kept.top - y:kept.bottom - y, kept.left - x:kept.right - x]
    return beliefs


def _pass_messages(cost: np.ndarray, config: MatcherConfig) -> np.ndarray:
    """Beliefs from the data cost."""
    is_integer = config.message_type == 'int16'
    scale = quantisation.message_scale(config)
    costs = [cost]
    for _ in range(config.levels - 1):
        costs.append(parents(costs[-1]))
    slope, truncation = config.discontinuity_slope, config.truncation
    if is_integer:
        slope = math.floor(scale * slope + 0.5)
        truncation = math.floor(scale * truncation + 0.5)
    else:
        slope, truncation = np.float32(slope), np.float32(truncation)
    first_step = None
    if config.discontinuity_first_step:
        first_step = math.floor(scale * config.discontinuity_first_step + 0.5)
    return beliefs_from(costs, slope, truncation, config.iterations_of_levels, first_step)


def beliefs_from(costs: list[np.ndarray], slope: float, truncation: float,
                 iterations: Sequence[int], first_step: int | None = None,
                 truncations: list[Truncations] | None = None) -> np.ndarray:
    """Beliefs H x W x D from the data costs of every level, level 0 first, int64 or float32.

    :param iterations: of each level, level 0 first.
    :param first_step: smoothness cost of a step of one label, None = the slope.
    :param truncations: of every level, where they are not the same everywhere.
    """
    up = down = to_left = to_right = np.zeros_like(costs[-1])
    of_levels = truncations or [lambda y, x, dy, dx: truncation] * len(costs)
    for cost, count, bounds in zip(reversed(costs), reversed(iterations), reversed(of_levels),
                                   strict=True):
        if cost.shape != up.shape:
            rows = np.arange(cost.shape[0]) // 2
            columns = np.arange(cost.shape[1]) // 2
            up, down, to_left, to_right = (sent[rows][:, columns]
                                           for sent in (up, down, to_left, to_right))
        up, down, to_left, to_right = (sent.copy() for sent in (up, down, to_left, to_right))
        for t in range(count):
            y, x = _updated(cost.shape, t)
            c = cost[y, x]
            below, above = up[y + 1, x], down[y - 1, x]
            right_of, left_of = to_left[y, x + 1], to_right[y, x - 1]

            def lowered(h: np.ndarray, dy: int, dx: int, of: Truncations = bounds,
                        node: tuple[np.ndarray, np.ndarray] = (y, x)) -> np.ndarray:
                return message(h, slope, of(*node, dy, dx), first_step)

            up[y, x] = lowered(below + right_of + left_of + c, -1, 0)
            down[y, x] = lowered(above + right_of + left_of + c, 1, 0)
            to_left[y, x] = lowered(below + above + right_of + c, 0, -1)
            to_right[y, x] = lowered(below + above + left_of + c, 0, 1)
    beliefs = np.zeros_like(costs[0])
    beliefs[1:-1, 1:-1] = (up[2:, 1:-1] + down[:-2, 1:-1] + to_left[1:-1, 2:]
                           + to_right[1:-1, :-2] + costs[0][1:-1, 1:-1])
    return beliefs


def edge_truncations(grey: np.ndarray, config: MatcherConfig) -> list[Truncations]:
    """The truncations of every level from the left image, H x W."""
    usual, at_edges = config.truncation, config.discontinuity_edge_truncation
    values = np.floor(np.clip(grey.astype(np.float64), 0, 255) + 0.5)
    found: list[Truncations] = []
    for _ in range(config.levels):
        def truncation(y: np.ndarray, x: np.ndarray, dy: int, dx: int,
                       of: np.ndarray = values) -> np.ndarray:
            differences = [of[y + dx * s, x + dy * s] - of[y + dy + dx * s, x + dx + dy * s]
                           for s in (-1, 0, 1)]
            differs = np.abs(sum(differences)) >= 3 * config.discontinuity_edge_threshold
            chosen = np.where(differs, at_edges, usual)
            return np.floor(chosen + 0.5).astype(np.int64)[:, np.newaxis]
        found.append(truncation)
        height, width = values.shape
        even = np.pad(values, ((0, height % 2), (0, width % 2)), mode='edge')
        values = (even[::2, ::2] + even[::2, 1::2] + even[1::2, ::2] + even[1::2, 1::2]) / 4
    return found


def labels(beliefs: np.ndarray) -> np.ndarray:
    """Lowest label of least belief, -1 on the border of the image."""
    found = np.full(beliefs.shape[:2], -1)
    found[1:-1, 1:-1] = np.argmin(beliefs, axis=2)[1:-1, 1:-1]
    return found


def offered(beliefs: np.ndarray, first: int, border: int = 1, needs_all_partners: bool = True
            ) -> tuple[np.ndarray, np.ndarray]:
    """Least belief, and its label or -1, of all that each pixel of the other image is offered.

    :param first: min_disparity; ``border``: pixels around the image that offer nothing.
    :param needs_all_partners: so do pixels that have no partner for some label.
    """
    height, width, labels = beliefs.shape
    least, winner = np.zeros((height, width), beliefs.dtype), np.full((height, width), -1)
    rows, columns = slice(border, height - border), np.arange(border, width - border) - first
    if needs_all_partners:
        columns = columns[(columns >= labels - 1) & (columns < width)]
    for label in range(labels):
        there = columns[(columns >= label) & (columns < width + label)] - label
        offers = beliefs[rows, there + first + label, label]
        is_better = (winner[rows, there] < 0) | (offers < least[rows, there])
        least[rows, there] = np.where(is_better, offers, least[rows, there])
        winner[rows, there] = np.where(is_better, label, winner[rows, there])
    return least, winner


def right_keys(beliefs: np.ndarray, first: int, border: int = 0,
               needs_all_partners: bool = True) -> np.ndarray:
    """The same as kernels keep it: belief in the upper 32 bits, label in the lower ones."""
    least, winner = offered(beliefs, first, border, needs_all_partners)
    keys = least.astype(np.uint64) << np.uint64(32) | winner.astype(np.uint64)
    return np.where(winner < 0, np.uint64(2**64 - 1), keys)


def fractions(beliefs: np.ndarray) -> np.ndarray:
    """Sixteenths from the label of least belief to the vertex of the parabola, H x W."""
    label = np.argmin(beliefs, axis=2)[..., np.newaxis]
    before, least, after = (
        np.take_along_axis(beliefs, np.clip(label + step, 0, beliefs.shape[2] - 1), 2)[..., 0]
        .astype(np.float64) for step in (-1, 0, 1))
    curvature = before - 2 * least + after
    is_inner = (label[..., 0] > 0) & (label[..., 0] < beliefs.shape[2] - 1) & (curvature > 0)
    return np.where(is_inner, np.floor(8 * (before - after) / np.where(
        is_inner, curvature, 1) + 0.5), 0)


def _data_cost(left: np.ndarray, right: np.ndarray, config: MatcherConfig,
               scale: int) -> np.ndarray:
    height, width = left.shape
    first, labels = config.min_disparity, config.disparity_range
    is_integer = config.message_type == 'int16'
    cost = np.zeros((height, width, labels), np.int64 if is_integer else np.float32)
    x = np.arange(width)
    x = x[(x - first - labels + 1 >= 0) & (x - first < width)]      # elsewhere is no evidence
    for label in range(labels):
        own, other = left[:, x], right[:, x - first - label]
        if is_integer:
            kept = np.minimum(np.abs(own.astype(np.float64) - other), config.data_truncation)
            cost[:, x, label] = np.floor(scale * config.data_weight * kept + 0.5)
        else:
            kept = np.minimum(np.abs(own - other), np.float32(config.data_truncation))
            cost[:, x, label] = np.float32(config.data_weight) * kept
    return cost


def parents(children: np.ndarray) -> np.ndarray:
    height, width, _ = children.shape
    even = np.pad(children, ((0, height % 2), (0, width % 2), (0, 0)))
    return even[::2, ::2] + even[::2, 1::2] + even[1::2, ::2] + even[1::2, 1::2]


def _updated(shape: tuple[int, ...], iteration: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the nodes that an iteration updates."""
    y, x = np.mgrid[1:max(1, shape[0] - 1), 1:max(1, shape[1] - 1)]
    is_updated = (x + y + iteration) % 2 == 1
    return y[is_updated], x[is_updated]


def message(h: np.ndarray, slope: float, truncation: float | np.ndarray,
            first_step: int | None) -> np.ndarray:
    """Truncated linear lower envelope of h (nodes x labels), normalised.

    :param truncation: one number, or nodes x 1 with a first step.
    """
    lowered = h.copy()
    if first_step is not None:
        for k in range(1, h.shape[1]):
            cost = first_step + slope * (k - 1)
            if cost >= np.max(truncation, initial=0):
                break
            lowered[:, k:] = np.minimum(lowered[:, k:], h[:, :-k] + cost)
            lowered[:, :-k] = np.minimum(lowered[:, :-k], h[:, k:] + cost)
        least = h.min(axis=1, keepdims=True)
        return np.minimum(lowered - least, truncation)
    for label in range(1, h.shape[1]):
        lowered[:, label] = np.minimum(lowered[:, label], lowered[:, label - 1] + slope)
    for label in range(h.shape[1] - 2, -1, -1):
        lowered[:, label] = np.minimum(lowered[:, label], lowered[:, label + 1] + slope)
    lowered = np.minimum(lowered, h.min(axis=1, keepdims=True) + truncation)
    if lowered.dtype == np.int64:
        return lowered - lowered.min(axis=1, keepdims=True)
    total = np.zeros(len(lowered), np.float32)
    for label in range(lowered.shape[1]):       # np.sum adds pairwise
        total += lowered[:, label]
    return lowered - (total / np.float32(lowered.shape[1]))[:, np.newaxis]
