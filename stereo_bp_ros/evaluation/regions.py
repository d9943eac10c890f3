"""Parts of a frame that are scored apart: depth edges, distances, classes, what is occluded."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import cv2
import numpy as np

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.evaluation.depth_errors import distances

#: Minimum step of the truth at a depth edge, pixels of disparity; a slanted surface has less.
EDGE_STEP = 2.0

#: Maximum pixels from one known truth to the next in a row or column that an edge lies between.
EDGE_GAP = 8

#: Pixels around a depth edge that are near it.
EDGE_DISTANCE = 5

#: Begins the name of the region of a class.
CLASS = 'class_'

#: Limits of the bins by distance along the optical axis, metres.
DISTANCES = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, math.inf)


def depth_edges(truth: np.ndarray) -> np.ndarray:
    """Pixels on either side of a depth edge: bool H x W.

    An edge lies between two known disparities that follow each other in a row or column, at most
    ``EDGE_GAP`` pixels apart, where they differ by more than ``EDGE_STEP`` and by more than one
    pixel of disparity per pixel between them. So a truth with gaps, as a laser scanner's, has
    edges, too.

    truth: H x W, pixels. NaN and infinity are unknown.
    """
    edges = np.zeros(truth.shape, bool)
    for values, found in ((truth, edges), (truth.T, edges.T)):
        line, place = np.nonzero(np.isfinite(values))
        known = values[line, place].astype(np.float64)
        gap = np.diff(place)
        step = ((np.diff(line) == 0) & (gap <= EDGE_GAP)
                & (np.abs(np.diff(known)) > np.maximum(EDGE_STEP, gap)))
        for side in (slice(None, -1), slice(1, None)):
            found[line[side][step], place[side][step]] = True
    return edges


def near_depth_edges(truth: np.ndarray, distance: int = EDGE_DISTANCE) -> np.ndarray:
    """Pixels at most ``distance`` columns and rows from one of ``depth_edges``: bool H x W.

    truth: H x W, pixels. NaN and infinity are unknown.
    """
    side = 2 * distance + 1
    return np.asarray(cv2.dilate(depth_edges(truth).astype(np.uint8),
                                 np.ones((side, side), np.uint8)) != 0)


def distance_name(low: float, high: float) -> str:
    """Name of the region of distances low <= Z < high, metres: '8_16_m', '0.5_inf_m'."""
    return f'{low!r}_{high!r}_m'.replace('.0_', '_')


def by_distance(truth: np.ndarray, calibration: Calibration,
                windows: Sequence[tuple[float, float]] = ()) -> dict[str, np.ndarray]:
    """Masks, bool H x W, of the bins of ``DISTANCES`` by name: '8_16_m' is 8 <= Z < 16 metres.

    Z is that of ``depth_errors.distances``. Pixels without truth are in no bin.

    truth:   H x W, unshifted disparities, pixels. NaN and infinity are unknown.
    windows: further bins, which may overlap; lower and upper limit in metres.
    """
    known = np.isfinite(truth)
    metres = distances(np.where(known, truth, 1.0), calibration)
    return {distance_name(low, high): known & (metres >= low)
            & ((metres < high) | math.isinf(high))
            for low, high in (*itertools.pairwise(DISTANCES), *windows)}


def find_regions(truth: np.ndarray, vehicles: np.ndarray | None = None,
                 calibration: Calibration | None = None, *,
                 occluded: np.ndarray | None = None,
                 windows: Sequence[tuple[float, float]] = (),
                 classes: Mapping[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
    """Masks, bool H x W, of all parts of a frame that are scored apart, by name.

    ``near_edges`` and ``away_from_edges``; with a mask of vehicles ``vehicles`` and
    ``background``, of which KITTI 2015 calls D1 D1-fg and D1-bg; with a calibration the bins of
    ``by_distance``, and its ``windows``; with a mask of occluded pixels ``occluded`` and
    ``not_occluded``; ``class_pole`` and so on of classes.

    truth:    H x W, pixels. NaN and infinity are unknown.
    vehicles: bool or integer H x W, not 0 at vehicles (obj_map of KITTI 2015); None: not known.
    occluded: bool or integer H x W, not 0 where the right camera does not see the surface of the
        left pixel (known in disp_occ of KITTI, unknown in disp_noc); None: not known.
    classes:  name to bool or integer H x W, not 0 where the class is; they may overlap.

    :raises ValueError: a mask has not the shape of the truth.
    """
    named = {f'the class {name}': mask for name, mask in (classes or {}).items()}
    for name, mask in {'vehicles': vehicles, 'occluded pixels': occluded, **named}.items():
        if mask is not None and mask.shape != truth.shape:
            raise ValueError(f'the mask of {name} has shape {mask.shape}, the truth {truth.shape}')
    near = near_depth_edges(truth)
    found = {'near_edges': near, 'away_from_edges': ~near}
    if vehicles is not None:
        found |= {'vehicles': vehicles != 0, 'background': vehicles == 0}
    if occluded is not None:
        found |= {'occluded': occluded != 0, 'not_occluded': occluded == 0}
    if calibration is not None:
        found |= by_distance(truth, calibration, windows)
    return found | {CLASS + name: mask != 0 for name, mask in (classes or {}).items()}
