"""Pairs that cannot match well: identical, black, saturated or textureless images."""

from __future__ import annotations

import numpy as np

from stereo_bp_ros.images import RawImage
from stereo_bp_ros.types import DisparityFrame

#: Part of the pixels that must be dark or bright for an image to count as black or saturated.
PART = 0.99

#: Grey values, of 255, below which a pixel is black and from which it is saturated.
BLACK, SATURATED = 8, 250

#: Every so many rows and columns are looked at.
STRIDE = 8


def image_warnings(left: RawImage, right: RawImage, mono16_scale: float) -> list[str]:
    """Sentences about a pair of images that nothing can be matched in; empty when all is well.

    :param mono16_scale: factor from 16-bit values to grey values 0..255.
    """
    warnings = []
    if _identical(left, right):
        warnings.append('left and right image are identical: is one camera published twice?')
    for side, image in (('left', left), ('right', right)):
        grey = _grey_sample(image, mono16_scale)
        hint = ' (does mono16_scale fit the camera?)' if image.layout.bits == 16 else ''
        if np.mean(grey < BLACK) >= PART:
            warnings.append(f'the {side} image is black{hint}')
        elif np.mean(grey >= SATURATED) >= PART:
            warnings.append(f'the {side} image is saturated{hint}')
    return warnings


def valid_fraction(frame: DisparityFrame) -> float | None:
    """Part of the pixels in the valid window that have a disparity or a depth.

    Every eighth row is looked at. None where the window is empty.
    """
    rows, columns = frame.valid_window.slices
    if frame.disparity is not None:
        sample = frame.disparity[rows, columns][::STRIDE]
        valid = sample >= np.float32(frame.min_disparity)
    elif frame.depth is not None:
        valid = np.isfinite(frame.depth[rows, columns][::STRIDE])
    else:
        return None
    return float(np.count_nonzero(valid) / valid.size) if valid.size else None


def _identical(left: RawImage, right: RawImage) -> bool:
    if left.encoding != right.encoding or left.big_endian != right.big_endian:
        return False
    a, b = left.pixels, right.pixels
    return (np.array_equal(a[::4 * STRIDE], b[::4 * STRIDE])
            and np.array_equal(a, b))


def _grey_sample(image: RawImage, mono16_scale: float) -> np.ndarray:
    sample = image.pixels[::STRIDE, ::STRIDE]
    layout = image.layout
    if layout.luma >= 0:
        return sample[..., layout.luma]
    if layout.channels > 1:
        return np.asarray(sample[..., :3].max(axis=-1))
    if layout.bits == 16:
        return np.asarray(sample * np.float32(mono16_scale))
    return sample
