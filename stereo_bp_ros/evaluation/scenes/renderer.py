"""Rasteriser of textured planar patches, with the exact disparity of every sample.

A view is sampled on a grid of half pixels: sample [2 y + 1, 2 x + 1] is the centre of pixel
(x, y). The image is the grid filtered with [1 2 1] / 4 in both directions, which is symmetric
about pixel centres: image and disparity belong to the same point, and no ground truth is
interpolated.

Coordinates are those of a camera: x right, y down, z forward, metres. The disparity of a plane is
affine in image coordinates, which is what makes it exact and cheap here.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from stereo_bp_ros.evaluation.scenes.meshes import SHADE, SOLID, WET, Mesh, corner_points
from stereo_bp_ros.evaluation.scenes.reflections import Panel, Surroundings, mirrored_share

CROSS_AXIS_WEIGHT = 0.6
"""How much of a pixel's footprint along the texture's other axis counts as blur."""

DRAWING_ORDER = np.array([3, 0, 2, 1])
"""Of SOLID, GROUND, SHADE and WET."""

DARKER_WHEN_WET = 0.45

WARP = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP


def _filtered(grid: np.ndarray) -> np.ndarray:
    """Pixels of the image from the grid of half pixels."""
    tent = np.array([0.25, 0.5, 0.25], np.float32)
    return np.ascontiguousarray(cv2.sepFilter2D(grid, cv2.CV_32F, tent, tent)[1::2, 1::2])


@dataclass(frozen=True)
class View:
    """One camera's picture before the sensor, on the grid of half pixels.

    `grey` and `label` are uint8, `disparity` float32, all (2 H + 1) x (2 W + 1); the disparity is
    in pixels of the image, 0 where nothing but the sky is seen; the sky's label is OTHER.
    """

    grey: np.ndarray
    disparity: np.ndarray
    label: np.ndarray

    def image(self) -> np.ndarray:
        """The filtered picture, float32 H x W, grey levels."""
        return _filtered(self.grey)

    def sky_share(self) -> np.ndarray:
        """Part of every filtered pixel that is sky, float32 H x W, 0 to 1."""
        return _filtered((self.disparity == 0).view(np.uint8))

    def truth(self) -> np.ndarray:
        """Disparity at the pixel centres, float32 H x W, pixels."""
        return np.ascontiguousarray(self.disparity[1::2, 1::2])

    def labels(self) -> np.ndarray:
        """Labels at the pixel centres, uint8 H x W."""
        return np.ascontiguousarray(self.label[1::2, 1::2])


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

    def view(self, mesh: Mesh, sky: np.ndarray, mirror: np.ndarray | None = None,
             surroundings: Surroundings | None = None) -> View:
        """Draw a mesh that `split_by_depth` made.

        sky:          uint8, the grid's size: what is seen behind the mesh.
        mirror:       uint8, the grid's size: what WET patches mirror; None leaves them out.
        surroundings: what glossy SOLID patches mirror; None takes their gloss away.
        """
        grey = sky.copy()
        disparity = np.zeros(grey.shape, np.float32)
        label = np.zeros(grey.shape, np.uint8)
        for work in _Setup(mesh, self).patches(mirror, surroundings):
            work.draw(grey, disparity, label)
        return View(grey, disparity, label)


@dataclass
class _Work:
    """One patch, ready to be drawn into a box of the grid."""

    box: tuple[slice, slice]
    to_texel: np.ndarray
    level: tuple[np.ndarray, np.ndarray | None]
    plane: np.ndarray
    edges: np.ndarray
    kind: int
    label: int
    panel: Panel | None
    mirror: np.ndarray | None = None
    surroundings: Surroundings | None = None

    def draw(self, grey: np.ndarray, disparity: np.ndarray, label: np.ndarray) -> None:
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
        if self.kind == WET:
            cv2.copyTo(self._wet(target, seen, x, y), inside, target)
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
        if self.panel is not None and self.surroundings is not None and inside.any():
            seen = self.panel.mirroring(seen, x, y, self.surroundings)
        cv2.copyTo(seen, inside, target)
        cv2.copyTo(own, inside, depth)
        np.copyto(label[self.box], self.label, where=inside.view(bool))

    def _wet(self, ground: np.ndarray, water: np.ndarray, x: np.ndarray, y: np.ndarray
             ) -> np.ndarray:
        assert self.panel is not None
        assert self.mirror is not None
        depth = water * np.float32(self.panel.gloss / 255)
        share = depth * mirrored_share(self.panel.cosine(x, y), 0.02)
        dark = ground * (1 - np.float32(DARKER_WHEN_WET) * depth)
        return np.rint(dark + share * (self.mirror[self.box] - dark)).astype(np.uint8)


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

    def patches(self, mirror: np.ndarray | None, surroundings: Surroundings | None
                ) -> list[_Work]:
        """What is to be drawn, in order."""
        mesh, (width, height) = self.mesh, self.size
        points = corner_points(mesh)
        corners = self.focal * points[:, :, :2] / points[:, :, 2:] + self.centre
        # First and last sample inside the outline's box, cut to the picture.
        first = np.clip(np.ceil(corners.min(axis=1)), 0, (width, height)).astype(int)
        stop = np.clip(np.floor(corners.max(axis=1)) + 1, 0, (width, height)).astype(int)
        normal = np.cross(mesh.u, mesh.v)
        distance = np.einsum('ni,ni->n', normal, mesh.origin)
        drawn = (stop > first).all(axis=1) & (distance != 0) & (mesh.facing * distance >= 0)
        if mirror is None:
            drawn &= mesh.kind != WET
        order = np.flatnonzero(drawn)
        order = order[np.argsort(DRAWING_ORDER[mesh.kind[order]], kind='stable')]
        if order.size == 0:
            return []
        works = self._works(order, corners, first, stop, normal, distance)
        for work in works:
            work.mirror, work.surroundings = mirror, surroundings
        return works

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
            panel = None
            if mesh.gloss[n] > 0:
                panel = Panel(mesh.origin[n], mesh.u[n], mesh.v[n], float(mesh.gloss[n]),
                              self.focal, self.centre)
            works.append(_Work((slice(y0, stop[n, 1]), slice(x0, stop[n, 0])), to_texel, level,
                               plane[k], edges[k], int(mesh.kind[n]), int(mesh.label[n]), panel))
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
