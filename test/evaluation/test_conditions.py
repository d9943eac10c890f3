"""Pass conditions: paths of the report, read strictly and judged."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stereo_bp_ros import Calibration
from stereo_bp_ros.cli.main import main, one_line
from stereo_bp_ros.evaluation.conditions import (
    DELIVERY,
    Condition,
    judge,
    known_paths,
    look_up,
    parse_condition,
)
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
    verdict, = judge([parse_condition(text, list(report['against']))], report)
    return verdict


@pytest.mark.parametrize(('text', 'wanted'), [
    ('mean.regions.10_50_m.score.bad_3_estimated <= 2',
     ('mean.regions.10_50_m.score.bad_3_estimated', '<=', 2.0)),
    ('mean.filled.bad_0.5_known<8.25', ('mean.filled.bad_0.5_known', '<', 8.25)),
    ('  pairs.*.filled.d1_known   <= 1e-3 ', ('pairs.*.filled.d1_known', '<=', 1e-3)),
    ('latency_ms.total.p99.9 > 3', ('latency_ms.total.p99.9', '>', 3.0)),
    ('mean.score.mae <= 0.8 * against.sgbm.mean.score.mae',
     ('mean.score.mae', '<=', 0.8, 'against.sgbm.mean.score.mae')),
    ('delivery.published >= 0.95*delivery.sent',
     ('delivery.published', '>=', 0.95, 'delivery.sent')),
    ('BasicPerformanceMetrics.MEAN_FRAME_RATE >= 30',
     ('BasicPerformanceMetrics.MEAN_FRAME_RATE', '>=', 30.0)),
    ('mean.regions.class_traffic_sign.score.mae <= 1',
     ('mean.regions.class_traffic_sign.score.mae', '<=', 1.0)),
    ('by_input.day/1.frames >= 9', ('by_input.day/1.frames', '>=', 9.0))])
def test_a_condition_is_understood(text, wanted, caplog):
    condition = parse_condition(text, ['sgbm'], ['day/1', 'night'])
    assert condition == Condition(' '.join(text.split()), *wanted)
    assert not caplog.records


@pytest.mark.parametrize(('text', 'words'), [
    ('', 'is not written PATH <= NUMBER'), ('mean.score.mae = 2', 'is not written'),
    ('mean.score.mae <= 2 px', 'is not written'), ('mean.score.mae <= -1', 'is not written'),
    ('2 >= mean.score.mae', 'is not written'), ('mean.score.mae <= nan', 'is not written'),
    ('mean.scor.mae <= 2', 'did you mean mean.score.mae?'), ('pairs.*.name <= 2', 'pairs.*.name'),
    ('mean.regions.10.0_50_m.score.mae <= 2', 'did you mean mean.regions.10_50_m.score.mae?'),
    ('mean.regions.50_10_m.score.mae <= 2', "'mean.regions.50_10_m.score.mae'"),
    ('mean.regions.vehicels.score.mae <= 2', 'did you mean mean.regions.vehicles.score.mae?'),
    ('mean.score.mae <= 1 * against.bm.mean.score.mae', "'against.bm.mean.score.mae'"),
    ('mean.score.mae <= 1 * pairs.*.score.mae', 'is not written'),
    ('bad7 <= 2 %', 'is not written'), ('bad3 <= 2', "the path 'bad3'"),
    ('bad3 <= 2 ms', 'is not written'), ('filled bad3 of sky <= 2 %', 'is not written')])
def test_a_mistake_names_the_condition_and_what_is_known(text, words):
    with pytest.raises(ValueError, match='the condition') as caught:
        parse_condition(text)
    assert repr(text) in str(caught.value)
    assert words in str(caught.value)
    assert 'stereo_bp evaluate --explain lists the paths' in str(caught.value)
    assert '\n' not in str(caught.value)


NEEDS = {
    'mean.score.bad_3_estimated': 'truth', 'pairs.*.score.bad_3_estimated': 'truth',
    'mean.regions.near_edges.score.coverage': 'truth',
    'mean.regions.vehicles.filled.mae': 'truth and a mask of vehicles',
    'mean.regions.class_pole.score.mae': 'truth and a mask of the class',
    'mean.sky.coverage': 'a mask of the sky', 'latency_ms.refine.p99': 'a stage that runs',
    'latency_ms.device.p50': 'a CUDA device', 'engine_bytes': 'a system that tells it',
    'mean.sparsification.bad_3.ause': 'truth and --confidence',
    'mean.depth.mean_m': 'truth and a calibration',
    'delivery.lost': 'a run through the node, stereo_bp replay'}


def test_every_figure_has_its_value_at_its_path():
    one = result(figures(3.5, holes=1))         # of 100 pixels 10 are wrong and 10 are missing
    wanted = {'mean.score.bad_4_estimated': 0, 'mean.score.bad_4_known': 10,
              'mean.filled.bad_4_known': 0, 'mean.score.density': 90,
              'mean.score.coverage': 90, 'mean.score.mae': 35 / 90, 'mean.filled.mae': 0.35,
              'mean.score.rms': np.sqrt(122.5 / 90), 'mean.filled.rms': np.sqrt(1.225),
              'latency_ms.total.p50': 20,
              'latency_ms.total.p99': 29.8, 'latency_ms.total.p99.9': 29.98,
              'BasicPerformanceMetrics.MEAN_LATENCY': 20,
              'BasicPerformanceMetrics.MAX_LATENCY': 30,
              'BasicPerformanceMetrics.MEAN_FRAME_RATE': 50}
    for name in ('bad_0.5', 'bad_1', 'bad_2', 'bad_3', 'd1'):
        wanted |= {f'mean.score.{name}_estimated': 1000 / 90, f'mean.score.{name}_known': 20,
                   f'mean.filled.{name}_known': 10}
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
    windows = parse_condition(text).windows
    assert windows == [(15.0, 25.0)]
    assert parse_condition(text.replace('15_25', '8_16')).windows == []
    assert judged(text, result(figures(5.0, truth=5.0, windows=windows))).value == 10
    verdict = judged(text, result(figures(5.0, truth=10.0, windows=windows)))
    assert (verdict.passed, verdict.value, verdict.frames) == (False, None, 0)
    assert verdict.reason.endswith('needs truth at this distance and a calibration')


def test_a_condition_without_data_fails_and_says_what_it_needs():
    one = result(figures(0.0, rows=0))
    for path, needs in NEEDS.items():
        verdict = judged(f'{path} <= 100000', one)
        assert (verdict.passed, verdict.value) == (False, None)
        assert verdict.reason == f'no data of {path}: needs {needs}'
        assert verdict.to_dict()['passed'] is False


def test_times_are_of_all_runs_of_all_frames_and_deliveries_are_counted():
    results = [result(figures(0.0, (10.0, 20.0)), 'a'), result(figures(0.0, (30.0, 40.0)), 'b')]
    for path, value in (('latency_ms.total.p50', 25), ('pairs.*.stages_ms.messages', 20),
                        ('BasicPerformanceMetrics.MEAN_FRAME_RATE', 4 / 0.1)):
        verdict = judged(f'{path} <= 40', *results)
        assert (verdict.value, verdict.frames) == (pytest.approx(value), 2)
    delivery = dict(zip(DELIVERY, (200, 198, 190, 189, 8, 8, 3), strict=True))
    assert judged('delivery.published >= 0.95 * delivery.sent', results[0],
                  delivery=delivery).passed
    verdict = judged('delivery.lost <= 0.01 * delivery.sent', results[0], delivery=delivery)
    assert (verdict.value, verdict.limit, verdict.passed) == (3, 2, False)


def test_every_known_path_is_one_of_a_real_report_where_keys_may_have_points():
    """The known paths come from a report of made-up frames: real ones have no others."""
    results = [result(full(), 'a'), result(full(), 'b')]
    known = known_paths(more=('0_inf_m',))
    for path in judged_paths(json.loads(json.dumps(report_of(results, totals_of(results))))):
        assert path in known
    report = {'a.b': {'c': 1}, 'a': {'b.c.d': 2, 'x': {'y': None}}, 'n': float('nan')}
    assert [look_up(report, path) for path in ('a.b.c', 'a.b.c.d', 'a.x.y', 'a.x', 'n', '')] == [
        1, None, None, None, None, None]
    assert look_up({'a': report['a']}, 'a.b.c.d') == 2


def test_a_relative_limit_is_a_figure_of_the_other_matcher():
    one = result(figures(5.0, (20.0,)), sgbm=figures(2.5, (5.0,)))
    path = 'mean.score.bad_2_estimated'
    verdict = judged(f'{path} <= 0.8 * against.sgbm.{path}', one)
    assert (verdict.value, verdict.limit, verdict.passed) == (10, 8, False)
    path = 'BasicPerformanceMetrics.MEAN_FRAME_RATE'
    assert not judged(f'{path} >= 0.26 * against.sgbm.{path}', one).passed
    assert judged(f'{path} >= 0.25 * against.sgbm.{path}', one).passed
    path = 'latency_ms.messages.p50'
    verdict = judged(f'{path} <= 9 * against.bm.{path}',
                     result(figures(0.0), bm=Figures((5.0,), figures(0.0).frame)))
    assert (verdict.passed, verdict.limit, verdict.reason) == (
        False, None, f'no data of against.bm.{path}: needs a stage that runs')


def judged_paths(report, begin=''):
    for key, value in report.items():
        if isinstance(value, dict):
            yield from judged_paths(value, f'{begin}{key}.')
        elif key == 'pairs':
            yield from (f'pairs.*.{path}' for path in judged_paths(value[0]))
        elif isinstance(value, int | float):
            yield begin + key


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


def test_every_condition_of_the_pages_is_written_as_the_report_has_it(repository, caplog):
    pages = [*(repository / 'docs').rglob('*.md'), repository / 'test/scenarios/street.yaml']
    rows = [row for page in pages for row in re.findall(
        r'^ *- ([\w.*/]+ [<>]=? .+)$|`((?:mean|pairs|latency_ms|delivery)\.[^`]+ [<>]=? [^`]+)`',
        page.read_text(), re.M)]
    conditions = [one or other for one, other in rows]
    assert len(conditions) > 20
    assert every(parse_condition(text, ['sgbm']) for text in conditions)
    assert not caplog.records


def test_the_paths_are_listed_with_what_they_mean(capsys):
    assert main(['evaluate', '--explain']) == 0
    printed = capsys.readouterr().out
    for words in ('mean.regions.REGION.filled.bad_3_known', 'latency_ms.total.p99.9',
                  'delivery.lost', 'near_edges', 'mean.depth.mean_m', '10_50_m',
                  'mean error of their distance'):
        assert words in printed
