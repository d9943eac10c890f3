"""Textured planar patches, the matter of a scene.

Coordinates are those of a camera: x right, y down, z forward, metres.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

import cv2
import numpy as np

#: Kinds of patches: hidden by what is nearer; drawn first, in order; darkens the ground drawn.
SOLID, GROUND, SHADE = 0, 1, 2

#: Labels of patches: what a sample belongs to.
OTHER, VEHICLE, THIN, FENCE = 0, 1, 2, 3

NEAR_CLIP_M = 0.4
#: Patches that span more depth than this are drawn in pieces, each with its own texture level.
MAX_DEPTH_RATIO = 1.6

MAX_CORNERS = 7


class Texture:
    """A grey surface image with copies filtered down by powers of two along each axis (ripmap).

    grey:   float or uint8 H x W, grey levels.
    cutout: bool H x W, True where there is a surface; None where it is everywhere.
    """

    def __init__(self, grey: np.ndarray, cutout: np.ndarray | None = None) -> None:
        if grey.dtype != np.uint8:
            grey = np.clip(np.rint(grey), 1, 255).astype(np.uint8)
        self.grey = grey
        self.cutout = None if cutout is None else np.where(cutout, np.uint8(255), np.uint8(0))
        self._levels: dict[tuple[int, int, int], tuple[np.ndarray, np.ndarray | None]] = {}

    def level(self, across: int, down: int, repeats: int = 1
              ) -> tuple[np.ndarray, np.ndarray | None]:
        """Grey and cutout (uint8), reduced by 2^across x 2^down, repeated downwards."""
        key = (across, down, repeats)
        if key not in self._levels:
            grey, cutout = self.grey, self.cutout
            size = (max(1, grey.shape[1] >> across), max(1, grey.shape[0] >> down))
            if across or down:
                grey = cv2.resize(grey, size, interpolation=cv2.INTER_AREA)
                if cutout is not None:
                    cutout = cv2.resize(cutout, size, interpolation=cv2.INTER_AREA)
            self._levels[key] = (np.tile(grey, (repeats, 1)), cutout)
        return self._levels[key]


@dataclass
class Mesh:
    """Planar patches. Point (s, t) of patch n lies at ``origin + s u + t v``; s runs along the
    texture's rows and t down its columns, both from 0 to 1 (t may go on where it repeats).

    origin, u, v: float64 N x 3, metres.
    outline:  float64 N x MAX_CORNERS x 2, convex polygons in (s, t), the last corner repeated.
    facing:   float64 N, 1 or -1 for the side of u x v that is seen, 0 for both.
    kind:     int N, SOLID, GROUND or SHADE.
    label:    int N, OTHER, VEHICLE, THIN or FENCE.
    textures: N textures.
    """

    origin: np.ndarray
    u: np.ndarray
    v: np.ndarray
    outline: np.ndarray
    facing: np.ndarray
    kind: np.ndarray
    label: np.ndarray
    textures: list[Texture]

    def __len__(self) -> int:
        return len(self.textures)

    def moved(self, x: float = 0.0, y: float = 0.0, z: float = 0.0) -> Mesh:
        """The same patches elsewhere (the other arrays are shared)."""
        return replace(self, origin=self.origin + np.array([x, y, z]))

    def turned(self) -> Mesh:
        """The same patches turned by half a turn about the vertical axis."""
        return self._transformed(np.diag([-1.0, 1.0, -1.0]))

    def sheared(self, slope: float) -> Mesh:
        """The same patches moved down by `slope` metres for every metre to the right."""
        return self._transformed(np.array([[1.0, slope, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))

    def _transformed(self, matrix: np.ndarray) -> Mesh:
        return replace(self, origin=self.origin @ matrix, u=self.u @ matrix, v=self.v @ matrix)

    def marked(self, label: int) -> Mesh:
        """The same patches with another label."""
        return replace(self, label=np.full(len(self), label))

    def select(self, keep: np.ndarray) -> Mesh:
        """The patches of an index array."""
        return Mesh(**{name: getattr(self, name)[keep] for name in ARRAYS},
                    textures=[self.textures[n] for n in keep])


ARRAYS = tuple(one.name for one in fields(Mesh) if one.name != 'textures')


def join(meshes: Sequence[Mesh]) -> Mesh:
    """All patches of one or several meshes, in order."""
    return Mesh(**{name: np.concatenate([getattr(m, name) for m in meshes]) for name in ARRAYS},
                textures=[texture for m in meshes for texture in m.textures])


Point = Sequence[float]
UNIT_SQUARE: Sequence[Point] = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0))


def patch(texture: Texture, origin: Point, u: Point, v: Point, *,
          outline: Sequence[Point] = UNIT_SQUARE, outward: Point | None = None,
          kind: int = SOLID) -> Mesh:
    """One patch; with `outward`, it is seen only from the side that this vector points to."""
    corners = [tuple(corner) for corner in outline]
    corners += [corners[-1]] * (MAX_CORNERS - len(corners))
    facing = 0.0
    if outward is not None:
        facing = -float(np.sign(np.dot(np.cross(u, v), outward)))
    return Mesh(np.array([origin], float), np.array([u], float), np.array([v], float),
                np.array([corners], float), np.array([facing]), np.array([kind]),
                np.array([OTHER]), [texture])


def upright(texture: Texture, x: float, y: float, z: float, width: float, height: float,
            **options: Any) -> Mesh:
    """A patch across the street; (x, y, z) is its upper left corner seen from the camera."""
    return patch(texture, (x, y, z), (width, 0.0, 0.0), (0.0, height, 0.0), **options)


def lengthwise(texture: Texture, x: float, y: float, z: float, length: float, height: float,
               **options: Any) -> Mesh:
    """An upright patch along the street; (x, y, z) is the upper corner of its near end."""
    return patch(texture, (x, y, z), (0.0, 0.0, length), (0.0, height, 0.0), **options)


def corner_points(mesh: Mesh) -> np.ndarray:
    """Corners of the outlines, float64 N x MAX_CORNERS x 3, metres."""
    s, t = mesh.outline[:, :, :1], mesh.outline[:, :, 1:]
    return mesh.origin[:, None] + s * mesh.u[:, None] + t * mesh.v[:, None]


def _clipped(outline: np.ndarray, axis: int, low: float, high: float) -> np.ndarray | None:
    """The part of a convex (s, t) outline between two values of s (axis 0) or t (axis 1)."""
    corners = list(outline)
    for limit, sign in ((low, 1.0), (high, -1.0)):
        kept: list[np.ndarray] = []
        for n, b in enumerate(corners):
            a = corners[n - 1]
            is_inside = [sign * (corner[axis] - limit) >= 0 for corner in (a, b)]
            if is_inside[0] != is_inside[1]:
                crossing = a + (limit - a[axis]) / (b[axis] - a[axis]) * (b - a)
                crossing[axis] = limit
                kept.append(crossing)
            if is_inside[1]:
                kept.append(b)
        corners = [np.array(corner) for corner in dict.fromkeys(map(tuple, kept))]
        if len(corners) < 3:
            return None
    corners += [corners[-1]] * (MAX_CORNERS - len(corners))
    return np.array(corners[:MAX_CORNERS])


def split_by_depth(mesh: Mesh) -> Mesh:
    """Patches in pieces of little depth each, without what lies behind or at the camera.

    The depth of a patch must change along s only or along t only.
    """
    depths = corner_points(mesh)[:, :, 2]
    nearest, farthest = depths.min(axis=1), depths.max(axis=1)
    seen = farthest > NEAR_CLIP_M
    whole = seen & (nearest >= NEAR_CLIP_M) & (farthest <= MAX_DEPTH_RATIO * nearest)
    pieces = [mesh.select(np.flatnonzero(whole))]
    for n in np.flatnonzero(seen & ~whole):
        one = mesh.select(np.array([n]))
        axis = 0 if abs(one.u[0, 2]) > abs(one.v[0, 2]) else 1
        slope = (one.u, one.v)[axis][0, 2]
        near, far = max(nearest[n], NEAR_CLIP_M), farthest[n]
        # Cuts lie at the same depths for everything, so that neighbours meet at the same cuts.
        first, last = np.log([near, far]) / np.log(MAX_DEPTH_RATIO)
        cuts = [near, *(MAX_DEPTH_RATIO ** k for k in range(int(np.floor(first)) + 1,
                                                             int(np.ceil(last)))), far]
        places = (np.array(cuts) - one.origin[0, 2]) / slope
        for a, b in pairwise(places):
            outline = _clipped(one.outline[0], axis, min(a, b), max(a, b))
            if outline is not None:
                pieces.append(replace(one, outline=outline[None]))
    return join(pieces)
