"""What callers write for an argument, converted or rejected in words, alike in every call.

Of kinds that have a class here the conversion stands beside it: ``raw_images.image_of``,
``calibration.calibration_of``, ``rectification.rectification_of``,
``disparity_frame.outputs_of`` and ``stereo_matcher.config_of``.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from stereo_bp_ros.config.settings import did_you_mean
from stereo_bp_ros.errors import ConfigError, InputError, shown
from stereo_bp_ros.issues import IssueCode
from stereo_bp_ros.system.atomic_files import PathLike

#: Shapes of the matrices that have so many numbers.
SHAPES = {9: (3, 3), 12: (3, 4), 16: (4, 4)}


def whole(name: str, value: Any, minimum: int, code: IssueCode = IssueCode.BAD_SIZE) -> int:
    """A size that comes from outside, as a whole number of Python.

    Plans and maps are cached by sizes. 741.0 and True are equal to whole numbers and would be
    found there; NumPy's numbers of few bits overflow in what is computed of them.

    :raises InputError: names the number, its value and the limit.
    """
    try:
        found = operator.index(value)
    except TypeError:
        found = -1
    if found < minimum or isinstance(value, bool):
        raise InputError(code, f'{name} is {shown(value)}',
                         f'it must be a whole number of at least {minimum}')
    return found


def size_of(name: str, size: Any, minimum: int = 0) -> tuple[int, int]:
    """Width and height of images, pixels.

    Three numbers are the shape of an array, which begins with the height. Two may be, too, and
    nobody can know; both are therefore to be written as the text says.

    :raises ConfigError: it is no pair.
    :raises InputError: it is not of whole numbers of at least ``minimum``.
    """
    try:
        values = tuple(size)
    except TypeError:
        values = ()
    if len(values) != 2 or isinstance(size, str):
        raise ConfigError(name, size, 'must be (width, height); the shape of an image begins with '
                          f'its height: write {name}=image.shape[1::-1]')
    width, height = (whole(f'{name}[{i}]', value, minimum) for i, value in enumerate(values))
    return width, height


def array_of(name: str, values: Any) -> np.ndarray:
    """Float64 of at least one dimension.

    :raises InputError: bad calibration: it is not made of numbers.
    """
    try:
        found = np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        found = np.empty(())
    if not found.ndim:
        raise InputError(IssueCode.BAD_CALIBRATION, f'{name} is {shown(values)}',
                         'it must be numbers, row by row')
    return found


def numbers_of(name: str, values: Any, *counts: int) -> list[float]:
    """So many finite numbers, row by row, of a sequence or of an array with their shape.

    :param counts: how many there may be; an array may have the shape of the first one.
    :raises InputError: bad calibration, with the name, and the place of the first that is none.
    """
    found = array_of(name, values)
    shape = SHAPES.get(counts[0])
    if found.squeeze().ndim > 1 and found.shape != shape:
        raise InputError(
            IssueCode.BAD_CALIBRATION, f'{name} has the shape {found.shape}',
            'it must be ' + (f'{shape}, or numbers row by row' if shape else 'a list of numbers'))
    numbers: list[float] = found.reshape(-1).tolist()
    if len(numbers) not in counts:
        raise InputError(IssueCode.BAD_CALIBRATION, f'{name} has {len(numbers)} values',
                         'it must have ' + ' or '.join(map(str, counts)))
    for index, value in enumerate(numbers):
        if not math.isfinite(value):
            raise InputError(IssueCode.BAD_CALIBRATION, f'{name}[{index}] is {value:g}',
                             'every calibration value must be a finite number')
    return numbers


def seconds_of(name: str, value: Any) -> float:
    """A time as a number.

    :raises ConfigError: it is none, or not finite.
    """
    try:
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        seconds = math.nan
    if not math.isfinite(seconds):
        raise ConfigError(name, value, 'must be a finite number of seconds, or None')
    return seconds


def choice_of(name: str, value: Any, choices: Sequence[str]) -> str:
    """One of some words.

    :raises ConfigError: it is none of them.
    """
    if not isinstance(value, str) or value not in choices:
        raise ConfigError(name, value, f'must be one of {", ".join(choices)}'
                          + did_you_mean(str(value), choices))
    return value


def path_of(name: str, value: Any) -> PathLike:
    """The path of a file.

    :raises ConfigError: it is none.
    """
    if not is_path(value):
        raise ConfigError(name, value, 'must be the path of a file, as a str or a pathlib.Path')
    path: PathLike = value
    return path


def is_path(value: Any) -> bool:
    """Whether a file may have it as its path."""
    return isinstance(value, (str, os.PathLike))


def check_fields(name: str, message: Any, kind: str, code: IssueCode, fields: str) -> None:
    """Reject what has not the fields of a kind of message.

    :param fields: with blanks between them.
    :raises InputError: names the first one that is missing.
    """
    for field in fields.split():
        try:
            operator.attrgetter(field)(message)
        except AttributeError:
            raise InputError(code, f'{name} is {shown(message)}',
                             f'it must be a {kind}, and has no {field}') from None
