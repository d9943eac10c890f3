"""Pass conditions: ``PATH <= NUMBER`` over the JSON report of an evaluation.

A path is the keys of ``report.json`` joined by points, for instance
``mean.regions.10_50_m.score.bad_3_estimated <= 2``. ``pairs.*.PATH`` has to hold in every frame.
docs/reference/scenarios.md explains them.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import operator
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from stereo_bp_ros.config.settings import did_you_mean
from stereo_bp_ros.errors import shown
from stereo_bp_ros.evaluation.regions import DISTANCES

#: Begins the path of a figure that every frame has to hold.
EVERY = 'pairs.*.'

OPERATORS = {'<': operator.lt, '<=': operator.le, '>': operator.gt, '>=': operator.ge}

_CONDITION = re.compile(r'(?P<path>[^<>]+?) ?(?P<operator><=|>=|<|>) ?'
                        r'(?P<number>\d{1,15}(?:\.\d{1,15})?(?:e[+-]?\d{1,2})?)')
_DISTANCES = re.compile(r'(?:^|\.)regions\.(\d+(?:\.\d+)?)_(\d+(?:\.\d+)?|inf)_m\.')


@dataclasses.dataclass(frozen=True)
class Condition:
    """One condition, understood: the value at a path is compared with a number."""

    text: str
    path: str
    operator: str
    number: float

    @property
    def window(self) -> tuple[float, float] | None:
        """Distances in metres that its path names and that no report has by itself."""
        match = _DISTANCES.search(self.path)
        if match is None:
            return None
        limits = float(match[1]), float(match[2])
        is_new = limits[0] < limits[1] and limits not in itertools.pairwise(DISTANCES)
        return limits if is_new else None


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What became of a condition.

    value:  None = the report has no such figure, which fails.
    frames: how many frames have the figure.
    reason: why there is no value, or the worst frame of ``EVERY``.
    """

    condition: Condition
    value: float | None
    frames: int
    reason: str = ''

    @property
    def passed(self) -> bool:
        """Whether the condition holds; without a value it does not."""
        return self.value is not None and bool(
            OPERATORS[self.condition.operator](self.value, self.condition.number))

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {'condition': self.condition.text, 'path': self.condition.path,
                'value': self.value, 'limit': self.condition.number, 'frames': self.frames,
                'passed': self.passed, 'reason': self.reason or None}


def parse_condition(text: str) -> Condition:
    """Understand one condition; whether there is such a path only a report shows.

    :raises ValueError: one sentence that names the condition.
    """
    plain = ' '.join(text.split())
    match = _CONDITION.fullmatch(plain)
    if match is None:
        raise ValueError(f'the condition {shown(text)} is not written PATH <= NUMBER, with one of '
                         '< <= > >=')
    return Condition(plain, match['path'], match['operator'], float(match['number']))


def look_up(report: Any, path: str) -> float | None:
    """The number at a path, whose keys may have points themselves; None = there is none."""
    if isinstance(report, Mapping):
        if path in report:
            value = report[path]
            is_number = isinstance(value, int | float) and math.isfinite(value)
            return value if is_number else None
        for key in sorted(report, key=len, reverse=True):
            if path.startswith(f'{key}.'):
                return look_up(report[key], path[len(key) + 1:])
    return None


def judge(conditions: Iterable[Condition], report: Mapping[str, Any]) -> list[Verdict]:
    """What becomes of each condition; one without data fails.

    :param report: of ``results.report_of``, with anything beside it.
    """
    conditions = list(conditions)
    of_frames: dict[str, list[tuple[float, str]]] = {
        one.path: [] for one in conditions if one.path.startswith((EVERY, 'mean.'))}
    for pair in report['pairs'] if of_frames else ():
        for path, values in of_frames.items():
            value = look_up(pair, path.removeprefix(EVERY).removeprefix('mean.'))
            if value is not None:
                values.append((value, pair['name']))
    return [_judge(one, report, of_frames.get(one.path)) for one in conditions]


def _judge(one: Condition, report: Mapping[str, Any], of_frames: list[tuple[float, str]] | None
           ) -> Verdict:
    value, reason = look_up(report, one.path), ''
    if one.path.startswith(EVERY) and of_frames:
        worst = min if one.operator.startswith('>') else max
        value, name = worst(of_frames, key=lambda frame: frame[0])
        reason = f'worst in {name}'
    if value is None:
        known = dict.fromkeys(_paths(report))
        return Verdict(one, None, 0, f'no frame has data of {one.path}' if one.path in known else
                       f'the report has no {shown(one.path)}{did_you_mean(one.path, known)}')
    return Verdict(one, value, report['frames'] if of_frames is None else len(of_frames), reason)


def _paths(report: Mapping[str, Any], begin: str = '') -> Iterator[str]:
    """Of all figures, also of those without a value."""
    for key, value in report.items():
        if isinstance(value, Mapping):
            yield from _paths(value, f'{begin}{key}.')
        elif key == 'pairs':
            yield from itertools.chain.from_iterable(_paths(pair, EVERY) for pair in
                                                     itertools.islice(value, 1))
        elif value is None or isinstance(value, int | float):
            yield begin + key
