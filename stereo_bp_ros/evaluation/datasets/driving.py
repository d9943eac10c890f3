"""Layouts of sets from the road: KITTI 2012 and 2015, DrivingStereo, Virtual KITTI 2."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np

from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.evaluation import calibrations, files
from stereo_bp_ros.evaluation.datasets import classes
from stereo_bp_ros.evaluation.datasets.entries import (
    IMAGE_SUFFIXES,
    Entry,
    mask,
    matched,
    partners,
)

DRIVING_STEREO_SCALES = {'half-size': 256.0, 'full-size': 128.0}
"""Grey levels per pixel of disparity in the 16-bit PNG files of DrivingStereo."""

VIRTUAL_SKY = 65535
"""Depth of the sky in Virtual KITTI 2, centimetres: the farthest that 16 bits hold."""


def kitti2012(folder: Path) -> list[Entry] | None:
    """Grey images in image_0 and image_1, or None."""
    return _kitti(folder, ('image_0', 'image_1'), '', (0, 1))


def kitti2015(folder: Path) -> list[Entry] | None:
    """Colour images in image_2 and image_3, or None."""
    return _kitti(folder, ('image_2', 'image_3'), '_0', (2, 3))


def _kitti(folder: Path, sides: tuple[str, str], truth_suffix: str, cameras: tuple[int, int]
           ) -> list[Entry] | None:
    if (folder / 'training' / sides[0]).is_dir():
        folder = folder / 'training'
    left_folder, right_folder = (folder / side for side in sides)
    if not (left_folder.is_dir() and right_folder.is_dir()):
        return None
    entries = []
    for left, right in partners(left_folder, right_folder):
        known, visible = (folder / f'disp_{which}{truth_suffix}' / f'{left.stem}.png'
                          for which in ('occ', 'noc'))
        found = [path for path in (known, visible) if path.is_file()]
        entries.append(Entry(
            left.stem, left, right,
            functools.partial(files.read_disparity_png, found[0]) if found else None,
            calibration=_kitti_calibration(folder, left.stem.split('_')[0], cameras),
            vehicles=mask(folder / 'obj_map' / f'{left.stem}.png'),
            occluded=functools.partial(_occluded, *found) if len(found) == 2 else None,
            classes=classes.of_cityscapes(folder / 'semantic' / f'{left.stem}.png')))
    return entries


def _occluded(known: Path, visible: Path) -> np.ndarray:
    """Pixels with a truth in the first of two files alone."""
    has_truth, is_visible = (np.isfinite(files.read_disparity_png(path))
                             for path in (known, visible))
    if has_truth.shape != is_visible.shape:
        raise ValueError(f'{known} and {visible} have different sizes')
    return np.asarray(has_truth & ~is_visible)


def _kitti_calibration(folder: Path, number: str, cameras: tuple[int, int]
                       ) -> Callable[[], Calibration] | None:
    for name in ('calib', 'calib_cam_to_cam'):
        path = folder / name / f'{number}.txt'
        if path.is_file():
            return functools.partial(calibrations.read_kitti_calibration, path, cameras)
    return None


def driving_stereo(folder: Path) -> list[Entry] | None:
    """A folder of one weather, or that with the folders of the training or test part; or None.

    Half and full size of the same pairs are told apart by their names where both are there.
    """
    found = {size: entries for size in DRIVING_STEREO_SCALES
             if (entries := _driving_stereo(folder, size))}
    if not found:
        return None
    return [dataclasses.replace(entry, name=f'{size}/{entry.name}') if len(found) > 1 else entry
            for size, entries in found.items() for entry in entries]


def _driving_stereo(folder: Path, size: str) -> list[Entry]:
    kinds = ('left-image', 'right-image', 'disparity-map')
    places = [[folder / f'{kind}-{size}' for kind in kinds]]
    for part in ('train', 'test'):
        within = [folder / f'{part}-{kind}' / f'{kind}-{size}' for kind in kinds]
        # The training part comes in half size alone, without a folder that says so.
        direct = size == 'half-size' and not any(
            (folder / f'{part}-left-image' / f'left-image-{each}').is_dir()
            for each in DRIVING_STEREO_SCALES)
        places.append([folder / f'{part}-{kind}' for kind in kinds] if direct else within)
    entries = []
    # A drive has thousands of pairs: its file is looked for once.
    numbers = functools.cache(functools.partial(_driving_stereo_calibration, folder, size))
    for left_folder, right_folder, truth_folder in places:
        if not (left_folder.is_dir() and right_folder.is_dir()):
            continue
        truths = _below(truth_folder)
        pairs = matched(_below(left_folder), _below(right_folder), left_folder, right_folder)
        for left, right in pairs:
            truth = truths.get(left.with_suffix('.png').name)
            entries.append(Entry(
                left.stem, left, right, None if truth is None else functools.partial(
                    files.read_disparity_png, truth, DRIVING_STEREO_SCALES[size]),
                calibration=numbers(left.stem.split('_')[0])))
    return entries


def _below(folder: Path) -> dict[str, Path]:
    """Images by their names, however many folders lie in between (the drives have one each)."""
    return {path.name: path for path in sorted(folder.rglob('*'))
            if path.suffix.lower() in IMAGE_SUFFIXES}


def _driving_stereo_calibration(folder: Path, size: str, drive: str
                                ) -> Callable[[], Calibration] | None:
    """Of a drive, in the folder of the calibrations: beside the images, or one folder above."""
    name = f'{size.partition("-")[0]}-image-calib'
    for base in (folder, folder.parent):
        for inside in ('', 'calib', 'train-calib', 'test-calib'):
            path = base / inside / name / f'{drive}.txt'
            if path.is_file():
                return functools.partial(calibrations.read_calibration, path)
    return None


def virtual_kitti(folder: Path) -> list[Entry] | None:
    """Every variation of every scene below a folder, in Virtual KITTI 2's names; or None."""
    cameras = 'frames/rgb/Camera_0'
    found = [folder] if (folder / cameras).is_dir() else [
        path.parents[2] for pattern in (f'*/{cameras}', f'Scene*/*/{cameras}')
        for path in sorted(folder.glob(pattern))]
    if not found:
        return None
    entries = []
    for variation in found:
        frames = variation / 'frames'
        intrinsics = variation / 'intrinsic.txt'
        read = functools.partial(calibrations.read_virtual_kitti_calibration, intrinsics) \
            if intrinsics.is_file() else None
        inside = variation.relative_to(folder)
        for left, right in partners(frames / 'rgb' / 'Camera_0', frames / 'rgb' / 'Camera_1'):
            number = left.stem.rpartition('_')[2]
            depth = frames / 'depth' / 'Camera_0' / f'depth_{number}.png'
            seen = frames / 'classSegmentation' / 'Camera_0' / f'classgt_{number}.png'
            known = read is not None and depth.is_file()
            entries.append(Entry(
                (inside / left.stem).as_posix(), left, right,
                functools.partial(_from_depth, depth, read) if known and read else None,
                calibration=read,
                vehicles=functools.partial(classes.vehicles_of_virtual_kitti, seen)
                if seen.is_file() else None,
                sky=functools.partial(_is_sky, depth) if depth.is_file() else None,
                classes=classes.of_virtual_kitti(seen)))
    return entries


def _is_sky(depth: Path) -> np.ndarray:
    return np.asarray(files.read_grey(depth) >= VIRTUAL_SKY)


def _from_depth(path: Path, calibration: Callable[[], Calibration]) -> np.ndarray:
    """Disparity f B / Z of a depth in centimetres, NaN in the sky and where there is none (0)."""
    levels, numbers = files.read_grey(path), calibration()
    if levels.dtype != np.uint16:
        raise ValueError(f'depth {path} has 8 bits: it should have 16, in centimetres')
    known = (levels > 0) & (levels < VIRTUAL_SKY)
    metres = np.where(known, levels, 1) / 100.0
    disparity = numbers.focal_px * numbers.baseline_m / metres
    return np.asarray(np.where(known, disparity, np.nan), np.float32)
