"""Names of images: which two are a pair, in which order pairs are, and when they were taken."""

from __future__ import annotations

import dataclasses
import functools
import logging
import operator
import re
from pathlib import Path

import numpy as np

from stereo_bp_ros.images import files
from stereo_bp_ros.images.stamps import SIDES, Image, PairFinder, sync_setting
from stereo_bp_ros.sources.datasets.entries import Entry

_log = logging.getLogger(__name__)

#: Stamp of a sequence whose times begin at 0, which ROS takes for no time at all.
FIRST_STAMP_NS = 10**18

#: Nanoseconds between stamps at least: numbers that are closer are those of frames.
MIN_STEP_NS = 1_000_000

#: Nanoseconds from one frame to the next where names have frame numbers alone.
FRAME_NS = 100_000_000

#: Largest number of a frame: larger ones that are no stamps in nanoseconds are no times.
MAX_FRAMES = 10**9

#: Images of one side by the folders in between and their names.
Images = dict[tuple[str, str], Path]


def order_of(name: str) -> tuple[tuple[str, ...], list[int], str]:
    """A key that sorts names: 9 is before 10."""
    return (tuple(re.sub('[0-9]+', '', part) for part in name.split('/')), numbers_of(name), name)


def numbers_of(name: str) -> list[int]:
    """The numbers in a name."""
    return [int(digits[:1000]) for digits in re.findall('[0-9]+', name)]


def in_order(entries: list[Entry]) -> list[Entry]:
    """By the order of their names."""
    return sorted(entries, key=lambda entry: order_of(entry.name))


def pair_files(lefts: Images, rights: Images, tolerance_s: float = 0.0
               ) -> list[tuple[tuple[str, str], Path, Path]]:
    """Images of the same key, or of stamps in nanoseconds that are equal within the tolerance.

    :raises ValueError: an image has no partner, or the tolerance tells no pairs.
    """
    if lefts.keys() != rights.keys() and all(map(_are_stamps, (lefts, rights))):
        keys = {path: key for key, path in lefts.items()}
        pairs = _of_stamps(lefts, rights, tolerance_s)
        if pairs:
            return [(keys[left], left, right) for left, right in pairs]
    for own, other in ((lefts, rights), (rights, lefts)):
        alone = sorted(own.keys() - other.keys())
        if alone:
            raise ValueError(
                f'{own[alone[0]]} has no partner among those like {next(iter(other.values()))}'
                + (f' (and {len(alone) - 1} more)' if len(alone) > 1 else ''))
    return [(key, path, rights[key]) for key, path in lefts.items()]


def _are_stamps(side: Images) -> bool:
    """Whether names may be stamps: numbers, each of which is there once, of one scene."""
    names = {path.stem for path in side.values()}
    return (len(names) == len(side) and all(map(str.isdecimal, names))
            and not any(scene for scene, _ in side))


def _of_stamps(lefts: Images, rights: Images, tolerance_s: float) -> list[tuple[Path, Path]]:
    """Images named by their stamps, ns, that the node would pair; [] = some have no partner.

    :raises ValueError: none have, or the tolerance is no shorter than the time between images.
    """
    folder = next(iter(lefts.values())).parent
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


def timed(entries: list[Entry]) -> list[Entry]:
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
