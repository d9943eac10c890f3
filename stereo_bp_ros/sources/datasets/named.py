"""Sets whose files are named: left.png and right.png, a sets.yaml, or patterns of any names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from stereo_bp_ros.config.files import read_yaml
from stereo_bp_ros.errors import shown
from stereo_bp_ros.images import files
from stereo_bp_ros.sources.bag_topics import MAX_SCALE, Globs
from stereo_bp_ros.sources.datasets import truths
from stereo_bp_ros.sources.datasets.entries import Entry, defer, defer_calibration
from stereo_bp_ros.sources.datasets.layouts import PAIR, read
from stereo_bp_ros.sources.datasets.names import number_keys, pair_files, timed
from stereo_bp_ros.sources.directions import why_apart
from stereo_bp_ros.sources.natural_order import natural_key
from stereo_bp_ros.system.bounded import resolved


def described(folder: Path) -> list[Entry] | None:
    """Sets in the order of a sets.yaml, or None."""
    if not (folder / 'sets.yaml').is_file():
        return None
    entries = []
    for name, description in _descriptions(folder).items():
        found = read(PAIR, folder / name, description=description)
        if found is None:
            raise ValueError(f'{folder / "sets.yaml"} describes {name}, but {folder / name} has '
                             'no left.png and right.png')
        entries += found[0]
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


def pair(folder: Path) -> list[Entry] | None:
    """left.png and right.png, as the sets.yaml beside the folder describes them, or None."""
    description = None
    if (folder.parent / 'sets.yaml').is_file() and read(PAIR, folder):
        description = _descriptions(folder.parent).get(folder.name)
    found = read(PAIR, folder, description=description)
    return found and found[0]


def by_globs(folder: Path, globs: Globs, tolerance_s: float = 0.0
             ) -> tuple[list[Entry], list[str]]:
    """Pairs of images whose names fit two patterns, and sentences about how they were paired.

    Pairs and truths have equal numbers in their names.

    :raises ValueError: a pattern fits nothing, both fit one file, or no image has a partner.
    """
    lefts, rights = fitting(folder, globs.left), fitting(folder, globs.right)
    if both := set(lefts) & set(rights):
        raise ValueError(f'{min(both)} fits both {shown(globs.left)} and {shown(globs.right)}')
    images = [{('', path.relative_to(folder).with_suffix('').as_posix()): path for path in side}
              for side in (lefts, rights)]
    if len(lefts) > 1 and number_keys(*images):
        found, warnings = pair_files(images[0], images[1], tolerance_s)
    else:
        if len(lefts) != len(rights):
            raise ValueError(f'{folder}: {shown(globs.left)} fits {len(lefts)} images and '
                             f'{shown(globs.right)} {len(rights)}, and no numbers in their names '
                             'make pairs')
        warnings = [f'{folder}: no numbers in the names of the images make pairs: '
                    f'their order does, {lefts[0].name} with {rights[0].name}'
                    ] * (len(lefts) > 1)
        found = [(key, path, right) for (key, path), right in zip(
            images[0].items(), rights, strict=True)]
    if why := why_apart(found[0][1], found[0][2]):
        warnings.append(f'{found[0][1]} and {found[0][2]}: {why}')
    names = [left.stem for _, left, _ in found]
    if len(set(names)) < len(names):
        names = [left.relative_to(folder).with_suffix('').as_posix() for _, left, _ in found]
    known = _truths(folder, globs, [left for _, left, _ in found])
    calibration = defer_calibration(folder)
    return timed([Entry(name, left, right, known(left), calibration=calibration)
                  for name, (_, left, right) in zip(names, found, strict=True)]), warnings


def _truths(folder: Path, globs: Globs, lefts: Sequence[Path]
            ) -> Callable[[Path], Callable[[], np.ndarray] | None]:
    """What finds the truth of a left image: by the pattern, or in disparity/ by its name.

    :raises ValueError: the pattern fits nothing, or its numbers are those of no image.
    """
    if not globs.truth:
        return lambda left: (
            defer(truths.read_truth, folder / 'disparity' / f'{left.stem}.pfm')
            or defer(truths.read_truth, folder / 'disparity' / f'{left.stem}.png'))
    paths = fitting(folder, globs.truth)
    keys = number_keys(*([('', path.relative_to(folder).with_suffix('').as_posix())
                          for path in side] for side in (lefts, paths)))
    if keys is None or not set(keys[0]) & set(keys[1]):
        if len(paths) != len(lefts) or len(paths) > 1:
            raise ValueError(f'{folder}: no numbers in the names say which of the {len(paths)} '
                             f'files that fit {shown(globs.truth)} belongs to which image')
        keys = [[0], [0]]
    own = dict(zip(lefts, keys[0], strict=True))
    of_key = dict(zip(keys[1], paths, strict=True))
    return lambda left: defer(truths.read_truth, of_key.get(own[left]))


def fitting(folder: Path, pattern: str) -> list[Path]:
    """The files whose paths below a folder fit a pattern, in order.

    :raises ValueError: it is no pattern, or fits nothing.
    """
    try:
        found = [path for path in folder.glob(pattern)
                 if path.is_file() and not path.name.startswith('.')]
    except Exception as error:          # pathlib has one of its own for each mistake
        raise ValueError(f'{shown(pattern)} is no pattern of names below {folder}: {error}'
                         ) from error
    if not found:
        raise ValueError(f'no file in {folder} fits {shown(pattern)}')
    return sorted(found, key=lambda path: natural_key(path.relative_to(folder).as_posix()))
