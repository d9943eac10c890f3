"""The report of recorded runs: frames, latency by stage, accuracy, pictures, as JSON and HTML."""

from __future__ import annotations

import collections
import dataclasses
import logging
import pathlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.cli.machine import origin
from stereo_bp_ros.config import Value
from stereo_bp_ros.evaluation import metrics, plots, report
from stereo_bp_ros.evaluation.method import Method
from stereo_bp_ros.evaluation.results import Figures, Result, totals_of
from stereo_bp_ros.evaluation.showing import Showing, View
from stereo_bp_ros.evaluation.sources import Pair
from stereo_bp_ros.replay import analysis, session
from stereo_bp_ros.replay.source import stamp_of

if TYPE_CHECKING:
    from stereo_bp_ros.replay.viewing import Sink

#: What to do about losses, of a node that others have configured, and of one of this package.
LOSE_NOTHING = ('; reliable qos_overrides and large images: see Lose no frame in '
                'docs/howto/recordings.md')
LOST_ALL_THE_SAME = ('; the run was reliable already: a process stood still for more than '
                     f'{session.QUEUE_DEPTH} messages: end other programs, or play slower with '
                     '--rate')

#: Seconds that a replay stood still, above which the report says so.
MAX_UNSAID_WAIT_S = 0.5

_log = logging.getLogger(__name__)

#: What the node is called among the matchers of a report.
MATCHER = 'node'


@dataclasses.dataclass
class RecordedRun:
    """One run in a report.

    least_published: the run fails when a smaller share of its frames is published; 0 = any.
    showing: frames to look at, and where in the image errors are.
    settings: of the matcher in the node; empty where it did not tell.
    device: what computed in it, as of ``SessionResult``.
    results: every answer as ``stereo_bp evaluate`` judges a pair; the times are the latencies.
    unjudged: answers that are no results, by the reason in words.
    is_lossless: as of ``SessionResult``.
    """

    name: str
    title: str
    figures: analysis.Analysis
    least_published: float = 0.0
    showing: Showing | None = None
    settings: Mapping[str, Value] = dataclasses.field(default_factory=dict)
    device: Mapping[str, str] = dataclasses.field(default_factory=dict)
    results: Sequence[Result] = ()
    unjudged: Mapping[str, int] = dataclasses.field(default_factory=dict)
    is_lossless: bool = False

    @property
    def delivery(self) -> dict[str, int]:
        """What became of its frames: ``conditions.DELIVERY``."""
        frames = self.figures.frames
        return {
            **{name: frames[name] for name in ('sent', 'received', 'published', 'recorded')},
            'superseded': frames['dropped'].get('superseded', 0),
            'dropped': sum(frames['dropped'].values()),
            'lost': frames['lost_to_node'] + frames['lost_from_node']}

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**self.figures.to_dict(), 'settings': dict(self.settings),
                'unjudged': dict(self.unjudged)}


def judge(name: str, title: str, pairs: Callable[[], Iterator[Pair]],
          result: session.SessionResult, *, period_s: float = 0.1, least_published: float = 0.0,
          method: Method | None = None, advance: Callable[[], None] = lambda: None,
          sink: Sink | None = None) -> RecordedRun:
    """Score every answer against the truth of its pair, and keep some to look at.

    :param pairs: those of the source that was played, from the first one on.
    :param period_s: time between pairs whose files carry no stamps.
    :param method: what is judged beside the usual.
    :param advance: is called after every answer.
    :param sink: is sent every answer.
    :raises StereoError: the recording has no diagnostics.
    """
    figures = analysis.analyse(result)
    if result.node_status:
        figures.frames['node_status'] = result.node_status
    figures.frames['waited_s'] = waited_s = result.sent.get('waited_s', 0.0)
    if waited_s > MAX_UNSAID_WAIT_S:
        _log.warning('%s: the replay stood still for %.1f s in all, until images had reached who '
                     'subscribes to them: DDS was still connecting them, or this machine is busy',
                     name, waited_s)
    if skipped_s := result.sent.get('skipped_s', 0.0):
        _log.warning('%s: %.0f s without a recorded message were left out (--longest-gap)',
                     name, skipped_s)
    inputs = _Inputs(pairs, period_s)
    showing = Showing(figures.frames['recorded'])
    results: list[Result] = []
    unjudged: collections.Counter[str] = collections.Counter()
    for index, answer in enumerate(analysis.answers(result.bag)):
        pair = inputs.find(answer.stamp_ns)
        # An answer whose latency was lost is no result: its time is not known.
        if pair is None:
            unjudged['no pair of the source has the stamp of their left image'] += 1
        elif not answer.stages_ms:
            unjudged['their latency is missing'] += 1
        else:
            # The truth is of the images as they are, the node's disparity of the principal points.
            shift = pair.calibration.shift if pair.calibration else 0.0
            disparity = answer.disparity + np.float32(shift)
            low, high = answer.min_disparity + shift, answer.max_disparity + shift
            height, width = disparity.shape
            times = {stage: ms for stage, ms in answer.stages_ms.items() if stage != 'age'}
            results.append(Result(
                pair.name, width, height, {MATCHER: Figures(
                    [times.pop('total')],
                    (method or Method()).judge(pair, disparity, answer.valid), times,
                    disparity_range=round(high - low) + 1)}))
            maps = {name: (disparity, answer.valid)}
            showing.add(index, View(pair.name, pair.left, maps, pair.truth, low, high,
                                    pair.calibration))
            if sink:
                sink.judged(index, pair.left, maps, low=low, high=high, truth=pair.truth,
                            stamp_ns=answer.stamp_ns,
                            latency_ms={name: answer.stages_ms})
        advance()
    if results:
        whole = totals_of(results).own.pooled.whole.published
        figures.score = whole if whole.known else None
        figures.valid_fraction = whole.coverage / 100
    return RecordedRun(name, title, figures, least_published, showing, result.settings,
                       result.device, results, unjudged, result.is_lossless)


class _Inputs:
    """The pairs of a source by their stamps; quickest in the order of playing."""

    def __init__(self, read: Callable[[], Iterator[Pair]], period_s: float) -> None:
        self._read, self._period_s = read, period_s
        self._pairs: Iterator[tuple[int, Pair]] = iter(())
        self._known: set[int] | None = None     # all stamps, once one was missing

    def find(self, stamp_ns: int) -> Pair | None:
        """The pair of a stamp; None = there is none."""
        if self._known is not None and stamp_ns not in self._known:
            return None
        seen: set[int] = set()
        for again in (True, False):     # the next loop begins with the first pair again
            for stamp, pair in self._pairs:
                seen.add(stamp)
                if stamp == stamp_ns:
                    return pair
            if again:
                self._pairs = self._stamped()
        self._known = seen
        return None

    def _stamped(self) -> Iterator[tuple[int, Pair]]:
        for index, pair in enumerate(self._read()):
            yield stamp_of(pair, index, self._period_s), pair


def finish(output: pathlib.Path, runs: Sequence[RecordedRun], *, title: str, lead: str,
           as_json: bool) -> int:
    """Write report.json and report.html into ``output``, and print them.

    Returns the exit status: 1 where a run does not reach what it is held to, which is said.
    """
    about = origin()
    summary = {'output': str(output), **about, 'runs': {one.name: one.to_dict() for one in runs}}
    shared.write_json(output / 'report.json', summary)
    if not shared.missing(report.MODULES):
        report.write_html(
            output / 'report.html', title,
            f'{lead} Every frame is accounted for; latency counts from the receipt of the later '
            'image to the return of publish.',
            [*(section_of(one) for one in runs),
             report.Section('Machine', [
                 report.facts('Machine', {**about['machine'], 'date': about['date']}),
                 report.facts('Versions', about['versions'])]),
             report.Section('What the figures mean', [report.definitions(
                 (key, *meaning) for key, meaning in metrics.meanings().items())])])
    if as_json:
        shared.print_json(summary)
    else:
        for one in runs:
            print_run(one)
        say_where(output)
    return 1 if print_failures(runs, to_error=as_json) else 0


def say_where(output: pathlib.Path) -> None:
    """A line that names the report; the page is missing without its modules."""
    page = output / 'report.html'
    shared.say(f'Report: {page if page.exists() else output / "report.json"}')


def print_failures(runs: Sequence[RecordedRun], *, to_error: bool, may_lose: bool = False) -> int:
    """How many there are; each is a line on standard output, or on standard error.

    :param may_lose: whether others judge how many frames were lost.
    """
    failures = [text for one in runs for text in failures_of(one, may_lose=may_lose)]
    for text in failures:
        shared.say(f'FAILED {text}', file=sys.stderr if to_error else sys.stdout)
    return len(failures)


def failures_of(one: RecordedRun, *, may_lose: bool = False) -> list[str]:
    """What a run was held to and did not reach, in words.

    :param may_lose: whether others judge how many frames were lost.
    """
    found = []
    frames = one.figures.frames
    if frames.get('node_status'):
        found.append(f'{one.name}: the node ended with status {frames["node_status"]}')
    advice = LOST_ALL_THE_SAME if one.is_lossless else LOSE_NOTHING
    found += [f'{one.name}: {text}' for text in _losses(frames, may_lose, advice)]
    if not frames['recorded']:
        is_untimely = {'stale', 'future'} & set(frames['dropped'])
        found.append(f'{one.name}: nothing was published' + (
            ': the node does not live in the time of the source, set use_sim_time'
            if is_untimely else ''))
    elif not one.results:
        found.append(f'{one.name}: {_unjudged(one)}')
    if frames['published'] < one.least_published * frames['sent']:
        found.append(f'{one.name}: {frames["published"]} of {frames["sent"]} frames were '
                     f'published in time, but {100 * one.least_published:g} % have to be: end '
                     'other programs, or play slower with --rate')
    return found


def drops_of(one: RecordedRun) -> list[str]:
    """The frames that the node dropped, by their reasons in words: no failure by themselves."""
    frames = one.figures.frames
    found = [f'{one.name}: {count} of {frames["sent"]} frames dropped: {reason}'
             for reason, count in frames['dropped'].items()]
    if one.results and one.unjudged:
        found.append(f'{one.name}: {_unjudged(one)}')
    return found


def _unjudged(one: RecordedRun) -> str:
    """How many answers were not judged, and why."""
    return '; '.join(f'{count} of {one.figures.frames["recorded"]} results are not judged: '
                     f'{reason}' for reason, count in one.unjudged.items()) or 'nothing is judged'


def _losses(frames: Mapping[str, Any], may_lose: bool, advice: str) -> list[str]:
    """Where frames were lost on their way, by the counters of both ends."""
    sides = tuple((side, frames[f'sent{suffix}'], frames[f'received{suffix}'])
                  for side, suffix in (('left', ''), ('right', '_right')))
    arrived = ' and '.join(f'{received} of {sent} {side} images' for side, sent, received in sides)
    if any(received > sent for _, sent, received in sides):
        return [f'the node received {arrived}: something else publishes to it, too']
    found = []
    if frames['lost_to_node'] and not may_lose:
        found.append(f'{frames["lost_to_node"]} of {frames["sent"]} frames were lost on the way '
                     f'to the node, which received {arrived}{advice}')
    if frames['lost_from_node'] and not may_lose:
        found.append(f'{frames["lost_from_node"]} of {frames["published"]} results were lost on '
                     f'the way from the node to the recorder{advice}')
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
    if frames.get('waited_s', 0.0) > MAX_UNSAID_WAIT_S:
        rows.append(['the replay stood still', f'{frames["waited_s"]:.1f} s'])
    columns = [*(f'p{p:g}' for p in analysis.PERCENTILES), 'max']
    stages = {name: row for name, row in figures.latency_ms.items() if name != 'age'}
    longest = max((row['p95'] for row in stages.values()), default=0.0) or 1.0
    latency = report.Table(
        f'Latency of {len(figures.totals_ms)} published frames, ms', ['stage', *columns],
        [[name, *(f'{row[c]:.2f}' for c in columns)] for name, row in stages.items()],
        bars=[row['p95'] / longest for row in stages.values()], is_half=True)
    return [report.Table('Frames', ('', 'pairs'), rows, is_half=True), latency]


def _accuracy(figures: analysis.Analysis) -> list[tuple[str, str]]:
    tiles = [(f'{100 * figures.valid_fraction:.1f} %', 'valid pixels')]
    if figures.score is not None and figures.score.known:
        score = figures.score
        tiles = [(f'{score.bad_estimated(3.0):.2f} %', 'bad-3px of the valid pixels'),
                 (f'{score.density:.1f} %', 'density, of the pixels with truth')]
    return tiles


def section_of(one: RecordedRun) -> report.Section:
    """A run on a page: its frames, latency and pictures."""
    figures = one.figures
    total = figures.latency_ms.get('total', {'p50': 0.0, 'p99': 0.0})
    parts: list[report.Part] = [
        report.Tiles([(f'{figures.rate_hz:.1f} Hz', 'published'),
                      (f'{total["p50"]:.1f} ms', 'median latency'),
                      (f'{total["p99"]:.1f} ms', 'p99 latency'), *_accuracy(figures)]),
        *_tables(figures)]
    if len(figures.totals_ms) > 1:
        levels = {share: figures.latency_ms['total'][share] for share in ('p50', 'p99')}
        parts.append(report.Image('Latency over frames', plots.data_uri(plots.lines(
            range(1, len(figures.totals_ms) + 1), {'total': figures.totals_ms}, 'published frame',
            'ms', levels))))
    if one.showing is not None:
        parts += [*one.showing.maps(), report.Note(one.showing.chosen()),
                  *one.showing.viewer(one.name)]
    if one.settings:
        parts.append(report.Folded('Settings', [report.facts('', one.settings)]))
    return report.Section(one.title, parts)


def print_run(one: RecordedRun) -> None:
    """Its frames and latency as tables, and what the node dropped."""
    figures = one.figures
    frames, latency = _tables(figures)
    rows = [*frames.rows, *([what, figure] for figure, what in _accuracy(figures)),
            ['rate, in the time of the bag', f'{figures.rate_hz:.1f} Hz']]
    shared.print_table(one.title, ('frames', ''), rows)
    shared.print_table(latency.title, latency.columns, latency.rows)
    for text in drops_of(one):
        shared.say(text)
