"""Fog between the street and the cameras, and what a dark day leaves of the picture."""

from __future__ import annotations

import math

import numpy as np

from stereo_bp_ros.evaluation.scenes.renderer import Camera

FOG_GREY = 205.0
"""Grey level of fog that is infinitely thick."""

CONTRAST_AT_VISIBILITY = 0.05
"""Contrast that is left at the meteorological optical range (WMO-No. 8, chapter 9)."""


def transmission(disparity: np.ndarray, camera: Camera, visibility_m: float) -> np.ndarray:
    """Part of the light that passes the fog: exp(-k d), float32 H x W, 0 to 1.

    d is the way along the ray to the surface, and k = ln 20 / visibility.

    disparity:    float32 H x W, pixels, of the camera's own picture; 0 = infinitely far.
    visibility_m: meteorological optical range, metres, above 0.
    """
    across = (np.arange(camera.width) - camera.cx) / camera.focal_px
    down = (np.arange(camera.height) - camera.cy)[:, None] / camera.focal_px
    way = (camera.focal_px * camera.baseline_m) * np.sqrt(1 + across ** 2 + down ** 2)
    distance = np.full(disparity.shape, np.inf)
    np.divide(way, disparity, out=distance, where=disparity > 0)
    return np.exp(distance * (math.log(CONTRAST_AT_VISIBILITY) / visibility_m)).astype(np.float32)


def fog(light: np.ndarray, passing: np.ndarray) -> np.ndarray:
    """Koschmieder's law (1924): L exp(-k d) + A (1 - exp(-k d)), with A = `FOG_GREY`.

    light:   float32 H x W, grey levels.
    passing: float32 H x W, of `transmission`.
    """
    grey = np.float32(FOG_GREY)
    return np.asarray(grey + passing * (light - grey))


def exposure_at(daylight: float) -> tuple[float, float]:
    """Factors of the picture and of its noise where a part of the daylight is left.

    The camera makes up for half of the loss, in stops, by its gain: g = 1 / sqrt(daylight). The
    gain amplifies what is left of the light, and the noise of the sensor.

    >>> exposure_at(0.25)
    (0.5, 2.0)
    """
    gain = 1 / math.sqrt(daylight)
    return daylight * gain, gain
