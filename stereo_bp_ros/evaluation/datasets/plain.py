"""Plain layouts: a pair, sets that a sets.yaml describes, and a stamped sequence."""

from __future__ import annotations

import functools
import logging
import operator
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from stereo_bp_ros.config.files import read_yaml
from stereo_bp_ros.errors import shown
from stereo_bp_ros.evaluation import files
from stereo_bp_ros.evaluation.datasets import classes
from stereo_bp_ros.evaluation.datasets.entries import (
    Entry,
    Reader,
    calibration,
    image,
    images,
    mask,
    partners,
)
from stereo_bp_ros.evaluation.pair_finder import SIDES, Image, PairFinder
from stereo_bp_ros.stamps import sync_setting

_log = logging.getLogger(__name__)

LARGEST_SCALE = 65535
"""Most grey levels that one pixel of disparity can be, and more disparities than there are."""


def described(folder: Path) -> list[Entry] | None:
    """Sets in the order of a sets.yaml, or None."""
    if not (folder / 'sets.yaml').is_file():
        return None
    entries = []
    for name, description in _descriptions(folder).items():
        found = pair(folder / name, description)
        if found is None:
            raise ValueError(f'{folder / "sets.yaml"} describes {name}, but {folder / name} has '
                             'no left.png and right.png')
        entries += found
    if not entries:
        raise ValueError(f'{folder / "sets.yaml"} describes no set')
    return entries


def _descriptions(folder: Path) -> dict[str, Mapping[str, float]]:
    path = folder / 'sets.yaml'
    try:
        content = read_yaml(path)
    except ValueError as error:
        raise ValueError(f'{path}: {error}') from error
    if not isinstance(content, dict):
        raise ValueError(f'{path} is not a table of sets')
    for name, description in content.items():
        if not isinstance(description, dict) or not all(
                isinstance(description.get(key), (int, float))
                and 0 < description[key] <= LARGEST_SCALE
                for key in ('disparities', 'disparity_scale')):
            raise ValueError(f'{path}: {shown(name)} needs disparities and disparity_scale, '
                             f'numbers above 0 and at most {LARGEST_SCALE}')
        stamp = description.get('stamp_ns', 0)
        if not (isinstance(stamp, int) and 0 <= stamp < 2**63):
            raise ValueError(f'{path}: stamp_ns of {shown(name)} has to be a whole number of '
                             'nanoseconds from 0 on')
    return {str(name): description for name, description in content.items()}


def truth_scale(path: files.PathLike) -> float | None:
    """Grey levels per pixel of disparity of a truth, where a sets.yaml describes its set.

    :raises ValueError: there is a sets.yaml, which cannot be read.
    """
    path = Path(path).resolve()
    sets = path.parent.parent
    if path.name != 'disparity.png' or not (sets / 'sets.yaml').is_file():
        return None
    return _descriptions(sets).get(path.parent.name, {}).get('disparity_scale')


def read_truth(path: files.PathLike, scale: float | None = None) -> np.ndarray:
    """Read a true disparity: float32 H x W, pixels, not finite where unknown.

    :param scale: grey levels per pixel of an image; None: as sets.yaml or the file's bits say.
    :raises ValueError: no PFM file or disparity image, or one of 8 bits without a scale.
    """
    if Path(path).suffix.lower() == '.pfm':
        if scale is not None:
            raise ValueError(f'{path} is a PFM file, which holds pixels: it has no scale')
        return files.read_pfm(path)
    return files.read_disparity_png(path, truth_scale(path) if scale is None else scale)


def pair(folder: Path, description: Mapping[str, float] | None = None) -> list[Entry] | None:
    """left.png and right.png, or None.

    :param description: of a sets.yaml; None: of the one beside the folder, if there is one.
    """
    left, right = image(folder, 'left'), image(folder, 'right')
    if left is None or right is None:
        return None
    if description is None:
        is_described = (folder.parent / 'sets.yaml').is_file()
        description = _descriptions(folder.parent).get(folder.name, {}) if is_described else {}
    truth: Reader | None = None
    for name, scale in (('disparity.png', description.get('disparity_scale')),
                        ('disparity.pfm', None)):
        if (folder / name).is_file():
            truth = functools.partial(read_truth, folder / name, scale)
    disparities = description.get('disparities')
    return [Entry(folder.name, left, right, truth, calibration=calibration(folder),
                  stamp_ns=int(description['stamp_ns']) if 'stamp_ns' in description else None,
                  disparities=None if disparities is None else int(disparities),
                  vehicles=mask(folder / 'vehicles.png'), sky=mask(folder / 'sky.png'),
                  occluded=mask(folder / 'occluded.png'),
                  classes=classes.of_folder(folder / 'classes'))]


def sequence(folder: Path, tolerance_s: float = 0.0) -> list[Entry] | None:
    """left/ and right/ with images of the same names or stamps, or None.

    :param tolerance_s: most seconds between the stamps of a pair; 0 = they have to be equal.
    """
    if not ((folder / 'left').is_dir() and (folder / 'right').is_dir()):
        return None
    numbers = calibration(folder)
    entries = [
        Entry(left.stem, left, right, calibration=numbers,
              stamp_ns=int(left.stem) if left.stem.isdecimal() else None)
        for left, right in _partners(folder, tolerance_s)]
    # Names are numbers of any length: their order as text is not the order in time.
    return sorted(entries, key=lambda entry: (entry.stamp_ns is None, entry.stamp_ns or 0,
                                              entry.name))


def _partners(folder: Path, tolerance_s: float) -> list[tuple[Path, Path]]:
    """Images of the same names, or of stamps that are equal within the tolerance.

    :raises ValueError: there are none, or one without a partner and no tolerance.
    """
    paths = {side: images(folder / side) for side in SIDES}
    found = [Image(side, int(path.stem), 0, path) for side in SIDES for path in paths[side]
             if path.stem.isdecimal()]
    is_stamped = len(found) == sum(map(len, paths.values()))
    if not is_stamped or {path.name for path in paths['left']} == {
            path.name for path in paths['right']}:
        return partners(folder / 'left', folder / 'right')
    finder = PairFinder(tolerance_s)
    in_time = sorted(found, key=lambda one: one.stamp_ns)
    pairs = [pair for pair in map(finder.add, in_time) if pair]
    if not pairs:
        raise ValueError(f'{folder}: {finder.why_none()}')
    if len(pairs) < max(map(len, paths.values())):
        if not tolerance_s:
            return partners(folder / 'left', folder / 'right')
        _tell_alone(folder, len(paths['left']) - len(pairs), len(paths['left']), tolerance_s)
    stamps = [pair[0].stamp_ns for pair in pairs]
    step_s = min(map(operator.sub, stamps[1:], stamps), default=2**63) * 1e-9
    if step_s <= tolerance_s:
        raise ValueError(f'{folder}: left images are {step_s:g} s apart by their names, so that '
                         f'a tolerance of {tolerance_s:g} s tells no pairs')
    return [(left.content, right.content) for left, right in pairs]


@functools.cache        # a folder is opened more than once
def _tell_alone(folder: Path, alone: int, of: int, tolerance_s: float) -> None:
    if alone > 0:
        _log.warning('%s: %d of %d left images have no partner (%s)', folder, alone, of,
                     sync_setting(tolerance_s))
