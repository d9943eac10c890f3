"""Times tiled belief propagation on CUDA in all its schedules: ``docs/history.md``.

    python -m benchmarks.tiled_schedules ../shared/data/middlebury [--frames 40] [--flat]

Device time of matching alone (10 in a graph) and of whole frames from
the caller's arrays to the caller's array, medians, with int16 messages and the parameters of the
five sets; the variants take turns. Blocks, threads and registers are those of the largest kernel.
"""

from __future__ import annotations

import dataclasses
import functools
import statistics
from typing import Any

import numpy as np

from benchmarks import common, device
from stereo_bp_ros import MatcherConfig, RawImage, engines
from stereo_bp_ros.engines.cuda.stages import refine
from stereo_bp_ros.evaluation.timing import Pair

KERNELS = ('speculate', 'follow_rows', 'visit_diagonals')

#: Times that matching is in a graph, and rounds that warm up.
COUNT, UNCOUNTED = 10, 3


def variant(schedule: str, *, wait: str = 'needed', computation: str = 'plain') -> dict[str, Any]:
    """Settings of program tiled_barriers."""
    return {'program': 'tiled_barriers', 'tiled_barriers.schedule': schedule,
            'tiled_barriers.synchronisation': wait, 'tiled_barriers.computation': computation}


VARIANTS: dict[str, dict[str, Any]] = {
    'speculative': variant('speculative'),
    'speculative, fast': variant('speculative', computation='fast'),
    'rows': variant('rows'),
    'rows, fast': variant('rows', computation='fast'),
    'rows, float32': {**variant('rows'), 'message_type': 'float32'},
    **{f'{schedule}{", all" if wait == "all" else ""}'
       f'{", fast" if computation == "fast" else ""}': variant(
           schedule, wait=wait, computation=computation)
       for schedule in ('cooperative', 'lock_free', 'launches')
       for wait in ('needed', 'all') for computation in ('plain', 'fast')},
}


def main() -> None:
    """Read the command line and print the tables."""
    parser = common.parser(__doc__)
    common.add_data(parser, sets=('tsukuba',))
    common.add_frames(parser, 200)
    parser.add_argument('--tile-size', type=int, default=13)
    parser.add_argument('--flat', action='store_true',
                        help='grey but for texture in a corner, whose messages go everywhere')
    parser.add_argument('--variants', nargs='+', choices=VARIANTS, default=list(VARIANTS),
                        metavar='NAME')
    options = parser.parse_args()
    base = MatcherConfig.preset('five_sets', stereo_algorithm='tiled_bp', message_type='int16',
                                tile_size=options.tile_size, backend='cuda')
    common.print_machine(base)
    common.print_head('set', 'variant', 'matching, us', 'frame, us', 'blocks x threads',
                      'shared bytes', 'registers')
    for pair in map(common.timed, common.sets(options.data, options.sets)):
        configs = {name: base.replace(disparity_range=pair.disparities, **VARIANTS[name])
                   for name in options.variants}
        for name, cells in measure(flat(pair) if options.flat else pair, configs,
                                   options.frames).items():
            common.print_row(pair.name, name, *cells)


def flat(pair: Pair) -> Pair:
    """Texture in the upper left corner at a disparity of 4 pixels, of the pair's size."""
    left = np.full(pair.left.shape[:2], 90, np.uint8)
    left[:9, :60] = np.random.default_rng(0).integers(0, 256, (9, 60))
    return dataclasses.replace(pair, left=left, right=np.roll(left, -4, axis=1))


def measure(pair: Pair, configs: dict[str, MatcherConfig], frames: int
            ) -> dict[str, tuple[object, ...]]:
    """Cells of the table by variant."""
    height, width = pair.left.shape[:2]
    images = RawImage.from_array(pair.left), RawImage.from_array(pair.right)
    out = {'disparity': np.empty((height, width), np.float32)}
    made, matched, largest = {}, {}, {}
    for name, config in configs.items():
        made[name] = engines.create_engine(config, width, height)
        matched[name] = functools.partial(made[name].compute, *images, None, out)
        with engines.choose(config).kernels_used() as kernels:
            matched[name]()
        largest[name] = max((one for one in kernels if one.name.startswith(KERNELS)),
                            key=lambda one: one.blocks)
    alone = {name: matching_alone(engine) for name, engine in made.items()}
    matching: dict[str, list[float]] = {name: [] for name in configs}
    whole: dict[str, list[float]] = {name: [] for name in configs}
    for _ in range(UNCOUNTED + frames):
        for name in configs:
            matching[name] += device.microseconds(*alone[name], repeats=1)
            whole[name].append(1e3 * common.milliseconds(matched[name]))
    for engine in made.values():
        engine.close()
    return {name: (f'{statistics.median(matching[name][UNCOUNTED:]) / COUNT:.1f}',
                   f'{statistics.median(whole[name][UNCOUNTED:]):.1f}',
                   f'{one.blocks} x {one.threads}', one.shared_bytes, one.registers)
            for name, one in largest.items()}


def matching_alone(engine: Any) -> tuple[Any, Any]:
    """The stream of a CUDA engine, and a graph of its matching, ``COUNT`` times."""
    stream = engine._stream
    return stream, device.graph(stream, lambda: engine._pipeline.matching.enqueue(
        stream.ptr, engine._pipeline.preprocess.result('grey'), True,
        refine.steps(engine.config, ('disparity',)), engine._pipeline.refine.frame()), COUNT)


if __name__ == '__main__':
    main()
