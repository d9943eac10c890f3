"""Time and device memory of belief propagation in partitions, as in docs/performance.md.

    python -m benchmarks.partitions
    python -m benchmarks.partitions --message-type float32 --frames 5
"""

from __future__ import annotations

import functools
import statistics

import numpy as np
from cupy.cuda import runtime

from benchmarks import common
from stereo_bp_ros import MatcherConfig, RawImage, StereoMatcher, engines

LARGE, COMMON = common.Size(4096, 3072, 256), common.Size(900, 750, 128)

#: What makes partitions of an image of a size.
CASES: tuple[tuple[common.Size, dict[str, int]], ...] = (
    (LARGE, {}), (LARGE, {'memory_limit': 8 * 2**30}), (LARGE, {'memory_limit': 2 * 2**30}),
    (LARGE, {'memory_limit': 3 * 2**29}),
    (COMMON, {}), (COMMON, {'partition_rows': 3, 'partition_columns': 1}),
    (COMMON, {'partition_rows': 5, 'partition_columns': 5, 'partition_padding': 20}),
)


def main() -> None:
    """Read the command line and print the table."""
    parser = common.parser(__doc__)
    parser.add_argument('--message-type', default='int16')
    parser.add_argument('--frames', type=int, default=0, metavar='N',
                        help='of each case (default: 3 or 30)')
    options = parser.parse_args()
    base = MatcherConfig.preset('five_sets', message_type=options.message_type, backend='cuda')
    common.print_machine(base)
    common.print_head('size', 'settings', 'partitions', 'computed', 'chosen in, s', 'frame, ms',
                      'plan, MiB', 'engine, MiB', 'process, MiB')
    for size, changes in CASES:
        config = base.replace(disparity_range=size.disparities, **changes)
        common.print_row(size, changes, *cells(
            config, size, options.frames or (3 if size is LARGE else 30)))


def cells(config: MatcherConfig, size: common.Size, frames: int) -> list[str]:
    """Times and memory of one matcher, MiB as the device counts them."""
    runtime.free(0)                     # the context belongs to the process, not to an engine
    before, total = runtime.memGetInfo()
    choosing = common.milliseconds(
        lambda: engines.choose(config).fit(config, size.width, size.height)) / 1e3
    pair = common.noise(size)
    images = RawImage.from_array(pair.left), RawImage.from_array(pair.right)
    out = {'disparity': np.zeros(pair.left.shape, np.float32)}
    with StereoMatcher(config) as matcher:
        times = common.in_turn({'': functools.partial(matcher.compute, *images, out=out)},
                               frames)['']
        plan, parts, free = matcher.memory_plan, matcher.partitions, runtime.memGetInfo()[0]
    assert plan is not None
    assert parts is not None
    return [str(parts), f'{parts.nodes / (size.width * size.height):.2f}', f'{choosing:.2f}',
            f'{statistics.median(times):.2f}',
            *(f'{used / 2**20:.0f}' for used in (plan.total, before - free, total - free))]


if __name__ == '__main__':
    main()
