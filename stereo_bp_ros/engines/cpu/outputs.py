"""Outputs of a frame: each a function of the finished disparity, and what ``downscale`` needs.

``docs/explanation/algorithms.md`` defines them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines import colors
from stereo_bp_ros.engines.cpu.matching import stopwatch
from stereo_bp_ros.engines.cpu.simd.parallel import parallel_kernel
from stereo_bp_ros.engines.cpu.simd.runtime import kernel
from stereo_bp_ros.engines.cpu.stages import convert
from stereo_bp_ros.engines.cpu.stages.refine import INVALID
from stereo_bp_ros.frame.disparity_frame import DERIVED
from stereo_bp_ros.images.raw_images import RawImage

#: Sixteenths of a reduced pixel by which neighbours on one surface may differ.
ONE_SURFACE = 16


class Finished(NamedTuple):
    """A frame that is matched and refined.

    disparity:   int16 H x W of the reference image as it came, neither mirrored nor reduced:
                 sixteenths of a pixel from ``min_disparity`` on, below 0 where invalid.
    min_disparity: pixels, of the images as they came.
    reference:   the reference image as it came.
    config:      that of the reduced images, with the live settings of the frame.
    calibration: None where none was given.
    scratch:     the arrays of ``scratch.convert``.
    """

    disparity: np.ndarray[Any, Any]
    min_disparity: int
    reference: RawImage
    config: ResolvedConfig
    calibration: Calibration | None
    scratch: Mapping[str, np.ndarray[Any, Any]]

    @property
    def shift(self) -> float:
        """Pixels that are subtracted from a disparity for its depth."""
        return self.calibration.shift if self.calibration is not None else 0.0

    @property
    def focal_baseline(self) -> float:
        """Depth times disparity: pixels x metres; 0 without a calibration."""
        calibration = self.calibration
        return calibration.focal_px * calibration.baseline_m if calibration is not None else 0.0


def fill(finished: Finished, outputs: Mapping[str, np.ndarray[Any, Any]],
         timings: dict[str, float]) -> None:
    """Compute what was asked for, whatever else there is in ``outputs``.

    :param timings: milliseconds by stage, which are added to.
    """
    for name, function in _FUNCTIONS.items():
        if name in outputs:
            with stopwatch(timings, name if name in DERIVED else 'refine'):
                function(finished, outputs[name])


def _disparity(finished: Finished, out: np.ndarray[Any, Any]) -> None:
    """Pixels, float32; min_disparity - shift - 1 where invalid."""
    shift = finished.shift if finished.config.pre_adjust_disparity else 0.0
    _write_disparity(len(out), finished.disparity, float(finished.min_disparity), shift, out)


def _depth(finished: Finished, out: np.ndarray[Any, Any]) -> None:
    """Metres along the optical axis, float32; NaN where invalid or not in front of the camera."""
    _write_depth(len(out), finished.disparity, float(finished.min_disparity), finished.shift,
                 finished.focal_baseline, out)


def _depth_mm(finished: Finished, out: np.ndarray[Any, Any]) -> None:
    """Millimetres, uint16; 0 where there is no depth or one beyond 65535."""
    _write_depth_mm(len(out), finished.disparity, float(finished.min_disparity), finished.shift,
                    1000.0 * finished.focal_baseline, out)


def _fixed_disparity(finished: Finished, out: np.ndarray[Any, Any]) -> None:
    """Sixteenths without the shift, int16; 16 (min_disparity - 1) where invalid."""
    _write_fixed_disparity(len(out), finished.disparity, np.int16(16 * finished.min_disparity),
                           out)


def _disparity_color(finished: Finished, out: np.ndarray[Any, Any]) -> None:
    """Blue, green and red of ``color_map``, uint8; black where invalid."""
    config = finished.config
    _write_colors(len(out), finished.disparity, 16 * (config.max_disparity - config.min_disparity),
                  colors.table(config.color_map), out)


def _points(finished: Finished, out: np.ndarray[Any, Any]) -> None:
    """x, y and z in metres in the optical frame of the reference camera, and a colour's bits.

    float32, of every ``points_decimation``-th row and column. x, y and z are NaN where invalid,
    not in front of the camera or out of the range of depth.
    """
    raw, config = finished.reference, finished.config
    if raw.layout.bayer:
        raw = RawImage.from_array(convert.one_channel(raw, finished.scratch))
    # Never writable, which would be another type to Numba.
    data = np.frombuffer(memoryview(raw.data).cast('B'), np.uint8)
    data.flags.writeable = False
    _write_points(len(out), finished.disparity, _Camera.of(finished), data,
                  _Pixels.of(raw, config.mono16_scale), config.points_decimation, out)


#: Each fills an array of the shape and type that ``OUTPUTS`` says.
_FUNCTIONS: Mapping[str, Callable[[Finished, np.ndarray[Any, Any]], None]] = {
    'disparity': _disparity,
    'depth': _depth,
    'fixed_disparity': _fixed_disparity,
    'depth_mm': _depth_mm,
    'disparity_color': _disparity_color,
    'points': _points,
}


# --- each pixel from its own disparity

@parallel_kernel
def _write_disparity(y: int, sixteenths: Any, first: float, shift: float, out: Any) -> None:
    # One rounding after the sum in float64, which is monotonic: no valid value falls below
    # float32(min_disparity - shift), the minimum value that is published.
    invalid = np.float32(first - shift - 1.0)
    row, values = sixteenths[y], out[y]
    for x in range(values.shape[0]):
        value = np.float32(first + row[x] * 0.0625 - shift)
        values[x] = invalid if row[x] < 0 else value


@parallel_kernel
def _write_depth(y: int, sixteenths: Any, first: float, shift: float, focal_baseline: float,
                 out: Any) -> None:
    row, values = sixteenths[y], out[y]
    for x in range(values.shape[0]):
        disparity = first + row[x] * 0.0625 - shift
        in_front = row[x] >= 0 and disparity > 0
        values[x] = np.float32(focal_baseline / disparity if in_front else math.nan)


@parallel_kernel
def _write_depth_mm(y: int, sixteenths: Any, first: float, shift: float, factor: float, out: Any
                    ) -> None:
    row, values = sixteenths[y], out[y]
    for x in range(values.shape[0]):
        disparity = first + row[x] * 0.0625 - shift
        in_front = row[x] >= 0 and disparity > 0
        rounded = factor / disparity + 0.5 if in_front else 0.0
        values[x] = np.uint16(rounded if rounded < 65536.0 else 0.0)


@parallel_kernel
def _write_fixed_disparity(y: int, sixteenths: Any, first: Any, out: Any) -> None:
    row, values = sixteenths[y], out[y]
    for x in range(values.shape[0]):
        value = np.int16(row[x] + first)
        values[x] = np.int16(first + np.int16(INVALID)) if row[x] < 0 else value


@parallel_kernel
def _write_colors(y: int, sixteenths: Any, last: int, table: Any, out: Any) -> None:
    row, values = sixteenths[y], out[y]
    for x in range(values.shape[0]):
        value = int(row[x])
        place = min((255 * value + last // 2) // last, 255)
        for channel in range(3):
            values[x, channel] = table[place, channel] if value >= 0 else np.uint8(0)


# --- points

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


@parallel_kernel
def _write_points(i: int, sixteenths: Any, camera: Any, data: Any, pixels: Any, decimation: int,
                  out: Any) -> None:
    y = i * decimation
    below = (y - camera.cy) * camera.per_row
    row = data[y * pixels.row_bytes:]
    if pixels.is_wide:
        _write_row_of_16_bits(sixteenths[y], camera, below, row, pixels, decimation, out[i])
    else:
        _write_row(sixteenths[y], camera, below, row, pixels, decimation, out[i])


@kernel
def _write_row(sixteenths: Any, camera: Any, below: float, row: Any, pixels: Any,
               decimation: int, out: Any) -> None:
    for j in range(out.shape[0]):
        x = j * decimation
        at = x * pixels.pixel_bytes
        colour = _pack(row[at + pixels.red], row[at + pixels.green], row[at + pixels.blue])
        _write_point(sixteenths[x], camera, x, below, colour, out[j])


@kernel
def _write_row_of_16_bits(sixteenths: Any, camera: Any, below: float, row: Any, pixels: Any,
                          decimation: int, out: Any) -> None:
    for j in range(out.shape[0]):
        x = j * decimation
        value = np.int32(row[2 * x + pixels.red]) << 8 | np.int32(row[2 * x + pixels.blue])
        grey = min(np.float32(value) * pixels.scale, np.float32(255))
        level = np.int32(grey + np.float32(0.5))
        _write_point(sixteenths[x], camera, x, below, _pack(level, level, level), out[j])


@kernel
def _pack(red: Any, green: Any, blue: Any) -> Any:
    packed = np.int32(red) << 16 | np.int32(green) << 8 | np.int32(blue)
    return np.int32(packed).view(np.float32)


@kernel
def _write_point(sixteenths: Any, camera: Any, x: int, below: float, colour: Any, point: Any
                 ) -> None:
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


# --- from reduced images back to the size of the images

@parallel_kernel
def enlarge_disparities(y: int, reduced: Any, factor: int, out: Any) -> None:
    """Bilinear within a surface, the nearest across its borders, in sixteenths of a pixel.

    A pixel is valid where the nearest reduced pixel is. Of the four around it, those that are
    invalid or differ from the nearest by more than a reduced pixel count as the nearest.

    :param reduced: int16 h x w, sixteenths of a reduced pixel from the minimum disparity on.
    :param factor: pixels of the image for each reduced one.
    :param out: int16 H x W, filled: ``factor`` times as much, rounded half up.
    """
    height, width = reduced.shape
    # The centre of a pixel lies between those of two reduced ones, in parts of 2 factor.
    place = 2 * y + 1 - factor
    upper = place // (2 * factor)
    lower_weight = np.float32(place - 2 * factor * upper)
    own = reduced[min(y // factor, height - 1)]
    above = reduced[min(max(upper, 0), height - 1)]
    below = reduced[min(upper + 1, height - 1)]
    columns = np.empty((factor, width), np.int16)
    for i in range(factor):
        place = 2 * i + 1 - factor
        before = 1 if place < 0 else 0
        _enlarge_row(own, above, below, before, np.float32(place + 2 * factor * before),
                     lower_weight, np.float32(2 * factor), columns[i])
    _interleave(columns, out[y])


@kernel
def _enlarge_row(own: Any, above: Any, below: Any, before: int, right_weight: Any,
                 lower_weight: Any, whole: Any, out: Any) -> None:
    """For each reduced pixel, what lies between it and the one ``before``, or the next one."""
    count = own.shape[0] - 1
    end = 0 if before else count
    inner, of_inner = out[before:before + count], own[before:before + count]
    for x in range(count):
        inner[x] = _between(of_inner[x], above[x], above[x + 1], below[x], below[x + 1],
                            right_weight, lower_weight, whole)
    out[end] = _between(own[end], above[end], above[end], below[end], below[end], right_weight,
                        lower_weight, whole)


@kernel
def _between(own: Any, above_left: Any, above_right: Any, below_left: Any, below_right: Any,
             right_weight: Any, lower_weight: Any, whole: Any) -> Any:
    # Whole numbers below 2^23: float32 is exact, and no quotient is rounded up to the next one.
    upper = ((whole - right_weight) * _same_surface(above_left, own)
             + right_weight * _same_surface(above_right, own))
    lower = ((whole - right_weight) * _same_surface(below_left, own)
             + right_weight * _same_surface(below_right, own))
    total = (whole - lower_weight) * upper + lower_weight * lower
    value = np.int16(np.int32((total + whole) / (whole + whole)))
    return np.int16(INVALID) if own < 0 else value


@kernel
def _same_surface(value: Any, own: Any) -> Any:
    is_other = (value < 0) | (abs(np.int32(np.int32(value) - np.int32(own))) > ONE_SURFACE)
    return np.float32(own if is_other else value)


@kernel
def _interleave(columns: Any, out: Any) -> None:
    """A row from every ``factor``-th pixel of it; what remains is as the last one."""
    factor, width = columns.shape
    whole = min(width, out.shape[0] // factor)
    if factor == 2:         # a stride that is known becomes vectors
        first, second = columns[0], columns[1]
        for x in range(whole):
            out[2 * x] = first[x]
            out[2 * x + 1] = second[x]
    else:
        for x in range(whole):
            for i in range(factor):
                out[factor * x + i] = columns[i, x]
    for x in range(factor * whole, out.shape[0]):
        is_inside = x < factor * width
        out[x] = columns[x - factor * whole if is_inside else factor - 1, min(whole, width - 1)]


@parallel_kernel
def enlarge_confidences(y: int, reduced: Any, factor: int, out: Any) -> None:
    """Of the nearest reduced pixel, float32."""
    height, width = reduced.shape
    row, values = reduced[min(y // factor, height - 1)], out[y]
    for x in range(values.shape[0]):
        values[x] = row[min(x // factor, width - 1)]


@parallel_kernel
def fill_levels(y: int, grey: Any, factor: int, is_mirrored: bool, out: Any) -> None:
    """The grey values that are matched, as large as the images: what points have as colors.

    :param grey: float32 h x w, in the frame of matching.
    :param factor: pixels of the image for each of ``grey``.
    :param out: uint8 H x W, filled: rounded half up, at most 255.
    """
    height, width = grey.shape
    row = grey[min(y // factor, height - 1)]
    for x in range(out.shape[1]):
        column = min(x // factor, width - 1)
        value = row[width - 1 - column if is_mirrored else column]
        out[y, x] = np.uint8(np.int32(min(value, np.float32(255)) + np.float32(0.5)))
