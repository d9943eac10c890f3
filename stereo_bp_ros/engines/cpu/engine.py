"""The CPU engine: one arena, and a frame through the stages."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.config import MatcherConfig, ResolvedConfig, quantisation
from stereo_bp_ros.engines import programs
from stereo_bp_ros.engines.backend import Engine
from stereo_bp_ros.engines.cpu.costs import features
from stereo_bp_ros.engines.cpu.matching import Matches, stopwatch
from stereo_bp_ros.engines.cpu.outputs import (
    Finished,
    enlarge_confidences,
    enlarge_disparities,
    fill,
    fill_levels,
)
from stereo_bp_ros.engines.cpu.plan import Plan, plan_of, resolve
from stereo_bp_ros.engines.cpu.simd import runtime
from stereo_bp_ros.engines.cpu.stages import convert, preprocess, rectify, refine
from stereo_bp_ros.geometry import ALIGNMENT, ArraySpec
from stereo_bp_ros.images import RawImage
from stereo_bp_ros.partitions import Partitioning
from stereo_bp_ros.rectification import Rectification
from stereo_bp_ros.types import ENGINE_STAGES, OUTPUTS


class CpuEngine(Engine):
    """Matches pairs of one size on the CPU; see ``engines.Engine``."""

    backend = 'cpu'
    plan: Plan

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        arena = _align(plan.memory.total)
        self._arrays = {spec.name: _view(arena, spec) for spec in plan.memory.arrays}
        self._matching = programs.matching('cpu', plan.config)(plan, self._arrays)
        self._rectification: Rectification | None = None        # that the maps are of

    @classmethod
    def of(cls, config: MatcherConfig, width: int, height: int,
           parts: Partitioning | None = None) -> CpuEngine:
        """An engine with a plan; ``parts``: how belief propagation cuts the images."""
        return cls(plan_of(config, width, height, parts))

    def warm_up(self) -> float:
        return warm_up(self.config, self.plan.downscale)

    def wait_for(self, stream: int) -> None:
        pass        # nothing that reaches this engine is on a device

    def update(self, config: MatcherConfig) -> None:
        self.config = resolve(config)

    def close(self) -> None:
        # No view may be left: it would keep all of the memory.
        self._arrays.clear()

    def compute(self, left: RawImage, right: RawImage, calibration: Calibration | None,
                outputs: Mapping[str, Any],
                rectification: Rectification | None = None) -> dict[str, float]:
        if not self._arrays:
            raise RuntimeError('this engine is closed')
        timings = dict.fromkeys(ENGINE_STAGES, 0.0)
        with runtime.frame(self.plan.threads):
            with stopwatch(timings, 'convert'):
                if rectification is not None and rectification != self._rectification:
                    self._rectification = None      # while half of them are new
                    rectify.fill_maps(rectification, self._arrays)
                    self._rectification = rectification
                self._convert(left, right)
            with stopwatch(timings, 'preprocess'):
                self._preprocess()
            matches = self._matches(*refine.needs(self.config, outputs))
            self._matching.match(self.config, matches, timings)
            with stopwatch(timings, 'refine'):
                disparity = self._refine(matches, outputs.get('confidence'))
            seen = left if self.config.reference_image == 'left' else right
            if self.config.rectify and 'points' in outputs:
                with stopwatch(timings, 'points'):
                    seen = self._rectified_reference()
            fill(Finished(disparity, self.plan.downscale * self.config.min_disparity, seen,
                          self.config, calibration, self._arrays), outputs, timings)
        return timings

    def _convert(self, left: RawImage, right: RawImage) -> None:
        """Grey values, as if the left image were the reference.

        With the right one as reference, mirrored and swapped images have the same geometry: its
        pixel x matches x + d of the left, which after mirroring is x - d.
        """
        sides = [('left', left), ('right', right)]
        if self.config.reference_image == 'right':
            sides.reverse()
        for name, (side, raw) in zip(('left_grey', 'right_grey'), sides, strict=True):
            grey = self._arrays[name]
            self._to_grey(raw, side, grey)
            if self.config.reference_image == 'right':
                mirrored = self._arrays['plane_a']
                np.copyto(mirrored, grey[:, ::-1])
                np.copyto(grey, mirrored)

    def _to_grey(self, raw: RawImage, side: str, grey: np.ndarray[Any, Any]) -> None:
        arrays, scale, factor = self._arrays, self.config.mono16_scale, self.plan.downscale
        whole = arrays['image_grey'] if factor > 1 else grey
        if self.config.rectify:
            rectify.to_grey(raw, side, whole, scale, arrays)
            scale = 1.0
        else:
            convert.to_grey(raw, whole, 1.0 if factor > 1 else scale, arrays)
        if factor > 1:
            preprocess.to_means(whole, factor, scale if raw.layout.bits == 16 else None, grey)

    def _rectified_reference(self) -> RawImage:
        """Grey values of the rectified reference image, as large as it is."""
        levels = self._arrays['reference_levels']
        fill_levels(self._arrays['left_grey'], self.plan.downscale,
                    self.config.reference_image == 'right', levels)
        return RawImage.from_array(levels)

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

    def _refine(self, matches: Matches, confidences: np.ndarray[Any, Any] | None
                ) -> np.ndarray[Any, Any]:
        """The finished disparity, as large as the images."""
        arrays, factor = self._arrays, self.plan.downscale
        found = confidences
        if factor > 1 and confidences is not None:
            found = arrays['reduced_confidence']
        refine.refine(matches, self._smoothed('left'), self.config, arrays, found,
                      self._largest_cost())
        if factor == 1:
            return arrays['final']
        enlarge_disparities(arrays['final'], factor, arrays['enlarged'])
        if found is not None and confidences is not None:
            enlarge_confidences(found, factor, confidences)
        return arrays['enlarged']

    def _largest_cost(self) -> float:
        """The largest data cost of a pixel in units of the beliefs; 1 for SAD."""
        return quantisation.largest_cost(self.config) if self.config.is_belief_propagation else 1.0

    def _matches(self, with_costs: bool, with_right: bool) -> Matches:
        arrays = self._arrays
        return Matches(arrays['label'], arrays['fraction'], arrays['best'], arrays['second'],
                       arrays['right_label'], with_costs, with_right)


def warm_up(config: ResolvedConfig, factor: int = 1) -> float:
    """Compile every kernel that any frame of a configuration can run; returns the seconds.

    Live settings and outputs choose between branches of a kernel, never between signatures,
    but whole kernels belong to some of them: a tiny frame runs with each switched on. The types
    of messages and costs depend on the truncation.

    :param config: of the images as they are matched; factor: how many times they are reduced.
    """
    start = time.perf_counter()
    side = 2 * max(config.correlation_window_size, 8) * factor
    image = RawImage.from_array(np.zeros((side, side), np.uint8))
    calibration = Calibration(focal_px=1, baseline_m=1, cx_left=0, cx_right=0, cy=0)
    outputs = {name: output.empty((side, side)) for name, output in OUTPUTS.items()}
    everything = config.replace(
        rectify=False, downscale=factor, min_disparity=0, disparity_range=4 * factor,
        discontinuity_truncation=config.truncation, uniqueness_ratio=5.0, texture_threshold=1,
        subpixel=True, disp12_max_diff=1, median_window_size=3, speckle_size=2,
        confidence_window_size=3, confidence_threshold=0.1, contrast_threshold=1.0,
        filling='plane', bilateral_passes=1)
    engine = CpuEngine.of(everything, side, side)
    engine.compute(image, image, calibration, outputs)
    if config.rectify:
        fill_levels(np.zeros((2, 2), np.float32), 1, False, np.zeros((2, 2), np.uint8))
    engine.close()
    return time.perf_counter() - start


def _align(size: int) -> np.ndarray[Any, Any]:
    """``size`` bytes of zeros from a multiple of ``ALIGNMENT`` on.

    Written once, so that no frame waits for its pages.
    """
    memory = np.empty(size + ALIGNMENT, np.uint8)
    memory.fill(0)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start:start + size]


def _view(arena: np.ndarray[Any, Any], spec: ArraySpec) -> np.ndarray[Any, Any]:
    return arena[spec.offset:spec.offset + spec.nbytes].view(spec.dtype).reshape(spec.shape)
