"""OpenCV's conversions to grey, by the encodings of ROS."""

from __future__ import annotations

import cv2

from stereo_bp_ros.images import RawImage

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
