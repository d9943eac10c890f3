"""``stereo_bp replay --output``: what a node answers over DDS, judged as ``evaluate`` judges."""

from __future__ import annotations

import argparse
import dataclasses
import logging
import pathlib
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.cli import evaluate_report, progress
from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.cli.outputs import replace_folder
from stereo_bp_ros.cli.render import render_bag
from stereo_bp_ros.cli.source_options import chosen_topics
from stereo_bp_ros.config.parameter_blocks import load_parameter_file
from stereo_bp_ros.config.settings import Value
from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.evaluation import report
from stereo_bp_ros.evaluation.method import Method
from stereo_bp_ros.evaluation.results import PERFORMANCE, totals_of
from stereo_bp_ros.evaluation.scenario import Scenario, read_scenario
from stereo_bp_ros.replay import analysis, session
from stereo_bp_ros.replay.analysis import METHOD, RecordedRun
from stereo_bp_ros.replay.source import open_source
from stereo_bp_ros.sources.bag_topics import StereoTopics
from stereo_bp_ros.sources.pairs import Input, Sources
from stereo_bp_ros.sources.scenes.sequence import RoadSequence

_log = logging.getLogger(__name__)

WARNINGS_SHOWN = 10

#: What to do about losses, of a node that others have configured, and of one of this package.
LOSE_NOTHING = ('; reliable qos_overrides and large images: see Lose no frame in '
                'docs/howto/recordings.md')
LOST_ALL_THE_SAME = ('; the run was reliable already: a process was paused for more than '
                     f'{session.QUEUE_DEPTH} messages: end other programs, or play slower with '
                     '--rate')


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
    sources = Sources(scenario.inputs, chosen_topics(options))
    for path in sources.paths:          # before an earlier report is replaced by one without any
        for warning in open_source(path, topics=chosen_topics(options)).warnings:
            _log.warning(warning)
    shared.can_draw('report.html', report.MODULES)
    replace_folder(options.output, [*sources.paths, options.scenario, options.params_file])
    method = dataclasses.replace(METHOD, windows=scenario.windows, calibration=Calibration(
        options.focal, options.baseline, 0, 0, 0) if options.focal else None)
    runs = []
    for number, one in enumerate(scenario.inputs, 1):
        name = 'replay' + (f'_{number}' if number > 1 else '')
        runs.append(_perform(name, one, sources, method, options, parameters))
        if options.start:
            _check_settings(wanted, runs[-1].settings)
    return finish(options, options.path.name, str(options.path), runs, method,
                  scenario if options.scenario else None)


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


def _perform(name: str, one: Input, sources: Sources, method: Method,
             options: argparse.Namespace, parameters: Mapping[str, Value]) -> RecordedRun:
    """One session with the node that the options are about."""
    player = ['--rate', str(options.rate), '--loop', str(options.loop),
              '--period', str(options.period), '--wait', str(options.wait),
              '--longest-gap', str(options.longest_gap)]
    if options.focal:
        player += ['--focal', str(options.focal), '--baseline', str(options.baseline)]

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
        name, one.name, one, sources, chosen_topics(options), options.output / name, play,
        player, loops=options.loop, period_s=options.period, method=method)


def record_run(name: str, title: str, one: Input, sources: Sources, topics: StereoTopics,
               folder: pathlib.Path, play: Callable[..., session.SessionResult],
               player: Sequence[str], *, loops: int = 1, **judging: Any) -> RecordedRun:
    """Play an input to a node, record what it answers into a folder, and judge that.

    :param play: plays a source to its node, with the folder and options of ``run_session``.
    :param player: options of the player.
    :param judging: further arguments of ``analysis.judge``.
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
        return analysis.judge(name, title, lambda: sources.pairs_of(one), result,
                              advance=lambda: bar.advance(judged), **judging)


def _check_settings(wanted: Mapping[str, Value], told: Mapping[str, Value]) -> None:
    """:raises StereoError: the node was not what the scenario is about."""
    for name, value in wanted.items():
        if name in told and told[name] != value and name != 'backend':
            raise StereoError(f'the node has {name} {told[name]}, but the scenario is about '
                              f'{value}')


def finish(options: argparse.Namespace, title: str, source: str, runs: Sequence[RecordedRun],
           method: Method = METHOD, scenario: Scenario | None = None) -> int:
    """Report everything; returns status 1 where a run or a condition fails, which is said."""
    results = [result for one in runs for result in one.results]
    totals = totals_of(results, runs[0].matcher)
    by_matcher = {name: [one for one in runs if one.matcher == name] for name in totals.matchers}
    devices: dict[str, list[Mapping[str, str]]] = {}
    for one in runs:
        found = devices.setdefault(one.matcher, [])
        if one.device.get('device') and one.device not in found:
            found.append(one.device)
    summary = evaluate_report.document(
        results, totals, source=source, backend=runs[0].device.get('backend', ''),
        settings=runs[0].settings, method=method, runs=runs,
        devices={name: found for name, found in devices.items() if found},
        against={name: {'settings': dict(of[0].settings),
                        'threads': int(of[0].device.get('threads', 0))}
                 for name, of in by_matcher.items() if name != runs[0].matcher},
        issues=[issue for one in runs for issue in one.issues])
    summary['delivery'] = _delivery(runs)
    for name, of in by_matcher.items():     # instead of runs one after another
        (summary['against'].get(name) or summary).update(_performance(of, options.rate))
    passed = evaluate_report.finish(options, f'{title} through the node', summary, results,
                                    totals, runs=runs, scenario=scenario)
    # Conditions about losses take the place of the rule that nothing may be lost.
    may_lose = scenario is not None and any(
        one.path == 'delivery.lost' for one in scenario.conditions)
    failures = [text for one in runs for text in failures_of(one, may_lose=may_lose)]
    for text in failures:
        shared.say(f'FAILED {text}', file=sys.stderr if options.json else sys.stdout)
    return 1 if failures or not passed else 0


def _delivery(runs: Sequence[RecordedRun]) -> dict[str, float]:
    """Frames of all runs together; ``rate_hz``, in the time of the source, of the slowest."""
    frames = [one.frames for one in runs]
    return {**{name: sum(one[name] for one in frames)
               for name in ('sent', 'received', 'published', 'recorded')},
            'superseded': sum(one['dropped'].get('superseded', 0) for one in frames),
            'dropped': sum(sum(one['dropped'].values()) for one in frames),
            'lost': sum(one['lost_in_transport'] for one in frames),
            'rate_hz': min(one.rate_hz for one in runs)}


def _performance(runs: Sequence[RecordedRun], speed: float) -> dict[str, float]:
    """What ``results.performance`` has of runs one after another, of runs through the node."""
    found = _delivery(runs)
    return {PERFORMANCE + 'NUM_FRAMES_SENT': found['sent'],
            PERFORMANCE + 'NUM_MISSED_FRAMES': found['sent'] - found['recorded'],
            PERFORMANCE + 'MEAN_FRAME_RATE': found['rate_hz'] * speed}


def failures_of(one: RecordedRun, *, may_lose: bool = False) -> list[str]:
    """What a run was held to and did not reach, in words.

    :param may_lose: whether others judge how many frames were lost.
    """
    frames, found = one.frames, []
    if frames['node_status']:
        found.append(f'the node ended with status {frames["node_status"]}')
    found += _losses(frames, may_lose, LOST_ALL_THE_SAME if one.is_lossless else LOSE_NOTHING)
    if not frames['recorded']:
        is_untimely = {'stale', 'future'} & set(frames['dropped'])
        found.append('nothing was published' + (
            ': the node does not live in the time of the source, set use_sim_time'
            if is_untimely else ''))
    elif not one.results:
        found.append('nothing is judged')
    if frames['published'] < one.least_published * frames['sent']:
        found.append(f'{frames["published"]} of {frames["sent"]} frames were published in time, '
                     f'but {100 * one.least_published:g} % have to be: end other programs, or '
                     'play slower with --rate')
    return [f'{one.name}: {text}' for text in found]


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
