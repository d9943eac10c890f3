"""Grey values of images in any encoding, as OpenCV's functions take them."""

from __future__ import annotations

import cv2
import numpy as np

from stereo_bp_ros.engines.grey import conversion_code
from stereo_bp_ros.images import RawImage


def grey_values(raw: RawImage) -> np.ndarray:
    """uint8 or uint16 H x W, C-contiguous and in the machine's byte order."""
    pixels, layout = raw.pixels, raw.layout
    pixels = pixels.astype(pixels.dtype.newbyteorder('='), copy=False)
    if layout.luma >= 0:
        pixels = pixels[:, :, layout.luma]
    elif layout.channels > 1 or layout.bayer:
        pixels = cv2.cvtColor(pixels, conversion_code(raw))
    return np.ascontiguousarray(pixels)


def to_8_bits(raw: RawImage, mono16_scale: float) -> np.ndarray:
    """uint8 H x W: 16 bits are multiplied by ``mono16_scale``, rounded and cut."""
    pixels = grey_values(raw)
    if raw.layout.bits == 16:
        pixels = np.clip(np.rint(pixels * mono16_scale), 0, 255).astype(np.uint8)
    return pixels
