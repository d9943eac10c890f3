"""Tunes: measures what a search tries with whole frames; see ``docs/howto/tune.md``."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

from stereo_bp_ros import geometry
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines import programs
from stereo_bp_ros.engines.cuda.engine import CudaEngine
from stereo_bp_ros.engines.cuda.hierarchical import tuning
from stereo_bp_ros.engines.cuda.hierarchical.launch import Tiling
from stereo_bp_ros.engines.cuda.hierarchical.search import Candidate, Result, Search
from stereo_bp_ros.engines.cuda.pipeline import kernels_of
from stereo_bp_ros.engines.cuda.plan import plan_of, resolve
from stereo_bp_ros.engines.cuda.runtime import compiler
from stereo_bp_ros.engines.cuda.runtime.device import Properties, properties
from stereo_bp_ros.errors import ConfigError
from stereo_bp_ros.images import RawImage
from stereo_bp_ros.papers.programs import TUNABLE
from stereo_bp_ros.partitions import Partitioning, whole

#: A candidate slower than this after its first turns is given up; milliseconds of one turn.
HOPELESS, TURN_MS = 1.03, 6.0


class FrameTimer:
    """Times the graphs of whole frames; at most two engines are there at a time.

    :param config: of the images as they come, in this size; parts: how they are cut after
        reduction.
    """

    def __init__(self, config: MatcherConfig, width: int, height: int, device: Properties,
                 parts: Partitioning) -> None:
        self._config = config
        self._size = width, height
        self._device = device
        self._parts = parts
        rng = np.random.default_rng(0)
        self._pair = [RawImage.from_array(rng.integers(0, 256, (height, width), dtype=np.uint8))
                      for _ in range(2)]
        self._outputs = {'disparity': np.empty((height, width), np.float32)}
        self._engines: dict[tuple[Any, ...], Any] = {}

    def prepare(self, candidates: list[Candidate]) -> None:
        compiler.compile_side_by_side(
            (name for candidate in candidates for name in self._kernels(candidate)),
            self._device.architecture)

    def _kernels(self, candidate: Candidate) -> set[tuple[str, str]]:
        """Files and names of those that an engine with a candidate loads."""
        config, tilings = self._split(candidate)
        return kernels_of(plan_of(config, *self._size, self._device, tilings, self._parts))

    def _split(self, candidate: Candidate) -> tuple[MatcherConfig, dict[int, Tiling]]:
        """Configuration and tilings of a candidate."""
        settings = {key: value for key, value in candidate.items() if isinstance(key, str)}
        return self._config.replace(**settings), {
            key: value for key, value in candidate.items() if isinstance(key, int)}

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

    def _engine(self, key: tuple[Any, ...]) -> Any:
        if key not in self._engines:
            config, tilings = self._split(dict(key))
            engine = CudaEngine.of(config, *self._size, tilings=tilings, parts=self._parts)
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


def tune(config: MatcherConfig, width: int, height: int, parts: Partitioning | None = None,
         progress: Callable[[int, int, str], None] = lambda *_: None,
         afresh: bool = False) -> Result:
    """Tune for images of a size on the device of a configuration, and keep what is found.

    :raises ConfigError: there is nothing to tune about the configuration.
    :raises StereoError: an engine cannot be built.
    :raises OSError: the cache directory cannot be written.
    """
    device = properties(config.device_id)
    matched = resolve(config, device)
    if not tuning.can_be_tuned(matched):
        raise ConfigError('program', config.program, TUNABLE)
    parts = parts or whole(*geometry.reduced_size(config, width, height))
    timer = FrameTimer(config, width, height, device, parts)
    arguments = (matched, parts.width, parts.height, device, tuning.machine(device), timer,
                 progress, afresh)
    try:
        search: Search = programs.matching('cuda', matched).search(*arguments)
        return search.run()
    finally:
        timer.close()
