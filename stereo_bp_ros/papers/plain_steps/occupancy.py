"""What the papers choose storage by: arithmetic over a device's limits, no CuPy here.

The occupancy walk of Grauer-Gray & Cavazos, "Optimizing and Auto-tuning Belief Propagation on the
GPU" (LCPC 2010), section 7.
"""

from __future__ import annotations

from typing import NamedTuple

#: Threads that run together; the width of the walk's blocks.
WARP = 32

#: Highest block that the walk tries, in rows of 32 threads.
MOST_ROWS = 16

#: NUM_REG_VALUES_INITIAL and MAX_REG_VALUES of the paper on devices without an L1 cache; on the
#: GTX 470, which has one, both were 0.
INITIAL_REGISTER_VALUES, MOST_REGISTER_VALUES = 12, 50


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


class Split(NamedTuple):
    """Where the D values of the message under computation lie; the paper's x-y-z."""

    registers: int
    shared: int
    local: int


class Walked(NamedTuple):
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


def walk(limits: Limits, occupancy: float, disparities: int, *, value_bytes: int = 4,
         initial_values: int = INITIAL_REGISTER_VALUES,
         most_values: int = MOST_REGISTER_VALUES) -> Walked:
    """The configuration that keeps the most on chip at one occupancy (LCPC 2010, section 7).

    1. The most rows of 32 threads that the occupancy allows, in blocks as high as divides them;
    2. registers of a thread; 3. ``initial_values`` in registers; 4. as many as fit into shared
    memory; 5. of the rest up to ``most_values`` in registers altogether, what is left in local
    memory.

    :param occupancy: the most, 0 to 1; one row runs at least.
    :param value_bytes: of a value in shared memory.
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
    shared = min(disparities - in_registers, max(0, room) // (WARP * height * value_bytes))
    rest = disparities - in_registers - shared
    more = min(rest, max(0, most_values - in_registers))
    return Walked(WARP, height, blocks,
                  min(limits.registers // threads, limits.thread_registers),
                  Split(in_registers + more, shared, rest - more), threads / limits.threads)


def occupancies() -> list[float]:
    """The most occupancies that the paper tries: 0.04 to 1.00 in steps of 0.02."""
    return [i / 50 for i in range(2, 51)]


def candidates(limits: Limits, disparities: int, *, value_bytes: int = 4,
               initial_values: int = INITIAL_REGISTER_VALUES,
               most_values: int = MOST_REGISTER_VALUES) -> list[tuple[float, Walked]]:
    """The walk over ``occupancies``: each configuration once, with the least that gives it."""
    found: dict[Walked, float] = {}
    for occupancy in occupancies():
        found.setdefault(walk(limits, occupancy, disparities, value_bytes=value_bytes,
                              initial_values=initial_values, most_values=most_values), occupancy)
    return [(occupancy, walked) for walked, occupancy in found.items()]


def _block_height(limits: Limits, rows: int) -> int:
    """Rows of the highest block of which a whole number has ``rows`` rows; 0 = there is none."""
    most = min(MOST_ROWS, limits.block_threads // WARP)
    return next((height for height in range(most, 0, -1)
                 if rows % height == 0 and rows // height <= limits.blocks), 0)
