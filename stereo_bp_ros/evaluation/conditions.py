"""Pass conditions: ``PATH <= NUMBER`` over the JSON report of an evaluation.

A path is the keys of ``report.json`` joined by points, for instance
``mean.regions.10_50_m.score.bad_3_estimated <= 2``. The right side may be ``FACTOR * PATH``.
``pairs.*.PATH`` has to hold in every frame. docs/reference/scenarios.md explains them.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from stereo_bp_ros.config.settings import did_you_mean
from stereo_bp_ros.errors import shown
from stereo_bp_ros.evaluation.depth_errors import DepthError
from stereo_bp_ros.evaluation.frame_scores import FrameScore, MapScore
from stereo_bp_ros.evaluation.metrics import Score
from stereo_bp_ros.evaluation.regions import DISTANCES, REGIONS, distance_name
from stereo_bp_ros.evaluation.results import Figures, Result, report_of, totals_of
from stereo_bp_ros.evaluation.rows import PairRows
from stereo_bp_ros.evaluation.sparsification import Sparsification
from stereo_bp_ros.row_correction import RowState
from stereo_bp_ros.types import ENGINE_STAGES

#: How a condition is written.
FORM = 'PATH <= NUMBER or PATH <= FACTOR * PATH, with one of < <= > >='

EXPLAIN = 'stereo_bp evaluate --explain lists the paths'

#: Begins the path of a figure that every frame has to hold.
EVERY = 'pairs.*.'

#: Keys of ``delivery``: what became of the frames of a run through the node.
DELIVERY = ('sent', 'received', 'published', 'recorded', 'superseded', 'dropped', 'lost')

OPERATORS = {'<': operator.lt, '<=': operator.le, '>': operator.gt, '>=': operator.ge}

#: Keys whose figures are only computed with an option, and its name.
OPTIONS = {'sparsification': 'confidence'}

#: What the figure of a path needs; the first pattern that the path has counts.
NEEDS = (
    (r'^delivery', 'a run through the node, stereo_bp replay'),
    (r'latency_ms\.device|device_ms', 'a CUDA device'),
    (r'latency_ms|stages_ms', 'a stage that runs'),
    (r'row_correction_px', 'row_correction correct'),
    (r'_bytes$', 'a system that tells it'),
    (r'sparsification', 'truth and --confidence'),
    (r'(^|\.)sky\.', 'a mask of the sky'),
    (r'regions\.(vehicles|background)', 'truth and a mask of vehicles'),
    (r'regions\.(not_)?occluded', 'truth and a mask of occluded pixels'),
    (r'regions\.class_', 'truth and a mask of the class'),
    (r'regions\.[\d.]+_', 'truth at this distance and a calibration'),
    (r'depth\.', 'truth and a calibration'),
    (r'', 'truth'))

_NUMBER = r'\d{1,15}(?:\.\d{1,15})?(?:e[+-]?\d{1,2})?'
_CONDITION = re.compile(rf'(?P<path>[^<>]+?) ?(?P<operator><=|>=|<|>) ?'
                        rf'(?P<number>{_NUMBER})(?: ?\* ?(?P<other>[^<>*]+))?')
_REGION = re.compile(r'regions\.(class_[\w-]+|([\d.]+)_([\d.]+|inf)_m)(?=\.|$)')

@dataclasses.dataclass(frozen=True)
class Condition:
    """One condition, understood.

    path:   of the value that is judged.
    number: the limit, or the factor for ``other``.
    other:  path of the value that is multiplied by ``number``; '' = the limit is a number.
    """

    text: str
    path: str
    operator: str
    number: float
    other: str = ''

    @property
    def windows(self) -> list[tuple[float, float]]:
        """Distances in metres that its paths name and that no report has by itself."""
        return [limits for _, limits in _regions(self.text)
                if limits and limits not in itertools.pairwise(DISTANCES)]

    def needs_option(self, option: str) -> bool:
        """Whether a figure is computed with this option alone (``OPTIONS``)."""
        return any(OPTIONS.get(key) == option
                   for path in (self.path, self.other) for key in path.split('.'))


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What became of a condition.

    value, limit: None = the report has no such figure, which fails.
    frames: how many frames have the figure.
    reason: why it failed where the numbers do not say it, and the worst frame of ``EVERY``.
    """

    condition: Condition
    value: float | None
    limit: float | None
    frames: int
    reason: str = ''

    @property
    def passed(self) -> bool:
        """Whether the condition holds; without data it does not."""
        return (self.value is not None and self.limit is not None
                and bool(OPERATORS[self.condition.operator](self.value, self.limit)))

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {'condition': self.condition.text, 'path': self.condition.path,
                'value': self.value, 'limit': self.limit,
                'relative_to': self.condition.other or None, 'frames': self.frames,
                'passed': self.passed, 'reason': self.reason or None}


def parse_condition(text: str, matchers: Sequence[str] = (), inputs: Sequence[str] = ()
                    ) -> Condition:
    """Understand one condition.

    :param matchers: names of the other matchers of the run; ``inputs``: of several inputs.
    :raises ValueError: one sentence that names the condition and the closest path.
    """
    plain = ' '.join(text.split())
    match = _CONDITION.fullmatch(plain)
    known = known_paths(tuple(matchers), tuple(inputs), tuple(
        name for name, _ in _regions(plain)))
    unknown = next((path for path in (match['path'], match['other'])
                    if path and path not in known), '') if match else ''
    if match and not unknown:
        return Condition(plain, match['path'], match['operator'], float(match['number']),
                         match['other'] or '')
    raise ValueError(f'the condition {shown(text)} ' + (
        f'has the path {shown(unknown)}, which no report has{did_you_mean(unknown, known)}'
        if match else f'is not written {FORM}') + f' ({EXPLAIN})')


def _regions(text: str) -> Iterator[tuple[str, tuple[float, float] | None]]:
    """Names of classes and distances in a text, these with their limits in metres."""
    for match in _REGION.finditer(text):
        if match[2] is None:
            yield match[1], None
        elif match[2].count('.') < 2 and match[3].count('.') < 2 and match[2] != '.' != match[3]:
            low, high = float(match[2]), float(match[3])
            if low < high:
                yield distance_name(low, high), (low, high)


@functools.lru_cache(maxsize=32)
def known_paths(matchers: tuple[str, ...] = (), inputs: tuple[str, ...] = (),
                more: tuple[str, ...] = (), regions: tuple[str, ...] | None = None
                ) -> dict[str, None]:
    """Paths of all numbers that a report can have, in its order.

    :param more: further regions; ``regions``: all of them.
    """
    bins = tuple(distance_name(*limits) for limits in itertools.pairwise(DISTANCES))
    names = (*REGIONS, *bins, *more) if regions is None else regions
    part = MapScore(Score(), Score(), DepthError())
    curve = Sparsification((0.0,), (0.0,), 0.0, 0.0)
    frame = FrameScore(
        part, dict.fromkeys(names, part), Score(), {'bad_3': curve, 'mae': curve})
    figures = Figures((1.0,), frame, dict.fromkeys(ENGINE_STAGES, 1.0), 1.0, 1, 1,
                      PairRows(RowState(), 1.0, begins=True))
    results = [Result('', 1, 1, dict.fromkeys(('', *matchers), figures), 1, name)
               for name in inputs or ('',)]
    return dict.fromkeys(_paths({
        **report_of(results, totals_of(results)),
        'delivery': dict.fromkeys((*DELIVERY, 'rate_hz'), 0)}))


def _paths(report: Mapping[str, Any], begin: str = '') -> Iterator[str]:
    for key, value in report.items():
        if isinstance(value, Mapping):
            yield from _paths(value, f'{begin}{key}.')
        elif key == 'pairs':
            yield from _paths(next(iter(value)), EVERY)
        elif value is None or isinstance(value, int | float):
            yield begin + key


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


@dataclasses.dataclass
class _Column:
    """A figure over the frames that have it; ``least`` and ``greatest`` with their names."""

    frames: int = 0
    least: tuple[float, str] = (math.inf, '')
    greatest: tuple[float, str] = (-math.inf, '')

    def add(self, value: float, name: str) -> None:
        self.frames += 1
        if value < self.least[0]:
            self.least = value, name
        if value > self.greatest[0]:
            self.greatest = value, name


def judge(conditions: Iterable[Condition], report: Mapping[str, Any]) -> list[Verdict]:
    """What becomes of each condition; one without data fails.

    :param report: of ``results.report_of``, with anything beside it.
    """
    conditions = list(conditions)
    columns = {one.path: _Column() for one in conditions
               if one.path.startswith((EVERY, 'mean.'))}
    if columns:
        for pair in report['pairs']:
            for path, column in columns.items():
                value = look_up(pair, path.removeprefix(EVERY).removeprefix('mean.'))
                if value is not None:
                    column.add(value, pair['name'])
    verdicts = []
    for one in conditions:
        worst = ''
        if one.path.startswith(EVERY):
            column = columns[one.path]
            value, name = column.least if one.operator.startswith('>') else column.greatest
            value, worst = (value, f'worst in {name}') if column.frames else (None, '')
        else:
            value = look_up(report, one.path)
        limit: float | None = one.number
        if one.other:
            theirs = look_up(report, one.other)
            limit = None if theirs is None else one.number * theirs
        frames = columns[one.path].frames if one.path in columns else report['frames']
        lacking = one.path if value is None else one.other if limit is None else ''
        verdicts.append(Verdict(one, value, limit, 0 if value is None else frames, (
            f'no data of {lacking}: needs {needs_of(lacking)}' if lacking else worst)))
    return verdicts


def needs_of(path: str) -> str:
    """What the figure of a path needs, in words."""
    if path.endswith('coverage') and 'regions' not in path and 'sky' not in path:
        return 'a frame'
    return next(words for pattern, words in NEEDS if re.search(pattern, path))
