"""How SAD's windows are given to blocks, and its arrays. Arithmetic only: no CuPy here."""

from __future__ import annotations

import math
from typing import NamedTuple

from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines import geometry
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL, Properties
from stereo_bp_ros.engines.geometry import Wanted

#: Windows in x of one warp, most labels of one warp, and threads that a multiprocessor holds of
#: the kernel; as in ``sad.cu``.
STRIP, MAX_LABELS, RESIDENT_THREADS = 32, 64, 512

#: Warps of a block, unless the range needs more.
BLOCK_WARPS = 4

#: Bytes of shared memory that a block takes beside what is asked for.
RESERVED = 4096

#: Where a block cannot keep four copies of a row for this many rows of windows, it keeps one.
MIN_ROWS = 16


class Launch(NamedTuple):
    """How ``match_windows`` in ``sad.cu`` is launched.

    tiles: of 16 pixels that 16 windows cover; label_tiles: of 8 labels, of one warp; chunks:
    warps that share the labels of a window; strips: of ``STRIP`` windows, of one block; copies:
    of a row of the right image in shared memory; rows: of windows that a block slides down;
    grid: blocks; shared_bytes: of a block.
    """

    tiles: int
    label_tiles: int
    chunks: int
    strips: int
    copies: int
    rows: int
    grid: tuple[int, int, int]
    shared_bytes: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.chunks * self.strips


def window_tiles(config: ResolvedConfig) -> int:
    """Tiles of 16 pixels that 16 neighbouring windows cover; at least the 2 of one product."""
    return max(2, -(-(config.correlation_window_size + 15) // 16))


def launch_of(config: ResolvedConfig, width: int, height: int, device: Properties = TYPICAL,
              rows: int | None = None) -> Launch:
    """The launch for images of this size.

    :param rows: of windows that a block slides down, in place of the engine's own choice.
    """
    valid = geometry.valid_window(config, width, height)
    base = _block(config, device)
    if valid.width == 0:
        return base
    best, least = base, math.inf
    columns = -(-valid.width // (STRIP * base.strips))
    # As many rows as divide the windows evenly: a block of few rows costs nearly as much.
    for count in {-(-valid.height // blocks) for blocks in range(1, valid.height + 1)}:
        found = _launch(config, base, columns, valid.height, rows or count)
        time = _predicted_time(config, found, device)
        if found.shared_bytes <= _room(device) and time < least:
            best, least = found, time
    return best


def _launch(config: ResolvedConfig, block: Launch, columns: int, height: int, rows: int) -> Launch:
    found = block._replace(rows=rows, grid=(columns, -(-height // rows), 1))
    return found._replace(shared_bytes=_shared_bytes(config, found))


def _block(config: ResolvedConfig, device: Properties) -> Launch:
    """One block, of no rows yet."""
    chunks = -(-config.disparity_range // MAX_LABELS)
    label_tiles = -(-config.disparity_range // (8 * chunks))
    strips = max(1, BLOCK_WARPS // chunks)
    found = Launch(window_tiles(config), label_tiles, chunks, strips, 4, 0, (1, 1, 1), 0)
    if _shared_bytes(config, found._replace(rows=MIN_ROWS)) > _room(device):
        return found._replace(copies=1)
    return found


def _room(device: Properties) -> int:
    """Bytes of shared memory for the rows and keys of a block."""
    return device.shared_memory - RESERVED


def _shared_bytes(config: ResolvedConfig, found: Launch) -> int:
    """Both images' rows of a block, and room for the sums of one window in every thread."""
    left = 8 * found.strips + 4 * (found.tiles - 1)
    right = left + 2 * found.label_tiles * found.chunks
    pitch = (right + 7) // 16 * 16 + 8
    row = 4 * (left + found.copies * pitch)
    sums = 64 * found.threads * (-(-found.label_tiles // 4))
    return row * (found.rows + config.correlation_window_size - 1) + sums


def _predicted_time(config: ResolvedConfig, found: Launch, device: Properties) -> float:
    """Microseconds beside those of the launch, fitted to an H200 (``docs/history.md``).

    Only the order of the candidates matters, which another clock does not change; on other
    architectures nothing was measured. The blocks of a multiprocessor run in rounds of as
    many as fit. More at once share its tensor cores, but hide each other's waiting.
    """
    together = max(1, min(RESIDENT_THREADS // found.threads,
                          device.shared_memory_sm // (found.shared_bytes + RESERVED)))
    blocks = -(-found.grid[0] * found.grid[1] // device.multiprocessors)
    products = config.correlation_window_size * found.tiles / 2
    rounds, rest = divmod(blocks, together)
    return sum(count * (0.3 + 0.2 * at_once + found.rows * (0.33 + 0.25 * at_once)
                        + products * (0.1 + 0.06 * at_once))
               for count, at_once in ((rounds, together), (1 if rest else 0, rest)))


def is_possible(config: ResolvedConfig, device: Properties) -> bool:
    """Whether a device can run ``match_windows``.

    That takes products of 8-bit integers, and on Turing more shared memory than there is for the
    largest windows and ranges.
    """
    smallest = _shared_bytes(config, _block(config, device)._replace(rows=1))
    return device.capability >= (7, 5) and smallest <= _room(device)


def arrays(image: tuple[int, int]) -> Wanted:
    """What matching fills on the device, H x W."""
    return [('label', image, 'int16'), ('fraction', image, 'int8'), ('best', image, 'int32'),
            ('second', image, 'int32'), ('right_keys', image, 'uint32')]
