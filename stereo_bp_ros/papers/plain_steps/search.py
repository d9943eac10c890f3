"""Searches the split of ``storage: hybrid`` that is fastest on a device; ``tune`` walks over them.

The time of whole frames decides. Never called while frames are matched.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.engines.cuda.engine import CudaEngine
from stereo_bp_ros.engines.cuda.pipeline import kernels_of
from stereo_bp_ros.engines.cuda.plan import plan_of
from stereo_bp_ros.engines.cuda.runtime import compiler
from stereo_bp_ros.engines.cuda.runtime.device import Properties
from stereo_bp_ros.images.raw_images import RawImage

#: Setting to value; {} = the split of the configuration.
Candidate = dict[str, int]

#: Part of its time by which a candidate must be faster to be taken: the spread of medians.
MARGIN = 0.004

#: Turns of two contestants.
TURNS, FINAL_TURNS = 7, 25

#: A candidate slower than this after its first turns is given up; milliseconds of one turn.
HOPELESS, TURN_MS = 1.03, 6.0


class Timer(Protocol):
    """What the search measures with."""

    def prepare(self, candidates: Sequence[Candidate]) -> None:
        """Compile what frames of these candidates run."""

    def compare(self, ours: Candidate, theirs: Candidate, turns: int) -> tuple[float, float]:
        """Milliseconds of a frame with each of two, measured in turn."""


class Result(NamedTuple):
    """best: {} = the split of the configuration stands; before, after: ms of a frame."""

    best: Candidate
    before: float
    after: float


def search(candidates: Sequence[Candidate], timer: Timer,
           progress: Callable[[int, int], None] = lambda *_: None) -> Result:
    """The fastest candidate, each compared with the fastest so far.

    :param progress: called with (candidates done, candidates).
    """
    timer.prepare(candidates)
    best: Candidate = {}
    for done, candidate in enumerate(candidates):
        progress(done, len(candidates))
        ours, theirs = timer.compare(candidate, best, TURNS)
        if ours < (1 - MARGIN) * theirs:
            best = candidate
    after, before = timer.compare(best, {}, FINAL_TURNS)
    if not best or after > (1 - MARGIN) * before:
        return Result({}, before, before)
    return Result(best, before, after)


class FrameTimer:
    """Times the graphs of whole frames; at most two engines are there at a time.

    :param config: of the images, in this size.
    """

    def __init__(self, config: MatcherConfig, width: int, height: int, device: Properties) -> None:
        self._config = config
        self._size = width, height
        self._device = device
        rng = np.random.default_rng(0)
        self._pair = [RawImage.from_array(rng.integers(0, 256, (height, width), dtype=np.uint8))
                      for _ in range(2)]
        self._outputs = {'disparity': np.empty((height, width), np.float32)}
        self._engines: dict[tuple[tuple[str, int], ...], Any] = {}

    def prepare(self, candidates: Sequence[Candidate]) -> None:
        compiler.compile_side_by_side(
            (name for candidate in candidates for name in kernels_of(plan_of(
                self._config.replace(**candidate), *self._size, self._device))),
            self._device.architecture)

    def compare(self, ours: Candidate, theirs: Candidate, turns: int) -> tuple[float, float]:
        keys = [tuple(sorted(candidate.items())) for candidate in (ours, theirs)]
        for key in list(self._engines):
            if key not in keys:
                self._engines.pop(key).close()
        contestants = [self._engine(key) for key in keys]
        times: tuple[list[float], list[float]] = ([], [])
        for i in range(turns):
            for engine, turns_of_engine in zip(contestants, times, strict=True):
                turns_of_engine.append(_turn(engine))
            first, second = map(statistics.median, times)
            if i == 1 and first > HOPELESS * second:
                break
        return first, second

    def close(self) -> None:
        """Give the memory back."""
        while self._engines:
            self._engines.popitem()[1].close()

    def _engine(self, key: tuple[tuple[str, int], ...]) -> Any:
        if key not in self._engines:
            engine = CudaEngine.of(self._config.replace(**dict(key)), *self._size)
            self._engines[key] = engine
            for _ in range(2):
                engine.compute(self._pair[0], self._pair[1], None, self._outputs)
        return self._engines[key]


def _turn(engine: Any) -> float:
    """Milliseconds of a frame: the median of as many as fit into a turn."""
    times = [engine.replay() * 1e3]
    while len(times) < 3 or sum(times) < TURN_MS:
        times.append(engine.replay() * 1e3)
    return statistics.median(times[1:])
