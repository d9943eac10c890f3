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
from stereo_bp_ros.evaluation.consistency import Consistency, View, judge_consistency
from stereo_bp_ros.evaluation.frame_scores import score_frame
from stereo_bp_ros.evaluation.method import Method
from stereo_bp_ros.evaluation.obstacles import Obstacles, count_obstacles
from stereo_bp_ros.evaluation.results import Figures, Result
from stereo_bp_ros.evaluation.rows import RowTracker, follows
from stereo_bp_ros.evaluation.sources import Pair, Sources, Unread
from stereo_bp_ros.evaluation.timing import device_ms
from stereo_bp_ros.grey import to_8_bits
from stereo_bp_ros.matcher import StereoMatcher
from stereo_bp_ros.row_correction import undo_rows
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
        self._method = method or Method()
        first = configs[self._own]
        if names and first.reference_image != 'left':
            raise ValueError("--against needs reference_image left: OpenCV's matchers have no "
                             'other')
        if self._method.consistency and any(
                config.reference_image != 'left' for config in configs.values()):
            raise ValueError('--consistency needs reference_image left: the left image is '
                             'compared with the right one')
        for name in names:
            baselines.Baseline(name, first.disparity_range, first.min_disparity)
        self._before: tuple[Pair, dict[str, View]] | None = None
        self._frozen = checks.FrozenCameras()
        self.rows = RowTracker(self._method.alone, self._method.calibration)
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

        With ``Method.consistency`` it is compared with the pair judged before, too, if that is
        at most ``rows.FOLLOWS_NS`` earlier.

        :raises StereoError, ValueError: a matcher or a check rejects the images.
        """
        doubts = self._examine(pair)
        known: dict[str, Any] | None = None
        found: dict[str, Figures] = {}
        frames: dict[str, DisparityFrame] = {}
        maps: dict[str, Map] = {}
        self.rows.corrections(pair, {name: self._method.range_of(config, pair)
                                     for name, config in self._configs.items()})
        for name, matcher in self._matchers.items():
            frames[name], times_ms = self._match(matcher, name, pair)
            maps[name] = _map(frames[name])
            known = known or self._method.known_of(pair, maps[name][0].shape)
            found[name] = Figures(times_ms, score_frame(
                *maps[name], confidence=frames[name].confidence, **known),
                dict(frames[name].timings), device_ms(matcher.backend, frames[name].timings),
                None if matcher.memory_plan is None else matcher.memory_plan.total,
                matcher.config.disparity_range, self.rows.known.get(name))
        assert known is not None
        config = self._matchers[self._own].config
        doubts += checks.believe([*self.rows.findings, *(
            [] if pair.truth is None else checks.check_truth(pair.truth, config))], config)
        greys = self._greys(pair) if self._baselines or self._method.consistency else None
        for name in self._baselines:
            assert greys is not None
            baseline = self._baseline(name)
            with baselines.threads(config.num_threads):
                maps[name], times_ms = self._timed(functools.partial(baseline.compute, *greys))
            found[name] = Figures(times_ms, score_frame(*maps[name], **known),
                                  disparity_range=baseline.settings['NumDisparities'])
        consistency = self._consistency(pair, greys, maps, known['infinity'])
        obstacles = self._obstacles(pair, maps)
        for name, figures in found.items():
            found[name] = dataclasses.replace(figures, frame=dataclasses.replace(
                figures.frame, consistency=consistency.get(name), obstacles=obstacles.get(name)))
        left, _ = pair.images
        return Matched(pair, Result(
            pair.name, left.width, left.height, found, host_memory.peak(), pair.input,
            tuple(doubts)), maps, frames, self._method.calibration_of(pair))

    def _examine(self, pair: Pair) -> list[checks.Finding]:
        """What is doubtful about a pair, before it is matched; of its truth later."""
        config = self._configs[self._own]
        left, right = pair.images
        found = checks.examine_calibration(pair.calibration, left.width, left.height)
        found += checks.examine_images(left, right, config)
        if pair.stamp_ns is not None:
            found += self._frozen.examine(left, right, pair.stamp_ns)
        return checks.believe(found, config)

    def follow(self, pair: Pair | None) -> None:
        """Have the next pair compared with this one, as if it had been judged; None: with none.

        So a part of a sequence gets the figures that it has in the whole one.

        :raises StereoError, ValueError: a matcher refuses the images.
        """
        self._before = None
        if pair is None or not self._method.consistency:
            return
        maps: dict[str, Map] = {}
        for name, matcher in self._matchers.items():
            self._adapt(matcher, name, pair)
            maps[name] = _map(matcher.compute(*pair.images))
        greys = self._greys(pair)
        for name in self._baselines:
            maps[name] = self._baseline(name).compute(*greys)
        self._before = pair, self._views(greys, maps)

    def _baseline(self, name: str) -> baselines.Baseline:
        config = self._matchers[self._own].config
        return baselines.Baseline(name, config.disparity_range, config.min_disparity)

    def _greys(self, pair: Pair) -> tuple[np.ndarray, np.ndarray]:
        scale = self._configs[self._own].mono16_scale
        left, right = (to_8_bits(raw, scale) for raw in pair.images)
        return left, right

    def _consistency(self, pair: Pair, greys: tuple[np.ndarray, np.ndarray] | None,
                     maps: Mapping[str, Map], infinity: float) -> dict[str, Consistency]:
        """Figures without a truth, of the map of every matcher; {} where nobody asks."""
        if not self._method.consistency or greys is None:
            return {}
        views = self._views(greys, maps)
        before: Mapping[str, View] = {}
        if self._before is not None and follows(pair, self._before[0]):
            before = self._before[1]
        self._before = pair, views
        return {name: judge_consistency(view, self._mirrored(name, view), before.get(name),
                                        infinity) for name, view in views.items()}

    def _views(self, greys: tuple[np.ndarray, np.ndarray], maps: Mapping[str, Map]
               ) -> dict[str, View]:
        return {name: View(greys[0], undo_rows(greys[1], self.rows.latest.get(name)), *one)
                for name, one in maps.items()}

    def _mirrored(self, name: str, view: View) -> Map:
        """The map of the mirrored pair, whose rows match already."""
        left, right = (np.ascontiguousarray(image[:, ::-1]) for image in (view.right, view.left))
        if name in self._baselines:
            return self._baseline(name).compute(left, right)
        matcher = self._matchers[name]
        matcher.correct_rows(None)
        found = _map(matcher.compute(left, right))
        self._correct_rows(name)
        return found

    def _correct_rows(self, name: str) -> None:
        """Have a matcher undo what it has to in the latest pair."""
        correction = self.rows.latest.get(name)
        self._matchers[name].correct_rows(correction.warp() if correction else None)

    def _obstacles(self, pair: Pair, maps: Mapping[str, Map]) -> dict[str, Obstacles]:
        """In the corridor, of the map of every matcher; {} without a corridor or a ground.

        :raises ValueError: the pair lacks what the corridor needs.
        """
        corridor = self._method.corridor
        if corridor is None:
            return {}
        calibration = pair.calibration
        if calibration is None:
            if self._method.calibration is None:
                raise ValueError(f'{pair.name} has no calibration, which --corridor needs: give '
                                 '--focal and --baseline')
            # Of a focal length alone: the principal point is in the middle.
            left, _ = pair.images
            middle = (left.width - 1) / 2
            calibration = dataclasses.replace(self._method.calibration, cx_left=middle,
                                              cx_right=middle, cy=(left.height - 1) / 2)
        ground = corridor.ground(calibration, pair.truth)
        if ground is None:
            return {}
        return {name: count_obstacles(*one, pair.truth, calibration, corridor, ground,
                                      self._method.windows)
                for name, one in maps.items()}

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
        if self._method.confidence and pair.truth is not None:
            frame = dataclasses.replace(frame, confidence=_confidence(matcher, pair))
        return frame, times_ms

    def _adapt(self, matcher: StereoMatcher, name: str, pair: Pair) -> None:
        """Make it ready for a pair: its range, its size, and its rows."""
        wanted = self._method.range_of(self._configs[name], pair)
        if wanted != matcher.config:
            matcher.reconfigure(wanted)
        left, _ = pair.images
        if matcher.size != (left.width, left.height):
            matcher.prepare(left.width, left.height)
        self._correct_rows(name)

    def _timed(self, program: Callable[[], T]) -> tuple[T, list[float]]:
        """What the last run returns, and the times of all in milliseconds."""
        times_ms = []
        for _ in range(self._method.repeat):
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


def judge_all(evaluation: Evaluation, pairs: Iterable[Unread], first: int = 1,
              skipped: list[Skipped] | None = None) -> Iterator[Matched]:
    """Judge one pair after another.

    :param first: number of the first pair in its source.
    :param skipped: gets those that cannot be read; None: the first one raises. The pair behind
        one is compared with none.
    :raises StereoError: a pair cannot be read or matched; the text names it.
    """
    found = iter(pairs)
    for number in itertools.count(first):
        name = f'pair {number}'
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
                evaluation.follow(None)
                continue
            matched = evaluation.judge(pair)
        except (*UNREADABLE, MemoryError) as error:
            raise StereoError(f'{name}: {error}') from error
        yield matched


def _confidence(matcher: StereoMatcher, pair: Pair) -> np.ndarray:
    found = matcher.compute(*pair.images, outputs=('confidence',)).confidence
    assert found is not None
    return found


def _map(frame: DisparityFrame) -> Map:
    assert frame.disparity is not None
    return frame.disparity, frame.valid
