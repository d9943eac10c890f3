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

from stereo_bp_ros.sources.scenes.meshes import (
    FENCE,
    SHADE,
    SOLID,
    THIN,
    VEHICLE,
    Mesh,
    corner_points,
)

#: How much of a pixel's footprint along the texture's other axis counts as blur.
CROSS_AXIS_WEIGHT = 0.6

#: Of SOLID, GROUND and SHADE.
DRAWING_ORDER = np.array([2, 0, 1])

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
class SceneFrame:
    """One stereo pair with its ground truth.

    index:       number in the sequence, from 0.
    stamp_ns:    time of both images, nanoseconds.
    left, right: uint8 H x W, grey levels.
    disparity:   float32 H x W, pixels: pixel (x, y) of the left image shows the same point as
                 (x - disparity, y) of the right one. Exact at pixel centres. The sky is infinitely
                 far and has disparity 0, a known value.
    occluded:    bool H x W, True where the left pixel's surface is hidden from the right camera
                 or outside its picture.
    sky:         bool H x W, True where the left pixel's centre shows the sky. Exact.
    labels:      uint8 H x W, what the left pixel's centre shows: OTHER, VEHICLE, THIN or FENCE of
                 `meshes`. Exact; `vehicles`, `thin` and `fence` are masks made of it.
    """

    index: int
    stamp_ns: int
    left: np.ndarray
    right: np.ndarray
    disparity: np.ndarray
    occluded: np.ndarray
    sky: np.ndarray
    labels: np.ndarray

    @property
    def vehicles(self) -> np.ndarray:
        """Where vehicles are, without their shadows, bool H x W."""
        return self.labels == VEHICLE

    @property
    def thin(self) -> np.ndarray:
        """Where poles, lamp posts and signs are, bool H x W."""
        return self.labels == THIN

    @property
    def fence(self) -> np.ndarray:
        """Where fences are, without the gaps between their bars, bool H x W."""
        return self.labels == FENCE

    @property
    def classes(self) -> dict[str, np.ndarray]:
        """`thin` and `fence` by these names, where there are any."""
        found = {'thin': self.thin, 'fence': self.fence}
        return {name: mask for name, mask in found.items() if mask.any()}


def find_occluded(truth: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Left pixels whose point is not in the right picture, whose disparities are at half pixels.

    A point is hidden when both neighbouring samples of the right camera lie in front of it; on a
    surface that both cameras see, one of them always lies on it or behind.
    """
    width = truth.shape[1]
    place = np.arange(width, dtype=np.float32) - truth
    sample = 2.0 * np.clip(place, 0, width - 1) + 1.0
    below = np.floor(sample).astype(np.intp)
    rows = right[1::2]
    behind = np.minimum(np.take_along_axis(rows, below, axis=1),
                        np.take_along_axis(rows, below + 1, axis=1))
    return (place < 0) | (behind > truth + 0.01)


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

    def intrinsics(self) -> np.ndarray:
        """From rays to pixels, float64 3 x 3."""
        return np.array([[self.focal_px, 0, self.cx], [0, self.focal_px, self.cy], [0, 0, 1]])

    def grid(self) -> Camera:
        """The same camera whose pixels are the samples of the grid."""
        return Camera(2 * self.width + 1, 2 * self.height + 1, 2.0 * self.focal_px,
                      2.0 * self.cx + 1.0, 2.0 * self.cy + 1.0, self.baseline_m, self.x_m)

    def view(self, mesh: Mesh, sky: np.ndarray) -> View:
        """Draw a mesh that `split_by_depth` made.

        sky: uint8, the grid's size: what is seen behind the mesh.
        """
        grey = sky.copy()
        view = View(grey, np.zeros(grey.shape, np.float32), np.zeros(grey.shape, np.uint8))
        for work in _prepare(mesh.moved(x=-self.x_m), self):
            work.draw(view)
        return view


@dataclass(frozen=True)
class _Work:
    """One patch, ready to be drawn into a box of the grid."""

    box: tuple[slice, slice]
    to_texel: np.ndarray
    level: tuple[np.ndarray, np.ndarray | None]
    plane: np.ndarray
    edges: np.ndarray
    kind: int
    label: int

    def draw(self, view: View) -> None:
        rows, cols = self.box
        y = np.arange(rows.start, rows.stop, dtype=np.float64)
        x = np.arange(cols.start, cols.stop, dtype=np.float64)
        seen, surface = (None if texels is None else cv2.warpPerspective(
            texels, self.to_texel, (x.size, y.size), flags=WARP, borderMode=cv2.BORDER_REPLICATE)
            for texels in self.level)
        assert seen is not None
        target, depth = view.grey[self.box], view.disparity[self.box]
        at = self.edges[0] + (y - self.edges[1]) * self.edges[2]
        is_inside = x >= (at + self.edges[3]).max(axis=0)[:, None]
        is_inside &= x < (at + self.edges[4]).min(axis=0)[:, None]
        inside = is_inside.view(np.uint8)
        if self.kind == SHADE:
            cv2.copyTo(cv2.multiply(target, seen, scale=1 / 255), inside, target)
            return
        a, b, c = self.plane
        own = np.add((b * y + c).astype(np.float32)[:, None], (a * x).astype(np.float32))
        if self.kind == SOLID:
            is_inside &= own > depth
        if surface is not None:
            is_inside &= surface > 127
        cv2.copyTo(seen, inside, target)
        cv2.copyTo(own, inside, depth)
        np.copyto(view.label[self.box], self.label, where=is_inside)


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


def _prepare(mesh: Mesh, camera: Camera) -> list[_Work]:
    """What is to be drawn of a mesh in the camera's coordinates, in order."""
    grid = camera.grid()
    points = corner_points(mesh)
    corners = grid.focal_px * points[:, :, :2] / points[:, :, 2:] + (grid.cx, grid.cy)
    # First and last sample inside the outline's box, cut to the picture.
    size = (grid.width, grid.height)
    first = np.clip(np.ceil(corners.min(axis=1)), 0, size).astype(int)
    stop = np.clip(np.floor(corners.max(axis=1)) + 1, 0, size).astype(int)
    distance = np.einsum('ni,ni->n', np.cross(mesh.u, mesh.v), mesh.origin)
    drawn = np.flatnonzero((stop > first).all(axis=1) & (distance != 0)
                           & (mesh.facing * distance >= 0))
    order = drawn[np.argsort(DRAWING_ORDER[mesh.kind[drawn]], kind='stable')]
    if order.size == 0:
        return []
    mesh, corners, first, stop = mesh.select(order), corners[order], first[order], stop[order]
    normal = np.cross(mesh.u, mesh.v)
    # Inverse depth along the ray of a sample is affine in the sample's place.
    across, down, ahead = normal.T
    planes = (np.stack([across / grid.focal_px, down / grid.focal_px,
                        ahead - (across * grid.cx + down * grid.cy) / grid.focal_px], axis=1)
              * (camera.focal_px * camera.baseline_m / distance[order])[:, None])
    frames = np.stack([mesh.u, mesh.v, mesh.origin], axis=2)
    to_surface = np.linalg.inv(grid.intrinsics() @ frames)
    octaves = _texture_levels(mesh, grid)
    edges = _edges(corners)
    works = []
    for n, texture in enumerate(mesh.textures):
        start, repeats = 0.0, 1
        if texture.cutout is None:
            lowest, highest = mesh.outline[n, :, 1].min(), mesh.outline[n, :, 1].max()
            start = np.floor(lowest + 1e-9)
            repeats = max(1, int(np.ceil(highest - start - 1e-9)))
        level = texture.level(int(octaves[n, 0]), int(octaves[n, 1]), repeats)
        rows, cols = level[0].shape
        (x0, y0), (x1, y1) = first[n], stop[n]
        to_texel = np.array([[cols, 0.0, -0.5],
                             [0.0, rows / repeats, -0.5 - start * rows / repeats],
                             [0.0, 0.0, 1.0]]) @ to_surface[n]
        to_texel[:, 2] += to_texel[:, 0] * x0 + to_texel[:, 1] * y0
        works.append(_Work((slice(y0, y1), slice(x0, x1)), to_texel, level, planes[n], edges[n],
                           int(mesh.kind[n]), int(mesh.label[n])))
    return works


def _texture_levels(mesh: Mesh, grid: Camera) -> np.ndarray:
    """Texture levels from the footprint of one sample in the middle of each patch, int N x 2."""
    u, v = mesh.u, mesh.v
    size = np.array([texture.grey.shape[::-1] for texture in mesh.textures], float)
    # The levels must be the same in both cameras: take the middle in (s, t) and, for the
    # sideways slope, the left camera's view of it.
    middle = 0.5 * (mesh.outline.min(axis=1) + mesh.outline.max(axis=1))
    centre = mesh.origin + middle[:, :1] * u + middle[:, 1:] * v
    centre[:, 0] += grid.x_m
    depth = centre[:, 2:]
    # d(x, y) / d(s, t) of the projection, then its inverse in texels per sample.
    du, dv = (grid.focal_px * (way[:, :2] - centre[:, :2] * way[:, 2:] / depth) / depth
              for way in (u, v))
    determinant = du[:, 0] * dv[:, 1] - dv[:, 0] * du[:, 1]
    determinant = np.where(np.abs(determinant) < 1e-9, 1e-9, determinant)[:, None]
    metres = np.stack([np.linalg.norm(u, axis=1), np.linalg.norm(v, axis=1)], axis=1) / size
    footprint = np.zeros_like(size)
    for column in (1, 0):
        step = np.abs(np.stack([dv[:, column], du[:, column]], axis=1) / determinant) * size
        length = step * metres
        is_main = length >= length[:, ::-1]
        footprint += (step * np.where(is_main, 1.0, CROSS_AXIS_WEIGHT)) ** 2
    # Measured in octaves; grazing views ask for more levels than the texture has.
    octaves = np.rint(0.5 * np.log2(np.maximum(footprint, 1.0)))
    return np.minimum(octaves, np.floor(np.log2(size))).astype(int)
