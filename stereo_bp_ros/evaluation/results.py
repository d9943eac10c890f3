"""What matchers made of frames: figures of one frame, of one pair, and of all together."""

from __future__ import annotations

import array
import collections
import dataclasses
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from stereo_bp_ros.evaluation.frame_scores import FrameScore, Means
from stereo_bp_ros.findings import Finding

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
    findings: checks that do not hold.
    """

    name: str
    width: int
    height: int
    matchers: Mapping[str, Figures]
    process_bytes: int | None = None
    input: str = ''
    findings: tuple[Finding, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """For JSON: the own matcher's figures, and below ``against`` those of others."""
        own, *others = self.matchers
        return {'name': self.name, 'input': self.input, 'width': self.width, 'height': self.height,
                'process_bytes': self.process_bytes,
                **self.matchers[own].to_dict(),
                'against': {name: self.matchers[name].to_dict() for name in others}}


def _numbers() -> array.array[float]:
    """None yet; each takes eight bytes."""
    return array.array('d')


@dataclasses.dataclass(frozen=True)
class Curves:
    """One matcher frame by frame, a value a frame.

    wrong:     bad-3 with holes counted as wrong, per cent; NaN without truth.
    coverage:  pixels with a disparity, per cent of all.
    median_ms: of the runs, milliseconds.
    """

    wrong: array.array[float] = dataclasses.field(default_factory=_numbers)
    coverage: array.array[float] = dataclasses.field(default_factory=_numbers)
    median_ms: array.array[float] = dataclasses.field(default_factory=_numbers)

    def extend(self, other: Curves) -> None:
        """The frames of the other follow."""
        self.wrong.extend(other.wrong)
        self.coverage.extend(other.coverage)
        self.median_ms.extend(other.median_ms)


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
    times_ms: of all runs in their order, milliseconds.
    curves: frame by frame.
    searched: how many frames each number of disparities was searched in, as
            ``Figures.disparity_range``.
    """

    frames: int
    mean: Mapping[str, Any]
    pooled: FrameScore
    median_ms: float
    latency_ms: Mapping[str, Mapping[str, float]]
    engine_bytes: int | None
    times_ms: Sequence[float]
    curves: Curves
    searched: Mapping[int | None, int]

    def to_dict(self) -> dict[str, Any]:
        """For JSON: ``all`` are the pooled figures as published."""
        pooled = self.pooled.as_dict()
        return {'frames': self.frames, 'all': pooled.pop('score'), **pooled,
                'median_ms': self.median_ms, 'latency_ms': dict(self.latency_ms),
                'engine_bytes': self.engine_bytes, 'mean': dict(self.mean)}


@dataclasses.dataclass(frozen=True)
class Totals:
    """All frames together.

    frames:   how many.
    matchers: each over all frames, by its name, the own one first.
    inputs:   the same of each input alone, by its name; '' where there is but one.
    process_bytes: as the largest of ``Result.process_bytes``.
    """

    frames: int
    matchers: Mapping[str, Summary]
    inputs: Mapping[str, Mapping[str, Summary]]
    process_bytes: int | None

    @property
    def own(self) -> Summary:
        """Of the own matcher."""
        return next(iter(self.matchers.values()))


def totals_of(results: Iterable[Result]) -> Totals:
    """Every matcher over all frames and those of each input; a result at a time.

    :raises ValueError: there are no results.
    """
    parts: dict[str, dict[str, _Total]] = collections.defaultdict(_totals)
    frames, process_bytes = 0, None
    for result in results:
        frames += 1
        process_bytes = most((process_bytes, result.process_bytes))
        for name, figures in result.matchers.items():
            parts[result.input][name].add(figures)
    if not parts:
        raise ValueError('there are no results to summarise')
    inputs = {label: {name: total.summary() for name, total in part.items()}
              for label, part in parts.items()}
    if len(inputs) == 1:
        return Totals(frames, next(iter(inputs.values())), inputs, process_bytes)
    whole = _totals()
    for part in parts.values():
        for name, total in part.items():
            whole[name].extend(total)
    return Totals(frames, {name: total.summary() for name, total in whole.items()}, inputs,
                  process_bytes)


class _Total:
    """One matcher over the frames so far."""

    def __init__(self) -> None:
        self._pooled: FrameScore | None = None
        self._means = Means()
        self._curves = Curves()
        self._total, self._device = _numbers(), _numbers()
        self._stages: dict[str, array.array[float]] = {}
        self._engine_bytes: int | None = None
        self._searched: collections.Counter[int | None] = collections.Counter()

    def add(self, figures: Figures) -> None:
        published = figures.frame.whole.published
        self._pool(figures.frame)
        self._means.add(_averaged(figures))
        self._curves.wrong.append(published.bad_known(3.0))
        self._curves.coverage.append(published.coverage)
        self._curves.median_ms.append(figures.median_ms)
        self._total.extend(figures.times_ms)
        if figures.device_ms is not None:
            self._device.append(figures.device_ms)
        for stage, ms in figures.stages_ms.items():
            self._stages.setdefault(stage, _numbers()).append(ms)
        self._engine_bytes = most((self._engine_bytes, figures.engine_bytes))
        self._searched[figures.disparity_range] += 1

    def extend(self, other: _Total) -> None:
        """The frames of the other follow."""
        if other._pooled is not None:
            self._pool(other._pooled)
        self._means.extend(other._means)
        self._curves.extend(other._curves)
        self._total.extend(other._total)
        self._device.extend(other._device)
        for stage, ms in other._stages.items():
            self._stages.setdefault(stage, _numbers()).extend(ms)
        self._engine_bytes = most((self._engine_bytes, other._engine_bytes))
        self._searched += other._searched

    def _pool(self, frame: FrameScore) -> None:
        self._pooled = frame if self._pooled is None else self._pooled + frame

    def summary(self) -> Summary:
        assert self._pooled is not None
        times = {'total': self._total, **({'device': self._device} if self._device else {}),
                 **self._stages}
        # The order of confidence belongs to a frame: of many there is the mean alone.
        return Summary(
            len(self._curves.median_ms), self._means.found(),
            dataclasses.replace(self._pooled, sparsification=None),
            statistics.median(self._curves.median_ms),
            {name: percentiles(values) for name, values in times.items()}, self._engine_bytes,
            self._total, self._curves, self._searched)


def _totals() -> dict[str, _Total]:
    """None yet; a matcher that is asked for is there."""
    return collections.defaultdict(_Total)


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
