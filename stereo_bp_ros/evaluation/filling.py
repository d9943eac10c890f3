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
    filled = _fill_rows(np.where(known, disparity, np.nan).astype(np.float32))
    return np.ascontiguousarray(_fill_rows(filled.T).T)


def _fill_rows(values: np.ndarray) -> np.ndarray:
    """Every row by its own values; NaN stays in rows that have none."""
    known = np.isfinite(values)
    columns = np.arange(values.shape[1])
    left = np.maximum.accumulate(np.where(known, columns, -1), axis=1)
    right = np.minimum.accumulate(np.where(known, columns, columns.size)[:, ::-1], axis=1)[:, ::-1]
    # Both ends look at a further column, which has no value.
    padded = np.pad(values, ((0, 0), (0, 1)), constant_values=np.nan)
    return np.asarray(np.fmin(np.take_along_axis(padded, left, axis=1),
                              np.take_along_axis(padded, right, axis=1)))
