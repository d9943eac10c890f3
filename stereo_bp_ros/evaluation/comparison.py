"""Two reports over the same frames, compared frame by frame.

The interval is the bias-corrected and accelerated bootstrap (BCa) of B. Efron and R. Tibshirani,
An Introduction to the Bootstrap, 1993, section 14.3. The test is Fisher's of paired differences:
if nothing has changed, each difference could as well have the other sign. Both take frames as
independent of each other.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stereo_bp_ros.bounded import MAX_REPORT_BYTES, read_bytes
from stereo_bp_ros.errors import shown
from stereo_bp_ros.evaluation.conditions import look_up

#: Of the confidence intervals.
SHARE = 0.95

#: Largest p of a change.
SIGNIFICANT = 0.05

#: Resamples of the bootstrap, and signs that are tried: drawn ones where there are more.
DRAWS = 10_000

#: Frames that are listed as those which got worse most.
WORST = 5

_SEED = 20090702
_AT_ONCE = 2**20    # random numbers in memory


@dataclasses.dataclass(frozen=True)
class Kind:
    """A figure of a frame: its words and unit, and its path in a pair of the report."""

    words: str
    unit: str
    path: str
    less_is_better: bool = True


#: What is compared.
KINDS = (
    Kind('filled bad-1', '%', 'filled.bad_1_known'),
    Kind('filled bad-3', '%', 'filled.bad_3_known'),
    Kind('filled D1', '%', 'filled.d1_known'),
    Kind('valid bad-3', '%', 'score.bad_3_estimated'),
    Kind('density', '%', 'score.density', less_is_better=False),
    Kind('EPE', 'px', 'score.mae'),
    Kind('median time', 'ms', 'median_ms'))


@dataclasses.dataclass(frozen=True)
class Difference:
    """A figure in both reports, over the frames that have it in both.

    a, b:     means; difference: mean of b - a. None without frames.
    interval: of the difference; None with fewer than two frames.
    p:        how often differences of random signs have such a mean; None without frames.
    """

    kind: Kind
    frames: int
    a: float | None = None
    b: float | None = None
    difference: float | None = None
    interval: tuple[float, float] | None = None
    p: float | None = None

    @property
    def change(self) -> str:
        """'better', 'worse', or '' where chance explains it."""
        if self.p is None or self.difference is None or self.p > SIGNIFICANT:
            return ''
        return 'better' if (self.difference < 0) == self.kind.less_is_better else 'worse'

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {'figure': self.kind.words, 'unit': self.kind.unit, 'frames': self.frames,
                'a': self.a, 'b': self.b, 'difference': self.difference,
                'interval': list(self.interval) if self.interval else None, 'p': self.p,
                'change': self.change}


@dataclasses.dataclass(frozen=True)
class Worse:
    """A frame in which ``kind`` got worse."""

    name: str
    a: float
    b: float


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Everything about two reports.

    worst_of: the figure by which ``worst`` is sorted, the worst frame first.
    changed:  what the reports say of themselves and differ in: key to both values.
    """

    frames: int
    differences: Sequence[Difference]
    worst_of: Kind
    worst: Sequence[Worse]
    changed: Mapping[str, tuple[Any, Any]]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {'frames': self.frames, 'share': SHARE, 'interval': 'bootstrap, BCa',
                'test': 'signs of paired differences, two-sided', 'draws': DRAWS,
                'figures': [one.to_dict() for one in self.differences],
                'worst_of': self.worst_of.words,
                'worst': [dataclasses.asdict(one) for one in self.worst],
                'changed': {key: list(both) for key, both in self.changed.items()}}


def read_report(path: pathlib.Path) -> dict[str, Any]:
    """``report.json`` of ``stereo_bp evaluate``, or what ``--json`` has printed.

    :raises ValueError: it is none.
    """
    try:
        report = json.loads(read_bytes(path, MAX_REPORT_BYTES))
    except (ValueError, RecursionError) as error:
        raise ValueError(f'{path} is no report: {error}') from error
    pairs = report.get('pairs') if isinstance(report, dict) else None
    if not isinstance(pairs, list) or not pairs or not all(
            isinstance(pair, dict) and isinstance(pair.get('name'), str) for pair in pairs):
        raise ValueError(f'{path} is no report of stereo_bp evaluate: it has no "pairs"')
    return report


def compare(a: Mapping[str, Any], b: Mapping[str, Any]) -> Comparison:
    """Compare two reports of ``read_report``, b with a; pairs find each other by their names.

    :raises ValueError: their frames, sizes or truths are not the same; names the frame.
    """
    first, second = _by_name(a, 'A'), _by_name(b, 'B')
    for missing, where in ((first.keys() - second.keys(), 'A'),
                           (second.keys() - first.keys(), 'B')):
        if missing:
            raise ValueError(f'the reports have other frames: {len(missing)} are in {where} '
                             f'only, the first is {shown(min(missing))}')
    for name, pair in first.items():
        for words, path in (('width', 'width'), ('height', 'height'),
                            ('pixels with truth', 'score.known')):
            both = look_up(pair, path), look_up(second[name], path)
            if both[0] != both[1]:
                raise ValueError(f'frame {shown(name)} is not the same in both reports: {words} '
                                 f'{both[0]} in A and {both[1]} in B')
    differences, values = [], {}
    for kind in KINDS:
        found = {name: (x, y) for name, pair in first.items()
                 if (x := look_up(pair, kind.path)) is not None
                 and (y := look_up(second[name], kind.path)) is not None}
        values[kind] = found
        differences.append(_difference(kind, list(found.values())))
    # Without truth there are times only.
    worst_of = next((one for one in KINDS[1:] if values[one]), KINDS[-1])
    sign = 1 if worst_of.less_is_better else -1
    worse = sorted(((x, y, name) for name, (x, y) in values[worst_of].items()
                    if sign * (y - x) > 0), key=lambda one: -sign * (one[1] - one[0]))
    return Comparison(len(first), differences, worst_of,
                      [Worse(name, x, y) for x, y, name in worse[:WORST]], _changed(a, b))


def _by_name(report: Mapping[str, Any], which: str) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for pair in report['pairs']:
        if pair['name'] in found:
            raise ValueError(f'report {which} has two frames {shown(pair["name"])}')
        found[pair['name']] = pair
    return found


def _changed(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What the figures depend on and is not the same."""
    def facts(report: Mapping[str, Any]) -> dict[str, Any]:
        found = {key: report.get(key)
                 for key in ('matcher', 'backend', 'repeat', 'workers')}
        found['disparities searched'] = _searched(report)
        found['devices'] = devices_of(report)
        for room in ('settings', 'versions', 'machine'):
            inner = report.get(room)
            if isinstance(inner, Mapping):
                found |= {f'{room}.{key}': value for key, value in inner.items()}
        found.pop('machine.available memory MiB', None)
        return found

    first, second = facts(a), facts(b)
    return {key: (first.get(key), second.get(key)) for key in {**first, **second}
            if first.get(key) != second.get(key)}


def devices_of(report: Mapping[str, Any]) -> list[dict[str, str]]:
    """What has computed the first matcher; [] where the report does not say it."""
    known, own = report.get('devices'), report.get('matcher')
    found = known.get(own) if isinstance(known, Mapping) and isinstance(own, str) else None
    return [{str(key): str(value) for key, value in one.items() if key != 'pci bus'}
            for one in (found if isinstance(found, list) else ())
            if isinstance(one, Mapping) and 'device' in one]


def _searched(report: Mapping[str, Any]) -> str:
    """Numbers of disparities and of pairs, in words."""
    found = collections.Counter(str(pair.get('disparity_range')) for pair in report['pairs'])
    return ', '.join(f'{count} in {pairs} pairs' for count, pairs in sorted(found.items()))


def _difference(kind: Kind, pairs: Sequence[tuple[float, float]]) -> Difference:
    if not pairs:
        return Difference(kind, 0)
    a, b = (math.fsum(one[side] for one in pairs) / len(pairs) for side in (0, 1))
    differences = np.array([y - x for x, y in pairs])
    return Difference(kind, len(pairs), a, b, float(differences.mean()), interval(differences),
                      sign_flips(differences))


def interval(values: np.ndarray) -> tuple[float, float] | None:
    """Confidence interval of the mean by the BCa bootstrap; None with fewer than two values.

    values: float64 n.
    """
    from scipy import stats
    if values.size < 2:
        return None
    mean = float(values.mean())
    if not np.abs(values - mean).max() > 1e-12 * np.abs(values).max():
        return mean, mean       # which the bootstrap calls degenerate
    limits = stats.bootstrap(
        (values,), np.mean, n_resamples=DRAWS, batch=max(1, _AT_ONCE // values.size),
        confidence_level=SHARE, random_state=np.random.default_rng(_SEED)).confidence_interval
    return float(limits.low), float(limits.high)


def sign_flips(differences: np.ndarray) -> float:
    """Two-sided p of the mean of paired differences: all signs, or ``DRAWS`` of many.

    differences: float64 n, n > 0.
    """
    from scipy import stats
    if differences.size == 1:
        return 1.0
    return float(stats.permutation_test(
        (differences,), np.mean, permutation_type='samples', vectorized=True, n_resamples=DRAWS,
        batch=max(1, _AT_ONCE // differences.size),
        random_state=np.random.default_rng(_SEED)).pvalue)
