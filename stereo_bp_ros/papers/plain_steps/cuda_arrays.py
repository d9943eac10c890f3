"""The papers' kernels of belief propagation: their arrays, names and limits. No CuPy here."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import numpy as np

from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines import geometry
from stereo_bp_ros.engines.cuda.runtime.device import Properties
from stereo_bp_ros.engines.geometry import Wanted
from stereo_bp_ros.errors import ConfigError

#: Columns that aligned rows are padded to (GPU + CPU paper, section 6.3), and the bytes that
#: their arrays start at.
ALIGNED_COLUMNS = 16

#: Bytes of a value in shared memory, most threads of a block, and threads that run together.
VALUE_BYTES, MAX_THREADS, WARP = 4, 1024, 32

LAYOUTS = {'disparity_major': 'DISPARITY_MAJOR', 'pixel_major': 'PIXEL_MAJOR'}

# Name in ``plain_steps.cuh``, type of messages and level 0's costs, type of the other costs.
_KINDS = {'float32': ('Singles', 'float32', 'float32'), 'float16': ('Halves', 'uint16', 'float32'),
          'packed': ('PackedHalves', 'uint16', 'float32'), 'int16': ('Integers', 'int16', 'int16')}
_C_TYPES = {'float32': 'float', 'uint16': 'uint16', 'int16': 'short'}


class Split(NamedTuple):
    """Where the D values of the message under computation lie; the paper's x-y-z."""

    registers: int
    shared: int
    local: int


@dataclasses.dataclass(frozen=True)
class Level:
    """One level of the pyramid as it lies in memory.

    width, height: nodes; pitch: columns of one colour in a row, with what pads them.
    cost, sent: offset of each colour's array, and of each colour's and direction's, in bytes from
        the start of the level's costs and of its messages.
    cost_bytes, sent_bytes: of all of them together.
    """

    width: int
    height: int
    pitch: int
    cost: tuple[int, ...]
    sent: tuple[int, ...]
    cost_bytes: int
    sent_bytes: int


def kind(config: ResolvedConfig) -> tuple[str, str, str]:
    """Number types: the name in ``plain_steps.cuh``, of what is kept, of costs above level 0."""
    return _KINDS['packed' if config.plain_steps.packed_halves else config.message_type]


def nodes_of_thread(config: ResolvedConfig) -> int:
    """Neighbouring nodes of one colour that a thread computes at once."""
    return 2 if config.plain_steps.packed_halves else 1


def levels(config: ResolvedConfig, width: int, height: int) -> list[Level]:
    """The pyramid, level 0 first."""
    _, stored, sums = kind(config)
    found = []
    for k, (w, h) in enumerate(geometry.pyramid(width, height, config.levels)):
        pitch = (w + 1) // 2
        if config.plain_steps.aligned_rows:
            pitch = -(-pitch // ALIGNED_COLUMNS) * ALIGNED_COLUMNS
        values = h * pitch * config.disparity_range
        cost = _side_by_side(config, 2, values, stored if k == 0 else sums)
        sent = _side_by_side(config, 8, values, stored)
        found.append(Level(w, h, pitch, cost[:-1], sent[:-1], cost[-1], sent[-1]))
    return found


def _side_by_side(config: ResolvedConfig, count: int, values: int, dtype: str) -> tuple[int, ...]:
    """Where arrays of so many values start, and where the last one ends."""
    size = values * np.dtype(dtype).itemsize
    return tuple(i * (geometry.align(size) if config.plain_steps.aligned_rows else size)
                 for i in range(count + 1))


def block_offsets(config: ResolvedConfig, found: list[Level]) -> tuple[list[int], list[int], int]:
    """Where each level's costs and messages start in a single block, and its bytes.

    Unaligned arrays follow one another at multiples of their values alone.
    """
    offset = 0
    starts: list[list[int]] = []
    for sizes in ([level.cost_bytes for level in reversed(found)],
                  [level.sent_bytes for level in reversed(found)]):
        starts.append([])
        for size in sizes:
            starts[-1].append(offset)
            offset += geometry.align(size) if config.plain_steps.aligned_rows else size
    # The largest values come first, so that none lies at a multiple of less than its size.
    return starts[0][::-1], starts[1][::-1], offset


def arrays(config: ResolvedConfig, width: int, height: int) -> Wanted:
    """Costs and messages, unless each frame allocates its own."""
    if config.plain_steps.allocation != 'once':
        return []
    return [('storage', (block_offsets(config, levels(config, width, height))[2],), 'uint8')]


def split(config: ResolvedConfig) -> Split:
    """Where the values of the message under computation lie."""
    count, plain = config.disparity_range, config.plain_steps
    if plain.storage == 'register':
        return Split(count, 0, 0)
    if plain.storage == 'shared':
        return Split(0, count, 0)
    if plain.storage == 'hybrid':
        return Split(plain.registers, plain.shared, count - plain.registers - plain.shared)
    return Split(0, 0, count)


def shared_bytes(config: ResolvedConfig) -> int:
    """Shared memory of a block of the message kernel."""
    plain = config.plain_steps
    return split(config).shared * plain.block_width * plain.block_height * VALUE_BYTES


def check(config: ResolvedConfig, device: Properties) -> None:
    """Reject what this program cannot do on CUDA.

    :raises ConfigError: names the setting and the limit.
    """
    plain = config.plain_steps
    if not plain.vectorised:
        raise ConfigError('plain_steps.vectorised', False,
                          'is a choice of CPU instructions: use backend cpu')
    if plain.storage != 'hybrid' and (plain.registers or plain.shared):
        raise ConfigError('plain_steps.registers', plain.registers,
                          'is, like shared, for storage hybrid')
    if split(config).local < 0:
        raise ConfigError('plain_steps.shared', plain.shared,
                          f'with {plain.registers} values in registers must be at most '
                          f'{config.disparity_range - plain.registers}')
    if plain.packed_halves and config.message_type != 'float16':
        raise ConfigError('plain_steps.packed_halves', True,
                          f'needs message_type float16, which is {config.message_type}')
    threads = plain.block_width * plain.block_height
    if threads > MAX_THREADS:
        raise ConfigError('plain_steps.block_height', plain.block_height,
                          f'gives blocks of {threads} threads, of which {MAX_THREADS} are the '
                          'most')
    most = device.shared_memory // (threads * VALUE_BYTES)
    if split(config).shared > most:
        raise ConfigError(
            'plain_steps.shared' if plain.storage == 'hybrid' else 'plain_steps.storage',
            split(config).shared, f'values a thread do not fit: {device.shared_memory} bytes of '
            f'shared memory hold {most} for blocks of {threads} threads')


def kernels(config: ResolvedConfig, image: str) -> dict[str, str]:
    """Names in ``plain_steps.cu`` by step; ``image``: type of the pixels that are matched.

    ``parents_1`` makes level 1 from level 0 and ``parents`` the others; so ``send_0`` and
    ``send``.
    """
    name, stored, sums = kind(config)
    stored, sums = _C_TYPES[stored], _C_TYPES[sums]
    ending = f'{config.disparity_range}, {LAYOUTS[config.plain_steps.layout]}'
    kept = split(config)
    block = (f'{config.plain_steps.block_width}, {config.plain_steps.block_height}, '
             f'{config.plain_steps.blocks}, {kept.registers}, {kept.shared}')
    found = {'costs': f'store_costs<{name}, {image}, {ending}>',
             'labels': f'choose_labels<{name}, {ending}>'}
    if config.iterations_of_levels[0]:
        found['send_0'] = f'send_messages<{name}, {stored}, {ending}, {block}>'
    if config.levels > 1:
        found['copy'] = f'copy_messages<{name}, {ending}>'
        found['parents_1'] = f'store_parent_costs<{name}, {stored}, {ending}>'
        if config.iterations_of_levels[0]:
            found['send'] = f'send_messages<{name}, {sums}, {ending}, {block}>'
    if config.levels > 2:
        found['parents'] = f'store_parent_costs<{name}, {sums}, {ending}>'
    return found


def all_kernels(config: ResolvedConfig) -> set[str]:
    """Names in ``plain_steps.cu`` of whatever an engine loads, for images of any encoding."""
    is_grey = config.smoothing_sigma == 0 and config.preprocessing == 'none'
    return {name for image in (('uint8', 'float') if is_grey else ('float',))
            for name in kernels(config, image).values()}


def local_accesses(config: ResolvedConfig, width: int, height: int) -> tuple[int, int]:
    """Loads and stores of the local array by the warps of all message kernels of a frame.

    Derived, not counted: each message writes its values as sums and changes them in three passes
    of four that read them. What the compiler spills from registers comes on top; a profiler
    counts both (``docs/papers/storage.md``).
    """
    local = split(config).local
    if local == 0:
        return 0, 0
    warps = 0
    for w, h in geometry.pyramid(width, height, config.levels):
        for iteration in range(config.iterations_of_levels[0]):
            warps += _warps_that_send(config, w, h, (iteration + 1) % 2)
    return 4 * 4 * local * warps, 4 * 4 * local * warps


def _warps_that_send(config: ResolvedConfig, width: int, height: int, colour: int) -> int:
    """Warps of one launch with a node to update; a warp is whole rows of its block, or a part."""
    block_width, block_height = config.plain_steps.block_width, config.plain_steps.block_height
    nodes = nodes_of_thread(config)
    rows, columns = np.divmod(np.arange(block_width * block_height), block_width)
    count = 0
    for top in range(0, height, block_height):
        y = top + rows
        odd = (y + colour) % 2
        inside = (y >= 1) & (y < height - 1)
        for left in range(math.ceil((width + 1) // 2 / (block_width * nodes))):
            first = (left * block_width + columns) * nodes
            sends = inside & (first + nodes - 1 >= 1 - odd) & (first < (width - odd) // 2)
            count += len(np.unique(np.flatnonzero(sends) // WARP))
    return count
