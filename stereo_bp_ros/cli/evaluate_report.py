"""The report of ``evaluate``, ``replay --output`` and ``demo``: JSON, page and printed tables."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import itertools
import logging
import pathlib
import textwrap
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stereo_bp_ros.cli import evaluate_scenario
from stereo_bp_ros.cli import evaluate_tables as tables
from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.cli.machine import origin
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.evaluation import regions, report, row_report
from stereo_bp_ros.evaluation.conditions import Verdict, judge
from stereo_bp_ros.evaluation.method import Method
from stereo_bp_ros.evaluation.results import PERFORMANCE, Result, Summary, Totals, report_of
from stereo_bp_ros.evaluation.scenario import Scenario
from stereo_bp_ros.evaluation.showing import Showing
from stereo_bp_ros.evaluation.sparsification import SHARES
from stereo_bp_ros.issues import Issue, summarise

if TYPE_CHECKING:
    from stereo_bp_ros.replay.analysis import RecordedRun

_log = logging.getLogger(__name__)

#: Figures that are no part of a score.
OTHER_MEANINGS = (
    ('filled', 'the same figure once holes are filled from the background', ''),
    ('frame', 'the matched pairs, numbered from 1 in the order of the source', ''),
    ('D', 'disparities searched', 'px'),
    ('mean of N', 'mean of the figures of N frames, each frame counting the same', ''),
    ('all N', 'the figures of all pixels of N frames together', ''),
    ('ms', 'time of one pair, images in memory to disparity in memory: median of its runs', 'ms'),
    ('p50, p99, p99.9', 'times that 50, 99 and 99.9 % of the runs do not exceed', 'ms'),
    ('device', 'time of a frame on the clock of the CUDA device, of the last run of each frame',
     'ms'),
    ('memory of the engine', 'its one allocation, on the device where there is one', 'MiB'),
    ('memory of the process', 'maximum resident memory, of all matchers, images and '
     'scores together', 'MiB'),
    ('share', 'pixels with truth in a region, of all pixels with truth', '%'),
    ('sparsification', 'error of the most trusted pixels over their share of all; the oracle '
     'sorts by the true error', '% or px'),
    ('AUSE', 'area between that curve and the curve of the oracle; 0 is best', '% or px'))

#: Pairs that cannot be read and are named on the page; the report has all.
NAMED = 5

#: Characters of a line for a terminal.
WIDTH = 80

MAPS = {'score': 'the map as the matcher publishes it, with its holes',
        'filled': 'the same map, every hole filled with a disparity of the background'}
"""Which map the figures below a key are of."""

#: Percentiles of times, and of the latencies of a node.
TIMES, LATENCIES = ('p50', 'p99', 'p99.9'), ('p50', 'p95', 'p99', 'p99.9', 'max')

#: From where to where times are taken, of a matcher in this process and of a node.
IN_MEMORY = 'from images in memory to a disparity in memory'
THROUGH_NODE = 'from the receipt of the later image to the return of publish'


def document(results: Collection[Result], totals: Totals, *, source: str, backend: str,
             settings: Mapping[str, Any], method: Method, limit: int = 0, workers: int = 0,
             devices: Mapping[str, Sequence[Mapping[str, str]]] | None = None,
             against: Mapping[str, Any] | None = None, runs: Sequence[RecordedRun] = (),
             rows: Sequence[row_report.SequenceRows] = (),
             issues: Sequence[Issue] = (),
             skipped: Sequence[Mapping[str, Any]] = (), stopped: str | None = None
             ) -> dict[str, Any]:
    """The JSON document: the same keys whatever has matched, and also where nothing is judged.

    :param limit: pairs of each input that count at most; 0 = all.
    :param workers: processes that have shared the machine.
    :param devices: what has computed each matcher.
    :param against: what the other matchers are, by their names.
    :param runs: through the node.
    :param rows: the vertical disparity of sequences.
    :param issues: of sources and runs; those of pairs come from their results, and are logged.
    :param skipped: pairs that cannot be read.
    :param stopped: why not all pairs are there.
    """
    known: list[dict[str, Any]] = [{**one.to_dict(), 'pairs': None} for one in issues]
    for issue, pairs in summarise(one.issues for one in results):
        _log.warning('%s (%d of %d pairs)', issue, pairs, len(results))
        known.append({**issue.to_dict(), 'pairs': pairs})
    found: dict[str, Any] = {
        'source': source, **origin(), 'backend': backend, 'matcher': next(iter(totals.matchers)),
        'repeat': method.repeat, 'devices': devices or {}, 'workers': workers,
        'method': {**dataclasses.asdict(method), 'limit': limit},
        'runs': {one.name: one.to_dict() for one in runs},
        'searched': [{'matcher': name, 'input': label, 'disparities': count, 'pairs': pairs}
                     for label, part in totals.inputs.items() for name, one in part.items()
                     for count, pairs in one.searched.items()],
        'settings': dict(settings),
        'metrics': {'maps': MAPS, 'edge_distance_px': regions.EDGE_DISTANCE,
                    'sparsification_shares': list(SHARES),
                    'meanings': {key: {'meaning': words, 'unit': unit}
                                 for key, (words, unit) in tables.meanings().items()}},
        **report_of(results, totals), 'delivery': {}, 'stopped': stopped,
        'skipped': list(skipped), 'rows': [one.to_dict() for one in rows],
        'issues': known}
    for name, about in (against or {}).items():
        found['against'][name] = {**about, **found['against'][name]}
    return found


def finish(options: argparse.Namespace, title: str, summary: dict[str, Any],
           results: Collection[Result], totals: Totals, *, showing: Showing | None = None,
           runs: Sequence[RecordedRun] = (), scenario: Scenario | None = None,
           json_lines: bool = False) -> bool:
    """Judge the conditions, write the report where --output says, and print it.

    Returns whether all conditions hold.

    :param summary: of ``document``; gets what becomes of the conditions.
    :param showing: the frames to look at; None: ``runs`` have them.
    :param json_lines: whether the conditions are printed, a line each.
    """
    verdicts = judge(scenario.conditions, summary) if scenario else []
    if scenario:
        summary |= evaluate_scenario.report(scenario, verdicts)
    has_page = options.output and not shared.missing(report.MODULES)
    if options.output:
        shared.write_json(options.output / 'report.json', summary)
    if has_page:
        write_html(options.output / 'report.html', title, summary, results, totals, showing,
                   verdicts, runs)
    if options.json:
        shared.print_json(summary)
    elif json_lines:
        evaluate_scenario.print_lines(summary)
    else:
        _print(f'{title} on {summary["backend"]}', summary, results, totals, runs)
        if len(results) > tables.ROWS:
            where = options.output / 'report.json' if options.output else '--output DIR or --json'
            shared.say(f'The rows of all {len(results)} pairs: {where}.')
        if scenario:
            evaluate_scenario.print_verdicts(scenario, verdicts)
        if options.output:
            shared.say('Report: '
                       f'{options.output / ("report.html" if has_page else "report.json")}')
    return all(one.passed for one in verdicts)


def write_html(path: pathlib.Path, title: str, summary: Mapping[str, Any],
               results: Collection[Result], totals: Totals, showing: Showing | None,
               verdicts: Sequence[Verdict] = (), runs: Sequence[RecordedRun] = ()) -> None:
    """Write one page that holds everything it shows; the arguments are those of ``finish``."""
    matchers = totals.matchers
    against = f', beside {", ".join(summary["against"])}' if summary['against'] else ''
    lead = (f'{summary["matcher"]} on {summary["backend"]}{against}. {summary["source"]}, '
            f'{len(results)} pairs, {summary["date"]}.')
    notes = [report.Note(text) for text in _notes(summary, len(results))]
    conditions = [report.Conditions(verdicts)] if verdicts else []
    pictures = [] if showing is None else [
        report.Section('Frames', showing.viewer('frames'), showing.chosen()),
        report.Section('Where errors are', showing.maps())]
    figures: list[report.Part] = [
        table for table in _tables('Frames', results, totals) if table.rows]
    if len(results) > tables.ROWS:
        figures.insert(1, report.Note('The rows of all pairs are in report.json.'))
    times = tables.times_table(matchers, LATENCIES if runs else TIMES)
    report.write_html(path, f'Evaluation of {title}', lead, [
        report.Section('Overview', [*notes, *overview(totals), *conditions]),
        *(report.Section(one.title, [
            tables.run_table(one), *one.showing.maps(), *one.showing.viewer(one.name)],
            one.showing.chosen() if one.showing.shots else '') for one in runs),
        report.Section('Plots', tables.plots_of(matchers)), *pictures,
        report.Section('Figures', figures, ' '.join(tables.legend(totals).split())),
        report.Section('Times', [times] if times.rows else [],
                       (f'Latency of every frame, {THROUGH_NODE}' if runs else
                        'All runs of all frames') + ', milliseconds.'),
        report.Section('Settings and machine', _origin(summary)),
        report.Section('What the figures mean', [report.definitions(
            [*((key, *meaning) for key, meaning in tables.meanings().items()),
             *OTHER_MEANINGS])])])


def _print(title: str, summary: Mapping[str, Any], results: Collection[Result], totals: Totals,
           runs: Sequence[RecordedRun]) -> None:
    of_runs = [dataclasses.replace(tables.run_table(one), title=one.title) for one in runs]
    if runs:
        of_runs.append(dataclasses.replace(
            tables.times_table(totals.matchers, LATENCIES), title='Latency, ms'))
    for table in (*of_runs, *_tables(title, results, totals)):
        if table.rows:
            shared.print_table(table.title, table.columns, table.rows, ranks=table.ranks,
                               keys=1 + ('matcher' in table.columns))
    legend = tables.legend(totals).split('\n') if results else []
    shared.say(*legend, *lines(summary))


def _tables(title: str, results: Collection[Result], totals: Totals) -> list[report.Table]:
    """Those of the figures, on the page and in a terminal."""
    return [tables.frame_table(title, results, totals), *tables.further_tables(totals.matchers)]


def _notes(summary: Mapping[str, Any], judged: int) -> list[str]:
    """What a reader of the figures has to know before."""
    notes = [one['text'] + (f' ({one["pairs"]} pairs)' if one['pairs'] else '') + '.'
             for one in summary['issues']]
    if skipped := summary['skipped']:
        notes.append(f'{len(skipped)} of {len(skipped) + judged} pairs cannot be read and '
                     'are left out: '
                     + '; '.join(f'{one["name"]}: {one["error"]}' for one in skipped[:NAMED])
                     + ('; ...' if len(skipped) > NAMED else ''))
    if summary['stopped']:
        notes.append(f'Not all pairs: {summary["stopped"]}.')
    return notes


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
    """Of a matcher, by words that say of what; empty where nothing is judged."""
    if not one.frames:
        return {}
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
            'bad-3, all pixels of all frames': f'{whole.published.bad_all(3.0):.2f} %',
            'bad-3 once filled, mean of frames': f'{one.mean["filled"]["bad_3_all"]:.2f} %',
            'EPE, mean absolute error': f'{whole.published.mae:.2f} px'}
    return found


def _origin(summary: Mapping[str, Any]) -> list[report.Part]:
    settings = summary['settings']
    usual = MatcherConfig().to_mapping()
    changed = {key: value for key, value in settings.items() if usual.get(key) != value}
    if not summary['method']['own_range']:
        changed['disparity_range'] = (f'{settings["disparity_range"]}, where the data set does '
                                      'not say it')
    return [
        report.facts('Settings that differ from the defaults', changed),
        report.facts('Machine', summary['machine']), report.facts('Versions', summary['versions']),
        report.facts('Run', {
            'source': summary['source'], 'date': summary['date'],
            'matcher': summary['matcher'], 'back end': summary['backend'],
            'runs of each pair': summary['repeat'], **facts(summary)}),
        report.Folded('Every setting', [report.facts('', settings)]),
        *(report.Folded(f'Settings of {name}', [report.facts('', {
            **one['settings'], 'threads': one['threads']})])
          for name, one in summary['against'].items())]


def facts(summary: Mapping[str, Any]) -> dict[str, str]:
    """Of a report in words, each with a name; what the report does not know is left out."""
    found = {'matched by': '; '.join(f'{name} on {device_words(devices)}'
                                     for name, devices in summary['devices'].items()),
             'disparities searched': _ranges(summary), 'holes': _filling(summary),
             'times': _times(summary), 'rows': '; '.join(row_report.words(summary['rows']))}
    return {name: words for name, words in found.items() if words}


def lines(summary: Mapping[str, Any]) -> list[str]:
    """The same for a terminal, with the machine, versions and date."""
    machine = summary['machine']
    return folded([*(f'{name.capitalize()}: {words}.' for name, words in facts(summary).items()
                     if name != 'rows'),
                   *(f'Rows of {words}.' for words in row_report.words(summary['rows'])),
                   f'Machine: {machine["processor"]}, {machine["cores"]} cores; stereo_bp_ros '
                   f'{summary["versions"]["stereo_bp_ros"]}; {summary["date"]}.'])


def folded(sentences: Sequence[str]) -> list[str]:
    """Lines of a terminal, each sentence beginning a new one."""
    return [line for text in sentences for line in textwrap.wrap(
        text, WIDTH, break_on_hyphens=False, break_long_words=False)]


def device_words(devices: Sequence[Mapping[str, str]]) -> str:
    """Of what computes in one process or in several, as ``StereoMatcher.device`` has each."""
    kinds = collections.Counter(
        one['device'] + (f', {one["threads"]} thread{"s" * (one["threads"] != "1")}'
                         if 'threads' in one else '') for one in devices)
    return ' and '.join((f'{count} x ' if count > 1 else '') + words
                        for words, count in kinds.items())


def _ranges(summary: Mapping[str, Any]) -> str:
    by_matcher: dict[str, list[str]] = {}
    for one in summary['searched']:
        if one['disparities'] is not None:
            by_matcher.setdefault(one['matcher'], []).append(
                f'{one["disparities"]} in {one["pairs"]} pair{"s" * (one["pairs"] > 1)}'
                + (f' of {one["input"]}' if one['input'] else ''))
    if not by_matcher:
        return ''
    words = {name: ', '.join(parts) for name, parts in by_matcher.items()}
    text = (next(iter(words.values())) if len(set(words.values())) == 1
            else '; '.join(f'{name} {one}' for name, one in words.items()))
    return text + (' (as the settings say)' if summary['method']['own_range'] else
                   ' (as the data set says, else the settings)')


def _filling(summary: Mapping[str, Any]) -> str:
    settings = {summary['matcher']: summary['settings'],
                **{name: one['settings'] for name, one in summary['against'].items()}}
    return '; '.join(
        f'{name} fills them itself ({one["filling"]}), and what it has filled counts as valid'
        for name, one in settings.items() if one.get('filling', 'none') != 'none')


def _times(summary: Mapping[str, Any]) -> str:
    if not summary['frames']:
        return ''
    total, name = summary['latency_ms']['total'], summary['matcher']
    if summary['runs']:
        runs, what = summary['frames'], f'latencies of {name}, {THROUGH_NODE}'
    else:
        runs = summary[PERFORMANCE + 'NUM_FRAMES_SENT']
        what = (f'run{"s" * (runs > 1)} of {name}, {summary["repeat"]} of each pair, '
                f'{IN_MEMORY}')
    text = f'{runs} {what}: p50 {_milliseconds(total["p50"])}, p99 {_milliseconds(total["p99"])}'
    if summary['workers'] > 1:
        text += (f'; {summary["workers"]} processes shared the machine: for latency evaluate '
                 'without --workers')
    return text


def _milliseconds(value: float) -> str:
    return f'{value:.0f} ms' if value >= 100 else f'{value:.3g} ms'
