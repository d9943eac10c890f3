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
import dataclasses
import logging
import pathlib
from typing import TYPE_CHECKING, Any

from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.cli.outputs import replace_folder
from stereo_bp_ros.cli.render import workers_for
from stereo_bp_ros.config import Value
from stereo_bp_ros.evaluation import report
from stereo_bp_ros.evaluation.scenes import sequence as scenes

if TYPE_CHECKING:
    from stereo_bp_ros.cli import run_report

HELP = 'render a road sequence, replay it through the node, report'
NEEDS = ('rclpy', 'rosbags')

LEAST_PUBLISHED = 0.95
"""Share of the frames of a rendered sequence that has to be published in time: a frame comes too
late where a newer one takes its place. Another process may hold a core for a moment."""

#: Name, title, preset, size, disparities, rate in Hz and frames of each run on a rendered street.
RUNS = (('bp', 'Hierarchical belief propagation', 'road', (320, 240), 32, 10.0, 120),
        ('sad', 'SAD block matching', 'sad_fast', (640, 480), 64, 20.0, 160))

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Run:
    """One algorithm on one sequence, and what it is held to.

    least_published: the run fails when a smaller share of its frames is published; 0 = any.
    """

    name: str
    title: str
    settings: dict[str, Value]
    source: pathlib.Path | None = None
    sequence: scenes.RoadSequence | None = None
    least_published: float = 0.0


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


def run(options: argparse.Namespace) -> int:
    from stereo_bp_ros.cli import run_report
    source = options.bag or options.images
    if source:
        if options.frames:
            raise ValueError('--frames is the length of the rendered sequences: '
                             '--bag and --images are played as a whole')
        # Before an earlier demo is replaced by one that cannot be.
        from stereo_bp_ros.replay.source import open_source
        open_source(source, topics=shared.chosen_topics(options))
    shared.can_draw('report.html', report.MODULES)
    replace_folder(options.output, [source])
    return run_report.finish(
        options.output, [_perform(one, options) for one in _runs(options)],
        title='Stereo matching on ROS 2', as_json=options.json,
        lead='A sequence of stereo pairs was replayed over DDS to the node, which ran as a '
        'process of its own.')


def _runs(options: argparse.Namespace) -> list[Run]:
    source = options.bag or options.images
    runs = []
    for name, title, preset, (width, height), disparities, rate_hz, frames in RUNS:
        settings: dict[str, Value] = {'preset': preset, 'backend': options.backend}
        if source:
            settings['disparity_range'] = 64
            runs.append(Run(name, f'{title}: {source.name}', settings, source=source))
            continue
        settings.update(disparity_range=disparities, image_width=width, image_height=height)
        runs.append(Run(
            name, f'{title}, {width} x {height}, {disparities} disparities, {rate_hz:g} Hz',
            settings, least_published=LEAST_PUBLISHED,
            sequence=scenes.RoadSequence(
                width=width, height=height, max_disparity=disparities - 2, rate_hz=rate_hz,
                frames=options.frames or frames, noise_sigma=options.noise,
                exposure_gain=options.exposure, blur_sigma=options.blur)))
    return runs


def _perform(one: Run, options: argparse.Namespace) -> run_report.RecordedRun:
    from stereo_bp_ros.cli import run_report
    from stereo_bp_ros.evaluation.sources import open_pairs
    from stereo_bp_ros.replay import session
    from stereo_bp_ros.replay.source import open_source
    folder = options.output / one.name
    folder.mkdir()
    source = one.source
    topics = shared.chosen_topics(options)
    with shared.progress_bar() as bar:
        if one.sequence is not None:
            source = folder / 'input'
            shared.tell(f'{one.name}: rendering {len(one.sequence)} pairs')
            render_bag(one.sequence, source, bar)
        assert source is not None
        opened = open_source(source, topics=topics)
        for warning in opened.warnings:
            _log.warning(warning)
        shared.tell(f'{one.name}: starting the node, which compiles for 15 to 45 s the first time')
        task = bar.add_task(f'{one.name}: starting the node (compiles on the first run)',
                            total=opened.pairs)

        told: set[str] = set()

        def show(stage: str, count: int) -> None:
            if stage not in told:
                told.add(stage)
                shared.tell(f'{one.name}: {stage}')
            bar.update(task, completed=count, description=f'{one.name}: {stage}')

        settings = one.settings | shared.sync_parameters(options)
        result = session.run_session(source, folder, settings, topics=topics, progress=show,
                                     player_options=('--rate', str(options.rate)))
        task = bar.add_task(f'{one.name}: comparing with the truth', total=opened.pairs)
        recorded = run_report.judge(one.name, one.title, lambda: open_pairs(source, topics)[1],
                                    result, least_published=one.least_published,
                                    advance=lambda: bar.advance(task))
        recorded.settings = one.settings
        return recorded


def render_bag(sequence: scenes.RoadSequence, path: pathlib.Path, bar: Any) -> None:
    """Draw a street into a bag with its truth; ``bar`` shows how far it is."""
    from stereo_bp_ros.evaluation import bags
    task = bar.add_task(f'Rendering {sequence.width} x {sequence.height}', total=len(sequence))
    calibration = Calibration(sequence.focal_px, sequence.baseline_m, sequence.cx, sequence.cx,
                              sequence.cy)
    bags.write_bag(path, calibration, (
        (frame.stamp_ns, frame.left, frame.right, frame.disparity)
        for frame in scenes.render(sequence, workers_for(len(sequence)),
                                   lambda done, _: bar.update(task, completed=done))))
