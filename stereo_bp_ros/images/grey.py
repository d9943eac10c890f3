"""Grey values of images in any encoding, as OpenCV's functions take them."""

from __future__ import annotations

import cv2
import numpy as np

from stereo_bp_ros.images.raw_images import RawImage

_COLOUR = {
    'rgb8': cv2.COLOR_RGB2GRAY,
    'bgr8': cv2.COLOR_BGR2GRAY,
    '8UC3': cv2.COLOR_BGR2GRAY,
    'rgba8': cv2.COLOR_RGBA2GRAY,
    'bgra8': cv2.COLOR_BGRA2GRAY,
}

# ROS names a mosaic by the first two pixels of its first row, OpenCV by the second and third
# pixel of its second row.
_BAYER = {
    'rggb': cv2.COLOR_BayerBG2GRAY,
    'bggr': cv2.COLOR_BayerRG2GRAY,
    'gbrg': cv2.COLOR_BayerGR2GRAY,
    'grbg': cv2.COLOR_BayerGB2GRAY,
}


def conversion_code(raw: RawImage) -> int:
    """``cv2.cvtColor``'s code from a colour or mosaic image to grey."""
    bayer = raw.layout.bayer
    return int(_BAYER[bayer] if bayer else _COLOUR[raw.encoding])


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
