"""The disparity that the points of a LiDAR have in the left image."""

from __future__ import annotations

import math
from typing import Any

import cv2
import numpy as np

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.errors import shown

#: NumPy's types by the numbers of sensor_msgs/PointField.
_TYPES = {7: 'f4', 8: 'f8'}

#: Metres before the camera from which points count: nearer ones are of no scene.
MIN_DEPTH_M = 1e-3

#: Most pixels of ``spacing``: a cloud with larger gaps is too thin to hide anything.
MAX_SPACING = 32


def points_of(message: Any) -> np.ndarray:
    """x, y and z of the points of a ``sensor_msgs/PointCloud2``: float64 N x 3, metres.

    Points that are not finite, and those at the origin, with which drivers mark that no light
    came back, are left out.

    :raises ValueError: no x, y and z as float32 or float64, or sizes that do not fit the data.
    """
    fields = {field.name: field for field in message.fields}
    if not {'x', 'y', 'z'} <= fields.keys():
        raise ValueError('the cloud has no x, y and z, but the fields '
                         + (', '.join(map(shown, fields)) or '(none)'))
    order = '>' if message.is_bigendian else '<'
    for name in 'xyz':
        if fields[name].datatype not in _TYPES or fields[name].count not in (0, 1):
            raise ValueError(
                f'{name} of the cloud has the datatype {fields[name].datatype} and the count '
                f'{fields[name].count}, but must be one float32 (7) or float64 (8)')
    step, width, height = int(message.point_step), int(message.width), int(message.height)
    kinds = [np.dtype(order + _TYPES[fields[name].datatype]) for name in 'xyz']
    offsets = [int(fields[name].offset) for name in 'xyz']
    end = max(offset + kind.itemsize for offset, kind in zip(offsets, kinds, strict=True))
    row = int(message.row_step) if height > 1 else step * width
    data = np.ascontiguousarray(message.data, np.uint8).reshape(-1)
    if end > step or row < step * width or data.size < row * height:
        raise ValueError(f'the cloud of {width} x {height} points has {data.size} bytes, a '
                         f'point_step of {step} and a row_step of {row}: these do not fit')
    point = np.dtype({'names': list('xyz'), 'formats': kinds, 'offsets': offsets,
                      'itemsize': step})
    records = np.ndarray((height, width), point, data, strides=(row, step)).reshape(-1)
    points = np.stack([records[name].astype(np.float64) for name in 'xyz'], axis=1)
    return np.asarray(points[np.isfinite(points).all(axis=1) & points.any(axis=1)])


def transform(points: np.ndarray, pose: np.ndarray) -> np.ndarray:
    """Points N x 3 by a pose 4 x 4; without linear algebra, whose threads split many points."""
    x, y, z = pose[:3, :3].T
    return np.asarray(points[:, :1] * x + points[:, 1:2] * y + points[:, 2:] * z + pose[:3, 3])


def project(points: np.ndarray, calibration: Calibration, shape: tuple[int, int]) -> np.ndarray:
    """Disparity of the nearest point in each pixel: float64 H x W, NaN where there is none.

    :param points: N x 3 in metres in the left camera's optical frame, x right and z ahead.
    """
    height, width = shape
    ahead = points[points[:, 2] > MIN_DEPTH_M]
    x, y, z = ahead.T
    with np.errstate(over='ignore', invalid='ignore'):
        columns = np.rint(calibration.focal_px * x / z + calibration.cx_left)
        rows = np.rint(calibration.focal_y_px * y / z + calibration.cy)
    inside = (columns >= 0) & (columns < width) & (rows >= 0) & (rows < height)
    disparity = calibration.focal_px * calibration.baseline_m / z[inside] + calibration.shift
    places = rows[inside].astype(np.intp) * width + columns[inside].astype(np.intp)
    found = np.full(height * width, np.nan)
    nearest_last = np.argsort(disparity)
    found[places[nearest_last]] = disparity[nearest_last]
    return found.reshape(shape)


def spacing(known: np.ndarray) -> int:
    """Pixels, 1 to ``MAX_SPACING``, within which a surface with points has one of them.

    Twice the median distance from a pixel to the nearest point, inside the convex hull of the
    points: half the gap between the rings of a scanner, and about 0.8 times the side of the
    squares of a grid.

    :param known: bool H x W, pixels with a point.
    """
    rows, columns = np.nonzero(known)
    if rows.size < 3:
        return 1
    hull = cv2.convexHull(np.stack([columns, rows], axis=1).astype(np.int32))
    inside = cv2.fillConvexPoly(np.zeros(known.shape, np.uint8), hull, 1) != 0
    distances = cv2.distanceTransform((~known).astype(np.uint8), cv2.DIST_L2,
                                      cv2.DIST_MASK_PRECISE)
    return int(np.clip(math.ceil(2 * float(np.median(distances[inside]))), 1, MAX_SPACING))


def hidden(disparity: np.ndarray, radius: int) -> np.ndarray:
    """Points that a nearer surface may hide from the camera: bool H x W.

    A point is hidden where another one, at most ``radius`` pixels away, has a disparity that is
    larger by more than their distance in pixels. A disparity gradient above 1 along a row is not
    on one surface that both cameras see (Burt and Julesz 1980, Pollard et al. 1985), so the other
    point is on a nearer one. That points of a sensor elsewhere are hidden by what lies in front
    of them in a neighbourhood of the image is the idea of Pintus et al. (2011).

    :param disparity: H x W, pixels; NaN where there is no point.
    """
    rows, columns = np.nonzero(np.isfinite(disparity))
    own = disparity[rows, columns]
    around = np.pad(np.where(np.isfinite(disparity), disparity, -np.inf), radius,
                    constant_values=-np.inf)
    covered = np.zeros(own.shape, bool)
    for down in range(-radius, radius + 1):
        for right in range(-radius, radius + 1):
            distance = math.hypot(down, right)
            if 0 < distance <= radius:
                near = around[rows + (radius + down), columns + (radius + right)]
                covered |= near - own > distance
    found = np.zeros(disparity.shape, bool)
    found[rows, columns] = covered
    return found


def disparity_of(points: np.ndarray, calibration: Calibration, shape: tuple[int, int]
                 ) -> np.ndarray:
    """Disparity of the points that the left camera sees: float32 H x W, pixels, NaN = unknown.

    :param points: N x 3 in metres in the left camera's optical frame, x right and z ahead.
    """
    found = project(points, calibration, shape)
    found[hidden(found, spacing(np.isfinite(found)))] = np.nan
    return found.astype(np.float32)
