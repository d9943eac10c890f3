"""The subscriptions of a pair: their callbacks note the time, pair, and hand the pair on."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.subscription import Subscription
from rclpy.timer import Timer
from sensor_msgs.msg import CameraInfo, CompressedImage, Image

from stereo_bp_ros.config.node import NodeConfig
from stereo_bp_ros.errors import described
from stereo_bp_ros.images.side_by_side import infos_of_halves
from stereo_bp_ros.images.stamps import SIDES, header_stamp
from stereo_bp_ros.issues import IssueCode
from stereo_bp_ros.node import qos
from stereo_bp_ros.node.calibration_file import read_camera_infos
from stereo_bp_ros.node.diagnostics.issue_log import IssueLog
from stereo_bp_ros.node.diagnostics.monitors import TopicMonitor, TopicReport
from stereo_bp_ros.node.pairing import Pairing, StereoPair
from stereo_bp_ros.node.qos import QosWatch

#: Seconds between two looks at pairs that wait for their camera_info.
RELEASE_PERIOD_S = 0.02


class InputSubscriptions:
    """Subscribes to images and camera_info of both sides; made by activate.

    An image of a side-by-side camera counts as one of either side, and is its own partner.

    :param rectify: subscribe to raw images, which are rectified by the engine.
    :param group: one that runs one callback at a time, so that messages are paired in the order
        in which they came.
    :param deliver: is given every pair.
    :param on_camera_info: is called after every camera_info.
    :param now: seconds of the clock that silence is measured with.
    :raises ValueError: the calibration file cannot be read.
    """

    def __init__(self, node: Node, *, rectify: bool, group: CallbackGroup, settings: NodeConfig,
                 pairing: Pairing, issues: IssueLog, qos_watch: QosWatch,
                 deliver: Callable[[StereoPair], None], on_camera_info: Callable[[], None],
                 now: Callable[[], float]) -> None:
        self._node = node
        self._pairing = pairing
        self._issues = issues
        self._qos_watch = qos_watch
        self._deliver = deliver
        self._on_camera_info = on_camera_info
        self._now = now
        self._group = group
        self._settings = settings
        self._subscriptions: list[Subscription] = []
        self._timer: Timer | None = None
        #: By the sides that its images are of.
        self.images: dict[tuple[str, ...], TopicMonitor] = {}
        #: By the same, topics that other settings would take images from, and those settings.
        self._other_images: dict[tuple[str, ...], dict[str, str]] = {}
        #: By side; none where a file has the camera_infos.
        self.infos: dict[str, TopicMonitor] = {}
        #: By side, those of the file until the first image says of which frame they are.
        self._file_infos = read_camera_infos(
            settings.calibration, rectify, (settings.image_width, settings.image_height)
        ) if settings.calibration else {}
        #: By side, the latest camera_info, and whether the latched subscription has brought it.
        self._latest_infos: dict[str, tuple[Any, bool]] = {}
        #: Sides with that subscription.
        self._latched: set[str] = set()
        self._lock, self._is_destroyed = threading.Lock(), False
        try:
            # The executor takes what is ready in this order: a pair whose camera_infos have
            # come with it need not wait for them.
            for side in () if settings.calibration else SIDES:
                # Under its own name: derived from the image's it would ignore remapping.
                self.infos[side] = self._subscribe(
                    CameraInfo, f'{side}/camera_info', functools.partial(self._on_info, side))
            if settings.is_side_by_side and not (rectify or settings.calibration):
                self._subscribe(CameraInfo, 'camera_info', self._on_joined_info)
            kind = CompressedImage if settings.image_transport == 'compressed' else Image
            for sides in (SIDES,) if settings.is_side_by_side else ((side,) for side in SIDES):
                (image, _), *others = self._image_topics(sides, rectify).items()
                self.images[sides] = self._subscribe(
                    kind, image, functools.partial(self._on_image, sides))
                self._other_images[sides] = dict(others)
            # Of steady time: a pair waits in real time, whatever /clock does.
            self._timer = node.create_timer(
                RELEASE_PERIOD_S, self._on_timer, callback_group=group,
                clock=Clock(clock_type=ClockType.STEADY_TIME))
            self._timer.cancel()
        except BaseException:
            self.destroy()
            raise

    def destroy(self) -> None:
        """End the subscriptions; a callback that is running is not waited for."""
        with self._lock:
            self._is_destroyed = True
        while self._subscriptions:
            self._node.destroy_subscription(self._subscriptions.pop())
        timer, self._timer = self._timer, None
        if timer is not None:
            self._node.destroy_timer(timer)

    def image_reports(self, now: float) -> list[TopicReport]:
        """Of every image topic; where nobody publishes it, with what is published instead."""
        reports = []
        for sides, monitor in self.images.items():
            publishers, instead = self._node.count_publishers(monitor.topic), ''
            if not publishers:
                instead = next((f'{topic} is published, which {settings} takes'
                                for topic, settings in self._other_images[sides].items()
                                if self._node.count_publishers(topic)), '')
            reports.append(monitor.report(now, publishers, instead))
        return reports

    def info_reports(self, now: float) -> dict[str, TopicReport]:
        """Of both camera_info topics; a latched one need not be published again."""
        reports = {side: monitor.report(now) for side, monitor in self.infos.items()}
        for side, report in reports.items():
            if not qos.is_latched(self._node, report.topic):
                continue
            if report.seen:
                reports[side] = dataclasses.replace(report, silent=0.0)
            elif side not in self._latched:
                self._subscribe_latched(f'{side}/camera_info', side)
        return reports

    def _image_topics(self, sides: tuple[str, ...], rectify: bool) -> dict[str, str]:
        """Every topic that images of a side may be on, with what differs from the settings there.

        That of the settings comes first, then others with the same images.
        """
        is_compressed = self._settings.image_transport == 'compressed'
        is_joined = self._settings.is_side_by_side
        topics = {}
        for joined, raw, packed in itertools.product(
                (is_joined, not is_joined), (rectify, not rectify),
                (is_compressed, not is_compressed)):
            image = self._node.resolve_topic_name(
                ('' if joined else f'{sides[0]}/') + ('image_raw' if raw else 'image_rect'))
            # As image_transport has it: whoever remaps the image remaps this too.
            topics[f'{image}/compressed' if packed else image] = ' '.join([
                *[f'rectify:={str(raw).lower()}'] * (raw != rectify),
                *[f'image_transport:={"compressed" if packed else "raw"}'] * (
                    packed != is_compressed),
                *[f'side_by_side:={"left_right" if joined else "off"}'] * (joined != is_joined)])
        return topics

    def _subscribe(self, kind: type, topic: str, callback: Callable[[Any], None]
                   ) -> TopicMonitor:
        resolved = self._node.resolve_topic_name(topic)
        self._subscriptions.append(self._node.create_subscription(
            kind, topic, callback,
            qos.subscription(self._settings.use_system_default_qos),
            callback_group=self._group,
            event_callbacks=self._qos_watch.subscription(resolved),
            qos_overriding_options=qos.overriding_options()))
        return TopicMonitor(resolved, self._now())

    def _subscribe_latched(self, topic: str, side: str) -> None:
        """Receive what was published before the node was there.

        Only a reliable and transient local subscription gets that, and it gets nothing from
        other publishers. So it is one more where it is needed, for every one costs each frame
        time, and what both bring counts once.
        """
        with self._lock:
            if self._is_destroyed:
                return
            self._latched.add(side)
            self._subscriptions.append(self._node.create_subscription(
                CameraInfo, topic, functools.partial(self._on_info, side, is_latched=True),
                qos.latched(), callback_group=self._group,
                event_callbacks=self._qos_watch.optional_subscription()))

    def _on_image(self, sides: tuple[str, ...], message: Any) -> None:
        received = time.perf_counter()
        with self._guarded():
            stamp_ns = header_stamp(message)
            self.images[sides].tick(self._now(), message, stamp_ns)
            for side in sides:
                self._use_file(side, message)
                self._hand_on(self._pairing.add_image(side, message, stamp_ns, received))

    def _use_file(self, side: str, image: Any) -> None:
        """Take the camera_info of the file in with the first image, whose frame it gets."""
        info = self._file_infos.pop(side, None)
        if info is not None:
            info.header.frame_id = image.header.frame_id
            self._hand_on(self._pairing.add_camera_info(side, info, header_stamp(info)))
            self._on_camera_info()

    def _on_info(self, side: str, message: Any, is_latched: bool = False) -> None:
        with self._guarded():
            latest, was_latched = self._latest_infos.get(side, (None, is_latched))
            if was_latched != is_latched and latest == message:
                return
            self._latest_infos[side] = message, is_latched
            self.infos[side].tick(self._now(), message)
            self._hand_on(self._pairing.add_camera_info(side, message, header_stamp(message)))
            self._on_camera_info()

    def _on_joined_info(self, message: Any) -> None:
        """Take one of both cameras; drivers publish one without a baseline, of no pair."""
        if message.p[3]:
            for side, info in infos_of_halves(message).items():
                self._on_info(side, info)

    def _on_timer(self) -> None:
        with self._guarded():
            self._hand_on(self._pairing.release())

    def _hand_on(self, pairs: list[StereoPair]) -> None:
        for pair in pairs:
            self._deliver(pair)
        # The timer runs only while it has something to release.
        timer = self._timer
        if timer is not None and self._pairing.is_timed == timer.is_canceled():
            if self._pairing.is_timed:
                timer.reset()
            else:
                timer.cancel()

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """An exception that left a callback would end the executor, and with it the node."""
        try:
            yield
        except Exception as error:
            if self._timer is not None:         # else it is one of the end of the subscriptions
                self._issues.add(IssueCode.INPUT,
                                 f'a message could not be taken in: {described(error)}')
