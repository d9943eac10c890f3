"""Rasteriser of textured planar patches, with the exact disparity of every sample.

A view is sampled on a grid of half pixels: sample [2 y + 1, 2 x + 1] is the centre of pixel
(x, y). The image is the grid filtered with [1 2 1] / 4 in both directions, which is symmetric
about pixel centres: image and disparity belong to the same point, and no ground truth is
interpolated.

Coordinates are those of a camera: x right, y down, z forward, metres. The disparity of a plane is
affine in image coordinates, which is what makes it exact and cheap here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import cv2
import numpy as np

SOLID, GROUND, SHADE = 0, 1, 2
"""Kinds of patches: hidden by what is nearer; drawn first, in order; darkens the ground drawn."""

NEAR_CLIP_M = 0.4
MAX_DEPTH_RATIO = 1.6
"""Patches that span more depth than this are drawn in pieces, each with its own texture level."""

MAX_CORNERS = 7
CROSS_AXIS_WEIGHT = 0.6
"""How much of a pixel's footprint along the texture's other axis counts as blur."""

WARP = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP


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
    kind:     int N, SOLID, GROUND or SHADE.
    textures: N textures.
    """

    origin: np.ndarray = field(default_factory=lambda: np.empty((0, 3)))
    u: np.ndarray = field(default_factory=lambda: np.empty((0, 3)))
    v: np.ndarray = field(default_factory=lambda: np.empty((0, 3)))
    outline: np.ndarray = field(default_factory=lambda: np.empty((0, MAX_CORNERS, 2)))
    facing: np.ndarray = field(default_factory=lambda: np.empty(0))
    kind: np.ndarray = field(default_factory=lambda: np.empty(0, int))
    textures: list[Texture] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.textures)

    def moved(self, x: float = 0.0, y: float = 0.0, z: float = 0.0) -> Mesh:
        """The same patches elsewhere (the other arrays are shared)."""
        return Mesh(self.origin + np.array([x, y, z]), self.u, self.v, self.outline, self.facing,
                    self.kind, self.textures)

    def turned(self) -> Mesh:
        """The same patches turned by half a turn about the vertical axis."""
        turn = np.array([-1.0, 1.0, -1.0])
        return Mesh(self.origin * turn, self.u * turn, self.v * turn, self.outline, self.facing,
                    self.kind, self.textures)

    def select(self, keep: np.ndarray) -> Mesh:
        """The patches of an index array."""
        return Mesh(self.origin[keep], self.u[keep], self.v[keep], self.outline[keep],
                    self.facing[keep], self.kind[keep], [self.textures[n] for n in keep])


def join(meshes: Sequence[Mesh]) -> Mesh:
    """All patches of several meshes, in order."""
    if not meshes:
        return Mesh()
    return Mesh(np.concatenate([m.origin for m in meshes]),
                np.concatenate([m.u for m in meshes]),
                np.concatenate([m.v for m in meshes]),
                np.concatenate([m.outline for m in meshes]),
                np.concatenate([m.facing for m in meshes]),
                np.concatenate([m.kind for m in meshes]),
                [texture for m in meshes for texture in m.textures])


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
                np.array([corners], float), np.array([facing]), np.array([kind]), [texture])


def _corner_points(mesh: Mesh) -> np.ndarray:
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
    depths = _corner_points(mesh)[:, :, 2]
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
                pieces.append(Mesh(one.origin, one.u, one.v, outline[None], one.facing, one.kind,
                                   one.textures))
    return join(pieces)


def _filtered(grid: np.ndarray) -> np.ndarray:
    """Pixels of the image from the grid of half pixels."""
    tent = np.array([0.25, 0.5, 0.25], np.float32)
    return np.ascontiguousarray(cv2.sepFilter2D(grid, cv2.CV_32F, tent, tent)[1::2, 1::2])


@dataclass(frozen=True)
class View:
    """One camera's picture before the sensor, on the grid of half pixels.

    `grey` is uint8 and `disparity` float32, both (2 H + 1) x (2 W + 1); the disparity is in
    pixels of the image, 0 where nothing but the sky is seen.
    """

    grey: np.ndarray
    disparity: np.ndarray

    def image(self) -> np.ndarray:
        """The filtered picture, float32 H x W, grey levels."""
        return _filtered(self.grey)

    def sky_share(self) -> np.ndarray:
        """Part of every filtered pixel that is sky, float32 H x W, 0 to 1."""
        return _filtered((self.disparity == 0).view(np.uint8))

    def truth(self) -> np.ndarray:
        """Disparity at the pixel centres, float32 H x W, pixels."""
        return np.ascontiguousarray(self.disparity[1::2, 1::2])


@dataclass(frozen=True)
class Camera:
    """A pinhole: size, focal length and principal point in pixels, baseline and place in metres.

    `x_m` is how far to the right of the meshes' origin the camera stands; `baseline_m` only scales
    depth to disparity, and is the same for both cameras of a pair.
    """

    width: int
    height: int
    focal_px: float
    cx: float
    cy: float
    baseline_m: float
    x_m: float = 0.0

    def view(self, mesh: Mesh, sky: np.ndarray) -> View:
        """Draw a mesh that `split_by_depth` made, before a sky (uint8, the grid's size)."""
        grey = sky.copy()
        disparity = np.zeros(grey.shape, np.float32)
        for work in _Setup(mesh, self).patches():
            work.draw(grey, disparity)
        return View(grey, disparity)


@dataclass
class _Work:
    """One patch, ready to be drawn into a box of the grid."""

    box: tuple[slice, slice]
    to_texel: np.ndarray
    level: tuple[np.ndarray, np.ndarray | None]
    plane: np.ndarray
    edges: np.ndarray
    kind: int

    def draw(self, grey: np.ndarray, disparity: np.ndarray) -> None:
        rows, cols = self.box
        size = (cols.stop - cols.start, rows.stop - rows.start)
        texels, cutout = self.level
        seen = cv2.warpPerspective(texels, self.to_texel, size, flags=WARP,
                                   borderMode=cv2.BORDER_REPLICATE)
        target = grey[self.box]
        y = np.arange(rows.start, rows.stop, dtype=np.float64)
        x = np.arange(cols.start, cols.stop, dtype=np.float64)
        at = self.edges[0] + (y - self.edges[1]) * self.edges[2]
        inside = x >= (at + self.edges[3]).max(axis=0)[:, None]
        inside &= x < (at + self.edges[4]).min(axis=0)[:, None]
        inside = inside.view(np.uint8)
        if self.kind == SHADE:
            cv2.copyTo(cv2.multiply(target, seen, scale=1 / 255), inside, target)
            return
        a, b, c = self.plane
        own = np.add((b * y + c).astype(np.float32)[:, None], (a * x).astype(np.float32))
        depth = disparity[self.box]
        if self.kind == SOLID:
            inside &= (own > depth).view(np.uint8)
        if cutout is not None:
            surface = cv2.warpPerspective(cutout, self.to_texel, size, flags=WARP,
                                          borderMode=cv2.BORDER_REPLICATE)
            inside &= (surface > 127).view(np.uint8)
        cv2.copyTo(seen, inside, target)
        cv2.copyTo(own, inside, depth)


def _edges(corners: np.ndarray) -> np.ndarray:
    """Edges of convex outlines (N x K x 2) for `_Work.edges`, N x 5 x K x 1.

    Per edge: a point's x and y, dx / dy, and what takes the edge out of the maximum that is the
    outline's left side and of the minimum that is its right side.
    """
    other = np.roll(corners, -1, axis=1)
    rise = other[:, :, 1] - corners[:, :, 1]
    area = np.sum(corners[:, :, 0] * other[:, :, 1] - other[:, :, 0] * corners[:, :, 1], axis=1)
    is_right = (rise > 0) == (area > 0)[:, None]
    # Neighbours walk along a shared edge in opposite directions: both start from its upper end.
    upper = np.where((rise > 0)[:, :, None], corners, other)
    level = rise == 0
    slope = (other[:, :, 0] - corners[:, :, 0]) / np.where(level, 1.0, rise)
    return np.stack([upper[:, :, 0], upper[:, :, 1], slope,
                     np.where(level | is_right, -np.inf, 0.0),
                     np.where(level | ~is_right, np.inf, 0.0)], axis=1)[..., None]


class _Setup:
    """Everything about a mesh in one camera that can be computed for all patches at once."""

    def __init__(self, mesh: Mesh, camera: Camera) -> None:
        self.mesh = mesh.moved(x=-camera.x_m)
        self.camera = camera
        self.focal = 2.0 * camera.focal_px
        self.centre = (2.0 * camera.cx + 1.0, 2.0 * camera.cy + 1.0)
        self.size = (2 * camera.width + 1, 2 * camera.height + 1)

    def patches(self) -> list[_Work]:
        """What is to be drawn, in order."""
        mesh, (width, height) = self.mesh, self.size
        points = _corner_points(mesh)
        corners = self.focal * points[:, :, :2] / points[:, :, 2:] + self.centre
        # First and last sample inside the outline's box, cut to the picture.
        first = np.clip(np.ceil(corners.min(axis=1)), 0, (width, height)).astype(int)
        stop = np.clip(np.floor(corners.max(axis=1)) + 1, 0, (width, height)).astype(int)
        normal = np.cross(mesh.u, mesh.v)
        distance = np.einsum('ni,ni->n', normal, mesh.origin)
        drawn = (stop > first).all(axis=1) & (distance != 0) & (mesh.facing * distance >= 0)
        order = np.flatnonzero(drawn)
        order = order[np.argsort(np.where(mesh.kind[order] == SOLID, 2, mesh.kind[order] - 1),
                                 kind='stable')]
        if order.size == 0:
            return []
        return self._works(order, corners, first, stop, normal, distance)

    def _works(self, order: np.ndarray, corners: np.ndarray, first: np.ndarray, stop: np.ndarray,
               normal: np.ndarray, distance: np.ndarray) -> list[_Work]:
        mesh, focal, (cx, cy) = self.mesh, self.focal, self.centre
        # Inverse depth along the ray of a sample is affine in the sample's place.
        scale = self.camera.focal_px * self.camera.baseline_m / distance[order]
        plane = np.stack([normal[order, 0] / focal * scale,
                          normal[order, 1] / focal * scale,
                          (normal[order, 2] - (normal[order, 0] * cx + normal[order, 1] * cy)
                           / focal) * scale], axis=1)
        camera = np.array([[focal, 0.0, cx], [0.0, focal, cy], [0.0, 0.0, 1.0]])
        frame = np.stack([mesh.u[order], mesh.v[order], mesh.origin[order]], axis=2)
        to_surface = np.linalg.inv(camera @ frame)
        across, down = self._levels(order, to_surface, corners)
        edges = _edges(corners[order])
        works = []
        for k, n in enumerate(order):
            texture = mesh.textures[n]
            start = 0.0
            repeats = 1
            if not texture.has_holes:
                lowest, highest = mesh.outline[n, :, 1].min(), mesh.outline[n, :, 1].max()
                start = np.floor(lowest + 1e-9)
                repeats = max(1, int(np.ceil(highest - start - 1e-9)))
            level = texture.level(int(across[k]), int(down[k]), repeats)
            rows, cols = level[0].shape
            x0, y0 = first[n]
            to_texel = np.array([[cols, 0.0, -0.5],
                                 [0.0, rows / repeats, -0.5 - start * rows / repeats],
                                 [0.0, 0.0, 1.0]]) @ to_surface[k]
            to_texel[:, 2] += to_texel[:, 0] * x0 + to_texel[:, 1] * y0
            works.append(_Work((slice(y0, stop[n, 1]), slice(x0, stop[n, 0])), to_texel, level,
                               plane[k], edges[k], int(mesh.kind[n])))
        return works

    def _levels(self, order: np.ndarray, to_surface: np.ndarray, corners: np.ndarray
                ) -> tuple[np.ndarray, np.ndarray]:
        """Texture levels from the footprint of one sample in the middle of each patch."""
        mesh = self.mesh
        size = np.array([mesh.textures[n].shape[::-1] for n in order], float)
        outline = mesh.outline[order]
        # The levels must be the same in both cameras: take the middle in (s, t) and, for the
        # sideways slope, the left camera's view of it.
        middle = 0.5 * (outline.min(axis=1) + outline.max(axis=1))
        centre = (mesh.origin[order] + middle[:, :1] * mesh.u[order]
                  + middle[:, 1:] * mesh.v[order])
        centre[:, 0] += self.camera.x_m
        u, v = mesh.u[order], mesh.v[order]
        depth = centre[:, 2:]
        # d(x, y) / d(s, t) of the projection, then its inverse in texels per sample.
        du = self.focal * (u[:, :2] - centre[:, :2] * u[:, 2:] / depth) / depth
        dv = self.focal * (v[:, :2] - centre[:, :2] * v[:, 2:] / depth) / depth
        determinant = du[:, 0] * dv[:, 1] - dv[:, 0] * du[:, 1]
        determinant = np.where(np.abs(determinant) < 1e-9, 1e-9, determinant)[:, None]
        by_x = np.abs(np.stack([dv[:, 1], -du[:, 1]], axis=1) / determinant) * size
        by_y = np.abs(np.stack([-dv[:, 0], du[:, 0]], axis=1) / determinant) * size
        metres = np.stack([np.linalg.norm(u, axis=1), np.linalg.norm(v, axis=1)], axis=1) / size
        footprint = np.zeros_like(by_x)
        for step in (by_x, by_y):
            length = step * metres
            own = length >= length[:, ::-1]
            footprint += (step * np.where(own, 1.0, CROSS_AXIS_WEIGHT)) ** 2
        # Measured in octaves; grazing views ask for more levels than the texture has.
        octave = np.rint(0.5 * np.log2(np.maximum(footprint, 1.0)))
        octave = np.minimum(octave, np.floor(np.log2(size)))
        return octave[:, 0].astype(int), octave[:, 1].astype(int)
