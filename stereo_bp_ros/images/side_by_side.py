"""Images of side-by-side cameras, which hold those of both cameras."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import numpy as np

from stereo_bp_ros.errors import InputError
from stereo_bp_ros.images.raw_images import RawImage
from stereo_bp_ros.issues import IssueCode

#: Where the image of the left camera is, and that of the right one.
LAYOUTS = ('left_right', 'right_left', 'top_bottom')


def split(image: RawImage, layout: str) -> tuple[RawImage, RawImage]:
    """Left and right image of a side-by-side one: views of its bytes.

    Of nv12, nv21 and nv24 the luma alone, as mono8.

    :param layout: one of ``LAYOUTS``.
    :raises InputError: bad size: there are no equal halves, or their encoding has none of that
        size; bad array: the image is in the memory of a CUDA device.
    """
    if image.is_on_device:
        raise InputError(IssueCode.BAD_ARRAY, 'a side-by-side image on a CUDA device',
                         'only images on the host are split')
    known = image.layout
    is_wide = layout != 'top_bottom'
    what, size = ('width', image.width) if is_wide else ('height', image.height)
    # Halves of a mosaic begin with the same colours.
    parts = 4 if known.bayer or (known.has_even_width if is_wide else known.has_even_height) else 2
    if size % parts:
        raise InputError(IssueCode.BAD_SIZE, f'{image.encoding} of {what} {size}',
                         f'side by side ({layout}) it is a multiple of {parts}')
    width, height = (size // 2, image.height) if is_wide else (image.width, size // 2)
    begin = width * known.pixel_bytes if is_wide else height * image.step
    halves = [dataclasses.replace(
        image, data=memoryview(image.data).cast('B')[offset:], width=width, height=height,
        encoding='mono8' if known.chroma_rows else image.encoding) for offset in (0, begin)]
    left, right = reversed(halves) if layout == 'right_left' else halves
    return left, right


def infos_of_halves(info: Any) -> dict[str, Any]:
    """A ``CameraInfo`` for each side by the one of both cameras, whose images are rectified.

    P[3], which has the baseline, is that of the right camera.
    """
    left = copy.copy(info)
    left.p = np.array(info.p, float)
    left.p[3] = 0.0
    return {'left': left, 'right': info}
