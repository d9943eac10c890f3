"""Sizes, windows and memory: arithmetic only, no array is made here."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

import numpy as np

from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.errors import MemoryLimitError
from stereo_bp_ros.types import ValidWindow

#: Alignment of every array in an arena, bytes: one cache line of today's CPUs and GPUs.
ALIGNMENT = 64


def pyramid(width: int, height: int, levels: int) -> list[tuple[int, int]]:
    """(width, height) in nodes of every level, level 0 first.

    Level k + 1 has ceil(W / 2) x ceil(H / 2) nodes (Felzenszwalb & Huttenlocher).
    """
    sizes = [(width, height)]
    for _ in range(levels - 1):
        width, height = (width + 1) // 2, (height + 1) // 2
        sizes.append((width, height))
    return sizes


def valid_window(config: MatcherConfig, width: int, height: int) -> ValidWindow:
    """Where a disparity can be found in an image of this size, pixels.

    With m = min_disparity and D = disparity_range, for hierarchical belief propagation x in
    [max(1, m + D - 1), min(W - 1, W + m)) and y in [1, H - 1); with combined costs, which know
    label by label whether there is a partner, x in [max(1, m), min(W - 1, W + m + D - 1)). For
    SAD with h = window // 2, x in [h + max(0, m + D - 1), W - h + min(0, m)) and y in [h, H - h);
    for tiled belief propagation the same with h = 0. Mirrored in x when the right image is the
    reference. Width and height are 0 when the window is empty.
    """
    found = matched_window(config, width, height)
    if config.reference_image == 'left' or found.width == 0:
        return found
    return dataclasses.replace(found, x_offset=width - found.x_offset - found.width)


def matched_window(config: MatcherConfig, width: int, height: int) -> ValidWindow:
    """``valid_window`` in the frame of matching, which is not mirrored."""
    first, last = config.min_disparity, config.min_disparity + config.disparity_range - 1
    if config.has_combined_cost:        # where one label has a partner
        first, last = last, first
    if config.stereo_algorithm == 'bp':
        margin = 1
        left, right = max(1, last), min(width - 1, width + first)
    else:
        is_sad = config.stereo_algorithm == 'sad'
        margin = config.correlation_window_size // 2 if is_sad else 0
        left, right = margin + max(0, last), width - margin + min(0, first)
    top, bottom = margin, height - margin
    if right <= left or bottom <= top:
        return ValidWindow(0, 0, 0, 0)
    return ValidWindow(left, top, right - left, bottom - top)


def disparity_step(config: MatcherConfig) -> float:
    """Smallest step between two disparities, pixels (``delta_d`` of a DisparityImage).

    1 without subpixel refinement. With it 1/16: values are sixteenths, the resolution at which
    OpenCV's median and speckle filter work.
    """
    return 1 / 16 if config.subpixel else 1.0


#: Arrays that are to be: name, shape and NumPy's name of the type.
Wanted = list[tuple[str, tuple[int, ...], str]]


@dataclasses.dataclass(frozen=True)
class ArraySpec:
    """One array of an engine: what it is, how large, and where in the arena it starts."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    offset: int

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclasses.dataclass(frozen=True)
class MemoryPlan:
    """Every array of an engine in one allocation, known before it is made."""

    arrays: tuple[ArraySpec, ...]

    @classmethod
    def lay_out(cls, wanted: Iterable[tuple[str, tuple[int, ...], str]]) -> MemoryPlan:
        """Place (name, shape, dtype) one after the other, each at a multiple of ``ALIGNMENT``."""
        arrays, offset = [], 0
        for name, shape, dtype in wanted:
            spec = ArraySpec(name, tuple(int(n) for n in shape), dtype, offset)
            arrays.append(spec)
            offset = align(offset + spec.nbytes)
        return cls(tuple(arrays))

    @property
    def total(self) -> int:
        """Bytes of the whole allocation."""
        if not self.arrays:
            return 0
        return align(self.arrays[-1].offset + self.arrays[-1].nbytes)

    def check(self, allowed: int) -> None:
        """Compare with the bytes allowed.

        :raises MemoryLimitError: the plan is larger.
        """
        if self.total > allowed:
            raise MemoryLimitError(self.total, allowed)


def align(offset: int) -> int:
    """The next multiple of ``ALIGNMENT``, bytes."""
    return -(-offset // ALIGNMENT) * ALIGNMENT


def paper_memory_bound(width: int, height: int, disparity_range: int) -> int:
    """(5 + 10 D) W H values: what the AI 2009 paper's program allocates (its section 3)."""
    return (5 + 10 * disparity_range) * width * height
