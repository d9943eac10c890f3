"""Stage ``convert``: grey values of an image in any encoding that is read without a copy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cv2
import numpy as np

from stereo_bp_ros.images.grey import conversion_code
from stereo_bp_ros.images.raw_images import RawImage


def to_grey(raw: RawImage, grey: np.ndarray[Any, Any], scale: float,
            scratch: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Grey values 0..255 of an image, whatever its row padding and byte order.

    Colour: OpenCV's integer BT.601. Mosaic: OpenCV's bilinear demosaicing to grey. YUV: the luma
    as it is. 16 bits, of a mosaic, too: times ``scale``, not rounded.

    :param grey: float32 H x W, filled.
    :param scratch: as for ``whole_grey``.
    """
    np.copyto(grey, whole_grey(raw, scratch))
    if raw.layout.bits == 16:
        grey *= np.float32(scale)


def whole_grey(raw: RawImage, scratch: Mapping[str, np.ndarray[Any, Any]]
               ) -> np.ndarray[Any, Any]:
    """The whole numbers that ``to_grey`` makes grey values of, H x W: a view wherever possible.

    :param scratch: ``grey8`` uint8 H x W (colour and mosaic of 8 bits only); ``mosaic16`` uint16
        2 x H x W (mosaic of 16 bits only).
    """
    pixels, layout = raw.pixels, raw.layout
    if layout.luma >= 0:
        return pixels[:, :, layout.luma]
    if layout.channels == 1 and not layout.bayer:
        return pixels
    return one_channel(raw, scratch)


def one_channel(raw: RawImage, scratch: Mapping[str, np.ndarray[Any, Any]]
                ) -> np.ndarray[Any, Any]:
    """OpenCV's grey values of a colour or mosaic image: an array of ``scratch``, H x W."""
    pixels, converted = raw.pixels, scratch['grey8']
    if raw.layout.bits == 16:
        mosaic, converted = scratch['mosaic16']
        np.copyto(mosaic, pixels)       # OpenCV heeds no byte order
        pixels = mosaic
    cv2.cvtColor(pixels, conversion_code(raw), dst=converted)
    return converted
