"""The optimiser of a sweep: points within their axes, the same ones again, better ones later."""

from __future__ import annotations

import warnings

import pytest

from stereo_bp_ros.evaluation.conditions import FIGURES
from stereo_bp_ros.evaluation.sweep import Point, pareto, parse_axis

pytest.importorskip('optuna')

from stereo_bp_ros.evaluation.search import Search


def measured(changes) -> Point | None:
    """Wrong pixels grow with the distance of data_weight from 0.3, times with the levels."""
    if changes['filling'] == 'background':
        return None
    bad = 100 * abs(changes['data_weight'] - 0.3) + 10 / changes['levels']
    return Point(changes, 3, dict.fromkeys(FIGURES) | {
        'filled bad3': bad, 'p50': 1.0 + changes['levels']})


AXES = [parse_axis(text) for text in (
    'data_weight=0.05:0.9', 'levels=1:8', 'median_window_size=0:4:2',
    'filling=none,plane,background')]


def searched(trials: int, seed: int = 1) -> list[tuple[dict, Point | None]]:
    with warnings.catch_warnings():
        warnings.simplefilter('error', RuntimeWarning)
        search = Search(AXES, 'filled bad3', seed)
        found = []
        for _ in range(trials):
            changes = search.ask()
            found.append((changes, measured(changes)))
            search.tell(found[-1][1])
    return found


def test_every_point_lies_within_its_axes():
    points = [changes for changes, _ in searched(40)]
    for one in points:
        assert list(one) == [axis.name for axis in AXES]
        assert 0.05 <= one['data_weight'] <= 0.9
        assert one['data_weight'] == float(f'{one["data_weight"]:.4g}')
        assert one['levels'] in range(1, 9)
        assert type(one['levels']) is int
        assert one['median_window_size'] in (0, 2, 4)
    assert {one['filling'] for one in points} == {'none', 'plane', 'background'}
    assert len({one['data_weight'] for one in points}) > 20


def test_an_interrupted_search_that_is_told_the_same_goes_on_where_it_was():
    assert searched(25)[:12] == searched(12)
    assert searched(12, seed=2) != searched(12)


def test_later_points_are_nearer_to_the_front_and_stay_away_from_refused_ones():
    found = searched(80)
    early, late = found[:20], found[-40:]

    def refused(part):
        return sum(point is None for _, point in part) / len(part)

    def off(part):
        return sum(abs(changes['data_weight'] - 0.3) for changes, _ in part) / len(part)

    assert refused(late) < refused(early)
    assert off(late) < 0.5 * off(early)
    front = pareto([point for _, point in found if point], 'filled bad3')
    assert len(front) >= 3


def test_only_odd_numbers_are_tried_where_a_setting_is_odd():
    search = Search([parse_axis('correlation_window_size=5:15')], 'filled bad3', 1)
    sizes = set()
    for _ in range(20):
        sizes.add(search.ask()['correlation_window_size'])
        search.tell(None)
    assert sizes <= set(range(5, 16, 2))
    assert len(sizes) > 2


def test_a_setting_that_is_there_twice_is_refused():
    with pytest.raises(ValueError, match='levels twice'):
        Search([parse_axis('levels=1:2'), parse_axis('levels=3')], 'filled bad3', 1)
