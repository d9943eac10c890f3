"""Where in the image errors are: their rate in blocks of pixels, over all frames of one size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

BLOCKS = 96
"""Blocks along the longer side of an image, at most."""

LEAST_BLOCK = 4
"""Side of the smallest block, pixels."""


@dataclass
class BlockSums:
    """Sums over frames of one size.

    block:  side of a block, pixels; those at the right and below may be smaller.
    frames: how many were added.
    bad, looked_at: int64 rows x columns, counts of pixels.
    """

    block: int
    frames: int
    bad: np.ndarray
    looked_at: np.ndarray

    def rate(self) -> np.ndarray:
        """Percentage of the pixels looked at that are bad, float64; NaN where there are none."""
        rate = np.full(self.bad.shape, np.nan)
        np.divide(100.0 * self.bad, self.looked_at, out=rate, where=self.looked_at > 0)
        return rate


@dataclass
class ErrorMap:
    """Running sums by the size of frames, (width, height) in pixels.

    Its memory does not grow with the number of frames. The order of frames makes no difference.
    """

    sizes: dict[tuple[int, int], BlockSums] = field(default_factory=dict)

    def add(self, bad: np.ndarray, looked_at: np.ndarray) -> None:
        """Count one frame.

        bad:       bool H x W; pixels that are not looked at do not count.
        looked_at: bool H x W.

        :raises ValueError: the arrays are not two-dimensional or not of the same shape.
        """
        if bad.ndim != 2 or bad.shape != looked_at.shape:
            raise ValueError(f'bad pixels of {bad.shape} cannot be counted among pixels of '
                             f'{looked_at.shape}')
        height, width = bad.shape
        block = max(LEAST_BLOCK, math.ceil(max(height, width) / BLOCKS))
        self._merge((width, height), BlockSums(block, 1, _sums(bad & looked_at, block),
                                               _sums(looked_at, block)))

    def _merge(self, size: tuple[int, int], other: BlockSums) -> None:
        mine = self.sizes.get(size)
        self.sizes[size] = other if mine is None else BlockSums(
            mine.block, mine.frames + other.frames, mine.bad + other.bad,
            mine.looked_at + other.looked_at)

    def __add__(self, other: ErrorMap) -> ErrorMap:
        """Of the frames of both."""
        if not isinstance(other, ErrorMap):
            return NotImplemented
        both = ErrorMap(dict(self.sizes))
        for size, sums in other.sizes.items():
            both._merge(size, sums)
        return both

    def by_frames(self) -> Mapping[tuple[int, int], BlockSums]:
        """Sizes that have pixels, those of the most frames first."""
        found = [(size, sums) for size, sums in self.sizes.items() if sums.looked_at.any()]
        return dict(sorted(found, key=lambda one: (-one[1].frames, one[0])))


def _sums(mask: np.ndarray, block: int) -> np.ndarray:
    rows, columns = (np.arange(0, length, block) for length in mask.shape)
    across = np.add.reduceat(mask, columns, axis=1, dtype=np.int64)
    return np.asarray(np.add.reduceat(across, rows, axis=0))


def bad_pixels(disparity: np.ndarray, valid: np.ndarray, truth: np.ndarray | None, pixels: float
               ) -> tuple[np.ndarray, np.ndarray]:
    """Bad pixels and those looked at, bool H x W, as `ErrorMap.add` takes them.

    Looked at are the pixels with truth; bad are those wrong by more than `pixels` and those
    without a disparity. Without truth all pixels are looked at, and the holes are bad.

    disparity: H x W, pixels.
    valid:     bool H x W.
    truth:     H x W, pixels, not finite = unknown; None: there is none.
    """
    estimated = valid.astype(bool) & np.isfinite(disparity)
    if truth is None:
        return ~estimated, np.ones(disparity.shape, bool)
    known = np.isfinite(truth)
    both = estimated & known
    error = np.abs(np.where(both, disparity, 0.0) - np.where(both, truth, 0.0))
    return known & (~estimated | (error > pixels)), known
