"""Cameras that distort and squint: their camera_info, rectification and raw images."""

from __future__ import annotations

import pathlib
import types
from typing import Any

import cv2
import numpy as np
import yaml

from stereo_bp_ros.cameras.rectification import Rectification

WIDTH, HEIGHT, FOCAL, BASELINE = 97, 61, 80.0, 0.2
K = (FOCAL, 0, 47.5, 0, FOCAL + 2, 31.0, 0, 0, 1)
PLUMB_BOB = (-0.2, 0.05, 0.001, -0.002, 0.01)
COEFFICIENTS = {
    'plumb_bob': [(-0.2, 0.05, 0.001, -0.002), PLUMB_BOB],
    'rational_polynomial': [(*PLUMB_BOB, 0.1, 0.02, 0.003),
                            (*PLUMB_BOB, 0.1, 0.02, 0.003, 0.01, 0.002, 0.01, 0.003),
                            (*PLUMB_BOB, 0.1, 0.02, 0.003, 0.01, 0.002, 0.01, 0.003, 0.01, 0.02)],
    'equidistant': [(0.02, -0.01, 0.004, -0.001)],
}
MODELS = [(model, d) for model, lists in COEFFICIENTS.items() for d in lists]


def rotation(*angles: float) -> tuple[float, ...]:
    return tuple(cv2.Rodrigues(np.array(angles))[0].reshape(-1))


def camera_info(side='left', *, model='plumb_bob', d=PLUMB_BOB, k=K, r=None, p=None,
                binning=(0, 0), roi=(0, 0, 0, 0), size=(WIDTH, HEIGHT)):
    verged = rotation(0.01, 0.04 if side == 'left' else -0.03, 0.02)
    offset = 0.0 if side == 'left' else -FOCAL * BASELINE
    return types.SimpleNamespace(
        width=size[0], height=size[1], distortion_model=model, d=list(d), k=list(k),
        r=list(verged if r is None else r),
        p=list(p or (FOCAL, 0, 46.0, offset, 0, FOCAL, 30.0, 0, 0, 0, 1, 0)),
        binning_x=binning[0], binning_y=binning[1],
        roi=types.SimpleNamespace(x_offset=roi[0], y_offset=roi[1], width=roi[2], height=roi[3]))


def rectification(**fields) -> Rectification:
    return Rectification.from_camera_info(camera_info('left', **fields),
                                          camera_info('right', **fields))


def write_ros(folder: pathlib.Path) -> pathlib.Path:
    """left.yaml and right.yaml as ``camera_calibration`` writes them; returns the left one."""
    for side in ('left', 'right'):
        info = camera_info(side)
        (folder / f'{side}.yaml').write_text(yaml.safe_dump({
            'image_width': WIDTH, 'image_height': HEIGHT, 'distortion_model': 'plumb_bob',
            'camera_matrix': {'rows': 3, 'cols': 3, 'data': list(map(float, info.k))},
            'distortion_coefficients': {'rows': 1, 'cols': 5, 'data': list(map(float, info.d))},
            'rectification_matrix': {'rows': 3, 'cols': 3, 'data': list(map(float, info.r))},
            'projection_matrix': {'rows': 3, 'cols': 4, 'data': list(map(float, info.p))}}))
    return folder / 'left.yaml'


def projected(info: Any, pixels: np.ndarray) -> np.ndarray:
    """Raw pixels that show what rectified pixels do, N x 2, by projecting their rays."""
    p = np.reshape(info.p, (3, 4))[:, :3]
    rays = np.linalg.inv(p @ np.reshape(info.r, (3, 3))) @ np.vstack(
        [pixels.T, np.ones(len(pixels))])
    if info.distortion_model == 'equidistant':
        x, y, z = rays
        radius = np.maximum(np.hypot(x, y), 1e-12)
        theta = np.arctan2(radius, z)
        bent = theta * (1 + sum(k * theta ** (2 * i + 2) for i, k in enumerate(info.d)))
        return np.stack([info.k[0] * x * bent / radius + info.k[2],
                         info.k[4] * y * bent / radius + info.k[5]], -1)
    return cv2.projectPoints(rays.T.copy(), np.zeros(3), np.zeros(3), np.reshape(info.k, (3, 3)),
                             np.array(info.d))[0][:, 0]


def raw_image(ideal: np.ndarray, info: Any) -> np.ndarray:
    """What a camera sees of a scene whose rectified image is ``ideal``; 0 beyond that.

    The rectified position of each raw pixel is searched by projecting again and again.
    """
    y, x = np.mgrid[:info.height, :info.width]
    raw = np.stack([x, y], -1).reshape(-1, 2).astype(np.float64)
    found = raw.copy()
    for _ in range(60):
        missing = raw - projected(info, found)
        if np.abs(missing).max() < 1e-6:
            break
        found += missing
    else:
        raise AssertionError('no rectified pixels are found')
    maps = found.reshape(info.height, info.width, 2).astype(np.float32)
    return cv2.remap(ideal, maps, None, cv2.INTER_CUBIC)


def scene(width: int, height: int, disparity: float, seed: int = 5) -> list[np.ndarray]:
    """A rectified pair of one disparity, of texture that survives two interpolations."""
    noise = np.random.default_rng(seed).integers(0, 256, (height, width + 64), np.uint8)
    texture = cv2.normalize(cv2.GaussianBlur(noise, (0, 0), 1.3), None, 0, 255, cv2.NORM_MINMAX)
    y, x = np.mgrid[:height, :width].astype(np.float32)
    return [cv2.remap(texture, x + shift, y, cv2.INTER_CUBIC) for shift in (0, disparity)]
