"""Layouts of Middlebury's sets by their years, and of ETH3D, which took over that of 2014.

D. Scharstein and R. Szeliski, "A taxonomy and evaluation of dense two-frame stereo
correspondence algorithms", IJCV 2002, and the pages of each year on vision.middlebury.edu/stereo.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from stereo_bp_ros import files
from stereo_bp_ros.bounded import MAX_TEXT_BYTES
from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.errors import shown
from stereo_bp_ros.evaluation.datasets.entries import (
    GROUND_TRUTH,
    Entry,
    Reader,
    defer,
    defer_calibration,
    find_image,
    find_pair,
    list_folders,
)

#: Left and right image and truth of the only set of 2001 with names of its own.
TSUKUBA = ('scene1.row3.col3', 'scene1.row3.col4', 'truedisp.row3.col3')

TSUKUBA_SCALE = 16.0

#: Rows of the images of 2003 at quarter, half and full size, and grey levels per pixel there.
SCALES_2003 = {375: 4.0, 750: 2.0, 1500: 1.0}

#: Rows of the images of 2001, which come in one size, and their grey levels per pixel.
ROWS_2001, SCALE_2001 = range(376, 401), 8.0

#: Rows of the images of 2005 and 2006 at full, half and third size; disparities are stored in
#: pixels of the full size.
SCALES_2006 = {1110: 1.0, 555: 2.0, 370: 3.0}

#: Names of the truth since 2014; the first that is there is taken.
TRUTHS_2014 = ('disp0.pfm', 'disp0GT.pfm')

MASK_2014 = 'mask0nocc.png'

#: Of all sets of 2005 and 2006: pixels at full size, metres.
FOCAL_2006, BASELINE_2006 = 3740.0, 0.160

UNKNOWN_SCALE = ('so that its scale is unknown: rename to left.png, right.png and disparity.png, '
                 'and say it in sets.yaml')


def tsukuba(folder: Path) -> list[Entry] | None:
    """The set 'tsukuba' of 2001, or None."""
    *names, truth = TSUKUBA
    pair = find_pair(folder, *names)
    return pair and [Entry(folder.name, *pair, defer(
        files.read_disparity_png, find_image(folder, truth), scale=TSUKUBA_SCALE))]


def from_2001_or_2003(folder: Path) -> list[Entry] | None:
    """Views im0 to im8, of which im2 and im6 have the truths disp2 and disp6; or None."""
    pair = find_pair(folder, 'im2', 'im6')
    return pair and [Entry(folder.name, *pair, defer(_truth_2003, find_image(folder, 'disp2')))]


def _truth_2003(path: Path) -> np.ndarray:
    disparity = files.read_disparity_png(path, 1)
    rows = disparity.shape[0]
    scale = SCALE_2001 if rows in ROWS_2001 else SCALES_2003.get(rows)
    if scale is None:
        raise ValueError(f'{path} has {rows} rows, as no set of Middlebury 2001 (380 to 383) or '
                         f'2003 (375, 750, 1500) has, {UNKNOWN_SCALE}')
    return np.asarray(disparity / np.float32(scale))


def from_2005_or_2006(folder: Path) -> list[Entry] | None:
    """Views view0 to view6, of which view1 and view5 have the truths disp1 and disp5; or None.

    Images and truths are cropped by ``dmin.txt`` pixels of the full size, which belong to a depth
    but not to the disparity between the images: the calibration has them as its shift.
    """
    pair = find_pair(folder, 'view1', 'view5')
    return pair and [Entry(
        folder.name, *pair, defer(_truth_2006, folder / 'disp1.png'),
        calibration=defer(_calibration_2006, folder / 'dmin.txt', pair[0]))]


def _truth_2006(path: Path) -> np.ndarray:
    disparity = files.read_disparity_png(path, 1)
    return np.asarray(disparity / np.float32(_scale_2006(path, disparity.shape[0])))


def _scale_2006(path: Path, rows: int) -> float:
    for full, scale in SCALES_2006.items():
        # 2005 and 2006 crop a set by a few rows.
        if abs(rows - full) <= full * 0.02:
            return scale
    raise ValueError(f'{path} has {rows} rows, as none of Middlebury 2005 and 2006 has (full size '
                     f'1110, half 555, third 370), {UNKNOWN_SCALE}')


def _calibration_2006(path: Path, left: Path) -> Calibration:
    height, width = files.read_image(left).shape[:2]
    scale = _scale_2006(left, height)
    text = files.read_text(path, 'calibration').strip()
    if not re.fullmatch(r'[0-9]{1,5}(\.[0-9]{1,9})?', text):
        raise ValueError(f'{path} is {shown(text)}, but must be the number of pixels by which '
                         'the images are cropped')
    # The sets say only that the principal point is that of the image.
    cx = (width - 1) / 2
    return Calibration(FOCAL_2006 / scale, BASELINE_2006, cx, cx + float(text) / scale,
                       (height - 1) / 2)


def since_2014(folder: Path) -> list[Entry] | None:
    """im0 and im1 with calib.txt, of 2014, 2021, the third evaluation, or ETH3D; or None."""
    pair = find_pair(folder, 'im0', 'im1')
    if pair is None:
        return None
    truth: Reader | None = None
    occluded: Reader | None = None
    place = next((path for folder_of_truth in _truth_folders(folder) for name in TRUTHS_2014
                  if (path := folder_of_truth / name).is_file()), None)
    if place is not None:
        truth = functools.partial(files.read_pfm, place)
        for path in (folder / MASK_2014, place.with_name(MASK_2014)):
            occluded = occluded or defer(_occluded, path, truth=truth)
    return [Entry(folder.name, *pair, truth, calibration=defer_calibration(folder),
                  disparities=_ndisp(folder / 'calib.txt'), occluded=occluded)]


def _truth_folders(folder: Path) -> Iterator[Path]:
    """Folders that may have the truth of a set: itself, or one of its name in a tree of truths.

    ETH3D has them in two_view_training_gt, the third evaluation of Middlebury in an archive of
    its own, which people unpack beside that of the images or in place of it.
    """
    yield folder
    part = folder.parent
    for above in part.parents[:3]:
        for tree in list_folders(above):
            if GROUND_TRUTH.search(tree.name):
                yield tree / part.parent.name / part.name / folder.name
                yield tree / part.name / folder.name
                if tree.name.startswith(part.name):
                    yield tree / folder.name


def _occluded(path: Path, truth: Reader) -> np.ndarray:
    """Known pixels that the mask does not call visible (255): it has 128 there."""
    known, levels = np.isfinite(truth()), files.read_grey(path)
    if levels.shape != known.shape:
        raise ValueError(f'the mask {path} is {levels.shape[1]} x {levels.shape[0]}, the ground '
                         f'truth {known.shape[1]} x {known.shape[0]}')
    return np.asarray(known & (levels != 255))


def _ndisp(path: Path) -> int | None:
    if not path.is_file():
        return None
    for line in files.read_bytes(path, 'calibration', MAX_TEXT_BYTES).decode(
            'utf-8', 'replace').splitlines():
        name, _, value = line.partition('=')
        if name.strip() == 'ndisp':
            if not re.fullmatch(r'[0-9]{1,5}', value.strip()):
                raise ValueError(f'{path}: ndisp is {shown(value.strip())}, but must be a whole '
                                 'number')
            return int(value)
    return None
