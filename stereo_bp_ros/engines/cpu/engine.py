"""The CPU engine: one arena, and a frame through the stages."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from stereo_bp_ros import partitions
from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines import Engine
from stereo_bp_ros.engines.cpu import (
    beliefs,
    convert,
    cost,
    layout_plan,
    layouts,
    messages,
    plan,
    preprocess,
    refine,
    runtime,
    sad,
    tiled,
)
from stereo_bp_ros.geometry import ALIGNMENT, ArraySpec
from stereo_bp_ros.images import RawImage
from stereo_bp_ros.types import ENGINE_STAGES, OUTPUTS, empty_output


class CpuEngine(Engine):
    """Matches pairs of one size on the CPU; see ``engines.Engine``."""

    backend = 'cpu'

    def __init__(self, config: MatcherConfig, width: int, height: int,
                 parts: partitions.Partitioning | None = None) -> None:
        self.config = config
        self.width = width
        self.height = height
        self.parts = parts or partitions.whole(width, height)
        self.plan = plan.memory_plan(config, width, height, self.parts)
        self._threads = plan.threads(config)
        arena = _aligned(self.plan.total)
        self._arrays = {spec.name: _view(arena, spec) for spec in self.plan.arrays}
        self._right_least = self._arrays.get('right_least',
                                             np.empty((0, 0), plan.sum_dtype(config)))
        is_bp = config.stereo_algorithm == 'bp' and not config.repeats_papers
        self._levels = (plan.levels(config, self.parts.width, self.parts.height) if is_bp
                        else [])
        self._slots = [plan.row_slots(config, k, level.height)
                       for k, level in enumerate(self._levels)]

    def warm_up(self) -> float:
        return warm_up(self.config)

    def update(self, config: MatcherConfig) -> None:
        self.config = config

    def close(self) -> None:
        self._arrays.clear()

    def compute(self, left: RawImage, right: RawImage, calibration: Calibration | None,
                outputs: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, float]:
        if not self._arrays:
            raise RuntimeError('this engine is closed')
        timings = dict.fromkeys(ENGINE_STAGES, 0.0)
        with runtime.frame(self._threads):
            with _stopwatch(timings, 'convert'):
                self._convert(left, right)
            with _stopwatch(timings, 'preprocess'):
                self._preprocess()
            needed = refine.needs(self.config, outputs)
            if self.config.stereo_algorithm == 'bp':
                self._belief_propagation(needed, timings)
            elif self.config.stereo_algorithm == 'tiled_bp':
                with _stopwatch(timings, 'messages'):
                    tiled.pass_messages(
                        self._arrays['left_matched'], self._arrays['right_matched'],
                        self.config, *self._matches(needed), self._arrays)
            else:
                with _stopwatch(timings, 'messages'):
                    self._block_matching(needed)
            with _stopwatch(timings, 'refine'):
                texture = self._smoothed('left') if needed.texture else None
                refine.refine(*self._matches(needed), texture, self.config, calibration,
                              outputs, self._arrays, self._largest_cost())
        return timings

    def _convert(self, left: RawImage, right: RawImage) -> None:
        """Grey values, as if the left image were the reference.

        With the right one as reference, mirrored and swapped images have the same geometry: its
        pixel x matches x + d of the left, which after mirroring is x - d.
        """
        if self.config.reference_image == 'right':
            left, right = right, left
        for name, raw in (('left_grey', left), ('right_grey', right)):
            grey = self._arrays[name]
            convert.to_grey(raw, grey, self.config, self._arrays)
            if self.config.reference_image == 'right':
                mirrored = self._arrays[name.replace('grey', 'matched')]
                np.copyto(mirrored, grey[:, ::-1])
                np.copyto(grey, mirrored)

    def _preprocess(self) -> None:
        for side in ('left', 'right'):
            preprocess.preprocess(self._arrays[f'{side}_grey'], self.config,
                                  self._smoothed(side), self._arrays[f'{side}_matched'],
                                  self._arrays)

    def _smoothed(self, side: str) -> np.ndarray[Any, Any]:
        """The image after the Gaussian: without one it is the grey image itself."""
        return self._arrays[f'{side}_smoothed' if self.config.smoothing_sigma else f'{side}_grey']

    def _belief_propagation(self, needed: refine.Needs, timings: dict[str, float]) -> None:
        config, arrays = self.config, self._arrays
        if config.repeats_papers:
            self._plain_belief_propagation(needed, timings)
            return
        costs = [arrays[f'cost_{k}'].reshape(-1) for k in range(config.levels)]
        passed = [arrays[f'messages_{k}'].reshape(-1) for k in range(config.levels)]
        for part in self.parts.partitions:
            with _stopwatch(timings, 'cost'):
                cost.data_cost(arrays['left_matched'], arrays['right_matched'], part.x, part.y,
                               self._levels, config.min_disparity, config.data_weight,
                               config.data_truncation, config.message_scale(), costs,
                               arrays['image_rows'], arrays['cost_rows'])
            with _stopwatch(timings, 'messages'):
                found = beliefs.selection(
                    part, config.min_disparity, *self._matches(needed), self._right_least,
                    arrays['belief_rows'], arrays['selected_rows'], arrays['right_rows'])
                messages.pass_messages(
                    self._levels, costs, passed, self._slots, arrays['message_vectors'],
                    self._threads, config.iterations, *config.message_smoothness(), config.exact,
                    found)

    def _largest_cost(self) -> float:
        """The largest data cost of a pixel in units of the beliefs; 1 for SAD."""
        return self.config.largest_cost if self.config.is_belief_propagation else 1.0

    def _plain_belief_propagation(self, needed: refine.Needs,
                                  timings: dict[str, float]) -> None:
        """In the papers' plain steps."""
        config, arrays = self.config, self._arrays
        levels = layout_plan.levels(config, self.width, self.height)
        with _stopwatch(timings, 'cost'):
            memory = layouts.Memory(config, levels, arrays)
            layouts.data_cost(arrays['left_matched'], arrays['right_matched'], config, levels,
                              memory)
        with _stopwatch(timings, 'messages'):
            layouts.pass_messages(config, levels, memory, arrays['plain_values'])
            layouts.choose_labels(config, levels, memory, *self._matches(needed), arrays)

    def _block_matching(self, needed: refine.Needs) -> None:
        arrays = self._arrays
        for side in ('left', 'right'):
            preprocess.to_8bit(arrays[f'{side}_matched'], self.config, arrays[f'{side}_8bit'])
        sad.match(arrays['left_8bit'], arrays['right_8bit'], self.config,
                  *self._matches(needed), arrays)

    def _matches(self, needed: refine.Needs) -> tuple[Any, Any, Any, Any, Any]:
        """Label, fraction, best, second, right_label; None for what is not needed."""
        return (self._arrays['label'], self._arrays['fraction'],
                self._if(needed.best, 'best'), self._if(needed.second, 'second'),
                self._if(needed.right_label, 'right_label'))

    def _if(self, needed: bool, name: str) -> np.ndarray[Any, Any] | None:
        return self._arrays[name] if needed else None


def warm_up(config: MatcherConfig) -> float:
    """Compile every kernel that any frame of a configuration can run; returns the seconds.

    Live settings and outputs choose between branches of a kernel, never between signatures,
    but whole kernels belong to some of them: a tiny frame runs with each switched on. The types
    of messages and costs depend on the truncation.
    """
    start = time.perf_counter()
    side = 2 * max(config.correlation_window_size, 8)
    image = RawImage.from_array(np.zeros((side, side), np.uint8))
    calibration = Calibration(focal_px=1, baseline_m=1, cx_left=0, cx_right=0, cy=0)
    outputs = {name: empty_output(name, (side, side)) for name in OUTPUTS}
    everything = config.replace(
        min_disparity=0, disparity_range=4, discontinuity_truncation=config.truncation,
        uniqueness_ratio=5.0, texture_threshold=1, subpixel=True, disp12_max_diff=1,
        median_window_size=3, speckle_size=2, filling='background')
    engine = CpuEngine(everything, side, side)
    engine.compute(image, image, calibration, outputs)
    engine.close()
    return time.perf_counter() - start


def _aligned(size: int) -> np.ndarray[Any, Any]:
    """``size`` bytes of zeros from a multiple of ``ALIGNMENT`` on.

    Written once, so that no frame waits for its pages.
    """
    memory = np.empty(size + ALIGNMENT, np.uint8)
    memory.fill(0)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start:start + size]


def _view(arena: np.ndarray[Any, Any], spec: ArraySpec) -> np.ndarray[Any, Any]:
    return arena[spec.offset:spec.offset + spec.nbytes].view(spec.dtype).reshape(spec.shape)


@contextmanager
def _stopwatch(timings: dict[str, float], stage: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    timings[stage] += (time.perf_counter() - start) * 1e3
