"""The definition of rectification in plain NumPy, as ``docs/explanation/algorithms.md`` has it."""

from __future__ import annotations

import numpy as np


def remapped(grey: np.ndarray, whole: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """A grey image, uint8 or float32, at the positions of fixed-point maps; 0 outside."""
    height, width = grey.shape
    x, y = whole[..., 0].astype(int), whole[..., 1].astype(int)
    right, down = (parts % 32).astype(int), (parts // 32).astype(int)

    def at(columns: np.ndarray, rows: np.ndarray) -> np.ndarray:
        is_inside = (columns >= 0) & (columns < width) & (rows >= 0) & (rows < height)
        values = grey[np.clip(rows, 0, height - 1), np.clip(columns, 0, width - 1)]
        return np.where(is_inside, values, grey.dtype.type(0))

    four = (at(x, y), at(x + 1, y), at(x, y + 1), at(x + 1, y + 1))
    weights = ((32 - right) * (32 - down), right * (32 - down), (32 - right) * down, right * down)
    if grey.dtype == np.uint8:
        total = sum(value.astype(int) * weight
                    for value, weight in zip(four, weights, strict=True))
        return ((total + 512) // 1024).astype(np.uint8)
    products = [value * (weight / 1024).astype(np.float32)
                for value, weight in zip(four, weights, strict=True)]
    return np.asarray(((products[0] + products[1]) + products[2]) + products[3])
