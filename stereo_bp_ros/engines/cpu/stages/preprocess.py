"""From grey values to the image that is matched: reduction, and the stage ``preprocess``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import cv2
import numpy as np

from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.config.quantisation import SIGNED_OFFSET
from stereo_bp_ros.engines.cpu.simd.parallel import parallel_kernel
from stereo_bp_ros.engines.cpu.simd.runtime import kernel

#: Side of the windows of ``contrast_threshold``, pixels.
CONTRAST_SIDE = 7

#: Grey value from which on contrast is asked for: a plain sky is brighter. Instead of the range
#: of darker pixels.
BRIGHT, UNASKED = np.float32(128), np.float32(3e38)


def preprocess(grey: np.ndarray[Any, Any], config: ResolvedConfig,
               smoothed: np.ndarray[Any, Any], matched: np.ndarray[Any, Any],
               scratch: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Gaussian, then the configured method; borders replicated.

    ``docs/explanation/algorithms.md`` defines both.

    :param grey: float32 H x W, grey values 0..255.
    :param smoothed: float32 H x W, filled with the image after the Gaussian. Without a Gaussian
        (``smoothing_sigma`` 0) it may be ``grey`` itself, which saves the copy.
    :param matched: float32 H x W, filled with the image that is matched; not ``smoothed``.
    :param scratch: ``plane_a`` float32 H x W (sobel and residual only).
    """
    smooth(grey, config.smoothing_sigma, smoothed)
    if config.preprocessing == 'none':
        np.copyto(matched, smoothed)
    elif config.preprocessing == 'sobel_x':
        sobel_x(smoothed, config, matched)
    elif config.preprocessing == 'sobel':
        _sobel_magnitude(smoothed, config, matched, scratch['plane_a'])
    else:
        _residual(smoothed, config, matched, scratch['plane_a'])


def smooth(grey: np.ndarray[Any, Any], sigma: float, smoothed: np.ndarray[Any, Any]) -> None:
    """Gaussian of standard deviation ``sigma`` pixels, radius ceil(4 sigma) + 1, in float32.

    Felzenszwalb & Huttenlocher's radius. ``sigma`` 0 is a copy, and none where ``smoothed`` is
    ``grey``.
    """
    if sigma > 0:
        side = 2 * (math.ceil(4 * sigma) + 1) + 1
        cv2.GaussianBlur(grey, (side, side), sigma, dst=smoothed, sigmaY=sigma,
                         borderType=cv2.BORDER_REPLICATE)
    elif smoothed is not grey:
        np.copyto(smoothed, grey)


def sobel_x(smoothed: np.ndarray[Any, Any], config: ResolvedConfig,
            out: np.ndarray[Any, Any]) -> None:
    """3x3 Sobel x derivative times ``sobel_scale``, clipped to +-``prefilter_cap``.

    float32 H x W in and out. The factor is applied to the finished derivative, so whole grey
    values give the exact product.
    """
    cv2.Sobel(smoothed, cv2.CV_32F, 1, 0, dst=out, ksize=3, borderType=cv2.BORDER_REPLICATE)
    _scale_and_clip(out, np.float32(config.sobel_scale), _cap(config))


def contrast(smoothed: np.ndarray[Any, Any], out: np.ndarray[Any, Any],
             ranges: np.ndarray[Any, Any]) -> None:
    """The minimum range of grey values in a window that has the pixel; float32 H x W each.

    Windows of ``CONTRAST_SIDE`` pixels, their centres inside the image and cut at its border. That
    of a pixel darker than ``BRIGHT`` is ``UNASKED``: what is plain in a shadow matches well.

    :param out: filled; scratch before that.
    :param ranges: scratch.
    """
    window = np.ones((CONTRAST_SIDE, CONTRAST_SIDE), np.uint8)
    cv2.dilate(smoothed, window, dst=ranges)
    cv2.erode(smoothed, window, dst=out)
    np.subtract(ranges, out, out=ranges)
    cv2.erode(ranges, window, dst=out)
    _skip_dark(len(out), smoothed, out)


@parallel_kernel
def _skip_dark(y: int, smoothed: Any, out: Any) -> None:
    for x in range(out.shape[1]):
        out[y, x] = UNASKED if smoothed[y, x] < BRIGHT else out[y, x]


def _sobel_magnitude(smoothed: np.ndarray[Any, Any], config: ResolvedConfig,
                     out: np.ndarray[Any, Any], vertical: np.ndarray[Any, Any]) -> None:
    cv2.Sobel(smoothed, cv2.CV_32F, 1, 0, dst=out, ksize=3, borderType=cv2.BORDER_REPLICATE)
    cv2.Sobel(smoothed, cv2.CV_32F, 0, 1, dst=vertical, ksize=3,
              borderType=cv2.BORDER_REPLICATE)
    cv2.magnitude(out, vertical, magnitude=out)
    _scale_and_clip(out, np.float32(config.sobel_scale), _cap(config))


def _residual(smoothed: np.ndarray[Any, Any], config: ResolvedConfig,
              out: np.ndarray[Any, Any], mean: np.ndarray[Any, Any]) -> None:
    window = (config.residual_window_size, config.residual_window_size)
    source = smoothed
    for _ in range(config.residual_iterations):
        cv2.blur(source, window, dst=mean, borderType=cv2.BORDER_REPLICATE)
        np.subtract(source, mean, out=out)
        source = out


def _cap(config: ResolvedConfig) -> np.float32:
    return np.float32(config.prefilter_cap or math.inf)


def to_8bit(image: np.ndarray[Any, Any], config: ResolvedConfig,
            out: np.ndarray[Any, Any]) -> None:
    """The matched image in the 8 bits that SAD compares: floor(value + offset + 0.5), clipped.

    Values with a sign (sobel_x, residual) are offset by ``SIGNED_OFFSET``; grey values (none)
    and magnitudes (sobel) are not. What exceeds 0..255 is clipped.

    :param image: float32 H x W.
    :param out: uint8 H x W, filled.
    """
    signed = config.preprocessing in ('sobel_x', 'residual')
    _round_to_8bit(image, float(SIGNED_OFFSET if signed else 0), out)


@kernel
def _scale_and_clip(image: Any, scale: Any, cap: Any) -> None:
    values = image.reshape(-1)
    for i in range(values.shape[0]):
        value = values[i] * scale
        value = cap if value > cap else value
        values[i] = -cap if value < -cap else value


@kernel
def _round_to_8bit(image: Any, offset: float, out: Any) -> None:
    values, rounded = image.reshape(-1), out.reshape(-1)
    # In float64: 0.49999997 + 0.5 is 1 in float32.
    for i in range(values.shape[0]):
        value = np.float64(values[i]) + offset + 0.5
        value = 0.0 if value < 0.0 else value
        value = 255.0 if value > 255.0 else value
        rounded[i] = np.uint8(np.int32(value))


def to_means(grey: np.ndarray[Any, Any], factor: int, scale: float | None,
             out: np.ndarray[Any, Any]) -> None:
    """Reduce an image to the means of blocks of ``factor`` x ``factor`` pixels.

    What is left over at the right and below is not read.
    A block that is cut off by the end of an image smaller than itself has its last pixel again.

    :param grey: float32 H x W.
    :param scale: None: of whole numbers, rounded half up; else: the sum in float32, row by row,
        times the float32 next to ``scale / factor**2``.
    :param out: float32 max(1, H // factor) x max(1, W // factor), filled.
    """
    _reduce(len(out), grey, factor, scale is None, np.float32((scale or 0.0) / factor**2), out)


@parallel_kernel
def _reduce(y: int, grey: Any, factor: int, is_whole: bool, scale: Any, out: Any) -> None:
    height, width = grey.shape
    area = factor * factor
    for x in range(out.shape[1]):
        total = np.float32(0)
        for j in range(factor):
            row = grey[min(y * factor + j, height - 1)]
            for i in range(factor):
                total += row[min(x * factor + i, width - 1)]
        if is_whole:
            out[y, x] = np.float32((np.int32(total) + area // 2) // area)
        else:
            out[y, x] = total * scale
