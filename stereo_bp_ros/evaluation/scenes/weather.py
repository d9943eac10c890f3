"""Fog, darkness, glare, rain and dirt: what lies between a scene and the sensor of a camera.

The two cameras of a pair have other drops, other dirt and glare at other places. Drops and dirt
stay where they are in the picture. Pictures are float32 H x W, grey levels; `camera` is 0 for the
left one and 1 for the right one.
"""

from __future__ import annotations

import math
from functools import lru_cache

import cv2
import numpy as np

from stereo_bp_ros.evaluation.scenes import textures
from stereo_bp_ros.evaluation.scenes.renderer import Camera

#: Grey level of fog that is infinitely thick.
FOG_GREY = 205.0

#: Contrast that is left at the meteorological optical range (WMO-No. 8, chapter 9).
CONTRAST_AT_VISIBILITY = 0.05

#: Spots of glare in the left and the right image: column and row as parts of the image's size,
#: standard deviation as a part of its width, and strength.
GLARES = ((0.60, 0.42, 0.09, 1.0), (0.53, 0.47, 0.11, 0.8))

#: Of drops, smallest and largest, as parts of the picture's width.
DROP_RADII = (0.008, 0.03)

#: A drop is a lens of its own: it shows the surroundings upside down and this much smaller.
DROP_VIEW = 6.0

#: Standard deviation of the blur of what lies on the glass, as a part of the picture's width.
OUT_OF_FOCUS = 0.006

#: Of stains from clear to thick, in standard deviations of what they are cut from.
DIRT_EDGE = 0.5

DIRT_OPACITY = 0.9
#: Of light that dirt scatters, as a part of the picture's mean.
DIRT_GREY = 0.6


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


def add_fog(light: np.ndarray, passing: np.ndarray) -> np.ndarray:
    """Koschmieder's law (1924): L exp(-k d) + A (1 - exp(-k d)), with A = `FOG_GREY`.

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


def draw_glare(width: int, height: int, levels: float, seconds: float, camera: int) -> np.ndarray:
    """Light that the lens scatters; `levels` is its grey in the middle of the left spot."""
    x, y, radius, strength = GLARES[camera]
    sway = 0.04 * np.sin(0.7 * seconds)
    across = (np.arange(width) / width - x - sway) / radius
    down = (np.arange(height) - y * height) / (width * radius)
    spot = np.exp(-0.5 * down ** 2)[:, None] * np.exp(-0.5 * across ** 2)
    return np.asarray((levels * strength * spot).astype(np.float32))


def add_drops(light: np.ndarray, drops: int, seed: int, camera: int) -> np.ndarray:
    """A picture through this number of drops of rain."""
    height, width = light.shape
    x, y, share = _draw_drops(drops, seed, camera, width, height)
    soft = cv2.GaussianBlur(light, (0, 0), OUT_OF_FOCUS * width)
    through = cv2.remap(soft, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)
    return np.asarray(light + share * (through - light))


def add_dirt(light: np.ndarray, part: float, seed: int, camera: int) -> np.ndarray:
    """A picture of which dirt lies before this part, 0 to 1."""
    height, width = light.shape
    opacity = np.float32(DIRT_OPACITY) * draw_dirt(part, seed, camera, width, height)
    return np.asarray(light + opacity * (np.float32(DIRT_GREY) * light.mean() - light))


@lru_cache(maxsize=2)
def draw_dirt(part: float, seed: int, camera: int, width: int, height: int) -> np.ndarray:
    """Where dirt lies, float32 H x W from 0 to 1, above 0.5 at ``part`` of the pixels.

    It is out of focus, so its edges are soft.
    """
    rng = np.random.default_rng([seed, 7, camera])
    grain = 1 << max(2, round(width / 12).bit_length())
    stains = textures.noise(rng, (height, width), grain, max(2, grain // 16))
    stains = cv2.GaussianBlur(stains, (0, 0), OUT_OF_FOCUS * width)
    edge = DIRT_EDGE * stains.std()
    above = stains - np.float32(np.quantile(stains, 1 - part))
    return np.clip(0.5 + above / edge, 0, 1)


@lru_cache(maxsize=2)
def _draw_drops(count: int, seed: int, camera: int, width: int, height: int
                ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Column and row that drops show at every pixel, and the drops' share: float32 H x W."""
    rng = np.random.default_rng([seed, 6, camera])
    y, x = np.mgrid[:height, :width].astype(np.float32)
    from_x, from_y, share = x.copy(), y.copy(), np.zeros((height, width), np.float32)
    for _ in range(count):
        at_x, at_y = rng.uniform(0, width), rng.uniform(0, height)
        radius = width * rng.uniform(*DROP_RADII)
        box = (slice(max(0, int(at_y - radius)), int(at_y + radius) + 2),
               slice(max(0, int(at_x - radius)), int(at_x + radius) + 2))
        right, down = x[box] - np.float32(at_x), y[box] - np.float32(at_y)
        place = np.hypot(right, down) / np.float32(radius)
        # The rim, the outer third, lets the picture beside the drop through.
        own = np.clip(3 * (1 - place), 0, 1)
        above = own > share[box]
        from_x[box][above] = (at_x - DROP_VIEW * right)[above]
        from_y[box][above] = (at_y - DROP_VIEW * down)[above]
        share[box][above] = own[above]
    return from_x, from_y, share
