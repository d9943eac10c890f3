"""Tables of ``stereo_bp evaluate``: a row a frame and matcher, means, regions, confidence."""

from __future__ import annotations

import dataclasses
import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from stereo_bp_ros.evaluation.frame_scores import FrameScore, mean_of_frames
from stereo_bp_ros.evaluation.metrics import THRESHOLDS

#: Sequences longer than this get no row for each frame; JSON always has every frame.
ROWS = 30

LEGEND = """\
Per cent, and pixels (EPE). filled: every hole has got a disparity of the
background; valid: pixels that the matcher gives a disparity; density: their
share of the pixels with truth. bad-N: wrong by more than N px; D1: by more than
3 px and 5 % of the truth. or hole: the same with every hole counted as wrong.
mean: of the figures of the frames; all: of all their pixels together."""

NO_TRUTH_LEGEND = """\
There is no truth. of all valid: pixels with a disparity, per cent of all pixels."""


@dataclasses.dataclass(frozen=True)
class Figures:
    """One frame as one matcher did it: the median time in milliseconds, and its scores."""

    median_ms: float
    frame: FrameScore

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {'median_ms': self.median_ms, **self.frame.as_dict()}


@dataclasses.dataclass(frozen=True)
class Result:
    """One frame: its size in pixels, and what every matcher, the own one first, made of it."""

    name: str
    width: int
    height: int
    disparity_range: int
    stages_ms: Mapping[str, float]
    matchers: Mapping[str, Figures]
    picture: str = ''

    def to_dict(self) -> dict[str, Any]:
        """For JSON: the own matcher's figures, and below ``against`` those of others."""
        own, *others = self.matchers
        return {'name': self.name, 'width': self.width, 'height': self.height,
                'disparity_range': self.disparity_range, 'stages_ms': dict(self.stages_ms),
                **self.matchers[own].to_dict(), 'picture': self.picture,
                'against': {name: self.matchers[name].to_dict() for name in others}}


@dataclasses.dataclass(frozen=True)
class Summary:
    """One matcher over all frames.

    frames: how many.
    mean:   of the figures of the frames (``Figures.to_dict``), each frame counting the same.
    pooled: of all their pixels together.
    median_ms: median of the frames' times, milliseconds.
    """

    frames: int
    mean: Mapping[str, Any]
    pooled: FrameScore
    median_ms: float

    def to_dict(self) -> dict[str, Any]:
        """For JSON: ``all`` are the pooled figures as published."""
        pooled = self.pooled.as_dict()
        return {'frames': self.frames, 'all': pooled.pop('score'), **pooled,
                'median_ms': self.median_ms, 'mean': dict(self.mean)}


def summaries(results: Sequence[Result]) -> dict[str, Summary]:
    """Every matcher over all frames."""
    found = {}
    for name in results[0].matchers:
        figures = [result.matchers[name] for result in results]
        pooled = figures[0].frame
        for one in figures[1:]:
            pooled += one.frame
        # The order of confidence belongs to a frame: of many there is the mean alone.
        found[name] = Summary(
            len(figures), mean_of_frames([one.to_dict() for one in figures]),
            dataclasses.replace(pooled, sparsification=None),
            statistics.median(one.median_ms for one in figures))
    return found


@dataclasses.dataclass(frozen=True)
class Column:
    """A figure in a table: its heading, where ``Figures.to_dict`` has it, and how soon it is
    left out where there is no room (0 = never)."""

    heading: str
    path: tuple[str, ...]
    rank: int

    def cell(self, figures: Mapping[str, Any]) -> str:
        value: Any = figures
        for key in self.path:
            value = value.get(key) if value else None
        return '-' if value is None else f'{value:.2f}'


COLUMNS = (
    Column('filled\nD1', ('filled', 'd1_known'), 0),
    *(Column(f'filled\nbad-{n:g}', ('filled', f'bad_{n:g}_known'),
             {3.0: 0, 1.0: 1, 2.0: 1}.get(n, 5)) for n in THRESHOLDS),
    Column('valid\nD1', ('score', 'd1_estimated'), 3),
    *(Column(f'valid\nbad-{n:g}', ('score', f'bad_{n:g}_estimated'),
             {3.0: 0, 1.0: 2, 2.0: 4}.get(n, 6)) for n in THRESHOLDS),
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


def frame_table(results: Sequence[Result], totals: Mapping[str, Summary]) -> FrameTable:
    """A row a frame and matcher; of several frames their mean and all of their pixels."""
    several = len(totals) > 1
    has_truth = any(total.pooled.whole.published.known for total in totals.values())
    shown = (*(COLUMNS if has_truth else WITHOUT_TRUTH), TIME)
    columns = ['frame', *(['matcher'] if several else []), 'size', 'D',
               *(column.heading for column in shown)]
    ranks = [0, *([0] if several else []), *([7, 7] if has_truth else [0, 0]),
             *(column.rank for column in shown)]

    def row(name: str, matcher: str, size: str, disparities: str, figures: Mapping[str, Any]
            ) -> list[str]:
        return [name, *([matcher] if several else []), size, disparities,
                *(column.cell(figures) for column in shown)]

    rows = []
    if len(results) <= ROWS:
        rows = [row(one.name, matcher, f'{one.width} x {one.height}', str(one.disparity_range),
                    figures.to_dict())
                for one in results for matcher, figures in one.matchers.items()]
    if len(results) > 1:
        rows += [row(f'mean of {total.frames}', matcher, '', '', total.mean)
                 for matcher, total in totals.items()]
        rows += [row(f'all {total.frames}', matcher, '', '',
                     {'median_ms': total.median_ms, **total.pooled.as_dict()})
                 for matcher, total in totals.items()]
    return FrameTable(columns, rows, ranks, LEGEND if has_truth else NO_TRUTH_LEGEND)


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
            rows += [[_words(name), *([matcher] if several else []), f'{share:.1f}',
                      *(column.cell(total.mean['regions'][name]) for column in REGION_COLUMNS)]
                     for matcher, total in totals.items()]
    if first.sky is not None and first.sky.pixels:
        rows += [['sky', *([matcher] if several else []), '-', '-', '-', '-',
                  f'{total.mean["sky"]["coverage"]:.2f}', '-']
                 for matcher, total in totals.items()]
    return columns, rows


def _words(region: str) -> str:
    return re.sub(r'^(\d+)_(\w+)_m$', r'\1-\2 m', region).replace('_', ' ')


def sparsification_text(totals: Mapping[str, Summary]) -> str:
    """Areas of the own matcher's curves in a line each; '' without a confidence."""
    found = next(iter(totals.values())).mean.get('sparsification')
    if not found:
        return ''
    return '\n'.join(
        f'Sparsification of {words}: area {found[key]["area"]:.3f} {unit}, oracle '
        f'{found[key]["oracle_area"]:.3f} {unit}, AUSE {found[key]["ause"]:.3f} {unit}'
        for key, words, unit in (('bad_3', 'bad-3', '%'), ('mae', 'EPE', 'px')))
