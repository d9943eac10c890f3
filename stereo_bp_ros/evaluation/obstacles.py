"""Obstacles that a map shows in the corridor ahead of a vehicle, and that are not there."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np

from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.evaluation.depth_errors import distances
from stereo_bp_ros.evaluation.regions import DISTANCES, distance_name
from stereo_bp_ros.evaluation.sums import Sums
from stereo_bp_ros.road_plane import Plane, fit_road

#: Heights above the ground between which a point is in the way, metres.
LOW_M, HIGH_M = 0.3, 3.0

#: Pixels of the smallest cluster that counts as an obstacle; eight neighbours are connected.
MIN_PIXELS = 30

#: What the truth shows counts as an obstacle in a corridor this much wider on either side
#: (metres), this many times as long, and from this many times ``LOW_M``: an obstacle that is put a
#: little beside its place is no false one.
WIDER_M, LONGER, LOWER = 0.5, 1.2, 0.5

#: An obstacle of the truth is seen where this share of its pixels is at most so far from its
#: distance and from its height above the ground, as shares of both. The ground behind is not.
SEEN_SHARE, SEEN_DISTANCE, SEEN_HEIGHT = 0.5, 0.2, 0.5


@dataclass(frozen=True)
class Corridor:
    """A part of the ground ahead, in the direction of the optical axis.

    width_m, length_m: metres; the left camera is in the middle of its near end.
    camera_height_m:   of the left camera above a ground that is parallel to the optical axis and
                       to the rows of the image; None: the ground is found in the truth.
    """

    width_m: float
    length_m: float
    camera_height_m: float | None = None

    def ground(self, calibration: Calibration, truth: np.ndarray | None) -> Plane | None:
        """The disparities of the ground, None where the truth shows no road.

        truth: H x W, pixels, not finite where unknown; only used where there is no height.

        :raises ValueError: there is neither a height nor a truth.
        """
        if self.camera_height_m is not None:
            slope = (calibration.focal_px * calibration.baseline_m
                     / (calibration.focal_y_px * self.camera_height_m))
            return Plane(0.0, slope, calibration.shift - slope * calibration.cy)
        if truth is None:
            raise ValueError('--corridor finds the ground in the truth, and a pair has none: give '
                             '--camera-height')
        road = fit_road(truth, np.isfinite(truth), calibration.shift)
        return None if road is None else road.plane


@dataclass(frozen=True)
class Detection:
    """Obstacles that the truth has at some distance; two of them add up.

    there, seen: how many, and how many of these the map shows.
    smallest_seen_m, largest_missed_m: heights above the ground, metres; infinite and 0 without
                 one.
    """

    there: int = 0
    seen: int = 0
    smallest_seen_m: float = math.inf
    largest_missed_m: float = 0.0

    def __add__(self, other: Detection) -> Detection:
        """Of the obstacles of both."""
        if not isinstance(other, Detection):
            return NotImplemented
        return Detection(self.there + other.there, self.seen + other.seen,
                         min(self.smallest_seen_m, other.smallest_seen_m),
                         max(self.largest_missed_m, other.largest_missed_m))

    def as_dict(self) -> dict[str, float | int | None]:
        """Every figure by its key; None where there is no value."""
        return {'there': self.there, 'seen': 100 * self.seen / self.there if self.there else None,
                'smallest_seen_m': self.smallest_seen_m if self.seen else None,
                'largest_missed_m': self.largest_missed_m if self.there else None}


@dataclass(frozen=True)
class Obstacles(Sums):
    """Counts of one frame or of many; two of them add up.

    frames:       frames with a ground.
    found:        obstacles that their maps show in the corridor.
    judged:       of `frames`, those with a truth.
    false:        of the obstacles found in these, those where the truth has none.
    false_frames: of `judged`, frames with such an obstacle.
    by_distance:  obstacles of the truth by their distance, '8_16_m' being 8 <= Z < 16 metres.
    """

    frames: int = 0
    found: int = 0
    judged: int = 0
    false: int = 0
    false_frames: int = 0
    by_distance: Mapping[str, Detection] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: every figure by its key of ``MEANINGS``, None where there is no value, and
        ``by_distance``."""
        figures = {'found_per_frame': (self.found, self.frames),
                   'false_per_frame': (self.false, self.judged),
                   'false_frames': (100 * self.false_frames, self.judged)}
        return {**{name: count / frames if frames else None
                   for name, (count, frames) in figures.items()},
                'by_distance': {name: one.as_dict()
                                for name, one in self.by_distance.items()}}


#: The figures of ``Obstacles.as_dict``: key to words and unit.
MEANINGS = {
    'found_per_frame': ('obstacles in the corridor, a frame', ''),
    'false_per_frame': ('of these false, a frame', ''),
    'false_frames': ('frames with a false one', '%')}


@dataclass(frozen=True)
class _Points:
    """Where the points of a map are, each float64 H x W in metres, NaN where there is none.

    forward: along the optical axis; sideways: from it, absolute; height: above the ground.
    """

    forward: np.ndarray
    sideways: np.ndarray
    height: np.ndarray

    @classmethod
    def of(cls, disparity: np.ndarray, known: np.ndarray, calibration: Calibration,
           ground: Plane) -> _Points:
        """Of a map, H x W in pixels, that is known where `known`, bool H x W, says so.

        With n = (a fx, b fy, disparity of the ground at the principal point) the ground of
        disparity a x column + b x row + c is n P = focal length x baseline, all disparities being
        without the shift of the principal points.
        """
        forward, sideways, height = (np.full(disparity.shape, np.nan) for _ in range(3))
        row, column = np.nonzero(known & np.isfinite(disparity))
        metres = distances(disparity[row, column], calibration)
        is_finite = np.isfinite(metres)
        row, column, metres = row[is_finite], column[is_finite], metres[is_finite]
        normal = math.hypot(
            ground.a * calibration.focal_px, ground.b * calibration.focal_y_px,
            ground.at(np.float64(calibration.cx_left), np.float64(calibration.cy))
            - calibration.shift)
        forward[row, column] = metres
        sideways[row, column] = (np.abs(column - calibration.cx_left) * metres
                                 / calibration.focal_px)
        height[row, column] = (
            calibration.focal_px * calibration.baseline_m
            - (ground.at(column, row) - calibration.shift) * metres) / normal
        return cls(forward, sideways, height)

    def standing(self, corridor: Corridor, low_m: float) -> np.ndarray:
        """Those in a corridor, from ``low_m`` to ``HIGH_M`` above the ground: bool H x W."""
        return np.asarray((self.forward <= corridor.length_m)
                          & (self.sideways <= corridor.width_m / 2)
                          & (self.height > low_m) & (self.height <= HIGH_M))


def count_obstacles(disparity: np.ndarray, valid: np.ndarray, truth: np.ndarray | None,
                    calibration: Calibration, corridor: Corridor, ground: Plane,
                    windows: Sequence[tuple[float, float]] = ()) -> Obstacles:
    """Look for obstacles in one map.

    An obstacle is false where the truth is known in some of its pixels, and shows an obstacle in
    none. One without any known pixel is not judged.

    disparity: H x W, of the left image, pixels.
    valid:     bool H x W, where `disparity` is an estimate.
    truth:     H x W, pixels, not finite where unknown; None: there is none.
    ground:    of ``Corridor.ground``.
    windows:   distances beside those of ``regions.DISTANCES``, lower and upper limits in metres.
    """
    seen = _Points.of(disparity, valid, calibration, ground)
    labels, large = _clusters(seen.standing(corridor, LOW_M))
    if truth is None:
        return Obstacles(1, len(large))
    known = np.isfinite(truth)
    true = _Points.of(truth, known, calibration, ground)
    wider = Corridor(corridor.width_m + 2 * WIDER_M, LONGER * corridor.length_m)
    there = true.standing(wider, LOWER * LOW_M)
    false = np.setdiff1d(np.intersect1d(large, labels[known]), labels[there])
    return Obstacles(1, len(large), 1, len(false), int(len(false) > 0),
                     _detections(seen, true, corridor, windows))


def _clusters(stands: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the clusters of pixels, int32 H x W, and those of the large ones."""
    _, labels, stats, _ = cv2.connectedComponentsWithStats(stands.astype(np.uint8),
                                                           connectivity=8)
    large = np.flatnonzero(stats[:, cv2.CC_STAT_AREA] >= MIN_PIXELS)
    return labels, large[large != 0]        # 0 is the background


def _detections(seen: _Points, true: _Points, corridor: Corridor,
                windows: Sequence[tuple[float, float]]) -> dict[str, Detection]:
    """Of the obstacles of the truth, by the distance of half of their pixels."""
    by_distance: dict[str, Detection] = {}
    labels, large = _clusters(true.standing(corridor, LOWER * LOW_M))
    is_seen = ((np.abs(seen.forward - true.forward) <= SEEN_DISTANCE * true.forward)
               & (np.abs(seen.height - true.height) <= SEEN_HEIGHT * true.height))
    for number in large:
        pixels = labels == number
        height = float(true.height[pixels].max())
        metres = float(np.median(true.forward[pixels]))
        one = (Detection(1, 1, smallest_seen_m=height) if is_seen[pixels].mean() >= SEEN_SHARE
               else Detection(1, 0, largest_missed_m=height))
        for low, high in (*itertools.pairwise(DISTANCES), *windows):
            if low <= metres < high:
                name = distance_name(low, high)
                by_distance[name] = by_distance.get(name, Detection()) + one
    return by_distance
