"""Names of cameras that look into different directions, which are no stereo pair."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

IN_A_RING = 'the cameras of a ring look away from each other, and are no stereo pair'

#: What is in front of the word left where that is a direction: CAM_FRONT_LEFT.
_PLACE = re.compile(r'(front|back|rear|side)[_-]?$')

#: A word of the left or right camera of several pairs, and the direction of each behind it.
_CAMERA_OF_PAIR = re.compile(r'(?:left|right|[lr])_?cam')
DIRECTION = re.compile(r'[_-]?(front|back|rear|left|right|top|bottom)(?![a-z])', re.IGNORECASE)


def is_in_a_ring(left: str, beside: Collection[str]) -> bool:
    """Whether the word left in a name is the direction of a camera, by the names beside it.

    There is another camera in the middle, named front, or after the place where both are. Those
    at the sides of a vehicle need none.
    """
    name, names = left.lower(), {one.lower() for one in beside}
    before, word, after = name.rpartition('left')
    if not word:
        return False
    place = _PLACE.search(before)
    if place is None:
        return f'{before}front{after}' in names
    middle = before[:place.end(1)]
    return place[1] == 'side' or any(
        f'{middle}{rest}{after}' in names for rest in ('', '_center', '_centre', '_middle'))


def why_apart(left: Path, right: Path, beside: Collection[str] | None = None) -> str:
    """Why two images are of cameras that look into different directions; '' = nothing says so.

    :param beside: names of files or folders beside the first that differs; None: they are listed.
    """
    level = next((place for place, (one, other) in enumerate(
        zip(left.parts, right.parts, strict=False)) if one != other), None)
    if level is None:
        return ''
    one, other = left.parts[level], right.parts[level]
    ways = [_CAMERA_OF_PAIR.sub('', Path(name).stem.lower()) for name in (one, other)]
    directions = [DIRECTION.search(way) for way in ways]
    is_pair = all(_CAMERA_OF_PAIR.search(name.lower()) for name in (one, other))
    if is_pair and directions[0] and directions[1]:
        return '' if directions[0][1] == directions[1][1] else IN_A_RING
    if 'right' not in other.lower():
        return ''
    if beside is None:
        beside = names_beside(left, level)
    return IN_A_RING if is_in_a_ring(Path(one).stem, beside) else ''


def names_beside(path: Path, level: int) -> set[str]:
    """Names without suffix of what is beside a part of a path, itself among them."""
    try:
        return {one.stem for one in Path(*path.parts[:level]).iterdir()}
    except OSError:
        return set()
