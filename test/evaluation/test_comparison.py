"""Two reports over the same frames: paired figures, their interval and their test."""

from __future__ import annotations

import copy
import itertools
import json

import numpy as np
import pytest

from stereo_bp_ros.evaluation.comparison import (
    DRAWS,
    compare,
    interval,
    read_report,
    sign_flips,
)
from test.cases import every

SKEWED = np.array([0.1, 0.2, 0.2, 0.3, 0.4, 0.5, 0.5, 0.8, 1.1, 1.9, 4.0, 9.0])


def pair(name: str, bad: float | None, *, ms: float = 20.0, density: float = 90.0) -> dict:
    score = {'known': 100, 'bad_3_estimated': bad, 'density': density, 'mae': bad}
    filled = {key: bad for key in ('bad_1_all', 'bad_3_all', 'd1_all')}
    return {'name': name, 'width': 64, 'height': 48, 'score': score, 'filled': filled,
            'median_ms': ms}


def report(*pairs: dict, **about) -> dict:
    return {'pairs': list(pairs), 'matcher': 'road', **about}


def figure(comparison, words: str):
    return next(one for one in comparison['figures'] if one['figure'] == words)


def test_frames_find_each_other_by_name_whatever_their_order():
    a = report(pair('x', 1.0), pair('y', 2.0), pair('z', 6.0))
    b = report(pair('z', 5.0), pair('x', 1.5), pair('y', 2.5))
    found = figure(compare(a, b), 'filled bad-3')
    assert [found[key] for key in ('frames', 'a', 'b', 'difference')] == [3, 3, 3, 0]
    equal = compare(a, copy.deepcopy(a))
    assert every((one['difference'], one['interval'], one['p'], one['change'])
                 == (0, (0, 0), 1, '') for one in equal['figures'])
    assert equal['changed'] == {}
    # A frame with a figure in one report only is no pair of it.
    found = figure(compare(report(pair('x', 1.0), pair('y', 2.0)),
                           report(pair('x', None), pair('y', 4.0))), 'filled bad-3')
    assert [found[key] for key in ('frames', 'a', 'b', 'interval', 'p')] == [1, 2, 4, None, 1]


def test_a_change_is_better_or_worse_by_the_meaning_of_the_figure():
    rising = np.linspace(1, 2, 10)
    a = report(*(pair(str(i), 5, ms=50, density=80) for i in range(10)))
    b = report(*(pair(str(i), 5 + x, ms=50 - x, density=80 + x) for i, x in enumerate(rising)))
    found = compare(a, b)
    assert figure(found, 'filled bad-3')['change'] == 'worse'
    assert figure(found, 'median time')['change'] == 'better'
    assert figure(found, 'density')['change'] == 'better'
    assert figure(found, 'density')['p'] == pytest.approx(2 / 2**10)


def test_frames_without_truth_are_compared_by_what_they_have():
    a = report(pair('x', None, density=None), pair('y', None, density=None, ms=10))
    b = report(pair('x', None, density=None, ms=30), pair('y', None, density=None, ms=5))
    found = compare(a, b)
    assert (figure(found, 'EPE')['frames'], figure(found, 'EPE')['p']) == (0, None)
    assert figure(found, 'median time')['difference'] == 2.5
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize(('change', 'words'), [
    (lambda pairs: pairs.pop(), "1 are in one of them only, the first is 'z'"),
    (lambda pairs: pairs.append(pair('new', 1.0)), "only, the first is 'new'"),
    (lambda pairs: pairs.append(pair('x', 1.0)), "B has two frames 'x'"),
    (lambda pairs: pairs[1].update(width=32), "'y' is not the same in both reports: width is 64"),
    (lambda pairs: pairs[1]['score'].update(known=3), 'score.known is 100 in A and 3 in B')])
def test_reports_over_other_frames_are_refused(change, words):
    a = report(pair('x', 1.0), pair('y', 1.0), pair('z', 1.0))
    b = copy.deepcopy(a)
    change(b['pairs'])
    with pytest.raises(ValueError, match='frame') as caught:
        compare(a, b)
    assert words in str(caught.value)


@pytest.mark.parametrize('text', ['', '[]', '{"pairs": []}', '{"pairs": [{"name": 3}]}', '{"a":',
                                  '[' * 100000])
def test_a_file_that_is_no_report_is_refused(tmp_path, text):
    path = tmp_path / 'a.json'
    path.write_text(text)
    with pytest.raises(ValueError, match='report'):
        read_report(path)


def test_the_interval_leans_to_the_side_of_the_few_large_values():
    low, high = interval(SKEWED)
    mean = SKEWED.mean()
    # A million resamples have (0.658, 4.050).
    assert (low, high) == pytest.approx((0.658, 4.05), abs=0.1)
    assert high - mean > mean - low
    assert interval(-SKEWED) == pytest.approx((-high, -low), abs=0.15)
    assert interval(SKEWED) == (low, high)
    assert interval(np.array([3.0])) is None
    assert interval(np.full(5, 0.1)) == pytest.approx((0.1, 0.1))


def test_what_the_reports_differ_in_is_named():
    a = report(pair('x', 1.0), settings={'levels': 4, 'iterations': 5}, backend='cpu')
    b = report(pair('x', 1.0), settings={'levels': 4, 'iterations': 7}, backend='cuda')
    assert compare(a, b)['changed'] == {'backend': ['cpu', 'cuda'], 'settings.iterations': [5, 7]}
    assert compare({**a, 'settings': 3}, a)['changed'].keys() == {
        'settings.levels', 'settings.iterations'}


def test_signs_of_few_frames_are_all_tried_and_of_many_drawn_the_same_ones_every_time():
    for values in ([3.0], [1.0, -2.0, 4.0], [0.5, 0.0, -0.25, 3.0, 3.0]):
        sums = [abs(np.dot(signs, values)) for signs in
                itertools.product((1, -1), repeat=len(values))]
        wanted = np.mean([one >= abs(sum(values)) - 1e-9 for one in sums])
        assert sign_flips(np.array(values)) == wanted
    values = np.random.default_rng(5).normal(0.5, 1, 14)
    signs = 1 - 2 * (np.arange(2**14)[:, None] >> np.arange(14) & 1)
    exact = np.mean(np.abs(signs @ values) >= abs(values.sum()) - 1e-9)
    assert sign_flips(values) == pytest.approx(exact, abs=6 * np.sqrt(exact / DRAWS))
    assert sign_flips(values) == sign_flips(values)
    assert sign_flips(np.ones(40)) == 2 / (1 + DRAWS)
