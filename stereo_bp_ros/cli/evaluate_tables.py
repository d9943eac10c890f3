"""Tables of ``stereo_bp evaluate``: a row a frame and matcher, means, regions, confidence."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from stereo_bp_ros.evaluation import consistency, depth_errors, metrics, obstacles
from stereo_bp_ros.evaluation.results import Result, Summary, Totals

#: Sequences longer than this get no row for each frame; JSON always has every frame.
ROWS = 30

LEGEND = """\
Per cent, and pixels (EPE). filled: every hole has got a disparity of the
background; valid: pixels that the matcher gives a disparity; density: their
share of the pixels with truth. bad-N: wrong by more than N px; D1: by more than
3 px and 5 % of the truth. or hole: the same with every hole counted as wrong.
D: disparities searched; ms: median time of the runs of a pair. mean: of the
figures of the frames; all: of all their pixels together. share: of the pixels
with truth. The density of a sky is its share that has a disparity."""

NO_TRUTH_LEGEND = """\
{lack}
of all valid: pixels with a disparity, in per cent of all. D: disparities
searched; ms: median time of the runs of a pair."""


@dataclasses.dataclass(frozen=True)
class Column:
    """A figure in a table: its heading, where ``Figures.to_dict`` has it, and how soon it is
    left out where there is no room (0 = never)."""

    heading: str
    path: tuple[str, ...]
    rank: int
    decimals: int = 2

    def cell(self, figures: Mapping[str, Any]) -> str:
        value: Any = figures
        for key in self.path:
            value = value.get(key) if value else None
        return '-' if value is None else f'{value:.{self.decimals}f}'


COLUMNS = (
    Column('filled\nD1', ('filled', 'd1_known'), 0),
    *(Column(f'filled\nbad-{n:g}', ('filled', f'bad_{n:g}_known'),
             {3.0: 0, 1.0: 1, 2.0: 1}.get(n, 5)) for n in metrics.THRESHOLDS),
    Column('valid\nD1', ('score', 'd1_estimated'), 3),
    *(Column(f'valid\nbad-{n:g}', ('score', f'bad_{n:g}_estimated'),
             {3.0: 0, 1.0: 2, 2.0: 4}.get(n, 6)) for n in metrics.THRESHOLDS),
    *(Column(f'or hole\nbad-{n:g}', ('score', f'bad_{n:g}_known'), 4) for n in (1.0, 2.0, 3.0)),
    Column('density', ('score', 'density'), 0),
    Column('EPE', ('score', 'mae'), 0),
    Column('RMS', ('score', 'rms'), 4),
    Column('of all\nvalid', ('score', 'coverage'), 3))
TIME = Column('ms', ('median_ms',), 0)

#: Of frames without truth.
WITHOUT_TRUTH = (Column('of all\nvalid', ('score', 'coverage'), 0),)


@dataclasses.dataclass(frozen=True)
class FrameTable:
    """Headings, rows of cells, the rank of each column as ``options.fitting`` takes it, and what
    is to be said below."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    ranks: Sequence[int]
    legend: str


def frame_table(results: Collection[Result], totals: Totals, unread_truth: bool = False
                ) -> FrameTable:
    """A row a frame and matcher; of several frames their mean and all of their pixels,
    and of several inputs the mean of each.

    :param unread_truth: whether a warning has named one.
    """
    several = len(totals.matchers) > 1
    has_truth = any(one.pooled.whole.published.known for one in totals.matchers.values())
    shown = (*(COLUMNS if has_truth else WITHOUT_TRUTH), TIME)
    columns = ['frame', *(['matcher'] if several else []), 'size', 'D',
               *(column.heading for column in shown)]
    ranks = [0, *([0] if several else []), *([7, 1] if has_truth else [0, 0]),
             *(column.rank for column in shown)]

    def row(name: str, matcher: str, size: str, disparities: str, figures: Mapping[str, Any]
            ) -> list[str]:
        return [name, *([matcher] if several else []), size, disparities,
                *(column.cell(figures) for column in shown)]

    rows = []
    if len(results) <= ROWS:
        rows = [row(one.name, matcher, f'{one.width} x {one.height}',
                    str(figures.disparity_range or '-'), figures.to_dict())
                for one in results for matcher, figures in one.matchers.items()]
    for name, part in totals.inputs.items():
        if name:
            rows += [row(f'{name}, mean of {one.frames}', matcher, '', '', one.mean)
                     for matcher, one in part.items()]
    if len(results) > 1:
        rows += [row(f'mean of {one.frames}', matcher, '', '', one.mean)
                 for matcher, one in totals.matchers.items()]
        rows += [row(f'all {one.frames}', matcher, '', '',
                     {'median_ms': one.median_ms, **one.pooled.as_dict()})
                 for matcher, one in totals.matchers.items()]
    lack = 'No truth was read: see the warning.' if unread_truth else 'There is no truth.'
    return FrameTable(columns, rows, ranks,
                      LEGEND if has_truth else NO_TRUTH_LEGEND.format(lack=lack))


def meanings() -> dict[str, tuple[str, str]]:
    """Words and unit of every figure in JSON; those of a part have its name before a point."""
    parts = {'depth': depth_errors.MEANINGS, 'consistency': consistency.MEANINGS,
             'obstacles': obstacles.MEANINGS}
    return {**metrics.meanings(),
            **{f'{part}.{key}': meaning for part, known in parts.items()
               for key, meaning in known.items()}}


REGION_COLUMNS = (
    Column('filled\nD1', ('filled', 'd1_known'), 0),
    Column('filled\nbad-3', ('filled', 'bad_3_known'), 0),
    Column('valid\nbad-3', ('score', 'bad_3_estimated'), 0),
    Column('density', ('score', 'density'), 0),
    Column('EPE', ('score', 'mae'), 0))


def region_table(totals: Mapping[str, Summary]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of the regions that have pixels with truth, means of frames; of a sky
    the valid share is its density."""
    first = next(iter(totals.values())).pooled
    several = len(totals) > 1
    columns = ['region', *(['matcher'] if several else []), 'share',
               *(column.heading for column in REGION_COLUMNS)]
    rows = []
    for name, pooled in first.regions.items():
        if pooled.published.known:
            share = 100 * pooled.published.known / first.whole.published.known
            rows += [[region_words(name), *([matcher] if several else []), f'{share:.1f}',
                      *(column.cell(total.mean['regions'][name]) for column in REGION_COLUMNS)]
                     for matcher, total in totals.items()]
    if first.sky is not None and first.sky.pixels:
        rows += [['sky', *([matcher] if several else []), '-', '-', '-', '-',
                  f'{total.mean["sky"]["coverage"]:.2f}', '-']
                 for matcher, total in totals.items()]
    return columns, rows


Cells = tuple[list[str], list[list[str]]]
"""Headings and rows of a table."""


def further_tables(totals: Mapping[str, Summary]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Heading, headings of columns, and rows of every further table that has any rows."""
    frames = next(iter(totals.values())).frames
    found = ((f'Error in metres, mean of {frames}', depth_table(totals)),
             (f'Without truth, mean of {frames}', consistency_table(totals)),
             (f'Obstacles ahead, mean of {frames}', obstacle_table(totals)),
             (f'Obstacles of the truth, all {frames}', detection_table(totals)))
    return [(heading, columns, rows) for heading, (columns, rows) in found if rows]


DEPTH_COLUMNS = (
    Column('mean\nm', ('depth', 'mean_m'), 0, 3),
    Column('p50\nm', ('depth', 'p50_m'), 0, 3),
    Column('p90\nm', ('depth', 'p90_m'), 0, 3),
    Column('mean\n%', ('depth', 'relative_mean'), 0))


def depth_table(totals: Mapping[str, Summary]) -> Cells:
    """Headings and rows of the errors in metres by distance, means of frames; no rows without a
    calibration or a truth."""
    first = next(iter(totals.values())).pooled
    several = len(totals) > 1
    columns = ['distance', *(['matcher'] if several else []),
               *(column.heading for column in DEPTH_COLUMNS)]
    parts = {'all': first.whole, **{name: part for name, part in first.regions.items()
                                    if name[0].isdigit()}}
    rows = []
    for name, part in parts.items():
        if part.depth is not None and part.published.known:
            rows += [[region_words(name), *([matcher] if several else []),
                      *(column.cell(total.mean if name == 'all' else total.mean['regions'][name])
                        for column in DEPTH_COLUMNS)] for matcher, total in totals.items()]
    return columns, rows


def consistency_table(totals: Mapping[str, Summary]) -> Cells:
    """Headings and rows of the figures without a truth, means of frames."""
    return _by_figure(totals, 'consistency', consistency.MEANINGS)


def obstacle_table(totals: Mapping[str, Summary]) -> Cells:
    """Headings and rows of the obstacles in the corridor, means of frames."""
    return _by_figure(totals, 'obstacles', obstacles.MEANINGS)


def detection_table(totals: Mapping[str, Summary]) -> Cells:
    """Headings and rows of the obstacles of the truth by distance, of all frames."""
    several = len(totals) > 1
    columns = ['distance', *(['matcher'] if several else []), 'obstacles', 'seen\n%',
               'smallest\nseen, m', 'largest\nmissed, m']
    found = {matcher: one.pooled.obstacles.by_distance for matcher, one in totals.items()
             if one.pooled.obstacles is not None}
    names = sorted({name for one in found.values() for name in one}, key=_first_number)
    rows = []
    for name in names:
        for matcher, one in found.items():
            figures = one[name].as_dict()
            rows.append([region_words(name), *([matcher] if several else []),
                         str(figures['there']),
                         *(Column('', (key,), 0).cell(figures)
                           for key in ('seen', 'smallest_seen_m', 'largest_missed_m'))])
    return columns, rows


def _first_number(name: str) -> float:
    return float(name.split('_')[0])


def _by_figure(totals: Mapping[str, Summary], part: str,
               meanings: Mapping[str, tuple[str, str]]) -> Cells:
    """A column a matcher, and a row each figure that any frame has."""
    means = {matcher: total.mean.get(part) or {} for matcher, total in totals.items()}
    columns = [(f'{words}, {unit}' if unit else words, Column('', (key,), 0))
               for key, (words, unit) in meanings.items()]
    rows = [[words, *map(column.cell, means.values())] for words, column in columns]
    return ['', *totals], [row for row in rows if set(row[1:]) != {'-'}]


def region_words(region: str) -> str:
    """A region's name for people."""
    return re.sub(r'^([\d.]+)_([\w.]+)_m$', r'\1-\2 m', region).replace('_', ' ')


def sparsification_text(totals: Mapping[str, Summary]) -> str:
    """Areas of the own matcher's curves in a line each; '' without a confidence."""
    found = next(iter(totals.values())).mean.get('sparsification')
    if not found:
        return ''
    return '\n'.join(
        f'Sparsification of {words}: area {found[key]["area"]:.3f} {unit}, oracle '
        f'{found[key]["oracle_area"]:.3f} {unit}, AUSE {found[key]["ause"]:.3f} {unit}'
        for key, words, unit in (('bad_3', 'bad-3', '%'), ('mae', 'EPE', 'px')))
