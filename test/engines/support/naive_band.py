"""Search of a band, as ``docs/explanation/algorithms.md`` has it: all labels, and a mask.

Volumes are H x W x D; labels that a pixel does not search cost ``NEVER``.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from stereo_bp_ros import MatcherConfig
from stereo_bp_ros.config.quantisation import NO_SECOND
from stereo_bp_ros.engines import geometry
from stereo_bp_ros.engines.partitions import Partitioning, whole
from stereo_bp_ros.engines.plan import first_pass_of
from test.engines.support import naive_bp, naive_costs, naive_downscale

NEVER, REACH = 10**6, 8


@dataclasses.dataclass
class Found:
    """What matching makes of it; ``lead``: of the best label over the second one."""

    label: np.ndarray
    fraction: np.ndarray
    lead: np.ndarray
    right_label: np.ndarray


def centres(coarse_map: np.ndarray, shape: tuple[int, int], config: MatcherConfig) -> np.ndarray:
    """Two labels for each pixel, H x W x 2, from the sixteenths of the first pass."""
    coarse = first_pass_of(config)
    window = geometry.matched_window(coarse, *coarse_map.shape[::-1])
    if window.width:
        inner = coarse_map[window.y_offset:window.y_offset + window.height,
                           window.x_offset:window.x_offset + window.width]
        coarse_map = np.pad(inner, (
            (window.y_offset, coarse_map.shape[0] - window.y_offset - window.height),
            (window.x_offset, coarse_map.shape[1] - window.x_offset - window.width)), 'edge')
    sixteenths = naive_downscale.enlarged(coarse_map, 2, shape)
    own = np.floor(sixteenths / 16 + 0.5).astype(int)
    own += 2 * coarse.min_disparity - config.min_disparity
    padded = np.pad(own, REACH, mode='edge')
    near = np.max([padded[y:y + shape[0], x:x + shape[1]]
                   for y in range(2 * REACH + 1) for x in range(2 * REACH + 1)], axis=0)
    radius = config.band_radius
    return np.clip(np.stack([own, near], -1), radius, config.disparity_range - 1 - radius)


def match(left: np.ndarray, right: np.ndarray, coarse_map: np.ndarray, config: MatcherConfig,
          parts: Partitioning | None = None) -> Found:
    """Of uint8 images; ``coarse_map``: sixteenths that the first pass has found."""
    distance = np.abs(np.arange(config.disparity_range)
                      - centres(coarse_map, left.shape, config)[..., np.newaxis])
    searched = (distance <= config.band_radius).any(2)
    has_both_beside = (distance < config.band_radius).any(2)
    cost = naive_costs.combined_cost(left, right, config).astype(np.int64)
    beliefs = np.full(cost.shape, NEVER)
    fraction = np.zeros(left.shape, int)
    for x, y, kept in (parts or whole(*left.shape[::-1])).partitions:
        height, width = (parts.height, parts.width) if parts else left.shape
        inside = np.s_[y:y + height, x:x + width]
        own = np.s_[kept.top:kept.bottom, kept.left:kept.right]
        own_inside = np.s_[kept.top - y:kept.bottom - y, kept.left - x:kept.right - x]
        summed = _path_sums(cost[inside], searched[inside], config)
        found = _beliefs(np.where(searched[inside], summed, NEVER), left[inside], config)
        beliefs[own] = found[own_inside]
        label = naive_bp.labels(found)
        fraction[own] = _fractions(cost[inside], has_both_beside[inside], label)[own_inside]
    label = naive_bp.labels(beliefs)
    other = np.abs(np.arange(config.disparity_range) - label[..., np.newaxis]) > 1
    best = beliefs.min(-1)
    second = np.where(other, beliefs, NEVER).min(-1)
    lead = np.where(second < NEVER // 2, second - best, NO_SECOND)
    least, winner = naive_bp.offered(beliefs, config.min_disparity, needs_all_partners=False)
    return Found(label, np.where(label < 0, 0, fraction), lead,
                 np.where(least < NEVER // 2, winner, -1))


def _path_sums(cost: np.ndarray, searched: np.ndarray, config: MatcherConfig) -> np.ndarray:
    """As ``naive_costs.path_aggregation``, along labels that are searched."""
    total = np.zeros(cost.shape, np.int64)
    for axis, is_backward in ((1, False), (1, True), (0, False), (0, True)):
        lines = [np.moveaxis(volume, axis, 0) for volume in (cost, searched, total)]
        costs, masks, sums = (line[::-1] for line in lines) if is_backward else lines
        before = None
        for own, mask, out in zip(costs, masks, sums, strict=True):
            path = np.where(mask, own, NEVER)
            if before is not None:
                least = before.min(-1, keepdims=True)
                reached = np.minimum(before, least + config.path_jump_penalty)
                for there, here in ((np.s_[:, :-1], np.s_[:, 1:]), (np.s_[:, 1:], np.s_[:, :-1])):
                    reached[here] = np.minimum(reached[here],
                                               before[there] + config.path_step_penalty)
                path = np.where(mask, np.minimum(own + reached - least, 255), NEVER)
            out += path
            before = path
    rest = total - total.min(-1, keepdims=True)
    return np.minimum((rest + 2) // 4, 255)


def _beliefs(cost: np.ndarray, grey: np.ndarray, config: MatcherConfig) -> np.ndarray:
    first_step = config.discontinuity_first_step
    truncations = None
    if config.discontinuity_edge_threshold:
        truncations = naive_bp.edge_truncations(grey, config)
    return naive_bp.beliefs_from(
        [cost], round(config.discontinuity_slope), round(config.truncation),
        config.iterations_of_levels, round(first_step) if first_step else None, truncations)


def _fractions(cost: np.ndarray, counts: np.ndarray, label: np.ndarray) -> np.ndarray:
    """As ``naive_costs.fractions``, over those of 3 x 3 that have all three labels in a window."""
    height, width, labels = cost.shape
    pads = ((1, 1), (1, 1), (0, 0))
    padded, weight = np.pad(cost, pads, 'edge'), np.pad(counts, pads, 'edge')
    middle = np.clip(label, 1, labels - 2)[..., np.newaxis]
    sums = []
    for k in (-1, 0, 1):
        at = [np.take_along_axis(padded[y:y + height, x:x + width], middle + k, -1)
              * np.take_along_axis(weight[y:y + height, x:x + width], middle, -1)
              for y in range(3) for x in range(3)]
        sums.append(np.sum(at, axis=0)[..., 0])
    before, least, after = sums
    rise = np.maximum(before, after) - least
    own = np.clip(label, 0, None)[..., np.newaxis]
    has_fraction = (np.take_along_axis(counts, own, -1)[..., 0] & (label > 0)
                    & (label < labels - 1) & (least <= before) & (least <= after) & (rise > 0))
    rise = np.where(has_fraction, rise, 1)
    return np.where(has_fraction, (16 * (before - after) + rise) // (2 * rise), 0)
