"""Two reports over the same frames, compared frame by frame.

The interval is the bias-corrected and accelerated bootstrap (BCa) of B. Efron and R. Tibshirani,
An Introduction to the Bootstrap, 1993, section 14.3. The test is Fisher's of paired differences:
if nothing has changed, each difference could as well have the other sign. Both take frames as
independent of each other.
"""

from __future__ import annotations

import collections
import json
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from stereo_bp_ros.errors import shown
from stereo_bp_ros.evaluation.conditions import look_up
from stereo_bp_ros.system.bounded import MAX_REPORT_BYTES, read_bytes

#: Of the confidence intervals, and the maximum p of a change.
SHARE, SIGNIFICANT = 0.95, 0.05

#: Resamples of the bootstrap, and signs that are tried: drawn ones where there are more.
DRAWS = 10_000

_SEED = 20090702
_AT_ONCE = 2**20    # random numbers in memory


class Kind(NamedTuple):
    """A figure of a frame: its words and unit, and its path in a pair of the report."""

    words: str
    unit: str
    path: str
    less_is_better: bool = True


#: What is compared.
KINDS = (
    Kind('filled bad-1', '%', 'filled.bad_1_all'),
    Kind('filled bad-3', '%', 'filled.bad_3_all'),
    Kind('filled D1', '%', 'filled.d1_all'),
    Kind('est bad-3', '%', 'score.bad_3_estimated'),
    Kind('density', '%', 'score.density', less_is_better=False),
    Kind('EPE', 'px', 'score.mae'),
    Kind('median time', 'ms', 'median_ms'))


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


def compare(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
    """Compare two reports of ``read_report``, b with a; pairs find each other by their names.

    Returns what ``--json`` prints (docs/reference/metrics.md, Two reports).

    :raises ValueError: their frames, sizes or truths are not the same; names the frame.
    """
    first, second = ({pair['name']: pair for pair in report['pairs']} for report in (a, b))
    for name, report, pairs in (('A', a, first), ('B', b, second)):
        if len(pairs) < len(report['pairs']):
            names = collections.Counter(pair['name'] for pair in report['pairs'])
            raise ValueError(f'report {name} has two frames {shown(names.most_common(1)[0][0])}')
    if missing := sorted(first.keys() ^ second.keys()):
        raise ValueError(f'the reports have other frames: {len(missing)} are in one of them only, '
                         f'the first is {shown(missing[0])}')
    for name, pair in first.items():
        for path in ('width', 'height', 'score.known'):
            both = look_up(pair, path), look_up(second[name], path)
            if both[0] != both[1]:
                raise ValueError(f'frame {shown(name)} is not the same in both reports: {path} is '
                                 f'{both[0]} in A and {both[1]} in B')
    return {'frames': len(first), 'figures': [
        _figure(kind, [(x, y) for name, pair in first.items()
                       if (x := look_up(pair, kind.path)) is not None
                       and (y := look_up(second[name], kind.path)) is not None])
        for kind in KINDS], 'changed': _changed(a, b)}


def _figure(kind: Kind, pairs: list[tuple[float, float]]) -> dict[str, Any]:
    found: dict[str, Any] = {
        'figure': kind.words, 'unit': kind.unit, 'frames': len(pairs),
        **dict.fromkeys(('a', 'b', 'difference', 'interval', 'p')), 'change': ''}
    if pairs:
        values = np.array(pairs)
        differences = values[:, 1] - values[:, 0]
        mean, p = float(differences.mean()), sign_flips(differences)
        is_better = (mean < 0) == kind.less_is_better
        found |= {'a': float(values[:, 0].mean()), 'b': float(values[:, 1].mean()),
                  'difference': mean, 'interval': interval(differences), 'p': p,
                  'change': '' if p > SIGNIFICANT else 'better' if is_better else 'worse'}
    return found


def interval(values: np.ndarray) -> tuple[float, float] | None:
    """Confidence interval of the mean, by the BCa bootstrap; None with fewer than two values.

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


def _changed(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, list[Any]]:
    """What the figures depend on and is not the same: key to both values."""
    def facts(report: Mapping[str, Any]) -> dict[str, Any]:
        found = {key: report.get(key)
                 for key in ('matcher', 'backend', 'devices', 'repeat', 'workers')}
        searched = collections.Counter(str(one.get('disparity_range')) for one in report['pairs'])
        found['disparities searched'] = dict(sorted(searched.items()))
        settings = report.get('settings')
        if isinstance(settings, Mapping):
            found |= {f'settings.{key}': value for key, value in settings.items()}
        return found

    first, second = facts(a), facts(b)
    return {key: [first.get(key), second.get(key)] for key in {**first, **second}
            if first.get(key) != second.get(key)}
