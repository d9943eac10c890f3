"""Pass conditions over an evaluation: one sentence each, read strictly and judged.

``FIGURE [of REGION or STAGE] SIGN NUMBER UNIT [between A and B m] [in every frame]``, for instance
``bad3 <= 2 % between 10 and 50 m`` or ``p99 <= 33 ms``. Instead of a unit a limit may have
``x NAME``: as many times the same figure of another matcher of the same run, which holds on any
machine. Of a run through the node there is what became of its frames, too: ``lost <= 0`` or
``published >= 95 %``. docs/reference/scenarios.md defines all of it; ``condition_words`` has the
figures.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from stereo_bp_ros.errors import shown
from stereo_bp_ros.evaluation.condition_words import DELIVERY, FIGURES, near
from stereo_bp_ros.evaluation.obstacles import Detection
from stereo_bp_ros.evaluation.performance import performance
from stereo_bp_ros.evaluation.regions import CLASS, DISTANCES, distance_name
from stereo_bp_ros.evaluation.results import Figures, Result, most, percentiles
from stereo_bp_ros.types import ENGINE_STAGES

FORM = 'FIGURE [of REGION] <= NUMBER UNIT [between A and B m] [in every frame]'
"""How a condition is written."""

REGIONS = ('near_edges', 'away_from_edges', 'vehicles', 'background', 'occluded',
           'not_occluded', 'sky')
"""Parts of a frame that a condition may name, beside ``class NAME`` of any class; distances are
written ``between A and B m``."""

STAGES = (*ENGINE_STAGES, 'device')
"""Parts of a time that a condition may name: stages, and all of them on the device's clock."""

PAGE = 'docs/reference/scenarios.md'

_D1_PARTS = {'all': '', 'bg': 'background', 'fg': 'vehicles'}
"""KITTI's endings of D1, and the regions that they mean."""

_NUMBER = r'\d{1,9}(?:\.\d{1,9})?'
_SENTENCE = re.compile(
    r'(?P<figure>[\w.\- ]+?)(?: of (?P<part>[\w ]+?))? ?(?P<sign><=|>=) ?'
    rf'(?P<number>{_NUMBER}) ?(?P<unit>%|ms|mib|m|px|grey|hz|fps|frames|x (?P<other>[\w.\-]+)|)'
    rf'(?: between (?P<near>{_NUMBER}) and (?P<far>{_NUMBER}|inf) ?m)?'
    r'(?P<every> in every frame)?', re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Delivery:
    """What became of the frames of a run through the node.

    frames:  a count by each word of ``DELIVERY``.
    rate_hz: frames that were published per second of the source.
    """

    frames: Mapping[str, int]
    rate_hz: float


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
    share:   whether a figure of ``DELIVERY`` is in per cent of the frames that were sent.
    """

    text: str
    figure: str
    part: str
    at_most: bool
    number: float
    other: str = ''
    window: tuple[float, float] | None = None
    every: bool = False
    share: bool = False

    @property
    def unit(self) -> str:
        """Of value and limit, as ``Figure.unit``."""
        return '%' if self.share else FIGURES[self.figure].unit

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
    part = '_'.join((found['part'] or '').lower().split())
    if d1 := re.search(r'\bd1-(all|bg|fg)\b', name):
        if part:
            raise refused(f'names a part twice: {d1[0]} and {shown(found["part"])}')
        name, part = name.replace(d1[0], 'd1'), _D1_PARTS[d1[1]]
    figure = FIGURES.get(name)
    if figure is None:
        raise refused(f'has the figure {shown(found["figure"])}, which is none of those in {PAGE}'
                      + near(name, FIGURES))
    share = name in DELIVERY and found['unit'] == '%'
    if name in DELIVERY and (part or found['other'] or found['near'] or found['every']):
        raise refused(f'is about all frames of a run: {name} has no parts')
    known = STAGES if figure.is_time else REGIONS if figure.is_of_pixels else ()
    is_class = known is REGIONS and part.startswith(CLASS)
    if part and part not in known and not is_class:
        words = ', '.join((*known, *(['class NAME'] if known is REGIONS else [])))
        raise refused(f'is of {shown(found["part"] or part)}, but {name} can be of '
                      + (words + near(part, known) if known else 'all only'))
    if part == 'sky' and figure.path[0] != 'score':
        raise refused('is of the sky, ' + ('whose holes nobody fills' if figure.path[0] ==
                                           'filled' else 'which is no number of metres away'))
    every = found['every'] is not None
    if every and (figure.is_of_run or found['other']):
        raise refused('cannot be "in every frame": only a score with a limit in numbers can')
    window = None
    if found['near']:
        window = float(found['near']), float(found['far'])
        if not (figure.is_of_pixels or figure.is_detection) or part:
            raise refused(f'cannot be "between ... m": {part or name} has no distances')
        if not window[0] < window[1]:
            raise refused('has no distances between its two limits: write the nearer one first')
        if figure.is_detection and not set(window) <= set(DISTANCES):
            raise refused('has other distances than obstacles are counted by: '
                          + ', '.join(f'{one:g}' for one in DISTANCES))
        part = distance_name(*window)
    try:
        unit = found['unit'].lower()
        if not unit and 'error_m' in name:
            unit = figure.unit          # the word says it
        if not unit and name in DELIVERY:
            unit = figure.unit
        number = _limit(float(found['number']), unit, '%' if share else figure.unit)
    except ValueError as error:
        raise refused(str(error)) from None
    return Condition(text, name, part, found['sign'] == '<=', number, found['other'] or '',
                     window, every, share)


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
    if {'hz': 'Hz', 'fps': 'Hz', 'mib': 'MiB'}.get(unit, unit) != wanted:
        raise ValueError(f'has a limit in {unit or "no unit"}, but the figure is '
                         f'{f"in {wanted}" if wanted else "a number without one"}; '
                         'x NAME makes it relative to another matcher')
    if wanted == '%' and number > 100:
        raise ValueError(f'has the limit {number:g} %, but a share is at most 100 %')
    return number


def judge(conditions: Sequence[Condition], results: Sequence[Result],
          delivery: Delivery | None = None) -> list[Verdict]:
    """What becomes of each condition; the first matcher of the results is the one judged.

    Scores are means of the frames that have them, each frame counting the same, as the row
    ``mean`` of the tables; figures of the obstacles of the truth are of all frames together. A
    condition without any data fails.

    :param delivery: of a run through the node, whose rate is that of what was published.
    :raises ValueError: there are no results, or a condition names a matcher that is not there.
    """
    if not results:
        raise ValueError('there are no results to judge')
    own = next(iter(results[0].matchers))
    wanted = {own, *(one.other for one in conditions if one.other)}
    for name in wanted - set(results[0].matchers):
        raise ValueError(f'no matcher has the name {shown(name)}')
    scores = _columns(conditions, results, wanted)

    def figures(name: str) -> Iterator[Figures]:
        return (result.matchers[name] for result in results)

    def values(one: Condition, name: str) -> list[float | None]:
        figure = FIGURES[one.figure]
        if one.figure in DELIVERY:
            return [_delivered(one, delivery)]
        if one.figure == 'rate' and delivery is not None:
            return [delivery.rate_hz]
        if one.figure == 'process memory':
            return [_mebibytes(most(result.process_bytes for result in results))]
        if one.figure == 'engine memory':
            return [_mebibytes(most(frame.engine_bytes for frame in figures(name)))]
        if figure.is_of_run:
            return [_time(one, figures(name))]
        if figure.is_detection:
            return [_detected(one, [frame]) for frame in figures(name)]
        return scores[name, tuple(one.path)]

    def over_frames(one: Condition, name: str, found: Sequence[float | None]) -> float | None:
        return (_detected(one, figures(name)) if FIGURES[one.figure].is_detection
                else _mean(found))

    verdicts = []
    for one in conditions:
        found = values(one, own)
        limit: float | None = one.number
        if one.other:
            theirs = over_frames(one, one.other, values(one, one.other))
            limit = None if theirs is None else one.number * theirs
        frames = sum(value is not None for value in found)
        if FIGURES[one.figure].is_of_run and frames:
            frames = len(results)
        if one.figure in DELIVERY and delivery is not None:
            frames = delivery.frames['sent']
        value, worst = over_frames(one, own, found), ''
        if one.every and frames:
            value, worst = _worst(one, found, results)
        verdicts.append(Verdict(one, value, limit, frames, worst or _lack(one, value, limit)))
    return verdicts


def _columns(conditions: Sequence[Condition], results: Iterable[Result], names: Iterable[str]
             ) -> dict[tuple[str, tuple[str, ...]], list[float | None]]:
    """The scores that conditions ask for, of every frame, by matcher and path in JSON."""
    found: dict[tuple[str, tuple[str, ...]], list[float | None]] = {
        (name, tuple(one.path)): [] for one in conditions for name in names
        if one.figure not in DELIVERY and not FIGURES[one.figure].is_of_run
        and not FIGURES[one.figure].is_detection}
    if not found:
        return found
    for result in results:
        known = {name: result.matchers[name].to_dict() for name in names}
        for (name, path), column in found.items():
            column.append(_look_up(known[name], path))
    return found


def figures_of(results: Sequence[Result]) -> dict[str, float | None]:
    """Every figure of ``FIGURES`` over all frames, of the first matcher; None = no data.

    :raises ValueError: there are no results.
    """
    every = [Condition('', name, '', True, 0.0) for name in FIGURES]
    return {one.condition.figure: one.value for one in judge(every, results)}


def _lack(condition: Condition, value: float | None, limit: float | None) -> str:
    if value is not None:
        return f'no data of {condition.other}' if limit is None else ''
    figure = FIGURES[condition.figure]
    if figure.is_time:
        return ('no data: it computes on no device' if condition.part == 'device' else
                f'no data: the stage {condition.part} does not run')
    if condition.figure in DELIVERY:
        return 'no data: frames are counted in a run through the node, stereo_bp replay'
    if figure.is_of_run:
        return 'no data: nobody says how much it is'
    needs = figure.needs
    if figure.asks:
        needs = ' and '.join(filter(None, (f'the option --{figure.asks}', needs)))
    if condition.window:
        near_m, far_m = condition.window
        where = f'between {near_m:g} and {far_m:g} m'
        return (f'no data {where}: needs {needs}' if figure.is_detection else
                f'no data {where}: needs truth there and a calibration')
    part = condition.part.replace('_', ' ')
    masks = {'sky': 'a mask of the sky', 'vehicles': 'a mask of vehicles',
             'background': 'a mask of vehicles', 'occluded': 'a mask of occluded pixels',
             'not occluded': 'a mask of occluded pixels'}
    if part == 'sky':
        needs = masks[part]
    elif part.startswith('class '):
        needs = f'truth and a mask of the {part}'
    elif part:
        needs = ' and '.join(filter(None, (needs or 'truth', masks.get(part))))
    return f'no data{" of " if part else ""}{part}: needs {needs}'


def _delivered(condition: Condition, delivery: Delivery | None) -> float | None:
    """A count of frames, or its share of those that were sent in per cent."""
    if delivery is None:
        return None
    count, sent = delivery.frames[condition.figure], delivery.frames['sent']
    if not condition.share:
        return float(count)
    return 100.0 * count / sent if sent else None


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


def _mebibytes(size: int | None) -> float | None:
    return None if size is None else size / 2**20


_DETECTIONS: Mapping[str, Callable[[Detection], float | None]] = {
    'seen': lambda one: one.as_dict()['seen'],
    'smallest_seen_m': lambda one: one.as_dict()['smallest_seen_m'],
    # Where all are seen there is nothing larger than 0 that is missed.
    'largest_missed_m': lambda one: one.largest_missed_m if one.there else None}


def _detected(condition: Condition, figures: Iterable[Figures]) -> float | None:
    """A figure of the obstacles of the truth, of frames together and of a window of distances."""
    low, high = condition.window or (DISTANCES[0], DISTANCES[-1])
    found = (one for frame in figures if frame.frame.obstacles is not None
             for name, one in frame.frame.obstacles.by_distance.items()
             if low <= float(name.split('_')[0]) < high)
    return _DETECTIONS[FIGURES[condition.figure].path[-1]](
        functools.reduce(operator.add, found, Detection()))


def _time(condition: Condition, figures: Iterable[Figures]) -> float | None:
    """One figure of the times of all runs, or of a stage in the last run of each frame."""
    if condition.part:
        stages = (one.stages_ms if condition.part != 'device' or one.device_ms is None
                  else {'device': one.device_ms} for one in figures)
        times = [one[condition.part] for one in stages if condition.part in one]
    else:
        times = [ms for one in figures for ms in one.times_ms]
    if not times:
        return None
    known = performance(times)
    return {**percentiles(times), 'mean': known.mean_ms, 'max': known.max_ms,
            'rate': known.rate_hz}[condition.figure]
