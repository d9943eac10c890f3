"""How a view is laid out and coloured: titles, legends, wide pictures, ranges of colours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rerun')
import rerun.blueprint as rrb

from stereo_bp_ros.replay import viewing
from stereo_bp_ros.replay.viewing import LIVE, Sink, blueprint, picture_columns
from test.cli.rerun_files import rows, value
from test.cli.test_view import live


def views(part: Any) -> Iterator[Any]:
    """All views of a part of a blueprint."""
    for one in getattr(part, 'contents', ()):
        if isinstance(one, rrb.View | rrb.Container):
            yield from views(one)
    if isinstance(part, rrb.View):
        yield part


def plots_of(part: Any) -> dict[str, Any]:
    return {str(view.name): view for view in views(part) if isinstance(view, rrb.TimeSeriesView)}


def test_a_plot_is_named_by_its_one_curve_and_only_latencies_have_a_legend():
    tab, = blueprint({'front': LIVE}).root_container.contents
    plots = plots_of(tab)
    assert set(plots) == {'latency ms', 'stages ms', 'rate Hz', 'dropped', 'vertical offset px',
                          'memory MiB'}
    assert {name for name, view in plots.items() if view.properties['PlotLegend'].visible
            .as_arrow_array().to_pylist() == [True]} == {'latency ms', 'stages ms'}
    # Two curves; those of stages have a tab of their own.
    assert plots['latency ms'].contents == ['$origin/total', '$origin/age']
    assert [str(view.name) for view in views(tab) if isinstance(view, rrb.Spatial2DView)] == [
        'left image', 'disparity px', 'confidence']


def test_no_row_of_plots_is_too_narrow_for_their_titles():
    tab, = blueprint({'front': LIVE}).root_container.contents
    assert tab.contents[1].contents[1].grid_columns <= 3


@pytest.mark.parametrize(('count', 'aspect', 'area', 'columns'), [
    (3, 3.3, 0.74, 1), (3, 2.1, 0.74, 1), (5, 3.3, 0.74, 1),    # wide: below each other
    (2, 3.3, 1.4, 1), (4, 1.33, 1.4, 2), (5, 1.33, 0.74, 2), (1, 1.0, 1.0, 1)])
def test_wide_pictures_are_stacked(count, aspect, area, columns):
    assert picture_columns(count, aspect, area) == columns


def test_the_layout_follows_the_size_of_the_images(tmp_path, monkeypatch):
    sent: list[Any] = []
    monkeypatch.setattr(viewing, 'blueprint', lambda *given: (
        sent.append(given[2].copy()), blueprint(*given))[1])
    with Sink(file=tmp_path / 'run.rrd') as sink:
        for shape in ((10, 40), (10, 40), (20, 20)):
            zeros = np.zeros(shape, np.float32)
            sink.judged('road', 0, zeros.astype(np.uint8), (zeros, zeros == 0), latency_ms={})
    assert sent == [{}, {'road': 4.0}, {'road': 1.0}]


def test_colours_are_of_the_values_that_are_there_and_never_of_fewer(tmp_path):
    path = tmp_path / 'run.rrd'
    valid = np.ones((10, 20), bool)
    valid[0] = False
    with Sink(file=path) as sink:
        sink.lay_out({'front': ('disparity',)})
        for frame, (low, high) in enumerate(((20, 40), (25, 30), (10, 35))):
            sink.at(frame)
            disparity = np.linspace(low, high, 200, dtype=np.float32).reshape(10, 20)
            disparity[0] = 500                  # invalid
            disparity[9, 19] = disparity[1:].mean()
            disparity[1, 0] = low
            sink.disparity('front', (disparity, valid))
    ranges = [value(row, 'depth_range') for row in sorted(
        rows(path)['front/disparity'], key=lambda row: row['frame'])]
    highs = [high for _, high in ranges]
    lows = [low for low, _ in ranges]
    assert highs[0] == pytest.approx(40, abs=1)
    assert highs == [highs[0]] * 3
    assert lows[1] == lows[0] > lows[2]


def test_truth_and_disparity_of_a_frame_have_the_same_colours(tmp_path):
    path = tmp_path / 'run.rrd'
    found = np.linspace(5, 60, 200, dtype=np.float32).reshape(10, 20)
    with Sink(file=path) as sink:
        sink.judged('road', 0, np.zeros((10, 20), np.uint8), (found, found > 0),
                    latency_ms={'total': 3.0}, truth=found / 2)
    recorded = rows(path)
    (disparity,), (truth,) = recorded['road/disparity'], recorded['road/truth']
    assert value(disparity, 'depth_range') == value(truth, 'depth_range')


def test_curves_have_names_and_different_colours(tmp_path):
    path = tmp_path / 'run.rrd'
    with Sink(file=path) as sink:
        live(sink)
    found = rows(path)

    def static(entity: str, name: str) -> Any:
        held, = (value(row, name) for row in found[entity]
                 if any(key.endswith(f':{name}') and cell for key, cell in row.items()))
        return held

    total, refine = 'front/latency_ms/total', 'front/latency_ms/refine'
    assert (static(total, 'names'), static(refine, 'names')) == ('total', 'refine')
    assert static(total, 'colors') != static(refine, 'colors')
    assert static('front/rate_hz', 'names') == 'rate Hz'
