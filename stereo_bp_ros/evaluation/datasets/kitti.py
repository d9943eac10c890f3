"""Layouts of KITTI: the benchmarks of 2012 and 2015, odometry and raw data; and of KITTI-360.

A. Geiger, P. Lenz and R. Urtasun, "Are we ready for autonomous driving? The KITTI vision benchmark
suite", CVPR 2012, and M. Menze and A. Geiger, "Object scene flow for autonomous vehicles", CVPR
2015. Cameras 0 and 1 are grey, 2 and 3 in colour; each pair has a baseline of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np

from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.evaluation import calibrations, files
from stereo_bp_ros.evaluation.datasets import classes
from stereo_bp_ros.evaluation.datasets.entries import Entry, mask, partners

FIRST_STAMP_NS = 10**18
"""Stamp of a sequence whose times begin at 0, which ROS takes for no time at all."""


def grey(folder: Path) -> list[Entry] | None:
    """Grey images in image_0 and image_1, or None.

    Where only the colour images beside them have a truth, those are the pairs.
    """
    folder = _training(folder, 'image_0')
    in_colour = (folder / 'image_2').is_dir() and _has_truth(folder, '_0')
    if in_colour and not _has_truth(folder, ''):
        return None
    return _pairs(folder, 'image_0', 'image_1', truth_suffix='')


def colour(folder: Path) -> list[Entry] | None:
    """Colour images in image_2 and image_3, or None."""
    return _pairs(_training(folder, 'image_2'), 'image_2', 'image_3', truth_suffix='_0')


def grey_in_colour(folder: Path) -> list[Entry] | None:
    """Colour images of 2012 in colored_0 and colored_1, or None.

    What the field compares them with is the truth of the grey left camera, 6 cm beside.
    """
    return _pairs(_training(folder, 'colored_0'), 'colored_0', 'colored_1')


def raw(folder: Path) -> list[Entry] | None:
    """A drive of the raw data, rectified ('sync'), or of KITTI-360; the grey pair comes first."""
    for left, right in (('image_00', 'image_01'), ('image_02', 'image_03')):
        for inside in ('data', 'data_rect'):
            entries = _pairs(folder, f'{left}/{inside}', f'{right}/{inside}')
            if entries is not None:
                return entries
    return None


def _training(folder: Path, left: str) -> Path:
    """The folder itself, or its part with a truth."""
    return folder / 'training' if (folder / 'training' / left).is_dir() else folder


def _has_truth(folder: Path, suffix: str) -> bool:
    return any((folder / f'disp_{which}{suffix}').is_dir() for which in ('occ', 'noc'))


def _pairs(folder: Path, left_name: str, right_name: str, truth_suffix: str = ''
           ) -> list[Entry] | None:
    left_folder, right_folder = folder / left_name, folder / right_name
    if not (left_folder.is_dir() and right_folder.is_dir()):
        return None
    entries = []
    stamps = _stamps(folder, left_folder)
    of_all = _calibration_of_all(folder)
    for left, right in partners(left_folder, right_folder):
        known, visible = (folder / f'disp_{which}{truth_suffix}' / f'{left.stem}.png'
                          for which in ('occ', 'noc'))
        found = [path for path in (known, visible) if path.is_file()]
        entries.append(Entry(
            left.stem, left, right,
            functools.partial(files.read_disparity_png, found[0]) if found else None,
            stamp_ns=stamps[int(left.stem)]
            if left.stem.isdecimal() and int(left.stem) < len(stamps) else None,
            calibration=_calibration(folder, left, of_all),
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


def _calibration(folder: Path, left: Path, of_all: Path | None
                 ) -> Callable[[], Calibration] | None:
    """Of the cameras that the left image's folder tells."""
    number = left.stem.split('_')[0]
    found = next((path for name in ('calib', 'calib_cam_to_cam')
                  if (path := folder / name / f'{number}.txt').is_file()), of_all)
    return None if found is None else functools.partial(
        calibrations.read_calibration, found, left)


def _calibration_of_all(folder: Path) -> Path | None:
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
