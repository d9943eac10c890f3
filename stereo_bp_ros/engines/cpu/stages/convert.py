"""Stage ``convert``: grey values of an image in any encoding that is read without a copy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cv2
import numba
import numpy as np

from stereo_bp_ros.engines.cpu.simd.runtime import parallel_kernel
from stereo_bp_ros.grey import conversion_code
from stereo_bp_ros.images import RawImage


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
    _reduce(grey, factor, scale is None, np.float32((scale or 0.0) / factor**2), out)


@parallel_kernel
def _reduce(grey: Any, factor: int, is_whole: bool, scale: Any, out: Any) -> None:
    height, width = grey.shape
    area = factor * factor
    for index in numba.prange(out.shape[0]):
        y = np.int64(index)
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
