"""Textured planar patches, the matter of a scene.

Coordinates are those of a camera: x right, y down, z forward, metres.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise

import cv2
import numpy as np

SOLID, GROUND, SHADE, WET = 0, 1, 2, 3
"""Kinds of patches: hidden by what is nearer; drawn first, in order; darkens the ground drawn;
makes the ground drawn a mirror. WET is drawn before SHADE."""

OTHER, VEHICLE, THIN, FENCE = 0, 1, 2, 3
"""Labels of patches: what a sample belongs to."""

NEAR_CLIP_M = 0.4
MAX_DEPTH_RATIO = 1.6
"""Patches that span more depth than this are drawn in pieces, each with its own texture level."""

MAX_CORNERS = 7


class Texture:
    """A grey surface image with copies filtered down by powers of two along each axis (ripmap).

    grey:   float or uint8 H x W, grey levels.
    cutout: bool H x W, True where there is a surface; None where it is everywhere.
    """

    def __init__(self, grey: np.ndarray, cutout: np.ndarray | None = None) -> None:
        if grey.dtype != np.uint8:
            grey = np.clip(np.rint(grey), 1, 255).astype(np.uint8)
        self._grey = grey
        self._cutout = None if cutout is None else np.where(cutout, np.uint8(255), np.uint8(0))
        self._levels: dict[tuple[int, int, int], tuple[np.ndarray, np.ndarray | None]] = {}

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width, texels."""
        height, width = self._grey.shape
        return height, width

    @property
    def has_holes(self) -> bool:
        """Whether parts of the image are no surface."""
        return self._cutout is not None

    def level(self, across: int, down: int, repeats: int = 1
              ) -> tuple[np.ndarray, np.ndarray | None]:
        """Grey and cutout (uint8), reduced by 2^across x 2^down, repeated downwards."""
        key = (across, down, repeats)
        if key not in self._levels:
            height, width = self._grey.shape
            size = (max(1, width >> across), max(1, height >> down))
            grey, cutout = self._grey, self._cutout
            if across or down:
                grey = cv2.resize(grey, size, interpolation=cv2.INTER_AREA)
                if cutout is not None:
                    cutout = cv2.resize(cutout, size, interpolation=cv2.INTER_AREA)
            if repeats > 1:
                grey = np.tile(grey, (repeats, 1))
            self._levels[key] = (np.ascontiguousarray(grey), cutout)
        return self._levels[key]


@dataclass
class Mesh:
    """Planar patches. Point (s, t) of patch n lies at ``origin + s u + t v``; s runs along the
    texture's rows and t down its columns, both from 0 to 1 (t may go on where it repeats).

    origin, u, v: float64 N x 3, metres.
    outline:  float64 N x MAX_CORNERS x 2, convex polygons in (s, t), the last corner repeated.
    facing:   float64 N, 1 or -1 for the side of u x v that is seen, 0 for both.
    kind:     int N, SOLID, GROUND, SHADE or WET.
    label:    int N, OTHER, VEHICLE, THIN or FENCE.
    gloss:    float64 N, share of light that a patch mirrors: seen straight (SOLID), or where its
              texture is white, of what water would mirror (WET).
    textures: N textures.
    """

    origin: np.ndarray = field(default_factory=lambda: np.empty((0, 3)))
    u: np.ndarray = field(default_factory=lambda: np.empty((0, 3)))
    v: np.ndarray = field(default_factory=lambda: np.empty((0, 3)))
    outline: np.ndarray = field(default_factory=lambda: np.empty((0, MAX_CORNERS, 2)))
    facing: np.ndarray = field(default_factory=lambda: np.empty(0))
    kind: np.ndarray = field(default_factory=lambda: np.empty(0, int))
    label: np.ndarray = field(default_factory=lambda: np.empty(0, int))
    gloss: np.ndarray = field(default_factory=lambda: np.empty(0))
    textures: list[Texture] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.textures)

    def moved(self, x: float = 0.0, y: float = 0.0, z: float = 0.0) -> Mesh:
        """The same patches elsewhere (the other arrays are shared)."""
        return replace(self, origin=self.origin + np.array([x, y, z]))

    def turned(self) -> Mesh:
        """The same patches turned by half a turn about the vertical axis."""
        turn = np.array([-1.0, 1.0, -1.0])
        return replace(self, origin=self.origin * turn, u=self.u * turn, v=self.v * turn)

    def sheared(self, slope: float) -> Mesh:
        """The same patches moved down by `slope` metres for every metre to the right."""
        shear = np.array([[1.0, slope, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
        return replace(self, origin=self.origin @ shear, u=self.u @ shear, v=self.v @ shear)

    def mirrored(self, normal: np.ndarray, point: np.ndarray) -> Mesh:
        """The same patches as a plane through a point, float64 3 each, mirrors them."""
        unit = normal / np.linalg.norm(normal)
        turn = np.eye(3) - 2.0 * np.outer(unit, unit)
        return replace(self, origin=(self.origin - point) @ turn + point, u=self.u @ turn,
                       v=self.v @ turn, facing=-self.facing)

    def marked(self, label: int | None = None, gloss: float | None = None) -> Mesh:
        """The same patches with another label or gloss."""
        return replace(
            self, label=self.label if label is None else np.full(len(self), label),
            gloss=self.gloss if gloss is None else np.full(len(self), gloss))

    def select(self, keep: np.ndarray) -> Mesh:
        """The patches of an index array."""
        return Mesh(**{name: getattr(self, name)[keep] for name in ARRAYS},
                    textures=[self.textures[n] for n in keep])


ARRAYS = tuple(one.name for one in fields(Mesh) if one.name != 'textures')


def join(meshes: Sequence[Mesh]) -> Mesh:
    """All patches of several meshes, in order."""
    if not meshes:
        return Mesh()
    return Mesh(**{name: np.concatenate([getattr(m, name) for m in meshes]) for name in ARRAYS},
                textures=[texture for m in meshes for texture in m.textures])


Point = Sequence[float]
UNIT_SQUARE: Sequence[Point] = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0))


def patch(texture: Texture, origin: Point, u: Point, v: Point, *,
          outline: Sequence[Point] = UNIT_SQUARE, outward: Point | None = None,
          kind: int = SOLID, gloss: float = 0.0) -> Mesh:
    """One patch; with `outward`, it is seen only from the side that this vector points to."""
    corners = [tuple(corner) for corner in outline]
    corners += [corners[-1]] * (MAX_CORNERS - len(corners))
    facing = 0.0
    if outward is not None:
        facing = -float(np.sign(np.dot(np.cross(u, v), outward)))
    return Mesh(np.array([origin], float), np.array([u], float), np.array([v], float),
                np.array([corners], float), np.array([facing]), np.array([kind]),
                np.array([OTHER]), np.array([gloss]), [texture])


def corner_points(mesh: Mesh) -> np.ndarray:
    """Corners of the outlines, float64 N x MAX_CORNERS x 3, metres."""
    s, t = mesh.outline[:, :, :1], mesh.outline[:, :, 1:]
    return mesh.origin[:, None] + s * mesh.u[:, None] + t * mesh.v[:, None]


def _clipped(outline: np.ndarray, axis: int, low: float, high: float) -> np.ndarray | None:
    """The part of a convex (s, t) outline between two values of s (axis 0) or t (axis 1)."""
    corners = [tuple(corner) for corner in outline]
    for limit, sign in ((low, 1.0), (high, -1.0)):
        kept: list[tuple[float, ...]] = []
        for n, b in enumerate(corners):
            a = corners[n - 1]
            inside_a, inside_b = sign * (a[axis] - limit) >= 0, sign * (b[axis] - limit) >= 0
            if inside_a != inside_b:
                part = (limit - a[axis]) / (b[axis] - a[axis])
                crossing = [a[0] + part * (b[0] - a[0]), a[1] + part * (b[1] - a[1])]
                crossing[axis] = limit
                kept.append((crossing[0], crossing[1]))
            if inside_b:
                kept.append(b)
        corners = list(dict.fromkeys(kept))
        if len(corners) < 3:
            return None
    corners += [corners[-1]] * (MAX_CORNERS - len(corners))
    return np.array(corners[:MAX_CORNERS], float)


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
        first = int(np.floor(np.log(near) / np.log(MAX_DEPTH_RATIO))) + 1
        last = int(np.ceil(np.log(far) / np.log(MAX_DEPTH_RATIO)))
        cuts = [near, *(MAX_DEPTH_RATIO ** k for k in range(first, last)), far]
        places = (np.array(cuts) - one.origin[0, 2]) / slope
        for a, b in pairwise(places):
            outline = _clipped(one.outline[0], axis, min(a, b), max(a, b))
            if outline is not None:
                pieces.append(replace(one, outline=outline[None]))
    return join(pieces)
