"""Matches pairs and judges what comes out: the matcher itself, others, and OpenCV's.

An ``Evaluation`` keeps its engines from pair to pair, and knows nothing of where pairs come from
or where results go to.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.checks import checks, truth_checks
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.engines import host_memory
from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.evaluation import baselines
from stereo_bp_ros.evaluation.frame_scores import score_frame
from stereo_bp_ros.evaluation.method import Method
from stereo_bp_ros.evaluation.results import Figures, PairRows, Result
from stereo_bp_ros.evaluation.timing import device_ms
from stereo_bp_ros.frame.disparity_frame import OUTPUTS, DisparityFrame
from stereo_bp_ros.images.grey import to_8_bits
from stereo_bp_ros.issues import Issue
from stereo_bp_ros.sources.pairs import Pair, Unread
from stereo_bp_ros.stream.observer import Observation
from stereo_bp_ros.stream.stereo_stream import StereoStream

T = TypeVar('T')

#: A disparity, H x W in pixels, and where it is valid, bool H x W.
Map = tuple[np.ndarray, np.ndarray]

#: Pairs of an input whose truths are compared with their images.
COMPARED_TRUTHS = 3

#: What reading a pair may raise.
UNREADABLE = (StereoError, ValueError, OSError)


@dataclasses.dataclass(frozen=True)
class Skipped:
    """A pair that was left out, and why it cannot be read."""

    name: str
    error: str


@dataclasses.dataclass(frozen=True)
class Matched:
    """A pair as matchers did it.

    maps:        of all.
    frames:      arrays H x W of all but OpenCV's, with the confidence where it is judged.
    calibration: None: it is not known.
    """

    pair: Pair
    result: Result
    maps: Mapping[str, Map]
    frames: Mapping[str, DisparityFrame]
    calibration: Calibration | None

    @property
    def searched(self) -> tuple[float, float]:
        """First and last disparity of the first matcher, pixels."""
        first = next(iter(self.frames.values()))
        return first.min_disparity, first.max_disparity


class Evaluation:
    """Matchers that are compared on the same pairs; to be closed, or used in ``with``.

    :param configs: names to configurations; the first is the one that is evaluated.
    :param names:   of OpenCV's matchers (``baselines.NAMES``), for the range of the first.
    :param outputs: further ones of every frame; those that need a calibration where a pair has
        one.

    :raises ValueError: a name is there twice, or OpenCV's matchers cannot do what the first does.
    :raises BackendUnavailable: OpenCV has no stereo matchers, or a back end is not there.
    """

    def __init__(self, configs: Mapping[str, MatcherConfig], names: Sequence[str] = (),
                 method: Method | None = None, outputs: Sequence[str] = ()) -> None:
        twice = set(configs) & set(names)
        if twice:
            raise ValueError(f'two matchers have the name {twice.pop()}')
        self._own, *_ = configs
        # A truth is unshifted; pre_adjust_disparity shifts by the calibration.
        self._configs = {name: config.replace(pre_adjust_disparity=False)
                         for name, config in configs.items()}
        self._baselines, self._outputs = tuple(names), tuple(outputs)
        self.method = method or Method()
        first = configs[self._own]
        if names and first.reference_image != 'left':
            raise ValueError("--against needs reference_image left: OpenCV's matchers have no "
                             'other')
        for name in names:
            baselines.Baseline(name, first.disparity_range, first.min_disparity)
        self._input = ''
        self._compared: collections.Counter[str] = collections.Counter()
        self._streams: dict[str, StereoStream] = {}
        try:
            for name, config in self._configs.items():
                self._streams[name] = StereoStream(config)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Evaluation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free every engine."""
        while self._streams:
            self._streams.popitem()[1].close()

    @property
    def configs(self) -> Mapping[str, MatcherConfig]:
        """Of the matchers by their names, the first one first."""
        return self._configs

    @property
    def backend(self) -> str:
        """What computes the first matcher: 'cpu' or 'cuda'."""
        return self._streams[self._own].matcher.backend

    @property
    def devices(self) -> dict[str, dict[str, str]]:
        """What computes each matcher, as ``StereoMatcher.device`` without places of files."""
        found = {name: stream.matcher.device for name, stream in self._streams.items()}
        for one in found.values():
            one.pop('kernel cache', None)
        with baselines.threads(self._configs[self._own].num_threads) as threads:
            return found | {name: baselines.device(threads) for name in self._baselines}

    def judge(self, pair: Pair) -> Matched:
        """Match a pair with every matcher, and compare with its truth.

        What the pairs before it have shown counts as long as they are of the same input.

        :raises StereoError, ValueError: a matcher or a check rejects the images.
        """
        if pair.input != self._input:
            self._input = pair.input
            for stream in self._streams.values():
                stream.clear()
        known: dict[str, Any] | None = None
        found: dict[str, Figures] = {}
        frames: dict[str, DisparityFrame] = {}
        maps: dict[str, Map] = {}
        issues: list[Issue] = []
        for name, stream in self._streams.items():
            seen = observe_pair(stream, self._configs[name], self.method, pair)
            outputs = [one for one in self._outputs if not OUTPUTS[one].needs_calibration
                       or self.method.calibration_of(pair)]
            frames[name], times_ms = self._timed(functools.partial(
                stream.match, outputs=('disparity', *outputs)))
            if name == self._own:
                issues = [*checks.enforce(pair.issues, stream.config), *stream.issues]
            confidence = None
            if self.method.confidence and pair.truth is not None:
                confidence = _confidence(stream)
                frames[name] = dataclasses.replace(frames[name], confidence=confidence)
            maps[name] = _map(frames[name])
            known = known or self.method.known_of(pair, maps[name][0].shape)
            matcher, timings = stream.matcher, frames[name].timings
            found[name] = Figures(times_ms, score_frame(
                *maps[name], confidence=confidence, **known), dict(timings),
                device_ms(matcher.backend, timings),
                None if matcher.memory_plan is None else matcher.memory_plan.total,
                matcher.effective_config.disparity_range, _rows(seen, stream.config, pair))
        assert known is not None
        config = self._streams[self._own].matcher.effective_config
        if pair.truth is not None:
            issues = issues + checks.enforce(self._check_truth(pair, config, issues), config)
        for name in self._baselines:
            baseline = self._baseline(name)
            compute = functools.partial(baseline.compute, *self._greys(pair))
            with baselines.threads(config.num_threads):
                maps[name], times_ms = self._timed(compute)
            found[name] = Figures(times_ms, score_frame(*maps[name], **known),
                                  disparity_range=baseline.settings['NumDisparities'])
        left, _ = pair.images
        return Matched(pair, Result(
            pair.name, left.width, left.height, found, host_memory.peak(), pair.input,
            tuple(issues)), maps, frames, self.method.calibration_of(pair))

    def _check_truth(self, pair: Pair, config: MatcherConfig, issues: list[Issue]) -> list[Issue]:
        assert pair.truth is not None
        self._compared[pair.input] += 1
        if self._compared[pair.input] > COMPARED_TRUTHS:
            return truth_checks.check_range(pair.truth, config)
        return truth_checks.examine_truth(*pair.images, pair.truth, config, issues,
                                          pair.truth_scale)

    def _baseline(self, name: str) -> baselines.Baseline:
        config = self._streams[self._own].matcher.effective_config
        return baselines.Baseline(name, config.disparity_range, config.min_disparity)

    def _greys(self, pair: Pair) -> tuple[np.ndarray, np.ndarray]:
        scale = self._configs[self._own].mono16_scale
        left, right = (to_8_bits(raw, scale) for raw in pair.images)
        return left, right

    def confidence(self, matched: Matched) -> dict[str, np.ndarray]:
        """Of the pair judged last, float32 H x W in [0, 1], of every matcher that has one.

        It costs one more run of each where it was not judged.
        """
        return {name: _confidence(self._streams[name])
                if frame.confidence is None else frame.confidence
                for name, frame in matched.frames.items()}

    def _timed(self, program: Callable[[], T]) -> tuple[T, list[float]]:
        """What the last run returns, and the times of all in milliseconds."""
        times_ms = []
        for _ in range(self.method.repeat):
            start = time.perf_counter()
            result = program()
            times_ms.append((time.perf_counter() - start) * 1e3)
        return result, times_ms


def observe_pair(stream: StereoStream, config: MatcherConfig, method: Method, pair: Pair
                 ) -> Observation:
    """Make a stream ready for a pair: its range, its size, and its rows.

    :param config: of any pair; ``method`` says how far this one is searched.
    :raises StereoError, ValueError: a check rejects the images.
    """
    wanted = method.range_of(config, pair)
    if wanted != stream.config:
        stream.reconfigure(wanted)
    left, right = pair.images
    seen = stream.observe(
        left, right, stamp=None if pair.stamp_ns is None else 1e-9 * pair.stamp_ns,
        calibration=method.calibration_of(pair))
    if stream.matcher.size != (left.width, left.height):
        stream.matcher.prepare(left.width, left.height)
    return seen


def for_each_pair(work: Callable[[Pair], T], pairs: Iterable[Unread], first: int = 0,
                  skipped: list[Skipped] | None = None) -> Iterator[tuple[int, T]]:
    """Read one pair after another and work on it; yields the place of each, from 0, too.

    :param work: as ``Evaluation.judge``.
    :param first: place of the first pair.
    :param skipped: gets those that cannot be read; None: the first one raises.
    :raises StereoError: a pair cannot be read or matched; the text names it.
    """
    found = iter(pairs)
    for place in itertools.count(first):
        name = f'pair {place + 1}'
        try:
            unread = next(found, None)
            if unread is None:
                return
            name += f' ({unread.name})'
            try:
                pair = unread.load()
            except UNREADABLE as error:
                if skipped is None:
                    raise
                skipped.append(Skipped(unread.name, str(error)))
                continue
            done = work(pair)
        except (*UNREADABLE, MemoryError) as error:
            raise StereoError(f'{name}: {error}') from error
        yield place, done


def _confidence(stream: StereoStream) -> np.ndarray:
    """Of the pair that it has observed last."""
    found = stream.match(outputs=('confidence',)).confidence
    assert found is not None
    return found


def _rows(seen: Observation, config: MatcherConfig, pair: Pair) -> PairRows | None:
    if config.row_correction == 'off':
        return None
    return PairRows(seen.rows, seen.corrected_px if config.row_correction == 'correct' else None,
                    seen.begins, pair.stamp_ns is None)


def _map(frame: DisparityFrame) -> Map:
    assert frame.disparity is not None
    return frame.disparity, frame.valid
