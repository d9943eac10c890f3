"""Times the CUDA engine on the five sets of ``docs/performance.md``.

    python -m benchmarks.cuda_five_sets ../shared/data/middlebury [--types int16] [--kernels]

Host images in, host disparity out, medians in milliseconds: ``frame`` from and to ordinary
arrays, ``pinned`` from and to pinned ones, ``fixed`` the same with disparities of 16 bits
(``fixed_disparity``), ``graph`` is the launch of the frame's CUDA graph (that of ``pinned``)
until its end. ``build`` allocates and compiles, or reads what was compiled before.
``--kernels`` adds every pass with its time, registers, shared memory, occupancy and bytes per
second, and the kernel that selects what labels they leave, without publication.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

from benchmarks import common, device
from stereo_bp_ros import MatcherConfig, RawImage, engines
from stereo_bp_ros.engines.cuda.hierarchical import labels, launch, messages
from stereo_bp_ros.engines.cuda.hierarchical.formats import MessageFormat
from stereo_bp_ros.engines.cuda.runtime import compiler, pinned
from stereo_bp_ros.engines.cuda.runtime import device as runtime_device
from stereo_bp_ros.evaluation.timing import Pair

#: Milliseconds of an int16 frame from and to pinned arrays.
TARGETS = {'tsukuba': 0.085, 'venus': 0.11, 'barn1': 0.15, 'cones_quarter': 0.25,
           'cones_half': 1.2}

#: Frames from ordinary arrays, then from pinned ones, and so on.
TURN = 25

ON_DEVICE = 3       # cudaMemcpyKind


def main() -> None:
    """Read the command line and print the tables."""
    parser = common.parser(__doc__)
    common.add_data(parser, common.FIVE_SETS)
    parser.add_argument('--types', nargs='+', default=['int16', 'float32'],
                        choices=['int16', 'float32'])
    common.add_frames(parser, 300, of='of every column')
    parser.add_argument('--kernels', action='store_true')
    options = parser.parse_args()
    base = MatcherConfig(
        preprocessing='none', data_weight=0.1, data_truncation=15.0, discontinuity_slope=1.0,
        discontinuity_truncation=0.0, subpixel=False, border='keep', backend='cuda')
    common.print_machine(base)
    print(f'device-to-device copy: {copy_ceiling():.2f} TB/s read and written')
    common.print_head('set', 'type', 'frame', 'pinned', 'fixed', 'graph', 'target of int16',
                      'build, s', 'of it compile', 'first frame', 'arena, MiB', 'stages')
    passes: list[tuple[object, ...]] = []
    for one in common.sets(options.data, options.sets):
        pair = common.timed(one, is_grey=True)
        for message_type in options.types:
            config = base.replace(disparity_range=pair.disparities, message_type=message_type)
            passes += time_set(config, pair, options.frames, options.kernels)
    if passes:
        common.print_head('set', 'type', 'level', 'iterations', 'tile', 'us',
                          'TB/s of messages', 'registers', 'local B', 'shared B', 'warps')
        for row in passes:
            common.print_row(*row)


def time_set(config: MatcherConfig, pair: Pair, frames: int, is_for_passes: bool
             ) -> list[tuple[object, ...]]:
    """Print one row; returns the rows of the passes where they are wanted."""
    height, width = pair.left.shape
    engine: Any = engines.create_engine(config, width, height)
    stages: list[dict[str, float]] = []
    ordinary = {'disparity': np.zeros((height, width), np.float32)}
    locked = {'disparity': pinned.empty((height, width), 'float32', config.device_id)}
    fixed = {'fixed_disparity': pinned.empty((height, width), 'int16', config.device_id)}
    images = [RawImage.from_array(side) for side in (pair.left, pair.right)]
    pinned_images = [RawImage.from_array(pinned_copy(side, config.device_id))
                     for side in (pair.left, pair.right)]
    programs: dict[str, Callable[[], object]] = {
        'frame': lambda: stages.append(engine.compute(*images, None, ordinary)),
        'fixed': functools.partial(engine.compute, *pinned_images, None, fixed),
        'pinned': functools.partial(engine.compute, *pinned_images, None, locked)}
    first = common.milliseconds(programs['frame'])
    times = common.in_turn(programs, -(-frames // TURN), turn=TURN)
    assert np.array_equal(locked['disparity'], ordinary['disparity'])
    assert np.array_equal(fixed['fixed_disparity'], 16 * ordinary['disparity'])
    times['graph'] = [1e3 * engine.replay() for _ in range(frames)]
    medians = {stage: statistics.median(row[stage] for row in stages) for stage in stages[0]}
    common.print_row(
        pair.name, config.message_type,
        *(f'{statistics.median(times[name]):.3f}'
          for name in ('frame', 'pinned', 'fixed', 'graph')), TARGETS.get(pair.name, '-'),
        f'{engine.build_time:.2f}', f'{engine.compile_time:.2f}', f'{first:.1f}',
        f'{engine.plan.memory.total / 2**20:.0f}',
        ', '.join(f'{stage} {value:.3f}' for stage, value in medians.items() if value))
    rows: list[tuple[object, ...]] = []
    if is_for_passes:
        rows = [(pair.name, config.message_type, *row) for row in time_passes(engine)]
    engine.close()
    return rows


def pinned_copy(array: np.ndarray, index: int) -> np.ndarray:
    """A copy in memory that the device reads and writes itself."""
    copy = pinned.empty(array.shape, array.dtype.str, index)
    copy[...] = array
    return copy


def time_passes(engine: Any) -> list[tuple[object, ...]]:
    """Rows of every pass of a CUDA engine alone."""
    config = engine.config
    found = runtime_device.properties(config.device_id)
    stream, matching = engine._stream, engine._pipeline.matching
    shape, launches = MessageFormat.of(config), engine.plan.launches
    out = labels.matches(config, engine.width, engine.height, engine._arena,
                         engine.plan.parts.partitions[0], False, False, False)
    base = messages.base_cost(config, 'uint8', launches)
    rows: list[tuple[object, ...]] = []
    for step, parameters in zip(launches, matching._messages._parameters, strict=True):
        parameters.matches = out
        kernel = compiler.kernel(found, *messages.kernel_of(config, step, base))
        cut, threads = step.tiling, messages.threads_of(config, step, base)
        grid = (-(-parameters.width // cut.width), -(-parameters.height // cut.height), 1)
        elapsed = alone(stream, functools.partial(
            kernel.launch, stream.ptr, grid, (threads, 1, 1), step.shared_bytes, parameters))
        nodes = parameters.width * parameters.height / 2
        vectors = 4 * (1 if step.start == launch.FROM_MESSAGES
                       else 0.5 if step.start == launch.FROM_PARENTS else 0)
        vectors += {launch.LAST_COLOUR: 4, launch.BOTH_COLOURS: 8, launch.LABELS: 0,
                    launch.OWN_LABELS: 4}[step.finish]
        moved = nodes * vectors * shape.units * shape.unit_bytes
        resources = kernel.resources
        warps = kernel.blocks_per_multiprocessor(threads, step.shared_bytes) * threads // 32
        rows.append((
            step.level, f'{step.first}-{step.first + step.iterations - 1}',
            f'{cut.width}x{cut.height}', f'{elapsed:.1f}', f'{moved / elapsed / 1e6:.2f}',
            resources.registers, resources.local_bytes, step.shared_bytes, f'{warps}/64'))
    if labels.kernels(config, launches[-1], base):
        elapsed = alone(stream, functools.partial(
            matching._labels.enqueue, stream.ptr, base, out))
        rows.append((0, 'labels that the passes leave', '', f'{elapsed:.1f}', *[''] * 5))
    return rows


def alone(stream: Any, launch: Callable[[], object], count: int = 10) -> float:
    """Microseconds of one launch among ``count`` in a graph, the best of three."""
    return min(device.microseconds(stream, device.graph(stream, launch, count), 3)) / count


def copy_ceiling(size: int = 2**31) -> float:
    """TB/s of a large copy on the device, bytes read plus bytes written."""
    source, target = (cupy.cuda.memory.Memory(size) for _ in range(2))
    stream, count = cupy.cuda.Stream(non_blocking=True), 20
    launched = device.graph(stream, lambda: cupy.cuda.runtime.memcpyAsync(
        target.ptr, source.ptr, size, ON_DEVICE, stream.ptr), count)
    taken = device.microseconds(stream, launched, 1, uncounted=1)[0]
    return 2 * size * count / taken / 1e6


if __name__ == '__main__':
    main()
