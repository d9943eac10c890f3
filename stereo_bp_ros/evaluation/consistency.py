"""How far a map agrees with itself and its images: figures of frames without a truth.

Four kinds: the match of the mirrored pair, the grey values of the right image, the map of the
frame before where nothing has moved, and the plane of the road. None of them knows the truth: a
map can be consistent and wrong, for instance on a wall with a period.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np

from stereo_bp_ros.evaluation.sums import Sums, none_for_nan
from stereo_bp_ros.road_plane import fit_road

#: Most that two disparities of the same point differ where they agree, pixels.
AGREEMENT_PX = 1.0

#: Fits of gain and offset, and the most pixels that they use.
EXPOSURE_ROUNDS, EXPOSURE_PIXELS = 10, 20000

#: Takes away what is linear in a row or a column; multiplies noise by 6 (Immerkaer, Computer
#: Vision and Image Understanding 1996).
NOISE_MASK = np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]], np.float32)

#: Median of the absolute value of a normal variable, in its standard deviations.
MAD = 0.6745


@dataclass(frozen=True)
class View:
    """A pair and its map.

    left, right: uint8 H x W, grey levels.
    disparity:   H x W, of the left image, pixels.
    valid:       bool H x W, where `disparity` is an estimate.
    """

    left: np.ndarray
    right: np.ndarray
    disparity: np.ndarray
    valid: np.ndarray


@dataclass(frozen=True)
class Consistency(Sums):
    """Counts and sums of one frame or of many; two of them add up.

    partners:     pixels with a disparity whose partner, that many pixels to the left, lies in
                  the right image.
    confirmed:    of these, whose partner has the same disparity in the mirrored match, within
                  ``AGREEMENT_PX``.
    contradicted: of these, whose partner has another one; the rest has none.
    grey:         sum over `partners` of the absolute difference of grey values, grey levels.
    followed:     pixels with a disparity in this frame and in the one before.
    static:       of these, where nothing has moved in both images.
    flickering:   of `static`, whose disparity has changed by more than ``AGREEMENT_PX``.
    road_pixels:  pixels with a disparity in the lower half of images where a road was found.
    road_inliers: of these, on its plane.
    road_squared: sum over `road_inliers`, squared pixels of disparity.
    """

    partners: int = 0
    confirmed: int = 0
    contradicted: int = 0
    grey: float = 0.0
    followed: int = 0
    static: int = 0
    flickering: int = 0
    road_pixels: int = 0
    road_inliers: int = 0
    road_squared: float = 0.0

    def as_dict(self) -> dict[str, float | None]:
        """Every figure by its key of ``MEANINGS``; None where there is no value."""
        road_rms = _mean(self.road_squared, self.road_inliers)
        figures = {
            'confirmed': 100 * _mean(self.confirmed, self.partners),
            'contradicted': 100 * _mean(self.contradicted, self.partners),
            'grey_mean': _mean(self.grey, self.partners),
            'static': 100 * _mean(self.static, self.followed),
            'flicker': 100 * _mean(self.flickering, self.static),
            'road_inliers': 100 * _mean(self.road_inliers, self.road_pixels),
            'road_rms': math.sqrt(road_rms)}
        return none_for_nan(figures)


#: The figures of ``Consistency.as_dict``: key to words and unit.
MEANINGS = {
    'confirmed': ('left-right: confirmed by the mirrored match', '%'),
    'contradicted': ('left-right: contradicted by it', '%'),
    'grey_mean': ('photometric error, mean', 'grey'),
    'static': ('pixels where nothing moved', '%'),
    'flicker': ('flicker of these: changed by > 1 px', '%'),
    'road_inliers': ('pixels on the plane of the road', '%'),
    'road_rms': ('RMS distance of these from it', 'px')}


def _mean(total: float, count: int) -> float:
    return total / count if count else math.nan


def judge_consistency(view: View, mirrored: tuple[np.ndarray, np.ndarray],
                      before: View | None = None, infinity: float = 0.0) -> Consistency:
    """All figures of one frame.

    mirrored: disparity, H x W in pixels, and where it is valid, bool H x W, of the pair of the
              mirrored right image as the left one and the mirrored left image as the right one.
    before:   the frame before, of the same size; None: there is none.
    infinity: disparity of infinite distance, pixels (`Calibration.shift`).
    """
    row, column = np.nonzero(view.valid & np.isfinite(view.disparity))
    disparity = view.disparity[row, column].astype(np.float64)
    partner = column - disparity
    is_inside = (partner >= 0) & (partner <= view.left.shape[1] - 1)
    row, column, disparity, partner = (
        part[is_inside] for part in (row, column, disparity, partner))
    confirmed, contradicted = _left_right(row, partner, disparity, mirrored)
    error = _photometric(view, row, column, partner)
    followed, static, flickering = _flicker(view, before)
    road = fit_road(view.disparity, view.valid, infinity)
    return Consistency(
        int(row.size), confirmed, contradicted, float(error.sum()),
        followed, static, flickering,
        *((road.pixels, road.inliers, road.squared) if road else ()))


def _left_right(row: np.ndarray, partner: np.ndarray, disparity: np.ndarray,
                mirrored: tuple[np.ndarray, np.ndarray]) -> tuple[int, int]:
    """How many pixels the mirrored match confirms, and how many it contradicts."""
    other, is_known = (part[:, ::-1] for part in mirrored)      # as the right image lies
    nearest = np.rint(partner).astype(np.intp)
    compared = is_known[row, nearest] & np.isfinite(other[row, nearest])
    difference = np.abs(other[row, nearest][compared] - disparity[compared])
    agree = np.count_nonzero(difference <= AGREEMENT_PX)
    return int(agree), int(difference.size - agree)


def _photometric(view: View, row: np.ndarray, column: np.ndarray, partner: np.ndarray
                 ) -> np.ndarray:
    """Absolute differences of grey values once gain and offset are taken away, grey levels."""
    below = np.floor(partner).astype(np.intp)
    above = np.minimum(below + 1, view.right.shape[1] - 1)
    part = partner - below
    right = (1 - part) * view.right[row, below] + part * view.right[row, above]
    left = view.left[row, column].astype(np.float64)
    gain, offset = exposure(left, right)
    return np.abs(left - gain * right - offset)


def exposure(left: np.ndarray, right: np.ndarray) -> tuple[float, float]:
    """Gain and offset, grey levels, with which left = gain x right + offset.

    Least squares over the pixels at most three standard deviations (estimated by the median of
    absolute residuals), and at least one grey level, from the fit before; first the gain is 1 and
    the offset the median. Where grey values hardly differ the gain stays 1.

    left, right: n grey values of the same points.
    """
    if not left.size:
        return 1.0, 0.0
    step = -(-left.size // EXPOSURE_PIXELS)
    left, right = left[::step], right[::step]
    gain, offset = 1.0, float(np.median(left - right))
    for _ in range(EXPOSURE_ROUNDS):
        residual = np.abs(left - gain * right - offset)
        kept = residual <= max(1.0, 3 / MAD * float(np.median(residual)))
        x, y = right[kept], left[kept]
        if x.std() < 1:
            break
        gain = float(np.mean((x - x.mean()) * (y - y.mean())) / x.var())
        offset = float(y.mean() - gain * x.mean())
    return gain, offset


def _flicker(view: View, before: View | None) -> tuple[int, int, int]:
    """Pixels with a disparity in both frames, static ones of these, and flickering of those."""
    if before is None:
        return 0, 0, 0
    row, column = np.nonzero(view.valid & before.valid)
    disparity = before.disparity[row, column].astype(np.float64)
    partner = np.rint(column - disparity)
    is_inside = (partner >= 0) & (partner <= view.left.shape[1] - 1)
    inside = partner[is_inside].astype(np.intp)
    static = is_inside & still(before.left, view.left)[row, column]
    static[is_inside] &= still(before.right, view.right)[row[is_inside], inside]
    change = np.abs(view.disparity[row, column] - disparity)[static]
    return int(row.size), int(change.size), int(np.count_nonzero(change > AGREEMENT_PX))


def still(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Where a pixel and its eight neighbours have changed by no more than noise: bool H x W.

    That is three standard deviations of the difference of two noisy pixels, at least one grey
    level; the noise is that of the noisier image.

    before, after: uint8 H x W.
    """
    limit = max(1.0, 3 * math.sqrt(2) * max(noise(before), noise(after)))
    change = cv2.dilate(cv2.absdiff(before, after), np.ones((3, 3), np.uint8))
    return np.asarray(change <= limit)


def noise(image: np.ndarray) -> float:
    """Standard deviation of the noise of an image, uint8 H x W, in grey levels.

    From the median of the absolute response of ``NOISE_MASK``, so that edges do not count;
    texture as fine as a pixel does.
    """
    response = cv2.filter2D(image.astype(np.float32), -1, NOISE_MASK)
    return float(np.median(np.abs(response))) / (6 * MAD)
