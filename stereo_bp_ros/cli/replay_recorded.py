"""``stereo_bp replay --output``: what a node answers over DDS, judged as ``evaluate`` judges."""

from __future__ import annotations

import argparse
import dataclasses
import logging
import pathlib
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.cli import evaluate_report, evaluate_scenario, progress, run_report, viewer
from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.cli.outputs import replace_folder
from stereo_bp_ros.cli.render import render_bag
from stereo_bp_ros.cli.run_report import MATCHER
from stereo_bp_ros.config import Value, load_parameter_file
from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.evaluation import report
from stereo_bp_ros.evaluation.bag_topics import StereoTopics
from stereo_bp_ros.evaluation.conditions import DELIVERY, judge
from stereo_bp_ros.evaluation.method import Method
from stereo_bp_ros.evaluation.results import PERFORMANCE, totals_of
from stereo_bp_ros.evaluation.scenario import Scenario, read_scenario
from stereo_bp_ros.evaluation.scenes.sequence import RoadSequence
from stereo_bp_ros.evaluation.sources import Input, Sources
from stereo_bp_ros.replay import session
from stereo_bp_ros.replay.source import open_source

if TYPE_CHECKING:
    from stereo_bp_ros.cli.run_report import RecordedRun
    from stereo_bp_ros.replay.viewing import Sink

_log = logging.getLogger(__name__)

WARNINGS_SHOWN = 10

#: Which times the report has.
LATENCY = 'Latency of every frame, from the receipt of the later image to the return of publish'


def run(options: argparse.Namespace) -> int:
    """Play every input to a node, record what it answers, and report; returns the status.

    :raises ValueError, StereoError: an option does not fit, or there is no run.
    """
    if options.loop < 1:
        raise ValueError(f'--loop is {options.loop}, but a run that is recorded has an end: '
                         'use at least 1, or no --output')
    scenario = _scenario(options)
    wanted = shared.chosen_settings(options, scenario.settings)
    parameters = (load_parameter_file(options.params_file) if options.params_file else {}) | wanted
    if parameters:
        parameters |= shared.sync_parameters(options)
    if options.start and parameters and not options.scenario:
        raise ValueError('--start and settings exclude each other: the command says them')
    if options.ros_arguments and parameters and not options.start:
        raise ValueError('--ros-args are for a node that runs already, or for --start')
    sources = Sources(scenario.inputs, shared.chosen_topics(options))
    for path in sources.paths:          # before an earlier report is replaced by one without any
        for warning in open_source(path, topics=shared.chosen_topics(options)).warnings:
            _log.warning(warning)
    shared.can_draw('report.html', report.MODULES)
    replace_folder(options.output, [*sources.paths, options.scenario, options.params_file])
    runs = []
    with viewer.opened(options) as sink:
        for number, one in enumerate(scenario.inputs, 1):
            name = 'replay' + (f'_{number}' if number > 1 else '')
            runs.append(_perform(name, one, sources, scenario, options, parameters, sink))
            if options.start:
                _check_settings(wanted, runs[-1].settings)
        return _finish(options, scenario, runs)


def _scenario(options: argparse.Namespace) -> Scenario:
    """The file's, or one without conditions; --set and --backend win over it.

    :raises ValueError: it has what no run through the node has, or there is none.
    """
    if options.scenario is None:
        if options.path is None:
            raise ValueError('there is nothing to play: name a folder, a bag or a --scenario')
        return Scenario(options.path, (Input(options.path.name, options.path),), ())
    for name in ('path', 'preset', 'params_file'):
        if getattr(options, name):
            words = 'a path' if name == 'path' else f'--{name.replace("_", "-")}'
            raise ValueError(f'{words} and --scenario exclude each other: the scenario says it')
    scenario = read_scenario(options.scenario)
    for key in ('against', 'limit'):
        if getattr(scenario, key):
            raise ValueError(f'the scenario {scenario.path} has {key}, which a run through the '
                             'node cannot have')
    if scenario.judges_confidence:
        raise ValueError(f'the scenario {scenario.path} has conditions on sparsification, which '
                         'a run through the node cannot have')
    options.path, options.preset = options.scenario, scenario.preset or None
    return scenario


def _warn(log: pathlib.Path) -> None:
    """Say what the node that was started has warned of, as far as that can be read at a glance."""
    found = session.warnings_of(log)
    for text in found[:WARNINGS_SHOWN]:
        _log.warning(text)
    if found[WARNINGS_SHOWN:]:
        _log.warning('%s has %d more warnings', log, len(found) - WARNINGS_SHOWN)


def _perform(name: str, one: Input, sources: Sources, scenario: Scenario,
             options: argparse.Namespace, parameters: Mapping[str, Value], sink: Sink | None
             ) -> RecordedRun:
    """One session with the node that the options are about."""
    player = ['--rate', str(options.rate), '--loop', str(options.loop),
              '--period', str(options.period), '--wait', str(options.wait),
              '--longest-gap', str(options.longest_gap)]
    calibration = None
    if options.focal:
        player += ['--focal', str(options.focal), '--baseline', str(options.baseline)]
        calibration = Calibration(options.focal, options.baseline, 0, 0, 0)

    def play(source: pathlib.Path, folder: pathlib.Path, **known: Any) -> session.SessionResult:
        arguments = tuple(options.ros_arguments)
        try:
            if options.start:
                progress.tell(f'stereo_bp replay: {options.start}')
                return session.run_command(source, folder, shlex.split(options.start),
                                           ros_arguments=arguments, **known)
            if parameters:
                progress.tell('stereo_bp replay: starting the node')
                return session.run_session(source, folder, parameters, **known)
            progress.tell('stereo_bp replay: waiting for a node with use_sim_time, at most '
                        f'{session.START_LIMIT_S:g} s')
            return session.record_session(source, folder, ros_arguments=arguments, **known)
        finally:
            _warn(folder / 'node.log')

    return record_run(
        name, one, sources, shared.chosen_topics(options), options.output / name, play, player,
        loops=options.loop, period_s=options.period, sink=sink,
        method=Method(repeat=1, calibration=calibration, windows=scenario.windows))


def record_run(name: str, one: Input, sources: Sources, topics: StereoTopics,
               folder: pathlib.Path, play: Callable[..., session.SessionResult],
               player: Sequence[str], *, loops: int = 1, **judging: Any) -> RecordedRun:
    """Play an input to a node, record what it answers into a folder, and judge that.

    :param play: plays a source to its node, with the folder and options of ``run_session``.
    :param player: options of the player.
    :param judging: further arguments of ``run_report.judge``.
    """
    folder.mkdir(exist_ok=True)
    told: set[str] = set()
    with progress.Bar('replay') as bar:
        source = one.source
        if isinstance(source, RoadSequence):
            render_bag(source, folder / 'input', bar)
            source = folder / 'input'
        task = bar.add_task(f'{name}: waiting for the node',
                            total=open_source(source, topics=topics).pairs * loops)

        def show(stage: str, done: int) -> None:
            if stage not in told:
                told.add(stage)
                progress.tell(f'{name}: {stage}')
            bar.update(task, completed=done, description=f'{name}: {stage}')

        result = play(source, folder, topics=topics, player_options=tuple(player), progress=show)
        judged = bar.add_task(f'{name}: comparing with the truth',
                              total=result.recorded['disparity'])
        if result.tolerance_s not in (None, topics.tolerance_s):
            # A result has the stamp of its left image: its pair is the node's.
            sources = Sources(sources.inputs, dataclasses.replace(
                topics, tolerance_s=result.tolerance_s))
        return run_report.judge(name, one.name, lambda: sources.pairs_of(one), result,
                                advance=lambda: bar.advance(judged), **judging)


def _check_settings(wanted: Mapping[str, Value], told: Mapping[str, Value]) -> None:
    """:raises StereoError: the node was not what the scenario is about."""
    for name, value in wanted.items():
        if name in told and told[name] != value and name != 'backend':
            raise StereoError(f'the node has {name} {told[name]}, but the scenario is about '
                              f'{value}')


def _delivery(runs: Sequence[RecordedRun]) -> dict[str, float]:
    """Of all runs together; ``rate_hz``, in the time of the source, is that of the slowest."""
    return {**{name: sum(one.delivery[name] for one in runs) for name in DELIVERY},
            'rate_hz': min(one.figures.rate_hz for one in runs)}


def _finish(options: argparse.Namespace, scenario: Scenario, runs: Sequence[RecordedRun]) -> int:
    """Report everything; status 1 where a run or a condition fails."""
    results = [result for one in runs for result in one.results]
    if not results:
        return run_report.finish(
            options.output, runs, title=f'Replay of {options.path.name}', as_json=options.json,
            lead=f'{options.path.name} was replayed over DDS to a node.')
    totals, delivery = totals_of(results), _delivery(runs)
    devices = [dict(one.device) for one in runs if one.device.get('device')]
    summary = evaluate_report.summary_of(
        results, totals, source=str(options.path), backend=runs[0].device.get('backend', ''),
        settings=runs[0].settings, output=str(options.output),
        devices={MATCHER: [one for place, one in enumerate(devices)
                           if one not in devices[:place]]} if devices else {},
        runs={one.name: one.to_dict() for one in runs})
    # In place of the rate and number of runs one after another.
    summary |= {'delivery': delivery, PERFORMANCE + 'NUM_FRAMES_SENT': delivery['sent'],
                PERFORMANCE + 'NUM_MISSED_FRAMES': delivery['sent'] - delivery['recorded'],
                PERFORMANCE + 'MEAN_FRAME_RATE': delivery['rate_hz'] * options.rate}
    verdicts = judge(scenario.conditions, summary)
    if verdicts:
        summary |= evaluate_scenario.report(scenario, verdicts)
    shared.write_json(options.output / 'report.json', summary)
    if not shared.missing(report.MODULES):
        evaluate_report.write_html(
            options.output / 'report.html', f'{options.path.name} through the node', summary,
            results, totals, None, verdicts, [run_report.section_of(one) for one in runs], LATENCY)
    if options.json:
        shared.print_json(summary)
    else:
        for one in runs:
            run_report.print_run(one)
        if verdicts:
            evaluate_scenario.print_verdicts(scenario, verdicts)
        run_report.say_where(options.output)
    # Conditions about losses take the place of the rule that nothing may be lost.
    may_lose = any(one.path == 'delivery.lost' for one in scenario.conditions)
    failures = run_report.print_failures(runs, to_error=options.json, may_lose=may_lose)
    return 1 if failures or not all(one.passed for one in verdicts) else 0
