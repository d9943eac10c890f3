"""Which costs there are and how their features lie in memory. No Numba here."""

from __future__ import annotations

from typing import NamedTuple

from stereo_bp_ros.config import quantisation
from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.config.matcher_settings import CENSUS_WINDOWS
from stereo_bp_ros.engines.cpu.simd import VECTOR_BYTES
from stereo_bp_ros.engines.geometry import Wanted

#: The costs that are added up, and the bytes of their feature of a pixel. Each has an entry in
#: ``features.FEATURES`` and the settings <name>_weight and <name>_bound.
COSTS = {'census': 8, 'sparse_census': 8, 'sobel': 1, 'grey': 1}

#: Bound of a cost that has no setting for it: the bits of a census.
NO_BOUND = 64

#: Of the sparse census: pixels from one neighbour to the next, and the radius of the box mean.
SPARSE_SPACING, MEAN_RADIUS = 2, 1


class Term(NamedTuple):
    """One cost of the sum; offsets in bytes from the start of a row of features.

    left:   of pixel 0 of the left image.
    right:  of the pixel of the right image that label 0 of the last pixel of a row meets. One
        further left comes after it, so that the labels of a pixel lie side by side.
    weight: in 64ths; 0 = this cost does not count, and has no feature.
    bound:  of the difference; what is larger costs as much.
    """

    left: int
    right: int
    weight: int
    bound: int


def label_bytes(config: ResolvedConfig) -> int:
    """Bytes of a pixel's labels, padded to whole vectors."""
    return _whole_vectors(config.disparity_range)


def row_pixels(config: ResolvedConfig, width: int) -> tuple[int, int]:
    """Pixels in a row of the features of the left and the right image."""
    return width, width + label_bytes(config)


def terms(config: ResolvedConfig, width: int) -> tuple[Term, ...]:
    """Of every cost, in the order of ``COSTS``."""
    margin = _margin(config)
    found, left, right = [], 0, margin
    left_pixels, right_pixels = row_pixels(config, width)
    for name, size in COSTS.items():
        weight = int(getattr(config, f'{name}_weight') * 64 + 0.5)
        bound = getattr(config, f'{name}_bound', NO_BOUND)
        # No need to tell apart what costs the most; and products then fit 16 bits.
        while weight and bound > 1 and (
                (weight * (bound - 1) + 32) // 64 >= quantisation.MAX_COMBINED_COST):
            bound -= 1
        found.append(Term(left, right, weight, bound))
        if weight:
            left += _whole_vectors(size * left_pixels)
            right += _whole_vectors(size * right_pixels) + margin
    return tuple(found)


def border(config: ResolvedConfig) -> int:
    """Pixels beyond the image that windows of features reach."""
    reach = max(int(side) for window in CENSUS_WINDOWS for side in window.split('x')) // 2
    if config.sparse_census_weight:
        reach = SPARSE_SPACING * reach + MEAN_RADIUS
    return reach


def feature_arrays(config: ResolvedConfig, width: int, height: int, threads: int) -> Wanted:
    """Features of both images, and one grey image with borders, which a vector may reach over.

    With the sparse census its mean, too, of the same shape.
    """
    reach, rows = border(config), []
    for side, pixels in zip(('left', 'right'), row_pixels(config, width), strict=True):
        margin = _margin(config) * (side == 'right')
        size = margin + sum(
            _whole_vectors(COSTS[name] * pixels) + margin
            for name, term in zip(COSTS, terms(config, width), strict=True) if term.weight)
        rows.append((f'{side}_features', (height, size), 'uint8'))
    bordered = height + 2 * reach, width + 2 * reach + VECTOR_BYTES
    means: Wanted = [('bordered_mean', bordered, 'uint8')] * bool(config.sparse_census_weight)
    return [*rows, ('bordered_grey', bordered, 'uint8'), *means,
            ('census_planes', (threads, 8, VECTOR_BYTES), 'uint8')]


def cost_arrays(config: ResolvedConfig, tiles: int, lanes: int, height: int,
                threads: int) -> Wanted:
    """What the data cost of an image, or of a partition, of ``height`` rows takes beside it.

    :param tiles: vectors of ``lanes`` columns that one colour of a row takes.
    """
    labels, columns = label_bytes(config), 2 * tiles * lanes
    wanted: Wanted = [('data_cost', (height, columns, labels), 'uint8')]
    if config.path_aggregation:
        wanted += [('path_down', (height, columns, labels), 'uint8'),
                   ('path_up', (2, columns, labels), 'uint8'),
                   ('path_across', (path_rows(threads), 2, columns, labels), 'uint8'),
                   ('path_total', (threads, labels), 'uint16')]
    return wanted


def path_rows(threads: int) -> int:
    """Rows whose paths to both sides are kept at once: few, so that caches hold them."""
    return max(8, 2 * threads)


def _margin(config: ResolvedConfig) -> int:
    """Bytes around each feature of the right image that the labels of a band may reach over."""
    return 2 * VECTOR_BYTES if config.searches_band else 0


def _whole_vectors(size: int) -> int:
    return -(-size // VECTOR_BYTES) * VECTOR_BYTES
