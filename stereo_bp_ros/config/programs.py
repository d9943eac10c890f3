"""The settings of the programs that repeat a paper: a class for each, which is its default, too.

``MatcherConfig`` has a field for each; they count only where ``program`` names it.
"""

from __future__ import annotations

import dataclasses

from stereo_bp_ros.config.settings import Settings, setting

#: The algorithm that each program is of.
ALGORITHM_OF = {'plain_steps': 'bp', 'streamed_sad': 'sad', 'tiled_barriers': 'tiled_bp'}

PROGRAMS = ('default', *ALGORITHM_OF)


@dataclasses.dataclass(frozen=True)
class PlainSteps(Settings):
    """A kernel or parallel loop for each step: the LCPC 2010 paper and the GPU + CPU paper."""

    storage: str = setting(
        'local', 'where the values of a message lie while it is computed (CUDA); hybrid: '
        'registers, shared, and the rest local; both 0 = as stereo_bp tune has found, else all '
        'local', choices=('register', 'shared', 'local', 'hybrid'))
    registers: int = setting(0, 'values of a message in registers with storage hybrid', 0, 512)
    shared: int = setting(
        0, 'values of a message in shared memory with storage hybrid', 0, 512)
    block_width: int = setting(
        32, 'width of the blocks of the message kernel', 1, 1024, unit='threads')
    block_height: int = setting(
        4, 'height of the blocks of the message kernel', 1, 1024, unit='threads')
    blocks: int = setting(
        1, 'such blocks that a multiprocessor can hold at least: bounds their registers', 1, 32)
    layout: str = setting(
        'disparity_major', 'order of costs and messages in a row',
        choices=('disparity_major', 'pixel_major'))
    aligned_rows: bool = setting(True, 'pad rows to multiples of 16 values')
    allocation: str = setting(
        'once', 'memory is allocated once for all frames, or in every frame as a single block, '
        'or in every frame and level as separate arrays', choices=('once', 'single', 'separate'))
    packed_halves: bool = setting(
        False, 'compute float16 messages in pairs of 16 bits (half2; CUDA)')
    vectorised: bool = setting(
        True, 'send messages with vectors, not one pixel at a time (CPU)')


@dataclasses.dataclass(frozen=True)
class StreamedSad(Settings):
    """Every window summed by itself: the data-streaming paper, on CUDA."""

    variant: str = setting(
        'shared_all', 'the images are read from global memory, or from rows on chip that one '
        'thread or all threads of a block load', choices=('global', 'shared_one', 'shared_all'))


@dataclasses.dataclass(frozen=True)
class TiledBarriers(Settings):
    """How tiles and threads wait for each other: the thesis on tiled belief propagation."""

    schedule: str = setting(
        'lock_free', 'order in which blocks visit tiles on CUDA: speculative (all at once, '
        'repeated until stable), rows (wavefront, a block per row), cooperative or lock_free (a '
        'grid barrier per diagonal), launches (a kernel per diagonal), auto (as program default)',
        choices=('cooperative', 'lock_free', 'launches', 'rows', 'speculative', 'auto'))
    synchronisation: str = setting(
        'needed', 'threads of a tile wait only where they must, or before and after every '
        'message (CUDA; not with speculative or rows)', choices=('needed', 'all'))
    computation: str = setting(
        'plain', 'how messages are lowered: plain, in O(D), or fast, each label by itself, '
        'compared with those whose step costs less than the truncation',
        choices=('plain', 'fast'))
