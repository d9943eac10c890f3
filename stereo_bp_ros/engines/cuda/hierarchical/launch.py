"""One launch over the messages of a level, and the thresholds that its blocks follow. No CuPy."""

from __future__ import annotations

from typing import NamedTuple

from stereo_bp_ros.engines.cuda.hierarchical.formats import (
    Fixed32,
    Int16SixBits,
    MessageFormat,
)
from stereo_bp_ros.engines.cuda.runtime.device import Properties

#: Nodes around a tile that a launch can reach; the kernels have the same constants.
MAX_HALO = 15

#: Bytes of shared memory that a block takes beside what is asked for.
STATIC_SHARED = 1024

#: Part of the shared memory that one iteration on chip may take: loads on their way from device
#: memory need the rest as cache.
SHARED_OF_ONE_ITERATION = 4, 5

#: What the first iteration reads; ``Start`` of the kernels.
FROM_ZERO, FROM_PARENTS, FROM_MESSAGES = range(3)

#: What a launch leaves in memory; ``Finish`` of the kernels. Own labels are those of the nodes
#: that one iteration updates, beside its messages; stage ``labels`` selects the others.
LAST_COLOUR, BOTH_COLOURS, LABELS, OWN_LABELS = range(4)


class Tiling(NamedTuple):
    """How the nodes of a level are given to blocks.

    iterations: of one launch; width, height: nodes of a tile, both even; threads: of a block that
    the kernel is compiled for; directions: of the four messages of a node, how many one thread
    sends (1, 2 or 4). resident: nodes stay with their threads for all iterations of a launch
    (``messages_small_tiles.cu``), which must be two or more. last: the tiling of the last launch
    of a level, where it is another.
    """

    iterations: int
    width: int
    height: int
    threads: int
    directions: int
    resident: bool = False
    last: Tiling | None = None


class Launch(NamedTuple):
    """Iterations [first, first + iterations) of one level.

    source: array that the first iteration reads; targets: those of the messages of each colour
    that it leaves. halo_columns, halo_rows: nodes on chip on each side of a tile, both 0 where
    messages stay in device memory; halo_tile_columns: columns of one colour of the tile with its
    halo; halo_tile_height: its rows. shared_bytes, threads: of a block.
    """

    level: int
    first: int
    iterations: int
    start: int
    finish: int
    source: str | None
    parents: tuple[str, str] | None
    targets: tuple[str | None, str | None]
    tiling: Tiling
    halo_columns: int = 0
    halo_rows: int = 0
    halo_tile_columns: int = 0
    halo_tile_height: int = 0
    shared_bytes: int = 0
    threads: int = 0

    @property
    def is_streamed(self) -> bool:
        """Whether the iteration reads and writes device memory and keeps no tile on chip."""
        return self.iterations == 1 and self.finish != LABELS


# Thresholds below were found by compiling (no spill) and timing on an H200. Most are limits of the
# registers, which every architecture has as many of. The compiler decides what spills, so other
# architectures were compiled, too, but not timed (test_cuda_compile.py). "In use" are registers
# times directions: those of all vectors that a thread sends at once.

#: Registers of a multiprocessor, and threads of its largest block, on every architecture.
MULTIPROCESSOR_REGISTERS, MAX_BLOCK = 65536, 1024

#: Float vectors of more registers in one lane leave fewer threads to a single iteration.
FLOAT_REGISTERS = 32

#: Threads of a block whose only iteration ends with labels, for ``Int16SixBits``; and where labels
#: of 64 registers would spill, with more outputs or wider costs than ``Nibbles``.
SIX_BIT_LABEL_THREADS, SIX_BIT_FALLBACK = 384, 256

#: Nodes of a tile up to which int16 of 64 labels has more threads that send fewer messages.
FEW_NODES = 128

#: Registers that resident nodes were seen to need: (each in use, beside them). Threads of their
#: blocks are a multiple of the step.
RESIDENT_INT16, RESIDENT_LONG_INT16, LONG_INT16_REGISTERS = (1.5, 44), (2.0, 44), 64
RESIDENT_FLOATS, RESIDENT_SPLIT_FLOATS = (3.2, 20), (3.2, 50)
RESIDENT_STEP = 128


def _directions(message: MessageFormat) -> int:
    """Messages that one thread sends at once."""
    is_packed = message.is_int16 and message.lanes == 1
    return 4 if message.registers <= 16 else 2 if message.registers <= (
        64 if is_packed else 32) else 1


def block_choices(message: MessageFormat) -> list[tuple[int, int]]:
    """Threads of a block, and how many of a node's four messages one of them sends.

    As many as the registers hold without a spill, the usual choice first.

    21 labels of int16 are 3 chunks, 12 registers: a thread sends all 4 messages with 48 in use,
    which 512 threads hold. 128 labels are 64 registers: 2 messages are 128 in use.

    >>> block_choices(Int16(chunks=3, is_split=False, scale=1, slope=8, truncation=160))
    [(512, 4), (256, 4)]
    >>> block_choices(Int16(chunks=16, is_split=False, scale=1, slope=8, truncation=999))
    [(256, 2)]
    """
    directions = _directions(message)
    in_use = message.registers * directions
    if in_use <= 48:
        return [(512, directions), (256, directions)]
    if message.is_int16 and message.lanes == 1 and in_use <= 64:
        return [(256, 4), (384, 2)] if directions == 2 else [(384, directions)]
    return [(256, directions)]


def block(message: MessageFormat, nodes: int, iterations: int) -> tuple[int, int]:
    """Threads and directions for a tile of so many nodes in shared memory.

    >>> message = Int16(chunks=8, is_split=False, scale=1, slope=8, truncation=999)
    >>> block(message, 32 * 20, 4), block(message, 12 * 8, 5)
    ((256, 4), (384, 2))
    """
    if iterations == 1 and not message.is_int16:        # it ends with labels
        return (512, 2) if message.registers <= FLOAT_REGISTERS else (384, 1)
    usual, *others = block_choices(message)
    return others[0] if nodes <= FEW_NODES and others == [(384, 2)] else usual


def streamed_tiling(message: MessageFormat) -> Tiling:
    """The tiling of single iterations that stream through device memory.

    Floats: whole lines of memory, two vectors of a thread on their way. Split vectors: as many
    nodes as a block has teams, except for many labels.
    """
    if message.is_int16:
        return Tiling(1, 16, 8, 128, _directions(message))
    return Tiling(1, 32, 2 if message.is_split else 4, 128, 2)


def compiled_threads(message: MessageFormat, cost: str, launch: Launch, has_more: bool) -> int:
    """Threads of a block that the kernel of a launch is compiled for.

    :param cost: name of the format of its data cost.
    :param has_more: more than labels is wanted from a launch that ends with these.

    128 labels in 6 bits are 64 registers: 384 threads keep labels and costs of 4 bits, 256 threads
    all else.

    >>> message = Int16SixBits(chunks=16, is_split=False, scale=1, slope=30, truncation=999)
    >>> last = Launch(0, 6, 1, FROM_MESSAGES, LABELS, 'messages_0_0', None, (None, None),
    ...               Tiling(1, 30, 22, 384, 2))
    >>> [compiled_threads(message, cost, last, more)
    ...  for cost, more in (('Nibbles', False), ('Bytes', False), ('Nibbles', True))]
    [384, 256, 256]
    """
    threads = launch.tiling.threads
    if launch.iterations > 1:
        return threads
    if (threads == SIX_BIT_LABEL_THREADS and message.registers == 64
            and isinstance(message, Int16SixBits) and (has_more or cost != 'Nibbles')):
        return SIX_BIT_FALLBACK
    if not message.is_int16 and not message.is_split and message.registers > FLOAT_REGISTERS:
        return min(threads, 256 if has_more else 512 if cost == 'Multiples' else 384)
    return threads


def least_blocks(message: MessageFormat, cost: str, launch: Launch) -> int:
    """Blocks of a multiprocessor that the kernel of a launch is compiled for.

    Narrow costs leave registers for more warps.

    64 labels of ``Int16SixBits`` are 32 registers, 64 in use with 2 directions: beside costs of
    4 bits a streamed iteration has 512 threads a multiprocessor, which are 4 blocks of 128.

    >>> message = Int16SixBits(chunks=8, is_split=False, scale=1, slope=30, truncation=999)
    >>> launch = Launch(0, 0, 1, FROM_MESSAGES, LAST_COLOUR, None, None, (None, None),
    ...                 Tiling(1, 16, 8, 128, 2))
    >>> least_blocks(message, 'Nibbles', launch), least_blocks(message, 'Bytes', launch)
    (4, 1)
    """
    tiling, registers = launch.tiling, message.registers
    threads = 0                 # of a multiprocessor
    if launch.is_streamed and cost == 'Nibbles':
        threads = 384 if registers * tiling.directions > 64 else 512
    elif launch.is_streamed and cost == 'Multiples' and message.lanes == 1:
        threads = 384
    if isinstance(message, Fixed32) and launch.iterations == 1 and tiling.directions == 2:
        if registers <= 32 and cost in ('Multiples', 'MultipleSums'):
            threads = 640
        elif cost == 'Multiples':
            threads = 384
    return max(1, threads // tiling.threads)


def resident_threads(message: MessageFormat, directions: int, needed: int) -> int | None:
    """Threads of a block whose nodes stay with them, for ``needed`` of them; None = too many.

    16 labels of int16 are 8 registers. With 4 directions each thread needs 1.5 * 32 + 44 = 92: of
    65536, 640 threads have 102, 768 have 85.

    >>> message = Int16Bytes(chunks=2, is_split=False, scale=1, slope=8, truncation=64)
    >>> resident_threads(message, 4, needed=600), resident_threads(message, 4, needed=700)
    (640, None)
    """
    if message.is_int16:
        is_long = (isinstance(message, Int16SixBits)
                   or message.registers >= LONG_INT16_REGISTERS)
        each, more = RESIDENT_LONG_INT16 if is_long else RESIDENT_INT16
    else:
        each, more = RESIDENT_FLOATS if message.lanes == 1 else RESIDENT_SPLIT_FLOATS
    threads = -(-needed // RESIDENT_STEP) * RESIDENT_STEP
    registers = each * message.registers * directions + more
    is_too_many = threads > MAX_BLOCK or MULTIPROCESSOR_REGISTERS // threads < registers
    return None if is_too_many else threads


def ending(message: MessageFormat, iterations: int) -> int:
    """The finish of the last launch of level 0.

    Long vectors of floats have no room on chip for many nodes: they are faster in device memory.
    """
    return OWN_LABELS if iterations == 1 and message.is_split else LABELS


def fits_block(step: Launch, device: Properties) -> bool:
    """Whether a block has the shared memory and the threads."""
    room = device.shared_memory - STATIC_SHARED
    if step.iterations == 1:
        part, whole = SHARED_OF_ONE_ITERATION
        room = part * room // whole
    return step.shared_bytes <= room and step.threads <= step.tiling.threads


def placed(message: MessageFormat, step: Launch) -> Launch:
    """The launch with the halo that its blocks keep on chip, and their threads.

    >>> message = Int16(chunks=2, is_split=False, scale=1, slope=8, truncation=999)
    >>> step = placed(message, Launch(0, 0, 3, FROM_MESSAGES, LAST_COLOUR, 'a', None, (None, 'b'),
    ...                                Tiling(3, 16, 8, 256, 4)))
    >>> step.halo_rows, step.halo_columns                   # two iterations more, both even
    (2, 2)
    >>> step.halo_tile_columns, step.halo_tile_height       # (16 + 2 * 2) / 2, 8 + 2 * 2
    (10, 12)
    >>> step.shared_bytes                                   # 4 slots a node, and a spare one
    15488
    """
    tiling = step.tiling
    if step.is_streamed:
        if tiling.resident:
            raise ValueError('nodes stay with their threads for two iterations or more')
        return step._replace(threads=tiling.threads)
    reach = step.iterations - 1 + (step.finish == LABELS)
    first_colour = (step.first + 1) % 2
    reach += 1 - first_colour       # slots belong to nodes of colour 1
    halo_columns = reach + reach % 2
    columns, rows = tiling.width // 2 + halo_columns, tiling.height + 2 * reach
    threads = tiling.threads
    if tiling.resident:             # a team for each two nodes of the halo tile, in whole warps
        nodes_of_warp = 32 * tiling.directions // (4 * message.lanes)
        threads = 32 * -(-columns * rows // nodes_of_warp)
    return step._replace(
        halo_columns=halo_columns, halo_rows=reach, halo_tile_columns=columns,
        halo_tile_height=rows, shared_bytes=4 * message.message_bytes * (columns * rows + 1),
        threads=threads)
