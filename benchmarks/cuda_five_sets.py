"""Times the CUDA engine on the five sets of ``docs/performance_cuda.md``.

    python benchmarks/cuda_five_sets.py DATA [--types int16 float32] [--frames 300] [--kernels]

DATA is a folder with ``middlebury/<set>/left.png`` and ``right.png``. Host images in, host
disparity out, medians in milliseconds: ``frame`` from and to ordinary arrays, ``pinned`` from and
to pinned ones, ``fixed`` the same with disparities of 16 bits (``fixed_disparity``), ``graph`` is
the launch of the frame's CUDA graph (that of ``pinned``) until its end. Building the
engine (allocation and compiling, or reading what was compiled before) is a row of its own.
``--kernels`` adds every pass with its time, registers, shared memory, occupancy and bytes per
second, and the kernel that selects what labels they leave, without publication.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import time
from typing import Any

import cupy
import cv2
import numpy as np

from stereo_bp_ros import MatcherConfig, RawImage
from stereo_bp_ros.engines.cuda import beliefs, compiler, device, layout, messages, pinned, tiling
from stereo_bp_ros.engines.cuda.engine import CudaEngine

SETS = {'tsukuba': (16, 0.085), 'venus': (21, 0.11), 'barn1': (32, 0.15),
        'cones_quarter': (64, 0.25), 'cones_half': (128, 1.2)}

#: Frames from ordinary arrays, then from pinned ones, and so on.
TURN = 25


def main() -> None:
    """Read the command line and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('data', type=pathlib.Path)
    parser.add_argument('--types', nargs='+', default=['int16', 'float32', 'float16'])
    parser.add_argument('--frames', type=int, default=300)
    parser.add_argument('--kernels', action='store_true')
    arguments = parser.parse_args()
    print(device.describe(0))
    print(f'device-to-device copy: {copy_ceiling():.2f} TB/s read and written')
    print(f'{"set":14} {"type":8} {"frame":>7} {"pinned":>7} {"fixed":>7} {"graph":>7} '
          f'{"target":>7}  stages (ms)')
    for name in SETS:
        for message_type in arguments.types:
            time_set(arguments.data, name, message_type, arguments.frames, arguments.kernels)


def time_set(data: pathlib.Path, name: str, message_type: str, frames: int,
             kernels: bool) -> None:
    """One row, and one for each pass of the messages."""
    disparities, target = SETS[name]
    left, right = (cv2.imread(str(data / 'middlebury' / name / f'{side}.png'), 0)
                   for side in ('left', 'right'))
    config = MatcherConfig(
        preprocessing='none', disparity_range=disparities, data_weight=0.1,
        data_truncation=15.0, discontinuity_slope=1.0, discontinuity_truncation=0.0,
        message_type=message_type, subpixel=False, border='keep')
    height, width = left.shape
    engine = CudaEngine(config, width, height)
    images = [RawImage.from_array(left), RawImage.from_array(right)]
    outputs = {'disparity': np.zeros((height, width), np.float32)}
    start = time.perf_counter()
    engine.compute(*images, None, outputs)
    first = time.perf_counter() - start
    pinned_images = [RawImage.from_array(pinned_copy(image)) for image in (left, right)]
    locked = {'disparity': pinned_copy(outputs['disparity'])}
    fixed = {'fixed_disparity': pinned.empty((height, width), 'int16')}
    frame_times: list[float] = []
    pinned_times: list[float] = []
    fixed_times: list[float] = []
    stages = []
    for _ in range(-(-frames // TURN)):
        stages += turn(engine, images, outputs, frame_times)
        turn(engine, pinned_images, fixed, fixed_times)
        turn(engine, pinned_images, locked, pinned_times)
    assert np.array_equal(locked['disparity'], outputs['disparity'])
    assert np.array_equal(fixed['fixed_disparity'], 16 * outputs['disparity'])
    graph = engine._launched
    graph_times = []
    for _ in range(frames):
        start = time.perf_counter()
        graph.launch(engine._stream)
        engine._stream.synchronize()
        graph_times.append((time.perf_counter() - start) * 1e3)
    medians = {stage: statistics.median(row[stage] for row in stages) for stage in stages[0]}
    print(f'{name:14} {message_type:8} {statistics.median(frame_times):7.3f} '
          f'{statistics.median(pinned_times):7.3f} {statistics.median(fixed_times):7.3f} '
          f'{statistics.median(graph_times):7.3f} {target:7.3f} ',
          ' '.join(f'{stage} {value:.3f}' for stage, value in medians.items() if value),
          f'| build {engine.build_time:.2f} s, of it compile {engine.compile_time:.2f} s, '
          f'first frame {first * 1e3:.1f} ms, arena {engine.plan.total / 2**20:.0f} MiB')
    if kernels:
        time_passes(engine, config, width)
    engine.close()


def turn(engine: CudaEngine, images: list[RawImage], outputs: dict[str, np.ndarray],
         times: list[float]) -> list[dict[str, float]]:
    """Match ``TURN`` frames after one that is not counted: it brings another graph to the device.

    Appends milliseconds to ``times`` and returns those of the stages.
    """
    stages = []
    engine.compute(*images, None, outputs)
    for _ in range(TURN):
        start = time.perf_counter()
        stages.append(engine.compute(*images, None, outputs))
        times.append((time.perf_counter() - start) * 1e3)
    return stages


def pinned_copy(array: np.ndarray) -> np.ndarray:
    """A copy in memory that the device reads and writes itself."""
    copy = pinned.empty(array.shape, array.dtype.str)
    copy[...] = array
    return copy


def time_passes(engine: CudaEngine, config: MatcherConfig, width: int) -> None:
    """Every pass alone, repeated in one graph."""
    found = device.properties(0)
    out = beliefs.matches(config, width, engine.height, engine._arena,
                          engine.parts.partitions[0], False, False, False)
    for step, parameters in zip(engine.passes, engine._matching._messages._parameters,
                                strict=True):
        parameters.matches = out
        base = messages.base_cost(config, 'uint8', engine.passes)
        kernel = compiler.kernel(found, *messages.kernel_of(config, step, base))
        cut, threads = step.tiling, messages.threads_of(config, step, base)
        grid = (-(-parameters.width // cut.width), -(-parameters.height // cut.height), 1)
        elapsed = repeated(engine._stream, lambda kernel=kernel, grid=grid, step=step,
                           threads=threads, parameters=parameters: kernel.launch(
                               engine._stream.ptr, grid, (threads, 1, 1), step.shared_bytes,
                               parameters))
        shape = layout.shape(config)
        nodes = parameters.width * parameters.height / 2
        vectors = 4 * (1 if step.start == tiling.FROM_MESSAGES
                       else 0.5 if step.start == tiling.FROM_PARENTS else 0)
        vectors += {tiling.LAST_COLOUR: 4, tiling.BOTH_COLOURS: 8, tiling.LABELS: 0,
                    tiling.OWN_LABELS: 4}[step.finish]
        moved = nodes * vectors * shape.units * shape.unit_bytes
        resources = kernel.resources
        warps = kernel.blocks_per_multiprocessor(threads, step.shared_bytes) * threads // 32
        print(f'    level {step.level} iterations {step.first}-'
              f'{step.first + step.iterations - 1} tile {cut.width}x{cut.height} '
              f'{elapsed:8.1f} us, {moved / elapsed / 1e6:5.2f} TB/s of messages, '
              f'{resources.registers} registers, {resources.local_bytes} B local, '
              f'{step.shared_bytes} B shared, {warps}/64 warps')
    stage = engine._matching._beliefs
    if beliefs.kernels(config, engine.passes[-1], base):
        elapsed = repeated(engine._stream, lambda: stage.enqueue(engine._stream.ptr, base, out))
        print(f'    labels that the passes leave {elapsed:8.1f} us')


def repeated(stream: Any, launch: Any, count: int = 10) -> float:
    """Microseconds of one launch among ``count`` in a graph, the best of three."""
    with stream:
        stream.begin_capture()
        for _ in range(count):
            launch()
        graph = stream.end_capture()
    best = float('inf')
    for _ in range(3):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record(stream)
        graph.launch(stream)
        end.record(stream)
        end.synchronize()
        best = min(best, cupy.cuda.get_elapsed_time(begin, end) / count * 1e3)
    return best


def copy_ceiling(size: int = 2**31) -> float:
    """TB/s of a large copy on the device, bytes read plus bytes written."""
    source, target = (cupy.cuda.memory.Memory(size) for _ in range(2))
    stream, count = cupy.cuda.Stream(non_blocking=True), 20
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    for event in (begin, end):      # the first round warms up
        event.record(stream)
        for _ in range(count):
            cupy.cuda.runtime.memcpyAsync(target.ptr, source.ptr, size, 3, stream.ptr)
    begin, middle = end, cupy.cuda.Event()
    middle.record(stream)
    middle.synchronize()
    return 2 * size * count / cupy.cuda.get_elapsed_time(begin, middle) / 1e9


if __name__ == '__main__':
    main()
