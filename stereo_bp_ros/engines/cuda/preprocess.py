"""Stage ``preprocess``: from grey values to the image that is matched.

The device does what is exact there: methods whose sums are whole numbers. The others, whose last
bits depend on OpenCV's order of sums, OpenCV does on the host.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from typing import Any

import cv2
import numpy as np

from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines.cuda import compiler
from stereo_bp_ros.engines.cuda.arena import Arena
from stereo_bp_ros.engines.cuda.device import Properties

#: Widest box of the residual that the device computes: its kernel reads every pixel of it.
WIDEST_RESIDUAL = 11


class _Images(ctypes.Structure):
    _fields_ = (('grey', ctypes.c_void_p * 2), ('matched', ctypes.c_void_p * 2),
                ('width', ctypes.c_int), ('height', ctypes.c_int), ('scale', ctypes.c_float),
                ('cap', ctypes.c_float), ('radius', ctypes.c_int), ('share', ctypes.c_double))


def kernel_name(config: MatcherConfig) -> str | None:
    """The kernel in ``preprocess.cu`` that makes the matched image; None = none is needed."""
    return {'none': None, 'sobel_x': 'sobel_x', 'residual': 'residual'}[config.preprocessing]


def runs_on_device(config: MatcherConfig) -> bool:
    """Whether the device makes the matched image from 8-bit grey values."""
    if config.smoothing_sigma > 0 or config.preprocessing == 'sobel':
        return False
    return config.preprocessing != 'residual' or (
        config.residual_iterations == 1 and config.residual_window_size <= WIDEST_RESIDUAL)


class Preprocess:
    """The stage on the device, for one configuration and size."""

    def __init__(self, found: Properties, config: MatcherConfig, width: int, height: int,
                 arena: Arena) -> None:
        name = kernel_name(config) if runs_on_device(config) else None
        self._kernel = compiler.kernel(found, 'preprocess.cu', name) if name else None
        device = arena.device
        pairs = [(ctypes.c_void_p * 2)(device[f'left_{kind}'], device[f'right_{kind}'])
                 for kind in ('grey', 'matched')]
        side = config.residual_window_size
        self._images = _Images(*pairs, width, height, config.sobel_scale, _cap(config),
                               side // 2, 1.0 / (side * side))
        self._grid = (-(-width // 32), -(-height // 8), 2)

    def enqueue(self, stream: int) -> None:
        """Make both matched images from the grey ones."""
        if self._kernel is not None:
            self._kernel.launch(stream, self._grid, (32, 8, 1), 0, self._images)


def on_host(grey: np.ndarray[Any, Any], config: MatcherConfig, matched: np.ndarray[Any, Any],
            scratch: Mapping[str, np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """The matched image from float32 grey values; returns the image after the Gaussian.

    :param grey, matched: float32 H x W; the second is filled.
    :param scratch: ``smoothed`` and ``plane_a``, float32 H x W.
    """
    smoothed = grey
    if config.smoothing_sigma > 0:
        smoothed = scratch['smoothed']
        side = 2 * (math.ceil(4 * config.smoothing_sigma) + 1) + 1
        cv2.GaussianBlur(grey, (side, side), config.smoothing_sigma, dst=smoothed,
                         sigmaY=config.smoothing_sigma, borderType=cv2.BORDER_REPLICATE)
    if config.preprocessing == 'none':
        np.copyto(matched, smoothed)
    elif config.preprocessing == 'sobel_x':
        sobel_x(smoothed, config, matched)
    elif config.preprocessing == 'sobel':
        vertical = scratch['plane_a']
        cv2.Sobel(smoothed, cv2.CV_32F, 1, 0, dst=matched, ksize=3,
                  borderType=cv2.BORDER_REPLICATE)
        cv2.Sobel(smoothed, cv2.CV_32F, 0, 1, dst=vertical, ksize=3,
                  borderType=cv2.BORDER_REPLICATE)
        cv2.magnitude(matched, vertical, magnitude=matched)
        _scale_and_clip(matched, config)
    else:
        window = (config.residual_window_size, config.residual_window_size)
        source = smoothed
        for _ in range(config.residual_iterations):
            cv2.blur(source, window, dst=scratch['plane_a'], borderType=cv2.BORDER_REPLICATE)
            np.subtract(source, scratch['plane_a'], out=matched)
            source = matched
    return smoothed


def texture(smoothed: np.ndarray[Any, Any], config: MatcherConfig,
            out: np.ndarray[Any, Any], scratch: np.ndarray[Any, Any]) -> None:
    """Sum of the absolute clipped Sobel x derivative over ``correlation_window_size``."""
    sobel_x(smoothed, config, scratch)
    np.abs(scratch, out=scratch)
    side = config.correlation_window_size
    cv2.boxFilter(scratch, -1, (side, side), dst=out, normalize=False,
                  borderType=cv2.BORDER_REPLICATE)


def sobel_x(smoothed: np.ndarray[Any, Any], config: MatcherConfig,
            out: np.ndarray[Any, Any]) -> None:
    """3x3 Sobel x derivative times ``sobel_scale``, clipped; float32 H x W in and out."""
    cv2.Sobel(smoothed, cv2.CV_32F, 1, 0, dst=out, ksize=3, borderType=cv2.BORDER_REPLICATE)
    _scale_and_clip(out, config)


def _scale_and_clip(image: np.ndarray[Any, Any], config: MatcherConfig) -> None:
    cap = np.float32(_cap(config))
    np.multiply(image, np.float32(config.sobel_scale), out=image)
    np.clip(image, -cap, cap, out=image)


def _cap(config: MatcherConfig) -> float:
    return config.prefilter_cap or math.inf
