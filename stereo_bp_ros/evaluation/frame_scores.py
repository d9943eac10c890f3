"""All figures of one frame: as published, filled, by region, of its sky, by confidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.evaluation import depth_errors
from stereo_bp_ros.evaluation.depth_errors import DepthError
from stereo_bp_ros.evaluation.filling import fill_background
from stereo_bp_ros.evaluation.metrics import Score, meanings, score
from stereo_bp_ros.evaluation.sparsification import Sparsification, sparsify
from stereo_bp_ros.evaluation.sums import Sums

#: Error above which a pixel counts as wrong in the sparsification curve of ``bad_3``, pixels.
SPARSIFIED_PIXELS = 3.0

#: Figures of which a mean over frames says nothing: counts.
WITHOUT_MEAN = frozenset(
    key for key, (_, unit) in {**meanings(), **depth_errors.MEANINGS}.items() if not unit)

@dataclass(frozen=True)
class MapScore(Sums):
    """The same pixels of one map twice, or of several.

    published: as the matcher hands the map out, with its holes.
    filled:    with every hole filled by ``fill_background``.
    depth:     published, in metres; None without a calibration.
    """

    published: Score
    filled: Score
    depth: DepthError | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON: ``score`` as published, ``filled``, and ``depth``."""
        found: dict[str, Any] = {'score': self.published.as_dict(),
                                 'filled': self.filled.as_dict()}
        if self.depth is not None:
            found['depth'] = self.depth.as_dict()
        return found


@dataclass(frozen=True)
class FrameScore(Sums):
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
    sparsification: Mapping[str, Sparsification] | None = field(
        default=None, metadata={'is_summed': False})

    def as_dict(self) -> dict[str, Any]:
        """For JSON: ``score``, ``filled``, ``depth``, ``regions``, ``sky``, ``sparsification``."""
        found = self.whole.as_dict()
        found['regions'] = {name: one.as_dict() for name, one in self.regions.items()}
        if self.sky is not None:
            found['sky'] = self.sky.as_dict()
        if self.sparsification is not None:
            found['sparsification'] = {name: one.as_dict()
                                       for name, one in self.sparsification.items()}
        return found


def score_frame(disparity: np.ndarray, valid: np.ndarray, truth: np.ndarray, *,
                regions: Mapping[str, np.ndarray] | None = None, sky: np.ndarray | None = None,
                infinity: float = 0.0, confidence: np.ndarray | None = None,
                calibration: Calibration | None = None) -> FrameScore:
    """Compare one map with its truth: every figure.

    disparity:  H x W, pixels.
    valid:      bool H x W, where `disparity` is an estimate (`DisparityFrame.valid`).
    truth:      H x W, pixels. NaN and infinity are unknown.
    regions:    name to H x W, not 0 at the pixels of that region; of ``regions.find_regions``.
    sky:        bool or integer H x W, not 0 where the reference image shows the sky; None: not
                known.
    infinity:   disparity of infinite distance, pixels (`Calibration.shift`).
    confidence: float H x W, larger = trusted more; None: there is none.
    calibration: with which errors are scored in metres, too; None: they are not.

    :raises ValueError: an array is not two-dimensional or not of the same shape.
    """
    if confidence is not None and confidence.shape != disparity.shape:
        raise ValueError(f'confidence has shape {confidence.shape}, but a map of '
                         f'{disparity.shape} is compared')
    if np.isfinite(truth).any():
        filled = fill_background(disparity, valid)
    else:       # only whether there is anything to fill with counts
        has_any = bool((valid.astype(bool) & np.isfinite(disparity)).any())
        filled = np.full(disparity.shape, 0.0 if has_any else np.nan, np.float32)

    metres = None
    if calibration is not None:
        metres = depth_errors.compare(disparity, valid, truth, calibration)

    def part(mask: np.ndarray | None) -> MapScore:
        return MapScore(score(disparity, truth, valid, mask=mask),
                        score(filled, truth, mask=mask),
                        None if metres is None else metres.part(mask))

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


class Means:
    """Mean of every figure over the frames that have it; counts are left out."""

    def __init__(self) -> None:
        self._sums: dict[str, Any] = {}

    def add(self, frame: Mapping[str, Any]) -> None:
        """Take in the figures of a frame, of which each counts the same."""
        _accumulate(self._sums, frame)

    def result(self) -> dict[str, Any]:
        """Of the frames so far; None where no frame has a value."""
        return _divide(self._sums)


def _accumulate(sums: dict[str, Any], frame: Mapping[str, Any]) -> None:
    """Add a frame to (sum, number of frames) of every figure; a list is summed by its places."""
    for key, value in frame.items():
        if key in WITHOUT_MEAN:
            continue
        known = sums.setdefault(key, None)
        if isinstance(value, Mapping):
            sums[key] = {} if known is None else known
            _accumulate(sums[key], value)
        elif value is not None:
            total, count = known or (np.zeros(np.shape(value)), 0)
            sums[key] = total + value, count + 1


def _divide(sums: Mapping[str, Any]) -> dict[str, Any]:
    return {key: None if one is None else _divide(one) if isinstance(one, Mapping)
            else np.divide(*one).tolist() for key, one in sums.items()}
