"""What nodes of other packages make of messages, repeated in NumPy from documented formulas.

Those nodes are C++ and are not run here. What is Python of theirs is run: see ``package``.
"""

from __future__ import annotations

import importlib
import os
import sys
import types
from typing import Any, NamedTuple

import cv2
import numpy as np
import pytest

#: Names folders, separated as in PATH, with Python packages of ROS that come without a wheel.
FOLDERS = 'STEREO_BP_ROS_PYTHON'


def folders() -> list[str]:
    """Those of ``FOLDERS``."""
    return [folder for folder in os.environ.get(FOLDERS, '').split(os.pathsep) if folder]


def package(name: str) -> types.ModuleType:
    """A Python package of ROS that is installed, or lies in one of ``FOLDERS``; skips without."""
    sys.path += [folder for folder in folders() if folder not in sys.path]
    try:
        return importlib.import_module(name)
    except ImportError:
        pytest.skip(f'{name} is not installed (or name its folder in {FOLDERS})')


class Pinhole(NamedTuple):
    """``image_geometry::PinholeCameraModel``: P in pixels of the image, which region of interest
    and binning have made of the sensor's."""

    fx: float
    fy: float
    cx: float
    cy: float

    @classmethod
    def of(cls, info: Any) -> Pinhole:
        x, y = max(1, info.binning_x), max(1, info.binning_y)
        return cls(info.p[0] / x, info.p[5] / y, (info.p[2] - info.roi.x_offset) / x,
                   (info.p[6] - info.roi.y_offset) / y)


def pixels(image: Any) -> np.ndarray:
    """The pixels of an image message of 32FC1, mono8, rgb8 or bgr8."""
    dtype, channels = {'32FC1': ('<f4', 1), 'mono8': ('u1', 1)}.get(image.encoding, ('u1', 3))
    rows = np.frombuffer(image.data, np.uint8).reshape(image.height, image.step)
    values = rows[:, :image.width * channels * np.dtype(dtype).itemsize].copy().view(dtype)
    return values if channels == 1 else values.reshape(image.height, image.width, channels)


# depth_image_proc

def metres(depth: Any) -> np.ndarray:
    """float32; NaN where a depth image of 32FC1 has none."""
    values = pixels(depth)
    return np.where(np.isfinite(values), values, np.float32(np.nan))


def points_of_depth(depth: Any, info: Any) -> np.ndarray:
    """``point_cloud_xyz`` and ``point_cloud_xyzrgb``: float32 H x W x 3, NaN without depth."""
    camera, z = Pinhole.of(info), metres(depth)
    v, u = np.mgrid[:depth.height, :depth.width]
    return np.stack([(u - camera.cx) * z / camera.fx, (v - camera.cy) * z / camera.fy, z],
                    -1).astype(np.float32)


def colours_of(image: Any) -> np.ndarray:
    """``point_cloud_xyzrgb`` and ``point_cloud_node``: H x W x 3, red, green and blue."""
    values = pixels(image)
    if values.ndim == 2:
        return np.repeat(values[..., None], 3, -1)
    return values if image.encoding == 'rgb8' else values[..., ::-1]


def disparity_of_depth(depth: Any, right_info: Any) -> np.ndarray:
    """``depth_image_proc/disparity``: 0 where there is none. It reads P without binning."""
    f, t = right_info.p[0], -right_info.p[3] / right_info.p[0]
    return np.nan_to_num(f * t / metres(depth)).astype(np.float32)


# stereo_image_proc

def points_of_disparity(disparity: np.ndarray, left: Any, right: Any) -> np.ndarray:
    """``point_cloud_node``: float32 H x W x 3, NaN where it leaves a point out.

    The matrix Q of image_geometry's StereoCameraModel in C++, and OpenCV's reprojection in
    float64 rounded to float32. The node leaves out the least disparity of the image and infinite
    points.
    """
    camera, cx_right = Pinhole.of(left), Pinhole.of(right).cx
    fx, fy, cx, cy = camera
    tx = right.p[3] / right.p[0]
    q = np.array([[fy * tx, 0, 0, -fy * cx * tx], [0, fx * tx, 0, -fx * cy * tx],
                  [0, 0, 0, fx * fy * tx], [0, 0, -fy, fy * (cx - cx_right)]])
    y, x = np.mgrid[:disparity.shape[0], :disparity.shape[1]].astype(np.float64)
    with np.errstate(divide='ignore', invalid='ignore'):
        homogeneous = np.stack([x, y, disparity.astype(np.float64), np.ones_like(x)], -1) @ q.T
        found = (homogeneous[..., :3] / homogeneous[..., 3:]).astype(np.float32)
    found[(disparity == disparity.min()) | np.isinf(found[..., 2])] = np.nan
    return found


# sensor_msgs

def channel(cloud: Any, name: str) -> np.ndarray:
    """What ``sensor_msgs::PointCloud2Iterator`` reads: float32, or a byte of r, g, b, a."""
    offsets = {field.name: field.offset for field in cloud.fields}
    dtype, offset = '<f4', offsets.get(name, -1)
    if offset < 0:
        dtype = 'u1'
        offset = offsets['rgb'] + {'r': 2, 'g': 1, 'b': 0, 'a': 3}[name]
    assert not cloud.is_bigendian
    return np.ndarray((cloud.height, cloud.width), dtype, bytes(cloud.data), offset,
                      (cloud.row_step, cloud.point_step))


# image_view

def shades(message: Any) -> np.ndarray:
    """``disparity_view`` and ``stereo_view``: places in their map of 256 colours, in float32."""
    assert (message.min_disparity, message.max_disparity) != (0, 0), 'they show nothing'
    first, last = np.float32(message.min_disparity), np.float32(message.max_disparity)
    places = (pixels(message.image) - first) * (np.float32(255) / (last - first)) + 0.5
    assert np.abs(places).max() < 2**31, 'undefined in C++'
    return np.clip(places.astype(np.int32), 0, 255)


# image_proc

def rectified(raw: np.ndarray, info: Any) -> np.ndarray:
    """``rectify_node``: maps of the binned sensor, cut to the region of interest in whole pixels.

    An image whose D has only zeros is passed on as it is, whatever R and P are.
    """
    if not np.any(info.d):
        return raw
    x, y = max(1, info.binning_x), max(1, info.binning_y)
    scale = np.array([[1 / x], [1 / y], [1]])
    model: Any = cv2.fisheye if info.distortion_model == 'equidistant' else cv2
    whole, parts = model.initUndistortRectifyMap(
        np.reshape(info.k, (3, 3)) * scale, np.array(info.d), np.reshape(info.r, (3, 3)),
        (np.reshape(info.p, (3, 4)) * scale)[:, :3], (info.width // x, info.height // y),
        cv2.CV_16SC2)
    roi = info.roi
    if roi.width:
        left, top = roi.x_offset // x, roi.y_offset // y
        place = np.s_[top:top + roi.height // y, left:left + roi.width // x]
        whole, parts = whole[place] - np.array([left, top], np.int16), parts[place]
    return cv2.remap(raw, whole, parts, cv2.INTER_LINEAR)
