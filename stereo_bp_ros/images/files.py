"""Reading and writing of the field's files: PFM, disparity PNG, images and masks.

Every reader raises ValueError with a sentence that names the file and what is wrong with it.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from stereo_bp_ros.images import encoded_images
from stereo_bp_ros.system import atomic_files, bounded
from stereo_bp_ros.system.atomic_files import PathLike
from stereo_bp_ros.system.bounded import MAX_BYTES, MAX_PIXELS, MAX_TEXT_BYTES, check_limit

#: Grey levels per pixel of disparity in a 16-bit disparity PNG of KITTI.
KITTI_SCALE = 256.0

MAX_SIDE = 1 << 16

#: Image files that are read; each has its size in front of its pixels.
FORMATS = ('PNG', 'JPEG', 'TIFF', 'BMP', 'Netpbm')


def read_bytes(path: PathLike, what: str, limit: int = MAX_BYTES) -> bytes:
    """Read a regular file of at most ``limit`` bytes; errors name it as ``what``."""
    try:
        return bounded.read_bytes(path, limit)
    except ValueError as error:
        raise ValueError(f'{what} {path} {error}') from error


def read_text(path: PathLike, what: str) -> str:
    """Read a text file in UTF-8, with or without a byte order mark; errors name it as ``what``."""
    try:
        return read_bytes(path, what, MAX_TEXT_BYTES).decode('utf-8-sig')
    except UnicodeDecodeError as error:
        raise ValueError(f'{what} {path} is not a text file') from error


def read_image(path: PathLike) -> np.ndarray:
    """Read an image as a matcher takes it.

    Returns uint8 H x W (mono8), uint16 H x W (mono16) or uint8 H x W x 3 (rgb8; an alpha channel
    is left out).
    """
    image = _decoded(path, 'image')
    if image.ndim == 2 and image.dtype in (np.uint8, np.uint16):
        return image
    if image.ndim == 3 and image.dtype == np.uint8 and image.shape[2] in (3, 4):
        code = cv2.COLOR_BGR2RGB if image.shape[2] == 3 else cv2.COLOR_BGRA2RGB
        return np.asarray(cv2.cvtColor(image, code))
    channels = 1 if image.ndim == 2 else image.shape[2]
    raise ValueError(f'image {path} has {channels} channels of {image.dtype}: grey with 8 or 16 '
                     'bits and colour with 8 bits can be used')


def _decoded(path: PathLike, what: str) -> np.ndarray:
    return decode(read_bytes(path, what), f'{what} {path}')


def decode(encoded: Any, what: str) -> np.ndarray:
    """The pixels, H x W or H x W x C in the order of OpenCV, of an image file's bytes.

    :raises ValueError: it is no image of ``FORMATS``, or too large; ``what`` names it.
    """
    def check_size(width: int, height: int) -> None:
        check_limit(width * height, MAX_PIXELS, f'pixels ({width} x {height})')
    try:
        image = encoded_images.decode(bytes(encoded), FORMATS, check_size)
    except ValueError as error:
        raise ValueError(f'{what} cannot be read: {error}') from error
    # Some versions of OpenCV keep a third axis of length 1.
    return np.asarray(image[:, :, 0] if image.ndim == 3 and image.shape[2] == 1 else image)


def write_image(path: PathLike, image: np.ndarray) -> None:
    """Write uint8 or uint16 H x W, or uint8 H x W x 3 (BGR), in the format of the path's suffix.

    :raises ValueError: unknown suffix, or the file cannot be written.
    """
    suffix = Path(path).suffix
    try:
        done, data = cv2.imencode(suffix, image)
    except cv2.error as error:
        raise ValueError(f'image {path} cannot be written: {suffix or "no suffix"} is no image '
                         f'format for an array {image.shape} of {image.dtype}') from error
    if not done:
        raise ValueError(f'image {path} cannot be encoded as {suffix}')
    atomic_files.write_bytes(path, data.tobytes())


def read_pfm(path: PathLike) -> np.ndarray:
    """Read a portable float map: float32 H x W, top row first (files hold the bottom row first).

    Middlebury writes infinity where the disparity is unknown; values are not changed.
    """
    data = read_bytes(path, 'PFM file')
    header = re.match(rb'(P[fF])\s+(\d{1,9})\s+(\d{1,9})\s+([-+.\deE]+)[ \t\r]*\n', data)
    if header is None:
        raise ValueError(f'PFM file {path} does not begin with "Pf", width, height and scale')
    if header[1] == b'PF':
        raise ValueError(f'PFM file {path} has three channels: a disparity map has one')
    width, height = int(header[2]), int(header[3])
    if not width * height:
        raise ValueError(f'PFM file {path} says that it is {width} x {height} pixels')
    try:
        check_limit(width * height, MAX_PIXELS, f'pixels ({width} x {height})')
    except ValueError as error:
        raise ValueError(f'PFM file {path}: {error}') from error
    try:
        scale = float(header[4])
    except ValueError as error:
        raise ValueError(f'PFM file {path} has the scale {header[4].decode()}') from error
    available, needed = len(data) - header.end(), 4 * width * height
    if available < needed:
        raise ValueError(f'PFM file {path} ends early: {available} bytes of {needed} for '
                         f'{width} x {height} pixels')
    # The sign of the scale is the byte order; below 0 is little endian.
    values = np.frombuffer(data, '<f4' if scale < 0 else '>f4', width * height, header.end())
    return np.ascontiguousarray(values.reshape(height, width)[::-1], dtype=np.float32)


def write_pfm(path: PathLike, disparity: np.ndarray) -> None:
    """Write H x W as a little-endian float32 portable float map; NaN and infinity are kept.

    :raises ValueError: not two-dimensional or empty, or the file cannot be written.
    """
    if disparity.ndim != 2 or disparity.size == 0:
        raise ValueError(f'PFM file {path}: shape {disparity.shape} is not H x W')
    height, width = disparity.shape
    body = np.ascontiguousarray(disparity[::-1], dtype='<f4').tobytes()
    atomic_files.write_bytes(path, b'Pf\n%d %d\n-1.0\n' % (width, height) + body)


def read_disparity_png(path: PathLike, scale: float | None = None) -> np.ndarray:
    """Read a disparity map stored as grey levels: float32 H x W, pixels, NaN where unknown (0).

    `scale` is the number of grey levels per pixel of disparity. None takes 256 for 16 bits, as
    KITTI has it; every set with 8 bits has a scale of its own, which must be given.

    :raises ValueError: no such file, not a grey image with 8 or 16 bits, a scale <= 0, or none
        for 8 bits.
    """
    if scale is not None and not 0 < scale < math.inf:
        raise ValueError(f'the scale of disparity image {path} is {scale}, but must be above 0')
    levels = _decoded(path, 'disparity image')
    if levels.ndim != 2 or levels.dtype not in (np.uint8, np.uint16):
        raise ValueError(f'disparity image {path} is not grey with 8 or 16 bits')
    if scale is None and levels.dtype == np.uint8:
        raise ValueError(f'disparity image {path} has 8 bits, and nothing says how many of its '
                         'grey levels are a pixel of disparity: say it with disparity_scale in '
                         'sets.yaml, or match --truth-scale')
    scale = KITTI_SCALE if scale is None else scale
    disparity = levels.astype(np.float32) / np.float32(scale)
    disparity[levels == 0] = np.nan
    return np.asarray(disparity)


def read_mask(path: PathLike) -> np.ndarray:
    """Read a mask stored as a grey image: bool H x W, True where it is not 0."""
    return np.asarray(read_grey(path) != 0)


def read_grey(path: PathLike) -> np.ndarray:
    """Read the levels of a grey mask or depth, unchanged: uint8 or uint16 H x W."""
    levels = _decoded(path, 'mask')
    if levels.ndim != 2:
        raise ValueError(f'mask {path} is not grey')
    return levels


def write_disparity_png(path: PathLike, disparity: np.ndarray) -> None:
    """Write a disparity map as a 16-bit PNG: 1/256 pixel, 0 where unknown.

    Unknown are pixels that are not finite or less than 0. A known disparity that would round to 0
    is stored as 1, as 0 has its meaning.

    :raises ValueError: a disparity does not fit 16 bits, or the file cannot be written.
    """
    if disparity.ndim != 2 or disparity.size == 0:
        raise ValueError(f'disparity image {path}: shape {disparity.shape} is not H x W')
    known = np.isfinite(disparity)
    known &= np.where(known, disparity, -1) >= 0
    levels = np.rint(np.where(known, disparity, 0).astype(np.float64) * KITTI_SCALE)
    if levels.max() > 65535:
        raise ValueError(f'disparity image {path}: {levels.max() / KITTI_SCALE:g} pixels do not '
                         f'fit 16 bits with {KITTI_SCALE:g} levels per pixel; PFM holds any')
    done, data = cv2.imencode('.png', np.where(known, np.maximum(levels, 1), 0).astype(np.uint16))
    if not done:
        raise ValueError(f'disparity image {path} cannot be encoded as PNG')
    atomic_files.write_bytes(path, data.tobytes())
