"""Pass conditions: paths of the report, read strictly and judged."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stereo_bp_ros import Calibration
from stereo_bp_ros.cli.main import one_line
from stereo_bp_ros.evaluation.conditions import Condition, judge, look_up, parse_condition
from stereo_bp_ros.evaluation.frame_scores import score_frame
from stereo_bp_ros.evaluation.regions import find_regions
from stereo_bp_ros.evaluation.results import Figures, Result, report_of, totals_of
from test.cases import every, examples
from test.cli.runs import steady, texts

CALIBRATION = Calibration(100, 1, 0, 0, 0)      # 100 px metres: 10 px at 10 m, 5 px at 20 m
EVERYWHERE = np.ones((10, 10), bool)


def figures(errors: float, times_ms=(10.0, 30.0), *, rows: int = 10, truth: float = 5.0,
            windows=(), sky=None, holes: int = 0) -> Figures:
    """A frame of 10 rows with this truth in the first ``rows``, the first of them wrong."""
    true = np.full((10, 10), np.nan, np.float32)
    true[:rows] = truth
    disparity = np.full((10, 10), truth, np.float32)
    disparity[0] += errors
    valid = EVERYWHERE.copy()
    valid[1:1 + holes] = False
    parts = find_regions(true, EVERYWHERE if rows else None, CALIBRATION, windows=windows)
    return Figures(times_ms, score_frame(disparity, valid, true, regions=parts, sky=sky),
                   {'messages': times_ms[-1] / 2})


def result(own: Figures, name: str = 'a', **others: Figures) -> Result:
    return Result(name, 10, 10, {'own': own, **others}, 300 * 2**20)


def full(errors: float = 3.5) -> Figures:
    """``figures`` with everything that a run can be asked for; 20 m away."""
    true = np.full((10, 10), 5.0, np.float32)
    disparity = true.copy()
    disparity[0] += errors
    frame = score_frame(disparity, EVERYWHERE, true, regions=find_regions(
        true, EVERYWHERE, CALIBRATION), calibration=CALIBRATION, confidence=-disparity)
    return Figures((10.0, 30.0), frame, {'messages': 15.0}, 12.5, 64 * 2**20)


def judged(text: str, *results: Result, **more):
    report = report_of(results, totals_of(results)) | more
    verdict, = judge([parse_condition(text)], report)
    return verdict


@pytest.mark.parametrize(('text', 'wanted'), [
    ('mean.regions.10_50_m.score.bad_3_estimated <= 2',
     ('mean.regions.10_50_m.score.bad_3_estimated', '<=', 2.0)),
    ('mean.filled.bad_0.5_all<8.25', ('mean.filled.bad_0.5_all', '<', 8.25)),
    ('  pairs.*.filled.d1_all   <= 1e-3 ', ('pairs.*.filled.d1_all', '<=', 1e-3)),
    ('latency_ms.total.p99.9 > 3', ('latency_ms.total.p99.9', '>', 3.0)),
    ('BasicPerformanceMetrics.MEAN_FRAME_RATE >= 30',
     ('BasicPerformanceMetrics.MEAN_FRAME_RATE', '>=', 30.0)),
    ('mean.regions.class_traffic_sign.score.mae <= 1',
     ('mean.regions.class_traffic_sign.score.mae', '<=', 1.0)),
    ('by_input.a day/1.frames >= 9', ('by_input.a day/1.frames', '>=', 9.0))])
def test_a_condition_is_understood(text, wanted):
    assert parse_condition(text) == Condition(' '.join(text.split()), *wanted)


@pytest.mark.parametrize('text', [
    '', 'mean.score.mae = 2', 'mean.score.mae <= 2 px', 'mean.score.mae <= -1',
    '2 >= mean.score.mae', 'mean.score.mae <= nan', 'mean.score.mae <= 2 * all.mae',
    'mean.score.mae <= 2 <= 3'])
def test_what_is_no_condition_is_refused_in_one_line(text):
    with pytest.raises(ValueError, match='is not written PATH <= NUMBER') as caught:
        parse_condition(text)
    assert repr(text) in str(caught.value)
    assert '\n' not in str(caught.value)


@pytest.mark.parametrize(('text', 'words'), [
    ('mean.scor.mae <= 2', 'did you mean mean.score.mae?'),
    ('pairs.*.name <= 2', "has no 'pairs.*.name'"),
    ('pairs.*.scor.mae <= 2', 'did you mean pairs.*.score.mae?'),
    ('mean.regions.50_10_m.score.mae <= 2', "no 'mean.regions.50_10_m.score.mae'"),
    ('mean.regions.vehicels.score.mae <= 2', 'did you mean mean.regions.vehicles.score.mae?'),
    ('against.bm.mean.score.mae <= 2', "has no 'against.bm.mean.score.mae'"),
    ('delivery.lost <= 1', "has no 'delivery.lost'"),
    ('mean.sky.coverage <= 1', "has no 'mean.sky.coverage'")])
def test_a_path_that_the_report_has_not_fails_with_the_closest_one(text, words):
    verdict = judged(text, result(figures(0.0)))
    assert (verdict.passed, verdict.value, verdict.frames) == (False, None, 0)
    assert words in verdict.reason


@pytest.mark.parametrize('path', [
    'mean.score.bad_3_estimated', 'pairs.*.score.bad_3_estimated', 'filled.mae',
    'pairs.*.engine_bytes'])
def test_a_figure_without_data_fails_and_says_so(path):
    verdict = judged(f'{path} <= 100000', result(figures(0.0, rows=0)))
    assert (verdict.passed, verdict.value) == (False, None)
    assert verdict.reason == f'no frame has data of {path}'
    assert verdict.to_dict()['passed'] is False


def test_every_figure_has_its_value_at_its_path():
    one = result(figures(3.5, holes=1))         # of 100 pixels 10 are wrong and 10 are missing
    wanted = {'mean.score.bad_4_estimated': 0, 'mean.score.bad_4_all': 10,
              'mean.filled.bad_4_all': 0, 'mean.score.density': 90,
              'mean.score.coverage': 90, 'mean.score.mae': 35 / 90, 'mean.filled.mae': 0.35,
              'mean.score.rms': np.sqrt(122.5 / 90), 'mean.filled.rms': np.sqrt(1.225),
              'latency_ms.total.p50': 20,
              'latency_ms.total.p99': 29.8, 'latency_ms.total.p99.9': 29.98,
              'BasicPerformanceMetrics.MEAN_LATENCY': 20,
              'BasicPerformanceMetrics.MAX_LATENCY': 30,
              'BasicPerformanceMetrics.MEAN_FRAME_RATE': 50}
    for name in ('bad_0.5', 'bad_1', 'bad_2', 'bad_3', 'd1'):
        wanted |= {f'mean.score.{name}_estimated': 1000 / 90, f'mean.score.{name}_all': 20,
                   f'mean.filled.{name}_all': 10}
    # Ten of 100 pixels have a disparity of 8.5 px instead of 5 px: 100 / 8.5 m instead of 20 m.
    other, metres = result(full()), 20 - 100 / 8.5
    scored = other.matchers['own'].frame
    others = {
        'mean.depth.mean_m': metres / 10, 'mean.depth.p50_m': scored.whole.depth.percentile_m(50),
        'mean.depth.p90_m': scored.whole.depth.percentile_m(90),
        'mean.depth.relative_mean': metres / 2,
        'mean.sparsification.bad_3.ause': scored.sparsification['bad_3'].ause,
        'mean.sparsification.mae.ause': scored.sparsification['mae'].ause,
        'engine_bytes': 64 * 2**20, 'process_bytes': 300 * 2**20}
    for source, table in ((one, wanted), (other, others)):
        for path, value in table.items():
            assert judged(f'{path} >= 0', source).value == pytest.approx(value), path


def test_a_mean_is_of_the_frames_that_have_the_figure_and_its_operator_decides():
    results = [result(figures(5.0), 'a'), result(figures(5.0, rows=2), 'b'),
               result(figures(0.0, rows=0, holes=2), 'c')]
    verdict = judged('mean.score.bad_3_estimated <= 30', *results)
    assert (verdict.value, verdict.frames, verdict.passed) == (30, 2, True)
    assert verdict.value == totals_of(results).own.mean['score']['bad_3_estimated']
    path = 'mean.score.bad_3_estimated'
    assert [judged(f'{path} {sign} 10', results[0]).passed for sign in ('<', '<=', '>', '>=')] == [
        False, True, False, True]
    # Coverage needs no truth.
    assert judged('mean.score.coverage >= 80', results[2]).passed
    assert not judged('mean.score.coverage > 80', results[2]).passed


def test_every_frame_has_to_hold_what_every_frame_is_held_to():
    results = [result(figures(0.0), 'good'), result(figures(5.0), 'bad')]
    assert judged('mean.score.bad_3_estimated <= 6', *results).passed
    verdict = judged('pairs.*.score.bad_3_estimated <= 6', *results)
    assert (verdict.passed, verdict.value, verdict.frames, verdict.reason) == (
        False, 10, 2, 'worst in bad')
    holes = [result(figures(0.0, holes=3), 'holes'), results[0]]
    assert judged('pairs.*.score.density >= 80', *holes).reason == 'worst in holes'


def test_a_range_of_distances_has_its_own_pixels():
    text = 'mean.regions.15_25_m.score.bad_3_estimated <= 2'
    assert parse_condition(text).window == (15, 25)
    assert parse_condition(text.replace('15_25', '7.5_inf')).window == (7.5, np.inf)
    assert parse_condition(text.replace('15_25', '8_16')).window is None
    windows = [(15.0, 25.0)]
    assert judged(text, result(figures(5.0, truth=5.0, windows=windows))).value == 10
    verdict = judged(text, result(figures(5.0, truth=10.0, windows=windows)))
    assert (verdict.passed, verdict.value, verdict.frames) == (False, None, 0)


def test_times_are_of_all_runs_of_all_frames_and_deliveries_are_counted():
    results = [result(figures(0.0, (10.0, 20.0)), 'a'), result(figures(0.0, (30.0, 40.0)), 'b')]
    for path, value in (('latency_ms.total.p50', 25), ('pairs.*.stages_ms.messages', 20),
                        ('BasicPerformanceMetrics.MEAN_FRAME_RATE', 4 / 0.1)):
        verdict = judged(f'{path} <= 40', *results)
        assert (verdict.value, verdict.frames) == (pytest.approx(value), 2)
    delivery = {'sent': 200, 'published': 190, 'lost': 3}
    assert judged('delivery.published >= 190', results[0], delivery=delivery).passed
    verdict = judged('delivery.lost <= 2', results[0], delivery=delivery)
    assert (verdict.value, verdict.passed) == (3, False)


def test_keys_of_a_report_may_have_points():
    report = {'a.b': {'c': 1}, 'a': {'b.c.d': 2, 'x': {'y': None}}, 'n': float('nan')}
    assert [look_up(report, path) for path in ('a.b.c', 'a.b.c.d', 'a.x.y', 'a.x', 'n', '')] == [
        1, None, None, None, None, None]
    assert look_up({'a': report['a']}, 'a.b.c.d') == 2


def test_other_matchers_have_the_same_paths_behind_their_name():
    one = result(figures(5.0), sgbm=figures(2.5, rows=5))
    assert judged('against.sgbm.mean.score.bad_2_estimated <= 20', one).value == 20
    assert judged('pairs.*.against.sgbm.score.bad_2_estimated <= 20', one).value == 20


@settings(steady, max_examples=examples(300))
@given(st.lists(texts | st.sampled_from([
    'mean.score.mae', 'pairs.*.', 'against.sgbm.', 'regions.', '10_50_m', '._1_m', '<=', '>', '2',
    '0.5', '9' * 400, '*', 'bad3', 'of', 'sky', '%', 'x', 'sgbm', 'between', 'and', 'm', 'inf',
    'in every frame']), max_size=9).map(' '.join))
def test_any_text_is_a_condition_or_rejected_in_one_line(text):
    condition, refusal = None, ''
    try:
        condition = parse_condition(text)
    except ValueError as error:
        refusal = one_line(str(error))
    assert len(refusal) < 600
    assert condition is None or parse_condition(condition.text) == condition


def test_every_condition_of_the_pages_is_one(repository):
    pages = [*(repository / 'docs').rglob('*.md'), repository / 'test/scenarios/street.yaml']
    rows = [row for page in pages for row in re.findall(
        r'^ *- ([\w.*/]+ [<>]=? .+)$|`((?:mean|pairs|latency_ms|delivery)\.[^`]+ [<>]=? [^`]+)`',
        page.read_text(), re.M)]
    conditions = [one or other for one, other in rows]
    assert len(conditions) > 15
    assert every(parse_condition(text) for text in conditions)
