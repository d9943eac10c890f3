"""Masks of classes, as data sets store them: a picture a class, numbers, or colours."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from stereo_bp_ros.errors import shown
from stereo_bp_ros.evaluation import files

Classes = Mapping[str, np.ndarray]
"""Name of a class to bool H x W: where it is."""

ClassReader = Callable[[], Classes]

CITYSCAPES = dict(enumerate((
    'static', 'dynamic', 'ground', 'road', 'sidewalk', 'parking', 'rail_track', 'building', 'wall',
    'fence', 'guard_rail', 'bridge', 'tunnel', 'pole', 'polegroup', 'traffic_light',
    'traffic_sign', 'vegetation', 'terrain', 'sky', 'person', 'rider', 'car', 'truck', 'bus',
    'caravan', 'trailer', 'train', 'motorcycle', 'bicycle'), start=4))
"""Classes by their numbers in Cityscapes, which KITTI's semantic benchmark shares; below 4 there
is nothing that a class is given to."""

VIRTUAL_KITTI = {
    'terrain': 0xd200c8, 'sky': 0x5ac8ff, 'tree': 0x00c700, 'vegetation': 0x5af000,
    'building': 0x8c8c8c, 'road': 0x643c64, 'guard_rail': 0xfa64ff, 'traffic_sign': 0xffff00,
    'traffic_light': 0xc8c800, 'pole': 0xff8200, 'misc': 0x505050, 'truck': 0xa03c3c,
    'car': 0xff7f50, 'van': 0x008b8b}
"""Colours (rgb) of the classes of Virtual KITTI 2."""

VIRTUAL_VEHICLES = ('truck', 'car', 'van')


def of_folder(folder: Path) -> ClassReader | None:
    """Of masks NAME.png in a folder; None where there is no such folder."""
    return functools.partial(_read_folder, folder) if folder.is_dir() else None


def of_cityscapes(path: Path) -> ClassReader | None:
    """Of a grey image with numbers of Cityscapes; None where there is no such file."""
    return functools.partial(_read_cityscapes, path) if path.is_file() else None


def of_virtual_kitti(path: Path) -> ClassReader | None:
    """Of an image in colours of Virtual KITTI 2; None where there is no such file."""
    return functools.partial(_read_virtual_kitti, path) if path.is_file() else None


def vehicles_of_virtual_kitti(path: Path) -> np.ndarray:
    """Where such an image has a truck, a car or a van, bool H x W."""
    codes = _virtual_kitti_codes(path)
    return np.isin(codes, [VIRTUAL_KITTI[name] for name in VIRTUAL_VEHICLES])


def _read_folder(folder: Path) -> Classes:
    paths = sorted(folder.glob('*.png'))
    for path in paths:
        if not re.fullmatch(r'[a-z][a-z0-9_]*', path.stem):
            raise ValueError(f'{path}: a class is named {shown(path.stem)}, but a name has small '
                             'letters, digits and _, and begins with a letter')
    return {path.stem: files.read_mask(path) for path in paths}


def _read_cityscapes(path: Path) -> Classes:
    return _masks(files.read_grey(path), CITYSCAPES)


def _read_virtual_kitti(path: Path) -> Classes:
    return _masks(_virtual_kitti_codes(path),
                  {colour: name for name, colour in VIRTUAL_KITTI.items()})


def _virtual_kitti_codes(path: Path) -> np.ndarray:
    image = files.read_image(path)
    if image.ndim != 3:
        raise ValueError(f'classes {path} are grey, but should have a colour each')
    red, green, blue = np.moveaxis(image.astype(np.uint32), 2, 0)
    return np.asarray(red << 16 | green << 8 | blue)


def _masks(codes: np.ndarray, names: Mapping[int, str]) -> Classes:
    """Of the classes that are there."""
    return {names[code]: codes == code for code in np.unique(codes).tolist() if code in names}
