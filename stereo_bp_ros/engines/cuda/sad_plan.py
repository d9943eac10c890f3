"""How SAD's windows are given to blocks, and its arrays. Arithmetic only: no CuPy here."""

from __future__ import annotations

import math
from typing import NamedTuple

from stereo_bp_ros import geometry
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines.cuda.device import TYPICAL, Properties

#: Windows in x of one warp, most labels of one warp, and threads that a multiprocessor holds of
#: the kernel; as in ``sad.cu``.
STRIP, MOST_LABELS, RESIDENT_THREADS = 32, 64, 512

#: Bytes of shared memory that a block takes beside what is asked for.
RESERVED = 1024


class Cut(NamedTuple):
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


def window_tiles(config: MatcherConfig) -> int:
    """Tiles of 16 pixels that 16 neighbouring windows cover; at least the 2 of one product."""
    return max(2, -(-(config.correlation_window_size + 15) // 16))


def cut(config: MatcherConfig, width: int, height: int, device: Properties = TYPICAL,
        rows: int | None = None) -> Cut:
    """The launch for images of this size.

    :param rows: of windows that a block slides down, in place of the engine's own choice.
    """
    valid = geometry.valid_window(config, width, height)
    chunks = -(-config.disparity_range // MOST_LABELS)
    label_tiles = -(-config.disparity_range // (8 * chunks))
    strips = {1: 4, 2: 2}.get(chunks, 1)
    base = Cut(window_tiles(config), label_tiles, chunks, strips, 4, 0, (1, 1, 1), 0)
    if valid.width == 0:
        return base
    if _shared_bytes(config, base._replace(rows=16)) > device.shared_memory - 8 * RESERVED:
        base = base._replace(copies=1)
    best, least = base, math.inf
    columns = -(-valid.width // (STRIP * strips))
    for count in [rows] if rows else range(1, valid.height + 1):
        blocks = -(-valid.height // count)
        shared = _shared_bytes(config, base._replace(rows=count))
        if shared > device.shared_memory - 8 * RESERVED:
            break
        found = base._replace(rows=count, grid=(columns, blocks, 1), shared_bytes=shared)
        time = _predicted_time(config, found, device)
        if time < least:
            best, least = found, time
    return best


def _shared_bytes(config: MatcherConfig, found: Cut) -> int:
    """Both images' rows of a block, and room for the sums of one window in every thread."""
    left = 8 * found.strips + 4 * (found.tiles - 1)
    right = left + 2 * found.label_tiles * found.chunks
    pitch = (right + 7) // 16 * 16 + 8
    row = 4 * (left + found.copies * pitch)
    sums = 16 * found.threads * (-(-found.label_tiles // 2))
    return row * (found.rows + config.correlation_window_size - 1) + sums


def _predicted_time(config: MatcherConfig, found: Cut, device: Properties) -> float:
    """Clocks of the launch, to choose between candidates."""
    blocks = found.grid[0] * found.grid[1]
    busiest = -(-blocks // device.multiprocessors)
    resident = max(1, min(RESIDENT_THREADS // found.threads,
                          device.shared_memory_sm // (found.shared_bytes + 4 * RESERVED)))
    window, warps = config.correlation_window_size, found.threads // 32
    steps = found.rows + 0.35 * (window - 1) + 5
    rounds = -(-busiest // resident)
    return max(busiest * warps * steps * 90, rounds * steps * 500)


def arrays(config: MatcherConfig, image: tuple[int, int]
           ) -> list[tuple[str, tuple[int, ...], str]]:
    """What matching fills on the device, H x W: name, shape, type."""
    cut_to_8bit = ('left_8bit', 'right_8bit') if config.sad_variant != 'auto' else ()
    return [*((name, image, 'uint8') for name in cut_to_8bit),
            ('label', image, 'int16'), ('fraction', image, 'int8'), ('best', image, 'int32'),
            ('second', image, 'int32'), ('right_keys', image, 'uint32')]
