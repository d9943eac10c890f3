"""Tables of ``stereo_bp evaluate``: a row a frame and matcher, means, regions, confidence."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from stereo_bp_ros.evaluation import depth_errors, metrics
from stereo_bp_ros.evaluation.conditions import look_up
from stereo_bp_ros.evaluation.report import Table
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
    path: str
    rank: int = 0
    decimals: int = 2

    def cell(self, figures: Mapping[str, Any]) -> str:
        """The figure as text, '-' where there is none."""
        value = look_up(figures, self.path)
        return '-' if value is None else f'{value:.{self.decimals}f}'


COLUMNS = (
    Column('filled\nD1', 'filled.d1_known'),
    *(Column(f'filled\nbad-{n:g}', f'filled.bad_{n:g}_known',
             {3.0: 0, 1.0: 1, 2.0: 1}.get(n, 5)) for n in metrics.THRESHOLDS),
    Column('valid\nD1', 'score.d1_estimated', 3),
    *(Column(f'valid\nbad-{n:g}', f'score.bad_{n:g}_estimated',
             {3.0: 0, 1.0: 2, 2.0: 4}.get(n, 6)) for n in metrics.THRESHOLDS),
    *(Column(f'or hole\nbad-{n:g}', f'score.bad_{n:g}_known', 4) for n in (1.0, 2.0, 3.0)),
    Column('density', 'score.density'),
    Column('EPE', 'score.mae'),
    Column('RMS', 'score.rms', 4),
    Column('of all\nvalid', 'score.coverage', 3))

WITHOUT_TRUTH = (Column('of all\nvalid', 'score.coverage'),)

REGION_COLUMNS = (
    Column('share', 'share', decimals=1),
    Column('filled\nD1', 'filled.d1_known'),
    Column('filled\nbad-3', 'filled.bad_3_known'),
    Column('valid\nbad-3', 'score.bad_3_estimated'),
    Column('density', 'score.density'),
    Column('EPE', 'score.mae'))

DEPTH_COLUMNS = (
    *(Column(f'{key.removesuffix("_m")}\nm', f'depth.{key}', decimals=3)
      for key in ('mean_m', 'p50_m', 'p90_m')),
    Column('mean\n%', 'depth.relative_mean'))

SPARSIFICATION_COLUMNS = tuple(Column(heading, key, decimals=3) for heading, key in (
    ('area', 'area'), ('oracle', 'oracle_area'), ('AUSE', 'ause')))


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
    shown = (*(COLUMNS if has_truth else WITHOUT_TRUTH), Column('ms', 'median_ms'))

    def row(name: str, matcher: str, size: str, disparities: str, figures: Mapping[str, Any]
            ) -> list[str]:
        return [name, *([matcher] if several else []), size, disparities,
                *(column.cell(figures) for column in shown)]

    rows = []
    if len(results) <= ROWS:
        rows = [row(one.name, matcher, f'{one.width} x {one.height}',
                    str(figures.disparity_range or '-'), figures.to_dict())
                for one in results for matcher, figures in one.matchers.items()]
    means = [(f'{name}, mean of', part) for name, part in totals.inputs.items() if name]
    if len(results) > 1:
        means.append(('mean of', totals.matchers))
    rows += [row(f'{words} {one.frames}', matcher, '', '', one.mean)
             for words, part in means for matcher, one in part.items()]
    if len(results) > 1:
        rows += [row(f'all {one.frames}', matcher, '', '',
                     {'median_ms': one.median_ms, **one.pooled.as_dict()})
                 for matcher, one in totals.matchers.items()]
    lack = 'No truth was read: see the warning.' if unread_truth else 'There is no truth.'
    return FrameTable(
        ['frame', *(['matcher'] if several else []), 'size', 'D',
         *(column.heading for column in shown)], rows,
        [0, *([0] if several else []), *([7, 1] if has_truth else [0, 0]),
         *(column.rank for column in shown)],
        LEGEND if has_truth else NO_TRUTH_LEGEND.format(lack=lack))


def meanings() -> dict[str, tuple[str, str]]:
    """Words and unit of every figure in JSON; those of a part have its name before a point."""
    return {**metrics.meanings(),
            **{f'depth.{key}': meaning for key, meaning in depth_errors.MEANINGS.items()}}


def further_tables(totals: Mapping[str, Summary]) -> list[Table]:
    """Every table beside that of the frames which has any rows."""
    frames = next(iter(totals.values())).frames
    return [table for table in (
        _by_part(f'By region, mean of {frames}', 'region', _regions(totals), REGION_COLUMNS,
                 totals),
        _by_part(f'Error in metres, mean of {frames}', 'distance', _distances(totals),
                 DEPTH_COLUMNS, totals),
        _by_part(f'Sparsification, mean of {frames}', 'error', _sparsified(totals),
                 SPARSIFICATION_COLUMNS, totals)) if table.rows]


Parts = Sequence[tuple[str, Callable[[Summary], Mapping[str, Any]]]]
"""Names of parts of the frames, and how each matcher's figures of one are found."""


def _by_part(title: str, what: str, parts: Parts, columns: Sequence[Column],
             totals: Mapping[str, Summary]) -> Table:
    """A row for every part and matcher."""
    several = len(totals) > 1
    return Table(
        title, [what, *(['matcher'] if several else []), *(column.heading for column in columns)],
        [[region_words(name), *([matcher] if several else []),
          *(column.cell(figures(total)) for column in columns)]
         for name, figures in parts for matcher, total in totals.items()])


def _regions(totals: Mapping[str, Summary]) -> Parts:
    """Those that have pixels with truth; of a sky the valid share is its density."""
    first = next(iter(totals.values())).pooled
    parts: list[tuple[str, Callable[[Summary], Mapping[str, Any]]]] = []
    for name, pooled in first.regions.items():
        if pooled.published.known:
            share = 100 * pooled.published.known / first.whole.published.known
            parts.append((name, lambda total, name=name, share=share: {  # type: ignore[misc]
                'share': share, **total.mean['regions'][name]}))
    if first.sky is not None and first.sky.pixels:
        parts.append(('sky', lambda total: {
            'score': {'density': total.mean['sky']['coverage']}}))
    return parts


def _distances(totals: Mapping[str, Summary]) -> Parts:
    """All pixels and those of each distance, where a calibration and a truth are."""
    first = next(iter(totals.values())).pooled
    parts = {'all': first.whole, **{name: part for name, part in first.regions.items()
                                    if name[0].isdigit()}}
    return [(name, lambda total, name=name: (               # type: ignore[misc]
        total.mean if name == 'all' else total.mean['regions'][name]))
        for name, part in parts.items() if part.depth is not None and part.published.known]


def _sparsified(totals: Mapping[str, Summary]) -> Parts:
    """What a confidence sorts, where any was judged."""
    if not any(total.mean.get('sparsification') for total in totals.values()):
        return []
    return [(words, lambda total, key=key: (                # type: ignore[misc]
        (total.mean.get('sparsification') or {}).get(key) or {}))
        for key, words in (('bad_3', 'bad-3, %'), ('mae', 'EPE, px'))]


def region_words(region: str) -> str:
    """A region's name for people."""
    return re.sub(r'^([\d.]+)_([\w.]+)_m$', r'\1-\2 m', region).replace('_', ' ')
