"""Tables and plots of an evaluation, of ``evaluate`` and of runs through the node."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stereo_bp_ros.evaluation import depth_errors, metrics, plots, regions
from stereo_bp_ros.evaluation.conditions import look_up
from stereo_bp_ros.evaluation.report import Image, Table
from stereo_bp_ros.evaluation.results import Result, Summary, Totals
from stereo_bp_ros.evaluation.sparsification import SHARES

if TYPE_CHECKING:
    from stereo_bp_ros.replay.analysis import RecordedRun

#: Sequences longer than this get no row for each frame; JSON always has every frame.
ROWS = 30

LEGEND = """\
Per cent, and pixels (EPE). bad-N: wrong by more than N px; D1: by more than
3 px and 5 % of the truth. est: of the estimated pixels, which have a disparity
and a truth; all: of all pixels with truth, holes counted as wrong; filled:
holes filled from the background. density: estimated pixels of those with truth.
D: disparities searched; ms: median time of the runs of a pair. mean: of the
figures of the frames; all: of all their pixels together. share: of the pixels
with truth. The density of a sky is its share that has a disparity."""

NO_TRUTH_LEGEND = """\
No truth was read.
coverage: pixels with a disparity, in per cent of all. D: disparities
searched; ms: median time of the runs of a pair."""


@dataclasses.dataclass(frozen=True)
class Column:
    """A figure in a table: its heading, where ``Figures.to_dict`` has it, and its rank
    (``report.Table``)."""

    heading: str
    path: str
    rank: int = 0
    decimals: int = 2

    def cell(self, figures: Mapping[str, Any]) -> str:
        """The figure as text, '-' where there is none."""
        value = look_up(figures, self.path)
        return '-' if value is None else f'{value:.{self.decimals}f}'


COLUMNS = (
    Column('filled\nD1', 'filled.d1_all'),
    *(Column(f'filled\nbad-{n:g}', f'filled.bad_{n:g}_all',
             {3.0: 0, 1.0: 1, 2.0: 1}.get(n, 5)) for n in metrics.THRESHOLDS),
    Column('est\nD1', 'score.d1_estimated', 3),
    *(Column(f'est\nbad-{n:g}', f'score.bad_{n:g}_estimated',
             {3.0: 0, 1.0: 2, 2.0: 4}.get(n, 6)) for n in metrics.THRESHOLDS),
    *(Column(f'all\nbad-{n:g}', f'score.bad_{n:g}_all', 4) for n in (1.0, 2.0, 3.0)),
    Column('density', 'score.density'),
    Column('EPE', 'score.mae'),
    Column('RMS', 'score.rms', 4),
    Column('coverage', 'score.coverage', 3))

WITHOUT_TRUTH = (Column('coverage', 'score.coverage'),)

REGION_COLUMNS = (
    Column('share', 'share', decimals=1),
    Column('filled\nD1', 'filled.d1_all'),
    Column('filled\nbad-3', 'filled.bad_3_all'),
    Column('est\nbad-3', 'score.bad_3_estimated'),
    Column('density', 'score.density'),
    Column('EPE', 'score.mae'))

DEPTH_COLUMNS = (
    *(Column(f'{key.removesuffix("_m")}\nm', f'depth.{key}', decimals=3)
      for key in ('mean_m', 'p50_m', 'p90_m')),
    Column('mean\n%', 'depth.relative_mean'))

SPARSIFICATION_COLUMNS = tuple(Column(heading, key, decimals=3) for heading, key in (
    ('area', 'area'), ('oracle', 'oracle_area'), ('AUSE', 'ause')))


def frame_table(title: str, results: Collection[Result], totals: Totals) -> Table:
    """A row a frame and matcher; of several frames their mean and all of their pixels,
    and of several inputs the mean of each."""
    several = len(totals.matchers) > 1
    shown = (*(COLUMNS if has_truth(totals) else WITHOUT_TRUTH), Column('ms', 'median_ms'))

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
        # Not those of a matcher that has but one of the inputs.
        means.append(('mean of', {
            matcher: one for matcher, one in totals.matchers.items()
            if all(part[matcher].frames < one.frames for name, part in totals.inputs.items()
                   if name and matcher in part)}))
    rows += [row(f'{words} {one.frames}', matcher, '', '', one.mean)
             for words, part in means for matcher, one in part.items()]
    if len(results) > 1:
        rows += [row(f'all {one.frames}', matcher, '', '',
                     {'median_ms': one.median_ms, **one.pooled.as_dict()})
                 for matcher, one in totals.matchers.items()]
    return Table(
        title, ['frame', *(['matcher'] if several else []), 'size', 'D',
                *(column.heading for column in shown)], rows,
        ranks=[0, *([0] if several else []), *([7, 1] if has_truth(totals) else [0, 0]),
               *(column.rank for column in shown)])


def legend(totals: Totals) -> str:
    """What the columns of ``frame_table`` are."""
    return LEGEND if has_truth(totals) else NO_TRUTH_LEGEND


def has_truth(totals: Totals) -> bool:
    """Whether any pixel of any frame has one."""
    return any(one.pooled.whole.published.known for one in totals.matchers.values())


def meanings() -> dict[str, tuple[str, str]]:
    """Words and unit of every figure in JSON; those of a part have its name before a point."""
    return {**metrics.meanings(),
            **{f'depth.{key}': meaning for key, meaning in depth_errors.MEANINGS.items()}}


def further_tables(totals: Mapping[str, Summary]) -> list[Table]:
    """Every table beside that of the frames which has any rows."""
    counts = {one.frames for one in totals.values()}
    means = f'mean of {counts.pop()}' if len(counts) == 1 else 'means of the frames'
    return [table for table in (
        _by_part(f'By region, {means}', 'region', _regions(totals), REGION_COLUMNS),
        _by_part(f'Error in metres, {means}', 'distance', _distances(totals), DEPTH_COLUMNS),
        _by_part(f'Sparsification, {means}', 'error', _sparsified(totals),
                 SPARSIFICATION_COLUMNS)) if table.rows]


Parts = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Of parts of the frames by their names: the figures of each matcher."""


def _by_part(title: str, what: str, parts: Parts, columns: Sequence[Column]) -> Table:
    """A row for every part and matcher."""
    several = any(len(part) > 1 for part in parts.values())
    return Table(
        title, [what, *(['matcher'] if several else []), *(column.heading for column in columns)],
        [[region_words(name), *([matcher] if several else []),
          *(column.cell(figures) for column in columns)]
         for name, part in parts.items() for matcher, figures in part.items()])


def _regions(totals: Mapping[str, Summary]) -> Parts:
    """Those that have pixels with truth; of a sky the valid share is its density."""
    first = next(iter(totals.values())).pooled
    parts = {name: {matcher: {
        'share': 100 * part.published.known / total.pooled.whole.published.known,
        **total.mean['regions'][name]} for matcher, total in totals.items()
        if (part := total.pooled.regions.get(name)) and part.published.known}
        for name, pooled in first.regions.items() if pooled.published.known}
    if first.sky is not None and first.sky.pixels:
        parts['sky'] = {matcher: {'score': {'density': look_up(total.mean, 'sky.coverage')}}
                        for matcher, total in totals.items()}
    return parts


def _distances(totals: Mapping[str, Summary]) -> Parts:
    """All pixels and those of each distance, where a calibration and a truth are."""
    first = next(iter(totals.values())).pooled
    pooled = {'all': first.whole, **{name: part for name, part in first.regions.items()
                                     if name[0].isdigit()}}
    return {name: {matcher: total.mean if name == 'all' else total.mean['regions'].get(name, {})
                   for matcher, total in totals.items() if total.frames}
            for name, part in pooled.items() if part.depth is not None and part.published.known}


def _sparsified(totals: Mapping[str, Summary]) -> Parts:
    """What a confidence sorts, where any was judged."""
    found = {matcher: total.mean.get('sparsification') or {} for matcher, total in totals.items()}
    if not any(found.values()):
        return {}
    return {words: {matcher: one.get(key) or {} for matcher, one in found.items()}
            for key, words in (('bad_3', 'bad-3, %'), ('mae', 'EPE, px'))}


def region_words(region: str) -> str:
    """A region's name for people."""
    return re.sub(r'^([\d.]+)_([\w.]+)_m$', r'\1-\2 m', region).replace('_', ' ')


def times_table(totals: Mapping[str, Summary], shares: Sequence[str]) -> Table:
    """These percentiles of each stage, milliseconds."""
    # Stages that a configuration does not have take no time.
    rows = [(name, stage, *(f'{found[share]:.2f}' for share in shares))
            for name, total in totals.items() for stage, found in total.latency_ms.items()
            if any(found.values())]
    return Table('', ('matcher', 'stage', *shares), rows)


def run_table(one: RecordedRun) -> Table:
    """What became of the frames of a run through the node."""
    frames = one.frames
    counts = {name.replace('_', ' '): frames[name]
              for name in ('sent', 'received', 'published', 'recorded')}
    counts['dropped'] = sum(frames['dropped'].values())
    counts |= {f'  {reason}': count for reason, count in frames['dropped'].items()}
    counts |= {words: frames[name] for name, words in (
        ('waiting', 'without a partner'), ('in_progress', 'still in progress')) if frames[name]}
    counts |= {name.replace('_', ' '): frames[name] for name in ('lost_to_node', 'lost_from_node')}
    return Table('Frames', ('', 'pairs'), [
        *((words, str(count)) for words, count in counts.items()),
        ('rate, in the time of the bag', f'{one.rate_hz:.1f} Hz')], is_half=True)


def plots_of(totals: Mapping[str, Summary]) -> list[Image]:
    """What there is to draw."""
    return [*_bars(totals), *_sparsification(totals), *_over_frames(totals)]


def _bars(totals: Mapping[str, Summary]) -> list[Image]:
    """Wrong pixels by threshold, and errors by distance, means of the frames."""
    bins = [regions.distance_name(*limits) for limits in itertools.pairwise(regions.DISTANCES)]
    by_distance = {region_words(one).removesuffix(' m').replace('-inf', ' up'):
                   f'regions.{one}' for one in bins}
    thresholds = {**{f'bad-{n:g}': f'bad_{n:g}' for n in metrics.THRESHOLDS}, 'D1': 'd1'}
    kinds = (
        ('Wrong pixels, holes filled', '% of pixels', 'Less is better.',
         {words: f'filled.{key}_all' for words, key in thresholds.items()}),
        ('Wrong pixels, est', '% of pixels', 'Less is better.',
         {words: f'score.{key}_estimated' for words, key in thresholds.items()}),
        ('Wrong pixels by distance', 'bad-3, holes filled, %', 'By true distance in metres.',
         {words: f'{begin}.filled.bad_3_all' for words, begin in by_distance.items()}),
        # Beside the median the mean would show those few that are far off.
        ('Error in metres by distance', 'median error, m', 'By true distance in metres, of '
         'pixels with a disparity. The table of figures has means and 90 %, too.',
         {words: f'{begin}.depth.p50_m' for words, begin in by_distance.items()}))
    images = []
    for title, label, note, paths in kinds:
        values = {words: [look_up(total.mean, path) for total in totals.values()]
                  for words, path in paths.items()}
        values = {words: row for words, row in values.items() if set(row) != {None}}
        if values:
            series = dict(zip(totals, zip(*values.values(), strict=True), strict=True))
            images.append(Image(title, plots.data_uri(plots.bars(
                list(values), series, label, is_log=label.endswith(' m'))),
                f'Means of the frames. {note}'))
    return images


def _sparsification(totals: Mapping[str, Summary]) -> list[Image]:
    curves = {name: known['bad_3'] for name, total in totals.items()
              if (known := total.mean.get('sparsification'))}
    if not curves:
        return []
    first = next(iter(curves))
    return [Image('Sparsification', plots.data_uri(plots.lines(
        [100 * share for share in SHARES],
        {name: curve['curve'] for name, curve in curves.items()}, 'most trusted pixels, %',
        'bad-3, %', references={f'oracle of {first}': curves[first]['oracle']})),
        f'Wrong pixels among the most trusted ones. The oracle sorts those of {first} by their '
        'error.')]


def _over_frames(totals: Mapping[str, Summary]) -> list[Image]:
    own, total = next(iter(totals.items()))
    if total.frames < 2:
        return []
    numbers = range(1, 1 + max(one.frames for one in totals.values()))
    title, label = 'Wrong pixels over frames', 'bad-3, all, %'
    wrong: dict[str, Sequence[float]] = {name: one.curves.wrong for name, one in totals.items()}
    if all(map(math.isnan, total.curves.wrong)):
        title, label = 'Pixels without a disparity over frames', '% of all pixels'
        wrong = {name: [100.0 - value for value in one.curves.coverage]
                 for name, one in totals.items()}
    levels = {f'{share} of {own}': total.latency_ms['total'][share] for share in ('p50', 'p99')}
    return [Image(title, plots.data_uri(plots.lines(numbers, wrong, 'frame', label))),
            Image('Time over frames', plots.data_uri(plots.lines(
                numbers, {name: one.curves.median_ms for name, one in totals.items()}, 'frame',
                'ms', levels)), 'Median of the runs of each frame; p50 and p99 of all runs.')]
