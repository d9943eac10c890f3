"""What each number of disparities costs: time of the CPU engine, memory of both engines.

    python -m benchmarks.search_range ../shared/data/kitti2012

The first pair of the data set, one thread, processor time of whole frames (milliseconds, medians);
the ranges take turns. Memory is that of the plans: the CUDA one is computed without a device, for
one of 132 multiprocessors.
"""

from __future__ import annotations

import contextlib
import statistics
import time

from benchmarks import common
from stereo_bp_ros import MatcherConfig, StereoMatcher, partitions
from stereo_bp_ros.engines.cuda.backend import CudaBackend
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL

RANGES = (64, 96, 100, 104, 128, 136, 160, 192)
CONFIGS = {'`bp`, defaults': MatcherConfig(), '`road`': MatcherConfig.preset('road')}


def main() -> None:
    """Read the command line and print the tables."""
    parser = common.parser(__doc__)
    common.add_data(parser)
    parser.add_argument('--ranges', nargs='+', type=int, default=RANGES, metavar='D',
                        help='default: ' + ' '.join(map(str, RANGES)))
    common.add_frames(parser, 9)
    options = parser.parse_args()
    pair = common.timed(next(common.sets(options.data)))
    common.print_machine(MatcherConfig(backend='cpu', num_threads=1))
    common.print_head('settings', 'disparities', 'CPU ms', 'CPU us a disparity', 'CPU MiB',
                      'CUDA MiB', 'CUDA bytes a pixel and disparity')
    cuda = CudaBackend(TYPICAL, 'for its plans')
    height, width = pair.left.shape[:2]
    for name, base in CONFIGS.items():
        configs = [base.replace(disparity_range=disparities, backend='cpu', num_threads=1)
                   for disparities in options.ranges]
        for config, (ms, held) in zip(configs, measured(pair, configs, options.frames),
                                      strict=True):
            planned = cuda.plan(config, width, height, partitions.whole(width, height)).memory
            common.print_row(
                name, str(config.disparity_range), f'{ms:.0f}',
                f'{1000 * ms / config.disparity_range:.0f}', f'{held / 2**20:.0f}',
                f'{planned.total / 2**20:.0f}',
                f'{planned.total / (width * height * config.disparity_range):.1f}')


def measured(pair: common.timing.Pair, configs: list[MatcherConfig], frames: int
             ) -> list[tuple[float, int]]:
    """Milliseconds of the processor and bytes of each configuration."""
    with contextlib.ExitStack() as stack:
        matchers = [stack.enter_context(StereoMatcher(config)) for config in configs]
        times: list[list[float]] = [[] for _ in matchers]
        for _ in range(frames + 1):
            for matcher, found in zip(matchers, times, strict=True):
                start = time.process_time()
                matcher.compute(pair.left, pair.right)
                found.append(1000 * (time.process_time() - start))
        # The first frame of each reads compiled code and touches memory for the first time.
        return [(statistics.median(found[1:]), matcher.memory_plan.total)
                for matcher, found in zip(matchers, times, strict=True) if matcher.memory_plan]


if __name__ == '__main__':
    main()
