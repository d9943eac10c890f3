"""Times points in space: the engine's stage, and publishing them as the node does.

    python -m benchmarks.points [--size 1280x720x128] [--frames 51] [--backend cpu]

Milliseconds, medians of frames of the preset `sad_fast` on a rendered street, each row by itself.
`points` is the stage of the engine, which writes into the message. `publish` fills what else the
message has, leaves out gaps where the row says so, and returns from publish(); a subscriber in
another process takes every message, reliably.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np
import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from sensor_msgs.msg import CameraInfo, PointCloud2

from benchmarks import common
from stereo_bp_ros import Calibration, MatcherConfig, RawImage, StereoMatcher, transport
from stereo_bp_ros.config import NodeConfig
from stereo_bp_ros.evaluation.timing import Pair
from stereo_bp_ros.node import qos
from stereo_bp_ros.node.frames import Result
from stereo_bp_ros.node.messages import PointCloudMessage

TOPIC = 'benchmark/points2'
#: Seconds that the listener has to subscribe.
LIMIT_S = 30
#: Encoding, decimation, organized.
ROWS = [('mono8', 1, True), ('bgr8', 1, True), ('mono8', 1, False), ('mono8', 2, True),
        ('mono8', 2, False), ('mono8', 4, True)]


def main() -> None:
    """Read the command line and print the table."""
    parser = common.parser(__doc__)
    common.add_sizes(parser, common.HD)
    common.add_frames(parser, 51, of='of every row')
    common.add_backend(parser, 'cpu')
    options = parser.parse_args()
    config = MatcherConfig.preset('sad_fast', backend=options.backend)
    common.print_machine(config)
    with publisher() as publish:
        for size in options.size:
            pair = common.street(size)
            common.print_head(f'street {size}', 'decimation', 'gaps', 'MB', 'points, ms',
                              'publish, ms')
            for encoding, decimation, organized in ROWS:
                changed = config.replace(disparity_range=size.disparities,
                                         points_decimation=decimation)
                common.print_row(encoding, decimation, 'kept' if organized else 'left out',
                                 *measure(pair, encoding, changed, organized, options.frames,
                                          publish))


def measure(pair: Pair, encoding: str, config: MatcherConfig, organized: bool, frames: int,
            publish: Any) -> tuple[str, str, str]:
    """Megabytes of a message, and medians of the stage and of publication."""
    images = [raw(np.asarray(side), encoding) for side in (pair.left, pair.right)]
    width, height = images[0].width, images[0].height
    calibration = Calibration(float(width), 0.2, width / 2, width / 2, height / 2)
    message = PointCloudMessage('points', lambda buffer: None)
    out = message.pixels(width, height, config.points_decimation)
    settings, info = NodeConfig(points_organized=organized), CameraInfo()
    stage, publication = [], []
    with StereoMatcher(config) as matcher:
        matcher.prepare(width, height)
        for _ in range(frames + 1):
            frame = matcher.compute(*images, calibration=calibration, outputs=('points',),
                                    out={'points': out})
            result = Result(info.header.stamp, info, calibration, frame, settings)
            start = time.perf_counter()
            publish(message.fill(result))
            publication.append((time.perf_counter() - start) * 1e3)
            stage.append(frame.timings['points'])
    return (f'{len(message.fill(result).data) / 1e6:.1f}', f'{statistics.median(stage[1:]):.2f}',
            f'{statistics.median(publication[1:]):.2f}')


def raw(grey: np.ndarray, encoding: str) -> RawImage:
    """A grey image in an encoding."""
    return RawImage.from_array(
        grey if encoding == 'mono8' else cv2.cvtColor(grey, cv2.COLOR_GRAY2BGR), encoding)


@contextlib.contextmanager
def publisher() -> Iterator[Any]:
    """A function that publishes a cloud; another process subscribes meanwhile."""
    transport.prepare()
    listener = multiprocessing.get_context('spawn').Process(target=listen, daemon=True)
    listener.start()
    rclpy.init()
    try:
        node = rclpy.create_node('benchmark_points')
        made = node.create_publisher(PointCloud2, TOPIC, qos.publisher())
        deadline = time.monotonic() + LIMIT_S
        while not made.get_subscription_count():
            if time.monotonic() > deadline:
                sys.exit('the listener does not subscribe')
            rclpy.spin_once(node, timeout_sec=0.01)
        yield made.publish
    finally:
        listener.kill()         # ROS may answer nothing else
        listener.join()
        rclpy.shutdown()


def listen() -> None:
    """Take every cloud, until terminated."""
    rclpy.init()
    node = Node('benchmark_points_listener')
    node.create_subscription(PointCloud2, TOPIC, lambda data: None, qos.publisher(), raw=True)
    with contextlib.suppress(KeyboardInterrupt, ExternalShutdownException):
        rclpy.spin(node)


if __name__ == '__main__':
    main()
