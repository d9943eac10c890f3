"""What the outputs are computed from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.config import ResolvedConfig
from stereo_bp_ros.images import RawImage


class Finished(NamedTuple):
    """A frame that is matched and refined.

    disparity:   int16 H x W of the reference image as it came, neither mirrored nor reduced:
                 sixteenths of a pixel from ``min_disparity`` on, below 0 where invalid.
    min_disparity: pixels, of the images as they came.
    reference:   the reference image as it came.
    config:      that of the reduced images, with the live settings of the frame.
    calibration: None where none was given.
    scratch:     the arrays of ``scratch.convert``.
    """

    disparity: np.ndarray[Any, Any]
    min_disparity: int
    reference: RawImage
    config: ResolvedConfig
    calibration: Calibration | None
    scratch: Mapping[str, np.ndarray[Any, Any]]

    @property
    def shift(self) -> float:
        """Pixels that are subtracted from a disparity for its depth."""
        return self.calibration.shift if self.calibration is not None else 0.0

    @property
    def focal_baseline(self) -> float:
        """Depth times disparity: pixels x metres; 0 without a calibration."""
        calibration = self.calibration
        return calibration.focal_px * calibration.baseline_m if calibration is not None else 0.0

    @property
    def published_shift(self) -> float:
        """Pixels that are subtracted from a disparity that is handed out."""
        return self.shift if self.config.pre_adjust_disparity else 0.0
