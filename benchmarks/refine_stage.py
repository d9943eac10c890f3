"""Times refinement on CUDA step by step, and speckle removal on the host beside it.

    python benchmarks/refine_stage.py [--size 640x480x64 1280x720x128] [--repeats 101]

Labels are those of the preset `road` on a rendered street, or noise. Device time of the stage
alone in a graph, medians in microseconds, with the disparity written into device memory and into
the host's; then what OpenCV takes on one core, and with the way there and back.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import time
from typing import Any

import cupy
import cv2
import numpy as np
from cupy.cuda import runtime

from stereo_bp_ros import MatcherConfig, RawImage, engines
from stereo_bp_ros.config import load_preset
from stereo_bp_ros.engines.cuda import device, refine
from stereo_bp_ros.engines.cuda import engine as cuda
from stereo_bp_ros.evaluation import scenes

INVALID = -16
TO_DEVICE, FROM_DEVICE = 1, 2       # cudaMemcpyKind
OPENCV, THERE_AND_BACK = 'speckles by OpenCV', 'the same, with both copies'
PLAIN = {'disp12_max_diff': 0, 'median_window_size': 0, 'speckle_size': 0, 'filling': 'none'}
CHECK = {**PLAIN, 'disp12_max_diff': 1}
STEPS: dict[str, dict[str, Any]] = {
    'labels alone': PLAIN, 'check': CHECK, 'check, median 3': {**CHECK, 'median_window_size': 3},
    'check, median 5': {**CHECK, 'median_window_size': 5},
    'check, filling': {**CHECK, 'filling': 'background'},
    'check, speckles': {**CHECK, 'speckle_size': 200},
    'road: check, median 3, speckles': {}, 'road, filling': {'filling': 'background'}}


def main() -> None:
    """Read the command line and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--size', nargs='+', default=['640x480x64', '1280x720x128'])
    parser.add_argument('--repeats', type=int, default=101)
    arguments = parser.parse_args()
    print(device.describe(0))
    rows: dict[str, list[str]] = {name: [] for name in (*STEPS, OPENCV, THERE_AND_BACK)}
    heads = []
    for size in arguments.size:
        width, height, disparities = (int(part) for part in size.split('x'))
        frame = scenes.RoadSequence(width=width, height=height, frames=1, noise_sigma=1.5,
                                    max_disparity=disparities - 2).frame(0)
        noise = np.random.default_rng(0).integers(0, 256, (2, height, width), dtype=np.uint8)
        for content, pair in (('street', (frame.left, frame.right)), ('noise', tuple(noise))):
            heads.append(f'{size}, {content}: device, host')
            measured = measure(width, height, disparities, pair, arguments.repeats)
            for name, cell in measured.items():
                rows[name].append(cell)
    print('| step | ' + ' | '.join(heads) + ' |')
    print('| --- |' + ' --- |' * len(heads))
    for name, cells in rows.items():
        print(f'| {name} | ' + ' | '.join(cells) + ' |')


def measure(width: int, height: int, disparities: int, pair: tuple[np.ndarray, ...],
            repeats: int) -> dict[str, str]:
    """Microseconds of every step for the labels of one pair."""
    config = MatcherConfig(**{**load_preset('road'), 'disparity_range': disparities})
    engine = cuda.CudaEngine(config, width, height)
    out = np.empty((height, width), np.float32)
    engine.compute(*(RawImage.from_array(image) for image in pair), None, {'disparity': out})
    targets = (cupy.empty((height, width), np.float32).data.ptr,
               engine._arena.host_address['disparity'])
    cells = {name: ', '.join(
        f'{stage_time(engine, config.replace(**changes), target, repeats):.1f}'
        for target in targets) for name, changes in STEPS.items()}
    # What the median leaves, in place of what earlier frames have.
    stage_time(engine, config.replace(speckle_size=0), targets[0], 1)
    cells |= host_times(engine, config, repeats // 5)
    engine.close()
    return cells


def stage_time(engine: cuda.CudaEngine, config: MatcherConfig, target: int,
               repeats: int) -> float:
    """Median of the stage's graph; ``target`` is where the disparity goes."""
    parameters = refine.Parameters()
    parameters.fill(config, None)
    parameters.aim({'disparity': target})
    runtime.memcpy(engine._arena.device['parameters'], ctypes.addressof(parameters),
                   ctypes.sizeof(parameters), TO_DEVICE)
    stream = engine._stream
    with stream:
        stream.begin_capture()
        engine._refine.enqueue(stream.ptr, refine.steps(config, ('disparity',)))
        graph = stream.end_capture()
    times = []
    for _ in range(repeats + 2):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record(stream)
        graph.launch(stream)
        end.record(stream)
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(begin, end) * 1e3)
    return statistics.median(times[2:])


def host_times(engine: cuda.CudaEngine, config: MatcherConfig, repeats: int) -> dict[str, str]:
    """Median of OpenCV's speckle removal, alone and with both copies."""
    pixels = engines.empty_pinned((engine.height, engine.width), 'int16')
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
