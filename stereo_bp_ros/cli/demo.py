"""The main job from end to end, on this machine: images in on ROS topics, disparity out.

Renders a drive along a street with exact ground truth (or takes --bag or --images), starts the
node as a process of its own, replays the sequence to it over DDS and reports every frame: sent,
received, published, dropped and why, latency by stage, accuracy. First belief propagation at
320 x 240 with 32 disparities and 10 Hz, then SAD at 640 x 480 with 64 disparities and 20 Hz.
A run on a rendered street passes where every frame is accounted for, none is lost, and at least
95 % are published; frames that newer ones superseded are counted.

  stereo_bp demo
  stereo_bp demo --images sequence/ --output report/
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import pathlib
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.cli import progress
from stereo_bp_ros.cli.outputs import replace_folder
from stereo_bp_ros.cli.render import render_bag
from stereo_bp_ros.cli.source_options import add_source_options, chosen_topics
from stereo_bp_ros.config.settings import Value
from stereo_bp_ros.evaluation import report
from stereo_bp_ros.sources.scenes import sequence as scenes

if TYPE_CHECKING:
    from stereo_bp_ros.replay.analysis import RecordedRun
    from stereo_bp_ros.replay.viewing import Sink
    from stereo_bp_ros.sources.pairs import Input, Sources

HELP = 'render a road sequence, replay it through the node, report'
NEEDS = ('rclpy', 'rosbags', 'mcap')

#: Share of the frames of a rendered sequence that has to be published in time: a frame comes too
#: late where a newer one takes its place. Another process may hold a core for a moment.
MIN_PUBLISHED = 0.95

#: Title and preset of each run, and the street that is rendered for it.
RUNS: dict[str, tuple[str, str, dict[str, Any]]] = {
    'bp': ('Hierarchical belief propagation', 'road', {
        'width': 320, 'height': 240, 'max_disparity': 30, 'rate_hz': 10.0, 'frames': 120}),
    'sad': ('SAD block matching', 'sad_fast', {
        'width': 640, 'height': 480, 'max_disparity': 62, 'rate_hz': 20.0, 'frames': 160})}

_log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group()
    source.add_argument('--bag', type=pathlib.Path, help='replay this bag')
    source.add_argument('--images', type=pathlib.Path, metavar='DIR',
                        help='replay this folder of pairs')
    add_source_options(parser)
    parser.add_argument('--output', type=pathlib.Path, default='demo', metavar='DIR',
                        help='report.json, report.html and recordings (default: demo; the '
                             'page needs jinja2 and matplotlib); what an earlier demo left '
                             'there is replaced')
    parser.add_argument('--frames', type=shared.whole(2, 100000), default=0, metavar='N',
                        help='length of the rendered sequences (default 120 and 160)')
    parser.add_argument('--noise', type=shared.real(0, 255), default=1.5, metavar='SIGMA',
                        help='sensor noise, grey levels (default 1.5)')
    parser.add_argument('--exposure', type=shared.real(0, 100), default=1.03, metavar='GAIN',
                        help='exposure of the right camera against the left (default 1.03)')
    parser.add_argument('--blur', type=shared.real(0, 100), default=0.0, metavar='SIGMA',
                        help='blur of the optics, pixels (default 0)')
    parser.add_argument('--rate', type=shared.real(0.001, 1000), default=1.0, metavar='FACTOR',
                        help='speed of the replay (default 1)')
    parser.add_argument('--backend', choices=('auto', 'cuda', 'cpu'), default='auto',
                        help='what computes (default: auto)')
    shared.add_json_option(parser)


def run(options: argparse.Namespace) -> int:
    from stereo_bp_ros.cli import replay_recorded
    from stereo_bp_ros.replay.source import open_source
    from stereo_bp_ros.sources.pairs import Input, Sources
    source, topics = options.bag or options.images, chosen_topics(options)
    if source:
        if options.frames:
            raise ValueError('--frames is the length of the rendered sequences: '
                             '--bag and --images are played as a whole')
        # Before an earlier demo is replaced by one that cannot be.
        for warning in open_source(source, topics=topics).warnings:
            _log.warning(warning)
    shared.can_draw('report.html', report.MODULES)
    replace_folder(options.output, [source])
    recording = options.output / 'demo.rrd'
    with contextlib.ExitStack() as stack:
        sink = None
        if not shared.missing(('rerun',)):
            from stereo_bp_ros.replay.viewing import Sink
            sink = stack.enter_context(Sink(file=recording))
        if not source:
            for name, (_, _, street) in RUNS.items():
                _render(options, name, street)
        sources = Sources([Input(name, source or options.output / name / 'input')
                           for name in RUNS], topics)
        runs = [_perform(options, sink, sources, one) for one in sources.inputs]
        status = replay_recorded.finish(
            options, source.name if source else 'rendered streets',
            str(source or 'rendered streets'), runs)
    if sink:
        shared.say(f'See it: stereo_bp view {recording} --web 9090, or in a window without --web',
                   file=sys.stderr)
    return status


def _render(options: argparse.Namespace, name: str, street: Mapping[str, Any]) -> None:
    """Draw the street of a run into its bag."""
    sequence = scenes.RoadSequence(**{
        **street, 'frames': options.frames or street['frames'], 'noise_sigma': options.noise,
        'exposure_gain': options.exposure, 'blur_sigma': options.blur})
    progress.tell(f'{name}: rendering {len(sequence)} pairs')
    (options.output / name).mkdir()
    with progress.Bar('demo') as bar:
        render_bag(sequence, options.output / name / 'input', bar)


def _perform(options: argparse.Namespace, sink: Sink | None, sources: Sources, one: Input
             ) -> RecordedRun:
    """A run on its rendered street, or on the recording of the user."""
    from stereo_bp_ros.cli import replay_recorded
    from stereo_bp_ros.replay import session
    title, preset, street = RUNS[one.name]
    settings: dict[str, Value] = {'preset': preset, 'backend': options.backend,
                                  'disparity_range': 64}
    is_rendered = not (options.bag or options.images)
    if is_rendered:
        disparities = street['max_disparity'] + scenes.SPARE_DISPARITIES
        settings |= {'disparity_range': disparities, 'image_width': street['width'],
                     'image_height': street['height']}
        title += (f', {street["width"]} x {street["height"]}, {disparities} disparities, '
                  f'{street["rate_hz"]:g} Hz')

    def play(source: pathlib.Path, folder: pathlib.Path, **known: Any) -> session.SessionResult:
        progress.tell(f'{one.name}: starting the node, which compiles for about a minute '
                      'the first time')
        return session.run_session(source, folder, settings | shared.sync_parameters(options),
                                   **known)

    return replay_recorded.record_run(
        one.name, title if is_rendered else f'{title}: {one.source}', one, sources,
        chosen_topics(options), options.output / one.name, play,
        ('--rate', str(options.rate)), matcher=one.name, sink=sink,
        least_published=MIN_PUBLISHED if is_rendered else 0.0)
