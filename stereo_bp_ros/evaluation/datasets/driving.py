"""Layouts of recorded sets from the road: KITTI, KITTI-360, DrivingStereo and Argoverse stereo.

A. Geiger, P. Lenz and R. Urtasun, "Are we ready for autonomous driving? The KITTI vision benchmark
suite", CVPR 2012, and M. Menze and A. Geiger, "Object scene flow for autonomous vehicles", CVPR
2015. Cameras 0 and 1 of KITTI are grey, 2 and 3 in colour; each pair has a baseline of its own.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np

from stereo_bp_ros import files
from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.evaluation.datasets.entries import (
    IMAGE_SUFFIXES,
    Entry,
    defer,
    defer_calibration,
    find_folders,
    list_images,
    pair_by_name,
    pair_by_side,
    pair_images,
    read_cityscapes,
)

#: Stamp of a sequence whose times begin at 0, which ROS takes for no time at all.
FIRST_STAMP_NS = 10**18

#: Grey levels per pixel of disparity in the 16-bit PNG files of DrivingStereo.
DRIVING_STEREO_SCALES = {'half-size': 256.0, 'full-size': 128.0}


def kitti_grey(folder: Path) -> list[Entry] | None:
    """Grey images in image_0 and image_1, or None.

    Where only the colour images beside them have a truth, those are the pairs.
    """
    folder = _training(folder, 'image_0')
    in_colour = (folder / 'image_2').is_dir() and _has_truth(folder, '_0')
    if in_colour and not _has_truth(folder, ''):
        return None
    return _kitti_pairs(folder, 'image_0', 'image_1')


def kitti_colour(folder: Path) -> list[Entry] | None:
    """Colour images in image_2 and image_3, or None."""
    return _kitti_pairs(_training(folder, 'image_2'), 'image_2', 'image_3', truth_suffix='_0')


def kitti_grey_in_colour(folder: Path) -> list[Entry] | None:
    """Colour images of 2012 in colored_0 and colored_1, or None.

    What the field compares them with is the truth of the grey left camera, 6 cm beside.
    """
    return _kitti_pairs(_training(folder, 'colored_0'), 'colored_0', 'colored_1')


def kitti_raw(folder: Path) -> list[Entry] | None:
    """A drive of the raw data, rectified ('sync'), or of KITTI-360; the grey pair comes first."""
    pairs = (_kitti_pairs(folder, f'{left}/{inside}', f'{right}/{inside}')
             for left, right in (('image_00', 'image_01'), ('image_02', 'image_03'))
             for inside in ('data', 'data_rect'))
    return next((found for found in pairs if found is not None), None)


def _training(folder: Path, left: str) -> Path:
    """The folder itself, or its part with a truth."""
    return folder / 'training' if (folder / 'training' / left).is_dir() else folder


def _has_truth(folder: Path, suffix: str) -> bool:
    return any((folder / f'disp_{which}{suffix}').is_dir() for which in ('occ', 'noc'))


def _kitti_pairs(folder: Path, left_name: str, right_name: str, truth_suffix: str = ''
           ) -> list[Entry] | None:
    folders = find_folders(folder, left_name, right_name)
    if folders is None:
        return None
    entries = []
    stamps = _stamps(folder, folders[0])
    of_all = _kitti_calibration_of_all(folder)
    for left, right in pair_by_name(*folders):
        name = f'{left.stem}.png'
        known, visible = (folder / f'disp_{which}{truth_suffix}' / name
                          for which in ('occ', 'noc'))
        is_numbered = left.stem.isdecimal() and int(left.stem) < len(stamps)
        entries.append(Entry(
            left.stem, left, right,
            defer(files.read_disparity_png, known) or defer(files.read_disparity_png, visible),
            stamp_ns=stamps[int(left.stem)] if is_numbered else None,
            calibration=defer(Calibration.from_file, _kitti_calibration(folder, left) or of_all,
                              image=left),
            vehicles=defer(files.read_mask, folder / 'obj_map' / name),
            occluded=defer(_occluded, known, visible),
            classes=defer(read_cityscapes, folder / 'semantic' / name)))
    return entries


def _occluded(known: Path, visible: Path) -> np.ndarray:
    """Pixels with a truth in the first of two files alone."""
    has_truth, is_visible = (np.isfinite(files.read_disparity_png(path))
                             for path in (known, visible))
    if has_truth.shape != is_visible.shape:
        raise ValueError(f'{known} and {visible} have different sizes')
    return np.asarray(has_truth & ~is_visible)


def _kitti_calibration(folder: Path, left: Path) -> Path | None:
    number = left.stem.split('_')[0]
    return next((path for name in ('calib', 'calib_cam_to_cam')
                 if (path := folder / name / f'{number}.txt').is_file()), None)


def _kitti_calibration_of_all(folder: Path) -> Path | None:
    """Of a sequence or a day of drives: one file for all images."""
    places = (folder / 'calib.txt', folder / 'calib_cam_to_cam.txt',
              folder.parent / 'calib_cam_to_cam.txt',
              folder.parent.parent / 'calibration' / 'perspective.txt')
    return next((path for path in places if path.is_file()), None)


def _stamps(folder: Path, left_folder: Path) -> list[int]:
    """Times of the images by the numbers that are their names; none without a file of times.

    times.txt of odometry has seconds from the first image on, timestamps.txt of raw data dates.
    """
    for path in (folder / 'times.txt', left_folder.parent / 'timestamps.txt'):
        if not path.is_file():
            continue
        lines = files.read_text(path, 'file of times').split('\n')
        try:
            return [_stamp_ns(line) for line in lines if line.strip()]
        except (ValueError, OverflowError) as error:
            raise ValueError(f'{path} has a line that is no time: {error}') from error
    return []


def _stamp_ns(line: str) -> int:
    if ':' in line:
        return max(0, int(np.datetime64(line.strip(), 'ns').astype(np.int64)))
    seconds = float(line)
    if not 0 <= seconds < 1e9:
        raise ValueError(f'{line.strip():.40} is not between 0 and 1e9 s')
    return FIRST_STAMP_NS + round(seconds * 1e9)


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
        truths = _images_below(truth_folder)
        pairs = pair_images(_images_below(left_folder), _images_below(right_folder), left_folder,
                            right_folder)
        for left, right in pairs:
            entries.append(Entry(
                left.stem, left, right,
                defer(files.read_disparity_png, truths.get(left.with_suffix('.png').name),
                      scale=DRIVING_STEREO_SCALES[size]),
                calibration=numbers(left.stem.split('_')[0])))
    return entries


def _images_below(folder: Path) -> dict[str, Path]:
    """Images by their names, however many folders lie in between (the drives have one each)."""
    return {path.name: path for path in sorted(folder.rglob('*'))
            if path.suffix.lower() in IMAGE_SUFFIXES}


def _driving_stereo_calibration(folder: Path, size: str, drive: str
                                ) -> Callable[[], Calibration] | None:
    """Of a drive, in the folder of the calibrations: beside the images, or one folder above."""
    name = f'{size.partition("-")[0]}-image-calib'
    found = (defer(Calibration.from_file, base / inside / name / f'{drive}.txt')
             for base in (folder, folder.parent)
             for inside in ('', 'calib', 'train-calib', 'test-calib'))
    return next(filter(None, found), None)


def argoverse(folder: Path) -> list[Entry] | None:
    """A log of Argoverse 1 stereo, or None. Names end with the stamp in nanoseconds."""
    folders = find_folders(folder, 'stereo_front_left_rect', 'stereo_front_right_rect')
    if folders is None:
        return None
    # The truths lie beside rectified_stereo_images_v1.1, below folders of the same names.
    split = folder.parent
    inside = f'{split.name}/{folder.name}/{folders[0].name}_disparity'
    truths = {path.stem.rpartition('_')[2]: path
              for place in sorted(split.parent.parent.glob(f'disparity_maps*/{inside}'))[:1]
              for path in list_images(place).values()}
    entries = []
    for name, left, right in pair_by_side(*folders):
        stamp = name.rpartition('_')[2]
        entries.append(Entry(
            stamp, left, right, defer(files.read_disparity_png, truths.get(stamp)),
            stamp_ns=int(stamp) if stamp.isdecimal() and len(stamp) < 20 else None,
            calibration=defer_calibration(folder)))
    return entries
