"""Subscribes to running nodes for a viewer: the latest of each topic, nothing is queued.

Subscriptions are best effort, which every publisher fits and none waits for. Messages are decoded
only once they are shown.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import logging
import math
import os
import re
import threading
import time
import types
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.context import Context
from rclpy.node import NodeNameNonExistentError
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import CameraInfo, CompressedImage, Image, PointCloud2
from stereo_msgs.msg import DisparityImage

from stereo_bp_ros.cameras.calibration import Calibration, projection
from stereo_bp_ros.errors import StereoError, printable, reason_of
from stereo_bp_ros.images import encoded_images
from stereo_bp_ros.images.raw_images import RawImage, check_limits
from stereo_bp_ros.images.stamps import header_stamp
from stereo_bp_ros.replay import frames
from stereo_bp_ros.replay.listening import Spinner, absolute, listener, namespace_of
from stereo_bp_ros.replay.viewing import LIVE, Sink

_log = logging.getLogger(__name__)

#: Seconds between two looks at which nodes there are.
LOOK_S = 0.5

#: Messages of small topics that wait until they are shown; of pictures one does.
SMALL = 64

#: Pixels of the longer side of a compressed image.
MAX_SIDE = 8192

#: Of a status, by its level: in the log, and in the table.
LEVELS = ('INFO', 'WARN', 'ERROR', 'ERROR')
STATES = ('ok', 'WARN', 'ERROR', 'STALE')

#: How topics of results end beside the disparity, and what they carry.
RESULTS: Mapping[str, tuple[str, type]] = {
    'confidence': ('confidence', Image), 'points': ('points2', PointCloud2),
    'latency': ('latency', DiagnosticArray), 'camera_info': ('depth/camera_info', CameraInfo)}


@dataclasses.dataclass
class Camera:
    """A node that is shown.

    name: its namespace, or its own name; of all that is sent about it.
    node: fully qualified.
    topics: those found so far, by what they show.
    inputs: keys of its status input: its topics, in their order.
    received, shown: disparity images.
    """

    name: str
    node: str
    topics: dict[str, str] = dataclasses.field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    received: int = 0
    shown: int = 0
    stamp_ns: int = 0
    frame: int = 0
    last_ns: int = 0
    told: dict[str, tuple[int, str]] = dataclasses.field(default_factory=dict)
    waiting: dict[str, collections.deque[tuple[type, bytes]]] = (
        dataclasses.field(default_factory=dict))


class Watch:
    """Shows nodes in a sink until it is left; a context manager with a thread for messages.

    :param namespaces: of the nodes; none: of all that publish a disparity.
    :param without: what is not subscribed to: 'left', 'confidence' or 'points'.
    :param context: of rclpy; None: one of its own.
    """

    def __init__(self, sink: Sink, namespaces: Sequence[str] = (), *,
                 without: Collection[str] = (), context: Context | None = None) -> None:
        self._sink, self._without = sink, without
        self._wanted = set(map(absolute, namespaces))
        self._context = context
        #: The thread for messages adds to it while others read.
        self._cameras: dict[str, Camera] = {}
        self._failures: dict[str, str] = {}
        self._arrived, self._closing = threading.Event(), threading.Event()
        self._looked_s = -math.inf
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Watch:
        self._node = self._stack.enter_context(listener('stereo_bp_view', self._context))
        self._diagnostics: collections.deque[bytes] = collections.deque(maxlen=SMALL)
        self._subscribe(DiagnosticArray, '/diagnostics',
                        lambda data: self._diagnostics.append(data), SMALL)
        self._stack.callback(Spinner(self._node, 'view', self._look_again).close)
        shows = threading.Thread(target=self._show, name='view', daemon=True)
        shows.start()
        self._stack.callback(shows.join, 10)
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._arrived.set()
        self._stack.close()

    @property
    def names(self) -> list[str]:
        """Of the cameras that are shown."""
        return sorted(camera.name for camera in list(self._cameras.values()))

    @property
    def summary(self) -> str:
        """How many frames were shown, in words."""
        return ', '.join(
            f'{camera.name}: {camera.shown} of {camera.received} disparity images shown'
            for camera in list(self._cameras.values()))

    def wait_for_nodes(self, seconds: float) -> None:
        """Until every node that is wanted is there.

        :raises StereoError: it does not come in time; says which do.
        """
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self._cameras and not self._missing():
                return
            time.sleep(0.05)
        others = sorted({namespace for _, namespace, _ in self._publishers()})
        if others:
            raise StereoError(
                f'no node in {", ".join(self._missing())} publishes a disparity; those in '
                f'{", ".join(others)} do: --namespace names one')
        raise StereoError(
            f'no node publishes a disparity within {seconds:g} s, in ROS domain '
            f'{os.environ.get("ROS_DOMAIN_ID", "0")}: start stereo_bp_node there, or give it '
            'more time with --wait')

    def run(self, seconds: float | None = None) -> None:
        """Until the time is over, the viewer is closed, or Ctrl-C.

        :raises ValueError: as ``Sink.check``.
        """
        end = None if seconds is None else time.monotonic() + seconds
        with contextlib.suppress(KeyboardInterrupt):
            while self._sink.is_open() and (end is None or time.monotonic() < end):
                self._sink.check()
                time.sleep(0.05)

    def _missing(self) -> list[str]:
        return sorted(self._wanted - set(map(namespace_of, list(self._cameras))))

    def _publishers(self) -> list[tuple[str, str, str]]:
        """Topic, namespace and name of each node that publishes a disparity."""
        return [(topic, one.node_namespace, one.node_name)
                for topic, kinds in self._node.get_topic_names_and_types()
                if 'stereo_msgs/msg/DisparityImage' in kinds
                for one in self._node.get_publishers_info_by_topic(topic)
                # For a moment DDS knows a publisher, and not yet whose it is.
                if one.node_namespace.startswith('/')]

    def _look_again(self) -> None:
        """Subscribe to what has come since, every ``LOOK_S``."""
        if time.monotonic() - self._looked_s <= LOOK_S:
            return
        self._looked_s = time.monotonic()
        for topic, namespace, name in self._publishers():
            node = f'{namespace.rstrip("/")}/{name}'
            if self._wanted and namespace not in self._wanted:
                continue
            if node not in self._cameras:
                title = namespace.strip('/') or name
                if title in self.names:
                    title = node.strip('/')
                camera = self._cameras[node] = Camera(printable(title), node)
                self._sink.lay_out({camera.name: [
                    kind for kind in LIVE if kind.split('/')[-1] not in self._without]})
                self._add(camera, 'disparity', topic, DisparityImage)
            self._find_topics(self._cameras[node], name, namespace)

    def _find_topics(self, camera: Camera, name: str, namespace: str) -> None:
        """A node that is not active yet subscribes to no images."""
        with contextlib.suppress(NodeNameNonExistentError):
            published = self._node.get_publisher_names_and_types_by_node(name, namespace)
            for kind, (end, message) in RESULTS.items():
                for topic, _ in published:
                    if topic.endswith(f'/{end}'):
                        self._add(camera, kind, topic, message)
            images = {topic: one for topic, kinds in
                      self._node.get_subscriber_names_and_types_by_node(name, namespace)
                      for one in (Image, CompressedImage)
                      if f'sensor_msgs/msg/{one.__name__}' in kinds}
            # Cameras have names of their own, e.g. infra1: the node tells the left one first.
            for topic in (*camera.inputs, *(
                    one for one in images if 'left' in one.removeprefix(namespace))):
                if topic in images:
                    self._add(camera, 'left', topic, images[topic])

    def _add(self, camera: Camera, kind: str, topic: str, message: type) -> None:
        if kind in camera.topics or kind in self._without:
            return
        camera.topics[kind] = topic
        depth = SMALL if kind == 'latency' else 1
        camera.waiting[kind] = collections.deque(maxlen=depth)
        self._subscribe(message, topic, functools.partial(self._take, camera, kind, message),
                        depth)

    def _subscribe(self, kind: type, topic: str, take: Callable[[bytes], None], depth: int
                   ) -> None:
        self._node.create_subscription(
            kind, topic, take, QoSProfile(
                depth=depth, reliability=ReliabilityPolicy.BEST_EFFORT), raw=True)

    def _take(self, camera: Camera, kind: str, message: type, data: bytes) -> None:
        camera.received += kind == 'disparity'
        camera.waiting[kind].append((message, data))
        self._arrived.set()

    def _show(self) -> None:
        while not self._closing.is_set():
            self._arrived.wait(0.2)
            self._arrived.clear()
            for camera in list(self._cameras.values()):
                for kind, waiting in list(camera.waiting.items()):
                    while waiting and not self._closing.is_set():
                        self._show_one(camera, kind, *waiting.popleft())
            while self._diagnostics:
                with self._telling_of('/diagnostics'):
                    self._show_diagnostics(deserialize_message(
                        self._diagnostics.popleft(), DiagnosticArray))
            # The next round takes what is the latest by then.
            while not self._sink.flush() and not self._closing.wait(0.1):
                pass

    @contextlib.contextmanager
    def _telling_of(self, topic: str) -> Iterator[None]:
        """A message that others send may be anything: it is named, and the next one shown."""
        try:
            yield
        except Exception as error:
            text = f'{topic} cannot be shown: {reason_of(error)}'
            if self._failures.get(topic) != text:
                self._failures[topic] = text
                _log.warning(text)

    def _show_one(self, camera: Camera, kind: str, message: type, data: bytes) -> None:
        with self._telling_of(camera.topics[kind]):
            found = deserialize_message(data, message)
            stamp_ns = header_stamp(found)
            if stamp_ns > camera.stamp_ns or stamp_ns < camera.stamp_ns - 10**9:
                camera.stamp_ns = stamp_ns
                camera.frame += 1
            self._sink.at(camera.frame, stamp_ns)
            getattr(self, f'_show_{kind}')(camera, found)

    def _show_left(self, camera: Camera, message: Any) -> None:
        if isinstance(message, CompressedImage):
            pixels = encoded_images.decode(bytes(message.data), ('PNG', 'JPEG'), functools.partial(
                check_limits, max_width=MAX_SIDE, max_height=MAX_SIDE))
            image = RawImage.from_array(pixels, 'bgr8' if pixels.ndim == 3 else None)
        else:
            image = RawImage.from_message(message)
        self._sink.left(camera.name, image)

    def _show_disparity(self, camera: Camera, message: Any) -> None:
        disparity = _floats(message.image)
        self._sink.disparity(camera.name, (disparity, disparity >= message.min_disparity))
        camera.shown += 1

    def _show_confidence(self, camera: Camera, message: Any) -> None:
        self._sink.confidence(camera.name, _floats(message))

    def _show_camera_info(self, camera: Camera, message: Any) -> None:
        p = projection('left', message)
        self._sink.camera(camera.name, Calibration(p[0], 1.0, p[2], p[2], p[6], p[5]),
                          message.width, message.height)

    def _show_points(self, camera: Camera, message: Any) -> None:
        offsets = {field.name: field.offset // 4 for field in message.fields}
        points = np.frombuffer(message.data, np.float32).reshape(-1, message.point_step // 4)
        self._sink.points(camera.name, points[:, [
            offsets[name] for name in ('x', 'y', 'z', 'rgb')]])

    def _show_latency(self, camera: Camera, message: Any) -> None:
        # Stages that a configuration does not have take no time.
        self._sink.numbers(camera.name, 'latency_ms', {
            pair.key: float(pair.value) for pair in message.status[0].values
            if float(pair.value)})
        stamp_ns = header_stamp(message)
        if 0 < stamp_ns - camera.last_ns < 10**10:
            self._sink.numbers(camera.name, 'rate_hz', 1e9 / (stamp_ns - camera.last_ns))
        camera.last_ns = stamp_ns

    def _show_diagnostics(self, message: Any) -> None:
        for camera in list(self._cameras.values()):
            own = types.SimpleNamespace(status=[
                one for one in message.status if one.name.startswith(f'{camera.node}: ')])
            if not own.status:
                continue
            camera.inputs = next((tuple(pair.key for pair in one.values) for one in own.status
                                  if one.name.endswith(': input')), ())
            self._sink.at(camera.frame, header_stamp(message))
            values = {pair.key: pair.value for one in own.status for pair in one.values}
            counters = frames.counters(own)
            # The table of the status has the reasons.
            self._sink.numbers(camera.name, 'dropped', sum(
                sum(frames.drops(counters, what).values())
                for what in ('left', 'right', 'pairs')))
            for kind, key in (('vertical_offset_px', 'vertical offset px'),
                              ('memory_mib', 'memory')):
                number = re.match(r'-?[0-9.]+', values.get(key, ''))
                if number:
                    self._sink.numbers(camera.name, kind, float(number[0]))
            rows = ['| | level | |', '| --- | --- | --- |']
            for one in own.status:
                level, text = one.level[0], printable(one.message, 1000)
                title = one.name.partition(': ')[2]
                rows.append(f'| {title} | {STATES[level]} | {text} |')
                words = re.sub(r'[0-9.]+', '#', text)
                if camera.told.get(title) != (level, words):
                    camera.told[title] = level, words
                    self._sink.text(camera.name, LEVELS[level], f'{title}: {text}')
            rows += ['', '| | |', '| --- | --- |',
                     *(f'| {key} | {printable(str(value), 200)} |'
                       for key, value in values.items() if value != '0')]
            self._sink.status(camera.name, '\n'.join(rows))


def _floats(image: Any) -> np.ndarray:
    """The pixels of a 32FC1 image, H x W."""
    if image.encoding != '32FC1':
        raise ValueError(f'its encoding is {image.encoding}, not 32FC1')
    return np.frombuffer(image.data, '>f4' if image.is_bigendian else '<f4').reshape(
        image.height, image.step // 4)[:, :image.width]
