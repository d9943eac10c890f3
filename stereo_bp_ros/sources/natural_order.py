"""The one order of names: 9 before 10."""

from __future__ import annotations

import re

#: Digits of a number in a name that are read; a file system has fewer.
MAX_DIGITS = 1000


def natural_key(name: str) -> tuple[tuple[str | int, ...], ...]:
    """A key that sorts names, folder by folder: text as text, numbers as numbers."""
    return tuple(tuple(int(piece[:MAX_DIGITS]) if place % 2 else piece
                       for place, piece in enumerate(re.split('([0-9]+)', part)))
                 for part in name.split('/'))


def numbers_of(name: str) -> tuple[int, ...]:
    """The numbers in a name."""
    return tuple(int(digits[:MAX_DIGITS]) for digits in re.findall('[0-9]+', name))
