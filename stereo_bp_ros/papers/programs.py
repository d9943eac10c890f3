"""The programs that repeat a paper: the one module of ``papers`` that the product knows.

``MatcherConfig`` has a field for the settings of each program; they count only where ``program``
names it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

from stereo_bp_ros.config.settings import Settings, Value, setting


@dataclasses.dataclass(frozen=True, repr=False)
class PlainSteps(Settings):
    """A kernel or parallel loop for each step: the LCPC 2010 paper and the GPU + CPU paper."""

    storage: str = setting(
        'local', 'where the values of a message lie while it is computed (CUDA); hybrid: '
        'registers, shared, and the rest local', choices=('register', 'shared', 'local', 'hybrid'))
    registers: int = setting(
        0, 'values of a message in registers', 0, 512, ignored='unless storage is hybrid')
    shared: int = setting(
        0, 'values of a message in shared memory', 0, 512, ignored='unless storage is hybrid')
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


@dataclasses.dataclass(frozen=True, repr=False)
class StreamedSad(Settings):
    """Every window summed by itself: the data-streaming paper, on CUDA."""

    variant: str = setting(
        'shared_all', 'the images are read from global memory, or from rows on chip that one '
        'thread or all threads of a block load', choices=('global', 'shared_one', 'shared_all'))


@dataclasses.dataclass(frozen=True, repr=False)
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


class Program(NamedTuple):
    """``algorithm``: what it is one of; ``classes``: back end to module and class that match.

    Where a back end has no class, the engine's own matches.
    """

    algorithm: str
    classes: Mapping[str, str]


#: Every program by its name.
PROGRAMS: Mapping[str, Program] = {
    'plain_steps': Program('bp', {
        'cuda': 'stereo_bp_ros.papers.plain_steps.cuda:PlainSteps',
        'cpu': 'stereo_bp_ros.papers.plain_steps.cpu_matching:PlainSteps'}),
    'streamed_sad': Program('sad', {'cuda': 'stereo_bp_ros.papers.streamed_sad.cuda:Streamed'}),
    # The engine's own class, with other schedules.
    'tiled_barriers': Program('tiled_bp', {})}

#: Labels up to which the program of ``exact`` unrolls its loops, which makes messages twice as
#: fast. A kernel takes the compiler 11 s then, and 99 s at 512 labels.
MAX_UNROLLED = 128

#: What ``program`` means, for its setting.
MEANING = 'program that matches: the fastest, or one that repeats a paper (' + ', '.join(
    f'{name} of {program.algorithm}' for name, program in PROGRAMS.items()) + ')'


@dataclasses.dataclass(frozen=True, repr=False)
class ProgramSettings(Settings):
    """The settings of all programs."""

    plain_steps: PlainSteps = dataclasses.field(default_factory=PlainSteps)
    streamed_sad: StreamedSad = dataclasses.field(default_factory=StreamedSad)
    tiled_barriers: TiledBarriers = dataclasses.field(default_factory=TiledBarriers)


def exact_sums(labels: int) -> Mapping[str, Value]:
    """Settings of the program whose float32 sums and means have the order of the reference maps.
    """
    return {'program': 'plain_steps',
            'plain_steps.storage': 'register' if labels <= MAX_UNROLLED else 'local'}


#: The program that has messages of float16 on CUDA.
OF_FLOAT16 = 'plain_steps'

#: Settings of the program that sums each window of SAD by itself, and so takes any window.
SINGLE_WINDOWS: Mapping[str, Value] = {'program': 'streamed_sad'}


def memory_bound(width: int, height: int, disparities: int) -> int:
    """(5 + 10 n) M N values: what the AI 2009 paper's program allocates (its section 3.2)."""
    return (5 + 10 * disparities) * width * height
