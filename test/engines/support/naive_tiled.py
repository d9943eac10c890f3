"""Tiled belief propagation written straight from ``docs/explanation/algorithms.md``, tile by tile.

Arrays are [row][x][label]; nothing of the layout, order or arithmetic of an engine is shared,
but that float32 sums are taken in the order that the page gives.
"""

from __future__ import annotations

import numpy as np

from stereo_bp_ros.config import quantisation
from stereo_bp_ros.config.matcher import MatcherConfig
from test.engines.support import naive_bp

#: The side of a message: where in the pixel that it reaches it comes from.
SIDES = ('left', 'right', 'above', 'below')


def beliefs(left: np.ndarray, right: np.ndarray, config: MatcherConfig) -> np.ndarray:
    """Beliefs H x W x D of float32 images: int64 with int16 messages, else float32."""
    cost = data_cost(left, right, config)
    height, width, labels = cost.shape
    size = config.tile_size
    rows, columns = -(-height // size), -(-width // size)
    tiles = [(i, j) for i in range(rows) for j in range(columns)]
    smoothness = _smoothness(config)
    found = np.zeros_like(cost)
    # What the tile (i, j) sent over each of its edges when it was visited last.
    sent: dict[tuple[int, int], dict[str, np.ndarray]] = {}
    nothing = dict.fromkeys(SIDES, np.zeros((size, labels), cost.dtype))
    for _ in range(config.outer_iterations):
        for i, j in [*tiles, *reversed(tiles)]:
            own = cost[i * size:(i + 1) * size, j * size:(j + 1) * size]
            arriving = {'left': sent.get((i, j - 1), nothing)['right'],
                        'right': sent.get((i, j + 1), nothing)['left'],
                        'above': sent.get((i - 1, j), nothing)['below'],
                        'below': sent.get((i + 1, j), nothing)['above']}
            found[i * size:(i + 1) * size, j * size:(j + 1) * size], sent[i, j] = bp_m(
                own, arriving, config.inner_iterations, *smoothness)
    return found


def untiled_beliefs(left: np.ndarray, right: np.ndarray, config: MatcherConfig) -> np.ndarray:
    """Beliefs after one iteration of BP-M over the image as a whole."""
    cost = data_cost(left, right, config)
    nothing = dict.fromkeys(SIDES, np.zeros((max(cost.shape), cost.shape[2]), cost.dtype))
    return bp_m(cost, nothing, 1, *_smoothness(config))[0]


def bp_m(cost: np.ndarray, arriving: dict[str, np.ndarray], iterations: int, slope: float,
         truncation: float) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Sweeps right, left, down and up of one region: its beliefs, and what it sends.

    ``arriving``: for each side the messages that reach the region over that edge; ``sent``: for
    each side those that leave over it.
    """
    height, width, _ = cost.shape
    inside = {side: np.zeros_like(cost) for side in SIDES}
    inside['left'][:, 0] = arriving['left'][:height]
    inside['right'][:, -1] = arriving['right'][:height]
    inside['above'][0] = arriving['above'][:width]
    inside['below'][-1] = arriving['below'][:width]
    sent = {}
    for _ in range(iterations):
        vertical = (cost + inside['above']) + inside['below']
        for x in range(width):
            out = message(vertical[:, x] + inside['left'][:, x], slope, truncation)
            if x + 1 < width:
                inside['left'][:, x + 1] = out
        sent['right'] = out
        for x in reversed(range(width)):
            out = message(vertical[:, x] + inside['right'][:, x], slope, truncation)
            if x > 0:
                inside['right'][:, x - 1] = out
        sent['left'] = out
        horizontal = (cost + inside['left']) + inside['right']
        for y in range(height):
            out = message(horizontal[y] + inside['above'][y], slope, truncation)
            if y + 1 < height:
                inside['above'][y + 1] = out
        sent['below'] = out
        for y in reversed(range(height)):
            out = message(horizontal[y] + inside['below'][y], slope, truncation)
            if y > 0:
                inside['below'][y - 1] = out
        sent['above'] = out
    total = cost
    for side in SIDES:
        total = total + inside[side]
    return total, sent


def message(h: np.ndarray, slope: float, truncation: float) -> np.ndarray:
    """The truncated linear message from h (lines x labels), its least value 0."""
    lowered = h.copy()
    for label in range(1, h.shape[1]):
        lowered[:, label] = np.minimum(lowered[:, label], lowered[:, label - 1] + slope)
    for label in range(h.shape[1] - 2, -1, -1):
        lowered[:, label] = np.minimum(lowered[:, label], lowered[:, label + 1] + slope)
    return np.minimum(lowered - h.min(axis=1, keepdims=True), truncation)


def energy(labels: np.ndarray, left: np.ndarray, right: np.ndarray,
           config: MatcherConfig) -> float:
    """Data costs of the labels H x W plus the smoothness costs of all neighbours, unscaled."""
    cost = naive_bp._data_cost(left, right, config.replace(message_type='float32'), 1)
    data = np.take_along_axis(cost, labels[..., np.newaxis], axis=2).sum(dtype=np.float64)
    steps = np.concatenate([np.abs(np.diff(labels, axis=axis)).ravel() for axis in (0, 1)])
    return float(data + np.minimum(config.discontinuity_slope * steps, config.truncation).sum())


def data_cost(left: np.ndarray, right: np.ndarray, config: MatcherConfig) -> np.ndarray:
    """Data cost H x W x D in units of the messages."""
    return naive_bp._data_cost(left, right, config, quantisation.message_scale(config))


def _smoothness(config: MatcherConfig) -> tuple[float, float]:
    slope, truncation = quantisation.message_smoothness(config)
    if config.message_type == 'int16':
        return slope, truncation
    return np.float32(slope), np.float32(truncation)
