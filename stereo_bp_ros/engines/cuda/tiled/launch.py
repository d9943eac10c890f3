"""How tiled belief propagation is given to blocks, and its arrays. No CuPy here."""

from __future__ import annotations

from typing import NamedTuple

from stereo_bp_ros.config import quantisation
from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL, Properties
from stereo_bp_ros.errors import ConfigError

#: Planes of a tile on chip, and tiles that a block of ``follow_rows`` has at once; as in
#: ``tile.cuh`` and ``tiled.cu``.
PLANES, STAGES = 5, 4

#: Warps of a block of ``follow_rows``, a multiple of 4: as many as leave each registers enough.
ROW_WARPS = 24

#: Warps of a block of ``speculate``, and most tiles (a bit for each in half a word).
SPECULATIVE_WARPS, MAX_RUN = 16, 16

#: Minimum warps of a block that visits one tile after the other (all of them load), and most (each
#: is to have registers enough).
VISIT_WARPS = (8, 16)

#: Edges of a tile, as ``Direction`` in ``vector.cuh``.
EDGES = ('up', 'down', 'left', 'right')


class Team(NamedTuple):
    """The threads of one message, as ``LabelTeam`` in ``tiled.cuh``.

    lanes: of a warp; words: of two labels, in each; registers: of one word.
    """

    lanes: int
    words: int
    registers: int

    @property
    def pixel_registers(self) -> int:
        """Registers of 32 bits of a whole vector."""
        return self.lanes * self.words * self.registers


class Launch(NamedTuple):
    """How the kernels are launched.

    schedule: speculative, rows, cooperative, lock_free or launches; rows, columns: tiles of the
    image; blocks: of the grid; threads, shared_bytes: of a block; run: neighbouring tiles that a
    block of ``speculate`` has.
    """

    schedule: str
    rows: int
    columns: int
    blocks: int
    threads: int
    shared_bytes: int
    run: int = 0

    @property
    def diagonals(self) -> int:
        """Diagonals of tiles in the image."""
        return self.rows + self.columns - 1


def team(config: ResolvedConfig) -> Team:
    """How a vector is dealt out: at most 8 labels to a lane, unless there are more than 256."""
    lanes = next(lanes for lanes in (1, 2, 4, 8, 16, 32)
                 if 8 * lanes >= config.disparity_range or lanes == 32)
    return Team(lanes, -(-config.disparity_range // (2 * lanes)),
                1 if config.message_type == 'int16' else 2)


def check(config: ResolvedConfig, device: Properties = TYPICAL) -> None:
    """Reject tiles that a block cannot have on chip.

    :raises ConfigError: and names the largest tile that fits.
    """
    schedule = asked_schedule(config)
    if _fits(config, config.tile_size, schedule, device):
        return
    largest = max((size for size in range(1, config.tile_size)
                   if _fits(config, size, schedule, device)), default=0)
    if schedule == 'rows' and largest < 2:
        raise ConfigError(f'{config.program}.schedule', schedule,
                          f'with disparity_range {config.disparity_range} the device has no room '
                          f'for {STAGES} tiles in a block: use auto')
    raise ConfigError(
        'tile_size', config.tile_size,
        f'with disparity_range {config.disparity_range}, message_type {config.message_type} and '
        f'schedule {schedule} the largest that fits on chip is {largest}')


def launch_of(config: ResolvedConfig, width: int, height: int, device: Properties = TYPICAL
              ) -> Launch:
    """The launch for images of this size.

    :raises ConfigError: the schedule is to be speculative, and there is no room for all tiles.
    """
    size, asked = config.tile_size, asked_schedule(config)
    rows, columns = -(-height // size), -(-width // size)
    if (asked in ('auto', 'speculative') and config.inner_iterations == 1
            and config.option('synchronisation', 'needed') == 'needed'):
        found = _all_on_chip(config, rows, columns, device)
        if found is not None:
            return found
        if asked == 'speculative':
            raise ConfigError(
                f'{config.program}.schedule', asked,
                f'the device has no room on chip for all {rows} x {columns} tiles: use auto')
    schedule = _chosen_schedule(config, device)
    blocks = rows if schedule == 'rows' else min(rows, columns)
    if schedule != 'launches':          # all blocks wait for each other: each has a multiprocessor
        blocks = min(blocks, device.multiprocessors)
    return Launch(schedule, rows, columns, blocks, 32 * _warps(config, schedule),
                  _shared_bytes(config, size, schedule))


def _all_on_chip(config: ResolvedConfig, rows: int, columns: int, device: Properties
                 ) -> Launch | None:
    """A run of tiles for each multiprocessor, as short as can be; None = they do not fit."""
    if rows > device.multiprocessors:
        return None
    run = -(-columns // (device.multiprocessors // rows))
    shared = _shared_bytes(config, config.tile_size, 'speculative', run)
    if run > MAX_RUN or shared > device.shared_memory:
        return None
    return Launch('speculative', rows, columns, rows * -(-columns // run), 32 * SPECULATIVE_WARPS,
                  shared, run=run)


def asked_schedule(config: ResolvedConfig) -> str:
    """The schedule that a program names; the default program has auto."""
    return str(config.option('schedule', 'auto'))


def _chosen_schedule(config: ResolvedConfig, device: Properties) -> str:
    """``asked_schedule``; in place of auto the faster of those that any image fits."""
    if (asked := asked_schedule(config)) != 'auto':
        return asked
    if (config.option('synchronisation', 'needed') == 'needed'
            and _fits(config, config.tile_size, 'rows', device)):
        return 'rows'
    return 'cooperative'


def arrays(config: ResolvedConfig, width: int, height: int, device: Properties = TYPICAL
           ) -> list[tuple[str, tuple[int, ...], str]]:
    """What is kept between tiles, and what waiting for each other takes: name, shape, type.

    ``tile_state``: frames so far (rows: outer iterations), the counter of the cooperative barrier,
    and for each block when it arrived at the last lock-free barrier and when it was released.
    Speculative: orders so far, three counts of what is done, two of notices for each block.
    """
    found = launch_of(config, width, height, device)
    edge = (found.rows, found.columns, config.tile_size, team(config).pixel_registers)
    return [('table', (256,), 'uint16'),
            *((f'edges_{name}', edge, 'uint32') for name in EDGES),
            ('tile_state', (4 + 2 * found.blocks,), 'uint32')]


def reach(config: ResolvedConfig) -> int:
    """Labels that a step may lead over before it costs the truncation."""
    slope, truncation = quantisation.message_smoothness(config)
    return min(config.disparity_range - 1, max(0, -int(-truncation // slope) - 1))


def pad(config: ResolvedConfig) -> float:
    """Cost of a label beyond the range, in units of the messages: no sum of a real one is more."""
    truncation = quantisation.message_smoothness(config)[1]
    if config.message_type == 'int16':
        return quantisation.round_half_up(quantisation.largest_cost(config)) + 3 * truncation
    return quantisation.largest_cost(config) + 4 * truncation


def _warps(config: ResolvedConfig, schedule: str) -> int:
    """Warps of a block."""
    if schedule == 'rows':
        return ROW_WARPS
    needed = -(-config.tile_size // (32 // team(config).lanes))
    least, most = VISIT_WARPS
    return min(max(least, 2 * needed), most)


def _shared_bytes(config: ResolvedConfig, size: int, schedule: str, run: int = 1) -> int:
    """A row of zeros and the tiles of a block; speculative: borders, and what it sent."""
    found = team(config)
    pixel = found.lanes * found.words
    stages = STAGES if schedule == 'rows' else 1
    row = (run * size | 1) * pixel
    words = -(-row // 4) * 4 + stages * PLANES * size * row
    if schedule == 'speculative':
        words += 2 * row + (run + 1) * size * pixel + 4
    return 4 * words * found.registers


def _fits(config: ResolvedConfig, size: int, schedule: str, device: Properties) -> bool:
    return _shared_bytes(config, size, schedule) <= device.shared_memory
