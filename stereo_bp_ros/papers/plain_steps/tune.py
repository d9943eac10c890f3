"""The storage of a message that is fastest, by the walk over occupancies of LCPC 2010.

Grauer-Gray & Cavazos, "Optimizing and Auto-tuning Belief Propagation on the GPU", section 7.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.engines.cuda.plan import resolve
from stereo_bp_ros.engines.cuda.runtime import device
from stereo_bp_ros.errors import ConfigError
from stereo_bp_ros.papers.plain_steps.cuda_arrays import VALUE_BYTES, WARP, Split
from stereo_bp_ros.papers.plain_steps.search import Candidate, FrameTimer, Result, search

#: What the walk chooses.
TUNED_SETTINGS = tuple(f'plain_steps.{name}' for name in (
    'registers', 'shared', 'block_width', 'block_height', 'blocks'))

#: Highest block that the walk tries, in rows of 32 threads.
MAX_ROWS = 16

#: NUM_REG_VALUES_INITIAL and MAX_REG_VALUES of the paper on devices without an L1 cache; on the
#: GTX 470, which has one, both were 0.
INITIAL_REGISTER_VALUES, MAX_REGISTER_VALUES = 12, 50

#: The most occupancies that the paper tries.
OCCUPANCIES = [i / 50 for i in range(2, 51)]


class Limits(NamedTuple):
    """What one multiprocessor of a device and one block have.

    threads, blocks: that run at once on a multiprocessor.
    registers:       of 32 bits, of a multiprocessor; ``thread_registers``: most of one thread.
    shared_memory:   bytes of a multiprocessor; ``block_shared_memory``: most of one block.
    block_reserve:   bytes of it that every block takes beside what it asks for.
    block_threads:   most of one block.
    """

    threads: int
    blocks: int
    registers: int
    thread_registers: int
    shared_memory: int
    block_shared_memory: int
    block_reserve: int
    block_threads: int


#: Stands for the device where none is asked; as ``device.TYPICAL``.
TYPICAL = Limits(2048, 32, 65536, 255, 228 * 1024, 227 * 1024, 1024, 1024)


class OccupancyChoice(NamedTuple):
    """What the walk chooses at one occupancy.

    block_width, block_height: threads; blocks: of a multiprocessor at once; registers: that
    a thread may have, for the compiler; occupancy: threads so found over the most there can be.
    """

    block_width: int
    block_height: int
    blocks: int
    registers: int
    split: Split
    occupancy: float


def walk(limits: Limits, occupancy: float, disparities: int, *,
         initial_values: int = INITIAL_REGISTER_VALUES,
         max_values: int = MAX_REGISTER_VALUES) -> OccupancyChoice:
    """The configuration that keeps the most on chip at one occupancy (LCPC 2010, section 7).

    1. The most rows of 32 threads that the occupancy allows, in blocks as high as divides them;
    2. registers of a thread; 3. ``initial_values`` in registers; 4. as many as fit into shared
    memory; 5. of the rest up to ``max_values`` in registers altogether, what is left in local
    memory.

    :param occupancy: the most, 0 to 1; one row runs at least.
    """
    rows = max(1, int(occupancy * limits.threads / WARP + 1e-9))
    height = _block_height(limits, rows)
    while height == 0:
        rows -= 1
        height = _block_height(limits, rows)
    blocks = rows // height
    threads = WARP * rows
    room = min(limits.shared_memory // blocks - limits.block_reserve,
               limits.block_shared_memory)
    in_registers = min(initial_values, disparities)
    shared = min(disparities - in_registers, max(0, room) // (WARP * height * VALUE_BYTES))
    rest = disparities - in_registers - shared
    more = min(rest, max(0, max_values - in_registers))
    return OccupancyChoice(
        WARP, height, blocks, min(limits.registers // threads, limits.thread_registers),
        Split(in_registers + more, shared, rest - more), threads / limits.threads)


def candidates(limits: Limits, disparities: int, *,
               initial_values: int = INITIAL_REGISTER_VALUES,
               max_values: int = MAX_REGISTER_VALUES) -> list[tuple[float, OccupancyChoice]]:
    """The walk: each configuration once, with the minimum occupancy that gives it."""
    walked: dict[OccupancyChoice, float] = {}
    for occupancy in OCCUPANCIES:
        walked.setdefault(walk(limits, occupancy, disparities, initial_values=initial_values,
                               max_values=max_values), occupancy)
    return [(occupancy, configuration) for configuration, occupancy in walked.items()]


def _block_height(limits: Limits, rows: int) -> int:
    """Rows of the highest block of which a whole number has ``rows`` rows; 0 = there is none."""
    most = min(MAX_ROWS, limits.block_threads // WARP)
    return next((height for height in range(most, 0, -1)
                 if rows % height == 0 and rows // height <= limits.blocks), 0)


def settings_of(walked: OccupancyChoice) -> Candidate:
    """What the walk has chosen, as settings."""
    return dict(zip(TUNED_SETTINGS,
                    (walked.split.registers, walked.split.shared, walked.block_width,
                     walked.block_height, walked.blocks), strict=True))


def device_limits(index: int) -> Limits:
    """What ``occupancy`` wants to know about a device that is there."""
    from cupy.cuda import runtime
    known = runtime.getDeviceProperties(index)
    return Limits(
        threads=known['maxThreadsPerMultiProcessor'],
        blocks=known['maxBlocksPerMultiProcessor'], registers=known['regsPerMultiprocessor'],
        thread_registers=255, shared_memory=known['sharedMemPerMultiprocessor'],
        block_shared_memory=known['sharedMemPerBlockOptin'],
        block_reserve=known['reservedSharedMemPerBlock'],
        block_threads=known['maxThreadsPerBlock'])


def occupancy_walk(config: MatcherConfig, initial_values: int, max_values: int
                   ) -> list[tuple[float, Candidate]]:
    """The walk of LCPC 2010 (section 7) for the CUDA device and ``disparity_range`` values.

    Returns the most occupancy, 0 to 1, and the settings of ``storage: hybrid`` of each
    configuration that differs from the one before.

    :param initial_values, max_values: NUM_REG_VALUES_INITIAL and MAX_REG_VALUES of the paper.
    :raises BackendUnavailable: there is no CUDA device.
    """
    device.require(config.device_id)
    return [(most, settings_of(walked)) for most, walked in
            candidates(device_limits(config.device_id), config.disparity_range,
                       initial_values=initial_values, max_values=max_values)]


def tune(config: MatcherConfig, width: int, height: int,
         progress: Callable[[int, int], None] = lambda *_: None) -> Result:
    """The fastest split of the walk for images of a size, on the device of a configuration.

    :param config: of ``storage: hybrid``; its own split is what others must be faster than.
    :param progress: as for ``search``.
    :raises BackendUnavailable: there is no CUDA device.
    :raises StereoError: an engine cannot be built.
    """
    device.require(config.device_id)
    properties = device.properties(config.device_id)
    walked = candidates(device_limits(config.device_id), config.disparity_range)
    timer = FrameTimer(config, width, height, properties)
    try:
        return search(_held(config, properties, [settings_of(one) for _, one in walked]), timer,
                      progress)
    finally:
        timer.close()


def _held(config: MatcherConfig, properties: device.Properties, tried: Sequence[Candidate]
          ) -> list[Candidate]:
    """Those that a block of the device can hold."""
    found = []
    for settings in tried:
        with contextlib.suppress(ConfigError):
            resolve(config.replace(**settings), properties)
            found.append(settings)
    return found
