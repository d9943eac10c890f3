"""Reduction of images and enlargement of disparities, pixel by pixel in plain NumPy."""

from __future__ import annotations

import numpy as np

INVALID = -16


def reduced(grey: np.ndarray, factor: int) -> np.ndarray:
    """Means of blocks of whole numbers, rounded half up; a smaller image is continued."""
    height, width = (max(1, side // factor) for side in grey.shape)
    padded = np.pad(grey.astype(np.int64), factor, mode='edge')[factor:, factor:]
    blocks = padded[:height * factor, :width * factor].reshape(height, factor, width, factor)
    return np.floor(blocks.mean((1, 3)) + 0.5).astype(int)


def enlarged(values: np.ndarray, factor: int, shape: tuple[int, int]) -> np.ndarray:
    """Sixteenths of a pixel from sixteenths of a reduced pixel."""
    height, width = values.shape
    out = np.empty(shape, int)
    for y in range(shape[0]):
        for x in range(shape[1]):
            own = int(values[min(y // factor, height - 1), min(x // factor, width - 1)])
            # Where the centre of the pixel lies among those of reduced pixels.
            v, u = (y + 0.5) / factor - 0.5, (x + 0.5) / factor - 0.5
            total = 0.0
            for j in (int(np.floor(v)), int(np.floor(v)) + 1):
                for i in (int(np.floor(u)), int(np.floor(u)) + 1):
                    found = int(values[min(max(j, 0), height - 1), min(max(i, 0), width - 1)])
                    if found < 0 or abs(found - own) > 16:
                        found = own
                    total += (1 - abs(v - j)) * (1 - abs(u - i)) * found
            out[y, x] = INVALID if own < 0 else np.floor(factor * total + 0.5 + 1e-6)
    return out


def repeated(values: np.ndarray, factor: int, shape: tuple[int, int]) -> np.ndarray:
    """Each value for all pixels of its block, the last ones for what is left over."""
    rows = np.minimum(np.arange(shape[0]) // factor, values.shape[0] - 1)
    columns = np.minimum(np.arange(shape[1]) // factor, values.shape[1] - 1)
    return values[np.ix_(rows, columns)]
