"""What matchers made of frames: figures of one frame, of one pair, and of all together."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from stereo_bp_ros.evaluation.frame_scores import FrameScore, mean_of_frames

PERCENTILES = (50.0, 99.0, 99.9)
"""Of the times of all runs of all frames."""


@dataclasses.dataclass(frozen=True)
class Figures:
    """One frame as one matcher did it.

    times_ms:  of every run, milliseconds.
    frame:     its scores.
    stages_ms: time of each stage in the last run, milliseconds; empty where it is not known.
    device_ms: time of the last run on the device's clock, milliseconds; None without a device.
    engine_bytes: of the engine's one allocation, on the device where there is one; None where it
               is not known.
    disparity_range: disparities that were searched in this frame; None where it is not known.
    """

    times_ms: Sequence[float]
    frame: FrameScore
    stages_ms: Mapping[str, float] = dataclasses.field(default_factory=dict)
    device_ms: float | None = None
    engine_bytes: int | None = None
    disparity_range: int | None = None

    @property
    def median_ms(self) -> float:
        """Of the runs, milliseconds."""
        return statistics.median(self.times_ms)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {'median_ms': self.median_ms, 'times_ms': list(self.times_ms),
                'stages_ms': dict(self.stages_ms), 'device_ms': self.device_ms,
                'engine_bytes': self.engine_bytes, 'disparity_range': self.disparity_range,
                **self.frame.as_dict()}


@dataclasses.dataclass(frozen=True)
class Result:
    """One frame: its size in pixels, and what every matcher, the own one first, made of it.

    process_bytes: resident memory that the process has had at most until then, of all matchers,
                   images and scores; None where the system does not say it.
    input: as ``Pair.input``.
    """

    name: str
    width: int
    height: int
    matchers: Mapping[str, Figures]
    process_bytes: int | None = None
    input: str = ''

    def to_dict(self) -> dict[str, Any]:
        """For JSON: the own matcher's figures, and below ``against`` those of others."""
        own, *others = self.matchers
        return {'name': self.name, 'input': self.input, 'width': self.width, 'height': self.height,
                'process_bytes': self.process_bytes,
                **self.matchers[own].to_dict(),
                'against': {name: self.matchers[name].to_dict() for name in others}}


@dataclasses.dataclass(frozen=True)
class Summary:
    """One matcher over all frames.

    frames: how many.
    mean:   of the figures of the frames (``Figures.to_dict``), each frame counting the same.
    pooled: of all their pixels together.
    median_ms: median of the frames' times, milliseconds.
    latency_ms: stage, ``device`` or ``total`` of all runs, to ``p50``, ``p99`` and ``p99.9``,
            milliseconds.
    engine_bytes: of the largest engine; None where it is not known.
    """

    frames: int
    mean: Mapping[str, Any]
    pooled: FrameScore
    median_ms: float
    latency_ms: Mapping[str, Mapping[str, float]]
    engine_bytes: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """For JSON: ``all`` are the pooled figures as published."""
        pooled = self.pooled.as_dict()
        return {'frames': self.frames, 'all': pooled.pop('score'), **pooled,
                'median_ms': self.median_ms, 'latency_ms': dict(self.latency_ms),
                'engine_bytes': self.engine_bytes, 'mean': dict(self.mean)}


def summaries(results: Sequence[Result]) -> dict[str, Summary]:
    """Every matcher over all frames, by its name.

    :raises ValueError: there are no results.
    """
    if not results:
        raise ValueError('there are no results to summarise')
    found = {}
    for name in results[0].matchers:
        figures = [result.matchers[name] for result in results]
        pooled = figures[0].frame
        for one in figures[1:]:
            pooled += one.frame
        # The order of confidence belongs to a frame: of many there is the mean alone.
        found[name] = Summary(
            len(figures), mean_of_frames([_averaged(one) for one in figures]),
            dataclasses.replace(pooled, sparsification=None),
            statistics.median(one.median_ms for one in figures), _latency(figures),
            most(one.engine_bytes for one in figures))
    return found


def by_input(results: Sequence[Result]) -> dict[str, list[Result]]:
    """The results of each input by its name, in their order."""
    found: dict[str, list[Result]] = {}
    for one in results:
        found.setdefault(one.input, []).append(one)
    return found


def _averaged(figures: Figures) -> dict[str, Any]:
    """Figures of which a mean over frames says something: not single runs, nor extremes."""
    known = figures.to_dict()
    del known['times_ms'], known['engine_bytes'], known['disparity_range']
    return known


def most(values: Iterable[int | None]) -> int | None:
    """The largest value that is known; None = none is."""
    return max((value for value in values if value is not None), default=None)


def _latency(figures: Sequence[Figures]) -> dict[str, dict[str, float]]:
    stages = dict.fromkeys(name for one in figures for name in one.stages_ms)
    device = [one.device_ms for one in figures if one.device_ms is not None]
    times = {'total': [ms for one in figures for ms in one.times_ms],
             **({'device': device} if device else {}),
             **{name: [one.stages_ms[name] for one in figures if name in one.stages_ms]
                for name in stages}}
    return {name: percentiles(values) for name, values in times.items()}


def percentiles(values: Iterable[float]) -> dict[str, float]:
    """``p50``, ``p99`` and ``p99.9`` of values; of few the largest are interpolated."""
    found = np.percentile(np.fromiter(values, float), PERCENTILES)
    return {f'p{share:g}': float(value) for share, value in zip(PERCENTILES, found, strict=True)}
