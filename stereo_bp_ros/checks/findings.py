"""What checks find: keys, severities and sentences, in one vocabulary for every program."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.errors import IGNORABLE, Doubt, InputError, InputReason, ignored_keys


class Severity(str, enum.Enum):
    """What follows: no result, or a result with a warning."""

    REJECT = 'reject'
    WARN = 'warn'

    def __str__(self) -> str:
        return self.value


@dataclasses.dataclass(frozen=True)
class Check:
    """One check.

    key:      of its counter, of its diagnostic, and in ``ignored_checks``.
    severity: what follows where it does not hold.
    about:    what has to hold.
    """

    key: str
    severity: Severity
    about: str

    @property
    def can_be_ignored(self) -> bool:
        """Whether ``ignored_checks`` may name it: sizes, memory and numbers that are not finite
        have no way around."""
        return self.key in IGNORABLE


@dataclasses.dataclass(frozen=True)
class Finding:
    """A check that does not hold.

    text:   a sentence with the value, what it should be, and what to set.
    weight: of several findings of one check the largest is the one to tell.
    """

    check: Check
    text: str
    weight: float = 0.0

    def __str__(self) -> str:
        return self.text + (f' [{self.check.key}]' if self.check.can_be_ignored else '')

    def to_dict(self) -> dict[str, str]:
        """For JSON."""
        return {'check': self.check.key, 'text': self.text}


#: Checks by their keys. Those that reject an input by its own format are told by their reason.
CHECKS: dict[str, Check] = {
    reason.value: Check(reason.value, Severity.REJECT, about)
    for reason, about in (
        (InputReason.UNKNOWN_ENCODING, 'the encoding of an image is one of the supported ones'),
        (InputReason.BAD_STEP, 'a row of an image has as many bytes as its pixels need'),
        (InputReason.SHORT_DATA, 'an image has as many bytes as its rows need'),
        (InputReason.BAD_SIZE, 'an image has pixels, and an encoding with chroma even sides'),
        (InputReason.TOO_LARGE,
         'an image is within max_image_width, max_image_height and memory_limit'),
        (InputReason.SIZE_MISMATCH, 'both images of a pair have one size'),
        (InputReason.CAMERA_INFO_SIZE, 'the calibration is of images of the size of the pair'),
        (InputReason.BAD_CALIBRATION, 'calibration values are finite, focal lengths above 0, R is '
         'a rotation, roi a part of the full image'),
        (InputReason.ZERO_BASELINE, 'the baseline is not 0'),
        (InputReason.SWAPPED_CAMERAS,
         'the baseline is above 0: the calibrations are not exchanged'),
        (InputReason.VERTICAL_PAIR, 'the cameras are beside each other, not above each other'),
        (InputReason.ZERO_STAMP, 'an image message has a stamp'),
        (InputReason.BAD_COMPRESSION, 'a compressed image is a whole PNG or JPEG'),
        (InputReason.BAD_ARRAY, 'an array has a supported shape, type and layout'))}

Texts = Iterable['str | tuple[str, float]']


def check(key: InputReason | Doubt, about: str
           ) -> Callable[[Callable[..., Texts]], Callable[..., list[Finding]]]:
    """Make a check of a function that returns what is wrong, in words."""
    severity = Severity.REJECT if isinstance(key, InputReason) else Severity.WARN
    own = CHECKS[key.value] = Check(key.value, severity, about)

    def decorate(function: Callable[..., Texts]) -> Callable[..., list[Finding]]:
        def examine(*inputs: Any) -> list[Finding]:
            return [Finding(own, *((found,) if isinstance(found, str) else found))
                    for found in function(*inputs)]
        examine.__doc__ = function.__doc__
        examine.__name__ = function.__name__
        return examine
    return decorate


def believe(findings: Iterable[Finding], config: MatcherConfig) -> list[Finding]:
    """The findings without those that the setting ``ignored_checks`` names.

    :raises InputError: one of them rejects the input.
    """
    kept = list(findings)
    if config.ignored_checks:
        ignored = ignored_keys(config.ignored_checks)
        kept = [one for one in kept if one.check.key not in ignored]
    for one in kept:
        if one.check.severity is Severity.REJECT:
            text, _, limit = one.text.partition('; ')
            raise InputError(InputReason(one.check.key), text, limit)
    return kept


def summarised(findings: Iterable[Finding]) -> Iterator[tuple[Finding, int]]:
    """Of each check the finding of the largest weight, and how many there are."""
    by_key: dict[str, list[Finding]] = {}
    for one in findings:
        by_key.setdefault(one.check.key, []).append(one)
    for many in by_key.values():
        yield max(many, key=lambda one: one.weight), len(many)
