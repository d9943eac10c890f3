"""Publishes a source over ROS at its own pace."""

from __future__ import annotations

import dataclasses
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator

import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CameraInfo, CompressedImage, Image

from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.images.stamps import APART_S
from stereo_bp_ros.replay import frames
from stereo_bp_ros.replay.listening import Spinner
from stereo_bp_ros.replay.source import Event, Source
from stereo_bp_ros.sources import bags

_CLASSES = {bags.IMAGE: Image, bags.COMPRESSED_IMAGE: CompressedImage,
            bags.CAMERA_INFO: CameraInfo}
_CLOCK_PERIOD_S = 0.005
_PREFETCH = 32
#: How far ahead of the first message of a loop /clock begins, so that it arrives first.
_LEAD_S = 0.05

#: Messages per topic that a publisher keeps for reliable subscribers: a further one takes the
#: place of the oldest, whether it has arrived or not.
DEPTH = 10

#: Seconds of a recording without a message that are played; what is beyond is left out.
MAX_GAP_S = 60.0

#: Clocks that the stamps of a recording may be of.
MAX_CLOCKS = 4

#: Times fit messages up to here, nanoseconds: the end of January 19, 2038.
_LATEST_NS = 2**31 * 10**9 - 1

_log = logging.getLogger(__name__)

#: Seconds that a player with /clock waits for a subscriber that acknowledges nothing.
ACKNOWLEDGE_LIMIT_S = 10.0


@dataclasses.dataclass
class PlayReport:
    """What was published: messages per topic, pairs, and how late the latest message was.

    waited_s: how long /clock was paused until subscribers had what was published, except for the
        first message of each topic.
    skipped_s: what gaps of the recording were shortened by, seconds of the recording.
    """

    sent: dict[str, int]
    seconds: float = 0.0
    worst_delay_ms: float = 0.0
    waited_s: float = 0.0
    skipped_s: float = 0.0

    @property
    def pairs(self) -> int:
        """Left images published."""
        return next((n for topic, n in self.sent.items() if topic.startswith('left/image')), 0)


class Player:
    """Publishes left and right images with camera_info on the node's relative topics.

    Publishers are reliable with depth ``DEPTH``, so that reliable and best-effort subscribers
    match.

    :param clock: also publish /clock, so that ``use_sim_time`` nodes live in the time of the
        source; stamps then stay as they are. Else every stamp becomes the time of publishing,
        whatever clock it is of: all are moved alike, so that what belongs together by its stamps
        still does. /clock goes back at each loop, before its first message. It stands still
        while a reliable subscriber lacks ``DEPTH`` messages of a topic, so that a busy machine
        loses none.
    :param longest_gap_s: a longer time without a message, also one that a damaged time of a
        recording makes, is shortened to this, and said. In seconds of the recording.
    """

    def __init__(self, node: Node, source: Source, *, rate: float = 1.0, clock: bool = False,
                 longest_gap_s: float = MAX_GAP_S) -> None:
        if rate <= 0:
            raise StereoError(f'rate is {rate:g}, but must be > 0')
        self._longest_gap_ns = round(longest_gap_s * 1e9)
        self._offsets_ns: list[int] = []        # from stamps to times, the latest in use first
        self._moved: set[str] = set()           # topics whose change of offset was said
        self._node = node
        self._source = source
        self._rate = rate
        qos = QoSProfile(depth=DEPTH, reliability=ReliabilityPolicy.RELIABLE)
        self._publishers: dict[str, Publisher] = {
            topic: node.create_publisher(_CLASSES[kind], topic, qos)
            for topic, kind in source.types.items()}
        self._clock = node.create_publisher(Clock, '/clock', 10) if clock else None
        self._unacknowledged = dict.fromkeys(source.types, 0)
        self._known: set[str] = set()       # topics whose subscribers have acknowledged any
        self._waits = clock

    def wait_for_subscribers(self, timeout_s: float) -> list[str]:
        """Wait until every topic has a subscriber; returns the topics that have none.

        :raises StereoError: a topic has none, and a node of this namespace cannot become active.
        """
        deadline = time.monotonic() + timeout_s
        failures: dict[str, str] = {}
        diagnostics = self._node.create_subscription(
            DiagnosticArray, '/diagnostics', lambda m: failures.update(frames.failures(m)),
            QoSProfile(depth=64, reliability=ReliabilityPolicy.BEST_EFFORT))
        spinner = Spinner(self._node, 'replay_waiting')
        try:
            while True:
                alone = [p.topic_name for p in self._publishers.values()
                         if p.get_subscription_count() == 0]
                if not alone or time.monotonic() > deadline or not rclpy.ok():
                    return alone
                if failure := frames.failure_in(self._node.get_namespace(), dict(failures)):
                    raise StereoError(failure)
                time.sleep(0.05)
        finally:
            spinner.close()
            self._node.destroy_subscription(diagnostics)

    def play(self, loops: int = 1, progress: Callable[[int], None] | None = None) -> PlayReport:
        """Publish the whole source ``loops`` times (0 = until ROS shuts down).

        ``progress`` is called with the number of pairs published so far.

        :raises StereoError: the source cannot be read.
        """
        report = PlayReport(dict.fromkeys(self._source.types, 0))
        start = time.perf_counter()
        loop = 0
        while rclpy.ok() and (loops == 0 or loop < loops):
            self._play_once(report, progress)
            loop += 1
        deadline = time.perf_counter() + ACKNOWLEDGE_LIMIT_S
        for publisher in self._publishers.values():
            _wait_until_acknowledged(publisher, deadline)
        report.seconds = time.perf_counter() - start
        return report

    def _play_once(self, report: PlayReport, progress: Callable[[int], None] | None) -> None:
        first_ns: int | None = None     # of the source; later by what is left out of gaps
        begin = begin_wall_ns = 0.0
        last_ns = 0
        for event in _prefetched(self._source.events()):
            time_ns = min(max(0, event.time_ns), _LATEST_NS)
            if first_ns is None:
                first_ns, begin = time_ns, time.perf_counter() + _LEAD_S
                begin_wall_ns = time.time_ns() + _LEAD_S * 1e9
            elif time_ns - last_ns > self._longest_gap_ns:
                first_ns += self._skip(report, last_ns, time_ns)
            last_ns = time_ns
            elapsed_ns = (time_ns - first_ns) / self._rate
            self._wait(begin, begin + elapsed_ns / 1e9, first_ns, time_ns)
            waited_s, behind_s = self._wait_for_room(event.topic)
            report.waited_s += behind_s
            begin += waited_s
            if not rclpy.ok():
                return
            data = bytes(event.data)
            # An image without a stamp stays one, which the node rejects.
            if self._clock is None and ((stamp_ns := bags.stamp_of(data))
                                        or event.topic.endswith('camera_info')):
                stamp_ns += self._offset_ns(event.topic, stamp_ns, time_ns)
                data = bags.with_stamp(
                    data, int(begin_wall_ns + (stamp_ns - first_ns) / self._rate))
            self._publishers[event.topic].publish(data)
            delay_ms = (time.perf_counter() - begin) * 1e3 - elapsed_ns / 1e6
            report.worst_delay_ms = max(report.worst_delay_ms, delay_ms)
            report.sent[event.topic] += 1
            if progress and event.topic.startswith('left/image'):
                progress(report.pairs)

    def _offset_ns(self, topic: str, stamp_ns: int, time_ns: int) -> int:
        """What makes a stamp the time of its recording, to ``APART_S``: the same for all stamps
        of one clock, because their differences are to stay."""
        own_ns = time_ns - stamp_ns
        offset_ns = next((one for one in self._offsets_ns if abs(own_ns - one) <= APART_S * 1e9),
                         own_ns)
        if self._offsets_ns and offset_ns not in self._offsets_ns and topic not in self._moved:
            self._moved.add(topic)
            _log.warning('stamps of %s are %.3f s off the times of recording at %.3f s, and '
                         'others %.3f s: another clock, or damaged; each becomes the time of '
                         'publishing, and images may have no partner', topic, -own_ns / 1e9,
                         time_ns / 1e9, -self._offsets_ns[0] / 1e9)
        self._offsets_ns = [offset_ns, *(
            one for one in self._offsets_ns if one != offset_ns)][:MAX_CLOCKS]
        return offset_ns

    def _skip(self, report: PlayReport, last_ns: int, time_ns: int) -> int:
        """Say that the gap between two times is shortened; returns by how many nanoseconds."""
        skipped_ns = time_ns - last_ns - self._longest_gap_ns
        report.skipped_s += skipped_ns / 1e9
        _log.warning(
            'no message was recorded from %.3f s to %.3f s: this gap of %.3f s is shortened to '
            '%g s (--longest-gap). If the recording had no pause, its times are damaged',
            last_ns / 1e9, time_ns / 1e9, (time_ns - last_ns) / 1e9, self._longest_gap_ns / 1e9)
        return skipped_ns

    def _wait_for_room(self, topic: str) -> tuple[float, float]:
        """Wait until the next message of a topic overwrites none that is on its way.

        Returns the seconds that it took, and those of them that a subscriber was behind.
        """
        publisher, count = self._publishers[topic], self._unacknowledged[topic]
        # A subscriber that this publisher knows need not know it yet, and gets what was published
        # meanwhile seconds later: the first message goes alone.
        is_first = topic not in self._known and count > 0
        waited_s = behind_s = 0.0
        if self._waits and (is_first or count >= DEPTH // 2):
            start = time.perf_counter()
            # From the half on it is asked whether all have arrived, as they usually have.
            limit_s = ACKNOWLEDGE_LIMIT_S if is_first or count >= DEPTH else 0.0
            has_all = _wait_until_acknowledged(publisher, start + limit_s)
            if limit_s:
                waited_s = time.perf_counter() - start
                behind_s = 0.0 if is_first and has_all else waited_s
                self._waits = has_all       # not again for one that has stopped for good
            if has_all:
                self._known.add(topic)
                count = 0
        self._unacknowledged[topic] = count + 1
        return waited_s, behind_s

    def _wait(self, begin: float, due: float, first_ns: int, due_ns: int) -> None:
        while rclpy.ok():
            now = time.perf_counter()
            if self._clock is not None:
                time_ns = first_ns + round((now - begin) * 1e9 * self._rate)
                self._clock.publish(bytes(bags.serialize_clock(
                    due_ns if now >= due else min(max(0, time_ns), due_ns))))
            if now >= due:
                return
            time.sleep(min(_CLOCK_PERIOD_S, due - now))


def _wait_until_acknowledged(publisher: Publisher, deadline: float) -> bool:
    """Whether every reliable subscriber has every message, in time (``time.perf_counter``)."""
    while rclpy.ok():
        left_s = max(0.0, deadline - time.perf_counter())
        # In steps, so that an interruption ends it.
        if publisher.wait_for_all_acked(rclpy.duration.Duration(seconds=min(0.1, left_s))):
            return True
        if not left_s:
            break
    return False


def _prefetched(events: Iterator[Event]) -> Iterator[Event]:
    """The same events, read ahead by a thread so that files never delay publishing."""
    ready: queue.Queue[Event | BaseException | None] = queue.Queue(_PREFETCH)
    stop = threading.Event()

    def put(item: Event | BaseException | None) -> None:
        while not stop.is_set():
            try:
                ready.put(item, timeout=0.1)
                return
            except queue.Full:
                continue

    def read() -> None:
        try:
            for event in events:
                put(event)
                if stop.is_set():
                    return
            put(None)
        except Exception as error:      # handed to the consumer, who raises it
            put(error)

    reader = threading.Thread(target=read, name='replay_reader', daemon=True)
    reader.start()
    try:
        while True:
            item = ready.get()
            if item is None:
                return
            if isinstance(item, BaseException):
                raise StereoError(f'the source cannot be read: {item}') from item
            yield item
    finally:
        stop.set()
        reader.join()
