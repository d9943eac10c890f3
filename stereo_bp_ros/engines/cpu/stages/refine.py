"""Stage ``refine``: from labels to the finished disparity and its confidence.

``docs/explanation/algorithms.md`` defines every step.

Between the steps an image of int16 sixteenths of a pixel relative to min_disparity: 0 to
16 (D - 1), or ``INVALID``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

import cv2
import numpy as np

from stereo_bp_ros.config import quantisation
from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines import geometry
from stereo_bp_ros.engines.cpu.memory import Matches
from stereo_bp_ros.engines.cpu.simd.parallel import parallel_kernel
from stereo_bp_ros.engines.cpu.simd.runtime import kernel
from stereo_bp_ros.engines.cpu.stages import bilateral, confidence, filling, planes, preprocess
from stereo_bp_ros.engines.plan import needs_confidence

#: Sixteenths of an invalid pixel: one pixel below the minimum disparity.
INVALID = -16


def needs(config: ResolvedConfig, outputs: Collection[str]) -> tuple[bool, bool]:
    """Which of ``Matches`` these settings and outputs call for: with_costs, with_right."""
    return (config.uniqueness_ratio > 0 or needs_confidence(config, outputs),
            config.disp12_max_diff > 0)


def refine(matches: Matches, grey: np.ndarray[Any, Any], smoothed: np.ndarray[Any, Any],
           config: ResolvedConfig, scratch: Mapping[str, np.ndarray[Any, Any]],
           confidences: np.ndarray[Any, Any] | None = None, largest_cost: float = 1.0) -> None:
    """Reject, filter, fill and smooth, in this order, into ``final`` of ``scratch``.

    Inputs are in the frame of matching: with ``reference_image: right`` everything is mirrored
    in x, and is mirrored back at the end.

    1. Uniqueness. SAD, as OpenCV's StereoBM: rejected where
       ``100 second <= (100 + ratio) best``. BP: where
       ``second - best < ratio / 100 * largest_cost``. Both in float64.
    2. Texture: rejected where the sum of ``|sobel_x|`` (clipped and scaled as in preprocessing)
       over the ``correlation_window_size`` window, borders replicated, is less than
       ``texture_threshold``.
    3. Left-right check: rejected where the other image's pixel at the integer disparity is
       outside, has no label, or one that differs by more than ``disp12_max_diff``. With
       multi-feature costs always where it is outside, unless ``border`` is keep.
    4. Median, then speckle removal. A rejected pixel takes part in the median as a value below
       all others and may get a value by it; a pixel without label, or outside the valid window
       (unless ``border`` is keep), never does.
    5. Filling of invalid pixels inside the valid window from the background side
       (``filling.fill``), and the confidence (``confidence.judge``), which what was filled has
       none of: 0.
    6. With filling ``plane`` planes where the confidence is low (``planes.fill``).
    7. A bilateral filter of the filled map. Without filling only valid pixels leave.
    8. Without filling: rejected where the confidence is below ``confidence_threshold``, or where
       a 7 x 7 window that has the pixel, a bright one, has grey values in a range of less than
       ``contrast_threshold``.

    :param matches: with what ``needs`` says.
    :param grey: float32 H x W, the reference image; ``smoothed``: after the Gaussian.
    :param scratch: the arrays of ``scratch.refine``; ``final``, int16 H x W, is filled with
        sixteenths of a pixel from min_disparity on, ``INVALID`` where invalid.
    :param confidences: float32 H x W, filled where given: confidence in [0, 1], 0 where invalid.
        The lead that it begins with is for SAD ``(second - best) / max(second, 1)``, for BP
        ``(second - best) / largest_cost``, and 1 where there is no second.
    :param largest_cost: largest data cost of a pixel in the units of ``best`` (BP only).
    """
    keep = config.border == 'keep'
    height, width = matches.label.shape
    window = geometry.matched_window(config, width, height)
    bounds = (window.x_offset, window.x_offset + window.width, window.y_offset,
              window.y_offset + window.height)

    if config.texture_threshold > 0:
        _texture(smoothed, config, scratch['plane_a'], scratch['plane_b'])
    sixteenths = scratch['sixteenths']
    _reject(height, matches, scratch['plane_b'], *bounds, keep, config.subpixel,
            config.uniqueness_ratio > 0, *_uniqueness(config, largest_cost),
            float(config.texture_threshold), config.disp12_max_diff,
            config.has_combined_cost and not keep, config.min_disparity, sixteenths)
    if config.median_window_size:
        cv2.medianBlur(sixteenths, config.median_window_size, dst=scratch['sixteenths_median'])
        sixteenths = scratch['sixteenths_median']
        _clear(matches.label, *bounds, keep, sixteenths)
    if config.speckle_size:
        cv2.filterSpeckles(sixteenths, INVALID, config.speckle_size, 16 * config.speckle_range,
                           scratch['speckle_buffer'])

    filled, trusted = sixteenths, scratch['confidence']
    fills = config.filling != 'none'
    is_judged = needs_confidence(config, () if confidences is None else ('confidence',))
    if fills or config.bilateral_passes or is_judged:
        filled = scratch['filled']
        filling.fill(height, sixteenths, *bounds, filled)
    if is_judged:
        confidence.judge(sixteenths, filled, matches.best, matches.second,
                         config.stereo_algorithm == 'sad', float(largest_cost), trusted,
                         scratch['speckle_buffer'])
    if config.filling == 'plane':
        planes.fill(-(-height // planes.CELL), sixteenths, trusted, grey, *bounds,
                    quantisation.plane_threshold(config), 16 * (config.disparity_range - 1),
                    filled)
    if config.bilateral_passes:
        _smooth(filled, config, scratch)
    contrast = scratch['plane_b']
    if config.contrast_threshold > 0:
        preprocess.contrast(smoothed, contrast, scratch['plane_a'])
    _finish(height, sixteenths, filled, not fills, trusted, float(config.confidence_threshold),
            contrast, float(config.contrast_threshold), config.reference_image == 'right',
            confidences is not None, trusted if confidences is None else confidences,
            scratch['final'])


def _uniqueness(config: ResolvedConfig, largest_cost: float) -> tuple[float, float, float]:
    """Factors on second and best, and the margin: rejected where the lead is at most this."""
    if config.stereo_algorithm == 'sad':
        return 100.0, 100.0 + config.uniqueness_ratio, 0.0
    margin = config.uniqueness_ratio / 100 * largest_cost
    return 1.0, 1.0, math.nextafter(margin, -math.inf)      # less than the margin itself


def _texture(grey: np.ndarray[Any, Any], config: ResolvedConfig,
             derivative: np.ndarray[Any, Any], texture: np.ndarray[Any, Any]) -> None:
    preprocess.sobel_x(grey, config, derivative)
    np.abs(derivative, out=derivative)
    side = config.correlation_window_size
    cv2.boxFilter(derivative, -1, (side, side), dst=texture, normalize=False,
                  borderType=cv2.BORDER_REPLICATE)


def _smooth(filled: np.ndarray[Any, Any], config: ResolvedConfig,
            scratch: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """The bilateral filter, in place."""
    factors = bilateral.factors(quantisation.bilateral_factor(config))
    values, smoothed = filled.view(np.uint16), scratch['smoothed'].view(np.uint16)
    for _ in range(config.bilateral_passes):
        bilateral.along_rows(len(values), values, *factors, smoothed)
        bilateral.along_columns(len(values), smoothed, *factors, values)


@parallel_kernel
def _reject(y: int, matches: Any, texture: Any, x_begin: int, x_end: int, y_begin: int, y_end: int,
            keep: bool, subpixel: bool, unique: bool, second_factor: float, best_factor: float,
            margin: float, texture_threshold: float, max_difference: int, needs_partner: bool,
            first: int, out: Any) -> None:
    row, label = out[y], matches.label[y]
    _to_sixteenths(label, matches.fraction[y], subpixel, row)
    if not keep:
        _clear_outside(row, x_begin, x_end, y_begin <= y < y_end)
    if unique:
        _reject_ambiguous(matches.best[y], matches.second[y], second_factor, best_factor,
                          margin, row)
    if texture_threshold > 0:
        _reject_less(texture[y], texture_threshold, row)
    if needs_partner:
        _reject_outside(label, first, row)
    if max_difference > 0:
        _reject_inconsistent(label, matches.right_label[y], max_difference, first, row)


@kernel
def _to_sixteenths(label: Any, fraction: Any, subpixel: bool, out: Any) -> None:
    share = np.int16(1 if subpixel else 0)
    for x in range(out.shape[0]):
        value = np.int16(np.int16(label[x] << 4) + np.int16(np.int16(fraction[x]) * share))
        out[x] = np.int16(INVALID) if label[x] < 0 else value


@kernel
def _clear_outside(row: Any, x_begin: int, x_end: int, inside: bool) -> None:
    if inside:
        row[:x_begin] = INVALID
        row[x_end:] = INVALID
    else:
        row[:] = INVALID


@kernel
def _reject_ambiguous(best: Any, second: Any, second_factor: float, best_factor: float,
                      margin: float, out: Any) -> None:
    for x in range(out.shape[0]):
        lead = second_factor * np.float64(second[x]) - best_factor * np.float64(best[x])
        out[x] = np.int16(INVALID) if lead <= margin else out[x]


@kernel
def _reject_less(values: Any, least: float, out: Any) -> None:
    for x in range(out.shape[0]):
        out[x] = np.int16(INVALID) if np.float64(values[x]) < least else out[x]


@kernel
def _reject_outside(label: Any, first: int, out: Any) -> None:
    width = out.shape[0]
    for x in range(width):
        right_x = x - first - label[x]
        out[x] = out[x] if 0 <= right_x < width else np.int16(INVALID)


@kernel
def _reject_inconsistent(label: Any, right_label: Any, max_difference: int, first: int,
                         out: Any) -> None:
    width = out.shape[0]
    for x in range(width):
        if out[x] < 0:
            continue
        right_x = x - first - label[x]
        if right_x < 0 or right_x >= width:
            out[x] = INVALID
        else:
            other = right_label[right_x]
            if other < 0 or abs(label[x] - other) > max_difference:
                out[x] = INVALID


@kernel
def _clear(label: Any, x_begin: int, x_end: int, y_begin: int, y_end: int, keep: bool,
           sixteenths: Any) -> None:
    for y in range(label.shape[0]):
        _reject_invalid(label[y], sixteenths[y])
        if not keep:
            _clear_outside(sixteenths[y], x_begin, x_end, y_begin <= y < y_end)


@kernel
def _reject_invalid(values: Any, out: Any) -> None:
    for x in range(out.shape[0]):
        out[x] = np.int16(INVALID) if values[x] < 0 else out[x]


@parallel_kernel
def _finish(y: int, sixteenths: Any, filled: Any, drops: bool, trusted: Any,
            least_confidence: float, contrast: Any, least_contrast: float, mirrored: bool,
            with_confidence: bool, confidences: Any, final: Any) -> None:
    row = final[y]
    row[:] = filled[y]
    if drops:
        _reject_invalid(sixteenths[y], row)
        if least_confidence > 0:
            _reject_less(trusted[y], least_confidence, row)
        if least_contrast > 0:
            _reject_less(contrast[y], least_contrast, row)
    if with_confidence:
        _confidence(sixteenths[y], row, trusted[y], confidences[y])
        if mirrored:
            _mirror(confidences[y])
    if mirrored:
        _mirror(row)


@kernel
def _confidence(row: Any, published: Any, trusted: Any, out: Any) -> None:
    for x in range(out.shape[0]):
        is_none = row[x] < 0 or published[x] < 0
        out[x] = np.float32(0.0) if is_none else trusted[x]


@kernel
def _mirror(row: Any) -> None:
    width = row.shape[0]
    for x in range(width // 2):
        row[x], row[width - 1 - x] = row[width - 1 - x], row[x]
