"""Plain layouts: pairs, sets that a sets.yaml describes, and stamped sequences.

Sets that only add a truth of their own scale to them are here, too: InStereo2K and CREStereo.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import operator
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from stereo_bp_ros import files
from stereo_bp_ros.bounded import resolved
from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.config.files import read_yaml
from stereo_bp_ros.errors import shown
from stereo_bp_ros.evaluation.datasets.entries import (
    TRUTH_NAME,
    Entry,
    defer,
    defer_calibration,
    find_pair,
    list_folder,
    list_folders,
    list_images,
    pair_by_side,
    pair_images,
    read_classes,
)
from stereo_bp_ros.stamps import SIDES, Image, PairFinder, sync_setting

_log = logging.getLogger(__name__)

IMAGE_FOLDERS = (SIDES, ('cam0/data', 'cam1/data'), *(
    (f'{name}{first}', f'{name}{first + 1}') for first in (0, 1)
    for name in ('cam', 'camera', 'camera_', 'infra')), ('l', 'r'), ('L', 'R'))
"""Folders of left and right images, besides those whose names have left and right in them."""

#: Names of folders whose images are of no camera.
OTHER_IMAGES = re.compile(rf'{TRUTH_NAME.pattern}|mask|seg|occl|conf|flow|normal', re.IGNORECASE)

INSTEREO2K_SCALE, CRESTEREO_SCALE = 100.0, 32.0
"""Grey levels per pixel of disparity in the 16-bit truths of InStereo2K and of CREStereo."""

#: Nanoseconds between stamps at least: numbers that are closer are those of frames.
MIN_STEP_NS = 1_000_000

#: Nanoseconds from one frame to the next where names have nothing but the frames' numbers.
FRAME_NS = 100_000_000

#: Largest number of a frame: larger ones that are no stamps in nanoseconds are no times.
MAX_FRAMES = 10**9

#: Most grey levels that one pixel of disparity can be, and more disparities than there are.
MAX_SCALE = 65535


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
                and 0 < description[key] <= MAX_SCALE
                for key in ('disparities', 'disparity_scale')):
            raise ValueError(f'{path}: {shown(name)} needs disparities and disparity_scale, '
                             f'numbers above 0 and at most {MAX_SCALE}')
        stamp = description.get('stamp_ns', 0)
        if not (isinstance(stamp, int) and 0 <= stamp < 2**63):
            raise ValueError(f'{path}: stamp_ns of {shown(name)} has to be a whole number of '
                             'nanoseconds from 0 on')
    return {str(name): description for name, description in content.items()}


def truth_scale(path: files.PathLike) -> float | None:
    """Grey levels per pixel of disparity of a truth, where a sets.yaml describes its set.

    :raises ValueError: there is a sets.yaml, which cannot be read.
    """
    path = resolved(path)
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
    images = find_pair(folder, 'left', 'right')
    if images is None:
        return None
    if description is None:
        is_described = (folder.parent / 'sets.yaml').is_file()
        description = _descriptions(folder.parent).get(folder.name, {}) if is_described else {}
    truth = (defer(read_truth, folder / 'disparity.pfm')
             or defer(read_truth, folder / 'disparity.png',
                      scale=description.get('disparity_scale')))
    if truth is None and (folder / 'right_disp.png').is_file():
        truth = defer(_wide_truth, folder / 'left_disp.png', scale=INSTEREO2K_SCALE)
    stamp_ns, disparities = (None if value is None else int(value) for value in map(
        description.get, ('stamp_ns', 'disparities')))
    vehicles, sky, occluded = (defer(files.read_mask, folder / f'{name}.png')
                               for name in ('vehicles', 'sky', 'occluded'))
    return [Entry(folder.name, *images, truth, stamp_ns, defer_calibration(folder), disparities,
                  vehicles, sky, occluded,
                  functools.partial(read_classes, folder / 'classes'))]


def _wide_truth(path: Path, scale: float) -> np.ndarray:
    """Of 16 bits, with the scale of a data set."""
    if files.read_grey(path).dtype != np.uint16:
        raise ValueError(f'disparity image {path} has 8 bits, but should have 16, with {scale:g} '
                         'levels per pixel: rename it to disparity.png, and say its scale in '
                         'sets.yaml')
    return files.read_disparity_png(path, scale)


def side_by_side(folder: Path) -> list[Entry] | None:
    """Images NAME_left and NAME_right, or left_NAME and right_NAME, and no others; or None.

    CREStereo has them so.
    """
    found: tuple[dict[str, Path], dict[str, Path]] = ({}, {})
    for path in list_images(folder).values():
        if OTHER_IMAGES.search(path.stem):
            continue
        side = re.match(r'(left|right)_|.*_(left|right)$', path.stem)
        if side is None:
            return None
        name = path.stem.removeprefix(f'{side[1]}_').removesuffix(f'_{side[2]}')
        found[SIDES.index(side[1] or side[2])][name] = path
    lefts, rights = found
    if not lefts or not rights:
        return None
    numbers = defer_calibration(folder)
    entries = []
    for name, (left, right) in zip(lefts, pair_images(lefts, rights, folder, folder), strict=True):
        entries.append(Entry(
            name, left, right, defer(_wide_truth, folder / f'{left.stem}.disp.png',
                                     scale=CRESTEREO_SCALE), calibration=numbers))
    return entries


def sequence(folder: Path, tolerance_s: float = 0.0) -> list[Entry] | None:
    """Two folders with images of the same names, or None: left/ and right/, EuRoC's cameras, or
    the only two whose names differ by left and right.

    :param tolerance_s: most seconds between the stamps of a pair; 0 = they have to be equal.
    """
    found = _image_folders(folder)
    if found is None:
        return None
    left_folder, right_folder = found
    of_euroc = left_folder.parent / 'sensor.yaml' if left_folder.name == 'data' else None
    numbers = defer(Calibration.from_file, of_euroc) or defer_calibration(folder)
    entries = [_with_truth(folder, left.stem, left, right, numbers)
               for left, right in _frames(left_folder, right_folder, tolerance_s)]
    # Names are numbers of any length: their order as text is not the order in time.
    return _timed(sorted(entries, key=lambda entry: (
        (0, int(entry.name), '') if entry.name.isdecimal() else (1, 0, entry.name))))


def by_globs(folder: Path, left_glob: str, right_glob: str) -> list[Entry]:
    """Pairs of images whose names fit two patterns, in the order of their names.

    Numbers in names count as numbers: 9 is before 10.

    :raises ValueError: a pattern fits nothing, both fit one file, or one side has more images.
    """
    lefts, rights = _fitting(folder, left_glob), _fitting(folder, right_glob)
    if both := set(lefts) & set(rights):
        raise ValueError(f'{min(both)} fits both {shown(left_glob)} and {shown(right_glob)}')
    if len(lefts) != len(rights):
        longer, shorter = sorted((lefts, rights), key=len, reverse=True)
        known = [_numbers(path)[-1:] for path in shorter]
        alone = next((path for path in longer if _numbers(path)[-1:] not in known),
                     longer[len(shorter)])
        raise ValueError(f'{folder}: {shown(left_glob)} fits {len(lefts)} images and '
                         f'{shown(right_glob)} {len(rights)}: {alone.relative_to(folder)} has no '
                         'partner')
    names = [path.stem for path in lefts]
    if len(set(names)) < len(names):
        names = [path.relative_to(folder).with_suffix('').as_posix() for path in lefts]
    return _timed([_with_truth(folder, name, left, right, defer_calibration(folder))
                   for name, left, right in zip(names, lefts, rights, strict=True)])


def _fitting(folder: Path, pattern: str) -> list[Path]:
    try:
        found = [path for path in folder.glob(pattern) if path.is_file()]
    except Exception as error:          # pathlib has one of its own for each mistake
        raise ValueError(f'{shown(pattern)} is no pattern of names below {folder}: {error}'
                         ) from error
    if not found:
        raise ValueError(f'no file in {folder} fits {shown(pattern)}')
    return sorted(found, key=lambda path: (
        [(re.sub('[0-9]+', '', part), *_numbers(Path(part))) for part in path.parts], path))


def _numbers(path: Path) -> list[int]:
    return [int(digits[:1000]) for digits in re.findall('[0-9]+', path.name)]


def _with_truth(folder: Path, name: str, left: Path, right: Path,
                calibration: Callable[[], Calibration] | None) -> Entry:
    """With the truth of the left image's name in disparity/."""
    truths = folder / 'disparity'
    return Entry(name, left, right, defer(read_truth, truths / f'{left.stem}.pfm')
                 or defer(read_truth, truths / f'{left.stem}.png'), calibration=calibration)


def _timed(entries: list[Entry]) -> list[Entry]:
    """With the times that the names of the left images say.

    Numbers are stamps where they are at least ``MIN_STEP_NS`` apart, else numbers of frames.
    """
    numbers = {entry.left: int(entry.left.stem) for entry in entries
               if entry.left.stem.isdecimal()}
    ordered = sorted(numbers.values())
    # One image alone is as far from 0 as it is from another one.
    step = min(map(operator.sub, ordered[1:], ordered), default=sum(ordered))
    if not numbers or step == 0 or ordered[-1] >= 2**63:
        return entries
    if step >= MIN_STEP_NS:
        return [dataclasses.replace(entry, stamp_ns=numbers.get(entry.left)) for entry in entries]
    if ordered[-1] > MAX_FRAMES:
        return entries
    return [dataclasses.replace(entry, stamp_ns=numbers[entry.left] * FRAME_NS, is_numbered=True)
            if entry.left in numbers else entry for entry in entries]


def _frames(left_folder: Path, right_folder: Path, tolerance_s: float
            ) -> list[tuple[Path, Path]]:
    """Images of the same names, of names that differ by left and right alone, or of stamps that
    are equal within the tolerance."""
    lefts, rights = list_images(left_folder), list_images(right_folder)
    if lefts and rights and not lefts.keys() & rights.keys() and all(
            'left' in name for name in lefts):
        return [(left, right) for _, left, right in pair_by_side(left_folder, right_folder)]
    if lefts.keys() == rights.keys() or not all(
            path.stem.isdecimal() for path in (*lefts.values(), *rights.values())):
        return pair_images(lefts, rights, left_folder, right_folder)
    return _of_stamps(left_folder, lefts, rights, tolerance_s) or pair_images(
        lefts, rights, left_folder, right_folder)


def _of_stamps(folder: Path, lefts: Mapping[str, Path], rights: Mapping[str, Path],
               tolerance_s: float) -> list[tuple[Path, Path]]:
    """Images named by their stamps, ns, that the node would pair; [] = some have no partner.

    :raises ValueError: none have, or the tolerance is no shorter than the time between images.
    """
    found = [Image(side, int(path.stem), 0, path)
             for side, paths in zip(SIDES, (lefts, rights), strict=True)
             for path in paths.values()]
    finder = PairFinder(tolerance_s)
    pairs = [pair for one in sorted(found, key=lambda one: one.stamp_ns)
             if (pair := finder.add(one)) is not None]
    if not pairs:
        raise ValueError(f'{folder}: {finder.why_none()}')
    if len(pairs) < max(len(lefts), len(rights)):
        if not tolerance_s:
            return []
        _warn_unpaired(folder, len(lefts) - len(pairs), len(lefts), tolerance_s)
    stamps = [left.stamp_ns for left, _ in pairs]
    step_s = min(map(operator.sub, stamps[1:], stamps), default=2**63) * 1e-9
    if step_s <= tolerance_s:
        raise ValueError(f'{folder}: left images are {step_s:g} s apart by their names, so that '
                         f'a tolerance of {tolerance_s:g} s tells no pairs')
    return [(left.content, right.content) for left, right in pairs]


@functools.cache        # a folder is opened more than once
def _warn_unpaired(folder: Path, alone: int, of: int, tolerance_s: float) -> None:
    if alone > 0:
        _log.warning('%s: %d of %d left images have no partner (%s)', folder, alone, of,
                     sync_setting(tolerance_s))


def _image_folders(folder: Path) -> tuple[Path, Path] | None:
    """Folders of the left and the right images.

    :raises ValueError: there are several.
    """
    for names in IMAGE_FOLDERS:
        left, right = (folder / name for name in names)
        if left.is_dir() and right.is_dir():
            # A truth of both sides, in PFM, has such folders, too.
            empty = not (list_images(left) or list_images(right))
            return None if empty and (list_folder(left) or list_folder(right)) else (left, right)
    found = [(left, right) for left in list_folders(folder)
             if 'left' in left.name.lower() and not OTHER_IMAGES.search(left.name)
             and (right := other_side_of(left)).is_dir()
             and list_images(left) and list_images(right)]
    if len(found) > 1:
        raise ValueError(f'{folder} has several pairs of folders: '
                         + ', '.join(f'{left.name} with {right.name}' for left, right in found)
                         + ': name two folders left and right, or link to them so')
    return found[0] if found else None


def other_side_of(left: Path) -> Path:
    """The folder of the right images: left in the name becomes right, in the same letters."""
    words = {'left': 'right', 'Left': 'Right', 'LEFT': 'RIGHT'}
    return left.with_name(re.sub('left', lambda word: words.get(word[0], 'right'), left.name,
                                 flags=re.IGNORECASE))
