"""What a recorded run says: frames accounted for, latency by stage, answers judged."""

from __future__ import annotations

import collections
import dataclasses
import logging
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rosbags.highlevel import AnyReader
from rosbags.typesys import Stores, get_typestore

from stereo_bp_ros.checks import checks, truth_checks
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.config.settings import Value
from stereo_bp_ros.engines import geometry
from stereo_bp_ros.errors import InputError
from stereo_bp_ros.evaluation.method import Method
from stereo_bp_ros.evaluation.results import Figures, Result
from stereo_bp_ros.evaluation.runs import COMPARED_TRUTHS
from stereo_bp_ros.evaluation.showing import Showing, View
from stereo_bp_ros.frame.disparity_frame import DisparityFrame
from stereo_bp_ros.images.stamps import header_stamp
from stereo_bp_ros.issues import Issue, IssueCode
from stereo_bp_ros.replay.session import SessionResult
from stereo_bp_ros.replay.source import stamp_of
from stereo_bp_ros.sources.pairs import Pair
from stereo_bp_ros.stream.observer import Pair as Observed
from stereo_bp_ros.stream.observer import PairObserver

if TYPE_CHECKING:
    from stereo_bp_ros.replay.viewing import Sink

#: What a node is called among the matchers of a report.
MATCHER = 'node'

#: How its answers are judged where nobody says more: each pair once, as far as it searches.
METHOD = Method(repeat=1, own_range=True)

#: Seconds that a replay stood still, above which the report says so.
MAX_UNSAID_WAIT_S = 0.5

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Answer:
    """One disparity image that the node published.

    disparity: float32 H x W, pixels; valid: bool H x W.
    stages_ms: latency by stage, and of all as ``total``, milliseconds; empty where it was lost.
    """

    stamp_ns: int
    disparity: np.ndarray
    valid: np.ndarray
    min_disparity: float
    max_disparity: float
    stages_ms: Mapping[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class RecordedRun:
    """One run through the node.

    frames: as of ``SessionResult``, with ``node_status``, and ``waited_s`` of the player.
    rate_hz: of its answers, in the time of the source.
    matcher: what the node is called among the matchers of a report.
    least_published: the run fails when a smaller share of its frames is published; 0 = any.
    showing: frames to look at, and where in the image errors are.
    settings: of the matcher in the node; empty where it is unknown.
    device: what computed in it, as of ``SessionResult``.
    results: every answer as ``stereo_bp evaluate`` judges a pair; the times are the latencies.
    issues: also of the answers that are no results.
    is_lossless: as of ``SessionResult``.
    """

    name: str
    title: str
    frames: Mapping[str, Any]
    rate_hz: float
    matcher: str = MATCHER
    least_published: float = 0.0
    showing: Showing = dataclasses.field(default_factory=lambda: Showing(0))
    settings: Mapping[str, Value] = dataclasses.field(default_factory=dict)
    device: Mapping[str, str] = dataclasses.field(default_factory=dict)
    results: Sequence[Result] = ()
    issues: Sequence[Issue] = ()
    is_lossless: bool = False

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {'frames': self.frames, 'rate_hz': self.rate_hz, 'settings': dict(self.settings)}


def judge(name: str, title: str, pairs: Callable[[], Iterator[Pair]], result: SessionResult, *,
          matcher: str = MATCHER, period_s: float = 0.1, least_published: float = 0.0,
          method: Method = METHOD, advance: Callable[[], None] = lambda: None,
          sink: Sink | None = None) -> RecordedRun:
    """Score every answer against the truth of its pair, and keep some to look at.

    :param pairs: those of the source that was played, from the first one on.
    :param period_s: time between pairs whose files carry no stamps.
    :param advance: is called after every answer.
    :param sink: is sent every answer.
    """
    inputs = _Inputs(pairs, period_s)
    examiner = _Examiner(result.settings)
    showing = Showing(result.recorded['disparity'])
    results: list[Result] = []
    unjudged: collections.Counter[str] = collections.Counter()
    stamps: list[int] = []
    for index, answer in enumerate(answers(result.bag)):
        stamps.append(answer.stamp_ns)
        pair = inputs.find(answer.stamp_ns)
        # An answer whose latency was lost is no result: its time is not known.
        if pair is None:
            unjudged['no pair of the source has the stamp of their left image'] += 1
        elif not answer.stages_ms:
            unjudged['their latency is missing'] += 1
        else:
            # The truth is of the images as they are, the node's disparity of the principal points.
            shift = pair.calibration.shift if pair.calibration else 0.0
            disparity = answer.disparity + np.float32(shift)
            low, high = answer.min_disparity + shift, answer.max_disparity + shift
            height, width = disparity.shape
            times = {stage: ms for stage, ms in answer.stages_ms.items() if stage != 'age'}
            results.append(Result(
                pair.name, width, height, {matcher: Figures(
                    [times.pop('total')], method.judge(pair, disparity, answer.valid), times,
                    disparity_range=round(high - low) + 1)}, input=pair.input,
                issues=tuple(examiner.issues(pair, answer))))
            found = disparity, answer.valid
            showing.add(index, View(pair.name, pair.left, {name: found}, pair.truth, low, high,
                                    pair.calibration))
            if sink:
                sink.judged(name, index, pair.left, found, truth=pair.truth,
                            stamp_ns=answer.stamp_ns, latency_ms=answer.stages_ms)
        advance()
    steps = np.diff(np.array(stamps, np.int64))
    steps = steps[steps > 0]        # each loop begins with the first stamp again
    frames = {**result.frames, 'waited_s': result.sent.get('waited_s', 0.0),
              'node_status': result.node_status}
    return RecordedRun(
        name, title, frames, float(1e9 / steps.mean()) if len(steps) else 0.0, matcher=matcher,
        least_published=least_published, showing=showing, settings=result.settings,
        device=result.device, results=results,
        issues=_issues(name, result.sent, unjudged), is_lossless=result.is_lossless)


def _issues(name: str, sent: Mapping[str, Any], unjudged: Mapping[str, int]) -> list[Issue]:
    """What a reader of the figures has to know; each is logged."""
    found = []
    if (waited_s := sent.get('waited_s', 0.0)) > MAX_UNSAID_WAIT_S:
        found.append(f'{name}: the replay was paused for {waited_s:.1f} s in all, until images '
                     'had reached who subscribes to them: DDS was still connecting them, or this '
                     'machine is busy')
    if skipped_s := sent.get('skipped_s', 0.0):
        found.append(f'{name}: {skipped_s:.0f} s without a recorded message were left out '
                     '(--longest-gap)')
    found += [f'{name}: {count} results are not judged: {reason}'
              for reason, count in unjudged.items()]
    for text in found:
        _log.warning(text)
    return [IssueCode.REPLAY.issue(text) for text in found]


class _Examiner:
    """What is doubtful about pairs that were played and about their answers: the same as in an
    evaluation.

    :param settings: of the matcher in the node.
    """

    def __init__(self, settings: Mapping[str, Value]) -> None:
        # The pairs of a source are rectified, whatever the node was sent.
        self._config = MatcherConfig.from_mapping(
            {**settings, 'rectify': False, 'rectified_width': 0, 'rectified_height': 0})
        self._observer = PairObserver()
        self._compared = 0

    def issues(self, pair: Pair, answer: Answer) -> list[Issue]:
        """Of one pair after another."""
        left, right = pair.images
        observed = Observed(left, right, self._config, pair.calibration,
                            time_s=1e-9 * answer.stamp_ns)
        config = observed.config
        try:
            found = checks.enforce(checks.examine_calibration(
                pair.calibration, left.width, left.height), config)
            found += checks.enforce(pair.issues, config)
            found += self._observer.observe(observed).issues
        except InputError as error:         # the node has not seen it that way: it has answered
            return [error.code.issue(str(error))]
        if pair.truth is not None and self._compared < COMPARED_TRUTHS:
            self._compared += 1
            found += checks.enforce(truth_checks.examine_truth(
                left, right, pair.truth, config, found, pair.truth_scale), config)
        if answer.disparity.shape == (left.height, left.width):
            found += self._observer.judge(observed, DisparityFrame(
                answer.disparity, None, None, answer.min_disparity, answer.max_disparity,
                geometry.disparity_step(config),
                geometry.valid_window(config, left.width, left.height), {}, ''), found)
        return found


class _Inputs:
    """The pairs of a source by their stamps; quickest in the order of playing."""

    def __init__(self, read: Callable[[], Iterator[Pair]], period_s: float) -> None:
        self._read, self._period_s = read, period_s
        self._pairs: Iterator[tuple[int, Pair]] = iter(())
        self._known: set[int] | None = None     # all stamps, once one was missing

    def find(self, stamp_ns: int) -> Pair | None:
        """The pair of a stamp; None = there is none."""
        if self._known is not None and stamp_ns not in self._known:
            return None
        seen: set[int] = set()
        for again in (True, False):     # the next loop begins with the first pair again
            for stamp, pair in self._pairs:
                seen.add(stamp)
                if stamp == stamp_ns:
                    return pair
            if again:
                self._pairs = self._stamped()
        self._known = seen
        return None

    def _stamped(self) -> Iterator[tuple[int, Pair]]:
        for index, pair in enumerate(self._read()):
            yield stamp_of(pair, index, self._period_s), pair


def answers(bag: pathlib.Path) -> Iterator[Answer]:
    """The disparity images of a recorded run, in order."""
    latencies: dict[int, collections.deque[dict[str, float]]] = {}
    for stamp_ns, found in _latencies(bag):     # a loop has the same stamps again
        latencies.setdefault(stamp_ns, collections.deque()).append(found)
    for _, message in _messages(bag, ('/disparity',)):
        stamp_ns = header_stamp(message)
        image = message.image
        values = np.ndarray((image.height, image.width), '>f4' if image.is_bigendian else '<f4',
                            buffer=image.data, strides=(image.step, 4)).astype(np.float32)
        known = latencies.get(stamp_ns)
        yield Answer(stamp_ns, values, values >= np.float32(message.min_disparity),
                     message.min_disparity, message.max_disparity,
                     known.popleft() if known else {})


def _latencies(bag: pathlib.Path) -> Iterator[tuple[int, dict[str, float]]]:
    """Stamp and milliseconds by stage of every frame, in order."""
    for _, message in _messages(bag, ('/latency',)):
        yield header_stamp(message), {pair.key: float(pair.value)
                                      for pair in message.status[0].values}


def _messages(bag: pathlib.Path, topics: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    with AnyReader([bag], default_typestore=get_typestore(Stores.ROS2_KILTED)) as reader:
        wanted = [c for c in reader.connections if c.topic in topics]
        for connection, _, data in reader.messages(wanted):
            yield connection.topic, reader.deserialize(data, connection.msgtype)
