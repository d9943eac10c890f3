"""Publish a bag or a folder of pairs to the node's topics.

Topics are relative: left/image_rect, left/camera_info, right/image_rect, right/camera_info. Put
them into a namespace as usual, e.g. --ros-args -r __ns:=/stereo. Stamps become the time of
publishing; with --clock they stay and /clock is published, for nodes with use_sim_time.

  stereo_bp replay recording/            (rosbag2 folder or ROS 1 bag)
  stereo_bp replay pairs/ --loop 0       (left/*.png, right/*.png, P_left.txt, P_right.txt)
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from typing import Any

from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.errors import BackendUnavailable
from stereo_bp_ros.replay.source import open_source

HELP = 'publish a bag or an image folder to the node'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('path', type=pathlib.Path, help='bag, or folder of pairs')
    parser.add_argument('--rate', type=float, default=1.0, metavar='FACTOR',
                        help='speed, 1 = as recorded (default)')
    parser.add_argument('--loop', type=int, default=1, metavar='N',
                        help='how often to play it, 0 = until interrupted (default 1)')
    parser.add_argument('--clock', action='store_true',
                        help='keep the stamps and publish /clock')
    parser.add_argument('--period', type=float, default=0.1, metavar='SECONDS',
                        help='time between pairs without stamps (default 0.1)')
    parser.add_argument('--focal', type=float, metavar='PIXELS',
                        help='focal length, for folders without calibration')
    parser.add_argument('--baseline', type=float, default=0.1, metavar='METRES',
                        help='with --focal (default 0.1)')
    parser.add_argument('--wait', type=float, default=10.0, metavar='SECONDS',
                        help='wait so long for subscribers before starting (default 10)')
    shared.add_json_option(parser)


def run(options: argparse.Namespace) -> int:
    try:
        import rclpy

        from stereo_bp_ros.replay.player import Player
    except ImportError as error:
        raise BackendUnavailable(f'replay needs ROS 2: {error}',
                                 "source its setup.bash, or pip install 'stereo_bp_ros[ros]'"
                                 ) from error
    calibration = None
    if options.focal:
        calibration = Calibration(options.focal, options.baseline, 0, 0, 0)
    source = open_source(options.path, period_s=options.period, calibration=calibration)
    rclpy.init(args=options.ros_arguments)
    try:
        node = rclpy.create_node('stereo_bp_replay')
        player = Player(node, source, rate=options.rate, clock=options.clock)
        for topic in player.wait_for_subscribers(options.wait):
            print(f'nobody subscribes to {topic}', file=sys.stderr)
        with shared.progress_bar() as bar:
            task = bar.add_task(f'Replaying {source.name}',
                                total=source.pairs * options.loop or None)
            report = player.play(options.loop,
                                 lambda pairs: bar.update(task, completed=pairs))
    finally:
        rclpy.try_shutdown()
    figures: dict[str, Any] = {
        'source': str(options.path), 'pairs': report.pairs, 'messages': report.sent,
        'seconds': report.seconds, 'worst_delay_ms': report.worst_delay_ms}
    if options.json:
        shared.print_json(figures)
    else:
        print(f'{report.pairs} pairs in {report.seconds:.1f} s, '
              f'at most {report.worst_delay_ms:.1f} ms behind schedule')
    return 0
