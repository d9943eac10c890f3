"""Publish a bag, a folder or a video to the node's topics; with --output, report the answers.

Topics are relative: left/image_rect, left/camera_info, right/image_rect, right/camera_info. Put
them into a namespace as usual, e.g. --ros-args -r __ns:=/stereo. Stamps become the time of
publishing; with --clock they stay and /clock is published, for nodes with use_sim_time.

  stereo_bp replay recording/            (rosbag2 folder, x.mcap, or ROS 1 bag)
  stereo_bp replay pairs/ --loop 0       (left/*.png, right/*.png, P_left.txt, P_right.txt)
  stereo_bp replay drive.mp4 --side-by-side left_right --calibration left.yaml
  stereo_bp replay recording/ --output report/

With --output the answers of a node come back over DDS and are judged as by `stereo_bp evaluate`:
the same figures, page and --scenario. Every frame is accounted for: sent, received, published,
superseded and lost. --output implies --clock. The node runs already with use_sim_time, or replay
starts it:

  stereo_bp replay recording/ --output report/ --preset road
  stereo_bp replay recording/ --output report/ --start 'ros2 launch robot stereo.launch.py'
  stereo_bp replay --scenario street.yaml --output report/
"""

from __future__ import annotations

import argparse
import logging
import pathlib
import sys
from typing import Any

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.cli import progress
from stereo_bp_ros.cli.source_options import SOURCE, add_source_options, chosen_topics
from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.system import process

HELP = 'publish a bag, a folder or a video to the node, and report its answers'
NEEDS = ('rclpy', 'rosbags', 'mcap')

_log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('path', type=pathlib.Path, nargs='?', help=SOURCE)
    parser.add_argument('--rate', type=shared.real(0.001, 1000), default=1.0, metavar='FACTOR',
                        help='speed, 1 = as recorded (default)')
    parser.add_argument('--loop', type=shared.whole(0), default=1, metavar='N',
                        help='how often to play it, 0 = until interrupted (default 1)')
    parser.add_argument('--clock', action='store_true',
                        help='keep the stamps and publish /clock')
    parser.add_argument('--period', type=shared.real(0.0001, 3600), default=0.1, metavar='SECONDS',
                        help='time between pairs without stamps (default 0.1)')
    parser.add_argument('--longest-gap', type=shared.real(0.001, 1e9), default=60.0,
                        metavar='SECONDS',
                        help='a longer time without a recorded message is shortened to this, and '
                             'said; in seconds of the recording (default 60)')
    parser.add_argument('--focal', type=shared.real(1, 1e6), metavar='PIXELS',
                        help='focal length, for pairs without calibration')
    parser.add_argument('--baseline', type=shared.real(1e-6, 1e4), default=0.1, metavar='METRES',
                        help='with --focal (default 0.1)')
    parser.add_argument('--wait', type=shared.real(0, 86400), default=10.0, metavar='SECONDS',
                        help='wait so long for subscribers before starting (default 10); '
                             'with --output the node has 180 s')
    parser.add_argument('--output', type=pathlib.Path, metavar='DIR',
                        help='record what the node answers, and judge it as evaluate does: '
                             'report.json, report.html and the bag; replaces an earlier report '
                             '(the page needs jinja2 and matplotlib)')
    parser.add_argument('--scenario', type=pathlib.Path, metavar='FILE',
                        help='with --output: inputs, settings and pass conditions from a YAML '
                             'file, as of evaluate; status 1 where a condition fails')
    parser.add_argument('--start', default='', metavar='COMMAND',
                        help='with --output: start the node by a command, e.g. "ros2 launch '
                             'robot stereo.launch.py", and stop it at the end')
    parser.add_argument('--params-file', type=pathlib.Path, metavar='FILE',
                        help="with --output: start this package's node with the parameters of "
                             'the file, and stop it at the end; so do --preset, --set and '
                             '--backend')
    add_source_options(parser)
    shared.add_matcher_options(parser, 'that of the node that runs')
    shared.add_json_option(parser)


def run(options: argparse.Namespace) -> int:
    from stereo_bp_ros.replay.source import open_source

    if options.output:
        from stereo_bp_ros.cli import replay_recorded
        return replay_recorded.run(options)
    for name in ('scenario', 'start', 'params_file', 'preset', 'settings', 'backend'):
        if getattr(options, name):
            words = 'set' if name == 'settings' else name.replace('_', '-')
            raise ValueError(f'--{words} needs --output: it is for a run that is recorded')
    if options.path is None:
        raise ValueError('there is nothing to play: name a folder or a bag')
    calibration = None
    if options.focal:
        calibration = Calibration(options.focal, options.baseline, 0, 0, 0)
    source = open_source(options.path, period_s=options.period, calibration=calibration,
                         topics=chosen_topics(options))
    if not source.pairs:
        raise StereoError(f'{options.path} has no stereo pairs: there is nothing to play')
    for warning in source.warnings:
        _log.warning(warning)
    return _play(options, source)


def _play(options: argparse.Namespace, source: Any) -> int:
    import rclpy

    from stereo_bp_ros.replay.player import Player

    try:
        rclpy.init(args=options.ros_arguments)
    except RuntimeError as error:
        raise StereoError(f'ROS refuses {" ".join(options.ros_arguments)}: {error}') from error
    try:
        node = rclpy.create_node('stereo_bp_replay')
        process.keep(node)
        player = Player(node, source, rate=options.rate, clock=options.clock,
                        longest_gap_s=max(options.longest_gap, options.period))
        for topic in player.wait_for_subscribers(options.wait):
            shared.say(f'nobody subscribes to {topic}', file=sys.stderr)
        with progress.Bar('replay') as bar:
            task = bar.add_task(f'Replaying {source.name}',
                                total=source.pairs * options.loop or None)
            report = player.play(options.loop, lambda pairs: bar.update(task, completed=pairs))
    finally:
        rclpy.try_shutdown()
    figures: dict[str, Any] = {
        'source': str(options.path), 'pairs': report.pairs, 'messages': report.sent,
        'seconds': report.seconds, 'worst_delay_ms': report.worst_delay_ms,
        'waited_s': report.waited_s, 'skipped_s': report.skipped_s}
    if options.json:
        shared.print_json(figures)
    else:
        shared.say(f'{report.pairs} pairs in {report.seconds:.1f} s, '
                   f'at most {report.worst_delay_ms:.1f} ms behind schedule')
    return 0
