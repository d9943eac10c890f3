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
import logging
import pathlib
import sys
from typing import TYPE_CHECKING, Any

from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.cli import progress, viewer
from stereo_bp_ros.cli.outputs import replace_folder
from stereo_bp_ros.cli.render import render_bag
from stereo_bp_ros.config import Value
from stereo_bp_ros.evaluation import report
from stereo_bp_ros.evaluation.scenes import sequence as scenes

if TYPE_CHECKING:
    from stereo_bp_ros.cli import run_report
    from stereo_bp_ros.replay.viewing import Sink

HELP = 'render a road sequence, replay it through the node, report'
NEEDS = ('rclpy', 'rosbags', 'mcap')

#: Share of the frames of a rendered sequence that has to be published in time: a frame comes too
#: late where a newer one takes its place. Another process may hold a core for a moment.
MIN_PUBLISHED = 0.95

#: Name, title, preset, size, disparities, rate in Hz and frames of each run on a rendered street.
RUNS = (('bp', 'Hierarchical belief propagation', 'road', (320, 240), 32, 10.0, 120),
        ('sad', 'SAD block matching', 'sad_fast', (640, 480), 64, 20.0, 160))

_log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group()
    source.add_argument('--bag', type=pathlib.Path, help='replay this bag')
    source.add_argument('--images', type=pathlib.Path, metavar='DIR',
                        help='replay this folder of pairs')
    shared.add_topic_options(parser)
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
    viewer.add_options(parser)


def run(options: argparse.Namespace) -> int:
    from stereo_bp_ros.cli import run_report
    from stereo_bp_ros.replay.source import open_source
    source = options.bag or options.images
    if source:
        if options.frames:
            raise ValueError('--frames is the length of the rendered sequences: '
                             '--bag and --images are played as a whole')
        # Before an earlier demo is replaced by one that cannot be.
        for warning in open_source(source, topics=shared.chosen_topics(options)).warnings:
            _log.warning(warning)
    shared.can_draw('report.html', report.MODULES)
    replace_folder(options.output, [source])
    if not options.save and not shared.missing(('rerun',)):
        options.save = options.output / 'demo.rrd'
    with viewer.opened(options) as sink:
        status = run_report.finish(
            options.output, [_perform(options, sink, *one) for one in RUNS],
            title='Stereo matching on ROS 2', as_json=options.json,
            lead='A sequence of stereo pairs was replayed over DDS to the node, which ran as a '
            'process of its own.')
        if options.save:
            shared.say(f'See it: stereo_bp view {options.save} --web 9090, or in a window '
                        'without --web', file=sys.stderr)
    return status


def _perform(options: argparse.Namespace, sink: Sink | None, name: str, title: str,
             preset: str, size: tuple[int, int], disparities: int, rate_hz: float, frames: int
             ) -> run_report.RecordedRun:
    """One run of ``RUNS``, on its rendered street or on the recording of the user."""
    from stereo_bp_ros.cli import replay_recorded
    from stereo_bp_ros.evaluation.sources import Input, Sources
    from stereo_bp_ros.replay import session
    source, folder = options.bag or options.images, options.output / name
    settings: dict[str, Value] = {'preset': preset, 'backend': options.backend}
    folder.mkdir()
    if source:
        settings['disparity_range'] = 64
        one, min_published = Input(f'{title}: {source.name}', source), 0.0
    else:
        width, height = size
        settings.update(disparity_range=disparities, image_width=width, image_height=height)
        sequence = scenes.RoadSequence(
            width=width, height=height, max_disparity=disparities - 2, rate_hz=rate_hz,
            frames=options.frames or frames, noise_sigma=options.noise,
            exposure_gain=options.exposure, blur_sigma=options.blur)
        progress.tell(f'{name}: rendering {len(sequence)} pairs')
        with progress.Bar('demo') as bar:
            render_bag(sequence, folder / 'input', bar)
        one, min_published = Input(
            f'{title}, {width} x {height}, {disparities} disparities, {rate_hz:g} Hz',
            folder / 'input'), MIN_PUBLISHED

    def play(source: pathlib.Path, folder: pathlib.Path, **known: Any) -> session.SessionResult:
        progress.tell(f'{name}: starting the node, which compiles for 15 to 45 s the first time')
        return session.run_session(source, folder, settings | shared.sync_parameters(options),
                                   **known)

    topics = shared.chosen_topics(options)
    recorded = replay_recorded.record_run(
        name, one, Sources((one,), topics), topics, folder, play, ('--rate', str(options.rate)),
        least_published=min_published, sink=sink)
    recorded.settings = settings
    return recorded
