"""The one rule by which holes of a disparity map are filled before it is scored as filled."""

from __future__ import annotations

import numpy as np


def fill_background(disparity: np.ndarray, valid: np.ndarray | None = None) -> np.ndarray:
    """A disparity for every pixel: float32 H x W; NaN only where no pixel at all is valid.

    Valid pixels keep theirs. A hole gets the smaller, that is the farther, of the nearest valid
    disparities left and right in its row, or the only one, as ``filling: background`` does
    inside the valid window. A row without any gets the smaller of the nearest filled rows above
    and below, column by column.

    disparity: H x W, pixels. NaN and infinity are holes.
    valid:     bool H x W, where `disparity` is an estimate; None: where it is finite.

    :raises ValueError: an array is not two-dimensional or not of the same shape.
    """
    if disparity.ndim != 2 or (valid is not None and valid.shape != disparity.shape):
        raise ValueError(f'a disparity of {disparity.shape} with valid pixels of '
                         f'{None if valid is None else valid.shape} cannot be filled')
    known = np.isfinite(disparity)
    if valid is not None:
        known &= valid.astype(bool)
    filled = np.where(known, disparity, np.nan).astype(np.float32)
    _fill_rows(filled, known)
    _fill_empty_rows(filled)
    return filled


def _fill_rows(values: np.ndarray, known: np.ndarray) -> None:
    """Every row by its own values; NaN stays in rows that have none."""
    if not known.any():
        return
    width, flat, holes = values.shape[1], values.reshape(-1), np.flatnonzero(~known)
    start = holes - holes % width
    flat[holes] = np.fmin(*(
        np.where((start <= place) & (place < start + width), flat[place], np.nan)
        for place in _find_nearest(known.reshape(-1), holes)))


def _fill_empty_rows(values: np.ndarray) -> None:
    """Rows without any value by the nearest others; every other row is whole."""
    known = np.isfinite(values[:, 0])
    if known.any():
        holes = np.flatnonzero(~known)
        values[holes] = np.fmin(*(values[place] for place in _find_nearest(known, holes)))


def _find_nearest(known: np.ndarray, holes: np.ndarray) -> list[np.ndarray]:
    """Indices of the known ones before and after each hole; at an end the only one twice."""
    places = np.flatnonzero(known)
    after = np.cumsum(known)[holes]
    return [places[np.clip(number, 0, places.size - 1)] for number in (after - 1, after)]
