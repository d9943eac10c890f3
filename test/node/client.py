"""A client that sends pairs to a node and collects the answers."""

from __future__ import annotations

import array
import collections
import contextlib
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from test.node.processes import LIMIT, START_LIMIT

#: A transition that no state has: it is refused, and changes nothing.
NONE = 'none'
#: Seconds after which an answer that may be lost is asked for again.
ANSWER_LIMIT = 5.0
#: Reports of the node that are kept.
REPORTS = 600


class Status(NamedTuple):
    """One status of a report: reports are counted from 1 on."""

    number: int
    stamp_ns: int
    level: int
    message: str
    values: dict[str, str]


class Client:
    """Publishes pairs to a node and collects what it answers; spins in a thread of its own."""

    TOPICS = ('disparity', 'depth', 'latency')

    def __init__(self, domain: int, topics: Sequence[str] = TOPICS, *, compressed: bool = False,
                 image: str = 'image_rect', node: str = '/stereo_bp', depth: int = 100,
                 namespace: str = '') -> None:
        import rclpy
        from diagnostic_msgs.msg import DiagnosticArray
        from rclpy.executors import SingleThreadedExecutor
        from rclpy.qos import QoSProfile
        from sensor_msgs.msg import CameraInfo, CompressedImage, Image, PointCloud2
        from stereo_msgs.msg import DisparityImage

        self.context = rclpy.Context()
        rclpy.init(context=self.context, args=[], domain_id=domain)
        self.node = rclpy.create_node(f'client_{domain}', context=self.context,
                                      namespace=namespace)
        self.target = node
        #: The process of the node, where a fixture has started it for this client.
        self.node_process: Any = None
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)
        qos = QoSProfile(depth=depth)
        suffix, kind = ('/compressed', CompressedImage) if compressed else ('', Image)
        self.image_class, self.info_class = kind, CameraInfo
        self.image_publishers = {
            side: self.node.create_publisher(kind, f'{side}/{image}{suffix}', qos)
            for side in ('left', 'right')}
        self.info_publishers = {
            side: self.node.create_publisher(CameraInfo, f'{side}/camera_info', qos)
            for side in ('left', 'right')}
        self.kinds = {
            'disparity': DisparityImage, 'points2': PointCloud2, 'latency': DiagnosticArray,
            'depth/camera_info': CameraInfo, **dict.fromkeys(
                ('depth', 'depth/image_rect', 'confidence', 'disparity_color'), Image)}
        self.received: dict[str, list[Any]] = {topic: [] for topic in self.kinds}
        #: Number of reports of the node that have come.
        self.reports = 0
        self._statuses: collections.deque[dict[str, Status]] = collections.deque(maxlen=REPORTS)
        self.node.create_subscription(DiagnosticArray, '/diagnostics', self.take_report, 100)
        self.subscriptions = {
            topic: self.node.create_subscription(self.kinds[topic], topic,
                                                 self.received[topic].append, qos)
            for topic in topics}
        self._qos = qos
        self._log_start = 0
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

    def log(self) -> str:
        """What the node of this client has logged since ``start_over``."""
        return str(self.node_process.log[self._log_start:])

    def start_over(self, parameters: Mapping[str, Any]) -> None:
        """Activate the node anew, with these parameters and the defaults of all others."""
        from stereo_bp_ros.config.mappings import all_settings

        self.set_state('unconfigured')
        self._log_start = len(self.node_process.log)
        values = {name: setting.default for name, setting in all_settings('default').items()
                  if not setting.read_only} | {'preset': 'none', 'use_sim_time': False,
                                               **parameters}
        assert [r.reason for r in self.set_parameters(**values) if not r.successful] == []
        self.set_state('active')
        self.connect()

    def set_state(self, wanted: str) -> None:
        """Bring the node into a state: 'unconfigured', 'inactive' or 'active'."""
        ways = {'unconfigured': {'active': 'deactivate', 'inactive': 'cleanup'},
                'inactive': {'active': 'deactivate', 'unconfigured': 'configure'},
                'active': {'unconfigured': 'configure', 'inactive': 'activate'}}[wanted]
        while (state := self.state()) != wanted:
            assert self.change_state(ways[state]), f'{ways[state]} from {state}'

    # Waiting

    def wait_until(self, condition: Callable[[], Any], limit: float = LIMIT, what: str = ''
                   ) -> Any:
        """Wait for something to be true and return it."""
        end = time.monotonic() + limit
        while not (value := condition()):
            assert time.monotonic() < end, f'not within {limit} s: {what or condition}'
            time.sleep(0.005)
        return value

    def connect(self, limit: float = LIMIT) -> None:
        """Wait until both ends of every topic know each other."""
        publishers = [*self.image_publishers.values(), *self.info_publishers.values()]
        self.wait_until(lambda: all(p.get_subscription_count() for p in publishers), limit,
                        'subscriptions of the node')
        self.wait_until(lambda: all(map(self.node.count_publishers, self.subscriptions)), limit,
                        'publishers of the node')
        self.wait_until_known()

    def wait_until_known(self) -> None:
        """Until the node knows the ends of all topics that this client has made or destroyed.

        It learns of them in their order, and a service's are the last.
        """
        self.get_parameters('stereo_algorithm')

    def subscribe(self, topic: str) -> None:
        self.subscriptions[topic] = self.node.create_subscription(
            self.kinds[topic], topic, self.received[topic].append, self._qos)
        self.wait_until(lambda: self.node.count_publishers(topic), LIMIT, topic)
        self.wait_until_known()

    def unsubscribe(self, topic: str) -> None:
        subscription = self.subscriptions.pop(topic)
        name = subscription.topic_name
        self.node.destroy_subscription(subscription)
        # It goes when the executor, which waits for its messages, lets it go: a little later.
        self.wait_until(lambda: self.node.get_name() not in {
            end.node_name for end in self.node.get_subscriptions_info_by_topic(name)}, what=name)
        self.wait_until_known()

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

    def infos(self, width: int, height: int, **fields: Any) -> dict[str, Any]:
        """Of both sides; ``left`` and ``right`` have fields of their own."""
        own = {side: fields.pop(side, {}) for side in ('left', 'right')}
        return {side: self.info(side, width, height, **{**fields, **own[side]}) for side in own}

    def send_pair(self, left: Any, right: Any, stamp_ns: int | None = None) -> int:
        """Publish two images with one stamp (now, where none is given) and return it."""
        stamp_ns = stamp_ns or self.now_ns()
        self.send_image('left', left, stamp_ns)
        self.send_image('right', right, stamp_ns)
        return stamp_ns

    def send_frame(self, left: Any, right: Any, encoding: str = 'mono8', *,
                   cameras: Mapping[str, Any] | None = None, **fields: Any) -> int:
        """Send two arrays, or images, with camera_infos of their stamp; returns it.

        :param cameras: the camera_infos by side; None = those of ``info``.
        :param fields: as for ``image``.
        """
        images = [self.image(pixels, encoding, **fields) if isinstance(pixels, np.ndarray)
                  else pixels for pixels in (left, right)]
        stamp = self.now_ns()
        for side, image in zip(('left', 'right'), images, strict=True):
            info = cameras[side] if cameras else self.info(side, image.width, image.height)
            self.send_info(side, info, stamp)
        return self.send_pair(*images, stamp)

    def match(self, left: Any, right: Any, *arguments: Any, **options: Any) -> Any:
        """The disparity message of a frame as ``send_frame`` sends it."""
        return self.result('disparity', self.send_frame(left, right, *arguments, **options))

    # Results

    def result(self, topic: str, stamp_ns: int, limit: float = LIMIT) -> Any:
        """Wait for the message with this stamp of a pair that the node takes."""
        return self.wait_until(
            lambda: next((m for m in list(self.received[topic])
                          if stamp_of(m) == stamp_ns), None),
            limit, f'{topic} at {stamp_ns}')

    def stamps(self, topic: str = 'disparity') -> list[int]:
        return [stamp_of(m) for m in list(self.received[topic])]

    def take_report(self, message: Any) -> None:
        """Keep the statuses of the node."""
        prefix, number = f'{self.target}: ', self.reports + 1
        found = {status.name.removeprefix(prefix): Status(
            number, stamp_of(message), status.level[0], status.message,
            {v.key: v.value for v in status.values})
            for status in message.status if status.name.startswith(prefix)}
        if found:
            self._statuses.append(found)
            self.reports = number

    def find_status(self, name: str, matches: Callable[[Status], Any] = lambda status: True,
                    after: int = 0) -> Status | None:
        """The first status that matches in the reports behind number ``after``, or None."""
        return next((found[name] for found in list(self._statuses) if name in found
                     and found[name].number > after and matches(found[name])), None)

    def wait_for_status(self, name: str, matches: Callable[[Status], Any] = lambda status: True,
                        limit: float = LIMIT, *, after: int | None = None) -> Status:
        """Wait for a status that matches, from now on or in the reports behind ``after``."""
        seen, end = self.reports if after is None else after, time.monotonic() + limit
        last = None
        while True:
            status = self.find_status(name, after=seen)
            if status is None:
                assert time.monotonic() < end, f'not within {limit:g} s; last {name}: {last}'
                self.check_running()
                time.sleep(0.005)
            elif matches(status):
                return status
            else:
                last, seen = status, status.number

    def status(self, name: str, *, after: int | None = None, level: int | None = None) -> Status:
        """The next status of this name, or the first behind report ``after``; of one level."""
        return self.wait_for_status(name, lambda status: level in (None, status.level),
                                    after=after)

    def check_running(self) -> None:
        """Called while a report is waited for."""

    def counts(self) -> dict[str, int]:
        """The counters of the next report, those of refused input included."""
        after = self.reports
        pairing = self.status('pairing', after=after).values
        refused = self.status('input', after=after).values
        return {k: int(v) for k, v in pairing.items()} | {
            k: int(v) for k, v in refused.items() if k.startswith('bad input: ')}

    def settled(self) -> dict[str, int]:
        """The counters at rest: of two reports that agree. They add up."""
        end, before = time.monotonic() + LIMIT, self.counts()
        while (values := self.counts()) != before:
            assert time.monotonic() < end, 'the counters do not come to rest'
            before = values
        assert not (wrong := unaccounted(values)), wrong
        return values

    def expect(self, before: Mapping[str, int], expected: Mapping[str, int],
               limit: float = LIMIT) -> dict[str, int]:
        """Wait until exactly these counters have changed by so much since ``before``.

        All of them must add up then; returns them.
        """
        end = time.monotonic() + limit
        while True:
            after = self.counts()
            changed = {k: v - before.get(k, 0) for k, v in after.items()
                       if v != before.get(k, 0)}
            if changed == {k: v for k, v in expected.items() if v}:
                assert not (wrong := unaccounted(after)), wrong
                return after
            assert time.monotonic() < end, f'changed: {changed}, expected: {expected}'

    # Services

    def call(self, kind: Any, name: str, limit: float = LIMIT, again_s: float = math.inf,
             **fields: Any) -> Any:
        """The answer of a service.

        :param again_s: seconds after which a request that changes nothing is sent again.
        """
        client = self.node.create_client(kind, f'{self.target}/{name}')
        try:
            return self._answer(client, kind.Request(**fields), limit, again_s)
        finally:
            self.node.destroy_client(client)

    def _answer(self, client: Any, request: Any, limit: float, again_s: float = math.inf) -> Any:
        """A client sees when it knows the service, not when the node knows the client: an answer
        given before that is lost."""
        assert client.wait_for_service(limit), client.srv_name
        sent: list[Any] = []
        last = -math.inf

        def answered() -> Any:
            nonlocal last
            if time.monotonic() - last > again_s or not sent:
                sent.append(client.call_async(request))
                last = time.monotonic()
            return next((future for future in sent if future.done()), None)

        return self.wait_until(answered, limit, f'an answer of {client.srv_name}').result()

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
                             START_LIMIT)

    def get_parameters(self, *names: str) -> dict[str, Any]:
        from rcl_interfaces.srv import GetParameters
        from rclpy.parameter import parameter_value_to_python

        values = self.call(GetParameters, 'get_parameters', again_s=ANSWER_LIMIT,
                           names=list(names)).values
        return {n: parameter_value_to_python(v) for n, v in zip(names, values, strict=True)}

    def change_state(self, transition: str | int, limit: float = START_LIMIT) -> bool:
        from lifecycle_msgs.msg import Transition
        from lifecycle_msgs.srv import ChangeState

        # This client has been answered once before its request counts. No state has the first
        # transition, so it is refused.
        client = self.node.create_client(ChangeState, f'{self.target}/change_state')
        try:
            for key, again_s in ({'label': NONE}, ANSWER_LIMIT), (
                    {'label' if isinstance(transition, str) else 'id': transition}, math.inf):
                answer = self._answer(client, ChangeState.Request(
                    transition=Transition(**key)), limit, again_s)
            return bool(answer.success)
        finally:
            self.node.destroy_client(client)

    def state(self) -> str:
        from lifecycle_msgs.srv import GetState

        return str(self.call(GetState, 'get_state', again_s=ANSWER_LIMIT).current_state.label)


def set_stamp(message: Any, stamp_ns: int) -> None:
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp_ns, 10**9)


def stamp_of(message: Any) -> int:
    return int(message.header.stamp.sec) * 10**9 + int(message.header.stamp.nanosec)


def unaccounted(values: Mapping[str, int]) -> list[str]:
    """What does not add up in counters of a status ``pairing``, in words.

    Every image that was received was published or dropped for a reason, or is known to wait.
    """
    pair_drops = sum(count for key, count in values.items() if key.startswith('dropped pairs: '))
    wrong = []
    accounted = values['published'] + pair_drops + values['held']
    if values['pairs'] != accounted:
        wrong.append(f'{values["pairs"]} pairs, but {accounted} published, dropped or held')
    for side in ('left', 'right'):
        drops = sum(count for key, count in values.items()
                    if key.startswith(f'dropped {side}: '))
        accounted = values['pairs'] + drops + values[f'waiting {side}']
        if values[f'received {side}'] != accounted:
            wrong.append(f'{values[f"received {side}"]} {side} images received, but {accounted} '
                         'paired, dropped or waiting')
    return wrong
