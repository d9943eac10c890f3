"""Sizes, windows and memory: arithmetic only, no array is made here."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable

import numpy as np

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.errors import ConfigError, MemoryLimitError
from stereo_bp_ros.frame.disparity_frame import ValidWindow

#: Alignment of every array in an arena, bytes: one cache line of today's CPUs and GPUs.
ALIGNMENT = 64

#: Labels that ``effective`` rounds up to: CUDA's messages and costs lie in chunks of so many, and
#: the CPU's have no padding that a multiple of fewer would save.
WHOLE_LABELS = 8


def effective(config: MatcherConfig, calibration: Calibration | None) -> MatcherConfig:
    """The configuration that pairs of a calibration are matched with: without ``min_depth``.

    A point at depth Z has the unshifted disparity f B / Z + cx_left - cx_right.
    ``disparity_range`` becomes the minimum whose last disparity is not below that of
    ``min_depth``, and whose labels (after ``downscale``) are a multiple of ``WHOLE_LABELS``. It
    stays where no calibration is known.

    :param calibration: in pixels of the images that are matched, before ``downscale``.
    :raises ConfigError: that depth needs more disparities than ``disparity_range`` may have, or
        lies below ``min_disparity``.
    """
    if not config.min_depth:
        return config
    if calibration is None:
        return _without_min_depth(config, config.disparity_range)
    first, step = config.min_disparity, config.downscale
    most = int(config.settings()['disparity_range'].maximum or 0)
    last = first + (most - 1) // step * step
    # The last bits of a product are noise, which might cost a label more.
    nearest = round(calibration.focal_px * calibration.baseline_m / config.min_depth
                    + calibration.shift, 6)
    if nearest > last:
        raise ConfigError(
            'min_depth', config.min_depth, f'with this calibration it lies at disparity '
            f'{nearest:.6g}, and the search ends at {last} at most (min_disparity {first}, '
            f'{most} disparities): ' + _remedy(calibration, last))
    if nearest < first:
        raise ConfigError(
            'min_depth', config.min_depth, f'with this calibration it lies at disparity '
            f'{nearest:.6g}, below min_disparity ({first}), and nothing is left to search: lower '
            'one of the two')
    labels = math.ceil((nearest - first) / step) + 1
    whole = -(-labels // WHOLE_LABELS) * WHOLE_LABELS
    return _without_min_depth(config, min(most, whole * step))


@functools.lru_cache(maxsize=64)
def _without_min_depth(config: MatcherConfig, disparity_range: int) -> MatcherConfig:
    """Kept: every pair asks for it, and making a configuration takes 0.5 ms."""
    return config.replace(min_depth=0.0, disparity_range=disparity_range)


def _remedy(calibration: Calibration, last: int) -> str:
    """How a search becomes short enough, that ends at the disparity ``last`` at most."""
    if last <= calibration.shift:
        return 'raise min_disparity'
    least = calibration.focal_px * calibration.baseline_m / (last - calibration.shift)
    return f'set it to at least {math.ceil(1000 * least) / 1000:g}, or raise min_disparity'


def rectified_size(config: MatcherConfig, width: int, height: int) -> tuple[int, int]:
    """(width, height) of the images that results are of, from those of the images as they come.

    They differ where ``rectify`` makes images of a size of their own.
    """
    if config.rectify and config.rectified_width:
        return config.rectified_width, config.rectified_height
    return width, height


def pyramid(width: int, height: int, levels: int) -> list[tuple[int, int]]:
    """(width, height) in nodes of every level, level 0 first.

    Level k + 1 has ceil(W / 2) x ceil(H / 2) nodes (Felzenszwalb & Huttenlocher).
    """
    sizes = [(width, height)]
    for _ in range(levels - 1):
        width, height = (width + 1) // 2, (height + 1) // 2
        sizes.append((width, height))
    return sizes


def reduced_size(config: MatcherConfig, width: int, height: int) -> tuple[int, int]:
    """Width and height in pixels of what is matched of images that come in this size."""
    width, height = rectified_size(config, width, height)
    return max(1, width // config.downscale), max(1, height // config.downscale)


def reduced_range(config: MatcherConfig) -> tuple[int, int]:
    """First disparity and number of disparities in pixels of the reduced images."""
    return (config.min_disparity // config.downscale,
            -(-config.disparity_range // config.downscale))


def coarse_size(width: int, height: int) -> tuple[int, int]:
    """Width and height in pixels of the images of a band search's first pass."""
    return max(1, width // 2), max(1, height // 2)


def valid_window(config: MatcherConfig, width: int, height: int) -> ValidWindow:
    """Where a disparity can be found in the results of images that come in this size, pixels.

    With m = min_disparity and D = disparity_range, for hierarchical belief propagation x in
    [max(1, m + D - 1), min(W - 1, W + m)) and y in [1, H - 1); with multi-feature costs, which
    know label by label whether there is a partner, x in [max(1, m), min(W - 1, W + m + D - 1)).
    For SAD with h = window // 2, x in [h + max(0, m + D - 1), W - h + min(0, m)) and y in [h, H -
    h); for tiled belief propagation the same with h = 0. Mirrored in x when the right image is the
    reference. With ``downscale`` n all of that is so of the reduced images, and the window n times
    as large, or up to the border of the image. Width and height are 0 when the window is empty.
    """
    small_width, small_height = reduced_size(config, width, height)
    width, height = rectified_size(config, width, height)
    found = _window(config, *reduced_range(config), small_width, small_height)
    if found.width == 0:
        return found
    x_offset = found.x_offset
    if config.reference_image == 'right':
        x_offset = small_width - x_offset - found.width
    left, right = _enlarge(x_offset, found.width, small_width, width, config.downscale)
    top, bottom = _enlarge(found.y_offset, found.height, small_height, height,
                            config.downscale)
    return ValidWindow(left, top, right - left, bottom - top)


def _enlarge(first: int, count: int, small: int, whole: int, factor: int) -> tuple[int, int]:
    """Start and end in an image of what is part of a reduced one; the last pixel has the rest."""
    end = first + count
    return factor * first, whole if end == small else factor * end


def matched_window(config: MatcherConfig, width: int, height: int) -> ValidWindow:
    """``valid_window`` in the frame of matching, which is neither mirrored nor reduced."""
    return _window(config, config.min_disparity, config.disparity_range, width, height)


def _window(config: MatcherConfig, first: int, count: int, width: int, height: int) -> ValidWindow:
    last = first + count - 1
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

    1 without subpixel refinement. With it, or where disparities are enlarged, 1/16: values are
    sixteenths, the resolution at which OpenCV's median and speckle filter work.
    """
    return 1 / 16 if config.subpixel or config.downscale > 1 else 1.0


#: Arrays that are to be: name, shape and NumPy's name of the type.
Wanted = list[tuple[str, tuple[int, ...], str]]


def mapped_sides(config: MatcherConfig) -> tuple[str, ...]:
    """Sides of the cameras whose images may go through maps."""
    if config.rectify:
        return 'left', 'right'
    return ('right',) * (config.row_correction == 'correct')


def map_arrays(config: MatcherConfig, width: int, height: int) -> Wanted:
    """The maps that images of a size go through (``RawCamera.maps``), by side of the camera."""
    return [array for side in mapped_sides(config) for array in (
        (f'{side}_map', (height, width, 2), 'int16'),
        (f'{side}_map_parts', (height, width), 'uint16'))]


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
