"""By how many rows the two images of a pair miss each other: a mounting that has moved.

Corners of the left image are looked for in the right one by normalised cross-correlation, over the
columns of the disparity range and some rows. The disparity map is not used: it is wrong where the
rows do not match.
"""

from __future__ import annotations

import dataclasses

import cv2
import numpy as np

#: Images wider than this are made smaller by a whole number first, pixels.
WIDEST = 1920

#: Corners that are looked for, and how close together they may be, as a part of the width.
CORNERS, APART = 200, 1 / 40

#: Half the side of the square that is compared, pixels.
HALF = 7

#: Rows up and down that are searched: most cameras need few, and many where few explain nothing.
SEARCHES = (6, 32)

#: Least correlation of a corner with its partner, and how much less any other row must have.
LEAST_CORRELATION, LEAST_LEAD = 0.8, 0.1

#: What an estimate needs: so many points within three times the most spread, pixels, and so much
#: standard deviation of their columns, as a part of the width.
LEAST_POINTS, MOST_SPREAD, LEAST_WIDTH = 20, 0.75, 0.12

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


def vertical_offset(left: np.ndarray, right: np.ndarray, first: int, last: int
                    ) -> VerticalOffset | None:
    """Estimate the vertical offset of a pair; None where it cannot be told.

    It cannot where there are few corners, where none of them has one partner, and where the
    partners contradict each other: other images, no texture, rows that repeat themselves.

    :param left, right: uint8 or float32 H x W, grey values.
    :param first, last: disparities that are searched, pixels of the left image.
    """
    factor = -(-left.shape[1] // WIDEST)
    if factor > 1:
        size = (left.shape[1] // factor, left.shape[0] // factor)
        left, right = (cv2.resize(image[:size[1] * factor, :size[0] * factor], size,
                                  interpolation=cv2.INTER_AREA) for image in (left, right))
    width = left.shape[1]
    corners = cv2.goodFeaturesToTrack(left, CORNERS, 0.01, max(HALF, width * APART))
    if corners is None:
        return None
    places = np.rint(corners[:, 0]).astype(int)
    for rows in SEARCHES:
        found = [(x, row) for x, y in places for row in _partner_row(
            left, right, x, y, rows, range(first // factor - 1, -(-last // factor) + 2))]
        estimate = _line(np.array(found).reshape(-1, 2), width)
        if estimate is not None:
            return dataclasses.replace(
                estimate, offset=estimate.offset * factor, tilt=estimate.tilt * factor,
                spread=estimate.spread * factor)
    return None


def _partner_row(left: np.ndarray, right: np.ndarray, x: int, y: int, rows: int,
                 disparities: range) -> list[float]:
    """Rows from a corner of the left image down to its partner; none where it has not just one."""
    height, width = left.shape
    begin, end = max(HALF, x - disparities[-1]), min(width - HALF, x - disparities[0] + 1)
    if end - begin < 3 or not (HALF <= x < width - HALF
                               and HALF + rows <= y < height - HALF - rows):
        return []
    scores = cv2.matchTemplate(
        right[y - rows - HALF:y + rows + HALF + 1, begin - HALF:end + HALF],
        left[y - HALF:y + HALF + 1, x - HALF:x + HALF + 1], cv2.TM_CCOEFF_NORMED)
    of_row = scores.max(axis=1)
    i = int(of_row.argmax())
    j = int(scores[i].argmax())
    best = of_row[i]
    if best < LEAST_CORRELATION or not (0 < i < 2 * rows and 0 < j < end - begin - 1):
        return []
    # Of columns the partner may have several, as along a fence: all of them have its row.
    if max(of_row[:max(0, i - 2)].max(initial=-1), of_row[i + 3:].max(initial=-1)
           ) > best - LEAST_LEAD:
        return []
    return [i - rows + shift for shift in _summit(scores[i - 1:i + 2, j - 1:j + 2])]


def _summit(scores: np.ndarray) -> list[float]:
    """Row of the maximum, from the middle, of the quadratic that fits 3 x 3 scores best."""
    s = scores.astype(np.float64)
    by_row, by_column = (s[2] - s[0]).sum() / 6, (s[:, 2] - s[:, 0]).sum() / 6
    rows = (s[0] - 2 * s[1] + s[2]).sum() / 3
    columns = (s[:, 0] - 2 * s[:, 1] + s[:, 2]).sum() / 3
    both = (s[0, 0] + s[2, 2] - s[0, 2] - s[2, 0]) / 4
    determinant = rows * columns - both * both
    if rows >= 0 or determinant <= 0:
        return []
    shift = (both * by_column - columns * by_row) / determinant
    return [float(shift)] if abs(shift) <= 1 else []


def _line(points: np.ndarray, width: int) -> VerticalOffset | None:
    """The line through offsets over columns: Theil and Sen's, the median of all slopes.

    :param points: N x 2, column and offset.
    """
    columns, offsets = points[:, 0] / max(1, width - 1) - 0.5, points[:, 1]
    if len(points) < LEAST_POINTS or np.std(columns) < LEAST_WIDTH:
        return None
    i, j = np.triu_indices(len(points), 1)
    apart = np.abs(columns[j] - columns[i]) > LEAST_WIDTH
    tilt = float(np.median((offsets[j] - offsets[i])[apart] / (columns[j] - columns[i])[apart]))
    offset = float(np.median(offsets - tilt * columns))
    rest = np.abs(offsets - tilt * columns - offset)
    spread = _SIGMA * float(np.median(rest))
    agree = int(np.count_nonzero(rest <= 3 * MOST_SPREAD))
    if spread > MOST_SPREAD or agree < LEAST_POINTS:
        return None
    return VerticalOffset(offset, tilt, spread, agree)
