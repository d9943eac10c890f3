"""Names of images: which two are a pair, in which order pairs are, and when they were taken."""

from __future__ import annotations

import dataclasses
import operator
import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stereo_bp_ros.images import files
from stereo_bp_ros.images.stamps import SIDES, Image, PairFinder, sync_setting
from stereo_bp_ros.sources.datasets.entries import Entry
from stereo_bp_ros.sources.natural_order import natural_key, numbers_of

#: Stamp of a sequence whose times begin at 0, which ROS takes for no time at all.
FIRST_STAMP_NS = 10**18

#: Nanoseconds between stamps at least: numbers that are closer are those of frames.
MIN_STEP_NS = 1_000_000

#: Nanoseconds between the frames of a sequence at most, as far as the unit of stamps goes by it.
MAX_STEP_NS = 10 * 10**9

#: Nanoseconds from one frame to the next where names have frame numbers alone.
FRAME_NS = 100_000_000

#: Largest number of a frame: larger ones that are no stamps are no times.
MAX_FRAMES = 10**9

#: Unix times of 2001 to 2033 as names have them: seconds with decimals or with nanoseconds behind
#: a '_' or '-', then milliseconds, microseconds and nanoseconds, with the ns of their unit.
_SECONDS = re.compile(r'(?<![0-9.])(1[0-9]{9})(?:\.([0-9]{1,30})|[_-]([0-9]{9}))(?![0-9])')
_UNITS = tuple((re.compile(rf'(?<![0-9.])1[0-9]{{{digits - 1}}}(?![0-9])'), unit_ns)
               for digits, unit_ns in ((13, 10**6), (16, 10**3), (19, 1)))

#: Images of one side by the folders in between and their names.
Images = dict[tuple[str, str], Path]

#: Images of a pair, and the key of the left one.
Paired = tuple[tuple[str, str], Path, Path]


def in_order(entries: list[Entry]) -> list[Entry]:
    """By the order of their names."""
    return sorted(entries, key=lambda entry: natural_key(entry.name))


def pair_files(lefts: Images, rights: Images, tolerance_s: float = 0.0
               ) -> tuple[list[Paired], list[str]]:
    """Pairs of images, and a sentence about those that have no partner.

    Where names differ, stamps make pairs, which are equal within the tolerance. Else equal names
    do, or equal numbers in names where these make more of them.

    :raises ValueError: there is no pair, or the tolerance allows none.
    """
    if lefts.keys() == rights.keys():
        return [(key, path, rights[key]) for key, path in lefts.items()], []
    if not any(scene for scene, _ in (*lefts, *rights)):
        stamps = [stamps_of([path.stem for path in side.values()]) for side in (lefts, rights)]
        if stamps[0] and stamps[1]:
            return _of_stamps(lefts, rights, stamps[0], stamps[1], tolerance_s)
    own, others = max(([list(lefts), list(rights)], *_number_keys(lefts, rights)),
                      key=lambda keys: len(set(keys[0]) & set(keys[1])))
    of_right = dict(zip(others, rights.values(), strict=True))
    found = [(key, path, of_right[one]) for (key, path), one in zip(
        lefts.items(), own, strict=True) if one in of_right]
    hint = 'their names are no stamps, to which approximate_sync is limited' if tolerance_s else ''
    return found, _about_alone(lefts, rights, found, hint)


def number_keys(*sides: Collection[tuple[str, str]]) -> list[list[Any]] | None:
    """What the numbers in names distinguish images of several sides by, or None.

    These are all numbers in a name, those that differ within a side, or the last one: what is
    unique on each side and equal for most.
    """
    return max(_number_keys(*sides), key=lambda keys: len(set.intersection(*map(set, keys))),
               default=None)


def _number_keys(*sides: Collection[tuple[str, str]]) -> list[list[list[Any]]]:
    """What may tell images apart: for each way the keys of every side, with their scenes."""
    ways: tuple[Callable[[Sequence[str]], list[tuple[int, ...]]], ...] = (
        lambda names: list(map(numbers_of, names)), _differing,
        lambda names: [numbers_of(name)[-1:] for name in names])
    found = [[way([name for _, name in side]) for side in sides] for way in ways]
    keyed = [[[(scene, *one) for (scene, _), one in zip(side, numbers, strict=True)]
              for side, numbers in zip(sides, way, strict=True)]
             for way in found if all(map(all, way))]
    return [keys for keys in keyed if all(len(set(side)) == len(side) for side in keys)]


def _differing(names: Sequence[str]) -> list[tuple[int, ...]]:
    """Of names with equally many numbers those which are not all alike."""
    numbers = list(map(numbers_of, names))
    if len(set(map(len, numbers))) > 1:
        return [()] * len(names)
    kept = [k for k, column in enumerate(zip(*numbers, strict=True)) if len(set(column)) > 1]
    return [tuple(one[k] for k in kept) for one in numbers]


def _about_alone(lefts: Images, rights: Images, found: Sequence[Paired], hint: str) -> list[str]:
    """A sentence about images without a partner, if there are any.

    :raises ValueError: none has one.
    """
    texts = []
    for place, (side, paths) in enumerate(zip(SIDES, (lefts, rights), strict=True), 1):
        paired = {one[place] for one in found}
        alone = sorted((path for path in paths.values() if path not in paired),
                       key=lambda path: natural_key(path.as_posix()))
        if alone and not found:
            other = next(iter((rights if place == 1 else lefts).values()))
            more = f' (and {len(alone) - 1} more)' if len(alone) > 1 else ''
            raise ValueError(f'{alone[0]} has no partner among those like {other}{more}')
        if alone:
            texts.append(f'{len(alone)} of {len(paths)} {side} images have no partner, '
                         f'{"the first is" if len(alone) > 1 else "which is"} {alone[0].name}')
    if not texts:
        return []
    return [f'{next(iter(lefts.values())).parent}: {" and ".join(texts)}'
            + (f' ({hint})' if hint else '')]


def _of_stamps(lefts: Images, rights: Images, left_ns: Sequence[int], right_ns: Sequence[int],
               tolerance_s: float) -> tuple[list[Paired], list[str]]:
    """Images named by their stamps that the node would pair, as ``pair_files``.

    :raises ValueError: there is no pair, or the tolerance is no shorter than the time between
        images.
    """
    folder = next(iter(lefts.values())).parent
    found = [Image(side, stamp_ns, 0, one)
             for side, paths, stamps in zip(SIDES, (lefts, rights), (left_ns, right_ns),
                                            strict=True)
             for one, stamp_ns in zip(paths.items(), stamps, strict=True)]
    finder = PairFinder(tolerance_s)
    pairs = [pair for one in sorted(found, key=lambda one: one.stamp_ns)
             if (pair := finder.add(one)) is not None]
    if not pairs:
        raise ValueError(f'{folder}: {finder.why_none()}')
    stamps = [left.stamp_ns for left, _ in pairs]
    step_s = min(map(operator.sub, stamps[1:], stamps), default=2**63) * 1e-9
    if step_s <= tolerance_s:
        raise ValueError(f'{folder}: left images are {step_s:g} s apart by their names, so that '
                         f'a tolerance of {tolerance_s:g} s allows no pairs')
    paired = [(*left.content, right.content[1]) for left, right in pairs]
    return paired, _about_alone(lefts, rights, paired, sync_setting(tolerance_s))


def stamps_of(names: Sequence[str]) -> list[int] | None:
    """Times that names have, ns; None where they are no times, or two are equal.

    The digits of a Unix time determine its unit: 19 for ns, 16 for us, 13 for ms, 10 before a
    point for s. Any other numbers are ns where they are at least ``MIN_STEP_NS`` apart, and so are
    those which would be too far apart in their unit: times since a computer was started.
    """
    seconds = [one for one in map(_seconds_ns, names) if one is not None]
    if len(seconds) == len(names):
        return _distinct(seconds)
    numbers = [int(name) for name in names if name.isdecimal() and len(name) <= 19]
    own = _distinct(numbers) if len(numbers) == len(names) else None
    is_ns = own is not None and _step(own) >= MIN_STEP_NS and max(own) < 2**63
    for pattern, unit_ns in _UNITS:
        found = [pattern.search(name) for name in names]
        stamps = [int(one[0]) * unit_ns for one in found if one]
        if len(stamps) == len(names) and not (
                is_ns and len(stamps) > 1 and _step(stamps) > MAX_STEP_NS):
            return _distinct(stamps)
    return own if is_ns else None


def _seconds_ns(name: str) -> int | None:
    """The seconds in a name, as ns; None where it has none."""
    found = _SECONDS.search(name)
    if found is None:
        return None
    decimals = (found[2] or found[3])[:9]
    return int(found[1]) * 10**9 + int(decimals.ljust(9, '0'))


def _distinct(stamps: list[int]) -> list[int] | None:
    return stamps if len(set(stamps)) == len(stamps) else None


def _step(numbers: Collection[int]) -> int:
    """The shortest distance of two numbers; that of one alone is as far as from 0."""
    ordered = sorted(numbers)
    return min(map(operator.sub, ordered[1:], ordered), default=sum(ordered))


def timed(entries: list[Entry]) -> list[Entry]:
    """With the times that the names of the left images have, in their order, else by numbers.

    Numbers that are no stamps are those of frames.
    """
    names = [entry.left.stem for entry in entries]
    stamps = stamps_of(names)
    if stamps:
        found = [dataclasses.replace(entry, stamp_ns=stamp_ns)
                 for entry, stamp_ns in zip(entries, stamps, strict=True)]
        return sorted(found, key=lambda entry: entry.stamp_ns or 0)
    numbers = {entry.left: int(entry.left.stem) for entry in entries
               if entry.left.stem.isdecimal()}
    if len(set(numbers.values())) < len(numbers) or max(numbers.values(), default=0) > MAX_FRAMES:
        return entries
    return [dataclasses.replace(entry, stamp_ns=numbers[entry.left] * FRAME_NS, is_numbered=True)
            if entry.left in numbers else entry for entry in entries]


def read_stamps(path: Path) -> list[int]:
    """Times of the images by the numbers that are their names; none without a file of times.

    times.txt of odometry has seconds from the first image on, timestamps.txt of raw data dates.
    """
    if not path.is_file():
        return []
    lines = files.read_text(path, 'file of times').split('\n')
    try:
        return [_stamp_ns(line) for line in lines if line.strip()]
    except (ValueError, OverflowError) as error:
        raise ValueError(f'{path} has a line that is no time: {error}') from error


def _stamp_ns(line: str) -> int:
    if ':' in line:
        return max(0, int(np.datetime64(line.strip(), 'ns').astype(np.int64)))
    seconds = float(line)
    if not 0 <= seconds < 1e9:
        raise ValueError(f'{line.strip():.40} is not between 0 and 1e9 s')
    return FIRST_STAMP_NS + round(seconds * 1e9)
