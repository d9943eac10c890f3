"""What matchers made of frames: figures of one frame, of one pair, and of all together."""

from __future__ import annotations

import array
import dataclasses
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

import numpy as np

from stereo_bp_ros.evaluation.frame_scores import FrameScore, Means

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


def summaries(results: Iterable[Result]) -> dict[str, Summary]:
    """Every matcher over all frames, by its name; a result at a time.

    :raises ValueError: there are no results.
    """
    found: dict[str, _Total] = {}
    for result in results:
        for name, figures in result.matchers.items():
            if name not in found:
                found[name] = _Total()
            found[name].add(figures)
    if not found:
        raise ValueError('there are no results to summarise')
    return {name: total.summary() for name, total in found.items()}


class _Total:
    """One matcher over the frames so far."""

    def __init__(self) -> None:
        self._pooled: FrameScore | None = None
        self._means = Means()
        self._medians_ms, self._total, self._device = (array.array('d') for _ in range(3))
        self._stages: dict[str, array.array[float]] = {}
        self._engine_bytes: int | None = None

    def add(self, figures: Figures) -> None:
        self._pooled = figures.frame if self._pooled is None else self._pooled + figures.frame
        self._means.add(_averaged(figures))
        self._medians_ms.append(figures.median_ms)
        self._total.extend(figures.times_ms)
        if figures.device_ms is not None:
            self._device.append(figures.device_ms)
        for stage, ms in figures.stages_ms.items():
            self._stages.setdefault(stage, array.array('d')).append(ms)
        self._engine_bytes = most((self._engine_bytes, figures.engine_bytes))

    def summary(self) -> Summary:
        assert self._pooled is not None
        times = {'total': self._total, **({'device': self._device} if self._device else {}),
                 **self._stages}
        # The order of confidence belongs to a frame: of many there is the mean alone.
        return Summary(
            len(self._medians_ms), self._means.found(),
            dataclasses.replace(self._pooled, sparsification=None),
            statistics.median(self._medians_ms),
            {name: percentiles(values) for name, values in times.items()}, self._engine_bytes)


class Part(Sequence[Result]):
    """Some of the results, by their places."""

    def __init__(self, results: Sequence[Result], places: Sequence[int]) -> None:
        self._results, self._places = results, places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> Result: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Result]: ...

    def __getitem__(self, index: int | slice) -> Result | Sequence[Result]:
        if isinstance(index, slice):
            return Part(self._results, self._places[index])
        return self._results[self._places[index]]


def by_input(results: Sequence[Result]) -> dict[str, Part]:
    """The results of each input by its name, in their order."""
    places: dict[str, array.array[int]] = {}
    for place, one in enumerate(results):
        places.setdefault(one.input, array.array('Q')).append(place)
    return {name: Part(results, found) for name, found in places.items()}


def _averaged(figures: Figures) -> dict[str, Any]:
    """Figures of which a mean over frames says something: not single runs, nor extremes."""
    known = figures.to_dict()
    del known['times_ms'], known['engine_bytes'], known['disparity_range']
    return known


def most(values: Iterable[int | None]) -> int | None:
    """The largest value that is known; None = none is."""
    return max((value for value in values if value is not None), default=None)


def percentiles(values: Iterable[float]) -> dict[str, float]:
    """``p50``, ``p99`` and ``p99.9`` of values; of few the largest are interpolated."""
    found = np.percentile(np.fromiter(values, float), PERCENTILES)
    return {f'p{share:g}': float(value) for share, value in zip(PERCENTILES, found, strict=True)}
