"""Outputs of a frame as files: ``match`` and ``DisparityFrame.save`` write them alike."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from stereo_bp_ros.images import files
from stereo_bp_ros.system import atomic_files
from stereo_bp_ros.system.atomic_files import PathLike

#: Endings of names by the output of a frame that such files hold.
ENDINGS: Mapping[str, tuple[str, ...]] = {
    'disparity': ('.pfm', '.png', '.tiff', '.tif', '.npy'),
    'depth': ('.pfm', '.png', '.tiff', '.tif', '.npy'),
    'confidence': ('.pfm', '.png', '.tiff', '.tif', '.npy'),
    'points': ('.ply', '.pcd'),
    'fixed_disparity': ('.npy',),
    'depth_mm': ('.png', '.npy'),
    'disparity_color': ('.png', '.npy')}

#: Grey levels of a 16-bit PNG: of a metre of depth, and of a confidence of 1.
LEVELS_PER_METRE, LEVELS_OF_ONE = 1000.0, 65535.0


def output_of(path: PathLike) -> str:
    """The output that a file holds where nothing but its name says it."""
    return 'points' if Path(path).suffix.lower() in ENDINGS['points'] else 'disparity'


def check_ending(path: PathLike, output: str) -> None:
    """Reject a name that no file of an output may have.

    :param output: one of ``ENDINGS``.
    :raises ValueError: names the endings.
    """
    endings = ENDINGS[output]
    if Path(path).suffix.lower() not in endings:
        *others, last = endings
        raise ValueError(f'{path}: the name of a file of {output} must end in '
                         + (f'{", ".join(others)} or {last}' if others else last))


def write(path: PathLike, output: str, values: np.ndarray) -> None:
    """Write an output of a frame in the format that the ending of the name says.

    :param values: as of ``DisparityFrame``; a disparity is NaN where it is invalid.
    :raises ValueError: there is no such format, or the file cannot be written.
    """
    check_ending(path, output)
    suffix = Path(path).suffix.lower()
    if output == 'points':
        _write_cloud(path, suffix, *cloud(values))
    elif suffix == '.npy':
        buffer = io.BytesIO()
        np.save(buffer, values)
        atomic_files.write_bytes(path, buffer.getvalue())
    elif suffix == '.pfm':
        # Middlebury's sign of an unknown disparity.
        unknown = np.inf if output == 'disparity' else np.nan
        files.write_pfm(path, np.where(np.isnan(values), np.float32(unknown), values))
    elif suffix == '.png' and output == 'disparity':
        files.write_disparity_png(path, values)
    else:
        if suffix == '.png' and output == 'depth':
            values = _levels(values, LEVELS_PER_METRE)
        elif suffix == '.png' and output == 'confidence':
            values = _levels(values, LEVELS_OF_ONE)
        files.write_image(path, values)


def _levels(values: np.ndarray, scale: float) -> np.ndarray:
    """Values times a scale as uint16; 0 where they are unknown, or 16 bits do not hold them."""
    levels = np.floor(np.nan_to_num(values.astype(np.float64) * scale, nan=0, posinf=0) + 0.5)
    return np.where((levels >= 0) & (levels <= 65535), levels, 0).astype(np.uint16)


def cloud(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The points that are known, of a frame's ``points``.

    :returns: float32 N x 3, metres; uint32 N, red << 16 | green << 8 | blue.
    """
    known = points[np.isfinite(points[..., 2])]
    return known[:, :3], np.ascontiguousarray(known[:, 3]).view(np.uint32)


def colours(bits: np.ndarray) -> np.ndarray:
    """uint8 N x 3, red, green and blue, of the bits of colours."""
    return np.stack([(bits >> shift) & 255 for shift in (16, 8, 0)], -1).astype(np.uint8)


def _write_cloud(path: PathLike, suffix: str, xyz: np.ndarray, bits: np.ndarray) -> None:
    """Binary, little endian: PLY, or PCD 0.7 of the Point Cloud Library."""
    xyz = xyz.astype('<f4')
    if suffix == '.ply':
        header = ['ply', 'format binary_little_endian 1.0',
                  'comment metres: x right, y down, z forward', f'element vertex {len(xyz)}',
                  *(f'property float {name}' for name in 'xyz'),
                  *(f'property uchar {name}' for name in ('red', 'green', 'blue')), 'end_header']
        rows = np.rec.fromarrays([xyz, colours(bits)], dtype=[('xyz', '<f4', 3), ('rgb', 'u1', 3)])
    else:
        header = ['# .PCD v0.7 - metres: x right, y down, z forward', 'VERSION 0.7',
                  'FIELDS x y z rgb', 'SIZE 4 4 4 4', 'TYPE F F F U', 'COUNT 1 1 1 1',
                  f'WIDTH {len(xyz)}', 'HEIGHT 1', 'VIEWPOINT 0 0 0 1 0 0 0',
                  f'POINTS {len(xyz)}', 'DATA binary']
        rows = np.rec.fromarrays([xyz, bits], dtype=[('xyz', '<f4', 3), ('rgb', '<u4')])
    atomic_files.write_bytes(path, '\n'.join([*header, '']).encode() + rows.tobytes())
