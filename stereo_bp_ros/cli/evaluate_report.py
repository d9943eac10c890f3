"""The page of ``stereo_bp evaluate --output``."""

from __future__ import annotations

import itertools
import math
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from stereo_bp_ros.cli import evaluate_origin
from stereo_bp_ros.cli import evaluate_tables as tables
from stereo_bp_ros.cli.machine import origin
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.evaluation import metrics, plots, regions, report
from stereo_bp_ros.evaluation.conditions import Verdict, look_up
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


#: Pairs that cannot be read and are named on the page; the report has all.
NAMED = 5

#: What the times of an evaluation in this process are.
ALL_RUNS = 'All runs of all frames'


def summary_of(results: Collection[Result], totals: Totals, *, source: str, backend: str,
               settings: Mapping[str, Any], repeat: int = 1,
               against: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """The JSON document of an evaluation, of the own matcher.

    :param against: what the other matchers are, by their names.
    :param more: about the run.
    """
    own = next(iter(totals.matchers))
    summary: dict[str, Any] = {
        'source': source, **origin(), 'backend': backend, 'matcher': own, 'repeat': repeat, **more,
        'searched': evaluate_origin.searched(totals), 'settings': dict(settings),
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
    figures: list[report.Part] = [report.Table('Frames', table.columns, table.rows),
                                  *tables.further_tables(matchers)]
    if len(results) > tables.ROWS:
        figures.insert(1, report.Note('The rows of all pairs are in report.json.'))
    skipped = summary.get('skipped') or ()
    notes = [one['text'] + (f' ({one["pairs"]} pairs)' if one['pairs'] else '') + '.'
             for one in summary.get('warnings', ())]
    if skipped:
        notes.append(f'{len(skipped)} of {len(skipped) + len(results)} pairs cannot be read and '
                     'are left out: '
                     + '; '.join(f'{one["name"]}: {one["error"]}' for one in skipped[:NAMED])
                     + ('; ...' if len(skipped) > NAMED else ''))
    if summary.get('stopped'):
        notes.append(f'Not all pairs: {summary["stopped"]}.')
    first: list[report.Part] = [*map(report.Note, notes), *overview(totals)]
    if verdicts:
        first.append(report.Conditions(verdicts))
    pictures = [] if showing is None else [
        report.Section('Frames', showing.viewer('frames'), showing.chosen()),
        report.Section('Where errors are', showing.maps())]
    report.write_html(path, f'Evaluation of {name}', lead, [
        report.Section('Overview', first), *runs,
        report.Section('Plots', plots_of(matchers)), *pictures,
        report.Section('Figures', figures, ' '.join(table.legend.split())),
        report.Section('Times', [_times(matchers)], f'{times}, milliseconds.'),
        report.Section('Settings and machine', _origin(summary, others)),
        report.Section('What the figures mean', [report.definitions(
            [*((key, *meaning) for key, meaning in tables.meanings().items()),
             *OTHER_MEANINGS])])])


def overview(totals: Totals) -> list[report.Part]:
    """Main figures: in large letters those of one matcher, side by side those of several."""
    common = [(f'{totals.frames}', 'pairs')]
    if totals.process_bytes is not None:
        common.append((f'{totals.process_bytes / 2**20:.0f} MiB', 'memory of the process'))
    figures = {name: main_figures(one) for name, one in totals.matchers.items()}
    if len(figures) == 1:
        return [report.Tiles([*common, *(
            (figure, what) for one in figures.values() for what, figure in one.items())])]
    words = dict.fromkeys(itertools.chain.from_iterable(figures.values()))
    return [report.Tiles(common), report.Table('Every matcher', ('', *figures), [
        (what, *(one.get(what, '-') for one in figures.values())) for what in words])]


def main_figures(one: Summary) -> dict[str, str]:
    """Of a matcher, by words that say of what."""
    whole, total = one.pooled.whole, one.latency_ms['total']
    found = {'median time': f'{total["p50"]:.1f} ms',
             f'p99 of {len(one.times_ms)} times': f'{total["p99"]:.1f} ms'}
    if 'device' in one.latency_ms:
        found['median time on the device'] = f'{one.latency_ms["device"]["p50"]:.2f} ms'
    found['valid pixels'] = f'{whole.published.coverage:.1f} %'
    if one.engine_bytes is not None:
        found['memory of the engine'] = f'{one.engine_bytes / 2**20:.0f} MiB'
    if whole.published.known:
        found |= {
            'bad-3 of the valid pixels, all frames': f'{whole.published.bad_estimated(3.0):.2f} %',
            'bad-3 or hole, all frames': f'{whole.published.bad_known(3.0):.2f} %',
            'bad-3 once filled, mean of frames': f'{one.mean["filled"]["bad_3_known"]:.2f} %',
            'EPE, mean absolute error': f'{whole.published.mae:.2f} px'}
    return found


def plots_of(totals: Mapping[str, Summary]) -> list[report.Part]:
    """What there is to draw."""
    return [*_bars(totals), *_sparsification(totals), *_over_frames(totals)]


def _bars(totals: Mapping[str, Summary]) -> list[report.Image]:
    """Wrong pixels by threshold, and errors by distance, means of the frames."""
    bins = [regions.distance_name(*limits) for limits in itertools.pairwise(regions.DISTANCES)]
    by_distance = {tables.region_words(one).removesuffix(' m').replace('-inf', ' up'):
                   f'mean.regions.{one}' for one in bins}
    thresholds = {**{f'bad-{n:g}': f'bad_{n:g}' for n in metrics.THRESHOLDS}, 'D1': 'd1'}
    kinds = (
        ('Wrong pixels, holes filled', '% of pixels', 'Less is better.',
         {words: f'mean.filled.{key}_known' for words, key in thresholds.items()}),
        ('Wrong pixels of those with a disparity', '% of pixels', 'Less is better.',
         {words: f'mean.score.{key}_estimated' for words, key in thresholds.items()}),
        ('Wrong pixels by distance', 'bad-3, holes filled, %', 'By true distance in metres.',
         {words: f'{begin}.filled.bad_3_known' for words, begin in by_distance.items()}),
        # Beside the median the mean would show those few that are far off.
        ('Error in metres by distance', 'median error, m', 'By true distance in metres, of '
         'pixels with a disparity. The table of figures has means and 90 %, too.',
         {words: f'{begin}.depth.p50_m' for words, begin in by_distance.items()}))
    images = []
    for title, label, note, paths in kinds:
        values = {words: [look_up({'mean': total.mean}, path) for total in totals.values()]
                  for words, path in paths.items()}
        values = {words: row for words, row in values.items() if set(row) != {None}}
        if values:
            series = dict(zip(totals, zip(*values.values(), strict=True), strict=True))
            images.append(report.Image(title, plots.data_uri(plots.bars(
                list(values), series, label, is_log=label.endswith(' m'))),
                f'Means of the frames. {note}'))
    return images


def _sparsification(totals: Mapping[str, Summary]) -> list[report.Image]:
    curves = {name: known['bad_3'] for name, total in totals.items()
              if (known := total.mean.get('sparsification'))}
    if not curves:
        return []
    first = next(iter(curves))
    return [report.Image('Sparsification', plots.data_uri(plots.lines(
        [100 * share for share in SHARES],
        {name: curve['curve'] for name, curve in curves.items()}, 'most trusted pixels, %',
        'bad-3, %', references={f'oracle of {first}': curves[first]['oracle']})),
        f'Wrong pixels among the most trusted ones. The oracle sorts those of {first} by their '
        'error.')]


def _over_frames(totals: Mapping[str, Summary]) -> list[report.Image]:
    own, total = next(iter(totals.items()))
    if total.frames < 2:
        return []
    numbers = range(1, total.frames + 1)
    title, label = 'Wrong pixels over frames', 'bad-3 or hole, %'
    wrong: dict[str, Sequence[float]] = {name: one.curves.wrong for name, one in totals.items()}
    if all(map(math.isnan, total.curves.wrong)):
        title, label = 'Pixels without a disparity over frames', '% of all pixels'
        wrong = {name: [100.0 - value for value in one.curves.coverage]
                 for name, one in totals.items()}
    levels = {f'{share} of {own}': total.latency_ms['total'][share] for share in ('p50', 'p99')}
    return [report.Image(title, plots.data_uri(plots.lines(numbers, wrong, 'frame', label))),
            report.Image('Time over frames', plots.data_uri(plots.lines(
                numbers, {name: one.curves.median_ms for name, one in totals.items()}, 'frame',
                'ms', levels)), 'Median of the runs of each frame; p50 and p99 of all runs.')]


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
    return [
        report.facts('Settings that differ from the defaults', changed),
        report.facts('Machine', summary['machine']), report.facts('Versions', summary['versions']),
        report.facts('Run', {
            'source': summary['source'], 'date': summary['date'],
            'matcher': summary['matcher'], 'back end': summary['backend'],
            'runs of each pair': summary['repeat'], **evaluate_origin.facts(summary)}),
        report.Folded('Every setting', [report.facts('', settings)]),
        *(report.Folded(f'Settings of {name}', [report.facts('', {
            **summary['against'][name]['settings'],
            'threads': summary['against'][name]['threads']})]) for name in others)]
