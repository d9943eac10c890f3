"""Times of the matcher: variants take turns on one pair, so that drift meets all of them."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.engines.backend import Backend
from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.matcher.stereo_matcher import StereoMatcher

#: Frames of one variant in a row. What another variant leaves in the caches, and the graph of
#: another engine on the device, costs the first frame of a turn time that no user sees (20 us on
#: an H200): it is not counted.
TURN = 10

#: Stages that a device's own clock measures; the host's measures upload and download, in which
#: lie copying, launching and waiting as well.
DEVICE_STAGES = ('convert', 'preprocess', 'cost', 'messages', 'refine')


def device_ms(backend: str, stages: Mapping[str, float]) -> float | None:
    """Time of a frame on the device's clock, milliseconds; None where there is no such clock.

    :param stages: of the frame, ``DisparityFrame.timings``.
    """
    if backend == 'cpu':
        return None
    return math.fsum(stages[name] for name in DEVICE_STAGES if name in stages)


#: The back end of a configuration: ``choice.choose``.
Choose = Callable[[MatcherConfig], Backend[Any]]


@dataclasses.dataclass(frozen=True)
class Pair:
    """What is matched: uint8 H x W images and the number of disparities searched."""

    name: str
    left: np.ndarray
    right: np.ndarray
    disparities: int


@dataclasses.dataclass(frozen=True)
class Variant:
    """How it is matched; ``is_pinned``: the caller's arrays lie in page-locked memory."""

    name: str
    config: MatcherConfig
    is_pinned: bool = False


@dataclasses.dataclass(frozen=True)
class ColdStart:
    """From nothing to the first result, milliseconds.

    compile:  compiling, or reading compiled code from the disk.
    allocate: the rest of building the engine.
    first:    the first frame.
    origins:  kernels 'compiled', 'kept' of these, and read from 'disk'. What an earlier variant
              of the process has loaded is none of them.
    """

    compile: float
    allocate: float
    first: float
    origins: Mapping[str, int]


@dataclasses.dataclass(frozen=True)
class Times:
    """Times of one variant on one pair, milliseconds.

    total:  wall clock from images in to disparity out, of every frame that counts.
    stages: stage to its times as the engine measures them: ``DEVICE_STAGES`` on the device's
            clock where it has one.
    memory: bytes of the engine's allocation.
    kernels: what each kernel of a frame takes, ``engines.cuda.runtime.inspection.KernelUse`` as
            mappings; empty unless asked for, and on the CPU.
    local_accesses: loads and stores of local memory by warps that plain_steps.storage asks for.
    """

    pair: Pair
    variant: str
    backend: str
    is_pinned: bool
    cold: ColdStart
    total: list[float]
    stages: dict[str, list[float]]
    memory: int
    kernels: list[dict[str, Any]]
    local_accesses: tuple[int, int] = (0, 0)

    @property
    def median(self) -> float:
        return statistics.median(self.total)

    @property
    def frames_per_second(self) -> float:
        """Frames one after the other, as the median frame goes."""
        return 1e3 / self.median

    @property
    def device(self) -> list[float] | None:
        """Time of every frame on the device's clock; None where there is no such clock."""
        if self.backend == 'cpu':
            return None
        return [sum(times) for times in zip(
            *(self.stages[stage] for stage in DEVICE_STAGES if stage in self.stages),
            strict=True)]

    def to_dict(self) -> dict[str, Any]:
        """For JSON, without the single times."""
        device = self.device
        return {'set': self.pair.name, 'width': self.pair.left.shape[1],
                'height': self.pair.left.shape[0], 'disparities': self.pair.disparities,
                'variant': self.variant, 'backend': self.backend, 'is_pinned': self.is_pinned,
                'frames': len(self.total), 'median_ms': self.median,
                'minimum_ms': min(self.total), 'p95_ms': percentile(self.total, 95),
                'frames_per_second': self.frames_per_second,
                'device_ms': statistics.median(device) if device else None,
                'device_p95_ms': percentile(device, 95) if device else None,
                'stages_ms': {stage: statistics.median(times)
                              for stage, times in self.stages.items()},
                'stages_p95_ms': {stage: percentile(times, 95)
                                  for stage, times in self.stages.items()},
                'cold_start': {
                    'compile_ms': self.cold.compile, 'allocate_ms': self.cold.allocate,
                    'first_ms': self.cold.first, 'kernels': dict(self.cold.origins)},
                'memory_bytes': self.memory, 'kernels': self.kernels,
                'local_loads': self.local_accesses[0], 'local_stores': self.local_accesses[1]}


def percentile(values: Sequence[float], percent: float) -> float:
    """A percentile of single times."""
    return float(np.percentile(values, percent))


class _Contestant:
    """One variant's matcher with the arrays that it reads and fills."""

    def __init__(self, pair: Pair, variant: Variant, choose: Choose) -> None:
        self.variant = variant
        config = variant.config.replace(disparity_range=pair.disparities)
        self._backend = choose(config)
        self.matcher = StereoMatcher(config)
        height, width = pair.left.shape[:2]
        self._left, self._right = pair.left, pair.right
        disparity = np.empty((height, width), np.float32)
        if variant.is_pinned:
            tools = self._backend.tools
            if tools is None:
                raise ValueError('--pinned is of use on cuda only, and here the cpu computes: '
                                 + self.matcher.backend_reason)
            self._left, self._right, disparity = (
                tools.empty_pinned(array.shape, str(array.dtype))
                for array in (pair.left, pair.right, disparity))
            np.copyto(self._left, pair.left)
            np.copyto(self._right, pair.right)
        self._out = {'disparity': disparity}
        self.total: list[float] = []
        self.stages: dict[str, list[float]] = {}

    def start(self) -> tuple[ColdStart, list[dict[str, Any]]]:
        """Prepare and match the first frame."""
        matcher, backend = self.matcher, self._backend
        before = backend.origins()
        seconds = matcher.prepare(self._left.shape[1], self._left.shape[0])
        with backend.tools.kernels_used() if backend.tools else contextlib.nullcontext(
                []) as kernels:
            first, _ = self._one()
        origins = {name: count - before[name]
                   for name, count in backend.origins().items()}
        cold = ColdStart(matcher.compile_time * 1e3, (seconds - matcher.compile_time) * 1e3,
                         first, origins)
        return cold, [dataclasses.asdict(kernel) for kernel in kernels]

    def local_accesses(self) -> tuple[int, int]:
        """Of a frame, as ``Times.local_accesses``."""
        tools = self._backend.tools
        return (0, 0) if tools is None else tools.local_accesses(
            self.matcher.config, self._left.shape[1], self._left.shape[0])

    def turn(self, frames: int, settles: bool) -> None:
        """Match frames and note their times, after one that is not counted where it settles."""
        if settles:
            self._one()
        for _ in range(frames):
            total, timings = self._one()
            self.total.append(total)
            for stage, value in timings.items():
                self.stages.setdefault(stage, []).append(value)

    def _one(self) -> tuple[float, Mapping[str, float]]:
        start = time.perf_counter()
        frame = self.matcher.compute(self._left, self._right, out=self._out)
        return (time.perf_counter() - start) * 1e3, frame.timings


def measure(pair: Pair, variants: Sequence[Variant], frames: int, choose: Choose,
            progress: Callable[[], None] | None = None, *, seconds: float = math.inf,
            refused: dict[str, StereoError] | None = None) -> list[Times]:
    """Match one pair ``frames`` times with every variant, ``TURN`` frames of each at a time.

    The variants' ranges are the pair's. The first frame of each is part of its cold start.

    :param choose: finds the back end of a configuration.
    :param progress: called after every frame of all variants.
    :param seconds: no turn is begun after this time, but every variant has one; variants that
        are too slow for it take turns frame by frame, and all their frames count.
    :param refused: where given, variants that cannot run here are left out and noted there.
    :raises StereoError: a variant cannot run here, and ``refused`` is not given.
    """
    contestants: list[_Contestant] = []
    started: list[tuple[_Contestant, ColdStart, list[dict[str, Any]]]] = []
    try:
        for variant in variants:
            try:
                contestants.append(_Contestant(pair, variant, choose))
                started.append((contestants[-1], *contestants[-1].start()))
            except StereoError as error:
                if refused is None:
                    raise
                refused[variant.name] = error
        is_slow = TURN * sum(cold.first for _, cold, _ in started) > seconds * 1e3
        most = 1 if is_slow else TURN
        end = time.perf_counter() + seconds
        for done in range(0, frames, most):
            count = min(most, frames - done)
            for one, *_ in started:
                one.turn(count, settles=not is_slow)
            if progress:
                for _ in range(count):
                    progress()
            if time.perf_counter() > end:
                break
        return [Times(pair, one.variant.name, one.matcher.backend, one.variant.is_pinned, cold,
                      one.total, one.stages,
                      one.matcher.memory_plan.total if one.matcher.memory_plan else 0, kernels,
                      one.local_accesses())
                for one, cold, kernels in started]
    finally:
        for one in contestants:
            one.matcher.close()


def ratios(results: Sequence[Times]) -> list[float]:
    """Each variant's median time as a share of the first one's on the same pair."""
    return [one.median / results[0].median for one in results]
