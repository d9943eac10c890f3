"""Ground truths, and what lies beside them: scales by the size of an image, occluded pixels.

D. Scharstein and R. Szeliski, "A taxonomy and evaluation of dense two-frame stereo
correspondence algorithms", IJCV 2002, and the pages of each year on vision.middlebury.edu/stereo.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.errors import shown
from stereo_bp_ros.images import files
from stereo_bp_ros.system.bounded import MAX_TEXT_BYTES

#: Rows of the images of 2003 at quarter, half and full size, and grey levels per pixel there.
SCALES_2003 = {375: 4.0, 750: 2.0, 1500: 1.0}

#: Rows of the images of 2001, which come in one size, and their grey levels per pixel.
ROWS_2001, SCALE_2001 = range(376, 401), 8.0

#: Rows of the images of 2005 and 2006 at full, half and third size; disparities are stored in
#: pixels of the full size.
SCALES_2006 = {1110: 1.0, 555: 2.0, 370: 3.0}

#: Of all sets of 2005 and 2006: pixels at full size, metres.
FOCAL_2006, BASELINE_2006 = 3740.0, 0.160

UNKNOWN_SCALE = ('so that its scale is unknown: rename to left.png, right.png and disparity.png, '
                 'and say it in sets.yaml')


#: Grey levels per pixel of disparity, or what tells them by a file and its rows; below 0: a PFM
#: file with the other sign; None: as of ``read_truth``.
Scale = float | Callable[[Path, int], float] | None


def read_truth(path: files.PathLike, scale: float | None = None) -> np.ndarray:
    """Read a true disparity: float32 H x W, pixels, not finite where unknown.

    :param scale: numbers per pixel, below 0 of the other sign; None: ``default_scale``.
    :raises ValueError: no PFM file or disparity image, or one of 8 bits without a scale.
    """
    if Path(path).suffix.lower() == '.pfm':
        found = files.read_pfm(path)
        return found if scale is None else np.asarray(found / np.float32(scale))
    found = files.read_disparity_png(path, scale and abs(scale))
    return -found if scale is not None and scale < 0 else found


def default_scale(path: files.PathLike) -> float:
    """Numbers of a truth per pixel of disparity, where nothing else says it."""
    return 1.0 if Path(path).suffix.lower() == '.pfm' else files.KITTI_SCALE


def read_scaled(path: Path, scale: Scale) -> np.ndarray:
    """As ``read_truth``, in the scale of a layout.

    :raises ValueError: as ``read_truth``, or no set has so many rows.
    """
    if callable(scale):
        levels = files.read_disparity_png(path, 1)
        return np.asarray(levels / np.float32(scale(path, levels.shape[0])))
    if path.suffix == '.pfm':
        return -files.read_pfm(path) if scale == -1 else files.read_pfm(path)
    return files.read_disparity_png(path, scale)


def scale_of_2003(path: Path, rows: int) -> float:
    """Of a truth of Middlebury 2001 or 2003."""
    scale = SCALE_2001 if rows in ROWS_2001 else SCALES_2003.get(rows)
    if scale is None:
        raise ValueError(f'{path} has {rows} rows, as no set of Middlebury 2001 (380 to 383) or '
                         f'2003 (375, 750, 1500) has, {UNKNOWN_SCALE}')
    return scale


def scale_of_2006(path: Path, rows: int) -> float:
    """Of a truth of Middlebury 2005 or 2006."""
    for full, scale in SCALES_2006.items():
        # 2005 and 2006 crop a set by a few rows.
        if abs(rows - full) <= full * 0.02:
            return scale
    raise ValueError(f'{path} has {rows} rows, as none of Middlebury 2005 and 2006 has (full size '
                     f'1110, half 555, third 370), {UNKNOWN_SCALE}')


def calibration_of_2006(path: Path, left: Path) -> Calibration:
    """Of images that are cropped by ``dmin.txt`` pixels of the full size.

    These belong to a depth, but not to the disparity between the images: its shift has them.
    """
    height, width = files.read_image(left).shape[:2]
    scale = scale_of_2006(left, height)
    text = files.read_text(path, 'calibration').strip()
    if not re.fullmatch(r'[0-9]{1,5}(\.[0-9]{1,9})?', text):
        raise ValueError(f'{path} is {shown(text)}, but must be the number of pixels by which '
                         'the images are cropped')
    # The sets say only that the principal point is that of the image.
    cx = (width - 1) / 2
    return Calibration(FOCAL_2006 / scale, BASELINE_2006, cx, cx + float(text) / scale,
                       (height - 1) / 2)


def occluded_of_middlebury(truth: Path, mask: Path) -> np.ndarray:
    """Known pixels that the mask does not call visible (255): it has 128 there."""
    known, levels = np.isfinite(files.read_pfm(truth)), files.read_grey(mask)
    if levels.shape != known.shape:
        raise ValueError(f'the mask {mask} is {levels.shape[1]} x {levels.shape[0]}, the ground '
                         f'truth {known.shape[1]} x {known.shape[0]}')
    return np.asarray(known & (levels != 255))


def occluded_of_kitti(known: Path, visible: Path) -> np.ndarray:
    """Pixels with a truth in the first of two files alone."""
    has_truth, is_visible = (np.isfinite(files.read_disparity_png(path))
                             for path in (known, visible))
    if has_truth.shape != is_visible.shape:
        raise ValueError(f'{known} and {visible} have different sizes')
    return np.asarray(has_truth & ~is_visible)


def read_ndisp(path: Path) -> int | None:
    """How many disparities a calib.txt of Middlebury or ETH3D says that there are, or None."""
    if not path.is_file():
        return None
    for line in files.read_bytes(path, 'calibration', MAX_TEXT_BYTES).decode(
            'utf-8-sig', 'replace').splitlines():
        name, _, value = line.partition('=')
        if name.strip() == 'ndisp':
            if not re.fullmatch(r'[0-9]{1,5}', value.strip()):
                raise ValueError(f'{path}: ndisp is {shown(value.strip())}, but must be a whole '
                                 'number')
            return int(value)
    return None
