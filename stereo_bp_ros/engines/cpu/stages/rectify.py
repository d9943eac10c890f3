"""Stage ``convert`` of images that go through maps: grey values, and these rectified."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cv2
import numpy as np

from stereo_bp_ros.cameras.rectification import Maps
from stereo_bp_ros.engines.cpu.stages import convert
from stereo_bp_ros.images.raw_images import RawImage


def fill_maps(side: str, maps: Maps, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Take over the maps of a side, once for a calibration.

    :param arrays: of ``left`` ``left_map`` int16 H x W x 2 and ``left_map_parts`` uint16 H x W,
        filled.
    """
    arrays[f'{side}_map'][:], arrays[f'{side}_map_parts'][:] = maps


def to_grey(raw: RawImage, side: str, grey: np.ndarray[Any, Any], scale: float,
            arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Grey values 0..255 of the rectified image; 0 where the raw image does not reach.

    Bilinear between the grey values of the raw image: in whole numbers of 8 bits, and of images
    of 16 bits in float32 (``docs/explanation/algorithms.md``).

    :param side: of the camera, 'left' or 'right'.
    :param grey: float32 H x W, filled.
    :param scale: of 16-bit values, as for ``convert.to_grey``.
    :param arrays: those of ``fill_maps`` and of ``scratch.rectify``, and what
        ``convert.to_grey`` needs.
    """
    if raw.layout.bits == 16:
        source, rectified = arrays['raw_grey'], grey
        convert.to_grey(raw, source, scale, arrays)
    else:
        source, rectified = convert.whole_grey(raw, arrays), arrays['rectified8']
        if source.strides[1] != 1:      # OpenCV would copy it into new memory
            np.copyto(arrays['grey8'], source)
            source = arrays['grey8']
    cv2.remap(source, arrays[f'{side}_map'], arrays[f'{side}_map_parts'], cv2.INTER_LINEAR,
              dst=rectified, borderMode=cv2.BORDER_CONSTANT, borderValue=0)
    if rectified is not grey:
        np.copyto(grey, rectified)
