"""Shared by the tests of the node: stand-ins for messages and the matcher, a real node in a
process of its own, and a client that talks to it."""

from __future__ import annotations

import array
import contextlib
import dataclasses
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from stereo_bp_ros import geometry
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.types import DisparityFrame

#: Compiling everything from scratch takes long on a small machine.
START_LIMIT = 240.0


# Stand-ins for messages, for tests without ROS

def make_stamped(stamp_ns: int, **fields: Any) -> types.SimpleNamespace:
    """Anything with a header."""
    stamp = types.SimpleNamespace(sec=stamp_ns // 10**9, nanosec=stamp_ns % 10**9)
    header = types.SimpleNamespace(stamp=stamp, frame_id='camera')
    return types.SimpleNamespace(header=header, **fields)


def make_info(stamp_ns: int = 0, *, side: str = 'left', width: int = 32, height: int = 24,
              focal: float = 100.0, baseline: float = 0.1, cx: float = 16.0
              ) -> types.SimpleNamespace:
    """Something CameraInfo-like."""
    p = [focal, 0, cx, 0 if side == 'left' else -focal * baseline,
         0, focal, height / 2, 0, 0, 0, 1, 0]
    return make_stamped(stamp_ns, p=p, width=width, height=height, binning_x=0, binning_y=0,
                        roi=types.SimpleNamespace(x_offset=0, y_offset=0, width=0, height=0))


def make_image(stamp_ns: int, pixels: np.ndarray) -> types.SimpleNamespace:
    """Something Image-like, mono8."""
    return make_stamped(stamp_ns, data=array.array('B', pixels.tobytes()), encoding='mono8',
                        height=pixels.shape[0], width=pixels.shape[1], step=pixels.shape[1],
                        is_bigendian=0)


@pytest.fixture(scope='session')
def messages() -> types.SimpleNamespace:
    """``messages.stamped``, ``messages.info`` and ``messages.image``."""
    return types.SimpleNamespace(stamped=make_stamped, info=make_info, image=make_image)


class FakeMatcher:
    """Has the interface of StereoMatcher; every pixel gets ``min_disparity``.

    ``fail`` is raised by the next call of ``compute``, ``refuse`` by the next of ``reconfigure``.
    """

    backend_reason = 'a stand-in'

    def __init__(self, config: MatcherConfig) -> None:
        self.config = config
        self.backend = 'cpu' if config.backend == 'cpu' else 'fake'
        self.size: tuple[int, int] | None = None
        self.memory_plan: geometry.MemoryPlan | None = None
        self.fail: list[Exception] = []
        self.refuse: list[Exception] = []
        self.before_compute: Callable[[], None] = lambda: None
        self.closed = False
        self.computed = 0

    compile_time = 0.0

    def prepare(self, width: int = 0, height: int = 0) -> float:
        if width:
            self.size = (width, height)
        return 0.0

    def reconfigure(self, config: MatcherConfig) -> bool:
        if self.refuse:
            raise self.refuse.pop(0)
        needed = not self.config.is_live_change(config)
        self.config = config
        return needed

    def compute(self, left: Any, right: Any, *, calibration: Any = None,
                outputs: Sequence[str] = ('disparity',),
                out: Mapping[str, np.ndarray] | None = None) -> DisparityFrame:
        self.before_compute()
        if self.fail:
            raise self.fail.pop(0)
        self.computed += 1
        arrays = dict(out or {})
        for values in arrays.values():
            values[:] = self.config.min_disparity
        return DisparityFrame(
            disparity=arrays.get('disparity'), depth=arrays.get('depth'), confidence=None,
            min_disparity=self.config.min_disparity,
            max_disparity=self.config.min_disparity + self.config.disparity_range - 1,
            delta_d=geometry.disparity_step(self.config),
            valid_window=geometry.valid_window(self.config, left.width, left.height),
            timings={'messages': 0.0}, backend=self.backend)

    def close(self) -> None:
        self.closed = True


@pytest.fixture(scope='session')
def fake_matcher() -> type[FakeMatcher]:
    """The class, to be used as a matcher factory."""
    return FakeMatcher


# The real node, in a process of its own

@dataclasses.dataclass
class NodeProcess:
    """A running node: its process, the domain that it speaks in, and what it has logged."""

    process: subprocess.Popen[bytes]
    domain: int
    log_path: pathlib.Path

    @property
    def log(self) -> str:
        return self.log_path.read_text(encoding='utf-8', errors='replace')

    def wait_for_log(self, text: str, limit: float = START_LIMIT) -> float:
        """Wait until the node has logged a text; returns the seconds it took."""
        start = time.monotonic()
        while text not in self.log:
            assert self.process.poll() is None, f'the node has ended:\n{self.log}'
            assert time.monotonic() < start + limit, f'{text!r} was not logged:\n{self.log}'
            time.sleep(0.02)
        return time.monotonic() - start

    def end(self, number: int = signal.SIGINT, limit: float = 10.0) -> int:
        """Send a signal and return the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(limit)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)


@contextlib.contextmanager
def running_node(directory: pathlib.Path, parameters: Mapping[str, Any],
                 *arguments: str, wait: str = 'active: waiting', code: str = '',
                 domain: int | None = None) -> Iterator[NodeProcess]:
    domain = domain or random.SystemRandom().randint(1, 100)
    program = ['-c', code] if code else ['-m', 'stereo_bp_ros.node.main']
    command = [sys.executable, *program, '--ros-args', *arguments]
    for name, value in parameters.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        command += ['-p', f'{name}:={text}']
    log_path = directory / f'node_{random.getrandbits(32):08x}.log'
    environment = {**os.environ, 'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST',
                   'ROS_DOMAIN_ID': str(domain), 'PYTHONUNBUFFERED': '1'}
    with open(log_path, 'wb') as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT,
                                   env=environment)
    node = NodeProcess(process, domain, log_path)
    try:
        if wait:
            node.wait_for_log(wait)
        yield node
    finally:
        node.kill()


@pytest.fixture(scope='session')
def run_node() -> Callable[..., contextlib.AbstractContextManager[NodeProcess]]:
    """``with run_node(directory, parameters, *ros_arguments) as node``; killed at the end."""
    return running_node


class Client:
    """Publishes pairs to a node and collects what it answers; spins in a thread of its own."""

    TOPICS = ('disparity', 'depth', 'latency', '/diagnostics')

    def __init__(self, domain: int, topics: Sequence[str] = TOPICS, *, compressed: bool = False,
                 node: str = '/stereo_bp', depth: int = 100) -> None:
        import rclpy
        from diagnostic_msgs.msg import DiagnosticArray
        from rclpy.executors import SingleThreadedExecutor
        from rclpy.qos import QoSProfile
        from sensor_msgs.msg import CameraInfo, CompressedImage, Image
        from stereo_msgs.msg import DisparityImage

        self.context = rclpy.Context()
        rclpy.init(context=self.context, args=[], domain_id=domain)
        self.node = rclpy.create_node(f'client_{domain}', context=self.context)
        self.target = node
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)
        qos = QoSProfile(depth=depth)
        suffix, kind = ('/compressed', CompressedImage) if compressed else ('', Image)
        self.image_class, self.info_class = kind, CameraInfo
        self.image_publishers = {
            side: self.node.create_publisher(kind, f'{side}/image_rect{suffix}', qos)
            for side in ('left', 'right')}
        self.info_publishers = {
            side: self.node.create_publisher(CameraInfo, f'{side}/camera_info', qos)
            for side in ('left', 'right')}
        types_ = {'disparity': DisparityImage, 'depth': Image, 'latency': DiagnosticArray,
                  '/diagnostics': DiagnosticArray}
        self.received: dict[str, list[Any]] = {topic: [] for topic in self.TOPICS}
        self.subscriptions = {
            topic: self.node.create_subscription(types_[topic], topic,
                                                 self.received[topic].append, qos)
            for topic in topics}
        self._types, self._qos = types_, qos
        self._closing = False
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def _spin(self) -> None:
        while not self._closing:
            with contextlib.suppress(Exception):
                self.executor.spin_once(timeout_sec=0.2)

    def close(self) -> None:
        self._closing = True
        self._thread.join(5)
        self.executor.shutdown()
        self.context.try_shutdown()

    # Waiting

    def wait_until(self, condition: Callable[[], Any], limit: float = 10.0, what: str = ''
                   ) -> Any:
        """Wait for something to be true and return it."""
        end = time.monotonic() + limit
        while not (value := condition()):
            assert time.monotonic() < end, f'not within {limit} s: {what or condition}'
            time.sleep(0.005)
        return value

    def connect(self, limit: float = 20.0) -> None:
        """Wait until both ends of every topic know each other."""
        publishers = [*self.image_publishers.values(), *self.info_publishers.values()]
        self.wait_until(lambda: all(p.get_subscription_count() for p in publishers), limit,
                        'subscriptions of the node')
        names = [t for t in self.subscriptions if t != '/diagnostics']
        self.wait_until(lambda: all(self.node.count_publishers(t) for t in names), limit,
                        'publishers of the node')
        time.sleep(0.3)     # the node's side of the match

    def subscribe(self, topic: str) -> None:
        self.subscriptions[topic] = self.node.create_subscription(
            self._types[topic], topic, self.received[topic].append, self._qos)
        self.wait_until(lambda: self.node.count_publishers(topic), 10, topic)
        time.sleep(0.3)

    def unsubscribe(self, topic: str) -> None:
        self.node.destroy_subscription(self.subscriptions.pop(topic))
        time.sleep(0.3)

    # Publishing

    def now_ns(self) -> int:
        return self.node.get_clock().now().nanoseconds

    def image(self, pixels: np.ndarray, encoding: str = 'mono8', *, padding: int = 0,
              frame_id: str = '', **fields: Any) -> Any:
        """An Image message of an array, each row followed by ``padding`` bytes of noise."""
        height = pixels.shape[0]
        rows = np.ascontiguousarray(pixels).view(np.uint8).reshape(height, -1)
        noise = np.random.default_rng(1).integers(0, 256, (height, padding), np.uint8)
        message = self.image_class()
        message.height, message.width = pixels.shape[:2]
        message.encoding = encoding
        message.step = rows.shape[1] + padding
        message.header.frame_id = frame_id
        message.data = array.array('B', np.hstack([rows, noise]).tobytes())
        for name, value in fields.items():
            setattr(message, name, value)
        return message

    def info(self, side: str, width: int, height: int, *, focal: float = 500.0,
             baseline: float = 0.1, cx: float | None = None, **fields: Any) -> Any:
        """A CameraInfo of a rectified camera; ``roi=dict(...)`` and other fields on top."""
        message = self.info_class()
        message.header.frame_id = f'{side}_camera'
        message.width, message.height = width, height
        cx = width / 2 if cx is None else cx
        message.p = [focal, 0.0, cx, 0.0 if side == 'left' else -focal * baseline,
                     0.0, focal, height / 2, 0.0, 0.0, 0.0, 1.0, 0.0]
        for name, value in fields.pop('roi', {}).items():
            setattr(message.roi, name, value)
        for name, value in fields.items():
            setattr(message, name, value)
        return message

    def send_image(self, side: str, message: Any, stamp_ns: int) -> None:
        set_stamp(message, stamp_ns)
        self.image_publishers[side].publish(message)

    def send_info(self, side: str, message: Any, stamp_ns: int = 1) -> None:
        set_stamp(message, stamp_ns)
        self.info_publishers[side].publish(message)

    def send_pair(self, left: Any, right: Any, stamp_ns: int | None = None) -> int:
        """Publish two images with one stamp (now, where none is given) and return it."""
        stamp_ns = stamp_ns or self.now_ns()
        self.send_image('left', left, stamp_ns)
        self.send_image('right', right, stamp_ns)
        return stamp_ns

    def send_pair_after(self, seconds: float, left: Any, right: Any) -> int:
        """As ``send_pair``, once what was sent before has had its turn."""
        time.sleep(seconds)
        return self.send_pair(left, right)

    # Results

    def result(self, topic: str, stamp_ns: int, limit: float = 60.0) -> Any:
        """Wait for the message with this stamp."""
        return self.wait_until(
            lambda: next((m for m in list(self.received[topic])
                          if stamp_of(m) == stamp_ns), None),
            limit, f'{topic} at {stamp_ns}')

    def stamps(self, topic: str = 'disparity') -> list[int]:
        return [stamp_of(m) for m in list(self.received[topic])]

    def status(self, name: str, *, after: int | None = None, level: int | None = None,
               limit: float = 10.0) -> types.SimpleNamespace:
        """A status of this name in /diagnostics: level, message and values.

        The next to come, or the first from message number ``after`` on; of any level or of one.
        """
        seen = len(self.received['/diagnostics']) if after is None else after

        def find() -> Any:
            for message in self.received['/diagnostics'][seen:]:
                for status in message.status:
                    if status.name == f'{self.target}: {name}' and level in (
                            None, int.from_bytes(status.level, 'little')):
                        return status
            return None

        status = self.wait_until(find, limit, f'status {name}')
        return types.SimpleNamespace(level=int.from_bytes(status.level, 'little'),
                                     message=status.message,
                                     values={v.key: v.value for v in status.values})

    def wait_for_status(self, name: str, condition: Callable[[Any], Any], limit: float = 10.0
                        ) -> types.SimpleNamespace:
        """Wait for a status for which a condition holds."""
        end = time.monotonic() + limit
        while True:
            status = self.status(name)
            if condition(status):
                return status
            assert time.monotonic() < end, f'last {name} status: {status}'

    def counts(self) -> dict[str, int]:
        """The counters of the next pairing status and of refused input; they must add up."""
        after = len(self.received['/diagnostics'])
        pairing = self.status('pairing', after=after).values
        refused = self.status('input', after=after).values
        values = {k: int(v) for k, v in pairing.items()}
        values |= {k: int(v) for k, v in refused.items() if k.startswith('bad input: ')}
        return values

    def settled(self) -> dict[str, int]:
        """The counters at rest."""
        before = self.counts()
        while (values := self.counts()) != before:
            before = values
        check_identity(values)
        return values

    def expect(self, before: Mapping[str, int], expected: Mapping[str, int],
               limit: float = 8.0) -> dict[str, int]:
        """Wait until exactly these counters have changed by so much since ``before``.

        All of them must add up then; returns them.
        """
        end = time.monotonic() + limit
        while True:
            after = self.counts()
            changed = {k: v - before.get(k, 0) for k, v in after.items()
                       if v != before.get(k, 0)}
            if changed == {k: v for k, v in expected.items() if v}:
                check_identity(after)
                return after
            assert time.monotonic() < end, f'changed: {changed}, expected: {expected}'

    # Services

    def call(self, kind: Any, name: str, limit: float = 20.0, **fields: Any) -> Any:
        client = self.node.create_client(kind, f'{self.target}/{name}')
        try:
            assert client.wait_for_service(limit), name
            future = client.call_async(kind.Request(**fields))
            self.wait_until(future.done, limit, name)
            return future.result()
        finally:
            self.node.destroy_client(client)

    def set_parameters(self, atomically: bool = False, **values: Any) -> list[Any]:
        """Set parameters through the service; returns the results."""
        from rcl_interfaces.srv import SetParameters, SetParametersAtomically
        from rclpy.parameter import Parameter

        parameters = [Parameter(n, value=v).to_parameter_msg() for n, v in values.items()]
        if atomically:
            return [self.call(SetParametersAtomically, 'set_parameters_atomically',
                              parameters=parameters).result]
        return list(self.call(SetParameters, 'set_parameters', parameters=parameters).results)

    def wait_for_algorithm(self, name: str) -> None:
        """Until the engine in use computes this: the old one serves while another compiles."""
        self.wait_for_status('device', lambda status: status.values['algorithm'] == name,
                             limit=60.0)

    def get_parameters(self, *names: str) -> dict[str, Any]:
        from rcl_interfaces.srv import GetParameters
        from rclpy.parameter import parameter_value_to_python

        values = self.call(GetParameters, 'get_parameters', names=list(names)).values
        return {n: parameter_value_to_python(v) for n, v in zip(names, values, strict=True)}

    def change_state(self, transition: str, limit: float = START_LIMIT) -> bool:
        from lifecycle_msgs.msg import Transition
        from lifecycle_msgs.srv import ChangeState

        return bool(self.call(ChangeState, 'change_state', limit,
                              transition=Transition(label=transition)).success)

    def state(self) -> str:
        from lifecycle_msgs.srv import GetState

        return str(self.call(GetState, 'get_state').current_state.label)


def set_stamp(message: Any, stamp_ns: int) -> None:
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp_ns, 10**9)


def stamp_of(message: Any) -> int:
    return int(message.header.stamp.sec) * 10**9 + int(message.header.stamp.nanosec)


def check_identity(values: Mapping[str, int]) -> None:
    """Every image received was published or dropped for a reason, or is known to wait."""
    pair_drops = sum(v for k, v in values.items() if k.startswith('dropped pairs: '))
    assert values['pairs'] == values['published'] + pair_drops + values['held'], values
    for side in ('left', 'right'):
        drops = sum(v for k, v in values.items() if k.startswith(f'dropped {side}: '))
        assert values[f'received {side}'] == (
            values['published'] + pair_drops + values['held'] + drops
            + values[f'waiting {side}']), values


@pytest.fixture(scope='session')
def client_class() -> type[Client]:
    """The class, for tests that connect to more than one node."""
    return Client
