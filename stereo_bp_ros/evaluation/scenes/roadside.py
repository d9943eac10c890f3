"""Repetitive and thin things beside the synthetic street: fences with a period, poles and signs.

Their own frame is that of `street`: y = 0 on the ground, y down, z along the street.
"""

from __future__ import annotations

import numpy as np

from stereo_bp_ros.evaluation.scenes import textures
from stereo_bp_ros.evaluation.scenes.meshes import FENCE, THIN, Mesh, Texture, join, patch

TEXELS_PER_M = 64

BALUSTRADE_X_M = 4.6
BALUSTRADE_HEIGHT_M = 1.0
BALUSTER_PERIOD_M = 0.5
BALUSTER_M = 0.28125
"""Above half the period: where balusters are too small to be told apart, they are a wall."""

SECTION_M = 8.0
BALUSTRADE_SIGHT_M = 104.0

BAR_PERIOD_M = 0.25
BAR_M = 0.0625
PANEL_M = (3.0, 2.0)
PANELS = ((-10.9, 9.0), (4.85, 18.0), (-11.0, 25.0), (4.95, 37.0), (-10.9, 43.0))
"""Places of the left ends of fence panels across the pavements, x and z, metres."""

PANELS_PERIOD_M = 51.0
PANEL_SIGHT_M = 60.0

POLES_X_M = (-7.95, 4.45)
POLE_SPACING_M = 5.5
POLE_KINDS = 8


def pales(rng: textures.Rng, length: float, height: float, period: float, width: float,
          rails: tuple[tuple[float, float], ...], grey: float) -> Texture:
    """Upright pales, all alike, of a width at every period from 0, and rails between heights.

    The rails' heights are from the top edge; all lengths in metres, a period is whole texels.
    """
    period_texels = round(period * TEXELS_PER_M)
    shape = (round(height * TEXELS_PER_M), period_texels)
    x = np.arange(period_texels) / TEXELS_PER_M
    y = np.arange(shape[0]) / TEXELS_PER_M
    is_rail = np.zeros(shape[0], bool)
    for top, bottom in rails:
        is_rail |= (y >= top) & (y < bottom)
    is_pale = x < width
    round_off = 0.7 + 0.5 * np.sqrt(np.clip(1 - (2 * x / width - 1) ** 2, 0, 1))
    one = np.where(is_rail[:, None], grey * 1.1, grey * round_off)
    one = one + 7 * textures.noise(rng, shape, 16)
    repeats = round(length / period)
    return Texture(np.tile(one, (1, repeats)),
                   np.tile(is_rail[:, None] | is_pale, (1, repeats)))


class Fences:
    """A balustrade along the right kerb, and panels of bars across both pavements."""

    def __init__(self, rng: textures.Rng) -> None:
        height = BALUSTRADE_HEIGHT_M
        stone = pales(rng, SECTION_M, height, BALUSTER_PERIOD_M, BALUSTER_M,
                      ((0.0, 0.14), (height - 0.12, height)), 150.0)
        self._section = patch(stone, (BALUSTRADE_X_M, -height, 0.0), (0.0, 0.0, SECTION_M),
                              (0.0, height, 0.0)).marked(label=FENCE)
        length, height = PANEL_M
        bars = pales(rng, length, height, BAR_PERIOD_M, BAR_M,
                     ((0.0, 0.08), (1.0, 1.05), (1.85, 1.92)), 205.0)
        self._panel = patch(bars, (0.0, -height, 0.0), (length, 0.0, 0.0),
                            (0.0, height, 0.0)).marked(label=FENCE)

    def pose(self, ego: float) -> Mesh:
        """What is in sight after `ego` metres of the drive."""
        place = ego % SECTION_M
        seen = [self._section.moved(z=start - place)
                for start in np.arange(0.0, BALUSTRADE_SIGHT_M, SECTION_M)]
        for turn in range(3):
            shift = turn * PANELS_PERIOD_M - ego % PANELS_PERIOD_M
            seen += [self._panel.moved(x=x, z=z + shift) for x, z in PANELS
                     if 1.0 < z + shift < PANEL_SIGHT_M]
        return join(seen)


class Poles:
    """Poles of 4 to 9 cm on both kerbs, of all heights and greys; some carry a narrow sign."""

    def __init__(self, rng: textures.Rng) -> None:
        self._kinds: list[tuple[float, Mesh]] = []
        for number in range(POLE_KINDS):
            radius = float(rng.uniform(0.02, 0.045))
            height = float(rng.uniform(1.6, 4.4))
            light = float(rng.choice([0.3, 0.5, 1.6, 2.1]))
            parts = [patch(textures.bark(rng, light, height, radius), (-radius, -height, 0.0),
                           (2 * radius, 0.0, 0.0), (0.0, height, 0.0))]
            if number % 2:
                parts.append(self._board(rng, 4 * radius, height))
            self._kinds.append((radius, join(parts).marked(label=THIN)))
        self._order = rng.permutation(np.repeat(np.arange(POLE_KINDS), 4))

    @staticmethod
    def _board(rng: textures.Rng, width: float, height: float) -> Mesh:
        canvas = textures.Canvas(width, 0.6, 160, float(rng.choice([60.0, 225.0])))
        ink = 225.0 if canvas.grey[0, 0] < 128 else 50.0
        for y in (0.1, 0.3, 0.46):
            canvas.box(0.15 * width, y, 0.85 * width, y + 0.08, ink)
        return patch(canvas.texture(rng, 4.0, 16), (-width / 2, -height, -0.03),
                     (width, 0.0, 0.0), (0.0, 0.6, 0.0))

    def pose(self, ego: float, focal_px: float) -> Mesh:
        """Those in sight after `ego` metres: a pole thinner than a pixel is left out."""
        seen = []
        first = int(ego // POLE_SPACING_M)
        for slot in range(first, first + int(100.0 / POLE_SPACING_M)):
            for side, x in enumerate(POLES_X_M):
                radius, mesh = self._kinds[self._order[(slot + 13 * side) % len(self._order)]]
                z = slot * POLE_SPACING_M + 2.5 * side - ego
                if 1.0 < z < 2 * radius * focal_px:
                    seen.append(mesh.moved(x=x, z=z))
        return join(seen)


def puddles(rng: textures.Rng, shape: tuple[int, int]) -> Texture:
    """How wet the road is, 255 = standing water; repeats at its edges like the road."""
    wet = textures.noise(rng, shape, 128, 8, 0.7)
    return Texture(np.clip(150 + 75 * wet, 40, 255))
