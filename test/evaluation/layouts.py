"""Files of data sets as they come unpacked, of images that are small and of one value."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

import numpy as np

from stereo_bp_ros.images import files

SIZE = (4, 6)


def save(path: pathlib.Path, value: object = 0, size: tuple[int, ...] = SIZE) -> None:
    """An image of one grey level, 16 bits where 8 do not hold it; or that of an array."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not isinstance(value, np.ndarray):
        value = np.full(size, value, np.uint8 if value < 256 else np.uint16)
    files.write_image(path, value)


def save_pfm(path: pathlib.Path, disparity: float = 4.0, size: tuple[int, ...] = SIZE) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_pfm(path, np.full(size, disparity, np.float32))


def save_pair(folder: pathlib.Path, size: tuple[int, ...] = SIZE) -> None:
    """left.png and right.png."""
    save(folder / 'left.png', 10, size)
    save(folder / 'right.png', 20, size)


def build(folder: pathlib.Path, tree: Mapping[str, object], size: tuple[int, ...] = SIZE) -> None:
    """Files by their paths: of a text, an array, or an image of one number."""
    for name, content in tree.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            path.write_text(content)
        elif path.suffix == '.pfm':
            files.write_pfm(path, np.broadcast_to(np.float32(content), size))
        elif path.suffix in ('.ppm', '.jpg'):
            save(path, np.full((*size, 3), content, np.uint8))
        else:
            save(path, content, size)
