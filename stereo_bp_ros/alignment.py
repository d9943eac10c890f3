"""How the two images of a pair lie to each other: vertical offset, and the sign of disparities.

Corners of the left image are looked for in the right one by normalised cross-correlation, over the
columns of the disparity range and some rows. The disparity map is not used: it is wrong where the
rows do not match, and where the images are exchanged.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import cv2
import numpy as np

#: Images wider than this are made smaller by a whole number first, pixels.
MAX_WIDTH = 1920

#: Corners that are looked for, and how close together they may be, as a part of the width.
CORNERS, MIN_SPACING = 200, 1 / 40

#: Half the side of the square that is compared, pixels.
HALF = 7

#: Rows up and down that are searched: most cameras need few, and many where few explain nothing.
SEARCHES = (6, 32)

#: Least correlation of a corner with its partner, and how much less any other row must have.
MIN_CORRELATION, MIN_LEAD = 0.8, 0.1

#: What an estimate needs: so many points within three times the most spread, pixels, and so much
#: standard deviation of their columns, as a part of the width.
MIN_POINTS, MAX_SPREAD, MIN_WIDTH = 20, 0.75, 0.12

#: Rows that partners of a rectified pair are apart at most, pixels.
ROWS_APART = 0.75

#: Corners whose disparity is looked for on both sides of zero, the best ones first.
SIGNED_CORNERS = 80

#: From a median absolute deviation to a standard deviation.
_SIGMA = 1.4826


@dataclasses.dataclass(frozen=True)
class VerticalOffset:
    """Rows by which the right image shows things lower than the left one, pixels.

    offset: in the middle column.
    tilt:   in the last column, less that in the first one: one camera is rolled.
    spread: robust standard deviation of the points around these.
    points: corners that agree.
    """

    offset: float
    tilt: float
    spread: float
    points: int

    @property
    def largest(self) -> float:
        """The largest offset of any column, pixels, >= 0."""
        return abs(self.offset) + abs(self.tilt) / 2


class _Partner(NamedTuple):
    """Where a corner of the left image lies in the right one, pixels.

    row:       rows further down.
    disparity: columns further to the left.
    is_single: whether no other column of its row looks like it.
    """

    row: float
    disparity: int
    is_single: bool


def vertical_offset(left: np.ndarray, right: np.ndarray, first: int, last: int
                    ) -> VerticalOffset | None:
    """Estimate the vertical offset of a pair; None where it cannot be told.

    It cannot where there are few corners, where none of them has one partner, and where the
    partners contradict each other: other images, no texture, rows that repeat themselves.

    :param left, right: uint8 or float32 H x W, grey values.
    :param first, last: disparities that are searched, pixels of the left image.
    """
    left, right, factor = _reduced(left, right)
    disparities = range(first // factor - 1, -(-last // factor) + 2)
    places = _corners(left, CORNERS)
    for rows in SEARCHES:
        found = [(x, partner.row) for x, y in places
                 if (partner := _partner(left, right, x, y, rows, disparities)) is not None]
        estimate = _line(np.array(found).reshape(-1, 2), left.shape[1])
        if estimate is not None:
            return dataclasses.replace(
                estimate, offset=estimate.offset * factor, tilt=estimate.tilt * factor,
                spread=estimate.spread * factor)
    return None


def corner_disparities(left: np.ndarray, right: np.ndarray, first: int, last: int) -> np.ndarray:
    """Disparities of corners that have one partner only in all columns of a range, pixels.

    :param left, right: as ``vertical_offset``.
    :param first, last: of the range, which may lie on both sides of 0, pixels.
    :returns: float64 N, N <= ``SIGNED_CORNERS``.
    """
    left, right, factor = _reduced(left, right)
    disparities = range(first // factor - 1, -(-last // factor) + 2)
    found = [partner.disparity * factor for x, y in _corners(left, SIGNED_CORNERS)
             if (partner := _partner(left, right, x, y, SEARCHES[0], disparities)) is not None
             and partner.is_single]
    return np.array(found, np.float64)


def corners_in_their_rows(left: np.ndarray, right: np.ndarray, last: int) -> tuple[int, int]:
    """How many corners have a partner in a row within ``ROWS_APART``, and how many have one.

    :param left, right: as ``vertical_offset``.
    :param last: disparities from -``last`` to ``last`` are searched, pixels.
    """
    left, right, factor = _reduced(left, right)
    reach = -(-last // factor) + 1
    partners = [partner for x, y in _corners(left, CORNERS)
                if (partner := _partner(left, right, x, y, SEARCHES[0], range(-reach, reach + 1)))]
    return sum(abs(one.row) * factor <= ROWS_APART for one in partners), len(partners)


def corner_matches(left: np.ndarray, right: np.ndarray, first: int, last: int,
                   places: np.ndarray | None = None
                   ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Corners that have one partner only in all columns of a range, to the pixel.

    :param left, right: as ``vertical_offset``.
    :param first, last: of the range, which may lie on both sides of 0, pixels.
    :param places: float32 N x 2, columns and rows in the left image; None = the best corners.
    :returns: places in the left and in the right image, float32 M x 2, and int M, the index of
        each among ``places``.
    """
    left, right, factor = _reduced(left, right)
    disparities = range(first // factor - 1, -(-last // factor) + 2)
    if places is None:
        places = _corners(left, CORNERS).astype(np.float32) * factor
    found = [(i, partner.disparity * factor, partner.row * factor)
             for i, (x, y) in enumerate(np.rint(places / factor).astype(int))
             if (partner := _partner(left, right, x, y, SEARCHES[0], disparities)) is not None
             and partner.is_single]
    index, disparity, row = np.array(found, np.float32).reshape(-1, 3).T
    index = index.astype(int)
    starts = places[index]
    return starts, starts + np.column_stack([-disparity, row]), index


def _reduced(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """A pair no wider than ``MAX_WIDTH``, and by which whole number it was made smaller."""
    factor = -(-left.shape[1] // MAX_WIDTH)
    if factor > 1:
        size = (left.shape[1] // factor, left.shape[0] // factor)
        left, right = (cv2.resize(image[:size[1] * factor, :size[0] * factor], size,
                                  interpolation=cv2.INTER_AREA) for image in (left, right))
    return left, right, factor


def _corners(image: np.ndarray, count: int) -> np.ndarray:
    """Columns and rows of the best corners, int N x 2."""
    width = image.shape[1]
    corners = cv2.goodFeaturesToTrack(image, count, 0.01, max(HALF, width * MIN_SPACING))
    return np.zeros((0, 2), int) if corners is None else np.rint(corners[:, 0]).astype(int)


def _partner(left: np.ndarray, right: np.ndarray, x: int, y: int, rows: int,
             disparities: range) -> _Partner | None:
    """The partner of a corner of the left image; None where not just one row has it."""
    height, width = left.shape
    begin, end = max(HALF, x - disparities[-1]), min(width - HALF, x - disparities[0] + 1)
    if end - begin < 3 or not (HALF <= x < width - HALF
                               and HALF + rows <= y < height - HALF - rows):
        return None
    scores = cv2.matchTemplate(
        right[y - rows - HALF:y + rows + HALF + 1, begin - HALF:end + HALF],
        left[y - HALF:y + HALF + 1, x - HALF:x + HALF + 1], cv2.TM_CCOEFF_NORMED)
    of_row = scores.max(axis=1)
    i = int(of_row.argmax())
    j = int(scores[i].argmax())
    best = of_row[i]
    if best < MIN_CORRELATION or not (0 < i < 2 * rows and 0 < j < end - begin - 1):
        return None
    # Of columns the partner may have several, as along a fence: all of them have its row.
    if _rival(of_row, i) > best - MIN_LEAD:
        return None
    shift = _summit(scores[i - 1:i + 2, j - 1:j + 2])
    if shift is None:
        return None
    return _Partner(i - rows + shift, x - begin - j, _rival(scores[i], j) <= best - MIN_LEAD)


def _rival(scores: np.ndarray, place: int) -> float:
    """The best score that is no neighbour of a place."""
    before, behind = scores[:max(0, place - 2)], scores[place + 3:]
    return float(max(before.max(initial=-1), behind.max(initial=-1)))


def _summit(scores: np.ndarray) -> float | None:
    """Row of the maximum, from the middle, of the quadratic that fits 3 x 3 scores best."""
    s = scores.astype(np.float64)
    by_row, by_column = (s[2] - s[0]).sum() / 6, (s[:, 2] - s[:, 0]).sum() / 6
    rows = (s[0] - 2 * s[1] + s[2]).sum() / 3
    columns = (s[:, 0] - 2 * s[:, 1] + s[:, 2]).sum() / 3
    both = (s[0, 0] + s[2, 2] - s[0, 2] - s[2, 0]) / 4
    determinant = rows * columns - both * both
    if rows >= 0 or determinant <= 0:
        return None
    shift = (both * by_column - columns * by_row) / determinant
    return float(shift) if abs(shift) <= 1 else None


def _line(points: np.ndarray, width: int) -> VerticalOffset | None:
    """The line through offsets over columns: Theil and Sen's, the median of all slopes.

    :param points: N x 2, column and offset.
    """
    columns, offsets = points[:, 0] / max(1, width - 1) - 0.5, points[:, 1]
    if len(points) < MIN_POINTS or np.std(columns) < MIN_WIDTH:
        return None
    i, j = np.triu_indices(len(points), 1)
    apart = np.abs(columns[j] - columns[i]) > MIN_WIDTH
    tilt = float(np.median((offsets[j] - offsets[i])[apart] / (columns[j] - columns[i])[apart]))
    offset = float(np.median(offsets - tilt * columns))
    rest = np.abs(offsets - tilt * columns - offset)
    spread = _SIGMA * float(np.median(rest))
    agree = int(np.count_nonzero(rest <= 3 * MAX_SPREAD))
    if spread > MAX_SPREAD or agree < MIN_POINTS:
        return None
    return VerticalOffset(offset, tilt, spread, agree)
