"""How pairs are judged, whoever has matched them."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.evaluation import regions
from stereo_bp_ros.evaluation.frame_scores import FrameScore, score_frame
from stereo_bp_ros.sources.pairs import Pair


@dataclasses.dataclass(frozen=True)
class Method:
    """How pairs are judged.

    repeat:      how often each is matched; the median counts.
    confidence:  whether the matchers' confidence is judged, too, with one more run.
    calibration: of pairs that bring none, to score by distance and for ``min_depth``; None:
                 unknown.
    own_range:   whether every pair is searched as far as the configuration says, also where the
                 data set knows better.
    windows:     distances that are scored apart, too: lower and upper limits in metres.
    skip_unreadable: whether pairs that cannot be read are left out.
    range_from_truth: whether a pair whose source does not say how far to search is searched as far
                 as its truth goes.
    """

    repeat: int = 3
    confidence: bool = False
    calibration: Calibration | None = None
    own_range: bool = False
    windows: tuple[tuple[float, float], ...] = ()
    skip_unreadable: bool = False
    range_from_truth: bool = False

    def calibration_of(self, pair: Pair) -> Calibration | None:
        """The pair's own, or that of pairs without."""
        return pair.calibration or self.calibration

    def range_of(self, config: MatcherConfig, pair: Pair) -> MatcherConfig:
        """A configuration for a pair: it searches as far as the data set says.

        ``min_depth`` counts where the pair has a calibration, whatever those before it had.
        """
        count = pair.disparities
        if not count and self.range_from_truth and pair.truth is not None:
            highest = float(np.max(pair.truth, where=np.isfinite(pair.truth), initial=0.0))
            count = max(2, min(512, math.ceil(highest) + 1 - config.min_disparity))
        if count and not self.own_range:
            config = config.replace(disparity_range=count)
        if self.calibration_of(pair) is None and config.min_depth:
            config = config.replace(min_depth=0.0)
        return config

    def judge(self, pair: Pair, disparity: np.ndarray, valid: np.ndarray) -> FrameScore:
        """Compare a map with a pair's truth.

        disparity: float32 H x W, unshifted, pixels; valid: bool H x W.

        :raises ValueError: the truth has another size.
        """
        return score_frame(disparity, valid, **self.known_of(pair, disparity.shape))

    def known_of(self, pair: Pair, shape: tuple[int, ...]) -> dict[str, Any]:
        """What ``score_frame`` needs to know of a pair."""
        calibration = self.calibration_of(pair)
        known: dict[str, Any] = {'truth': np.full(shape, np.nan, np.float32), 'sky': pair.sky,
                                 'infinity': calibration.shift if calibration else 0.0}
        if pair.truth is not None:
            known |= {'truth': pair.truth, 'calibration': calibration,
                      'regions': regions.find_regions(
                          pair.truth, pair.vehicles, calibration, occluded=pair.occluded,
                          windows=self.windows, classes=pair.classes)}
        return known
