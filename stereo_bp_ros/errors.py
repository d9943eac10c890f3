"""The errors of this package, each with the numbers that a caller needs to act on."""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np

from stereo_bp_ros.issues import IssueCode

#: Characters of a text from outside that are shown to people.
TEXT_LIMIT = 80

QUOTE_AND_ESCAPE = "'\\"


class _Repr(reprlib.Repr):
    """Goes neither deep nor far, and writes NumPy's scalars as Python's."""

    def repr1(self, x: Any, level: int) -> str:
        return super().repr1(x.item() if isinstance(x, np.generic) else x, level)


_repr = _Repr()
_repr.maxother = _repr.maxlong = TEXT_LIMIT


def visible(text: str, kept: str = '') -> str:
    """A text from outside for people, whole: what is not printable is escaped as in Python.

    That is also what moves a terminal's cursor, is invisible, or turns the direction of writing.
    Marks that combine with the letter before them are letters, and stay.

    :param kept: characters that stay, too.
    """
    return ''.join(one if one.isprintable() or one in kept else
                   one.encode('unicode_escape').decode() for one in text)


def printable(text: object, limit: int = TEXT_LIMIT, escaped: str = '') -> str:
    """A text from outside for people: at most ``limit`` characters, none that is not printable.

    Such characters, and those in ``escaped``, are escaped as in Python; ``...`` shows a cut.
    """
    parts, length = [], 0
    for character in str(text)[:limit + 1]:
        character = f'\\{character}' if character in escaped else visible(character)
        parts.append(character)
        length += len(character)
    if length <= limit:
        return ''.join(parts)
    while length > limit - 3:
        length -= len(parts.pop())
    return ''.join(parts) + '...'


def quoted(text: object, limit: int = TEXT_LIMIT) -> str:
    """As ``printable``, in single quotes, which the text itself cannot end."""
    return f"'{printable(text, limit, escaped=QUOTE_AND_ESCAPE)}'"


def shown(value: object) -> str:
    """Any value from outside for people: a text as ``quoted``, others as Python writes them."""
    if isinstance(value, str):
        return quoted(value)
    try:
        return printable(_repr.repr(value))
    except ValueError:              # Python writes no whole number of more than 4300 digits
        return 'a number of very many digits'


def described(error: BaseException) -> str:
    """An exception that nobody expected, which may repeat a text from outside, for people."""
    return f'{type(error).__name__}({quoted(error, 3 * TEXT_LIMIT)})'


class StereoError(Exception):
    """Base class of every error that this package raises on purpose."""


def reason_of(error: BaseException) -> str:
    """Why something failed, for people and never empty: what this package says, else as
    ``described``."""
    is_a_sentence = isinstance(error, (StereoError, TimeoutError))
    return (str(error) if is_a_sentence else '') or described(error)


class ConfigError(StereoError, ValueError):
    """A setting is rejected. The text names the setting, its value and the limit."""

    def __init__(self, field: str, value: Any, limit: str) -> None:
        name = field if str(field).isprintable() and len(str(field)) <= 80 else shown(field)
        super().__init__(f'{name} is {shown(value)}, but {limit}')
        self.field = field
        self.value = value
        self.limit = limit


class InputError(StereoError, ValueError):
    """An image or a calibration is rejected; nothing was computed or allocated for it."""

    def __init__(self, code: IssueCode, value: Any, limit: str = '') -> None:
        super().__init__(f'{code}: {value}' + (f'; {limit}' if limit else ''))
        self.code = code
        self.value = value
        self.limit = limit


class BackendUnavailable(StereoError, RuntimeError):
    """The asked-for back end cannot run here; ``remedy`` says what would change that."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f'{reason}; {remedy}')
        self.reason = reason
        self.remedy = remedy


class MemoryLimitError(StereoError, MemoryError):
    """The memory plan exceeds what is allowed; known before anything is allocated."""

    def __init__(self, needed: int, allowed: int) -> None:
        super().__init__(
            f'the memory plan needs {needed / 2**20:.1f} MiB, but {allowed / 2**20:.1f} MiB are '
            'allowed (memory_limit, else 80 % of what is free)')
        self.needed = needed
        self.allowed = allowed


class OutOfDeviceMemory(StereoError, MemoryError):
    """The device had no memory left for the engine; recoverable by a rebuild."""


class DeviceLostError(StereoError, RuntimeError):
    """The device no longer answers; no engine on it can run again in this process."""


def ignored_codes(text: str) -> frozenset[IssueCode]:
    """Those in a setting ``ignored_checks``: separated by commas, an underscore is as a blank.

    :raises ConfigError: one of them is unknown, or cannot be ignored.
    """
    known = {code.value: code for code in IssueCode if code.can_be_ignored}
    keys = {' '.join(name.split()) for name in text.replace('_', ' ').split(',')} - {''}
    for name in sorted(keys - known.keys()):
        raise ConfigError('ignored_checks', text,
                          f'{quoted(name)} is none of ' + ', '.join(known))
    return frozenset(known[key] for key in keys)
