"""Times the matching kernel of SAD on CUDA over sizes and windows: ``docs/performance_sad.md``.

    python benchmarks/sad_sizes.py [--size 640x480x64] [--windows 5 15 21] [--repeats 31]

Device time of the kernel alone, among 20 in a graph, medians in microseconds; for integer labels,
with fractions of a pixel (the default), with costs for uniqueness or confidence, and with labels
of the other image for the left-right check. Pixels are noise: the time does not depend on them.
"""

from __future__ import annotations

import argparse
import statistics

import cupy
import numpy as np

from stereo_bp_ros import MatcherConfig
from stereo_bp_ros.engines.cuda import compiler, device, refine, sad, sad_plan

WANTED = {'integer': {'subpixel': False}, 'subpixel': {},
          '+ costs': {'uniqueness_ratio': 10.0}, '+ right': {'disp12_max_diff': 1}}
ARRAYS = {'label': 'int16', 'fraction': 'int8', 'best': 'int32', 'second': 'int32',
          'right_keys': 'uint32'}


def main() -> None:
    """Read the command line and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--size', nargs='+',
                        default=['434x383x64', '640x480x64', '1280x720x128'])
    parser.add_argument('--windows', nargs='+', type=int, default=[5, 9, 15, 21, 33, 51])
    parser.add_argument('--repeats', type=int, default=31)
    arguments = parser.parse_args()
    print(device.describe(0))
    print('| size | window | ' + ' | '.join(WANTED) + ' | rows | blocks | registers |')
    print('| --- |' + ' --- |' * (4 + len(WANTED)))
    for size in arguments.size:
        width, height, disparities = (int(part) for part in size.split('x'))
        for window in arguments.windows:
            row = [measure(MatcherConfig(
                stereo_algorithm='sad', preprocessing='none', disparity_range=disparities,
                correlation_window_size=window, **changes), width, height, arguments.repeats)
                for changes in WANTED.values()]
            cut, registers = row[1][1:]
            print(f'| {size} | {window} | ' + ' | '.join(f'{time:.1f}' for time, *_ in row)
                  + f' | {cut.rows} | {cut.grid[0]}x{cut.grid[1]} | {registers} |', flush=True)


def measure(config: MatcherConfig, width: int, height: int, repeats: int, count: int = 20
            ) -> tuple[float, sad_plan.Cut, int]:
    """Microseconds of one launch, how it is cut, and registers of a thread."""
    found, wanted = device.properties(0), refine.steps(config, ())
    cut = sad_plan.cut(config, width, height, found)
    kernel = compiler.kernel(found, 'sad.cu', sad.kernel_name(cut, 'uint8', wanted))
    left = np.random.default_rng(0).integers(0, 256, (height, width), dtype=np.uint8)
    images = [cupy.asarray(image) for image in (left, np.roll(left, -7, axis=1))]
    filled = {name: cupy.zeros((height, width), dtype) for name, dtype in ARRAYS.items()}
    windows = sad.windows(config, width, height, cut.rows, {
        'left': images[0].data.ptr, 'right': images[1].data.ptr,
        **sad.wanted_arrays({name: array.data.ptr for name, array in filled.items()}, wanted)})
    cupy.cuda.Device().synchronize()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        for _ in range(count):
            kernel.launch(stream.ptr, cut.grid, (cut.threads, 1, 1), cut.shared_bytes, windows)
        graph = stream.end_capture()
    times = []
    for _ in range(repeats + 1):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record(stream)
        graph.launch(stream)
        end.record(stream)
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(begin, end) / count * 1e3)
    return statistics.median(times[1:]), cut, kernel.resources.registers


if __name__ == '__main__':
    main()
