"""Layout of the synthetic street: what stands where, and how it moves.

World coordinates in metres: x to the right of the ego lane's middle, y down from the road, z along
it. Everything repeats with some period, so a drive may be of any length.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from stereo_bp_ros.evaluation.scenes import roadside, textures, vehicles
from stereo_bp_ros.evaluation.scenes.meshes import (
    GROUND,
    THIN,
    WET,
    Mesh,
    Texture,
    join,
    patch,
)
from stereo_bp_ros.evaluation.scenes.reflections import Surroundings

LANES_M = (0.0, -3.5)
LEFT_KERB_M, RIGHT_KERB_M = -7.7, 4.35
LEFT_WALL_M, RIGHT_WALL_M = -11.2, 7.9
PARKED_M = (-6.55, 3.2)
KERB_HEIGHT_M = 0.12
NEAREST_SIDE_M = 2.2
"""Nothing but the ground and the vehicles ahead comes nearer to the middle of the ego lane."""

EGO_SPEED = 8.0
ONCOMING_SPEED = 9.5
ONCOMING_SPACING_M = 31.0
SIGHT_M = 165.0
SKYLINE_M = 210.0
BUILDING_SIGHT_M = 160.0
WATER_SHAPE = (512, 192)
"""Texels of a period of the road, along and across."""


@dataclass(frozen=True)
class Extras:
    """What a street has that makes matching hard.

    fence, poles: whether these stand beside it (`roadside`).
    gloss:        share of light that vehicles mirror, seen straight; above 0 most are dark.
    wetness:      share of water on the road, 0 to 1.
    """

    fence: bool = False
    poles: bool = False
    gloss: float = 0.0
    wetness: float = 0.0


PLAIN = Extras()


class Street:
    """All surfaces of one street; a seed is what it looks like. Most vehicles may be dark.

    Building one takes about a second, posing it about a millisecond.
    """

    def __init__(self, seed: int, dark: bool = False) -> None:
        rng = np.random.default_rng([seed, 1])
        self._road = textures.road(rng, LEFT_KERB_M, RIGHT_KERB_M,
                                    (*LANES_M, *PARKED_M), (-1.75,), (1.85, -5.35))
        self._pavements = (textures.pavement(rng, LEFT_KERB_M - LEFT_WALL_M + 1.0, False),
                           textures.pavement(rng, RIGHT_WALL_M - RIGHT_KERB_M + 1.0, True))
        self._kerb = textures.kerb_face(rng, KERB_HEIGHT_M)
        self._skyline = patch(textures.skyline(rng, 90.0, 34.0), (-46.0, -32.0, 0.0),
                              (90.0, 0.0, 0.0), (0.0, 34.0, 0.0))
        self._rows = (_Row(rng, -1, LEFT_WALL_M, 0.72), _Row(rng, 1, RIGHT_WALL_M, 1.06))
        self._furniture = _Furniture(rng)
        self._fleet = vehicles.fleet(rng, dark)
        self._draw = rng.integers(0, 1 << 30, 64)
        # What extras need draws from its own numbers, so that the rest stays the same street.
        rng = np.random.default_rng([seed, 4])
        self._fences = roadside.Fences(rng)
        self._poles = roadside.Poles(rng)
        self._water = roadside.puddles(rng, WATER_SHAPE)

    def pose(self, seconds: float, camera_height: float, clearance: float, ground: float,
             focal_px: float, extras: Extras = PLAIN) -> Mesh:
        """Everything in sight after `seconds`, in the left camera's coordinates.

        `clearance` is the least distance to the vehicle ahead and `ground` the distance from
        which on the road is needed, both in metres.
        """
        ego = EGO_SPEED * seconds
        meshes = [self._ground(ego, ground, extras.wetness), self._skyline.moved(z=SKYLINE_M)]
        meshes += [row.pose(ego) for row in self._rows]
        meshes.append(self._furniture.pose(ego))
        fleet = join(self._traffic(seconds, clearance) + self._parked(ego))
        meshes.append(replace(fleet, gloss=extras.gloss * fleet.gloss))
        if extras.fence:
            meshes.append(self._fences.pose(ego))
        if extras.poles:
            meshes.append(self._poles.pose(ego, focal_px))
        return join(meshes).moved(y=camera_height)

    def _ground(self, ego: float, near: float, wetness: float) -> Mesh:
        strips = []
        for texture, period, x, width, y, tall in (
                (self._road, textures.ROAD_PERIOD_M, LEFT_KERB_M, RIGHT_KERB_M - LEFT_KERB_M,
                 0.0, 0.0),
                (self._pavements[0], textures.PAVEMENT_PERIOD_M, LEFT_WALL_M - 1.0,
                 LEFT_KERB_M - LEFT_WALL_M + 1.0, -KERB_HEIGHT_M, 0.0),
                (self._pavements[1], textures.PAVEMENT_PERIOD_M, RIGHT_KERB_M,
                 RIGHT_WALL_M - RIGHT_KERB_M + 1.0, -KERB_HEIGHT_M, 0.0),
                (self._kerb, textures.PAVEMENT_PERIOD_M, LEFT_KERB_M, 0.0, -KERB_HEIGHT_M,
                 KERB_HEIGHT_M),
                (self._kerb, textures.PAVEMENT_PERIOD_M, RIGHT_KERB_M, 0.0, -KERB_HEIGHT_M,
                 KERB_HEIGHT_M)):
            place = (ego % period) / period
            outline = [(s, t) for s, t in ((0.0, place + near / period),
                                           (1.0, place + near / period),
                                           (1.0, place + SKYLINE_M / period),
                                           (0.0, place + SKYLINE_M / period))]
            strips.append(patch(texture, (x, y, -place * period), (width, tall, 0.0),
                                (0.0, 0.0, period), outline=outline, kind=GROUND))
        if wetness > 0:
            strips.append(replace(strips[0], kind=np.array([WET]), textures=[self._water],
                                  gloss=np.array([wetness])))
        return join(strips)

    def _vehicle(self, number: int, x: float, z: float, oncoming: bool = False) -> list[Mesh]:
        vehicle = self._fleet[number % len(self._fleet)]
        mesh = vehicle.mesh.turned() if oncoming else vehicle.mesh
        shadow = vehicle.shadow.moved(z=-vehicle.shape.length if oncoming else 0.0)
        return [shadow.moved(x=x, z=z), mesh.moved(x=x, z=z)]

    def _traffic(self, seconds: float, clearance: float) -> list[Mesh]:
        first = max(9.5, clearance)
        lead = first + 4.0 * (1 - np.cos(2 * np.pi * seconds / 11.0))
        second = first + 26.0 + 7.0 * np.sin(2 * np.pi * seconds / 17.0)
        third = first + 58.0 + 9.0 * np.sin(2 * np.pi * seconds / 23.0 + 1.0)
        sway = 0.12 * np.sin(2 * np.pi * seconds / 6.0)
        meshes = (self._vehicle(0, -0.1 + sway, lead) + self._vehicle(2, 0.15, second)
                  + self._vehicle(10, -0.05, third))
        travelled = (EGO_SPEED + ONCOMING_SPEED) * seconds
        for slot in range(int(travelled // ONCOMING_SPACING_M) - 1,
                          int((travelled + SIGHT_M) // ONCOMING_SPACING_M) + 1):
            code = int(self._draw[slot % 64])
            drift = 5.0 * np.sin(0.4 * seconds + code % 7)
            z = slot * ONCOMING_SPACING_M - travelled + drift + 24.0
            if 0 < z < SIGHT_M:
                meshes += self._vehicle(code + 3, LANES_M[1] + 0.05 * (code % 5 - 2), z, True)
        return meshes

    def _parked(self, ego: float) -> list[Mesh]:
        meshes = []
        pitch = 6.4
        for side, x in enumerate(PARKED_M):
            for slot in range(int(ego // pitch) - 1, int((ego + 110.0) // pitch)):
                code = int(self._draw[(7 * slot + 29 * side) % 64]) >> 5
                if code % 100 < 56:
                    z = slot * pitch - ego + 0.1 * (code % 9)
                    aside = 0.03 * (code % 4) * (1 if x > 0 else -1)
                    meshes += self._vehicle(code // 7, x + aside, z + (5.0 if side == 0 else 0.0),
                                            side == 0)
        return meshes


class _Row:
    """The houses along one side of the street."""

    def __init__(self, rng: textures.Rng, side: int, x: float, light: float) -> None:
        self._houses: list[tuple[float, float, Mesh]] = []
        z = 0.0
        for _ in range(9):
            length, height = float(rng.uniform(9, 16)), float(rng.uniform(7.5, 14.0))
            wall = x + side * float(rng.uniform(-0.35, 0.9))
            self._houses.append((z, z + length, _house(rng, side, wall, length, height, light)))
            z += length
        self._period = z

    def pose(self, ego: float) -> Mesh:
        seen = []
        place = ego % self._period
        for turn in range(int(BUILDING_SIGHT_M // self._period) + 2):
            shift = turn * self._period - place
            seen += [mesh.moved(z=start + shift) for start, end, mesh in self._houses
                     if end + shift > 0 and start + shift < BUILDING_SIGHT_M]
        return join(seen)


def _house(rng: textures.Rng, side: int, x: float, length: float, height: float, light: float
           ) -> Mesh:
    depth = 9.0
    parts = [patch(textures.facade(rng, length, height, light), (x, -height, 0.0),
                   (0.0, 0.0, length), (0.0, height, 0.0), outward=(-side, 0, 0))]
    outline: list[tuple[float, float]] = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]
    ridge = 0.0
    if rng.random() < 0.6:
        ridge = float(rng.uniform(2.6, 3.8))
        eaves = ridge / (height + ridge)
        outline = [(0.0, eaves), (0.5, 0.0), (1.0, eaves), (1.0, 1.0), (0.0, 1.0)]
        parts.append(patch(textures.roof(rng, length, float(np.hypot(ridge, depth / 2)), light),
                           (x + side * depth / 2, -height - ridge, 0.0), (0.0, 0.0, length),
                           (-side * depth / 2, ridge, 0.0), outward=(-side, -1, 0)))
    parts.append(patch(textures.gable(rng, depth, height + ridge, 0.8 * light),
                       (x, -height - ridge, 0.0), (side * depth, 0.0, 0.0),
                       (0.0, height + ridge, 0.0), outline=outline, outward=(0, 0, -1)))
    return join(parts)


class _Furniture:
    """Trees, lamp posts and signs on the pavements."""

    PERIOD_M = 136.0

    def __init__(self, rng: textures.Rng) -> None:
        trees = [_tree(rng, light) for light in (0.95, 1.1, 1.0)]
        lamp = _lamp(rng).marked(label=THIN)
        signs = [_signpost(rng, kind).marked(label=THIN) for kind in range(3)]
        self._things: list[tuple[float, Mesh]] = []
        for k in range(8):
            z = 17.0 * k
            self._things.append((z + 6.0, trees[k % 3].moved(x=5.35)))
            if k % 4 != 2:
                self._things.append((z + 11.0, trees[(k + 1) % 3].moved(x=-8.8)))
            if k % 2:
                self._things.append((z + 14.5, lamp.moved(x=4.8)))
                self._things.append((z + 2.0, lamp.turned().moved(x=-8.15)))
            if k % 3 == 1:
                self._things.append((z + 10.0, signs[(k // 3) % 3].moved(x=4.95)))

    def pose(self, ego: float) -> Mesh:
        seen = []
        place = ego % self.PERIOD_M
        for turn in range(2):
            shift = turn * self.PERIOD_M - place
            seen += [mesh.moved(z=z + shift) for z, mesh in self._things
                     if 0.5 < z + shift < 125.0]
        return join(seen)


def _pole(texture: Texture, radius: float, height: float) -> Mesh:
    return patch(texture, (-radius, -height, 0.0), (2 * radius, 0.0, 0.0), (0.0, height, 0.0))


def _tree(rng: textures.Rng, light: float) -> Mesh:
    parts = [_pole(textures.bark(rng, 0.85, 2.9, 0.14), 0.14, 2.9)]
    for x, y, z, width, height in ((0.15, -3.3, 0.7, 2.9, 3.3), (-0.35, -3.0, 0.0, 2.5, 2.6),
                                   (0.4, -2.6, -0.6, 2.0, 2.1)):
        texture = textures.crown(rng, width, height, light)
        parts.append(patch(texture, (x - width / 2, y - height / 2 - 0.9, z), (width, 0.0, 0.0),
                           (0.0, height, 0.0)))
    return join(parts)


def _lamp(rng: textures.Rng) -> Mesh:
    head = Texture(np.full((12, 48), 96, np.float32) + 6 * textures.noise(rng, (12, 48), 8))
    return join([_pole(textures.bark(rng, 1.05, 6.2, 0.06), 0.06, 6.2),
                 patch(head, (-1.3, -6.25, 0.0), (1.35, 0.0, 0.0), (0.0, 0.07, 0.0)),
                 patch(head, (-1.75, -6.3, 0.0), (0.6, 0.0, 0.0), (0.0, 0.15, 0.0))])


def _signpost(rng: textures.Rng, kind: int) -> Mesh:
    texture = textures.sign(rng, kind)
    width, height = (1.5, 0.9) if kind == 2 else (0.8, 0.8)
    return join([_pole(textures.bark(rng, 1.2, 2.9, 0.04), 0.04, 2.9),
                 patch(texture, (-width / 2, -3.0, -0.05), (width, 0.0, 0.0), (0.0, height, 0.0))])


@lru_cache(maxsize=2)
def street(seed: int, dark: bool = False) -> Street:
    """The street of a seed, kept for the next frames."""
    return Street(seed, dark)


def sky(seed: int, columns: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The sky of a seed for rays with these tangents of azimuth and elevation, uint8."""
    return textures.sky(np.random.default_rng([seed, 2]), columns, rows)


@lru_cache(maxsize=2)
def surroundings(seed: int, grey: float) -> Surroundings:
    """What the vehicles of a seed's street mirror, with a sky of this grey level."""
    return Surroundings(np.random.default_rng([seed, 5]), grey)
