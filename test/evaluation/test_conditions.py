"""Pass conditions: a small grammar that is read strictly, and means that are judged by it."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stereo_bp_ros import Calibration
from stereo_bp_ros.cli.main import one_line
from stereo_bp_ros.evaluation.condition_words import DELIVERY, FIGURES, NEAR, near
from stereo_bp_ros.evaluation.conditions import Condition, Delivery, judge, parse_condition
from stereo_bp_ros.evaluation.consistency import Consistency
from stereo_bp_ros.evaluation.frame_scores import score_frame
from stereo_bp_ros.evaluation.obstacles import Detection, Obstacles
from stereo_bp_ros.evaluation.regions import find_regions
from stereo_bp_ros.evaluation.results import Figures, Result, totals_of
from test.cases import examples
from test.cli.runs import steady, texts

CALIBRATION = Calibration(100, 1, 0, 0, 0)      # 100 px metres: 10 px at 10 m, 5 px at 20 m
EVERYWHERE = np.ones((10, 10), bool)


def figures(errors: float, times_ms=(10.0, 30.0), *, rows: int = 10, truth: float = 5.0,
            windows=(), sky=None, holes: int = 0) -> Figures:
    """A frame of 10 rows with this truth in the first ``rows``, the first of them wrong."""
    true = np.full((10, 10), np.nan, np.float32)
    true[:rows] = truth
    found = np.full((10, 10), truth, np.float32)
    found[0] += errors
    valid = EVERYWHERE.copy()
    valid[1:1 + holes] = False
    parts = find_regions(true, EVERYWHERE if rows else None, CALIBRATION,
                         windows=windows)
    return Figures(times_ms, score_frame(found, valid, true, regions=parts, sky=sky),
                   {'messages': times_ms[-1] / 2})


def result(own: Figures, name: str = 'a', **others: Figures) -> Result:
    return Result(name, 10, 10, {'own': own, **others}, 300 * 2**20)


def full(errors: float = 3.5, *, far: Detection | None = None, false: int = 1) -> Figures:
    """``figures`` with everything that a run can be asked for; 20 m away."""
    true = np.full((10, 10), 5.0, np.float32)
    found = true.copy()
    found[0] += errors
    frame = score_frame(found, EVERYWHERE, true, regions=find_regions(
        true, EVERYWHERE, CALIBRATION), calibration=CALIBRATION, confidence=-found)
    known = {'8_16_m': Detection(2, 1, 0.25, 0.5), '16_32_m': far or Detection(2, 2, 0.375)}
    return Figures((10.0, 30.0), dataclasses.replace(
        frame, consistency=Consistency(100, 80, 10, 500.0, (), 50, 40, 4, 60, 30, 120.0),
        obstacles=Obstacles(1, 3, 1, false, int(false > 0), known)),
        {'messages': 15.0}, 12.5, 64 * 2**20)


def judged(text: str, *results: Result):
    verdict, = judge([parse_condition(text)], results)
    return verdict


@pytest.mark.parametrize(('text', 'wanted'), [
    ('bad3 <= 2 % between 10 and 50 m',
     ('bad3', '10_50_m', True, 2.0, '', (10.0, 50.0), False, '%')),
    ('Filled bad-1 <= 8%', ('filled bad1', '', True, 8.0, '', None, False, '%')),
    ('valid bad0.5<=12.5 %', ('bad0.5', '', True, 12.5, '', None, False, '%')),
    ('d1 or hole of vehicles <= 4 %', ('d1 or hole', 'vehicles', True, 4.0, '', None, False, '%')),
    ('density >= 0.85', ('density', '', False, 85.0, '', None, False, '%')),
    ('density of near edges >= 85 % in every frame',
     ('density', 'near_edges', False, 85.0, '', None, True, '%')),
    ('epe <= 0.8 px between 0.5 and inf m',
     ('epe', '0.5_inf_m', True, 0.8, '', (0.5, np.inf), False, 'px')),
    ('p99.9 of messages <= 33 ms', ('p99.9', 'messages', True, 33.0, '', None, False, 'ms')),
    ('rate >= 30 fps', ('rate', '', False, 30.0, '', None, False, 'Hz')),
    ('bad3 <= 0.8 x sgbm', ('bad3', '', True, 0.8, 'sgbm', None, False, '%')),
    ('error_m <= 0.5 between 10 and 30 m',
     ('error_m', '10_30_m', True, 0.5, '', (10.0, 30.0), False, 'm')),
    ('error_m p90 of vehicles <= 2 m in every frame',
     ('error_m p90', 'vehicles', True, 2.0, '', None, True, 'm')),
    ('relative error <= 0.03', ('relative error', '', True, 3.0, '', None, False, '%')),
    ('filled bad3 of class traffic sign <= 8 %',
     ('filled bad3', 'class_traffic_sign', True, 8.0, '', None, False, '%')),
    ('D1-fg <= 4 %', ('d1', 'vehicles', True, 4.0, '', None, False, '%')),
    ('filled d1-bg <= 4 %', ('filled d1', 'background', True, 4.0, '', None, False, '%')),
    ('d1-all or hole <= 4 %', ('d1 or hole', '', True, 4.0, '', None, False, '%')),
    ('false obstacles per frame <= 0 in every frame',
     ('false obstacles per frame', '', True, 0.0, '', None, True, '')),
    ('largest obstacle missed <= 0.3 m between 4 and 32 m',
     ('largest obstacle missed', '4_32_m', True, 0.3, '', (4.0, 32.0), False, 'm')),
    ('photometric error p50 <= 4 grey',
     ('photometric error p50', '', True, 4.0, '', None, False, 'grey')),
    ('left-right confirmed >= 80 %',
     ('left-right confirmed', '', False, 80.0, '', None, False, '%')),
    ('p99 of device <= 9.5 ms', ('p99', 'device', True, 9.5, '', None, False, 'ms')),
    ('engine memory <= 512 MiB', ('engine memory', '', True, 512.0, '', None, False, 'MiB'))])
def test_a_condition_is_understood(text, wanted):
    found = parse_condition(text)
    assert found == Condition(text, *wanted[:-1])
    assert found.unit == wanted[-1]


@pytest.mark.parametrize(('text', 'words'), [
    ('', 'is not written FIGURE'), ('bad3 < 2 %', 'is not written FIGURE'),
    ('bad3 <= 2 % near 10 m', 'is not written FIGURE'), ('bad3 <= -2 %', 'is not written'),
    ('bad7 <= 2 %', 'did you mean bad4, bad3 or bad2?'),
    ('filled density >= 0.8', "the figure 'filled density'"),
    ('bad3 of cars <= 2 %', 'near_edges, away_from_edges, vehicles'),
    ('p99 of vehicles <= 2 ms', 'convert, upload'), ('rate of cost >= 2 Hz', 'can be of all only'),
    ('bad3 <= 2', 'write 2 %'), ('bad3 <= 1', 'write 1 %'), ('bad3 <= 0', 'write 0 %'),
    ('bad3 <= 2 px', 'is in %'),
    ('epe <= 2', 'limit in no unit'), ('p99 <= 2 %', 'is in ms'), ('bad3 <= 120 %', 'at most 100'),
    ('bad3 <= 2 % between 50 and 10 m', 'the nearer one first'),
    ('d1 of vehicles <= 2 % between 1 and 10 m', 'vehicles has no distances'),
    ('p99 <= 2 ms between 1 and 10 m', 'p99 has no distances'),
    ('p99 <= 2 ms in every frame', 'only a score'), ('filled bad3 of sky <= 2 %', 'nobody fills'),
    ('bad3 <= 2 x sgbm in every frame', 'only a score'),
    ('false obstacles <= 1', 'did you mean false obstacles per frame'),
    ('memory <= 1 MiB', 'did you mean engine memory'), ('tea <= 1 %', 'docs/reference/scenarios'),
    ('error_m <= 0.5 px', 'is in m'), ('relative error <= 0.5 m', 'is in %'),
    ('smallest obstacle seen <= 0.3', 'in no unit'), ('error_m of sky <= 1 m', 'no number of met'),
    ('false obstacles per frame <= 1 %', 'a number without one'),
    ('false obstacles per frame <= 1 between 8 and 16 m', 'per frame has no distances'),
    ('largest obstacle missed <= 0.3 m between 8 and 20 m', '0, 1, 2, 4, 8, 16, 32, 64, inf'),
    ('flicker of vehicles <= 1 %', 'flicker can be of all only'),
    ('engine memory <= 9 MiB in every frame', 'only a score'),
    ('engine memory of cost <= 9 MiB', 'can be of all only'),
    ('bad3 of vehicels <= 2 %', 'did you mean vehicles?'),
    ('d1-fg of vehicles <= 2 %', "names a part twice: d1-fg and 'vehicles'"),
    ('d1-fg <= 2 % between 1 and 2 m', 'vehicles has no distances')])
def test_a_mistake_names_the_condition_and_what_is_known(text, words):
    with pytest.raises(ValueError, match='the condition') as caught:
        parse_condition(text)
    assert repr(text) in str(caught.value)
    assert words in str(caught.value)
    assert '\n' not in str(caught.value)


def test_every_score_and_time_has_its_value():
    one = result(figures(3.5, holes=1))         # of 100 pixels 10 are wrong and 10 are missing
    wanted = {'bad4': 0, 'bad4 or hole': 10, 'filled bad4': 0, 'density': 90, 'coverage': 90,
              'epe': 35 / 90, 'filled epe': 0.35, 'rms': np.sqrt(122.5 / 90),
              'filled rms': np.sqrt(1.225), 'p50': 20, 'p99': 29.8, 'p99.9': 29.98, 'mean': 20,
              'max': 30, 'rate': 50}
    for name in ('bad0.5', 'bad1', 'bad2', 'bad3', 'd1'):
        wanted |= {name: 1000 / 90, f'{name} or hole': 20, f'filled {name}': 10}
    found = {name: judged(f'{name} >= 0 {FIGURES[name].unit}', one).value for name in wanted}
    assert found == pytest.approx(wanted)


def test_every_other_figure_has_its_value():
    # Ten of 100 pixels have a disparity of 8.5 px instead of 5 px: 100 / 8.5 m instead of 20 m.
    one, metres = result(full()), 20 - 100 / 8.5
    scored = one.matchers['own'].frame
    wanted = {
        'error_m': metres / 10, 'error_m p50': scored.whole.depth.percentile_m(50),
        'error_m p90': scored.whole.depth.percentile_m(90), 'relative error': metres / 2,
        'bad3 ause': scored.sparsification['bad_3'].ause,
        'epe ause': scored.sparsification['mae'].ause,
        'left-right confirmed': 80, 'left-right contradicted': 10, 'photometric error': 5,
        'static': 80, 'flicker': 10, 'road inliers': 50, 'road rms': 2,
        'obstacles per frame': 3, 'false obstacles per frame': 1,
        'frames with false obstacles': 100, 'obstacles seen': 75, 'smallest obstacle seen': 0.25,
        'largest obstacle missed': 0.5, 'engine memory': 64, 'process memory': 300}
    found = {name: judged(f'{name} >= 0 {FIGURES[name].unit}', one).value for name in wanted}
    assert found == pytest.approx(wanted)
    assert found['error_m p90'] > found['error_m p50']
    assert judged('p99 of device <= 12.5 ms', one).passed
    judged_elsewhere = {name for name in FIGURES if FIGURES[name].path[0] in ('score', 'filled')
                        or FIGURES[name].unit in ('ms', 'Hz', 'frames')}
    assert {*wanted, *judged_elsewhere} == FIGURES.keys() - {'photometric error p50'}


def test_metres_have_windows_and_regions():
    parts = [(10.0, 30.0)]
    true = np.full((10, 10), 5.0, np.float32)
    frame = score_frame(true + 5, EVERYWHERE, true, calibration=CALIBRATION, regions=find_regions(
        true, EVERYWHERE, CALIBRATION, windows=parts))
    one = result(Figures((1.0,), frame))
    assert judged('error_m <= 10 between 10 and 30 m', one).passed
    assert not judged('error_m <= 9.99 m between 10 and 30 m', one).passed
    assert judged('error_m of vehicles <= 10 m', one).passed
    verdict = judged('error_m <= 1', result(figures(0.0)))
    assert (verdict.passed, verdict.reason) == (
        False, 'no data: needs truth and a calibration')


def test_obstacles_of_the_truth_are_of_all_frames_together():
    none = Detection(1, 0, largest_missed_m=0.75)
    results = [result(full(), 'a'), result(full(far=none, false=2), 'b')]
    assert judged('smallest obstacle seen <= 0.25 m', *results).passed
    assert judged('largest obstacle missed <= 1 m', *results).value == 0.75
    assert judged('largest obstacle missed <= 1 m between 8 and 16 m', *results).value == 0.5
    # Of five obstacles in the two frames four are seen: not the mean of 75 and 33 %.
    assert judged('obstacles seen >= 50 %', *results).value == pytest.approx(400 / 7)
    worst = judged('largest obstacle missed <= 0.5 m in every frame', *results)
    assert (worst.value, worst.passed, worst.reason) == (0.75, False, 'worst in b')
    assert judged('false obstacles per frame <= 2', *results).value == 1.5
    assert not judged('false obstacles per frame <= 1 in every frame', *results).passed


def test_nothing_missed_is_a_value_and_nothing_there_is_none():
    seen = result(full(far=Detection(2, 2, 0.4)))
    assert judged('largest obstacle missed <= 0 m between 16 and 32 m', seen).passed
    verdict = judged('largest obstacle missed <= 9 m between 32 and inf m', seen)
    assert (verdict.passed, verdict.reason) == (
        False, 'no data between 32 and inf m: needs the option --corridor and dense truth and a '
        'calibration')


def test_no_refusal_names_a_word_that_is_none():
    for name in ('memory', 'obstacles', 'errorm', 'gap', ''):
        said = near(name, FIGURES).removeprefix('; did you mean ').removesuffix('?')
        words = [word for word in said.replace(' or ', ', ').split(', ') if word]
        assert len(words) <= NEAR
        assert set(words) <= {part for one in FIGURES for part in one.split(' or ')}


def test_the_page_has_every_word(repository):
    def row(name, figure):
        key = 'latency_ms' if figure.is_time else '.'.join(figure.path)
        key = {'rate': 'BasicPerformanceMetrics.MEAN_FRAME_RATE',
               'mean': 'BasicPerformanceMetrics.MEAN_LATENCY',
               'max': 'BasicPerformanceMetrics.MAX_LATENCY'}.get(name, key)
        parts = ('regions, distances' if figure.is_of_pixels else
                 'distances of bins' if figure.is_detection else
                 'stages, `device`' if figure.is_time else '')
        needs = ', '.join(filter(None, (figure.asks and f'`{figure.asks}`', figure.needs)))
        return ' '.join(f'| `{name}` | `{key}` | {figure.unit} | {parts} | {needs} |'.split()
                        ) + '\n'
    page = (repository / 'docs/reference/scenarios.md').read_text()
    table = ''.join(row(*one) for one in FIGURES.items() if one[0] not in DELIVERY)
    assert table in page, table
    counts = page.split('### Frames of a run')[1]
    assert tuple(re.findall(r'^\| `(\w+)` \|', counts.split('## Result')[0], re.M)) == DELIVERY


def test_the_limit_itself_passes():
    one = result(figures(5.0))
    assert judged('bad3 <= 10 %', one).passed
    assert not judged('bad3 <= 9.9 %', one).passed
    assert judged('filled bad3 >= 10 %', one).passed


def test_a_score_is_the_mean_of_the_frames_that_have_it_as_the_tables_say():
    results = [result(figures(5.0), 'a'), result(figures(5.0, rows=2), 'b'),
               result(figures(0.0, rows=0), 'c')]
    verdict = judged('bad3 <= 30 %', *results)
    assert verdict.value == totals_of(results).own.mean['score']['bad_3_estimated'] == 30
    assert (verdict.frames, verdict.passed) == (2, True)


def test_every_frame_has_to_hold_what_every_frame_is_held_to():
    results = [result(figures(0.0), 'good'), result(figures(5.0), 'bad')]
    assert judged('bad3 <= 6 %', *results).passed
    verdict = judged('bad3 <= 6 % in every frame', *results)
    assert (verdict.passed, verdict.value, verdict.reason) == (False, 10, 'worst in bad')
    holes = [result(figures(0.0, holes=3), 'holes'), results[0]]
    assert judged('density >= 0.8 in every frame', *holes).reason == 'worst in holes'


def test_a_window_of_distances_has_its_own_pixels():
    text = 'bad3 <= 2 % between 15 and 25 m'
    window = parse_condition(text).window
    near = figures(5.0, truth=10.0, windows=[window])
    far = figures(5.0, truth=5.0, windows=[window])
    assert judged(text, result(far)).value == 10
    verdict = judged(text, result(near))
    assert (verdict.passed, verdict.value, verdict.frames, verdict.reason) == (
        False, None, 0, 'no data between 15 and 25 m: needs truth there and a calibration')


@pytest.mark.parametrize(('text', 'reason'), [
    ('bad3 <= 100 %', 'no data: needs truth'), ('density >= 0 %', 'no data: needs truth'),
    ('bad3 of near edges <= 100 %', 'no data of near edges: needs truth'),
    ('bad3 of vehicles <= 100 %', 'no data of vehicles: needs truth and a mask of vehicles'),
    ('bad3 of class pole <= 100 %',
     'no data of class pole: needs truth and a mask of the class pole'),
    ('bad3 of sky <= 100 %', 'no data of sky: needs a mask of the sky'),
    ('p99 of refine <= 100 ms', 'no data: the stage refine does not run'),
    ('bad3 <= 100 % in every frame', 'no data: needs truth'),
    ('flicker <= 1 %', 'no data: needs the option --consistency and frames that follow each '
     'other'), ('coverage of near edges >= 1 %', 'no data of near edges: needs truth'),
    ('bad3 ause <= 1 %', 'no data: needs the option --confidence and truth'),
    ('p50 of device <= 1 ms', 'no data: it computes on no device'),
    ('engine memory <= 1 MiB', 'no data: nobody says how much it is'),
    ('bad3 <= 100 % between 1 and 2.5 m',
     'no data between 1 and 2.5 m: needs truth there and a calibration')])
def test_a_condition_without_data_fails(text, reason):
    verdict = judged(text, result(figures(0.0, rows=0)))
    assert (verdict.passed, verdict.value, verdict.reason) == (False, None, reason)
    assert verdict.to_dict()['passed'] is False


def test_coverage_needs_no_truth():
    assert judged('coverage >= 80 %', result(figures(0.0, rows=0, holes=2))).passed
    assert not judged('coverage >= 81 %', result(figures(0.0, rows=0, holes=2))).passed


def test_a_relative_limit_is_the_same_figure_of_the_other_matcher():
    one = result(figures(5.0, (20.0,)), sgbm=figures(2.5, (5.0,)))
    verdict = judged('bad2 <= 0.8 x sgbm', one)
    assert (verdict.value, verdict.limit, verdict.passed) == (10, 8, False)
    assert judged('bad2 <= 1 x sgbm', one).passed
    assert judged('p50 <= 4 x sgbm', one).passed
    assert not judged('rate >= 0.26 x sgbm', one).passed
    assert judged('rate >= 0.25 x sgbm', one).passed
    with pytest.raises(ValueError, match="no matcher has the name 'bm'"):
        judged('bad2 <= 1 x bm', one)


def test_a_matcher_without_the_figure_is_no_limit():
    other = Figures((5.0,), figures(0.0).frame)
    verdict = judged('p50 of messages <= 9 x bm', result(figures(0.0), bm=other))
    assert (verdict.passed, verdict.limit, verdict.reason) == (False, None, 'no data of bm')


def test_times_are_of_all_runs_of_all_frames():
    results = [result(figures(0.0, (10.0, 20.0)), 'a'), result(figures(0.0, (30.0, 40.0)), 'b')]
    wanted = {'p50': 25, 'mean': 25, 'max': 40, 'p99': np.percentile([10, 20, 30, 40], 99)}
    for name, value in wanted.items():
        verdict = judged(f'{name} <= 40 ms', *results)
        assert verdict.value == pytest.approx(value)
        assert verdict.frames == 2
    assert judged('rate >= 40 Hz', *results).value == pytest.approx(4 / 0.1)
    assert judged('max of messages <= 20 ms', *results).value == 20


def test_the_sky_is_judged_by_its_mask():
    one = result(figures(0.0, rows=5, sky=np.arange(100).reshape(10, 10) >= 50, holes=7))
    assert judged('coverage of sky <= 40 %', one).value == pytest.approx(40)
    assert judged('bad3 of sky <= 100 %', one).value == 100


@settings(steady, max_examples=examples(300))
@given(st.lists(texts | st.sampled_from([
    *FIGURES, 'of', 'sky', '<=', '>=', '2', '0.5', '9' * 400, '%', 'ms', 'x', 'sgbm', 'between',
    'and', 'm', 'inf', 'in every frame']), max_size=9).map(' '.join))
def test_any_text_is_a_condition_or_refused_in_one_line(text):
    refusal, found = '', None
    try:
        found = parse_condition(text)
    except ValueError as error:
        refusal = one_line(str(error))
    assert len(refusal) < 600
    if found is not None:
        plain = ' '.join(text.split())
        assert parse_condition(plain) == dataclasses.replace(found, text=plain)


COUNTS = dict(zip(DELIVERY, (200, 198, 190, 189, 8, 8, 3), strict=True))


@pytest.mark.parametrize(('text', 'value', 'limit', 'passed'), [
    ('lost <= 0', 3, 0, False), ('lost <= 3 frames', 3, 3, True),
    ('lost <= 1.5 %', 1.5, 1.5, True),
    ('superseded <= 5 %', 4, 5, True), ('published >= 95 %', 95, 95, True),
    ('recorded >= 190', 189, 190, False), ('received >= 198', 198, 198, True),
    ('dropped <= 8', 8, 8, True), ('sent >= 201', 200, 201, False),
    ('rate >= 9 Hz', 9.5, 9, True)])
def test_frames_of_a_run_through_the_node_are_counted(text, value, limit, passed):
    verdict, = judge([parse_condition(text)], [result(figures(0.0))], Delivery(COUNTS, 9.5))
    assert (verdict.value, verdict.limit, verdict.passed) == (value, limit, passed)


@pytest.mark.parametrize('name', DELIVERY)
def test_without_a_node_nothing_is_known_of_deliveries(name):
    verdict = judged(f'{name} <= 5', result(figures(0.0)))
    assert not verdict.passed
    assert 'stereo_bp replay' in verdict.reason


@pytest.mark.parametrize(('text', 'words'), [
    ('lost <= 0 ms', 'in ms, but the figure is in frames'), ('lost <= 101 %', 'at most 100 %'),
    ('lost of vehicles <= 0', 'has no parts'), ('lost <= 2 x sgbm', 'has no parts'),
    ('lost <= 0 between 1 and 2 m', 'has no parts'), ('lost <= 0 in every frame', 'has no parts'),
    ('bad3 <= 2 frames', 'in frames, but the figure is in %'), ('loost <= 0', 'did you mean')])
def test_a_count_is_written_strictly(text, words):
    with pytest.raises(ValueError, match=words):
        parse_condition(text)
