"""Points in space and their colours, each from its own disparity and pixel."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numba
import numpy as np

from stereo_bp_ros.engines.cpu.outputs.finished import Finished
from stereo_bp_ros.engines.cpu.simd.runtime import kernel, parallel_kernel
from stereo_bp_ros.engines.cpu.stages import convert
from stereo_bp_ros.images import RawImage


def points(finished: Finished, out: np.ndarray[Any, Any]) -> None:
    """x, y and z in metres in the optical frame of the reference camera, and a colour's bits.

    ``docs/explanation/algorithms.md`` defines all four. x, y and z are NaN where invalid, not in
    front of the camera or out of the range of depth.

    :param out: float32 H x W x 4, of every ``points_decimation``-th row and column; filled.
    """
    raw = finished.reference
    if raw.layout.bayer:
        raw = RawImage.from_array(convert.one_channel(raw, finished.scratch))
    _points(finished.disparity, _Camera.of(finished), _data(raw),
            _Pixels.of(raw, finished.config.mono16_scale), finished.config.points_decimation, out)


class _Camera(NamedTuple):
    """From sixteenths of a disparity to places in front of the reference camera.

    per_column, per_row: reciprocals of the focal lengths in pixels; shift: of disparities;
    focal_baseline: pixels x metres; nearest, farthest: metres.
    """

    min_disparity: float
    shift: float
    focal_baseline: float
    cx: float
    cy: float
    per_column: float
    per_row: float
    nearest: float
    farthest: float

    @classmethod
    def of(cls, finished: Finished) -> _Camera:
        config, calibration = finished.config, finished.calibration
        if calibration is None:
            raise ValueError('points need a calibration')
        is_left = config.reference_image == 'left'
        return cls(float(finished.min_disparity), finished.shift,
                   finished.focal_baseline,
                   calibration.cx_left if is_left else calibration.cx_right, calibration.cy,
                   1 / calibration.focal_px, 1 / calibration.focal_y_px,
                   config.points_min_depth, config.points_max_depth or math.inf)


class _Pixels(NamedTuple):
    """How the colour of a pixel is read.

    row_bytes, pixel_bytes: from one to the next; red, green, blue: numbers of a pixel's bytes,
    all the same of grey values; of 16 bits ``red`` is the more significant byte, ``blue`` the
    other one, and ``scale`` the factor to 0..255.
    """

    row_bytes: int
    pixel_bytes: int
    red: int
    green: int
    blue: int
    is_wide: bool
    scale: np.float32

    @classmethod
    def of(cls, raw: RawImage, scale: float) -> _Pixels:
        layout = raw.layout
        first = max(0, layout.luma)
        order = (first, first, first)
        if layout.has_colours:
            order = (0, 1, 2) if raw.encoding.startswith('rgb') else (2, 1, 0)
        elif layout.bits == 16:
            order = (0, 0, 1) if raw.big_endian else (1, 1, 0)
        return cls(raw.step, layout.pixel_bytes, *order, layout.bits == 16, np.float32(scale))


def _data(raw: RawImage) -> np.ndarray[Any, Any]:
    """The bytes of an image, never writable, which would be another type to Numba."""
    data = np.frombuffer(memoryview(raw.data).cast('B'), np.uint8)
    data.flags.writeable = False
    return data


@parallel_kernel
def _points(sixteenths: Any, camera: Any, data: Any, pixels: Any, decimation: int, out: Any
            ) -> None:
    for i in numba.prange(out.shape[0]):
        y = i * decimation
        below = (y - camera.cy) * camera.per_row
        row = data[y * pixels.row_bytes:]
        if pixels.is_wide:
            _row_of_16_bits(sixteenths[y], camera, below, row, pixels, decimation, out[i])
        else:
            _row(sixteenths[y], camera, below, row, pixels, decimation, out[i])


@kernel
def _row(sixteenths: Any, camera: Any, below: float, row: Any, pixels: Any, decimation: int,
         out: Any) -> None:
    for j in range(out.shape[0]):
        x = j * decimation
        at = x * pixels.pixel_bytes
        colour = _packed(row[at + pixels.red], row[at + pixels.green], row[at + pixels.blue])
        _write(sixteenths[x], camera, x, below, colour, out[j])


@kernel
def _row_of_16_bits(sixteenths: Any, camera: Any, below: float, row: Any, pixels: Any,
                    decimation: int, out: Any) -> None:
    for j in range(out.shape[0]):
        x = j * decimation
        value = np.int32(row[2 * x + pixels.red]) << 8 | np.int32(row[2 * x + pixels.blue])
        grey = min(np.float32(value) * pixels.scale, np.float32(255))
        level = np.int32(grey + np.float32(0.5))
        _write(sixteenths[x], camera, x, below, _packed(level, level, level), out[j])


@kernel
def _packed(red: Any, green: Any, blue: Any) -> Any:
    packed = np.int32(red) << 16 | np.int32(green) << 8 | np.int32(blue)
    return np.int32(packed).view(np.float32)


@kernel
def _write(sixteenths: Any, camera: Any, x: int, below: float, colour: Any, point: Any) -> None:
    disparity = camera.min_disparity + sixteenths * 0.0625 - camera.shift
    depth = camera.focal_baseline / disparity
    # ``&``, not ``and``: without branches LLVM makes vectors of the loop.
    is_there = ((sixteenths >= 0) & (disparity > 0)
                & (camera.nearest <= depth) & (depth <= camera.farthest))
    depth = depth if is_there else math.nan
    point[0] = np.float32((x - camera.cx) * camera.per_column * depth)
    point[1] = np.float32(below * depth)
    point[2] = np.float32(depth)
    point[3] = colour
