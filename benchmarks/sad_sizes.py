"""Times the matching kernel of SAD on CUDA over sizes and windows: ``docs/history.md``.

    python -m benchmarks.sad_sizes [--size 640x480x64] [--windows 5 15 21] [--repeats 31]

Device time of the kernel alone, among 20 in a graph, medians in microseconds; for integer labels,
with fractions of a pixel (the default), with costs for uniqueness or confidence, and with labels
of the other image for the left-right check. Pixels are noise: the time does not depend on them.
"""

from __future__ import annotations

import statistics
from typing import Any

import cupy

from benchmarks import common, device
from stereo_bp_ros import MatcherConfig
from stereo_bp_ros.engines.cuda.runtime import compiler
from stereo_bp_ros.engines.cuda.runtime import device as runtime_device
from stereo_bp_ros.engines.cuda.sad import launch as sad_launch
from stereo_bp_ros.engines.cuda.sad import matching as sad
from stereo_bp_ros.engines.cuda.stages import refine
from stereo_bp_ros.evaluation.timing import Pair

WANTED: dict[str, dict[str, Any]] = {
    'integer': {'subpixel': False}, 'subpixel': {},
    '+ costs': {'uniqueness_ratio': 10.0}, '+ right': {'disp12_max_diff': 1}}
ARRAYS = {'label': 'int16', 'fraction': 'int8', 'best': 'int32', 'second': 'int32',
          'right_keys': 'uint32'}


def main() -> None:
    """Read the command line and print the table."""
    parser = common.parser(__doc__)
    common.add_sizes(parser, common.Size(434, 383, 64), common.VGA, common.HD)
    parser.add_argument('--windows', nargs='+', type=int, default=[5, 9, 15, 21, 33, 51])
    common.add_frames(parser, 31, '--repeats', 'graphs that a median is of')
    options = parser.parse_args()
    base = MatcherConfig(stereo_algorithm='sad', preprocessing='none', backend='cuda')
    common.print_machine(base)
    common.print_head('size', 'window', *WANTED, 'rows', 'blocks', 'registers')
    for size in options.size:
        for window in options.windows:
            row = [measure(base.replace(disparity_range=size.disparities,
                                        correlation_window_size=window, **changes),
                           common.noise(size), options.repeats) for changes in WANTED.values()]
            launch, registers = row[1][1:]
            common.print_row(size, window, *(f'{time:.1f}' for time, *_ in row), launch.rows,
                             f'{launch.grid[0]}x{launch.grid[1]}', registers)


def measure(config: MatcherConfig, pair: Pair, repeats: int, count: int = 20
            ) -> tuple[float, sad_launch.Launch, int]:
    """Microseconds of one launch, how it is launched, and registers of a thread."""
    height, width = pair.left.shape
    found, wanted = runtime_device.properties(0), refine.steps(config, ())
    launch = sad_launch.launch_of(config, width, height, found)
    kernel = compiler.kernel(found, 'sad/sad.cu', sad.kernel_name(launch, 'uint8', wanted))
    images = [cupy.asarray(image) for image in (pair.left, pair.right)]
    filled = {name: cupy.zeros((height, width), dtype) for name, dtype in ARRAYS.items()}
    windows = sad.windows(config, width, height, launch.rows, {
        'left': images[0].data.ptr, 'right': images[1].data.ptr,
        **sad.wanted_arrays({name: array.data.ptr for name, array in filled.items()}, wanted)})
    cupy.cuda.Device().synchronize()
    stream = cupy.cuda.Stream(non_blocking=True)
    launched = device.graph(stream, lambda: kernel.launch(
        stream.ptr, launch.grid, (launch.threads, 1, 1), launch.shared_bytes, windows), count)
    times = device.microseconds(stream, launched, repeats, uncounted=1)
    return statistics.median(times) / count, launch, kernel.resources.registers


if __name__ == '__main__':
    main()
