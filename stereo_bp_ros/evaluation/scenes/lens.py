"""Rain and dirt on the glass of a camera, which stay where they are in its picture.

The two cameras of a pair have other drops and other dirt.
"""

from __future__ import annotations

from functools import lru_cache

import cv2
import numpy as np

from stereo_bp_ros.evaluation.scenes import textures

DROP_RADII = (0.008, 0.03)
"""Of drops, smallest and largest, as parts of the picture's width."""

DROP_VIEW = 6.0
"""A drop is a lens of its own: it shows the surroundings upside down and this much smaller."""

OUT_OF_FOCUS = 0.006
"""Standard deviation of the blur of what lies on the glass, as a part of the picture's width."""

DIRT_EDGE = 0.5
"""Of stains from clear to thick, in standard deviations of what they are cut from."""

DIRT_OPACITY = 0.9
DIRT_GREY = 0.6
"""Of light that dirt scatters, as a part of the picture's mean."""


def wet(light: np.ndarray, drops: int, seed: int, camera: int) -> np.ndarray:
    """A picture through drops of rain, float32 H x W, grey levels.

    light:  float32 H x W, grey levels.
    drops:  how many lie before the picture.
    camera: 0 = left, 1 = right.
    """
    height, width = light.shape
    x, y, share = _drops(drops, seed, camera, width, height)
    soft = cv2.GaussianBlur(light, (0, 0), OUT_OF_FOCUS * width)
    through = cv2.remap(soft, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)
    return np.asarray(light + share * (through - light))


def dirty(light: np.ndarray, part: float, seed: int, camera: int) -> np.ndarray:
    """A picture through dirt, float32 H x W, grey levels.

    light:  float32 H x W, grey levels.
    part:   of the picture that dirt lies before, 0 to 1.
    camera: 0 = left, 1 = right.
    """
    height, width = light.shape
    opacity = np.float32(DIRT_OPACITY) * dirt(part, seed, camera, width, height)
    return np.asarray(light + opacity * (np.float32(DIRT_GREY) * light.mean() - light))


@lru_cache(maxsize=2)
def dirt(part: float, seed: int, camera: int, width: int, height: int) -> np.ndarray:
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
def _drops(count: int, seed: int, camera: int, width: int, height: int
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
