"""Times of the matcher: variants take turns on one pair, so that drift meets all of them."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.matcher import StereoMatcher


@dataclasses.dataclass(frozen=True)
class Pair:
    """What is matched: uint8 H x W images and the number of disparities searched."""

    name: str
    left: np.ndarray
    right: np.ndarray
    disparities: int


@dataclasses.dataclass(frozen=True)
class Times:
    """Times of one variant on one pair, milliseconds.

    prepare: compile (or load from the cache) and allocate; first: the frame after that.
    total:   wall clock from images in to disparity out, of every later frame.
    stages:  stage to its times as the engine measures them, on the device's clock where it has
             one.
    memory:  bytes of the engine's allocation.
    """

    pair: Pair
    variant: str
    backend: str
    prepare: float
    first: float
    total: list[float]
    stages: dict[str, list[float]]
    memory: int

    @property
    def median(self) -> float:
        return statistics.median(self.total)

    def percentile(self, percent: float) -> float:
        """A percentile of the totals, ms."""
        return float(np.percentile(self.total, percent))

    def to_dict(self) -> dict[str, Any]:
        """For JSON, without the single times."""
        return {'set': self.pair.name, 'width': self.pair.left.shape[1],
                'height': self.pair.left.shape[0], 'disparities': self.pair.disparities,
                'variant': self.variant, 'backend': self.backend, 'frames': len(self.total),
                'prepare_ms': self.prepare, 'first_ms': self.first, 'median_ms': self.median,
                'minimum_ms': min(self.total), 'p95_ms': self.percentile(95),
                'stages_ms': {stage: statistics.median(times)
                              for stage, times in self.stages.items()},
                'memory_bytes': self.memory}


def measure(pair: Pair, variants: Mapping[str, MatcherConfig], frames: int,
            progress: Callable[[], None] | None = None) -> list[Times]:
    """Match one pair ``frames`` times with every variant, one frame of each at a time.

    The variants' ranges are the pair's. The first round after preparation is reported apart.

    :raises StereoError: a variant cannot run here.
    """
    matchers: dict[str, StereoMatcher] = {}
    out = {'disparity': np.empty(pair.left.shape[:2], np.float32)}
    try:
        prepared, first = {}, {}
        for name, config in variants.items():
            start = time.perf_counter()
            matchers[name] = StereoMatcher(config.replace(disparity_range=pair.disparities))
            matchers[name].prepare(pair.left.shape[1], pair.left.shape[0])
            prepared[name] = (time.perf_counter() - start) * 1e3
            first[name], _ = _one(matchers[name], pair, out)
        totals: dict[str, list[float]] = {name: [] for name in variants}
        stages: dict[str, dict[str, list[float]]] = {name: {} for name in variants}
        for _ in range(frames):
            for name, matcher in matchers.items():
                total, timings = _one(matcher, pair, out)
                totals[name].append(total)
                for stage, value in timings.items():
                    stages[name].setdefault(stage, []).append(value)
            if progress:
                progress()
        results = []
        for name, matcher in matchers.items():
            plan = matcher.memory_plan
            results.append(Times(pair, name, matcher.backend, prepared[name], first[name],
                                 totals[name], stages[name], plan.total if plan else 0))
        return results
    finally:
        for matcher in matchers.values():
            matcher.close()


def _one(matcher: StereoMatcher, pair: Pair, out: Mapping[str, np.ndarray]
         ) -> tuple[float, Mapping[str, float]]:
    start = time.perf_counter()
    frame = matcher.compute(pair.left, pair.right, out=out)
    return (time.perf_counter() - start) * 1e3, frame.timings


def ratios(results: Sequence[Times]) -> list[float]:
    """Each variant's median time as a share of the first one's on the same pair."""
    return [one.median / results[0].median for one in results]
