"""Stage ``convert``: grey values of an image in any encoding that is read without a copy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cv2
import numpy as np

from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines.grey import conversion_code
from stereo_bp_ros.images import RawImage


def to_grey(raw: RawImage, grey: np.ndarray[Any, Any], config: MatcherConfig,
            scratch: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Grey values 0..255 of an image, whatever its row padding and byte order.

    Colour: OpenCV's integer BT.601. Mosaic: OpenCV's bilinear demosaicing to grey. YUV 4:2:2:
    the luma as it is. 16 bits: times ``mono16_scale``, not rounded.

    :param grey: float32 H x W, filled.
    :param scratch: ``grey8`` uint8 H x W (colour and mosaic only).
    """
    pixels, layout = raw.pixels, raw.layout
    if layout.luma >= 0:
        np.copyto(grey, pixels[:, :, layout.luma])
    elif layout.bits == 16:
        np.copyto(grey, pixels)
        grey *= np.float32(config.mono16_scale)
    elif layout.channels == 1 and not layout.bayer:
        np.copyto(grey, pixels)
    else:
        cv2.cvtColor(pixels, conversion_code(raw), dst=scratch['grey8'])
        np.copyto(grey, scratch['grey8'])
