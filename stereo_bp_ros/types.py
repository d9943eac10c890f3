"""What a matcher hands out: the disparity frame and its parts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

#: Type of each output of ``StereoMatcher.compute(outputs=...)``, by its name.
OUTPUT_TYPES = {'disparity': 'float32', 'depth': 'float32', 'confidence': 'float32',
                'fixed_disparity': 'int16'}
OUTPUTS = tuple(OUTPUT_TYPES)

#: Stages of a frame inside an engine, in order; the keys of ``DisparityFrame.timings``.
ENGINE_STAGES = ('convert', 'upload', 'preprocess', 'cost', 'messages', 'refine', 'download')


def empty_output(name: str, shape: tuple[int, int]) -> np.ndarray[Any, Any]:
    """An uninitialised array of (height, width) for one of ``OUTPUTS``."""
    return np.empty(shape, OUTPUT_TYPES[name])


@dataclasses.dataclass(frozen=True)
class ValidWindow:
    """The rectangle of pixels that can have a disparity (``sensor_msgs/RegionOfInterest``).

    Pixels x in [x_offset, x_offset + width), y in [y_offset, y_offset + height). An empty
    window has width and height 0.
    """

    x_offset: int
    y_offset: int
    width: int
    height: int

    @property
    def slices(self) -> tuple[slice, slice]:
        """Row and column slices of the window, for NumPy indexing."""
        return (slice(self.y_offset, self.y_offset + self.height),
                slice(self.x_offset, self.x_offset + self.width))


@dataclasses.dataclass(frozen=True)
class DisparityFrame:
    """The result for one stereo pair; arrays belong to the caller.

    disparity:  float32 H x W, pixels, of the reference image. Less than ``min_disparity`` =
                invalid; every invalid pixel has the one finite value ``min_disparity - 1``.
                None where it was not asked for.
    depth:      float32 H x W, metres along the optical axis (REP 118), NaN = no depth; or None.
    confidence: float32 H x W in [0, 1], 0 where invalid; or None.
    fixed_disparity: int16 H x W, sixteenths of a pixel, the fixed-point numbers of OpenCV's
                matchers: 16 times the disparity between the images as they are, without the
                shift by ``cx_left - cx_right``; 16 (``min_disparity`` - 1) of the settings where
                invalid; or None. Half the bytes of ``disparity`` on the way from a GPU.
    min_disparity, max_disparity: range of the valid values, pixels, with the same shift by
                ``cx_left - cx_right`` as the values.
    delta_d:    smallest step between two disparities, pixels.
    valid_window: where a disparity can be found at all.
    timings:    stage name (``ENGINE_STAGES``) to milliseconds; fused stages report their sum
                under the later name.
    backend:    'cpu' or 'cuda'.
    """

    disparity: np.ndarray | None
    depth: np.ndarray | None
    confidence: np.ndarray | None
    min_disparity: float
    max_disparity: float
    delta_d: float
    valid_window: ValidWindow
    timings: Mapping[str, float]
    backend: str
    fixed_disparity: np.ndarray | None = None

    @property
    def valid(self) -> np.ndarray:
        """Bool H x W: pixels that have a disparity.

        :raises ValueError: the frame was computed without the disparity output.
        """
        if self.disparity is None:
            raise ValueError('this frame was computed without the disparity output')
        return np.asarray(self.disparity >= np.float32(self.min_disparity))
