"""The four subscriptions: their callbacks note the time, pair, and hand the pair on."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
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
from stereo_bp_ros.images.stamps import SIDES, header_stamp
from stereo_bp_ros.issues import IssueCode
from stereo_bp_ros.node import qos
from stereo_bp_ros.node.diagnostics.issue_log import IssueLog
from stereo_bp_ros.node.diagnostics.monitors import TopicMonitor, TopicReport
from stereo_bp_ros.node.pairing import Pairing, StereoPair
from stereo_bp_ros.node.qos import QosWatch

#: Seconds between two looks at pairs that wait for their camera_info.
RELEASE_PERIOD_S = 0.02


class InputSubscriptions:
    """Subscribes to images and camera_info of both sides; made by activate.

    :param rectify: subscribe to raw images, which are rectified by the engine.
    :param group: one that runs one callback at a time, so that messages are paired in the order
        in which they came.
    :param deliver: is given every pair.
    :param on_camera_info: is told after every camera_info.
    :param now: seconds of the clock that silence is measured with.
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
        self.images: dict[str, TopicMonitor] = {}
        #: By side, topics that other settings would take images from, and those settings.
        self._other_images: dict[str, dict[str, str]] = {}
        self.infos: dict[str, TopicMonitor] = {}
        #: By side, the latest camera_info, and whether the latched subscription has brought it.
        self._latest_infos: dict[str, tuple[Any, bool]] = {}
        #: Sides with that subscription.
        self._latched: set[str] = set()
        self._lock, self._is_destroyed = threading.Lock(), False
        try:
            # The executor takes what is ready in this order: a pair whose camera_infos have
            # come with it need not wait for them.
            for side in SIDES:
                # Under its own name: derived from the image's it would ignore remapping.
                self.infos[side] = self._subscribe(CameraInfo, f'{side}/camera_info', side,
                                                   self._on_info)
            kind = CompressedImage if settings.image_transport == 'compressed' else Image
            for side in SIDES:
                (image, _), *others = self._image_topics(side, rectify).items()
                self.images[side] = self._subscribe(kind, image, side, self._on_image)
                self._other_images[side] = dict(others)
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
        """Of both image topics; where nobody publishes one, with what is published instead."""
        reports = []
        for side, monitor in self.images.items():
            publishers, instead = self._node.count_publishers(monitor.topic), ''
            if not publishers:
                instead = next((f'{topic} is published, which {settings} takes'
                                for topic, settings in self._other_images[side].items()
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

    def _image_topics(self, side: str, rectify: bool) -> dict[str, str]:
        """Every topic that images of a side may be on, with what differs from the settings there.

        That of the settings comes first, then others with the same images.
        """
        is_compressed = self._settings.image_transport == 'compressed'
        topics = {}
        for raw in (rectify, not rectify):
            image = self._node.resolve_topic_name(f'{side}/{"image_raw" if raw else "image_rect"}')
            for packed in (is_compressed, not is_compressed):
                # As image_transport has it: whoever remaps the image remaps this too.
                topics[f'{image}/compressed' if packed else image] = ' '.join([
                    *[f'rectify:={str(raw).lower()}'] * (raw != rectify),
                    *[f'image_transport:={"compressed" if packed else "raw"}'] * (
                        packed != is_compressed)])
        return topics

    def _subscribe(self, kind: type, topic: str, side: str,
                   callback: Callable[[str, Any], None]) -> TopicMonitor:
        resolved = self._node.resolve_topic_name(topic)
        self._subscriptions.append(self._node.create_subscription(
            kind, topic, functools.partial(callback, side),
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

    def _on_image(self, side: str, message: Any) -> None:
        received = time.perf_counter()
        with self._guarded():
            stamp_ns = header_stamp(message)
            self.images[side].tick(self._now(), message, stamp_ns)
            self._hand_on(self._pairing.add_image(side, message, stamp_ns, received))

    def _on_info(self, side: str, message: Any, is_latched: bool = False) -> None:
        with self._guarded():
            latest, was_latched = self._latest_infos.get(side, (None, is_latched))
            if was_latched != is_latched and latest == message:
                return
            self._latest_infos[side] = message, is_latched
            self.infos[side].tick(self._now(), message)
            self._hand_on(self._pairing.add_camera_info(side, message, header_stamp(message)))
            self._on_camera_info()

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
