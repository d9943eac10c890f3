"""The page of ``stereo_bp evaluate --output``."""

from __future__ import annotations

import itertools
import pathlib
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from stereo_bp_ros.cli import evaluate_origin
from stereo_bp_ros.cli import evaluate_tables as tables
from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.cli.machine import machine, versions
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.evaluation import metrics, plots, regions, report
from stereo_bp_ros.evaluation.conditions import Verdict
from stereo_bp_ros.evaluation.results import Result, Summary, Totals, report_of
from stereo_bp_ros.evaluation.showing import Showing
from stereo_bp_ros.evaluation.sparsification import SHARES

#: Figures that are no part of a score.
OTHER_MEANINGS = (
    ('filled', 'the same figure once every hole has got a disparity of the background', ''),
    ('frame', 'the matched pairs, numbered from 1 in the order of the source', ''),
    ('D', 'disparities searched', 'px'),
    ('mean of N', 'mean of the figures of N frames, each frame counting the same', ''),
    ('all N', 'the figures of all pixels of N frames together', ''),
    ('ms', 'time of one pair, images in memory to disparity in memory: median of its runs', 'ms'),
    ('p50, p99, p99.9', 'times that 50, 99 and 99.9 % of the runs do not exceed', 'ms'),
    ('device', 'time of a frame on the clock of the CUDA device, of the last run of each frame',
     'ms'),
    ('memory of the engine', 'its one allocation, on the device where there is one', 'MiB'),
    ('memory of the process', 'the most that has been resident, of all matchers, images and '
     'scores together', 'MiB'),
    ('share', 'pixels with truth in a region, of all pixels with truth', '%'),
    ('sparsification', 'error of the most trusted pixels over their share of all; the oracle '
     'sorts by the true error', '% or px'),
    ('AUSE', 'area between that curve and the curve of the oracle; 0 is best', '% or px'))


NAMED = 5
"""Pairs that cannot be read and are named on the page; the report has all."""

ALL_RUNS = 'All runs of all frames'
"""What the times of an evaluation in this process are."""


def summary_of(results: Collection[Result], totals: Totals, *, source: str, backend: str,
               settings: Mapping[str, Any], repeat: int = 1,
               against: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """The JSON document of an evaluation, of the own matcher.

    :param against: what the other matchers are, by their names.
    :param more: about the run.
    """
    own = next(iter(totals.matchers))
    summary: dict[str, Any] = {
        'source': source, 'date': time.strftime('%Y-%m-%dT%H:%M:%S%z'),
        'versions': versions(), 'machine': machine(), 'backend': backend, 'matcher': own,
        'repeat': repeat, **more, 'searched': evaluate_origin.searched(totals),
        'settings': dict(settings),
        'metrics': {'maps': evaluate_origin.MAPS, 'edge_distance_px': regions.EDGE_DISTANCE,
                    'sparsification_shares': list(SHARES),
                    'meanings': {key: {'meaning': words, 'unit': unit}
                                 for key, (words, unit) in tables.meanings().items()}},
        **report_of(results, totals)}
    for name, about in (against or {}).items():
        summary['against'][name] = {**about, **summary['against'][name]}
    return summary


def truth_is_unread(summary: Mapping[str, Any]) -> bool:
    """Whether a truth lies beside the pairs that is not read."""
    return any(one['check'] is None for one in summary.get('warnings', ()))


def write_html(path: pathlib.Path, name: str, summary: Mapping[str, Any],
               results: Collection[Result], totals: Totals,
               showing: Showing | None, verdicts: Sequence[Verdict] = (),
               runs: Sequence[report.Section] = (), times: str = ALL_RUNS) -> None:
    """Write one page that holds everything it shows.

    :param summary: ``report.json`` of the same run: where its figures come from.
    :param showing: the frames to look at; None: ``runs`` have them.
    :param verdicts: of the conditions that the run was held to.
    :param runs: through the node.
    :param times: what the times are.
    """
    matchers = totals.matchers
    others = [other for other in matchers if other != summary['matcher']]
    against = f', beside {", ".join(others)}' if others else ''
    lead = (f'{summary["matcher"]} on {summary["backend"]}{against}. {summary["source"]}, '
            f'{len(results)} pairs, {summary["date"]}.')
    table = tables.frame_table(results, totals, truth_is_unread(summary))
    figures: list[report.Part] = [report.Table('Frames', table.columns, table.rows)]
    columns, rows = tables.region_table(matchers)
    if rows:
        figures.append(report.Table(f'By region, mean of {len(results)}', columns, rows))
    figures += [report.Table(heading, columns, rows)
                for heading, columns, rows in tables.further_tables(matchers)]
    if text := tables.sparsification_text(matchers):
        figures.append(report.Note(text))
    overview: list[report.Part] = [report.Tiles(tiles(totals))]
    if summary.get('stopped'):
        overview.insert(0, report.Note(f'Not all pairs: {summary["stopped"]}.'))
    overview[:0] = [
        report.Note(one['text'] + (f' ({one["pairs"]} pairs)' if one['pairs'] else '') + '.')
        for one in summary.get('warnings', ())]
    if skipped := summary.get('skipped'):
        overview.insert(0, report.Note(
            f'{len(skipped)} of {len(skipped) + len(results)} pairs cannot be read and are left '
            'out: '
            + '; '.join(f'{one["name"]}: {one["error"]}' for one in skipped[:NAMED])
            + ('; ...' if len(skipped) > NAMED else '')))
    if verdicts:
        overview.append(report.Conditions(verdicts))
    pictures = [] if showing is None else [
        report.Section('Frames', showing.viewer('frames'), showing.chosen()),
        report.Section('Where errors are', [report.Beside(showing.maps())])]
    report.write_html(path, f'Evaluation of {name}', lead, [
        report.Section('Overview', overview), *runs,
        report.Section('Plots', plots_of(matchers)), *pictures,
        report.Section('Figures', figures, ' '.join(table.legend.split())),
        report.Section('Times', [_times(matchers)], f'{times}, milliseconds.'),
        report.Section('Settings and machine', _origin(summary, others)),
        report.Section('What the figures mean', [report.definitions(
            [*((key, *meaning) for key, meaning in tables.meanings().items()),
             *OTHER_MEANINGS])])])


def tiles(totals: Totals) -> list[tuple[str, str]]:
    """Main figures of the own matcher, each with words that say of what."""
    own = totals.own
    whole = own.pooled.whole
    total = own.latency_ms['total']
    found = [(f'{totals.frames}', 'pairs'), (f'{total["p50"]:.1f} ms', 'median time'),
             (f'{total["p99"]:.1f} ms', f'p99 of {len(own.times_ms)} times'),
             (f'{whole.published.coverage:.1f} %', 'valid pixels')]
    if 'device' in own.latency_ms:
        found.insert(3, (f'{own.latency_ms["device"]["p50"]:.2f} ms',
                         'median time on the device'))
    for size, what in ((own.engine_bytes, 'memory of the engine'),
                       (totals.process_bytes, 'memory of the process')):
        if size is not None:
            found.append((f'{size / 2**20:.0f} MiB', what))
    if whole.published.known:
        found += [(f'{whole.published.bad_estimated(3.0):.2f} %',
                   'bad-3 of the valid pixels, all frames'),
                  (f'{whole.published.bad_known(3.0):.2f} %', 'bad-3 or hole, all frames'),
                  (f'{own.mean["filled"]["bad_3_known"]:.2f} %',
                   'bad-3 once filled, mean of frames'),
                  (f'{whole.published.mae:.2f} px', 'EPE, mean absolute error')]
    return found


def plots_of(totals: Mapping[str, Summary]) -> list[report.Part]:
    """What there is to draw, side by side; without matplotlib the remedy."""
    if not plots.available():
        return [report.Note('No plots: ' + shared.missing(('matplotlib',)) + '.')]
    found = [_wrong_pixels(totals, 'filled', 'Wrong pixels, holes filled'),
             _wrong_pixels(totals, 'score', 'Wrong pixels of those with a disparity'),
             _by_distance(totals), _metres_by_distance(totals), _sparsification(totals),
             *_over_frames(totals)]
    return [report.Beside([plot for plot in found if plot is not None])]


def _wrong_pixels(totals: Mapping[str, Summary], which: str, title: str) -> report.Plot | None:
    kind = {'filled': 'known', 'score': 'estimated'}[which]
    keys = {**{f'bad-{n:g}': f'bad_{n:g}_{kind}' for n in metrics.THRESHOLDS}, 'D1': f'd1_{kind}'}
    series = {name: [_at(total.mean, which, key) for key in keys.values()]
              for name, total in totals.items()}
    if not _has_any(series):
        return None
    return report.Plot(title, plots.bars(title, list(keys), series, '% of pixels'),
                       'Means of the frames. Less is better.')


def _by_distance(totals: Mapping[str, Summary]) -> report.Plot | None:
    groups, series = _of_bins(totals, 'filled', 'bad_3_known')
    if not groups:
        return None
    title = 'Wrong pixels by distance'
    return report.Plot(title, plots.bars(title, groups, series, 'bad-3, holes filled, %'),
                       'By true distance in metres. Means of the frames.')


def _metres_by_distance(totals: Mapping[str, Summary]) -> report.Plot | None:
    """Median errors, beside which the mean would show those few that are far off."""
    groups, series = _of_bins(totals, 'depth', 'p50_m')
    if not groups:
        return None
    title = 'Error in metres by distance'
    return report.Plot(
        title, plots.bars(title, groups, series, 'median error, m', is_log=True),
        'By true distance in metres, of pixels with a disparity. Means of the frames. The table '
        'of figures has means and 90 %, too.')


def _of_bins(totals: Mapping[str, Summary], *path: str
             ) -> tuple[list[str], dict[str, list[float | None]]]:
    """Words of the bins of distance in which anything has a figure, and every matcher's there."""
    bins = [regions.distance_name(*limits) for limits in itertools.pairwise(regions.DISTANCES)]
    series = {name: [_at(total.mean, 'regions', one, *path) for one in bins]
              for name, total in totals.items()}
    kept = [index for index in range(len(bins))
            if any(values[index] is not None for values in series.values())]
    return ([tables.region_words(bins[index]).removesuffix(' m').replace('-inf', ' up')
             for index in kept],
            {name: [values[index] for index in kept] for name, values in series.items()})


def _sparsification(totals: Mapping[str, Summary]) -> report.Plot | None:
    curves = {name: found['bad_3'] for name, total in totals.items()
              if (found := total.mean.get('sparsification'))}
    if not curves:
        return None
    first = next(iter(curves))
    title = 'Sparsification'
    return report.Plot(title, plots.lines(
        title, [100 * share for share in SHARES],
        {name: curve['curve'] for name, curve in curves.items()}, 'most trusted pixels, %',
        'bad-3, %', references={f'oracle of {first}': curves[first]['oracle']}),
        f'Wrong pixels among the most trusted ones. The oracle sorts those of {first} by their '
        'error.')


def _over_frames(totals: Mapping[str, Summary]) -> list[report.Plot]:
    own, total = next(iter(totals.items()))
    if total.frames < 2:
        return []
    numbers = range(1, total.frames + 1)
    wrong = {name: [_or_none(value) for value in one.curves.wrong]
             for name, one in totals.items()}
    title, label = 'Wrong pixels over frames', 'bad-3 or hole, %'
    if not _has_any(wrong):
        title, label = 'Pixels without a disparity over frames', '% of all pixels'
        wrong = {name: [100.0 - value for value in one.curves.coverage]
                 for name, one in totals.items()}
    times = {name: one.curves.median_ms for name, one in totals.items()}
    levels = {f'{share} of {own}': total.latency_ms['total'][share] for share in ('p50', 'p99')}
    return [report.Plot(title, plots.lines(title, numbers, wrong, 'frame', label)),
            report.Plot('Time over frames', plots.lines(
                'Time over frames', numbers, times, 'frame', 'ms', levels),
                'Median of the runs of each frame; p50 and p99 of all runs.')]


def _times(totals: Mapping[str, Summary]) -> report.Table:
    # Stages that a configuration does not have take no time.
    rows = [(name, stage, *(f'{ms:.2f}' for ms in shares.values()))
            for name, total in totals.items() for stage, shares in total.latency_ms.items()
            if any(shares.values())]
    return report.Table('', ('matcher', 'stage', 'p50', 'p99', 'p99.9'), rows)


def _origin(summary: Mapping[str, Any], others: Sequence[str]) -> list[report.Part]:
    settings = summary['settings']
    usual = MatcherConfig().to_mapping()
    changed = {key: value for key, value in settings.items() if usual.get(key) != value}
    if not summary.get('method', {'own_range': True})['own_range']:
        changed['disparity_range'] = (f'{settings["disparity_range"]}, where the data set does '
                                      'not say it')
    parts: list[report.Part] = [report.Beside([
        report.facts('Settings that differ from the defaults', changed),
        report.facts('Machine', summary['machine']),
        report.facts('Versions', summary['versions']),
        report.facts('Run', {
            'source': summary['source'], 'date': summary['date'],
            'matcher': summary['matcher'], 'back end': summary['backend'],
            'runs of each pair': summary['repeat'], **evaluate_origin.facts(summary)})])]
    parts.append(report.Folded('Every setting', [report.facts('', settings)]))
    for name in others:
        about = summary['against'][name]
        parts.append(report.Folded(f'Settings of {name}', [report.facts(
            '', {**about['settings'], 'threads': about['threads']})]))
    return parts


def _at(figures: Mapping[str, Any], *path: str) -> float | None:
    found: Any = figures
    for key in path:
        found = found.get(key) if found else None
    return None if found is None else float(found)


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else value


def _has_any(series: Mapping[str, Sequence[float | None]]) -> bool:
    return any(value is not None for values in series.values() for value in values)
