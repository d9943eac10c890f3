"""Times refinement on CUDA step by step, and speckle removal on the host beside it.

    python -m benchmarks.refine_stage [--size 640x480x64 1280x720x128] [--repeats 101]

Labels are those of the preset `road_sobel` on a rendered street, or noise. Device time of the
stage alone in a graph, medians in microseconds, with the disparity written into device memory and
into the host's; then what OpenCV takes on one core, and with the way there and back.
"""

from __future__ import annotations

import ctypes
import statistics
import time
from typing import Any

import cupy
import cv2
import numpy as np
from cupy.cuda import runtime

from benchmarks import common, device
from stereo_bp_ros import MatcherConfig, RawImage, engines
from stereo_bp_ros.engines.cuda.stages import refine
from stereo_bp_ros.evaluation.timing import Pair

INVALID = -16
TO_DEVICE, FROM_DEVICE = 1, 2       # cudaMemcpyKind
OPENCV, THERE_AND_BACK = 'speckles by OpenCV', 'the same, with both copies'
PLAIN = {'disp12_max_diff': 0, 'median_window_size': 0, 'speckle_size': 0, 'filling': 'none'}
CHECK = {**PLAIN, 'disp12_max_diff': 1}
STEPS: dict[str, dict[str, Any]] = {
    'labels alone': PLAIN, 'check': CHECK, 'check, median 3': {**CHECK, 'median_window_size': 3},
    'check, median 5': {**CHECK, 'median_window_size': 5},
    'check, filling': {**CHECK, 'filling': 'background'},
    'check, planes': {**CHECK, 'filling': 'plane'},
    'check, filling, 3 bilateral passes': {**CHECK, 'filling': 'background',
                                           'bilateral_passes': 3},
    'check, speckles': {**CHECK, 'speckle_size': 200},
    'road_sobel: check, median 3, speckles': {},
    'road_sobel, filling': {'filling': 'background'}}


def main() -> None:
    """Read the command line and print the table."""
    parser = common.parser(__doc__)
    common.add_sizes(parser, common.VGA, common.HD)
    common.add_frames(parser, 101, '--repeats', 'graphs that a median is of')
    options = parser.parse_args()
    # The sums that the texture threshold reads belong to the stage before.
    base = MatcherConfig.preset('road_sobel', texture_threshold=0, backend='cuda')
    common.print_machine(base)
    pairs = [pair for size in options.size
             for pair in (common.street(size, noise_sigma=1.5), common.noise(size))]
    columns = [measure(base.replace(disparity_range=pair.disparities), pair, options.repeats)
               for pair in pairs]
    common.print_head('step', *(f'{pair.name}: device, host' for pair in pairs))
    for name in (*STEPS, OPENCV, THERE_AND_BACK):
        common.print_row(name, *(column[name] for column in columns))


def measure(config: MatcherConfig, pair: Pair, repeats: int) -> dict[str, str]:
    """Microseconds of every step for the labels of one pair."""
    height, width = pair.left.shape
    engine: Any = engines.create_engine(config, width, height)
    out = {'disparity': np.empty((height, width), np.float32)}
    engine.compute(RawImage.from_array(pair.left), RawImage.from_array(pair.right), None, out)
    targets = (cupy.empty((height, width), np.float32).data.ptr,
               engine._arena.host_address['disparity'])
    cells = {name: ', '.join(
        f'{stage_time(engine, config.replace(**changes), target, repeats):.1f}'
        for target in targets) for name, changes in STEPS.items()}
    # What the median leaves, in place of what earlier frames have.
    stage_time(engine, config.replace(speckle_size=0), targets[0], 1)
    cells |= host_times(engine, config, -(-repeats // 5))
    engine.close()
    return cells


def stage_time(engine: Any, config: MatcherConfig, target: int, repeats: int) -> float:
    """Median of the stage's graph; ``target`` is where the disparity goes."""
    parameters = refine.Parameters()
    parameters.fill(config, None)
    parameters.bind({'disparity': target})
    runtime.memcpy(engine._arena.device['parameters'], ctypes.addressof(parameters),
                   ctypes.sizeof(parameters), TO_DEVICE)
    stream = engine._stream
    launched = device.graph(stream, lambda: engine._pipeline.refine.enqueue(
        stream.ptr, refine.steps(config, ('disparity',))))
    return statistics.median(device.microseconds(stream, launched, repeats, uncounted=2))


def host_times(engine: Any, config: MatcherConfig, repeats: int) -> dict[str, str]:
    """Median of OpenCV's speckle removal, alone and with both copies."""
    pixels = engines.choose(config).empty_pinned((engine.height, engine.width), 'int16')
    stream, at = engine._stream, engine._arena.device['filtered']
    alone, whole = [], []
    buffer = None
    for _ in range(repeats + 2):
        begin = time.perf_counter()
        runtime.memcpyAsync(pixels.ctypes.data, at, pixels.nbytes, FROM_DEVICE, stream.ptr)
        stream.synchronize()
        copied = time.perf_counter()
        _, buffer = cv2.filterSpeckles(pixels, INVALID, config.speckle_size,
                                       16 * config.speckle_range, buffer)
        done = time.perf_counter()
        runtime.memcpyAsync(engine._arena.device['sixteenths'], pixels.ctypes.data,
                            pixels.nbytes, TO_DEVICE, stream.ptr)
        stream.synchronize()
        whole.append((time.perf_counter() - begin) * 1e6)
        alone.append((done - copied) * 1e6)
    return {name: f'{statistics.median(times[2:]):.0f}'
            for name, times in ((OPENCV, alone), (THERE_AND_BACK, whole))}


if __name__ == '__main__':
    main()
