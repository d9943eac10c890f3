"""Layout of the synthetic street: what stands where, and how it moves.

World coordinates in metres: x to the right of the ego lane's middle, y down from the road, z along
it. Everything repeats with some period, so a drive may be of any length.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from stereo_bp_ros.sources.scenes import textures, vehicles
from stereo_bp_ros.sources.scenes.meshes import (
    FENCE,
    GROUND,
    THIN,
    UNIT_SQUARE,
    Mesh,
    Texture,
    join,
    lengthwise,
    patch,
    upright,
)

LANES_M = (0.0, -3.5)
LEFT_KERB_M, RIGHT_KERB_M = -7.7, 4.35
LEFT_WALL_M, RIGHT_WALL_M = -11.2, 7.9
PARKED_M = (-6.55, 3.2)
KERB_HEIGHT_M = 0.12
#: Nothing but the ground and the vehicles ahead comes nearer to the middle of the ego lane.
NEAREST_SIDE_M = 2.2

EGO_SPEED = 8.0
ONCOMING_SPEED = 9.5
ONCOMING_SPACING_M = 31.0
PARKED_SPACING_M = 6.4
SIGHT_M = 165.0
SKYLINE_M = 210.0
BUILDING_SIGHT_M = 160.0

BALUSTRADE_X_M = 4.6
BALUSTRADE_HEIGHT_M = 1.0
BALUSTER_PERIOD_M = 0.5
#: Above half the period: where balusters are too small to be told apart, they are a wall.
BALUSTER_M = 0.28125

SECTION_M = 8.0
BAR_PERIOD_M = 0.25
BAR_M = 0.0625
PANEL_M = (3.0, 2.0)
#: Places of the left ends of fence panels across the pavements, x and z, metres.
PANELS = ((-10.9, 9.0), (4.85, 18.0), (-11.0, 25.0), (4.95, 37.0), (-10.9, 43.0))

POLES_X_M = (-7.95, 4.45)
POLE_SPACING_M = 5.5
POLE_KINDS = 8


@dataclass(frozen=True)
class Row:
    """Things that stand along the street and repeat with a period.

    things:    place of the near and of the far end, metres, and the mesh, whose own z is 0 at
               the near end.
    period:    metres.
    turns:     periods in sight.
    near, far: a thing is in sight if its far end lies beyond `near` and its near end before
               `far`, metres before the camera.
    """

    things: list[tuple[float, float, Mesh]]
    period: float
    turns: int
    near: float = -np.inf
    far: float = np.inf

    def pose(self, ego: float) -> list[Mesh]:
        """What is in sight after `ego` metres of the drive."""
        shifts = [turn * self.period - ego % self.period for turn in range(self.turns)]
        return [mesh.moved(z=start + shift) for shift in shifts for start, end, mesh in self.things
                if end + shift > self.near and start + shift < self.far]


class Street:
    """All surfaces of one street; a seed is what it looks like.

    Building one takes about a second, posing it about a millisecond.
    """

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng([seed, 1])
        road = textures.road(rng, LEFT_KERB_M, RIGHT_KERB_M, (*LANES_M, *PARKED_M), (-1.75,),
                             (1.85, -5.35))
        left_width = LEFT_KERB_M - LEFT_WALL_M + 1.0
        right_width = RIGHT_WALL_M - RIGHT_KERB_M + 1.0
        left, right = (textures.pavement(rng, left_width, False),
                       textures.pavement(rng, right_width, True))
        kerb = textures.kerb_face(rng, KERB_HEIGHT_M)
        #: Texture, period, left edge, width, top and height of every strip of the ground.
        self._strips = [
            (road, textures.ROAD_PERIOD_M, LEFT_KERB_M, RIGHT_KERB_M - LEFT_KERB_M, 0.0, 0.0)]
        self._strips += [
            (texture, textures.PAVEMENT_PERIOD_M, x, width, -KERB_HEIGHT_M, height)
            for texture, x, width, height in (
                (left, LEFT_WALL_M - 1.0, left_width, 0.0),
                (right, RIGHT_KERB_M, right_width, 0.0),
                (kerb, LEFT_KERB_M, 0.0, KERB_HEIGHT_M), (kerb, RIGHT_KERB_M, 0.0, KERB_HEIGHT_M))]
        self._skyline = upright(textures.skyline(rng, 90.0, 34.0), -46.0, -32.0, SKYLINE_M, 90.0,
                                34.0)
        self._rows = [_houses(rng, -1, LEFT_WALL_M, 0.72), _houses(rng, 1, RIGHT_WALL_M, 1.06),
                      _furniture(rng)]
        self._fleet = vehicles.fleet(rng)
        self._draw = rng.integers(0, 1 << 30, 64)
        # What is not on every street draws from its own numbers: the rest stays the same.
        rng = np.random.default_rng([seed, 4])
        self._fences = make_fences(rng)
        self._poles = [_pole(rng, number) for number in range(POLE_KINDS)]
        self._pole_order = rng.permutation(np.repeat(np.arange(POLE_KINDS), 4))

    def pose(self, seconds: float, camera_height: float, clearance: float, ground: float,
             focal_px: float, *, fence: bool, poles: bool) -> Mesh:
        """Everything in sight after `seconds`, in the left camera's coordinates.

        clearance:    minimum distance to the vehicle ahead, metres.
        ground:       distance from which on the road is needed, metres.
        fence, poles: whether these stand beside the street.
        """
        ego = EGO_SPEED * seconds
        meshes = [*self._ground(ego, ground), self._skyline]
        for row in self._rows:
            meshes += row.pose(ego)
        meshes += self._traffic(seconds, clearance) + self._parked(ego)
        if fence:
            for row in self._fences:
                meshes += row.pose(ego)
        if poles:
            meshes += self._poles_in_sight(ego, focal_px)
        return join(meshes).moved(y=camera_height)

    def _ground(self, ego: float, near: float) -> list[Mesh]:
        strips = []
        for texture, period, x, width, y, height in self._strips:
            place = (ego % period) / period
            first, last = place + near / period, place + SKYLINE_M / period
            strips.append(patch(texture, (x, y, -place * period), (width, height, 0.0),
                                (0.0, 0.0, period), kind=GROUND,
                                outline=[(s, last if t else first) for s, t in UNIT_SQUARE]))
        return strips

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
        for side, x in enumerate(PARKED_M):
            for slot in range(int(ego // PARKED_SPACING_M) - 1,
                              int((ego + 110.0) // PARKED_SPACING_M)):
                code = int(self._draw[(7 * slot + 29 * side) % 64]) >> 5
                if code % 100 < 56:
                    z = slot * PARKED_SPACING_M - ego + 0.1 * (code % 9)
                    aside = 0.03 * (code % 4) * (1 if x > 0 else -1)
                    meshes += self._vehicle(code // 7, x + aside, z + (5.0 if side == 0 else 0.0),
                                            side == 0)
        return meshes

    def _poles_in_sight(self, ego: float, focal_px: float) -> list[Mesh]:
        """Poles after `ego` metres: one thinner than a pixel is left out."""
        seen = []
        first = int(ego // POLE_SPACING_M)
        for slot in range(first, first + int(100.0 / POLE_SPACING_M)):
            for side, x in enumerate(POLES_X_M):
                kind = self._pole_order[(slot + 13 * side) % len(self._pole_order)]
                radius, mesh = self._poles[kind]
                z = slot * POLE_SPACING_M + 2.5 * side - ego
                if 1.0 < z < 2 * radius * focal_px:
                    seen.append(mesh.moved(x=x, z=z))
        return seen


def _houses(rng: textures.Rng, side: int, x: float, light: float) -> Row:
    """The houses along one side of the street."""
    houses = []
    z = 0.0
    for _ in range(9):
        length, height = float(rng.uniform(9, 16)), float(rng.uniform(7.5, 14.0))
        wall = x + side * float(rng.uniform(-0.35, 0.9))
        houses.append((z, z + length, _house(rng, side, wall, length, height, light)))
        z += length
    return Row(houses, z, int(BUILDING_SIGHT_M // z) + 2, 0.0, BUILDING_SIGHT_M)


def _house(rng: textures.Rng, side: int, x: float, length: float, height: float, light: float
           ) -> Mesh:
    depth = 9.0
    parts = [lengthwise(textures.facade(rng, length, height, light), x, -height, 0.0, length,
                        height, outward=(-side, 0, 0))]
    outline = UNIT_SQUARE
    ridge = 0.0
    if rng.random() < 0.6:
        ridge = float(rng.uniform(2.6, 3.8))
        eaves = ridge / (height + ridge)
        outline = ((0.0, eaves), (0.5, 0.0), (1.0, eaves), (1.0, 1.0), (0.0, 1.0))
        parts.append(patch(textures.roof(rng, length, float(np.hypot(ridge, depth / 2)), light),
                           (x + side * depth / 2, -height - ridge, 0.0), (0.0, 0.0, length),
                           (-side * depth / 2, ridge, 0.0), outward=(-side, -1, 0)))
    parts.append(upright(textures.gable(rng, depth, height + ridge, 0.8 * light), x,
                         -height - ridge, 0.0, side * depth, height + ridge, outline=outline,
                         outward=(0, 0, -1)))
    return join(parts)


def _furniture(rng: textures.Rng) -> Row:
    """Trees, lamp posts and signs on the pavements."""
    trees = [_tree(rng, light) for light in (0.95, 1.1, 1.0)]
    lamp = _lamp(rng).marked(THIN)
    signs = [_signpost(rng, kind).marked(THIN) for kind in range(3)]
    things = []
    for k in range(8):
        z = 17.0 * k
        things.append((z + 6.0, trees[k % 3].moved(x=5.35)))
        if k % 4 != 2:
            things.append((z + 11.0, trees[(k + 1) % 3].moved(x=-8.8)))
        if k % 2:
            things.append((z + 14.5, lamp.moved(x=4.8)))
            things.append((z + 2.0, lamp.turned().moved(x=-8.15)))
        if k % 3 == 1:
            things.append((z + 10.0, signs[(k // 3) % 3].moved(x=4.95)))
    return Row([(z, z, mesh) for z, mesh in things], 136.0, 2, 0.5, 125.0)


def _post(rng: textures.Rng, light: float, height: float, radius: float) -> Mesh:
    return upright(textures.bark(rng, light, height, radius), -radius, -height, 0.0, 2 * radius,
                   height)


def _tree(rng: textures.Rng, light: float) -> Mesh:
    crowns = ((0.15, -3.3, 0.7, 2.9, 3.3), (-0.35, -3.0, 0.0, 2.5, 2.6),
              (0.4, -2.6, -0.6, 2.0, 2.1))
    return join([_post(rng, 0.85, 2.9, 0.14), *(
        upright(textures.crown(rng, width, height, light), x - width / 2, y - height / 2 - 0.9, z,
                width, height) for x, y, z, width, height in crowns)])


def _lamp(rng: textures.Rng) -> Mesh:
    head = Texture(np.full((12, 48), 96, np.float32) + 6 * textures.noise(rng, (12, 48), 8))
    return join([_post(rng, 1.05, 6.2, 0.06), upright(head, -1.3, -6.25, 0.0, 1.35, 0.07),
                 upright(head, -1.75, -6.3, 0.0, 0.6, 0.15)])


def _signpost(rng: textures.Rng, kind: int) -> Mesh:
    texture = textures.sign(rng, kind)
    width, height = (1.5, 0.9) if kind == 2 else (0.8, 0.8)
    return join([_post(rng, 1.2, 2.9, 0.04),
                 upright(texture, -width / 2, -3.0, -0.05, width, height)])


def make_fences(rng: textures.Rng) -> tuple[Row, Row]:
    """A balustrade along the right kerb, and panels of bars across both pavements."""
    height = BALUSTRADE_HEIGHT_M
    section = lengthwise(
        textures.pales(rng, SECTION_M, height, BALUSTER_PERIOD_M, BALUSTER_M,
                       ((0.0, 0.14), (height - 0.12, height)), 150.0),
        BALUSTRADE_X_M, -height, 0.0, SECTION_M, height).marked(FENCE)
    length, height = PANEL_M
    bars = textures.pales(rng, length, height, BAR_PERIOD_M, BAR_M,
                          ((0.0, 0.08), (1.0, 1.05), (1.85, 1.92)), 205.0)
    panels = [(z, z, upright(bars, x, -height, 0.0, length, height).marked(FENCE))
              for x, z in PANELS]
    return Row([(0.0, 0.0, section)], SECTION_M, 13), Row(panels, 51.0, 3, 1.0, 60.0)


def _pole(rng: textures.Rng, number: int) -> tuple[float, Mesh]:
    """Radius and mesh of a pole of 4 to 9 cm; every second one carries a narrow sign."""
    radius = float(rng.uniform(0.02, 0.045))
    height = float(rng.uniform(1.6, 4.4))
    parts = [_post(rng, float(rng.choice([0.3, 0.5, 1.6, 2.1])), height, radius)]
    if number % 2:
        width = 4 * radius
        canvas = textures.Canvas(width, 0.6, 160, float(rng.choice([60.0, 225.0])))
        ink = 225.0 if canvas.grey[0, 0] < 128 else 50.0
        for y in (0.1, 0.3, 0.46):
            canvas.box(0.15 * width, y, 0.85 * width, y + 0.08, ink)
        parts.append(upright(canvas.texture(rng, 4.0, 16), -width / 2, -height, -0.03, width, 0.6))
    return radius, join(parts).marked(THIN)


@lru_cache(maxsize=4)
def street(seed: int) -> Street:
    """The street of a seed, kept for the next frames."""
    return Street(seed)
