"""Belief propagation straight from ``docs/explanation/algorithms.md``: slow, and plainly right.

Arrays are [row][x][label]; nothing of the layout, order or arithmetic of an engine is shared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stereo_bp_ros.config import MatcherConfig, quantisation
from stereo_bp_ros.partitions import Partitioning, whole

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


def right_keys(beliefs: np.ndarray, first: int, border: int = 0,
               needs_all_partners: bool = True) -> np.ndarray:
    """Belief and label that each pixel of the other image is offered, the least of them.

    :param first: min_disparity; ``border``: pixels around the image that offer nothing.
    :param needs_all_partners: so do pixels that have no partner for some label.
    """
    height, width, labels = beliefs.shape
    keys = np.full((height, width), 2**64 - 1, np.uint64)
    rows = slice(border, height - border)
    for x in range(border, width - border):
        partners = x - first - np.arange(labels)
        exist = (partners >= 0) & (partners < width)
        if needs_all_partners and not exist.all():
            continue
        for label in np.flatnonzero(exist):
            offered = beliefs[rows, x, label].astype(np.uint64) << np.uint64(32)
            there = keys[rows, x - first - label]
            np.minimum(there, offered + np.uint64(label), out=there)
    return keys


def _data_cost(left: np.ndarray, right: np.ndarray, config: MatcherConfig,
               scale: int) -> np.ndarray:
    height, width = left.shape
    first = config.min_disparity
    disparities = range(first, first + config.disparity_range)
    cost = np.zeros((height, width, config.disparity_range),
                    np.int64 if config.message_type == 'int16' else np.float32)
    for x in range(width):
        if x - disparities[-1] < 0 or x - disparities[0] > width - 1:
            continue                    # no evidence
        for label, d in enumerate(disparities):
            if config.message_type == 'int16':
                difference = np.abs(left[:, x].astype(np.float64) - right[:, x - d])
                kept = np.minimum(difference, config.data_truncation)
                cost[:, x, label] = np.floor(scale * config.data_weight * kept + 0.5)
            else:
                kept = np.minimum(np.abs(left[:, x] - right[:, x - d]),
                                  np.float32(config.data_truncation))
                cost[:, x, label] = np.float32(config.data_weight) * kept
    return cost


def parents(children: np.ndarray) -> np.ndarray:
    height, width, _ = children.shape
    even = np.pad(children, ((0, height % 2), (0, width % 2), (0, 0)))
    return even[::2, ::2] + even[::2, 1::2] + even[1::2, ::2] + even[1::2, 1::2]


def _updated(shape: tuple[int, ...], iteration: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the nodes that an iteration updates."""
    nodes = [(y, x) for y in range(1, shape[0] - 1)
             for x in range((y + iteration) % 2 + 1, shape[1] - 1, 2)]
    y, x = np.array(nodes, int).reshape(-1, 2).T
    return y, x


def message(h: np.ndarray, slope: float, truncation: float | np.ndarray,
            first_step: int | None) -> np.ndarray:
    """Truncated linear lower envelope of h (nodes x labels), normalised.

    :param truncation: one number, or nodes x 1 with a first step.
    """
    lowered = h.copy()
    if first_step is not None:
        for k in range(1, h.shape[1]):
            cost = first_step + slope * (k - 1)
            if cost >= np.max(truncation):
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
