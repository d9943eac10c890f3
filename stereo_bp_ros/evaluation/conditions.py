"""Pass conditions over an evaluation: one sentence each, read strictly and judged.

``FIGURE [of REGION or STAGE] SIGN NUMBER UNIT [between A and B m] [in every frame]``, for instance
``bad3 <= 2 % between 10 and 50 m`` or ``p99 <= 33 ms``. Instead of a unit a limit may have
``x NAME``: as many times the same figure of another matcher of the same run, which holds on any
machine. docs/reference/scenarios.md defines all of it.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from stereo_bp_ros.config.settings import did_you_mean
from stereo_bp_ros.errors import shown
from stereo_bp_ros.evaluation.metrics import THRESHOLDS
from stereo_bp_ros.evaluation.performance import performance
from stereo_bp_ros.evaluation.regions import distance_name
from stereo_bp_ros.evaluation.results import PERCENTILES, Figures, Result, percentiles
from stereo_bp_ros.types import ENGINE_STAGES

FORM = 'FIGURE [of REGION] <= NUMBER UNIT [between A and B m] [in every frame]'
"""How a condition is written."""

REGIONS = ('near_edges', 'away_from_edges', 'vehicles', 'background', 'occluded',
           'not_occluded', 'sky')
"""Parts of a frame that a condition may name; distances are written ``between A and B m``."""

_NUMBER = r'\d{1,9}(?:\.\d{1,9})?'
_SENTENCE = re.compile(
    r'(?P<figure>[\w.\- ]+?)(?: of (?P<part>[\w ]+?))? ?(?P<sign><=|>=) ?'
    rf'(?P<number>{_NUMBER}) ?(?P<unit>%|ms|px|hz|fps|x (?P<other>[\w.\-]+)|)'
    rf'(?: between (?P<near>{_NUMBER}) and (?P<far>{_NUMBER}|inf) ?m)?'
    r'(?P<every> in every frame)?', re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Figure:
    """What a condition is about.

    unit: '%', 'px', 'ms' or 'Hz'.
    path: of a score, where ``Figures.to_dict`` has it; of times their one key of ``_times``.
    """

    unit: str
    path: tuple[str, ...]

    @property
    def is_time(self) -> bool:
        """Whether it is of all runs of all frames together, and not of each frame."""
        return self.unit in ('ms', 'Hz')


def _figures() -> dict[str, Figure]:
    found: dict[str, Figure] = {}
    for name, key in [*((f'bad{n:g}', f'bad_{n:g}') for n in THRESHOLDS), ('d1', 'd1')]:
        found |= {name: Figure('%', ('score', f'{key}_estimated')),
                  f'{name} or hole': Figure('%', ('score', f'{key}_known')),
                  f'filled {name}': Figure('%', ('filled', f'{key}_known'))}
    for name, key in (('epe', 'mae'), ('rms', 'rms')):
        found |= {name: Figure('px', ('score', key)),
                  f'filled {name}': Figure('px', ('filled', key))}
    found |= {name: Figure('%', ('score', name)) for name in ('density', 'coverage')}
    found |= {name: Figure('ms', (name,))
              for name in (*(f'p{share:g}' for share in PERCENTILES), 'mean', 'max')}
    return found | {'rate': Figure('Hz', ('rate',))}


FIGURES: dict[str, Figure] = _figures()
"""Every figure by its words."""


@dataclasses.dataclass(frozen=True)
class Condition:
    """One sentence, understood.

    text:    as it was written.
    figure:  a key of ``FIGURES``.
    part:    a region, a stage, or '' for all.
    at_most: whether the limit is the largest value allowed, else the smallest.
    number:  the limit in the figure's unit, or the factor for ``other``.
    other:   the matcher whose figure is multiplied by ``number``; '' = the limit is a number.
    window:  distances in metres; None = all. Its region is ``part``.
    every:   whether each frame must hold it; else the mean of the frames.
    """

    text: str
    figure: str
    part: str
    at_most: bool
    number: float
    other: str = ''
    window: tuple[float, float] | None = None
    every: bool = False

    @property
    def unit(self) -> str:
        """Of value and limit: '%', 'px', 'ms' or 'Hz'."""
        return FIGURES[self.figure].unit

    @property
    def path(self) -> tuple[str, ...]:
        """Where ``Figures.to_dict`` has a score."""
        path = FIGURES[self.figure].path
        if self.part == 'sky':
            return ('sky', path[1])
        return ('regions', self.part, *path) if self.part else path


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What became of a condition.

    value:  in the condition's unit; None = no frame has the figure, which fails.
    limit:  the same; None = the other matcher has no such figure, which fails.
    frames: how many frames have the figure.
    reason: why it failed where the numbers do not say it, and the worst frame of ``every``.
    """

    condition: Condition
    value: float | None
    limit: float | None
    frames: int
    reason: str = ''

    @property
    def passed(self) -> bool:
        """Whether the condition holds; without data it does not."""
        if self.value is None or self.limit is None:
            return False
        return self.value <= self.limit if self.condition.at_most else self.value >= self.limit

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        one = self.condition
        return {'condition': one.text, 'figure': one.figure, 'part': one.part or None,
                'value': self.value, 'limit': self.limit, 'unit': one.unit,
                'relative_to': one.other or None, 'frames': self.frames,
                'passed': self.passed, 'reason': self.reason or None}


def parse_condition(text: str) -> Condition:
    """Understand one condition.

    :raises ValueError: one sentence that names the condition and what is known.
    """
    def refused(reason: str) -> ValueError:
        return ValueError(f'the condition {shown(text)} {reason}')

    found = _SENTENCE.fullmatch(' '.join(text.split()))
    if found is None:
        raise refused(f'is not written {FORM}, for instance bad3 <= 2 % between 10 and 50 m')
    name = re.sub(r'\bbad[-_ ](?=\d)', 'bad', found['figure'].lower()).removeprefix('valid ')
    figure = FIGURES.get(name)
    if figure is None:
        raise refused(f'has the figure {shown(found["figure"])}, but known are '
                      + ', '.join(FIGURES) + did_you_mean(name, FIGURES))
    part = '_'.join((found['part'] or '').lower().split())
    known = ENGINE_STAGES if figure.is_time else REGIONS
    if part and (part not in known or name == 'rate'):
        raise refused(f'is of {shown(found["part"])}, but {name} can be of '
                      + ('all frames only' if name == 'rate' else ', '.join(known)))
    if part == 'sky' and figure.path[0] != 'score':
        raise refused('is of the sky, whose holes nobody fills')
    every = found['every'] is not None
    if every and (figure.is_time or found['other']):
        raise refused('cannot be "in every frame": only a score with a limit in numbers can')
    window = None
    if found['near']:
        if figure.is_time or part:
            raise refused(f'cannot be "between ... m": {"times" if figure.is_time else part} '
                          'have no distances')
        window = float(found['near']), float(found['far'])
        if not window[0] < window[1]:
            raise refused('has no distances between its two limits: write the nearer one first')
        part = distance_name(*window)
    try:
        number = _limit(float(found['number']), found['unit'].lower(), figure.unit)
    except ValueError as error:
        raise refused(str(error)) from None
    return Condition(text, name, part, found['sign'] == '<=', number, found['other'] or '',
                     window, every)


def _limit(number: float, unit: str, wanted: str) -> float:
    """A limit in the unit of its figure."""
    if unit.startswith('x '):
        return number
    if not unit and wanted == '%':
        # 1 could be all or a hundredth.
        if 0 < number < 1:
            return 100.0 * number
        raise ValueError(f'has the limit {number:g}: write {number:g} %, or a share between 0 '
                         'and 1')
    if {'hz': 'Hz', 'fps': 'Hz'}.get(unit, unit) != wanted:
        raise ValueError(f'has a limit in {unit or "no unit"}, but the figure is in {wanted}; '
                         'x NAME makes it relative to another matcher')
    if wanted == '%' and number > 100:
        raise ValueError(f'has the limit {number:g} %, but a share is at most 100 %')
    return number


def judge(conditions: Sequence[Condition], results: Sequence[Result]) -> list[Verdict]:
    """What becomes of each condition; the first matcher of the results is the one judged.

    Scores are means of the frames that have them, each frame counting the same, as the row
    ``mean`` of the tables. A condition without any data fails.

    :raises ValueError: there are no results, or a condition names a matcher that is not there.
    """
    if not results:
        raise ValueError('there are no results to judge')
    own = next(iter(results[0].matchers))
    wanted = {own, *(one.other for one in conditions if one.other)}
    for name in wanted - set(results[0].matchers):
        raise ValueError(f'no matcher has the name {shown(name)}')
    figures = {name: [result.matchers[name] for result in results] for name in wanted}
    scores = {name: [one.to_dict() for one in found] for name, found in figures.items()}

    def values(one: Condition, name: str) -> list[float | None]:
        if FIGURES[one.figure].is_time:
            return [_time(one, figures[name])]
        return [_look_up(frame, one.path) for frame in scores[name]]

    verdicts = []
    for one in conditions:
        found = values(one, own)
        limit: float | None = one.number
        if one.other:
            theirs = _mean(values(one, one.other))
            limit = None if theirs is None else one.number * theirs
        frames = sum(value is not None for value in found)
        if FIGURES[one.figure].is_time and frames:
            frames = len(results)
        value, worst = _mean(found), ''
        if one.every and frames:
            value, worst = _worst(one, found, results)
        verdicts.append(Verdict(one, value, limit, frames, worst or _lack(one, value, limit)))
    return verdicts


def figures_of(results: Sequence[Result]) -> dict[str, float | None]:
    """Every figure of ``FIGURES`` over all frames, of the first matcher; None = no data.

    :raises ValueError: there are no results.
    """
    every = [Condition('', name, '', True, 0.0) for name in FIGURES]
    return {one.condition.figure: one.value for one in judge(every, results)}


def _lack(condition: Condition, value: float | None, limit: float | None) -> str:
    if value is not None:
        return f'no data of {condition.other}' if limit is None else ''
    if condition.window:
        near, far = condition.window
        return f'no data between {near:g} and {far:g} m: needs truth there and a calibration'
    part = condition.part.replace('_', ' ')
    if FIGURES[condition.figure].is_time:
        return f'no data: the stage {part} does not run'
    needs = {'sky': 'a mask of the sky', 'vehicles': 'truth and a mask of vehicles',
             'background': 'truth and a mask of vehicles',
             'occluded': 'truth and a mask of occluded pixels',
             'not occluded': 'truth and a mask of occluded pixels'}.get(part, 'truth')
    return f'no data{" of " if part else ""}{part}: needs {needs}'


def _worst(condition: Condition, values: Sequence[float | None], results: Sequence[Result]
           ) -> tuple[float, str]:
    """The value that is hardest to hold, and the frame that has it in words."""
    there = [(value, result.name) for value, result in zip(values, results, strict=True)
             if value is not None]
    value, name = (max if condition.at_most else min)(there)
    return value, f'worst in {name}'


def _mean(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return math.fsum(there) / len(there) if there else None


def _look_up(figures: Mapping[str, Any], path: Sequence[str]) -> float | None:
    value: Any = figures
    for key in path:
        value = value.get(key) if value else None
    return None if value is None else float(value)


def _time(condition: Condition, figures: Sequence[Figures]) -> float | None:
    """One figure of the times of all runs, or of a stage in the last run of each frame."""
    if condition.part:
        times = [one.stages_ms[condition.part] for one in figures
                 if condition.part in one.stages_ms]
    else:
        times = [ms for one in figures for ms in one.times_ms]
    if not times:
        return None
    known = performance(times)
    return {**percentiles(times), 'mean': known.mean_ms, 'max': known.max_ms,
            'rate': known.rate_hz}[condition.figure]
