"""A textured slanted plane, for errors of a fraction of a pixel: pictures and truth are exact.

The texture is a sum of waves, and a plane's disparity is affine in image coordinates: the phase of
a wave is affine in both images. Every pixel is the texture's value at its centre, and nothing is
interpolated.

>>> frame = SlantedPlane(width=64, height=32, disparity=8.0).frame(0)
>>> frame.left.shape, float(frame.disparity.mean())
((32, 64), 8.0)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stereo_bp_ros.sources.scenes.meshes import OTHER
from stereo_bp_ros.sources.scenes.renderer import SceneFrame

WAVES = 240
WAVELENGTHS_PX = (4.0, 80.0)
MEAN_GREY, CONTRAST_GREY = 128.0, 30.0


@dataclass(frozen=True)
class SlantedPlane:
    """A plane that fills both images; `frame(i)` has the same plane, and noise of its own.

    width, height:    image size, pixels.
    disparity:        at the middle of the left image, pixels.
    slope_x, slope_y: change of the disparity for every pixel to the right and down, pixels.
    noise_sigma:      sensor noise of either camera, standard deviation in grey levels.
    seed:             texture and noise.

    :raises ValueError: a size is no size, the noise is negative, the plane is seen from behind or
        too much compressed (`slope_x` beyond 0.3), or a disparity is negative.
    """

    width: int = 640
    height: int = 480
    disparity: float = 20.0
    slope_x: float = 0.0125
    slope_y: float = 0.02
    noise_sigma: float = 2.0
    seed: int = 1

    def __post_init__(self) -> None:
        for name, least in (('width', 1), ('height', 1), ('noise_sigma', 0), ('seed', 0)):
            value = getattr(self, name)
            if not value >= least:
                raise ValueError(f'{name} is {value}, but must be at least {least}')
        if not abs(self.slope_x) <= 0.3:
            raise ValueError(f'slope_x is {self.slope_x}, but must be from -0.3 to 0.3')
        smallest = (self.disparity - abs(self.slope_x) * (self.width - 1) / 2
                    - abs(self.slope_y) * (self.height - 1) / 2)
        if not smallest >= 0:
            raise ValueError(f'the smallest disparity is {smallest}, but must be at least 0')

    def frame(self, index: int = 0) -> SceneFrame:
        """One pair; frames differ in their noise. A stamp is the index, nanoseconds."""
        x = np.arange(self.width, dtype=np.float64)
        y = np.arange(self.height, dtype=np.float64)
        fixed = self.disparity - self.slope_x * (self.width - 1) / 2
        rise = self.slope_y * (y - (self.height - 1) / 2)
        truth = fixed + rise[:, None] + self.slope_x * x
        # x_right = x - d(x, y), solved for the place x in the left image that it shows.
        scale = 1 / (1 - self.slope_x)
        random = np.random.default_rng([self.seed, 3, index])
        left = self._sensor(self._texture(x, np.zeros_like(y), y), random)
        right = self._sensor(self._texture(scale * x, scale * (fixed + rise), y), random)
        place = x - truth
        nothing = np.zeros(truth.shape, bool)
        return SceneFrame(index, index, left, right, truth.astype(np.float32),
                          (place < 0) | (place > self.width - 1), nothing,
                          np.full(truth.shape, OTHER, np.uint8))

    def _texture(self, x: np.ndarray, shift: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Grey levels at columns x + shift (which depends on the row) and rows y, float64."""
        rng = np.random.default_rng([self.seed, 1])
        shortest, longest = WAVELENGTHS_PX
        length = shortest * (longest / shortest) ** rng.random(WAVES)
        heading, phase = rng.random((2, WAVES)) * 2 * np.pi
        amplitude = np.sqrt(length)
        amplitude *= CONTRAST_GREY * np.sqrt(2 / np.sum(amplitude ** 2))
        across, down = (2 * np.pi / length * way for way in (np.cos(heading), np.sin(heading)))
        by_column = x[:, None] * across
        by_row = shift[:, None] * across + y[:, None] * down + phase
        return np.asarray(MEAN_GREY + (amplitude * np.cos(by_row)) @ np.cos(by_column).T
                          - (amplitude * np.sin(by_row)) @ np.sin(by_column).T)

    def _sensor(self, image: np.ndarray, random: np.random.Generator) -> np.ndarray:
        noisy = image + self.noise_sigma * random.standard_normal(image.shape)
        return np.clip(np.rint(noisy), 0, 255).astype(np.uint8)
