"""Times tiled belief propagation on CUDA in all its schedules: ``docs/tiled_bp.md``.

    python benchmarks/tiled_schedules.py DATA [--set tsukuba] [--frames 200] [--flat]

DATA holds ``sets.yaml``. Device time of matching alone (10 in a graph) and of whole frames from
the caller's arrays to the caller's array, medians, with int16 messages and the parameters of the
five sets; the variants take turns.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import statistics
import time
from typing import Any

import cupy
import numpy as np

from stereo_bp_ros import MatcherConfig, RawImage
from stereo_bp_ros.engines.cuda import compiler, device, refine, tiled_plan
from stereo_bp_ros.engines.cuda.engine import CudaEngine
from stereo_bp_ros.evaluation.datasets import StereoPair, open_dataset

VARIANTS: dict[str, dict[str, Any]] = {
    'speculative': {'tile_schedule': 'speculative'},
    'speculative, fast': {'tile_schedule': 'speculative', 'message_computation': 'fast'},
    'rows': {'tile_schedule': 'rows'},
    'rows, fast': {'tile_schedule': 'rows', 'message_computation': 'fast'},
    'rows, float32': {'tile_schedule': 'rows', 'message_type': 'float32'},
    **{f'{schedule}{", all" if wait == "all" else ""}'
       f'{", fast" if computation == "fast" else ""}': {
           'tile_schedule': schedule, 'tile_synchronisation': wait,
           'message_computation': computation}
       for schedule in ('cooperative', 'lock_free', 'launches')
       for wait in ('needed', 'all') for computation in ('plain', 'fast')},
}


def main() -> None:
    """Read the command line and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('data', type=pathlib.Path)
    parser.add_argument('--set', default='tsukuba')
    parser.add_argument('--frames', type=int, default=200)
    parser.add_argument('--tile-size', type=int, default=13)
    parser.add_argument('--flat', action='store_true',
                        help='grey but for texture in a corner, whose messages go everywhere')
    parser.add_argument('--variants', nargs='*', default=list(VARIANTS))
    arguments = parser.parse_args()
    pair = {one.name: one for one in open_dataset(arguments.data)}[arguments.set]
    if arguments.flat:
        left = np.full(pair.left.shape[:2], 90, np.uint8)
        left[:9, :60] = np.random.default_rng(0).integers(0, 256, (9, 60))
        pair = dataclasses.replace(pair, left=left, right=np.roll(left, -4, axis=1))
    print(device.describe(0))
    print('| variant | matching, us | frame, us | blocks x threads | shared bytes | registers |')
    print('| --- | --- | --- | --- | --- | --- |')
    engines = {}
    for name in arguments.variants:
        config = MatcherConfig.preset(
            'five_sets', stereo_algorithm='tiled_bp', disparity_range=pair.disparities,
            tile_size=arguments.tile_size, **{'message_type': 'int16', **VARIANTS[name]})
        engines[name] = CudaEngine(config, pair.left.shape[1], pair.left.shape[0])
    graphs, frames = measure(engines, pair, arguments.frames)
    for name, engine in engines.items():
        cut = tiled_plan.cut(engine.config, engine.width, engine.height, device.properties(0))
        kernels = [resources for known, resources in compiler.loaded_kernels(0).items()
                   if known.startswith(('speculate', 'follow_rows', 'visit_diagonals'))]
        registers = max(one.registers for one in kernels)
        print(f'| {name} | {graphs[name]:.1f} | {frames[name]:.1f} | {cut.blocks} x '
              f'{cut.threads} | {cut.shared_bytes} | {registers} |')


def measure(engines: dict[str, CudaEngine], pair: StereoPair, repeats: int, count: int = 10
            ) -> tuple[dict[str, float], dict[str, float]]:
    """Microseconds of matching alone and of a frame."""
    raw = [RawImage.from_array(side) for side in (pair.left, pair.right)]
    output = {'disparity': np.empty(pair.left.shape[:2], np.float32)}
    graphs: dict[str, Any] = {}
    for name, engine in engines.items():
        engine.compute(*raw, None, output)
        stream = engine._stream
        with stream:
            stream.begin_capture()
            for _ in range(count):
                engine._matching.enqueue(stream.ptr, engine._preprocess.result('grey'), True,
                                         refine.steps(engine.config, ('disparity',)),
                                         engine._refine.frame())
            graphs[name] = stream.end_capture()
    matching: dict[str, list[float]] = {name: [] for name in engines}
    whole: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(repeats):
        for name, engine in engines.items():
            begin, end = cupy.cuda.Event(), cupy.cuda.Event()
            begin.record(engine._stream)
            graphs[name].launch(engine._stream)
            end.record(engine._stream)
            end.synchronize()
            matching[name].append(cupy.cuda.get_elapsed_time(begin, end) / count * 1e3)
            start = time.perf_counter()
            engine.compute(*raw, None, output)
            whole[name].append((time.perf_counter() - start) * 1e6)
    return ({name: statistics.median(times[3:]) for name, times in matching.items()},
            {name: statistics.median(times[3:]) for name, times in whole.items()})


if __name__ == '__main__':
    main()
