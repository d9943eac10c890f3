"""Stage ``messages`` of tiled belief propagation: labels from the matched images."""

from __future__ import annotations

import ctypes
from typing import Any

from stereo_bp_ros.config import quantisation
from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines import partitions
from stereo_bp_ros.engines.cuda import memory
from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.hierarchical import cost, labels
from stereo_bp_ros.engines.cuda.matching import CudaMatching
from stereo_bp_ros.engines.cuda.plan import Plan
from stereo_bp_ros.engines.cuda.runtime import compiler
from stereo_bp_ros.engines.cuda.runtime.structures import declared_in
from stereo_bp_ros.engines.cuda.stages import preprocess, refine, right_labels
from stereo_bp_ros.engines.cuda.tiled import launch as tiled_launch
from stereo_bp_ros.engines.geometry import Wanted

#: The C++ types of messages as they are computed, and of pixels.
MESSAGES = {'int16': 'Int16', 'float32': 'Float32'}
PIXELS = {'uint8': 'unsigned char', 'float': 'float'}

#: The C++ names of barriers.
BARRIERS = {'launches': 'NO_BARRIER', 'cooperative': 'COUNTING', 'lock_free': 'LOCK_FREE'}

#: Schedules whose blocks wait for each other by counting on all of them being resident, which a
#: cooperative launch ensures. The lock-free barrier is older than that and does without.
COOPERATIVE = ('speculative', 'rows', 'cooperative')


@declared_in('tiled/tiled.cuh')
class TiledLaunch(ctypes.Structure):
    """``TiledLaunch`` in ``tiled.cuh``."""


def kernel(config: ResolvedConfig, launch: tiled_launch.Launch, image: str,
           has_whole_grey: bool) -> tuple[str, str]:
    """The file and the kernel for matched images of this type, 'uint8' or 'float'."""
    is_fast = str(config.option('computation', 'plain') == 'fast').lower()
    types = (f'{MESSAGES[config.message_type]}, {PIXELS[image]}, '
             f'{config.disparity_range}, {config.tile_size}, {tiled_launch.reach(config)}, '
             f'{cost.way(config, image, has_whole_grey)}, {is_fast}')
    if launch.schedule == 'speculative':
        return 'tiled/speculative.cu', f'speculate<{types}, {launch.run}, {launch.threads}>'
    if launch.schedule == 'rows':
        return 'tiled/tiled.cu', f'follow_rows<{types}, {launch.threads}>'
    waits = str(config.option('synchronisation', 'needed') == 'all').lower()
    return 'tiled/tiled.cu', (f'visit_diagonals<{types}, {waits}, {BARRIERS[launch.schedule]}, '
                        f'{launch.threads}>')


class Tiled(CudaMatching):
    """See ``CudaMatching``."""

    @classmethod
    def check(cls, config: ResolvedConfig, device: Any = None) -> None:
        tiled_launch.check(config, device)

    @classmethod
    def arrays(cls, plan: Plan) -> Wanted:
        return [*tiled_launch.arrays(plan.config, plan.width, plan.height, plan.device),
                *memory.matches(plan.config, (plan.height, plan.width))]

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._launch = tiled_launch.launch_of(self._config, self._width, self._height,
                                              self._device)

    def load(self, matched: str, has_whole_grey: bool) -> None:
        compiler.kernel(self._device, *kernel(self._config, self._launch,
                                              preprocess.PIXELS[matched], has_whole_grey))
        right_labels.load(self._device, 'uint64')

    def initialise(self, stream: int) -> None:
        if self._config.message_type == 'int16':
            cost.send_table(self._config, self._arena.device['table'], stream)

    def enqueue(self, stream: int, matched: str, has_whole_grey: bool,
                wanted: refine.Steps, frame: refine.Frame) -> bool:
        image = preprocess.PIXELS[matched]
        device, launch = self._arena.device, self._launch
        arguments = self._arguments(wanted)
        arguments.cost.left, arguments.cost.right = (device[f'left_{matched}'],
                                                     device[f'right_{matched}'])
        loaded = compiler.kernel(self._device,
                                 *kernel(self._config, launch, image, has_whole_grey))
        grid, block = (launch.blocks, 1, 1), (launch.threads, 1, 1)
        steps = 2 * self._config.outer_iterations * launch.diagonals
        if launch.schedule in ('speculative', 'rows'):
            loaded.launch(stream, grid, block, launch.shared_bytes, arguments, cooperative=True)
        elif launch.schedule == 'launches':
            for step in range(steps):
                number = step % launch.diagonals
                tiles = min(number + 1, launch.diagonals - number, launch.rows, launch.columns)
                loaded.launch(stream, (tiles, 1, 1), block, launch.shared_bytes, arguments,
                              ctypes.c_int(step), ctypes.c_int(step + 1))
        else:
            loaded.launch(stream, grid, block, launch.shared_bytes, arguments, ctypes.c_int(0),
                          ctypes.c_int(steps), cooperative=launch.schedule in COOPERATIVE)
        if wanted.right:
            right_labels.enqueue(self._device, stream, self._arena, 'uint64')
        return False

    def _arguments(self, wanted: refine.Steps) -> TiledLaunch:
        config, device = self._config, self._arena.device
        width, height = self._width, self._height
        slope, truncation = quantisation.message_smoothness(config)
        slope = min(slope, truncation)
        pad = tiled_launch.pad(config)
        image = partitions.whole(width, height).partitions[0]
        out = labels.matches(config, width, height, self._arena, image, wanted.fraction,
                             wanted.costs, wanted.right)
        costs = cost.parameters(config, device['table'])
        costs.levels[0] = cost.CostLevel(None, width, height, 0)
        return TiledLaunch(
            costs,
            (ctypes.c_void_p * 4)(*(device[f'edges_{name}'] for name in tiled_launch.EDGES)),
            device['tile_state'], out, self._launch.rows, self._launch.columns,
            config.outer_iterations, config.inner_iterations, int(slope), int(truncation),
            int(pad), slope, truncation, pad,
            self._arena.stamp('messages'))
