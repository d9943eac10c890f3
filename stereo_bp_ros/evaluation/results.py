"""What matchers made of frames: figures of one frame, of one pair, and of all together."""

from __future__ import annotations

import array
import collections
import contextlib
import dataclasses
import itertools
import math
import os
import pickle
import statistics
import tempfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from stereo_bp_ros.cameras.row_estimator import RowState
from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.evaluation.frame_scores import FrameScore, MapScore, Means
from stereo_bp_ros.evaluation.metrics import Score
from stereo_bp_ros.issues import Issue

#: Of the times of all runs of all frames.
PERCENTILES = (50.0, 95.0, 99.0, 99.9)

#: Begins the keys of rate and latency, which are those of ros2_benchmark (its
#: ``BasicPerformanceCalculator``, https://github.com/NVIDIA-ISAAC-ROS/ros2_benchmark) where the
#: meaning is the same.
PERFORMANCE = 'BasicPerformanceMetrics.'


@dataclasses.dataclass(frozen=True)
class PairRows:
    """The rows of a pair for one matcher.

    state:     what is known once the pair was looked at.
    corrected_px: maximum correction of its rows, pixels; None: ``row_correction`` is measure.
    begins:    whether it begins a sequence.
    is_alone:  whether it has no stamp, and is measured by itself if at all.
    """

    state: RowState
    corrected_px: float | None
    begins: bool
    is_alone: bool = False


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
    rows:      what was measured and corrected; None where nothing was measured.
    """

    times_ms: Sequence[float]
    frame: FrameScore
    stages_ms: Mapping[str, float] = dataclasses.field(default_factory=dict)
    device_ms: float | None = None
    engine_bytes: int | None = None
    disparity_range: int | None = None
    rows: PairRows | None = None

    @property
    def row_correction_px(self) -> float | None:
        """Maximum correction of rows in the right image, pixels; None: none is corrected."""
        return None if self.rows is None else self.rows.corrected_px

    @property
    def median_ms(self) -> float:
        """Of the runs, milliseconds."""
        return statistics.median(self.times_ms)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {'median_ms': self.median_ms, 'times_ms': list(self.times_ms),
                'stages_ms': dict(self.stages_ms), 'device_ms': self.device_ms,
                'engine_bytes': self.engine_bytes, 'disparity_range': self.disparity_range,
                'row_correction_px': self.row_correction_px,
                **self.frame.as_dict()}


@dataclasses.dataclass(frozen=True)
class Result:
    """One frame: its size in pixels, and what every matcher, the own one first, made of it.

    process_bytes: resident memory that the process has had at most until then, of all matchers,
                   images and scores; None where the system does not say it.
    input: as ``Pair.input``.
    issues: of the pair and its result.
    """

    name: str
    width: int
    height: int
    matchers: Mapping[str, Figures]
    process_bytes: int | None = None
    input: str = ''
    issues: tuple[Issue, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """For JSON: the own matcher's figures, and below ``against`` those of others."""
        own, *others = self.matchers
        return {'name': self.name, 'input': self.input, 'width': self.width, 'height': self.height,
                'process_bytes': self.process_bytes,
                **self.matchers[own].to_dict(),
                'against': {name: self.matchers[name].to_dict() for name in others}}


def _numbers() -> array.array[float]:
    """An empty array of eight bytes a number."""
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


@dataclasses.dataclass(frozen=True)
class Summary:
    """One matcher over all frames.

    frames: how many.
    mean:   of the figures of the frames (``Figures.to_dict``), each frame counting the same.
    pooled: of all their pixels together.
    median_ms: median of the frames' times, milliseconds; None of no frames.
    latency_ms: stage, ``device`` or ``total`` of all runs, to its ``percentiles``,
            milliseconds; empty of no runs.
    engine_bytes: of the engine that needs the most; None where it is not known.
    times_ms: of all runs in their order, milliseconds.
    curves: frame by frame.
    searched: how many frames each number of disparities was searched in, as
            ``Figures.disparity_range``.
    """

    frames: int
    mean: Mapping[str, Any]
    pooled: FrameScore
    median_ms: float | None
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
                **performance(self.times_ms), 'engine_bytes': self.engine_bytes,
                'mean': dict(self.mean)}


@dataclasses.dataclass(frozen=True)
class Totals:
    """All frames together.

    frames:   how many.
    matchers: each over all frames, by its name, the own one first.
    inputs:   the same of each input alone, by its name; '' where there is but one.
    process_bytes: as the maximum of ``Result.process_bytes``.
    """

    frames: int
    matchers: Mapping[str, Summary]
    inputs: Mapping[str, Mapping[str, Summary]]
    process_bytes: int | None

    @property
    def own(self) -> Summary:
        """Of the own matcher."""
        return next(iter(self.matchers.values()))


def totals_of(results: Iterable[Result], own: str = '') -> Totals:
    """Every matcher over all frames and those of each input; a result at a time.

    :param own: name of the own matcher, where there may be no results.
    :raises ValueError: there are no results, and no name.
    """
    parts: dict[str, dict[str, _Total]] = {'': {own: _Total()}} if own else {}
    frames, process_bytes = 0, None
    for result in results:
        frames += 1
        process_bytes = max_known((process_bytes, result.process_bytes))
        for name, figures in result.matchers.items():
            averaged = {key: value for key, value in figures.to_dict().items() if key not in (
                'times_ms', 'engine_bytes', 'disparity_range')}
            for label in {'', result.input}:
                parts.setdefault(label, {}).setdefault(name, _Total()).add(figures, averaged)
    if not parts:
        raise ValueError('there are no results to summarise')
    inputs = {label: {name: total.summary() for name, total in part.items()}
              for label, part in parts.items()}
    whole = inputs['']
    if len(inputs) > 1:
        del inputs['']
    return Totals(frames, whole, inputs, process_bytes)


class _Total:
    """One matcher over the frames so far."""

    def __init__(self) -> None:
        self._pooled = FrameScore(MapScore(Score(), Score()))
        self._means = Means()
        self._curves = Curves()
        self._times: dict[str, array.array[float]] = {'total': _numbers()}
        self._engine_bytes: int | None = None
        self._searched: collections.Counter[int | None] = collections.Counter()

    def add(self, figures: Figures, averaged: Mapping[str, Any]) -> None:
        frame = figures.frame
        self._pooled += frame
        self._means.add(averaged)
        self._curves.wrong.append(frame.whole.published.bad_all(3.0))
        self._curves.coverage.append(frame.whole.published.coverage)
        self._curves.median_ms.append(figures.median_ms)
        self._times['total'].extend(figures.times_ms)
        device = {} if figures.device_ms is None else {'device': figures.device_ms}
        for stage, ms in {**device, **figures.stages_ms}.items():
            self._times.setdefault(stage, _numbers()).append(ms)
        self._engine_bytes = max_known((self._engine_bytes, figures.engine_bytes))
        self._searched[figures.disparity_range] += 1

    def summary(self) -> Summary:
        frames = len(self._curves.median_ms)
        return Summary(
            frames, self._means.result(), self._pooled,
            statistics.median(self._curves.median_ms) if frames else None,
            {name: percentiles(values) for name, values in self._times.items() if values},
            self._engine_bytes, self._times['total'], self._curves, self._searched)


def report_of(results: Collection[Result], totals: Totals) -> dict[str, Any]:
    """For JSON: every figure of the own matcher, and of the others below ``against``."""
    own, *others = ((name, one.to_dict()) for name, one in totals.matchers.items())
    return {**own[1], 'process_bytes': totals.process_bytes, 'against': dict(others),
            'by_input': {label: next(iter(part.values())).to_dict()
                         for label, part in totals.inputs.items() if label},
            'pairs': Rows(lambda: (result.to_dict() for result in results), len(results))}


def performance(times_ms: Sequence[float]) -> dict[str, float | None]:
    """Rate and latency of runs one after another, of which none misses; None of no runs.

    times_ms: from images in memory to a disparity in memory, of every run in their order.
    """
    count, whole = len(times_ms), math.fsum(times_ms)
    first, last = (times_ms[0], times_ms[-1]) if count else (None, None)
    return {PERFORMANCE + key: value for key, value in {
        'NUM_FRAMES_SENT': count, 'NUM_MISSED_FRAMES': 0,
        'MEAN_FRAME_RATE': 1e3 * count / whole if count else None,
        'FIRST_INPUT_LATENCY': first, 'LAST_INPUT_LATENCY': last,
        'MIN_LATENCY': min(times_ms, default=None),
        'MEAN_LATENCY': whole / count if count else None,
        'MAX_LATENCY': max(times_ms, default=None)}.items()}


def max_known(values: Iterable[int | None]) -> int | None:
    """The maximum of the known values; None = none is known."""
    return max((value for value in values if value is not None), default=None)


def percentiles(values: Iterable[float]) -> dict[str, float]:
    """``p50`` to ``p99.9`` and ``max`` of values; of few, upper ones are interpolated."""
    known = np.fromiter(values, float)
    shares = np.percentile(known, PERCENTILES)
    return {**{f'p{percent:g}': float(value)
               for percent, value in zip(PERCENTILES, shares, strict=True)},
            'max': float(known.max())}


@contextlib.contextmanager
def room_is_needed() -> Iterator[None]:
    """For what keeps results on the disk.

    :raises StereoError: there is no room for them.
    """
    try:
        yield
    except OSError as error:
        raise StereoError(f'results cannot be kept in {tempfile.gettempdir()}, the folder '
                          f'TMPDIR: {error.strerror}') from error


class Results(Collection[Result]):
    """Results on the disk, in a file without a name: a long evaluation does not fill the memory.

    A result with truth takes tens of kilobytes in memory, and about two in the file.

    :raises StereoError: there is no room for them.
    """

    def __init__(self) -> None:
        with room_is_needed():
            self._file = tempfile.TemporaryFile(prefix='stereo_bp_')  # noqa: SIM115
        self._ends = array.array('Q', [0])

    def append(self, result: Result) -> None:
        """Keep one more."""
        with room_is_needed():
            self._ends.append(self._ends[-1] + self._file.write(zlib.compress(
                pickle.dumps(result), 1)))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __contains__(self, item: object) -> bool:
        return any(one == item for one in self)

    def __iter__(self) -> Iterator[Result]:
        with room_is_needed():
            self._file.flush()
        for start, end in itertools.pairwise(self._ends):
            yield pickle.loads(zlib.decompress(os.pread(self._file.fileno(), end - start, start)))


class Rows(list[Any]):
    """A list for ``json.dump`` whose items are made when it writes them.

    :param make: begins anew.
    """

    def __init__(self, make: Callable[[], Iterator[Any]], count: int) -> None:
        super().__init__()
        self._make, self._count = make, count

    def __iter__(self) -> Iterator[Any]:
        return self._make()

    def __len__(self) -> int:
        return self._count
