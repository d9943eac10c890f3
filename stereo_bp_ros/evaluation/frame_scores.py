"""All figures of one frame: as published, filled, by region, of its sky, by confidence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stereo_bp_ros.evaluation.filling import fill_background
from stereo_bp_ros.evaluation.metrics import Score, meanings, score
from stereo_bp_ros.evaluation.sparsification import Sparsification, sparsify

SPARSIFIED_PIXELS = 3.0
"""Error above which a pixel counts as wrong in the sparsification curve of ``bad_3``, pixels."""


@dataclass(frozen=True)
class MapScore:
    """The same pixels of one map twice.

    published: as the matcher hands the map out, with its holes.
    filled:    with every hole filled by ``fill_background``.
    """

    published: Score
    filled: Score

    def __add__(self, other: MapScore) -> MapScore:
        """Of the pixels of both.

        :raises ValueError: the two have different thresholds.
        """
        if not isinstance(other, MapScore):
            return NotImplemented
        return MapScore(self.published + other.published, self.filled + other.filled)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: ``score`` as published, and ``filled``."""
        return {'score': self.published.as_dict(), 'filled': self.filled.as_dict()}


@dataclass(frozen=True)
class FrameScore:
    """One frame, or the pixels of several together.

    whole:          all pixels.
    regions:        by name, of ``regions.find_regions``.
    sky:            against the disparity of infinite distance; None without a mask of the sky.
    sparsification: of ``bad_3`` (per cent) and ``mae`` (pixels); None without a confidence, and
                    of several frames, whose pixels have no common order.
    """

    whole: MapScore
    regions: Mapping[str, MapScore] = field(default_factory=dict)
    sky: Score | None = None
    sparsification: Mapping[str, Sparsification] | None = None

    def __add__(self, other: FrameScore) -> FrameScore:
        """Of the pixels of both; regions and sky of those frames that have them.

        :raises ValueError: the two have different thresholds.
        """
        if not isinstance(other, FrameScore):
            return NotImplemented
        regions = dict(self.regions)
        for name, one in other.regions.items():
            regions[name] = regions[name] + one if name in regions else one
        sky = self.sky + other.sky if self.sky and other.sky else self.sky or other.sky
        return FrameScore(self.whole + other.whole, regions, sky)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: ``score``, ``filled``, ``regions``, ``sky``, ``sparsification``."""
        found = {**self.whole.as_dict(),
                 'regions': {name: one.as_dict() for name, one in self.regions.items()}}
        if self.sky is not None:
            found['sky'] = self.sky.as_dict()
        if self.sparsification is not None:
            found['sparsification'] = {name: one.as_dict()
                                       for name, one in self.sparsification.items()}
        return found


def score_frame(disparity: np.ndarray, valid: np.ndarray, truth: np.ndarray, *,
                regions: Mapping[str, np.ndarray] | None = None, sky: np.ndarray | None = None,
                infinity: float = 0.0, confidence: np.ndarray | None = None) -> FrameScore:
    """Compare one map with its truth in every way.

    disparity:  H x W, pixels.
    valid:      bool H x W, where `disparity` is an estimate (`DisparityFrame.valid`).
    truth:      H x W, pixels. NaN and infinity are unknown.
    regions:    name to H x W, not 0 at the pixels of that region; of ``regions.find_regions``.
    sky:        bool or integer H x W, not 0 where the reference image shows the sky; None: not
                known.
    infinity:   disparity of infinite distance, pixels (`Calibration.shift`).
    confidence: float H x W, larger = trusted more; None: there is none.

    :raises ValueError: an array is not two-dimensional or not of the same shape.
    """
    if confidence is not None and confidence.shape != disparity.shape:
        raise ValueError(f'confidence has shape {confidence.shape}, but a map of '
                         f'{disparity.shape} is compared')
    filled = fill_background(disparity, valid)

    def part(mask: np.ndarray | None) -> MapScore:
        return MapScore(score(disparity, truth, valid, mask=mask),
                        score(filled, truth, mask=mask))

    known_sky = None
    if sky is not None:
        far = np.full(disparity.shape, infinity, np.float32)
        known_sky = score(disparity, far, valid, mask=sky)
    return FrameScore(
        part(None), {name: part(mask) for name, mask in (regions or {}).items()}, known_sky,
        None if confidence is None else _sparsification(disparity, valid, truth, confidence))


def _sparsification(disparity: np.ndarray, valid: np.ndarray, truth: np.ndarray,
                    confidence: np.ndarray) -> dict[str, Sparsification] | None:
    compared = valid.astype(bool) & np.isfinite(disparity) & np.isfinite(truth)
    error = np.abs(disparity[compared].astype(np.float64) - truth[compared])
    found = {'bad_3': sparsify(100.0 * (error > SPARSIFIED_PIXELS), confidence[compared]),
             'mae': sparsify(error, confidence[compared])}
    return {name: one for name, one in found.items() if one is not None} or None


def mean_of_frames(frames: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Mean of every figure over the frames that have it: each frame counts the same.

    frames: of ``FrameScore.as_dict``; counts of pixels have no mean and are left out.
    """
    counts = {key for key, (_, unit) in meanings().items() if not unit}
    found: dict[str, Any] = {}
    for key in dict.fromkeys(key for frame in frames for key in frame):
        values = [frame[key] for frame in frames if frame.get(key) is not None]
        if key in counts:
            continue
        if not values:
            found[key] = None
        elif isinstance(values[0], Mapping):
            found[key] = mean_of_frames(values)
        elif isinstance(values[0], list):
            found[key] = [math.fsum(column) / len(values)
                          for column in zip(*values, strict=True)]
        else:
            found[key] = math.fsum(values) / len(values)
    return found
