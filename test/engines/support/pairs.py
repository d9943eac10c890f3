"""Pairs that the engines' tests match, and how they have an engine match them."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np

from stereo_bp_ros import Calibration, MatcherConfig, RawImage
from stereo_bp_ros.engines import partitions
from stereo_bp_ros.frame.disparity_frame import OUTPUTS
from stereo_bp_ros.images.raw_images import ENCODINGS
from test.engines.support.outputs import assert_same, rubbish

CALIBRATION = Calibration(focal_px=300, baseline_m=0.2, cx_left=40, cx_right=41.5, cy=30)


def noisy_pair(width: int, height: int, seed: int = 0, *, nearer: int = 7
               ) -> tuple[np.ndarray, np.ndarray]:
    """Smooth texture, disparity 3 above and ``nearer`` below, a patch for ties, and noise."""
    rng = np.random.default_rng(seed)
    left = cv2.GaussianBlur(rng.integers(0, 256, (height, width), dtype=np.uint8), (0, 0), 1.0)
    left = cv2.normalize(left, None, 0, 255, cv2.NORM_MINMAX)
    left[height // 4:height // 2, width // 3:width // 2] = 128
    right = np.roll(left, -3, axis=1)
    right[height // 2:] = np.roll(left[height // 2:], -nearer, axis=1)
    noise = rng.integers(0, 256, (height, width), dtype=np.uint8)
    return left, np.where(rng.random((height, width)) < 0.1, noise, right)


def parts_of(width: int, height: int, columns: int, rows: int, padding: int, alignment: int = 2
             ) -> partitions.Partitioning:
    """So many partitions, but one along a side that is too short."""
    across, down = (
        partitions.split(length, count, alignment, padding)
        or partitions.Split(length, (0,), (0, length))
        for length, count in ((width, columns), (height, rows)))
    return partitions.Partitioning(across, down)


def random_raw(encoding: str, width: int, height: int, seed: int = 0, padding: int = 5,
               big_endian: bool = False) -> RawImage:
    """An image whose rows are followed by rubbish; one row less where two share their chroma."""
    layout = ENCODINGS[encoding]
    height -= height % 2 if layout.has_even_height else 0
    row = width * layout.pixel_bytes + padding
    data = np.random.default_rng(seed).integers(0, 256, (layout.rows(height), row), np.uint8)
    return RawImage(data.tobytes(), height, width, row, encoding, big_endian)


def all_outputs(engine: Any, left: np.ndarray, right: np.ndarray) -> dict[str, np.ndarray]:
    """What an engine finds, which is closed afterwards."""
    outputs = rubbish(OUTPUTS, left.shape[:2], engine.config.points_decimation)
    for _ in range(3):      # no result may depend on what earlier frames left behind
        engine.compute(RawImage.from_array(left), RawImage.from_array(right), CALIBRATION,
                       outputs)
    engine.close()
    return outputs


def compare_engines(config: MatcherConfig, left: np.ndarray, right: np.ndarray
                    ) -> dict[str, np.ndarray]:
    """Run both engines and demand equal bits; returns them."""
    from stereo_bp_ros.engines.cpu.engine import CpuEngine
    from stereo_bp_ros.engines.cuda.engine import CudaEngine
    height, width = left.shape[:2]
    expected, found = (all_outputs(kind.of(config, width, height), left, right)
                       for kind in (CpuEngine, CudaEngine))
    assert_same(found, expected)
    return found
