"""The report of recorded runs: frames, latency by stage, accuracy, pictures, as JSON and HTML."""

from __future__ import annotations

import dataclasses
import pathlib
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.cli.machine import machine, versions
from stereo_bp_ros.config import Value
from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.evaluation import bags, metrics, pictures, plots, report
from stereo_bp_ros.evaluation.showing import Showing, View
from stereo_bp_ros.evaluation.sources import open_pairs
from stereo_bp_ros.replay import analysis, session
from stereo_bp_ros.replay.source import made_stamp_ns

#: What to do about losses.
LOSE_NOTHING = ('; reliable qos_overrides and large images: see Lose no frame in '
                'docs/howto/recordings.md')


@dataclasses.dataclass
class RecordedRun:
    """One run in a report.

    least_published: the run fails when a smaller share of its frames is published; 0 = any.
    showing: frames to look at, and where in the image errors are.
    settings: of the node, where the run has started it.
    """

    name: str
    title: str
    figures: analysis.Analysis
    least_published: float = 0.0
    showing: Showing | None = None
    settings: Mapping[str, Value] = dataclasses.field(default_factory=dict)


def prepare_folder(folder: pathlib.Path) -> None:
    """Make an empty folder for a report; replaces an earlier one.

    :raises StereoError: the folder has something else in it.
    """
    if folder.exists() and any(folder.iterdir()):
        if not (folder / 'report.json').is_file() and not (folder / '.demo').is_file():
            raise StereoError(f'{folder} is not empty and not the output of an earlier demo '
                              'or replay')
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / '.demo').touch()


def judge(name: str, title: str, source: pathlib.Path, result: session.SessionResult,
          *, topics: bags.StereoTopics | None = None,
          period_s: float = 0.1, least_published: float = 0.0,
          advance: Callable[[], None] = lambda: None) -> RecordedRun:
    """Score every answer against the truth of its pair, and keep some to look at.

    :param source: the bag or folder that was played.
    :param topics: those of the bag that are not to be found by their names.
    :param period_s: time between pairs of a folder whose files carry no stamps.
    :param advance: is called after every answer.
    :raises StereoError: the recording has no diagnostics.
    """
    figures = analysis.analyse(result)
    if result.node_status:
        figures.frames['node_status'] = result.node_status
    inputs = _Inputs(source, topics, period_s)
    showing = Showing(figures.frames['recorded'])
    scores, coverages = [], []
    for index, answer in enumerate(analysis.answers(result.bag)):
        left, truth, shift = inputs.find(answer.stamp_ns)
        # The truth is of the images as they are, the node's disparity of the principal points.
        disparity = answer.disparity + np.float32(shift)
        coverages.append(float(answer.valid.mean()))
        if truth is not None:
            scores.append(metrics.score(disparity, truth, answer.valid))
        if left is not None:
            showing.add(index, View(
                str(answer.stamp_ns), left, disparity, answer.valid, truth,
                answer.min_disparity + shift, answer.max_disparity + shift))
        advance()
    figures.score = metrics.combine(scores) if scores else None
    figures.valid_fraction = float(np.mean(coverages)) if coverages else 0.0
    return RecordedRun(name, title, figures, least_published, showing)


class _Inputs:
    """The pairs of a source by their stamps; quickest in the order of playing."""

    def __init__(self, source: pathlib.Path, topics: bags.StereoTopics | None,
                 period_s: float) -> None:
        self._source, self._topics, self._period_s = source, topics, period_s
        self._pairs: Iterator[tuple[int, Any]] = iter(())
        self._known: set[int] | None = None     # all stamps, once one was missing

    def find(self, stamp_ns: int) -> tuple[np.ndarray | None, np.ndarray | None, float]:
        """Left image, truth and shift by principal points of a stamp; None = there is none."""
        if self._known is not None and stamp_ns not in self._known:
            return None, None, 0.0
        seen: set[int] = set()
        for again in (True, False):     # the next loop begins with the first pair again
            for stamp, pair in self._pairs:
                seen.add(stamp)
                if stamp == stamp_ns:
                    left = pair.left
                    return (left if isinstance(left, np.ndarray) else pictures.displayable(left),
                            pair.truth, pair.calibration.shift if pair.calibration else 0.0)
            if again:
                self._pairs = self._read()
        self._known = seen
        return None, None, 0.0

    def _read(self) -> Iterator[tuple[int, Any]]:
        _, pairs = open_pairs(self._source, self._topics)
        for index, pair in enumerate(pairs):
            yield (made_stamp_ns(index, self._period_s) if pair.stamp_ns is None
                   else pair.stamp_ns), pair


def finish(output: pathlib.Path, runs: Sequence[RecordedRun], *, title: str, lead: str,
           as_json: bool) -> int:
    """Write report.json and report.html into ``output``, and print them.

    Returns the exit status: 1 where a run does not reach what it is held to, which is said.
    """
    date, known, where = time.strftime('%Y-%m-%dT%H:%M:%S%z'), versions(), machine()
    summary = {'output': str(output), 'date': date, 'versions': known, 'machine': where, 'runs': {
        one.name: {**one.figures.to_dict(), 'settings': dict(one.settings)} for one in runs}}
    shared.write_json(output / 'report.json', summary)
    report.write_html(output / 'report.html', title,
                      f'{lead} Every frame is accounted for; latency counts from the receipt of '
                      'the later image to the return of publish.',
                      [*(_section(one) for one in runs),
                       report.Section('Machine', [report.Beside([
                           report.facts('Machine', {**where, 'date': date}),
                           report.facts('Versions', known)])]),
                       report.Section('What the figures mean', [report.definitions(
                           (key, *meaning) for key, meaning in metrics.meanings().items())])])
    if as_json:
        shared.print_json(summary)
    else:
        for one in runs:
            _print(one)
            for text in drops_of(one):
                print(text)
        print(f'Report: {output / "report.html"}')
    failures = [text for one in runs for text in failures_of(one)]
    for text in failures:
        print(f'FAILED {text}', file=sys.stderr if as_json else sys.stdout)
    return 1 if failures else 0


def failures_of(one: RecordedRun) -> list[str]:
    """What a run was held to and did not reach, in words."""
    found = []
    frames = one.figures.frames
    if frames.get('node_status'):
        found.append(f'{one.name}: the node ended with status {frames["node_status"]}')
    found += [f'{one.name}: {text}' for text in _losses(frames)]
    if not frames['recorded']:
        is_untimely = {'stale', 'future'} & set(frames['dropped'])
        found.append(f'{one.name}: nothing was published' + (
            ': the node does not live in the time of the source, set use_sim_time'
            if is_untimely else ''))
    if frames['published'] < one.least_published * frames['sent']:
        found.append(f'{one.name}: {frames["published"]} of {frames["sent"]} frames were '
                     f'published in time, but {100 * one.least_published:g} % have to be')
    return found


def drops_of(one: RecordedRun) -> list[str]:
    """The frames that the node dropped, by their reasons in words: no failure by themselves."""
    frames = one.figures.frames
    return [f'{one.name}: {count} of {frames["sent"]} frames dropped: {reason}'
            for reason, count in frames['dropped'].items()]


def _losses(frames: Mapping[str, Any]) -> list[str]:
    """Where frames were lost on their way, by the counters of both ends."""
    sides = tuple((side, frames[f'sent{suffix}'], frames[f'received{suffix}'])
                  for side, suffix in (('left', ''), ('right', '_right')))
    arrived = ' and '.join(f'{received} of {sent} {side} images' for side, sent, received in sides)
    if any(received > sent for _, sent, received in sides):
        return [f'the node received {arrived}: something else publishes to it, too']
    found = []
    if frames['lost_to_node']:
        found.append(f'{frames["lost_to_node"]} of {frames["sent"]} frames were lost on the way '
                     f'to the node, which received {arrived}{LOSE_NOTHING}')
    if frames['lost_from_node']:
        found.append(f'{frames["lost_from_node"]} of {frames["published"]} results were lost on '
                     f'the way from the node to the recorder{LOSE_NOTHING}')
    if frames['in_progress']:
        found.append(f'{frames["in_progress"]} of {frames["sent"]} frames were still in progress '
                     f'after {session.SETTLE_LIMIT_S:g} s')
    return found


def _tables(figures: analysis.Analysis) -> list[report.Table]:
    frames = figures.frames
    rows = [[name.replace('_', ' '), str(frames[name])]
            for name in ('sent', 'received', 'published', 'recorded')]
    rows.append(['dropped', str(sum(frames['dropped'].values()))])
    rows += [[f'  {reason}', str(count)] for reason, count in frames['dropped'].items()]
    rows += [[text, str(frames[name])] for name, text in (
        ('waiting', 'without a partner'), ('in_progress', 'still in progress')) if frames[name]]
    rows += [[name.replace('_', ' '), str(frames[name])]
             for name in ('lost_to_node', 'lost_from_node')]
    columns = [f'p{p}' for p in analysis.PERCENTILES]
    stages = {name: row for name, row in figures.latency_ms.items() if name != 'age'}
    longest = max((row['p95'] for row in stages.values()), default=0.0) or 1.0
    latency = report.Table(
        'Latency, ms', ['stage', *columns],
        [[name, *(f'{row[c]:.2f}' for c in columns)] for name, row in stages.items()],
        bars=[row['p95'] / longest for row in stages.values()])
    return [report.Table('Frames', ('', 'pairs'), rows), latency]


def _accuracy(figures: analysis.Analysis) -> list[tuple[str, str]]:
    tiles = [(f'{100 * figures.valid_fraction:.1f} %', 'valid pixels')]
    if figures.score is not None and figures.score.known:
        score = figures.score
        tiles = [(f'{score.bad_estimated(3.0):.2f} %', 'bad-3px of the valid pixels'),
                 (f'{score.density:.1f} %', 'density, of the pixels with truth')]
    return tiles


def _section(one: RecordedRun) -> report.Section:
    figures = one.figures
    total = figures.latency_ms.get('total', {'p50': 0.0, 'p99': 0.0})
    parts: list[report.Part] = [
        report.Tiles([(f'{figures.rate_hz:.1f} Hz', 'published'),
                      (f'{total["p50"]:.1f} ms', 'median latency'),
                      (f'{total["p99"]:.1f} ms', 'p99 latency'), *_accuracy(figures)]),
        report.Beside(_tables(figures))]
    drawn = _latency_plot(figures) if len(figures.totals_ms) > 1 else []
    if one.showing is not None:
        drawn += one.showing.maps()
        parts += [report.Note(one.showing.chosen()), *one.showing.viewer(one.name)]
    parts.append(report.Beside(drawn))
    if one.settings:
        parts.append(report.Folded('Settings', [report.facts('', one.settings)]))
    return report.Section(one.title, parts)


def _latency_plot(figures: analysis.Analysis) -> list[report.Part]:
    if not plots.available():
        return [report.Note('No plots: ' + shared.missing(('matplotlib',)) + '.')]
    title, times = 'Latency over frames', figures.totals_ms
    levels = {share: figures.latency_ms['total'][share] for share in ('p50', 'p99')}
    return [report.Plot(title, plots.lines(
        title, range(1, len(times) + 1), {'total': times}, 'published frame', 'ms', levels))]


def _print(one: RecordedRun) -> None:
    figures = one.figures
    frames, latency = _tables(figures)
    rows = [*frames.rows, *([what, figure] for figure, what in _accuracy(figures)),
            ['rate', f'{figures.rate_hz:.1f} Hz']]
    shared.print_table(one.title, ('frames', ''), rows)
    shared.print_table('Latency, ms', latency.columns, latency.rows)
