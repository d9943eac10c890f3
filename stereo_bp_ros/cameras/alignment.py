"""How the two images of a pair lie to each other: their rows, and the sign of disparities.

Corners of the left image are looked for in the right one by normalised cross-correlation, over the
columns of the disparity range and some rows. The disparity map is not used: it is wrong where the
rows do not match, and where the images are exchanged.
"""

from __future__ import annotations

from typing import NamedTuple

import cv2
import numpy as np

#: Images wider than this are made smaller by a whole number first, pixels.
MAX_WIDTH = 1920

#: Corners that are looked for, and how close together they may be, as a part of the width.
CORNERS, MIN_SPACING = 200, 1 / 40

#: Corners whose rows are measured: more of them, weaker ones, too, and closer together.
ROW_CORNERS, ROW_QUALITY, ROW_SPACING = 300, 0.003, 1 / 50

#: Half the side of the square that is compared, pixels.
HALF = 7

#: Rows up and down that are searched: most cameras need few, and many where few explain nothing.
SEARCHES = (6, 32)

#: Minimum correlation of a corner with its partner, and how much less any other row must have.
MIN_CORRELATION, MIN_LEAD = 0.8, 0.1

#: Half as many partners end the search of rows: those that are further apart are not looked for.
MIN_POINTS = 20

#: Rows that partners of a rectified pair are apart at most, pixels.
ROWS_APART = 0.75

#: Corners whose disparity is looked for on both sides of zero, the best ones first.
SIGNED_CORNERS = 80

#: How rows are refined: standard deviation of the filter before it, pixels, and rounds; maximum
#: standard deviation of rows that are kept, pixels.
REFINED_SIGMA, REFINEMENTS, MAX_ROW_SIGMA = 0.8, 6, 0.2


class _Partner(NamedTuple):
    """Where a corner of the left image lies in the right one, pixels.

    row:       rows further down.
    disparity: columns further to the left.
    is_single: whether no other column of its row looks like it.
    """

    row: float
    disparity: int
    is_single: bool


def row_points(left: np.ndarray, right: np.ndarray, first: int, last: int) -> np.ndarray:
    """By how many rows corners lie lower in the right image than in the left one.

    The places that correlation finds are refined: a plane of the scene moves columns by an affine
    function and rows by a constant, and brightness by a gain and an offset (Baker and Matthews,
    IJCV 2004, section 3.2, the inverse form).

    :param left, right: uint8 or float32 H x W, grey values.
    :param first, last: disparities that are searched, pixels of the left image.
    :returns: float64 N x 3, pixels: column in the right image, row in the left image, and rows.
    """
    left, right, factor = _reduced(left, right)
    disparities = range(first // factor - 1, -(-last // factor) + 2)
    places = _corners(left, ROW_CORNERS, ROW_QUALITY, ROW_SPACING)
    for rows in SEARCHES:
        found = [(x, y, partner.disparity, partner.row) for x, y in places
                 if (partner := _partner(left, right, x, y, rows, disparities)) is not None]
        if 2 * len(found) >= MIN_POINTS:
            break
    refined = _refined(left, right, np.array(found)) if found else np.zeros((0, 3))
    # The middle of the pixels that were made one is not their first one.
    return refined * factor + np.array([factor - 1, factor - 1, 0]) / 2


def _refined(left: np.ndarray, right: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Refine partners of corners; those that do not converge nearby are left out.

    :param found: N x 4: column and row of a corner, its disparity, and rows.
    :returns: as ``row_points``.
    """
    left, right = (cv2.GaussianBlur(image.astype(np.float32), (0, 0), REFINED_SIGMA)
                   for image in (left, right))
    by_row, by_column = np.mgrid[-HALF:HALF + 1, -HALF:HALF + 1].reshape(2, 1, -1)
    x, y, disparity, rows = found.T[:, :, None]
    at = (y + by_row).astype(int), (x + by_column).astype(int)
    template = left[at]
    gradient_x, gradient_y = (cv2.Scharr(left, cv2.CV_32F, *axis, scale=1 / 32)[at]
                              for axis in ((1, 0), (0, 1)))
    jacobian = np.stack([gradient_y, gradient_x, gradient_x * by_column, gradient_x * by_row,
                         np.ones_like(template), template], axis=2).astype(np.float64)
    transposed = jacobian.transpose(0, 2, 1)
    inverse = np.linalg.pinv(transposed @ jacobian, hermitian=True)
    solve = inverse @ transposed
    move = np.zeros((len(found), 4))
    start = rows[:, 0].copy()
    for _ in range(REFINEMENTS):
        # OpenCV rounds places so: what is left of rows is for the next round.
        step = np.rint((start - move[:, 0]) * 32) / 32
        move[:, 0] = start - step
        seen = cv2.remap(right, (
            x + by_column - disparity - move[:, 1:2] - move[:, 2:3] * by_column
            - move[:, 3:4] * by_row).astype(np.float32), (
            y + by_row + step[:, None]).astype(np.float32), cv2.INTER_LANCZOS4,
            borderMode=cv2.BORDER_REPLICATE)
        error = seen - template
        change = (solve @ error[..., None])[..., 0]
        move += change[:, :4]
    rest = error - (jacobian @ change[..., None])[..., 0]
    sigma = np.sqrt((rest**2).mean(axis=1) * inverse[:, 0, 0])
    good = ((np.abs(move[:, :2]) <= 1).all(axis=1) & (sigma <= MAX_ROW_SIGMA)
            & (np.abs(change[:, 0]) < 0.05))
    return np.stack([x[:, 0] - disparity[:, 0] - move[:, 1], y[:, 0], start - move[:, 0]],
                    axis=1)[good].astype(np.float64)


def corner_disparities(left: np.ndarray, right: np.ndarray, first: int, last: int) -> np.ndarray:
    """Disparities of corners that have one partner only in all columns of a range, pixels.

    :param left, right: as ``row_points``.
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

    :param left, right: as ``row_points``.
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

    :param left, right: as ``row_points``.
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
        size = (left.shape[1] // factor, max(1, left.shape[0] // factor))
        left, right = (cv2.resize(image[:size[1] * factor, :size[0] * factor], size,
                                  interpolation=cv2.INTER_AREA) for image in (left, right))
    return left, right, factor


def _corners(image: np.ndarray, count: int, quality: float = 0.01, spacing: float = MIN_SPACING
             ) -> np.ndarray:
    """Columns and rows of the best corners, int N x 2.

    :param quality: of the worst one, as a part of the best one's.
    :param spacing: as a part of the width.
    """
    width = image.shape[1]
    corners = cv2.goodFeaturesToTrack(image, count, quality, max(HALF, width * spacing))
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
    before, after = scores[:max(0, place - 2)], scores[place + 3:]
    return float(max(before.max(initial=-1), after.max(initial=-1)))


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
