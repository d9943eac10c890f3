"""The outputs that are computed from the finished disparity alone, by their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from stereo_bp_ros.engines.cpu.matching import stopwatch
from stereo_bp_ros.engines.cpu.outputs import disparity_color, plain, points
from stereo_bp_ros.engines.cpu.outputs.finished import Finished
from stereo_bp_ros.types import DERIVED

#: Each fills an array of the shape and type that ``types.OUTPUTS`` says.
FUNCTIONS: Mapping[str, Callable[[Finished, np.ndarray[Any, Any]], None]] = {
    'disparity': plain.disparity,
    'depth': plain.depth,
    'fixed_disparity': plain.fixed_disparity,
    'depth_mm': plain.depth_mm,
    'disparity_color': disparity_color.disparity_color,
    'points': points.points,
}


def fill(finished: Finished, outputs: Mapping[str, np.ndarray[Any, Any]],
         timings: dict[str, float]) -> None:
    """Compute what was asked for, whatever else there is in ``outputs``.

    :param timings: milliseconds by stage, which are added to.
    """
    for name, function in FUNCTIONS.items():
        if name in outputs:
            with stopwatch(timings, name if name in DERIVED else 'refine'):
                function(finished, outputs[name])
