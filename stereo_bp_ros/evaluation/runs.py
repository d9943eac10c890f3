"""Matches pairs and judges what comes out: the matcher itself, others, and OpenCV's.

An ``Evaluation`` keeps its engines from pair to pair, and knows nothing of where pairs come from
or where results go to.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from stereo_bp_ros import checks, findings
from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines import host_memory
from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.evaluation import baselines
from stereo_bp_ros.evaluation.frame_scores import score_frame
from stereo_bp_ros.evaluation.method import Method
from stereo_bp_ros.evaluation.results import Figures, Result
from stereo_bp_ros.evaluation.rows import RowTracker
from stereo_bp_ros.evaluation.sources import Pair, Sources, Unread
from stereo_bp_ros.evaluation.timing import device_ms
from stereo_bp_ros.grey import to_8_bits
from stereo_bp_ros.matcher import StereoMatcher
from stereo_bp_ros.types import DisparityFrame

T = TypeVar('T')

#: A disparity, H x W in pixels, and where it is valid, bool H x W.
Map = tuple[np.ndarray, np.ndarray]

#: What reading a pair may raise.
UNREADABLE = (StereoError, ValueError, OSError)

#: First pairs of an input whose images are compared, to tell whether they are exchanged.
EXAMINED_PAIRS = 3


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

    :raises ValueError: a name is there twice, or OpenCV's matchers cannot do what the first does.
    :raises BackendUnavailable: OpenCV has no stereo matchers, or a back end is not there.
    """

    def __init__(self, configs: Mapping[str, MatcherConfig], names: Sequence[str] = (),
                 method: Method | None = None) -> None:
        twice = set(configs) & set(names)
        if twice:
            raise ValueError(f'two matchers have the name {twice.pop()}')
        self._own, *_ = configs
        self._configs = dict(configs)
        self._baselines = tuple(names)
        self.method = method or Method()
        first = configs[self._own]
        if names and first.reference_image != 'left':
            raise ValueError("--against needs reference_image left: OpenCV's matchers have no "
                             'other')
        for name in names:
            baselines.Baseline(name, first.disparity_range, first.min_disparity)
        self._begin('')
        self._matchers: dict[str, StereoMatcher] = {}
        try:
            for name, config in self._configs.items():
                self._matchers[name] = StereoMatcher(config)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Evaluation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free every engine."""
        while self._matchers:
            self._matchers.popitem()[1].close()

    @property
    def configs(self) -> Mapping[str, MatcherConfig]:
        """Of the matchers by their names, the first one first."""
        return self._configs

    @property
    def backend(self) -> str:
        """What computes the first matcher: 'cpu' or 'cuda'."""
        return self._matchers[self._own].backend

    @property
    def devices(self) -> dict[str, dict[str, str]]:
        """What computes each matcher, as ``StereoMatcher.device`` without places of files."""
        found = {name: matcher.device for name, matcher in self._matchers.items()}
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
            self._begin(pair.input)
        doubts = self._examine(pair)
        known: dict[str, Any] | None = None
        found: dict[str, Figures] = {}
        frames: dict[str, DisparityFrame] = {}
        maps: dict[str, Map] = {}
        self.rows.corrections(pair, {name: self.method.range_of(config, pair)
                                     for name, config in self._configs.items()})
        for name, matcher in self._matchers.items():
            frames[name], times_ms = self._match(matcher, name, pair)
            maps[name] = _map(frames[name])
            known = known or self.method.known_of(pair, maps[name][0].shape)
            found[name] = Figures(times_ms, score_frame(
                *maps[name], confidence=frames[name].confidence, **known),
                dict(frames[name].timings), device_ms(matcher.backend, frames[name].timings),
                None if matcher.memory_plan is None else matcher.memory_plan.total,
                matcher.config.disparity_range, self.rows.known.get(name))
        assert known is not None
        config = self._matchers[self._own].config
        doubts += checks.believe([*self.rows.findings, *(
            [] if pair.truth is None else checks.check_truth(pair.truth, config))], config)
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
            tuple(doubts)), maps, frames, self.method.calibration_of(pair))

    def _begin(self, name: str) -> None:
        """Forget the pairs of the input before this one."""
        self._input = name
        self._frozen = checks.FrozenCameras()
        self.rows = RowTracker(self.method.alone, self.method.calibration)

    def _examine(self, pair: Pair) -> list[checks.Finding]:
        """What is doubtful about a pair, before it is matched; of its truth later."""
        config = self._configs[self._own]
        left, right = pair.images
        found = checks.examine_calibration(pair.calibration, left.width, left.height)
        found += checks.examine_images(left, right, config)
        if pair.stamp_ns is not None:
            found += self._frozen.examine(left, right, pair.stamp_ns)
        return checks.believe(found, config)

    def _baseline(self, name: str) -> baselines.Baseline:
        config = self._matchers[self._own].config
        return baselines.Baseline(name, config.disparity_range, config.min_disparity)

    def _greys(self, pair: Pair) -> tuple[np.ndarray, np.ndarray]:
        scale = self._configs[self._own].mono16_scale
        left, right = (to_8_bits(raw, scale) for raw in pair.images)
        return left, right

    def _correct_rows(self, name: str) -> None:
        """Have a matcher undo what it has to in the latest pair."""
        correction = self.rows.latest.get(name)
        self._matchers[name].correct_rows(correction.warp() if correction else None)

    def confidence(self, matched: Matched) -> dict[str, np.ndarray]:
        """Of the pair judged last, float32 H x W in [0, 1], of every matcher that has one.

        It costs one more run of each where it was not judged.
        """
        return {name: _confidence(self._matchers[name], matched.pair)
                if frame.confidence is None else frame.confidence
                for name, frame in matched.frames.items()}

    def _match(self, matcher: StereoMatcher, name: str, pair: Pair
               ) -> tuple[DisparityFrame, list[float]]:
        self._adapt(matcher, name, pair)
        left, right = pair.images
        # A truth is the disparity between the images as they are, which a calibration shifts.
        frame, times_ms = self._timed(lambda: matcher.compute(left, right))
        if self.method.confidence and pair.truth is not None:
            frame = dataclasses.replace(frame, confidence=_confidence(matcher, pair))
        return frame, times_ms

    def _adapt(self, matcher: StereoMatcher, name: str, pair: Pair) -> None:
        """Make it ready for a pair: its range, its size, and its rows."""
        wanted = self.method.range_of(self._configs[name], pair)
        if wanted != matcher.config:
            matcher.reconfigure(wanted)
        left, _ = pair.images
        if matcher.size != (left.width, left.height):
            matcher.prepare(left.width, left.height)
        self._correct_rows(name)

    def _timed(self, program: Callable[[], T]) -> tuple[T, list[float]]:
        """What the last run returns, and the times of all in milliseconds."""
        times_ms = []
        for _ in range(self.method.repeat):
            start = time.perf_counter()
            result = program()
            times_ms.append((time.perf_counter() - start) * 1e3)
        return result, times_ms


def examine_inputs(sources: Sources, config: MatcherConfig, method: Method, own: str = ''
                   ) -> list[checks.Finding]:
    """How the images of each input lie to each other, by its first pairs.

    Of rows that the matcher ``own`` corrects ``row_report`` tells.

    :raises InputError: all of these pairs are exchanged.
    """
    kept = []
    for one in sources.inputs:
        found: list[list[checks.Finding]] = []
        with contextlib.suppress(*UNREADABLE):          # the evaluation itself tells of it
            for pair in itertools.islice(sources.pairs_of(one), EXAMINED_PAIRS):
                is_corrected = config.row_correction == 'correct' and (
                    pair.stamp_ns is not None or own in method.alone)
                examine = checks.check_exchanged if is_corrected else checks.examine_alignment
                left, right = (to_8_bits(image, config.mono16_scale) for image in pair.images)
                found.append(examine(left, right, method.range_of(config, pair)))
        for finding, pairs in findings.summarised(itertools.chain(*found)):
            if 2 * pairs > len(found) and (
                    finding.check.severity is not findings.Severity.REJECT or pairs == len(found)):
                kept += checks.believe([dataclasses.replace(
                    finding, text=f'{one}: {finding.text}')], config)
    return kept


def judge_all(evaluation: Evaluation, pairs: Iterable[Unread], first: int = 0,
              skipped: list[Skipped] | None = None) -> Iterator[tuple[int, Matched]]:
    """Judge one pair after another; yields the place of each, from 0, too.

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
            matched = evaluation.judge(pair)
        except (*UNREADABLE, MemoryError) as error:
            raise StereoError(f'{name}: {error}') from error
        yield place, matched


def _confidence(matcher: StereoMatcher, pair: Pair) -> np.ndarray:
    found = matcher.compute(*pair.images, outputs=('confidence',)).confidence
    assert found is not None
    return found


def _map(frame: DisparityFrame) -> Map:
    assert frame.disparity is not None
    return frame.disparity, frame.valid
