"""Stage ``convert``: grey values of an image, into the memory that the device reads."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np

from stereo_bp_ros.engines.grey import conversion_code
from stereo_bp_ros.images import RawImage


def is_8bit(raw: RawImage) -> bool:
    """Whether the grey values of an image are whole numbers in 0..255."""
    return raw.layout.bits == 8


def to_grey8(raw: RawImage, grey: np.ndarray[Any, Any], scratch: np.ndarray[Any, Any],
             mirrored: bool) -> None:
    """Grey values of an 8-bit image, whatever its row padding.

    Colour: OpenCV's integer BT.601. Mosaic: OpenCV's bilinear demosaicing to grey. YUV 4:2:2:
    the luma as it is.

    :param grey, scratch: uint8 H x W; the first is filled.
    :param mirrored: reverse the columns.
    """
    pixels, layout = raw.pixels, raw.layout
    if layout.luma >= 0:
        pixels = pixels[:, :, layout.luma]
    elif layout.channels > 1 or layout.bayer:
        target = scratch if mirrored else grey
        cv2.cvtColor(pixels, conversion_code(raw), dst=target)
        if not mirrored:
            return
        pixels = target
    np.copyto(grey, pixels[:, ::-1] if mirrored else pixels)


def to_grey(raw: RawImage, grey: np.ndarray[Any, Any], mono16_scale: float,
            scratch: np.ndarray[Any, Any], mirrored: bool) -> None:
    """Grey values of any image; 16 bits times ``mono16_scale``, not rounded.

    :param grey: float32 H x W, filled; ``scratch``: uint8 2 x H x W.
    """
    if is_8bit(raw):
        to_grey8(raw, scratch[0], scratch[1], mirrored)
        np.copyto(grey, scratch[0])
        return
    pixels = raw.pixels
    np.copyto(grey, pixels[:, ::-1] if mirrored else pixels, casting='same_kind')
    grey *= np.float32(mono16_scale)
