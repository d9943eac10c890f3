"""The CPU engine: one arena, and a frame through the stages."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from stereo_bp_ros import quantisation
from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines import Engine
from stereo_bp_ros.engines.cpu.costs import features
from stereo_bp_ros.engines.cpu.matching import Matches, stopwatch
from stereo_bp_ros.engines.cpu.plan import Plan, plan_of
from stereo_bp_ros.engines.cpu.simd import runtime
from stereo_bp_ros.engines.cpu.stages import convert, preprocess, refine
from stereo_bp_ros.geometry import ALIGNMENT, ArraySpec
from stereo_bp_ros.images import RawImage
from stereo_bp_ros.partitions import Partitioning
from stereo_bp_ros.types import ENGINE_STAGES, OUTPUTS, empty_output


class CpuEngine(Engine):
    """Matches pairs of one size on the CPU; see ``engines.Engine``."""

    backend = 'cpu'
    plan: Plan

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        arena = _aligned(plan.memory.total)
        self._arrays = {spec.name: _view(arena, spec) for spec in plan.memory.arrays}
        self._matching = plan.matching(plan, self._arrays)

    @classmethod
    def of(cls, config: MatcherConfig, width: int, height: int,
           parts: Partitioning | None = None) -> CpuEngine:
        """An engine with a plan; ``parts``: how belief propagation cuts the images."""
        return cls(plan_of(config, width, height, parts))

    def warm_up(self) -> float:
        return warm_up(self.config)

    def update(self, config: MatcherConfig) -> None:
        self.config = config

    def close(self) -> None:
        # No view may be left: it would keep all of the memory.
        self._arrays.clear()

    def compute(self, left: RawImage, right: RawImage, calibration: Calibration | None,
                outputs: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, float]:
        if not self._arrays:
            raise RuntimeError('this engine is closed')
        timings = dict.fromkeys(ENGINE_STAGES, 0.0)
        with runtime.frame(self.plan.threads):
            with stopwatch(timings, 'convert'):
                self._convert(left, right)
            with stopwatch(timings, 'preprocess'):
                self._preprocess()
            needed = refine.needs(self.config, outputs)
            self._matching.match(self.config, self._matches(needed), timings)
            with stopwatch(timings, 'refine'):
                grey = self._smoothed('left') if needed.grey else None
                refine.refine(*self._matches(needed), grey, self.config, calibration,
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
                mirrored = self._arrays['plane_a']
                np.copyto(mirrored, grey[:, ::-1])
                np.copyto(grey, mirrored)

    def _preprocess(self) -> None:
        for side in ('left', 'right'):
            if self.config.has_combined_cost:
                preprocess.smooth(self._arrays[f'{side}_grey'], self.config.smoothing_sigma,
                                  self._smoothed(side))
                features.extract(self._smoothed(side), side, self.config, self._arrays)
                continue
            preprocess.preprocess(self._arrays[f'{side}_grey'], self.config,
                                  self._smoothed(side), self._arrays[f'{side}_matched'],
                                  self._arrays)

    def _smoothed(self, side: str) -> np.ndarray[Any, Any]:
        """The image after the Gaussian: without one it is the grey image itself."""
        return self._arrays[f'{side}_smoothed' if self.config.smoothing_sigma else f'{side}_grey']

    def _largest_cost(self) -> float:
        """The largest data cost of a pixel in units of the beliefs; 1 for SAD."""
        return quantisation.largest_cost(self.config) if self.config.is_belief_propagation else 1.0

    def _matches(self, needed: refine.Needs) -> Matches:
        return Matches(self._arrays['label'], self._arrays['fraction'],
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
        median_window_size=3, speckle_size=2, confidence_window_size=3,
        confidence_threshold=0.1, contrast_threshold=1.0, filling='plane',
        bilateral_passes=1)
    engine = CpuEngine.of(everything, side, side)
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
