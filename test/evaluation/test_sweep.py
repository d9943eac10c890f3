"""Sweeps: the points of a grid, what is kept of them, the Pareto front and the choice."""

from __future__ import annotations

import pytest

from stereo_bp_ros import MatcherConfig
from stereo_bp_ros.config import load_parameter_file
from stereo_bp_ros.evaluation import plots
from stereo_bp_ros.evaluation.conditions import parse_condition
from stereo_bp_ros.evaluation.sweep import (
    MAX_POINTS,
    Point,
    Store,
    check_limit,
    choose,
    grid,
    pareto,
    parse_axis,
    preset_text,
)


def point(levels: int, ms: float, bad: float | None, density: float = 90.0) -> Point:
    return Point({'levels': levels}, 3, {
        'frames': 3, 'latency_ms': {'total': {'p50': ms, 'p99': 2 * ms}},
        'mean': {'filled': {'bad_3_known': bad}, 'score': {'density': density}}})


BAD, DENSITY = 'mean.filled.bad_3_known', 'mean.score.density'


@pytest.mark.parametrize(('text', 'values'), [
    ('levels=2:5:1', (2, 3, 4, 5)), ('levels=2:5:2', (2, 4)), ('levels=4:4:1', (4,)),
    ('data_weight=0.1:0.3:0.1', (0.1, 0.2, 0.3)), ('stereo_algorithm=bp,sad', ('bp', 'sad')),
    ('subpixel=true,false,true', (True, False)), ('levels=7', (7,))])
def test_an_axis_is_a_range_with_both_ends_or_a_list(text, values):
    assert parse_axis(text).values == values


@pytest.mark.parametrize(('text', 'words'), [
    ('levels', 'is not written'), ('levels=', 'is not written'), ('levels=2:1', 'FROM <= TO'),
    ('subpixel=1:2', 'three numbers'), ('levels=1:2:0', 'STEP > 0'),
    ('levels=3:2:1', 'FROM <= TO'), ('levels=1:nan:1', 'three numbers'),
    ('levels=1:1e9:0.1', f'at most {MAX_POINTS}'), ('level=1:2:1', 'did you mean levels?'),
    ('levels=1:2:0.5', 'levels is '), ('levels=0:3:1', 'levels is 0'),
    ('image_width=3', 'a matcher has no setting')])
def test_an_axis_that_is_none_is_refused(text, words):
    with pytest.raises(ValueError, match=r'level|image_width|subpixel') as caught:
        parse_axis(text)
    assert words in str(caught.value)


def test_a_grid_has_every_combination_once():
    axes = [parse_axis('levels=2:3:1'), parse_axis('iterations=4,6')]
    assert grid(axes) == [{'levels': a, 'iterations': b} for a in (2, 3) for b in (4, 6)]
    for wrong, words in (
            ([axes[0], axes[0]], 'levels twice'),
            ([parse_axis('data_truncation=1:1000:1'), axes[0],
              parse_axis('discontinuity_truncation=1:1000:1')], 'but at most')):
        with pytest.raises(ValueError, match=words):
            grid(wrong)


def test_points_are_found_by_all_that_they_depend_on_and_survive_a_torn_line(tmp_path):
    path = tmp_path / 'sweep.jsonl'
    one, two = point(2, 5.0, 3.0), point(3, 6.0, None)
    store = Store(path)
    store.add({'source': 'a', 'levels': 2}, one)
    store.add({'source': 'a', 'levels': 3}, two)
    again = Store(path)
    assert again.find({'levels': 2, 'source': 'a'}) == one
    assert again.find({'levels': 3, 'source': 'a'}) == two
    assert again.find({'levels': 2, 'source': 'b'}) is None
    path.write_bytes(path.read_bytes()[:-20])           # killed while it wrote
    torn = Store(path)
    assert torn.find({'levels': 3, 'source': 'a'}) is None
    torn.add({'source': 'a', 'levels': 4}, two)
    whole = Store(path)
    assert whole.find({'source': 'a', 'levels': 2}) == one
    assert whole.find({'source': 'a', 'levels': 4}) == two


@pytest.mark.parametrize('line', ['', '3', '[]', '{}', '{"identity": 1}', '[' * 100000,
                                  '{"identity": 1, "figures": {}, "changes": {}, "frames": 1}'])
def test_lines_that_are_no_points_are_passed_over(tmp_path, line):
    path = tmp_path / 'sweep.jsonl'
    path.write_text(line + '\n')
    store = Store(path)
    assert store.find(1) is None
    store.add({'a': 1}, point(2, 5.0, 3.0))
    assert Store(path).find({'a': 1}) == point(2, 5.0, 3.0)


def test_the_front_has_the_points_that_no_other_one_beats():
    points = [point(1, 30, 2.0), point(2, 10, 5.0), point(3, 20, 5.0), point(4, 20, 3.0),
              point(5, 40, 2.0), point(6, 5, None), point(7, 10, 6.0)]
    assert [one.changes['levels'] for one in pareto(points, BAD)] == [2, 4, 1]
    dense = [point(1, 10, 1, 80), point(2, 20, 1, 70), point(3, 30, 1, 95)]
    assert [one.changes['levels'] for one in pareto(dense, DENSITY)] == [1, 3]


def test_the_best_point_within_the_limits_is_chosen():
    points = [point(1, 30, 2.0), point(2, 10, 5.0, 70), point(3, 12, 3.0), point(4, 50, 2.0)]

    def chosen(*limits: str, figure: str = BAD, **named):
        return choose(points, figure, [parse_condition(text) for text in limits],
                      named).changes['levels']

    assert chosen() == 1                                # as good as 4, and faster
    assert chosen('latency_ms.total.p99 <= 25') == 3
    assert chosen('latency_ms.total.p50 < 11') == 2
    assert chosen('latency_ms.total.p50 <= 30', f'{BAD} >= 2.5') == 3
    assert chosen(f'{DENSITY} >= 80', figure=DENSITY) == 3
    assert chosen(levels=4) == 4
    with pytest.raises(ValueError, match=f"no point holds '.*p50 <= 1' and '{DENSITY}.*; "
                       r'nearest is levels=2, which has latency_ms.total.p50 10 and'):
        chosen('latency_ms.total.p50 <= 1', f'{DENSITY} >= 80')
    with pytest.raises(ValueError, match=r'no point has mean\.score\.mae: name'):
        chosen(figure='mean.score.mae')
    with pytest.raises(ValueError, match='one is levels=1'):
        chosen(levels=9)


@pytest.mark.parametrize('text', [
    'mean.regions.1_2_m.score.mae <= 1', 'mean.score.mae <= 1 * against.bm.mean.score.mae',
    'pairs.*.score.density >= 80', 'mean.consistency.flicker <= 1', 'process_bytes <= 1',
    'delivery.lost <= 1'])
def test_a_limit_that_a_kept_point_does_not_tell_is_refused(text):
    with pytest.raises(ValueError, match='figures of all frames'):
        check_limit(parse_condition(text, ['bm']))


@pytest.mark.parametrize('preset', ['road', 'sad_fast'])
def test_the_preset_is_read_back_as_the_same_configuration(tmp_path, preset):
    config = MatcherConfig.preset(preset).replace(disparity_range=48)
    path = tmp_path / 'chosen.yaml'
    path.write_text(preset_text(config, ['Chosen: a point', 'of\na: sweep']))
    assert MatcherConfig.from_mapping(load_parameter_file(path)) == config
    assert path.read_text().startswith('# Chosen: a point\n# of\\na: sweep\n/**:\n')


def test_the_plot_labels_the_front_and_the_chosen_point(tmp_path):
    pytest.importorskip('matplotlib')
    points = [point(i, 10 + i, 9 - 0.2 * i) for i in range(30)] + [point(31, 5, None)]
    figure = plots.draw_sweep(points, BAD, points[3], 'a title')
    axes, = figure.axes
    front = pareto(points, BAD)
    assert {one.get_text() for one in axes.texts} <= {one.label for one in front}
    assert 2 < len(axes.texts) <= plots.MAX_LABELS
    plots.save(figure, tmp_path / 'sweep.svg')
    assert (tmp_path / 'sweep.svg').read_text().endswith('</svg>\n')
    assert plots.draw_sweep(points, BAD, points[-1], 'a title')
    assert plots.draw_sweep(points, 'mean.score.mae', points[3], 'a title') is None
