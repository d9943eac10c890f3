"""Sweeps of settings: the grid, what is kept of a point, which one is chosen."""

from __future__ import annotations

import dataclasses
import decimal
import functools
import itertools
import json
import math
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from stereo_bp_ros import atomic_files, files
from stereo_bp_ros.bounded import MAX_REPORT_BYTES
from stereo_bp_ros.config import MatcherConfig, Value
from stereo_bp_ros.config.settings import did_you_mean
from stereo_bp_ros.errors import shown, visible
from stereo_bp_ros.evaluation.conditions import (
    EVERY,
    OPTIONS,
    Condition,
    Verdict,
    judge,
    known_paths,
    look_up,
)
from stereo_bp_ros.evaluation.results import Summary

#: Points that a grid may have.
MAX_POINTS = 10_000

#: Last keys of the paths of figures whose greater value is the better one; of others less is.
GREATER_IS_BETTER = frozenset((
    'coverage', 'density', 'confirmed', 'static', 'road_inliers', 'seen', 'MEAN_FRAME_RATE'))

#: Path of the time that a figure is weighed against.
TIME = 'latency_ms.total.p50'


@dataclasses.dataclass(frozen=True)
class Axis:
    """A setting and the values that are tried one after another."""

    name: str
    values: tuple[Value, ...]


@dataclasses.dataclass(frozen=True)
class Point:
    """One point as it was measured.

    changes: the swept settings; figures: of ``swept_figures``.
    disparities: how many were searched, each number once, the smallest first.
    """

    changes: Mapping[str, Value]
    frames: int
    figures: Mapping[str, Any]
    disparities: Sequence[int] = ()

    def figure(self, path: str) -> float | None:
        """The value at a path of the report."""
        return look_up(self.figures, path)

    @property
    def time_ms(self) -> float:
        """Median of all runs, milliseconds."""
        value = self.figure(TIME)
        assert value is not None
        return value

    @property
    def label(self) -> str:
        """The swept settings in a line."""
        return ', '.join(f'{name}={value}' for name, value in self.changes.items())

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {'changes': dict(self.changes), 'frames': self.frames,
                'disparities': list(self.disparities), 'figures': dict(self.figures)}


def swept_figures(total: Summary) -> dict[str, Any]:
    """What is kept of a point: the report of its matcher without regions."""
    report = total.to_dict()
    return {**report, 'regions': {}, 'mean': {**report['mean'], 'regions': {}}}


@functools.lru_cache
def swept_paths() -> dict[str, None]:
    """Paths of the figures that every point has."""
    return {path: None for path in known_paths(regions=())
            if not path.startswith((EVERY, 'process_bytes', 'delivery.'))
            and not OPTIONS.keys() & set(path.split('.'))}


def parse_axis(text: str) -> Axis:
    """``NAME=FROM:TO:STEP``, both ends included, or ``NAME=VALUE,VALUE``.

    :raises ValueError: one sentence that names the text: no such form, setting or value.
    """
    name, equals, words = text.partition('=')
    known = MatcherConfig.settings()
    if not equals or not words:
        raise ValueError(f'--sweep {shown(text)} is not written NAME=FROM:TO:STEP or '
                         'NAME=VALUE,VALUE')
    if name not in known:
        raise ValueError(f'--sweep {shown(text)}: a matcher has no setting {shown(name)}'
                         + did_you_mean(name, known))
    limits = words.split(':')
    texts = _range(text, limits) if len(limits) > 1 else words.split(',')
    return Axis(name, tuple(dict.fromkeys(known[name].parse(one) for one in texts)))


def _range(text: str, limits: Sequence[str]) -> list[str]:
    """The numbers of FROM:TO:STEP as they are written: 0.1 times 3 is 0.3."""
    try:
        low, high, step = map(decimal.Decimal, limits)
        count = int((high - low) / step) + 1 if step > 0 else 0
    except (ValueError, decimal.DecimalException, OverflowError):
        count = -1
    if not 0 < count <= MAX_POINTS:
        raise ValueError(f'--sweep {shown(text)} is not written NAME=FROM:TO:STEP, three numbers '
                         f'with FROM <= TO and STEP > 0, of at most {MAX_POINTS} values')
    return [format(low + i * step, 'f') for i in range(count)]


def grid(axes: Sequence[Axis]) -> list[dict[str, Value]]:
    """Every combination; the last axis changes first.

    :raises ValueError: a setting is there twice, or there are too many points.
    """
    names = [one.name for one in axes]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f'--sweep has the setting {name} twice')
    count = math.prod(len(one.values) for one in axes)
    if count > MAX_POINTS:
        raise ValueError(f'--sweep has {count} points, but at most {MAX_POINTS} are tried')
    return [dict(zip(names, values, strict=True))
            for values in itertools.product(*(one.values for one in axes))]


class Store:
    """Points in a file of JSON lines; what was cut off while it was written is no point.

    :param path: of the file, which need not be there.
    :raises ValueError: it cannot be read.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._points: dict[str, Point] = {}
        self._ends = True
        if path.exists():
            text = files.read_bytes(path, 'file of points', MAX_REPORT_BYTES).decode(
                'utf-8', 'replace')
            self._ends = not text or text.endswith('\n')
            for line in text.splitlines():
                self._points.update(_read(line))

    def find(self, identity: Mapping[str, Any]) -> Point | None:
        """The point that was measured with exactly this identity."""
        return self._points.get(_key(identity))

    def add(self, identity: Mapping[str, Any], point: Point) -> None:
        """Keep a point, at once on the disk."""
        line = json.dumps({'identity': identity, **point.to_dict()}, allow_nan=False)
        atomic_files.append_text(self._path, ('' if self._ends else '\n') + line + '\n')
        self._ends = True
        self._points[_key(identity)] = point


def _key(identity: Any) -> str:
    return json.dumps(identity, sort_keys=True)


def _read(line: str) -> Iterator[tuple[str, Point]]:
    """The point of a line, by its identity; nothing where the line is none."""
    try:
        content = json.loads(line)
        point = Point(content['changes'], content['frames'], content['figures'],
                      tuple(content['disparities']))
        if point.figure(TIME) is not None:
            yield _key(content['identity']), point
    except (ValueError, LookupError, TypeError, RecursionError):
        return


def cost(point: Point, figure: str) -> tuple[float, float]:
    """What is to be small: the figure (with the sign that makes it so), and the time."""
    value = point.figure(figure)
    assert value is not None
    return (-value if figure.rpartition('.')[2] in GREATER_IS_BETTER else value), point.time_ms


def pareto(points: Sequence[Point], figure: str) -> list[Point]:
    """Points that no other one beats in time without losing in the figure, the fastest first.

    Points without the figure are none of them.
    """
    found: list[Point] = []
    for point in sorted((one for one in points if one.figure(figure) is not None),
                        key=lambda one: cost(one, figure)[::-1]):
        if not found or cost(point, figure)[0] < cost(found[-1], figure)[0]:
            found.append(point)
    return found


def choose(points: Sequence[Point], figure: str, limits: Sequence[Condition],
           named: Mapping[str, Value] | None = None) -> Point:
    """The point that is named, else the best in a figure of those that hold the limits.

    Of equals the faster one.

    :param limits: conditions about all frames, in numbers (``check_limit``).
    :raises ValueError: no point is the one named, holds the limits or has the figure.
    """
    if named:
        for point in points:
            if all(point.changes.get(name) == value for name, value in named.items()):
                return point
        raise ValueError('--choose names no point of the sweep; one is '
                         + (points[0].label if points else 'not there'))
    able = [one for one in points if all(
        verdict.passed for verdict in judge(limits, {**one.figures, 'pairs': ()}))]
    if not able:
        raise ValueError('no point holds ' + ' and '.join(shown(one.text) for one in limits)
                         + _nearest(points, limits))
    scored = [one for one in able if one.figure(figure) is not None]
    if not scored:
        raise ValueError(f'no point has {figure}: name another figure with --by, or a point '
                         'with --choose NAME=VALUE')
    return min(scored, key=lambda one: cost(one, figure))


def _nearest(points: Sequence[Point], limits: Sequence[Condition]) -> str:
    """The end of a sentence: the point whose worst miss is the smallest part of its limit."""
    def miss(verdict: Verdict) -> float:
        if verdict.passed:
            return 0.0
        if verdict.value is None or verdict.limit is None:
            return math.inf
        return abs(verdict.value - verdict.limit) / (abs(verdict.limit) or 1.0)

    judged = [(point, judge(limits, {**point.figures, 'pairs': ()})) for point in points]
    point, verdicts = min(judged, key=lambda one: max(map(miss, one[1])))
    missed = [f'{one.condition.path} {one.value:.4g}' for one in verdicts
              if not one.passed and one.value is not None]
    return f'; nearest is {point.label}, which has {" and ".join(missed)}' if missed else ''


def check_limit(limit: Condition) -> None:
    """Reject conditions that a kept point cannot be judged by.

    :raises ValueError: it is about a region, another matcher, single frames or an option.
    """
    if not {limit.path, limit.other or limit.path} <= swept_paths().keys():
        raise ValueError(f'--choose {shown(limit.text)}: a point is chosen by figures of all '
                         'frames that need no option')


def preset_text(config: MatcherConfig, comments: Sequence[str]) -> str:
    """A ROS parameter file with all settings that are not the defaults."""
    defaults = MatcherConfig().to_mapping()
    changed = {name: value for name, value in config.to_mapping().items()
               if value != defaults[name]}
    return ''.join(f'# {visible(line)}\n' for line in comments) + yaml.safe_dump(
        {'/**': {'ros__parameters': changed}}, sort_keys=False, width=95)
