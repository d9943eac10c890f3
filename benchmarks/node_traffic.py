"""A camera and a listener for measurements of the node: one process each, led line by line.

    python -m benchmarks.node_traffic camera PAIRS.npz  plays pairs to the node's topics
    python -m benchmarks.node_traffic listener          counts and times what the node answers

ROS arguments may follow. Both answer a JSON object on standard input with one on standard output:

  camera:    {"rate": 30.0, "frames": 300}  ->  {"rate_hz": 29.99, "late_ms": 0.4}
  listener:  {"sent": 300}                  ->  what came since the last question, as soon as so
             many pairs are answered, or dropped, or nothing changes any more
"""

from __future__ import annotations

import json
import pathlib
import sys
import threading
import time
from typing import Any

import numpy as np
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from rclpy.utilities import remove_ros_args
from sensor_msgs.msg import CameraInfo, Image
from stereo_msgs.msg import DisparityImage

from benchmarks import common
from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.images.stamps import SIDES
from stereo_bp_ros.replay import frames, session
from stereo_bp_ros.sources import bags

#: Seconds before its due time at which a message is no longer slept for: sleep is that coarse.
SPIN = 0.0003


def main() -> int:
    """Run one of the two roles until standard input ends."""
    parser = common.parser(__doc__)
    parser.add_argument('role', choices=('camera', 'listener'))
    parser.add_argument('pairs', nargs='?', type=pathlib.Path,
                        help='of the camera: .npz with left and right, uint8 N x H x W')
    options = parser.parse_args(remove_ros_args(sys.argv)[1:])
    rclpy.init()
    node = rclpy.create_node(f'stereo_bp_{options.role}')
    try:
        role = Camera(node, options.pairs) if options.role == 'camera' else Listener(node)
        answer({'ready': True})
        for line in sys.stdin:
            answer(role.do(**json.loads(line)))
    finally:
        rclpy.try_shutdown()
    return 0


def answer(content: dict[str, Any]) -> None:
    """One line to whoever leads."""
    print(json.dumps(content), flush=True)


class Camera:
    """Publishes pairs with camera_info, stamped when they are sent, at a steady rate.

    :param path: .npz with left and right, uint8 N x H x W; they are played again and again.
    """

    def __init__(self, node: Node, path: pathlib.Path) -> None:
        self._node = node
        images = np.load(path)
        height, width = images['left'].shape[1:]
        calibration = Calibration(float(width), 0.2, width / 2, width / 2, height / 2)
        self._infos = {side: bags.serialize_camera_info(0, side, calibration, width, height)
                       for side in ('left', 'right')}
        self._images = {side: [bytes(bags.serialize_image(0, side, pixels, 'mono8'))
                               for pixels in images[side]] for side in ('left', 'right')}
        qos = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
        self._publishers = {
            side: (node.create_publisher(CameraInfo, f'{side}/camera_info', qos),
                   node.create_publisher(Image, f'{side}/image_rect', qos))
            for side in ('left', 'right')}

    def do(self, rate: float, frames: int) -> dict[str, Any]:
        """Play, once every topic has its subscriber; tells how late the latest pair was."""
        deadline = time.monotonic() + 30
        while any(publisher.get_subscription_count() == 0
                  for pair in self._publishers.values() for publisher in pair):
            if time.monotonic() > deadline:
                return {'error': 'nobody subscribes to the images'}
            time.sleep(0.02)
        late, first, last = 0.0, 0, 0
        due = time.perf_counter() + 0.02
        for number in range(frames):
            while (left := due - time.perf_counter()) > 0:
                if left > SPIN:
                    time.sleep(left - SPIN)
            start = time.perf_counter()
            last = time.time_ns()
            first = first or last
            self._send(number, last)
            late = max(late, start - due)
            # What a camera that was held up could not expose is gone: it sends no bursts.
            due += (1 + int((start - due) * rate)) / rate
        return {'rate_hz': (frames - 1) * 1e9 / max(1, last - first), 'late_ms': late * 1e3}

    def _send(self, number: int, stamp_ns: int) -> None:
        for side in ('left', 'right'):
            info, image = self._publishers[side]
            pixels = self._images[side][number % len(self._images[side])]
            info.publish(bytes(bags.with_stamp(self._infos[side], stamp_ns)))
            image.publish(bytes(bags.with_stamp(pixels, stamp_ns)))


class Listener:
    """Subscribes to disparity, latency and /diagnostics; nothing is decoded while it counts."""

    def __init__(self, node: Node) -> None:
        self._lock = threading.Lock()
        self._frames: list[tuple[int, int]] = []        # stamp, receipt, ns
        self._latency: list[bytes] = []
        self._told: tuple[float, bytes] | None = None       # when, in seconds, and the last
        self._before: frames.Counters = {}
        # Deep enough that a burst waits here and is not lost.
        qos = QoSProfile(depth=50, reliability=ReliabilityPolicy.RELIABLE)
        for topic, kind, take in (('disparity', DisparityImage, self._on_disparity),
                                  ('latency', DiagnosticArray, self._on_latency),
                                  ('/diagnostics', DiagnosticArray, self._on_diagnostics)):
            node.create_subscription(kind, topic, take, qos, raw=True)
        executor = SingleThreadedExecutor()
        executor.add_node(node)
        threading.Thread(target=executor.spin, daemon=True).start()

    def do(self, sent: int) -> dict[str, Any]:
        """What came since the last question, once it is known what became of every pair.

        ``has_settled`` tells whether it is; it is not after ``session.SETTLE_LIMIT_S`` seconds.
        """
        each = dict.fromkeys(SIDES, sent)
        before = self._before
        settling = frames.Settling(each, before, session.QUIET_S)
        seen, deadline = self._told, time.monotonic() + session.SETTLE_LIMIT_S
        message, has_settled = DiagnosticArray(), False
        while not has_settled and time.monotonic() < deadline:
            time.sleep(0.02)
            told, heard = self._told, min(len(self._frames), len(self._latency))
            if told is not None and told is not seen:
                seen, message = told, deserialize_message(told[1], DiagnosticArray)
                has_settled = settling.is_over(told[0], frames.counters(message), heard)
        with self._lock:
            results, self._frames = self._frames, []
            latency, self._latency = self._latency, []
        self._before = frames.counters(message)
        if not self._before:
            return {'error': 'no /diagnostics came from the node'}
        stages: dict[str, list[float]] = {}
        for data in latency:
            for pair in deserialize_message(data, DiagnosticArray).status[0].values:
                stages.setdefault(pair.key, []).append(float(pair.value))
        return {
            'frames': frames.account(each, len(results), before, self._before),
            'has_settled': has_settled, 'stages_ms': stages,
            'end_to_end_ms': [(received - stamp) * 1e-6 for stamp, received in results],
            'backend': frames.device(message).get('backend', '')}

    def _on_disparity(self, data: bytes) -> None:
        received = time.time_ns()
        with self._lock:
            self._frames.append((bags.stamp_of(data), received))

    def _on_latency(self, data: bytes) -> None:
        with self._lock:
            self._latency.append(data)

    def _on_diagnostics(self, data: bytes) -> None:
        self._told = time.monotonic(), data


if __name__ == '__main__':
    sys.exit(main())
