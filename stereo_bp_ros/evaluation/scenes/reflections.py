"""What glossy surfaces mirror: a panorama infinitely far for bodies of vehicles, and how much.

A reflection is not where its surface is. A matcher that follows it is wrong: the ground truth is
always the surface's.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from stereo_bp_ros.evaluation.scenes import textures

PANORAMA_SHAPE = (256, 1024)
PANORAMA_BLUR = 1.2
#: A panel's normal is tilted by up to this tangent at its edges, as a body's is.
BULGE = 0.15

WALLS_M = (-11.2, 7.9)
EYE_M = 1.0
HOUSE_M = 12.0


def mirrored_share(cosine: np.ndarray, straight: float) -> np.ndarray:
    """Part of the light that is mirrored (Schlick 1994, equation 24), float32.

    cosine:   float32, of the angle between ray and normal.
    straight: the part at an angle of 0.
    """
    return np.float32(straight) + np.float32(1 - straight) * (1 - cosine) ** 5


class Surroundings:
    """A street's panorama, float32, by elevation (rows, from the zenith) and azimuth (columns).

    sky: grey level of its sky, which may be above 255.
    """

    def __init__(self, rng: np.random.Generator, sky: float) -> None:
        rows, columns = PANORAMA_SHAPE
        azimuth = ((np.arange(columns) + 0.5) / columns * 2 - 1) * np.pi
        elevation = (0.5 - (np.arange(rows) + 0.5) / rows)[:, None] * np.pi
        grey = np.where(elevation > 0, sky * (1 - 0.3 * np.sin(elevation)), 92.0)
        grey = np.broadcast_to(grey, PANORAMA_SHAPE).copy()
        across = np.sin(azimuth)
        wall = np.where(across < 0, *WALLS_M)
        reach = np.minimum(wall / np.where(across == 0, 1e-9, across), 300.0)
        along = reach * np.cos(azimuth)
        up = reach * np.tan(elevation) + EYE_M
        house = np.floor(along / HOUSE_M).astype(int) + np.where(across < 0, 0, 64)
        height, tone = rng.uniform(7.5, 14.0, 128)[house], rng.uniform(70, 200, 128)[house]
        window = (along % 2.4 < 1.1) & (up % 3.1 > 1.0) & (up % 3.1 < 2.6)
        facade = np.where(window, 45.0, tone * np.where(across < 0, 0.8, 1.1))
        haze = 1 - np.exp(-reach / 150.0)
        facade += haze * (200.0 - facade)
        stands = (up > 0) & (up < height)
        grey[stands] = facade[stands]
        self._trees_and_cars(rng, grey, elevation)
        # The azimuth goes round: blur over its ends.
        around = np.pad(grey.astype(np.float32), ((0, 0), (32, 32)), mode='wrap')
        self.panorama = np.ascontiguousarray(
            cv2.GaussianBlur(around, (0, 0), PANORAMA_BLUR)[:, 32:-32])

    @staticmethod
    def _trees_and_cars(rng: np.random.Generator, grey: np.ndarray, elevation: np.ndarray
                        ) -> None:
        """Clouds, trees before the houses, cars before the trees, and stains on the road."""
        coarse, fine = (textures.noise(rng, PANORAMA_SHAPE, grain, 2, 0.85) for grain in (64, 16))
        # Towards the zenith and its opposite, columns meet and stains would become rays.
        grey *= 1 + np.cos(elevation) ** 2 * (0.12 * coarse + 0.06 * fine)
        leaves = (elevation > 0.05) & (0.8 * coarse + fine > 0.5 + 4 * elevation)
        grey[leaves] = 38 + 14 * fine[leaves]
        cars = np.abs(elevation + 0.09) < 0.09
        width = PANORAMA_SHAPE[1] // 48
        for first in range(0, PANORAMA_SHAPE[1], 2 * width):
            body = np.where(elevation > -0.06, 40.0, rng.uniform(20, 240))
            part = grey[:, first:first + round(1.6 * width)]
            part[:] = np.where(cars, body, part)

    def towards(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Grey levels in directions of unit length, float32 of the same shape each."""
        rows, columns = PANORAMA_SHAPE
        azimuth = np.arctan2(x, z)
        elevation = np.arcsin(np.clip(-y, -1, 1))
        return cv2.remap(self.panorama,
                         ((azimuth / np.float32(np.pi) + 1) * np.float32(columns / 2)
                          - np.float32(0.5)),
                         ((np.float32(0.5) - elevation / np.float32(np.pi)) * np.float32(rows)
                          - np.float32(0.5)),
                         cv2.INTER_LINEAR, borderMode=cv2.BORDER_WRAP)


@dataclass(frozen=True)
class Panel:
    """The geometry of a glossy patch before a camera whose grid has this focal length and centre.

    origin, u, v: float64 3, metres, as of a `Mesh`.
    """

    origin: np.ndarray
    u: np.ndarray
    v: np.ndarray
    gloss: float
    focal: float
    centre: tuple[float, float]

    def _normal(self) -> np.ndarray:
        """Unit vector towards the camera's side."""
        normal = np.cross(self.u, self.v)
        normal *= -np.sign(normal @ self.origin) / np.linalg.norm(normal)
        return normal

    def _rays(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Unit vectors from the camera through samples, float32 3 x rows x columns."""
        across = ((x - self.centre[0]) / self.focal).astype(np.float32)
        down = ((y - self.centre[1]) / self.focal).astype(np.float32)[:, None]
        ahead = 1 / np.sqrt(1 + across ** 2 + down ** 2)
        return np.stack([across * ahead, down * ahead, ahead])

    def cosine(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Of the angle between rays and normal, float32 rows x columns."""
        return -_dot(_column(self._normal()), self._rays(x, y))

    def mirroring(self, seen: np.ndarray, x: np.ndarray, y: np.ndarray,
                  surroundings: Surroundings) -> np.ndarray:
        """The panel's own light, uint8 rows x columns, with what it mirrors added."""
        rays = self._rays(x, y)
        # Where the rays meet the panel: inverse depth is affine in the ray.
        to_surface = np.linalg.inv(np.stack([self.u, self.v, self.origin], axis=1))
        s, t, w = (_dot(_column(row), rays) for row in to_surface)
        w = np.maximum(w, np.float32(1e-6))  # beyond the panel it may vanish
        normal = _column(self._normal())
        for place, axis in ((s, self.u), (t, self.v)):
            tilt = np.float32(BULGE) * (2 * np.clip(place / w, 0, 1) - 1)
            normal = normal + tilt * _column(axis / np.linalg.norm(axis))
        normal = normal / np.sqrt(_dot(normal, normal))
        cosine = np.clip(-_dot(normal, rays), 0, 1)
        mirrored = surroundings.towards(*(rays + 2 * cosine * normal))
        share = mirrored_share(cosine, self.gloss)
        return np.clip(np.rint(seen + share * (mirrored - seen)), 0, 255).astype(np.uint8)


def _column(vector: np.ndarray) -> np.ndarray:
    return vector.astype(np.float32)[:, None, None]


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray((a * b).sum(axis=0))
