"""Layouts of sets from the road: DrivingStereo, Argoverse stereo, Virtual KITTI 2."""

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
    calibration,
    images_in,
    matched,
    partners,
    partners_by_side,
)

DRIVING_STEREO_SCALES = {'half-size': 256.0, 'full-size': 128.0}
"""Grey levels per pixel of disparity in the 16-bit PNG files of DrivingStereo."""

VIRTUAL_SKY = 65535
"""Depth of the sky in Virtual KITTI 2, centimetres: the farthest that 16 bits hold."""


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


def argoverse(folder: Path) -> list[Entry] | None:
    """A log of Argoverse 1 stereo, or None. Names end with the stamp in nanoseconds."""
    name = 'stereo_front_{}_rect'
    left_folder, right_folder = (folder / name.format(side) for side in ('left', 'right'))
    if not (left_folder.is_dir() and right_folder.is_dir()):
        return None
    # The truths lie beside rectified_stereo_images_v1.1, below folders of the same names.
    split = folder.parent
    inside = f'{split.name}/{folder.name}/{left_folder.name}_disparity'
    truth_folder = next(iter(sorted(split.parent.parent.glob(f'disparity_maps*/{inside}'))), None)
    truths = {} if truth_folder is None else {
        path.stem.rpartition('_')[2]: path for path in images_in(truth_folder).values()}
    entries = []
    for key, left, right in partners_by_side(left_folder, right_folder):
        stamp = key.rpartition('_')[2]
        entries.append(Entry(
            stamp, left, right,
            functools.partial(files.read_disparity_png, truths[stamp])
            if stamp in truths else None,
            stamp_ns=int(stamp) if stamp.isdecimal() and len(stamp) < 20 else None,
            calibration=calibration(folder)))
    return entries


def virtual_kitti(folder: Path) -> list[Entry] | None:
    """A variation of a scene (Scene01/clone) in Virtual KITTI 2's names, or None."""
    frames = folder / 'frames'
    if not (frames / 'rgb' / 'Camera_0').is_dir():
        return None
    intrinsics = folder / 'intrinsic.txt'
    read = functools.partial(calibrations.read_virtual_kitti_calibration, intrinsics) \
        if intrinsics.is_file() else None
    entries = []
    for left, right in partners(frames / 'rgb' / 'Camera_0', frames / 'rgb' / 'Camera_1'):
        number = left.stem.rpartition('_')[2]
        depth = frames / 'depth' / 'Camera_0' / f'depth_{number}.png'
        seen = frames / 'classSegmentation' / 'Camera_0' / f'classgt_{number}.png'
        known = read is not None and depth.is_file()
        entries.append(Entry(
            left.stem, left, right,
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
