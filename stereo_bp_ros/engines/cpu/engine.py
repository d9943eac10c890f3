"""The CPU engine: one arena, and a frame through the stages."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.cameras.rectification import Rectification, RightWarp
from stereo_bp_ros.config.matcher import MatcherConfig, ResolvedConfig
from stereo_bp_ros.engines.backend import Engine
from stereo_bp_ros.engines.cpu.matching import Array, stopwatch
from stereo_bp_ros.engines.cpu.outputs import (
    Finished,
    enlarge_confidences,
    enlarge_disparities,
    fill,
    fill_levels,
)
from stereo_bp_ros.engines.cpu.passes import Pass
from stereo_bp_ros.engines.cpu.plan import Plan, plan_of
from stereo_bp_ros.engines.cpu.simd import runtime
from stereo_bp_ros.engines.cpu.stages import convert, preprocess, rectify
from stereo_bp_ros.engines.geometry import ALIGNMENT, ArraySpec
from stereo_bp_ros.engines.partitions import Partitioning
from stereo_bp_ros.engines.plan import Passes
from stereo_bp_ros.frame.disparity_frame import ENGINE_STAGES, OUTPUTS
from stereo_bp_ros.images.raw_images import RawImage


class CpuEngine(Engine):
    """Matches pairs of one size on the CPU; see ``backend.Engine``."""

    backend = 'cpu'
    plan: Plan

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        arena = _align(plan.memory.total)
        self._arrays = {spec.name: _view(arena, spec) for spec in plan.memory.arrays}
        self._pass = Pass(plan, self._arrays)

    @classmethod
    def of(cls, config: MatcherConfig, width: int, height: int,
           parts: Partitioning | None = None) -> CpuEngine:
        """An engine with a plan; ``parts``: how belief propagation cuts the images."""
        return cls(plan_of(config, width, height, parts))

    def warm_up(self) -> float:
        return warm_up(self.config, self.plan.downscale)

    def wait_for(self, stream: int) -> None:
        pass        # nothing that reaches this engine is on a device

    def update(self, passes: Passes) -> None:
        self.passes = passes

    def close(self) -> None:
        # No view may be left: it would keep all of the memory.
        self._arrays.clear()

    def compute(self, left: RawImage, right: RawImage, calibration: Calibration | None,
                outputs: Mapping[str, Any], rectification: Rectification | None = None,
                warp: RightWarp | None = None) -> dict[str, float]:
        if not self._arrays:
            raise RuntimeError('this engine is closed')
        timings = dict.fromkeys(ENGINE_STAGES, 0.0)
        with runtime.frame(self.plan.threads):
            with stopwatch(timings, 'convert'):
                for side, maps in self._new_maps(rectification, warp):
                    rectify.fill_maps(side, maps, self._arrays)
                self._convert(left, right, warp is not None)
            found = confidences = outputs.get('confidence')
            if self.plan.downscale > 1 and confidences is not None:
                found = self._arrays['reduced_confidence']
            self._pass.run(self.passes, timings, outputs, found)
            with stopwatch(timings, 'refine'):
                disparity = self._enlarge(found, confidences)
            seen = left if self.config.reference_image == 'left' else right
            if self.config.rectify and 'points' in outputs:
                with stopwatch(timings, 'points'):
                    seen = self._rectified_reference()
            fill(Finished(disparity, self.plan.downscale * self.config.min_disparity, seen,
                          self.config, calibration, self._arrays), outputs, timings)
        return timings

    def _convert(self, left: RawImage, right: RawImage, is_warped: bool) -> None:
        """Grey values, as if the left image were the reference.

        With the right one as reference, mirrored and swapped images have the same geometry: its
        pixel x matches x + d of the left, which after mirroring is x - d.
        """
        sides = [('left', left), ('right', right)]
        if self.config.reference_image == 'right':
            sides.reverse()
        for name, (side, raw) in zip(('left_grey', 'right_grey'), sides, strict=True):
            grey = self._arrays[name]
            is_mapped = self.config.rectify or (is_warped and side == 'right')
            self._to_grey(raw, side, grey, is_mapped)
            if self.config.reference_image == 'right':
                mirrored = self._arrays['plane_a']
                np.copyto(mirrored, grey[:, ::-1])
                np.copyto(grey, mirrored)

    def _to_grey(self, raw: RawImage, side: str, grey: np.ndarray[Any, Any], is_mapped: bool
                 ) -> None:
        arrays, scale, factor = self._arrays, self.config.mono16_scale, self.plan.downscale
        whole = arrays['image_grey'] if factor > 1 else grey
        if is_mapped:
            rectify.to_grey(raw, side, whole, scale, arrays)
            scale = 1.0
        else:
            convert.to_grey(raw, whole, 1.0 if factor > 1 else scale, arrays)
        if factor > 1:
            preprocess.to_means(whole, factor, scale if raw.layout.bits == 16 else None, grey)

    def _rectified_reference(self) -> RawImage:
        """Grey values of the rectified reference image, as large as it is."""
        levels = self._arrays['reference_levels']
        fill_levels(len(levels), self._arrays['left_grey'], self.plan.downscale,
                    self.config.reference_image == 'right', levels)
        return RawImage.from_array(levels)

    def _enlarge(self, found: Array | None, confidences: Array | None) -> Array:
        """The finished disparity, as large as the images, and so the confidences."""
        arrays, factor = self._arrays, self.plan.downscale
        if factor == 1:
            return arrays['final']
        enlarge_disparities(len(arrays['enlarged']), arrays['final'], factor, arrays['enlarged'])
        if found is not None and confidences is not None:
            enlarge_confidences(len(confidences), found, factor, confidences)
        return arrays['enlarged']


def warm_up(config: ResolvedConfig, factor: int = 1) -> float:
    """Compile every kernel that any frame of a configuration can run; returns the seconds.

    Live settings and outputs choose between branches of a kernel, never between signatures,
    but whole kernels belong to some of them: a tiny frame runs with each switched on. The types
    of messages and costs depend on the truncation.

    :param config: of the matched images; factor: how many times they are reduced.
    """
    start = time.perf_counter()
    side = 2 * max(config.correlation_window_size, 8) * factor
    image = RawImage.from_array(np.zeros((side, side), np.uint8))
    calibration = Calibration(focal_px=1, baseline_m=1, cx_left=0, cx_right=0, cy=0)
    outputs = {name: output.empty((side, side)) for name, output in OUTPUTS.items()}
    everything = config.replace(
        rectify=False, downscale=factor, min_disparity=0,
        disparity_range=(32 if config.searches_band else 4) * factor,
        discontinuity_truncation=config.truncation, uniqueness_ratio=5.0, texture_threshold=1,
        subpixel=True, disp12_max_diff=1, median_window_size=3, speckle_size=2,
        confidence_threshold=0.1, contrast_threshold=1.0,
        filling='plane', bilateral_passes=1)
    engine = CpuEngine.of(everything, side, side)
    engine.compute(image, image, calibration, outputs)
    if config.rectify:
        fill_levels(2, np.zeros((2, 2), np.float32), 1, False, np.zeros((2, 2), np.uint8))
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
