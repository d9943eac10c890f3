"""Stage ``messages`` of tiled belief propagation: labels from the matched images."""

from __future__ import annotations

import ctypes

from stereo_bp_ros import partitions
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines.cuda import (
    beliefs,
    compiler,
    cost,
    layout,
    preprocess,
    refine,
    tiled_plan,
)
from stereo_bp_ros.engines.cuda.arena import Arena
from stereo_bp_ros.engines.cuda.beliefs import Matches
from stereo_bp_ros.engines.cuda.device import Properties
from stereo_bp_ros.engines.cuda.matching import Matching

#: The C++ types of pixels.
PIXELS = {'uint8': 'unsigned char', 'float': 'float'}

#: The C++ names of barriers.
BARRIERS = {'launches': 'NO_BARRIER', 'cooperative': 'COUNTING', 'lock_free': 'LOCK_FREE'}

#: Schedules whose blocks wait for each other by counting on all of them being resident, which a
#: cooperative launch ensures. The lock-free barrier is older than that and does without.
COOPERATIVE = ('speculative', 'rows', 'cooperative')


class TiledPass(ctypes.Structure):
    """``TiledPass`` in ``tiled.cuh``."""

    _fields_ = (
        ('cost', cost.CostPass), ('edges', ctypes.c_void_p * 4), ('state', ctypes.c_void_p),
        ('out', Matches), ('rows', ctypes.c_int),
        ('columns', ctypes.c_int), ('outer', ctypes.c_int), ('inner', ctypes.c_int),
        ('slope', ctypes.c_int), ('truncation', ctypes.c_int), ('pad', ctypes.c_int),
        ('float_slope', ctypes.c_float), ('float_truncation', ctypes.c_float),
        ('float_pad', ctypes.c_float), ('cluster_bits', ctypes.c_int),
        ('mail_words', ctypes.c_int), ('stamp', ctypes.c_void_p))


def kernel(config: MatcherConfig, found: tiled_plan.Cut, image: str,
           has_whole_grey: bool) -> tuple[str, str]:
    """The file and the kernel for matched images of this type, 'uint8' or 'float'."""
    is_fast = str(config.message_computation == 'fast').lower()
    types = (f'{layout.MESSAGE_TYPES[config.message_type]}, {PIXELS[image]}, '
             f'{config.disparity_range}, {config.tile_size}, {tiled_plan.reach(config)}, '
             f'{cost.way(config, image, has_whole_grey)}, {is_fast}')
    if found.schedule == 'speculative':
        return 'tiled_speculative.cu', f'speculate<{types}, {found.run}, {found.threads}>'
    if found.schedule == 'rows':
        suffix = '_in_clusters' if found.mail_words else ''
        return 'tiled.cu', f'follow_rows{suffix}<{types}, {found.threads}>'
    waits = str(config.tile_synchronisation == 'all').lower()
    return 'tiled.cu', (f'visit_diagonals<{types}, {waits}, {BARRIERS[found.schedule]}, '
                        f'{found.threads}>')


class Tiled(Matching):
    """See ``Matching``."""

    def __init__(self, found: Properties, config: MatcherConfig, width: int, height: int,
                 arena: Arena) -> None:
        super().__init__(found, config, width, height, arena)
        self._cut = tiled_plan.cut(config, width, height, found)

    def load(self, matched: str, has_whole_grey: bool) -> None:
        compiler.kernel(self._found, *kernel(self._config, self._cut, preprocess.PIXELS[matched],
                                             has_whole_grey))
        beliefs.load_right_labels(self._found)

    def initialise(self, stream: int) -> None:
        if self._config.message_type == 'int16':
            cost.send_table(self._config, self._arena.device['table'], stream)

    def enqueue(self, stream: int, matched: str, has_whole_grey: bool,
                wanted: refine.Steps, frame: refine.Frame) -> bool:
        image = preprocess.PIXELS[matched]
        device, found = self._arena.device, self._cut
        arguments = self._arguments(wanted)
        arguments.cost.left, arguments.cost.right = (device[f'left_{matched}'],
                                                     device[f'right_{matched}'])
        loaded = compiler.kernel(self._found, *kernel(self._config, found, image, has_whole_grey))
        grid, block = (found.blocks, 1, 1), (found.threads, 1, 1)
        steps = 2 * self._config.outer_iterations * found.diagonals
        if found.schedule in ('speculative', 'rows'):
            loaded.launch(stream, grid, block, found.shared_bytes, arguments, cooperative=True)
        elif found.schedule == 'launches':
            for step in range(steps):
                number = step % found.diagonals
                tiles = min(number + 1, found.diagonals - number, found.rows, found.columns)
                loaded.launch(stream, (tiles, 1, 1), block, found.shared_bytes, arguments,
                              ctypes.c_int(step), ctypes.c_int(step + 1))
        else:
            loaded.launch(stream, grid, block, found.shared_bytes, arguments, ctypes.c_int(0),
                          ctypes.c_int(steps), cooperative=found.schedule in COOPERATIVE)
        if wanted.right:
            beliefs.take_right_labels(self._found, stream, self._arena)
        return False

    def _arguments(self, wanted: refine.Steps) -> TiledPass:
        config, device = self._config, self._arena.device
        width, height = self._width, self._height
        slope, truncation = config.message_smoothness()
        slope = min(slope, truncation)
        pad = tiled_plan.pad(config)
        image = partitions.whole(width, height).partitions[0]
        out = beliefs.matches(config, width, height, self._arena, image, wanted.fraction,
                              wanted.costs, wanted.right)
        costs = cost.parameters(config, device['table'])
        costs.levels[0] = cost.CostLevel(None, width, height, 0)
        return TiledPass(
            costs, (ctypes.c_void_p * 4)(*(device[f'edges_{name}'] for name in tiled_plan.EDGES)),
            device['tile_state'], out, self._cut.rows, self._cut.columns,
            config.outer_iterations, config.inner_iterations, int(slope), int(truncation),
            int(pad), slope, truncation, pad,
            self._cut.cluster_bits, self._cut.mail_words, self._arena.stamp('messages'))
