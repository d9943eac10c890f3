"""``stereo_bp evaluate --sweep``: a grid, resumable, and the point that is chosen."""

from __future__ import annotations

import argparse
import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from stereo_bp_ros import __version__, atomic_files, engines
from stereo_bp_ros.bounded import resolved
from stereo_bp_ros.cli import evaluate_origin, progress
from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.cli.machine import origin, processor
from stereo_bp_ros.cli.outputs import check_folder
from stereo_bp_ros.config import MatcherConfig, Value, parse_assignments
from stereo_bp_ros.config.settings import did_you_mean
from stereo_bp_ros.errors import BackendUnavailable, ConfigError, MemoryLimitError, shown
from stereo_bp_ros.evaluation import plots, sweep
from stereo_bp_ros.evaluation.conditions import EXPLAIN, Condition, parse_condition
from stereo_bp_ros.evaluation.method import Method
from stereo_bp_ros.evaluation.results import totals_of
from stereo_bp_ros.evaluation.runs import Evaluation
from stereo_bp_ros.evaluation.sources import Sources
from stereo_bp_ros.evaluation.sweep import Point, Store

_log = logging.getLogger(__name__)

#: More points than this are told by the Pareto points alone; the file has all.
ROWS = 30

#: The only matcher.
SWEPT = 'swept'

#: Of a device's description: what changes from run to run, or says nothing of times.
UNSTEADY = ('kernel cache', 'threading layer', 'pci bus', 'device memory')

LEGEND = ('filled: every hole has got a disparity of the background; or hole: every hole counts '
          'as wrong; all other figures are of the map as published. Means of the frames; times of '
          'all runs, from images in memory to a disparity in memory.')


@dataclasses.dataclass(frozen=True)
class Choice:
    """What --by and --choose ask for."""

    figure: str
    limits: Sequence[Condition]
    named: Mapping[str, Value]


def run(options: argparse.Namespace, method: Method, sources: Sources) -> int:
    """Measure what the store lacks, print, draw, and write the chosen point; status 0.

    :raises ValueError, StereoError: an option does not fit, or every point is refused.
    """
    for name in ('scenario', 'against', 'confidence', 'consistency', 'corridor', 'json_lines',
                 'workers', 'skip_unreadable'):
        if getattr(options, name):
            raise ValueError(f'--sweep and --{name.replace("_", "-")} exclude each other')
    if options.output is None:
        raise ValueError('--sweep needs --output DIR, which keeps its points')
    choice = _choice(options)
    axes = [sweep.parse_axis(text) for text in options.sweep]
    grid = sweep.grid(axes)
    check_folder(options.output, ('sweep.jsonl', 'sweep.svg', 'chosen.yaml'),
                 (*sources.paths, options.params_file))
    options.output.mkdir(parents=True, exist_ok=True)
    draws = shared.can_draw('sweep.svg')
    if any(one.name == 'disparity_range' for one in axes):
        method = dataclasses.replace(method, own_range=True)
    meter = _Meter(options, method, sources)
    shared.say_preset(options)
    with progress.Bar('evaluate', 'points') as bar:
        task = bar.add_task('Sweeping', total=len(grid))
        for changes in grid:
            bar.update(task, description=', '.join(f'{k}={v}' for k, v in changes.items()))
            meter.measure(changes)
            bar.advance(task)
    found, refused, measured = meter.points(), meter.refused, meter.measured
    chosen = sweep.choose(found, choice.figure, choice.limits, choice.named)
    config = MatcherConfig.from_mapping({**meter.base, **chosen.changes})
    preset = options.output / 'chosen.yaml'
    atomic_files.write_text(preset, sweep.preset_text(
        config, _comments(options, chosen, choice)))
    if draws:
        figure = plots.draw_sweep(found, choice.figure, chosen, sources.title)
        if figure:
            plots.save(figure, options.output / 'sweep.svg')
    about = {
        **origin(), 'devices': meter.devices, 'repeat': method.repeat,
        'method': evaluate_origin.method_of(method, options.limit), 'settings': meter.base}
    if options.json:
        front = sweep.pareto(found, choice.figure)
        shared.print_json({
            'source': str(sources), **about,
            'by': choice.figure, 'measured': measured,
            'points': [{**one.to_dict(), 'pareto': one in front} for one in found],
            'refused': refused, 'chosen': chosen.to_dict(), 'preset': str(preset)})
    else:
        _print(options, sources.title, found, chosen, choice, refused, measured)
        _print_origin(about, found)
    return 0


def _choice(options: argparse.Namespace) -> Choice:
    """:raises ValueError: --by names no figure, or --choose neither a limit nor a setting."""
    figure = options.by
    if figure not in sweep.swept_paths():
        raise ValueError(f'--by {shown(figure)} is no figure that every point has'
                         f'{did_you_mean(figure, sweep.swept_paths())} ({EXPLAIN})')
    limits: list[Condition] = []
    named: dict[str, Value] = {}
    for text in options.choose:
        if '<' in text or '>' in text:
            limits.append(parse_condition(text))
            sweep.check_limit(limits[-1])
        else:
            named |= parse_assignments(text.split(','))
    return Choice(figure, limits, named)


class _Meter:
    """Measures points, each once, and keeps them in the folder of the sweep.

    base:     settings of every point.
    refused:  points that cannot run here, each with its reason.
    measured: how many the store did not have.
    devices:  what has computed points, now or before, each once; as ``StereoMatcher.device``.
    """

    def __init__(self, options: argparse.Namespace, method: Method, sources: Sources) -> None:
        self.base = shared.chosen_settings(options)
        self.refused: list[dict[str, Any]] = []
        self.measured = 0
        self.devices: list[dict[str, str]] = []
        self._sources, self._method = sources, method
        self._store = Store(options.output / 'sweep.jsonl')
        self._found: list[Point] = []
        self._problem: Exception | None = None
        self._common = {
            'source': ', '.join(str(resolved(path)) for path in sources.paths),
            'topics': dataclasses.asdict(shared.chosen_topics(options)),
            'version': __version__, 'processor': processor(), 'limit': options.limit,
            'repeat': method.repeat, 'own_range': method.own_range}

    def measure(self, changes: Mapping[str, Value]) -> None:
        """Measure a point that the store does not have, unless it is refused."""
        try:
            config = MatcherConfig.from_mapping({**self.base, **changes})
            device = {key: value for key, value in engines.choose(config).describe(config).items()
                      if key not in UNSTEADY}
            identity = {**self._common, 'device': device, 'settings': config.to_mapping()}
            point = self._store.find(identity)
            if point is None:
                point = _match(config, changes, self._method, self._sources)
                self._store.add(identity, point)
                self.measured += 1
            if device not in self.devices:
                self.devices.append(device)
        except (ConfigError, MemoryLimitError, BackendUnavailable) as error:
            self.refused.append({'changes': dict(changes), 'reason': str(error)})
            self._problem = self._problem or error
            return
        self._found.append(dataclasses.replace(point, changes=changes))

    def points(self) -> list[Point]:
        """Every point, in the order of measuring.

        :raises StereoError: all are refused.
        """
        if self._problem and not self._found:
            raise self._problem
        return self._found


def _match(config: MatcherConfig, changes: Mapping[str, Value], method: Method, sources: Sources
           ) -> Point:
    with Evaluation({SWEPT: config}, method=method) as evaluation:
        results = [evaluation.judge(pair).result for pair in sources.pairs()]
    if not results:
        raise ValueError(f'{sources} has no stereo pairs')
    total = totals_of(results).own
    return Point(changes, total.frames, sweep.swept_figures(total),
                 tuple(sorted(count or 0 for count in total.searched)))


def _comments(options: argparse.Namespace, chosen: Point, choice: Choice) -> list[str]:
    value = chosen.figure(choice.figure)
    accuracy = '' if value is None else f'{choice.figure} {value:.2f}, '
    settings = ' '.join(f'--set {text}' for text in [
        *options.settings, *(f'{name}={value}' for name, value in chosen.changes.items())])
    begin = f'--preset {options.preset} ' if options.preset else ''
    begin += f'--params-file {options.params_file} ' if options.params_file else ''
    searched = ', '.join(map(str, sorted(chosen.disparities)))
    return [f'Chosen by stereo_bp evaluate --sweep: {accuracy}median {chosen.time_ms:.1f} ms, '
            f'{chosen.frames} frame{"s" * (chosen.frames != 1)}, searched {searched} disparities.',
            f'On the command line: {begin}{settings}',
            'Of the node and of stereo_bp evaluate: --params-file THIS_FILE, of a launch file: '
            'params_file:=THIS_FILE']


def _print(options: argparse.Namespace, title: str, points: Sequence[Point], chosen: Point,
           choice: Choice, refused: Sequence[Mapping[str, Any]], measured: int) -> None:
    front = sweep.pareto(points, choice.figure)
    shown_points = points if len(points) <= ROWS else sorted(
        {id(one): one for one in (*front, chosen)}.values(), key=lambda one: one.time_ms)
    others = {'mean.score.density': 'density\n%', 'mean.score.mae': 'EPE\npx',
              'latency_ms.total.p99': 'p99\nms'}
    others.pop(choice.figure, None)
    columns = [*chosen.changes, choice.figure.replace('.', '\n'), 'p50\nms', *others.values(), '']
    rows = [[*map(str, one.changes.values()),
             *(_cell(one.figure(path)) for path in (choice.figure, sweep.TIME, *others)),
             'chosen' if one is chosen else 'Pareto' if one in front else '']
            for one in shown_points]
    ranks = [*[0] * (len(chosen.changes) + 2), *range(1, len(others) + 1), 0]
    shared.print_table(f'{len(points)} points of {title}, {measured} measured now', columns, rows,
                       ranks=ranks)
    if len(shown_points) < len(points):
        shared.say(f'Only Pareto points are shown; {options.output / "sweep.jsonl"} has all.')
    for one in refused:
        shared.say(', '.join(f'{k}={v}' for k, v in one['changes'].items())
                   + f': {one["reason"]}')
    shared.say(f'Chosen: {chosen.label}, written to {options.output / "chosen.yaml"}')


def _print_origin(about: Mapping[str, Any], points: Sequence[Point]) -> None:
    ranges = sorted({count for one in points for count in one.disparities})
    shared.say(*evaluate_origin.folded([
        LEGEND, 'Disparities searched: ' + ', '.join(map(str, ranges))
        + f' ({evaluate_origin.whose_range(about["method"])}).']),
        *evaluate_origin.lines({**about, 'devices': {'every point': about['devices']}}))


def _cell(value: float | None) -> str:
    return '-' if value is None else f'{value:.2f}'
