"""What a combined data cost is the sum of, and how its volumes lie in memory. No CuPy here."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from stereo_bp_ros.config import quantisation
from stereo_bp_ros.config.matcher import ResolvedConfig

#: Weights are rounded to multiples of 1 / this.
WEIGHT_SCALE = 64


class Term(NamedTuple):
    """One cost: floor(w min(distance of features, bound) + 1/2), w = weight / 64.

    name: of its settings; kind: the C++ type. feature: type of the elements of its feature.
    radius: pixels around one that its feature depends on.
    """

    name: str
    kind: str
    feature: str
    weight: int
    bound: int
    radius: int


def _census(config: ResolvedConfig) -> tuple[str, str, int, int]:
    columns, rows = map(int, config.census_window.split('x'))
    return f'Census<{columns}, {rows}>', 'uint64', 64, max(columns, rows) // 2


def _sparse_census(config: ResolvedConfig) -> tuple[str, str, int, int]:
    kind, feature, bound, radius = _census(config)
    # Twice the spacing, and a pixel around each neighbour.
    return f'Sparse{kind}', feature, bound, 2 * radius + 1


def _sobel(config: ResolvedConfig) -> tuple[str, str, int, int]:
    return 'Sobel', 'uint8', config.sobel_bound, 1


def _grey(config: ResolvedConfig) -> tuple[str, str, int, int]:
    return 'Grey', 'uint8', config.grey_bound, 0


#: Name of a cost's settings to the kind, the type of the feature, the bound and the radius.
COSTS: dict[str, Callable[[ResolvedConfig], tuple[str, str, int, int]]] = {
    'census': _census, 'sparse_census': _sparse_census, 'sobel': _sobel, 'grey': _grey}


def terms(config: ResolvedConfig) -> list[Term]:
    """The costs whose weight is above 0."""
    found = []
    for name, describe in COSTS.items():
        weight = getattr(config, f'{name}_weight')
        if weight:
            kind, feature, bound, radius = describe(config)
            found.append(Term(name, kind, feature,
                              quantisation.round_half_up(WEIGHT_SCALE * weight), bound, radius))
    return found


def padded_labels(disparities: int) -> int:
    """Labels of a pixel in a volume; ``Volume::PADDED`` of the kernels."""
    multiple = 8 if disparities <= 256 else 16
    return -(-disparities // multiple) * multiple


def lanes(disparities: int) -> int:
    """Threads that have the labels of a pixel; ``Volume::LANES`` of the kernels."""
    words = 1 if disparities <= 128 else 2 if disparities <= 256 else 4
    needed = padded_labels(disparities) // (4 * words)
    return 1 << (needed - 1).bit_length()
