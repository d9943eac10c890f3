"""The windows of pixels, and what the labels of a neighbour say of a pixel's own."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from stereo_bp_ros.engines.cpu.band.layout import BandLevel
from stereo_bp_ros.engines.cpu.simd.groups import lane_numbers, picked, spread_shifts, swapped
from stereo_bp_ros.engines.cpu.simd.runtime import kernel
from stereo_bp_ros.engines.cpu.simd.vectors import address, maximum, splat

#: Places of a neighbour in ``BandLevel.shifts``.
RIGHT_OF, BELOW = range(2)


class Windows(NamedTuple):
    """A ``BandLevel`` with the addresses of its arrays, which kernels hand on."""

    width: int
    height: int
    radius: int
    centres: Any
    shifts: Any
    x: int
    y: int
    image_width: int
    image_pixels: int


@kernel
def windows_of(level: BandLevel) -> Any:
    """The level as ``Windows``."""
    return Windows(level.width, level.height, level.radius, address(level.centres),
                   address(level.shifts), level.x, level.y, level.centres.shape[2],
                   level.centres.shape[1] * level.centres.shape[2])


@kernel
def centre(windows: Windows, x: int, y: int, window: int) -> int:
    """Of one window of a pixel of the partition."""
    place = (windows.y + y) * windows.image_width + windows.x + x
    return np.int64(windows.centres[window * windows.image_pixels + place])


@kernel
def shifts_at(windows: Windows, x: int, y: int, neighbour: int) -> int:
    """Where the shifts of a pixel of the partition to a neighbour lie."""
    place = (windows.y + y) * windows.image_width + windows.x + x
    return 4 * (2 * place + neighbour)


@kernel
def from_next(values: Any, shifts: Any, first: int, second: int) -> Any:
    """Values of the labels of two pixels, from those of their right or lower neighbours.

    :param values: of the neighbours; 0 counts where a label is not one of theirs, and the
        greater one where both windows have it.
    :param first, second: where the shifts of the two pixels lie.
    """
    straight, crossed, _ = spread_shifts(shifts, first, second)
    return maximum(picked(values, lane_numbers() + straight),
                   picked(swapped(values), lane_numbers() + crossed))


@kernel
def from_previous(values: Any, shifts: Any, first: int, second: int) -> Any:
    """As ``from_next``, from the left or upper neighbours, whose shifts these are."""
    straight, _, crossed = spread_shifts(shifts, first, second)
    return maximum(picked(values, lane_numbers() - straight),
                   picked(swapped(values), lane_numbers() - crossed))


@kernel
def moved(values: Any, labels: int) -> Any:
    """The values of labels so many below each; 0 where there is none."""
    return picked(values, lane_numbers() - splat(np.uint8(labels)))
