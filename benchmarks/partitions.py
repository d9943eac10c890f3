"""Time and device memory of belief propagation in partitions, as in docs/performance_cuda.md.

  python benchmarks/partitions.py
  python benchmarks/partitions.py --message-type float32 --frames 5
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import cv2
import numpy as np
from cupy.cuda import runtime

from stereo_bp_ros import MatcherConfig, RawImage, engines
from stereo_bp_ros.engines.cuda.engine import CudaEngine

#: Width, height, disparities, and what makes partitions of them.
CASES: tuple[tuple[int, int, int, dict[str, int]], ...] = (
    (4096, 3072, 256, {}),
    (4096, 3072, 256, {'memory_limit': 8 * 2**30}),
    (4096, 3072, 256, {'memory_limit': 2 * 2**30}),
    (4096, 3072, 256, {'memory_limit': 3 * 2**29}),
    (900, 750, 128, {}),
    (900, 750, 128, {'partition_rows': 3, 'partition_columns': 1}),
    (900, 750, 128, {'partition_rows': 5, 'partition_columns': 5, 'partition_padding': 20}),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--message-type', default='int16')
    parser.add_argument('--frames', type=int, default=0, help='of each case (default: 3 or 30)')
    options = parser.parse_args()
    for width, height, disparities, changes in CASES:
        config = MatcherConfig.preset(
            'five_sets', disparity_range=disparities, message_type=options.message_type,
            backend='cuda', **changes)
        frames = options.frames or (3 if width > 2000 else 30)
        print(f'{width}x{height}x{disparities} {changes}: '
              + report(config, width, height, frames), flush=True)


def report(config: MatcherConfig, width: int, height: int, frames: int) -> str:
    """Times and memory of one engine, MiB as the device counts them."""
    runtime.free(0)                     # the context belongs to the process, not to an engine
    before, total = runtime.memGetInfo()
    start = time.perf_counter()
    parts = engines.partitioning(config, width, height)
    choosing = time.perf_counter() - start
    engine = CudaEngine(config, width, height, parts=parts)
    images = [RawImage.from_array(image) for image in pair(width, height)]
    outputs: dict[str, np.ndarray[Any, Any]] = {
        'disparity': np.zeros((height, width), np.float32)}
    times = []
    for _ in range(frames + 1):
        start = time.perf_counter()
        engine.compute(images[0], images[1], None, outputs)
        times.append((time.perf_counter() - start) * 1e3)
    free = runtime.memGetInfo()[0]
    engine.close()
    return (f'{parts}, {parts.nodes / (width * height):.2f} times the pixels, chosen in '
            f'{choosing:.2f} s; frame {statistics.median(times[1:]):.2f} ms; plan '
            f'{engine.plan.total / 2**20:.0f} MiB, engine {(before - free) / 2**20:.0f}, process '
            f'{(total - free) / 2**20:.0f}')


def pair(width: int, height: int) -> tuple[np.ndarray, np.ndarray]:
    """Smooth noise at one disparity."""
    rng = np.random.default_rng(1)
    left = cv2.GaussianBlur(rng.integers(0, 256, (height, width), dtype=np.uint8), (0, 0), 1.0)
    left = cv2.normalize(left, None, 0, 255, cv2.NORM_MINMAX)
    return left, np.roll(left, -100, axis=1)


if __name__ == '__main__':
    main()
