"""The CPU as a back end. Numba is imported when kernels are."""

from __future__ import annotations

import importlib.metadata
import operator
import os
import sys
from typing import Any

from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.engines import host_memory, programs
from stereo_bp_ros.engines.backend import Backend, Engine, Resolved
from stereo_bp_ros.engines.cpu import memory
from stereo_bp_ros.engines.cpu.plan import Plan, lay_out, resolve
from stereo_bp_ros.engines.partitions import Partitioning
from stereo_bp_ros.engines.plan import Passes
from stereo_bp_ros.errors import BackendUnavailable, shown

#: The largest images, pixels a core, that ``road`` matches in about 90 ms: 460,000 took 174 ms on
#: two.
MAX_SHARE = 110_000

#: With older ones, parallel kernels were seen to crash.
MIN_NUMBA = (0, 57)


class CpuBackend(Backend[Plan]):
    """See ``Backend``.

    :raises BackendUnavailable: there is no Numba, or no settings of it, that kernels work with.
    """

    name = 'cpu'

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        _check_numba()

    def resolve(self, config: MatcherConfig) -> Passes:
        return resolve(config)

    def lay_out(self, config: MatcherConfig, passes: Passes, width: int, height: int,
                parts: Partitioning | None = None) -> Plan:
        return lay_out(config, passes, width, height, parts)

    def free_memory(self) -> int:
        # Not imported here: a plan needs no Numba. Another thread may be importing it right now.
        runtime = sys.modules.get('stereo_bp_ros.engines.cpu.simd.runtime')
        origins = getattr(runtime, 'origins', dict)
        return host_memory.available(before_compiler=not any(origins().values()))

    def shares_memory_with(self, other: Backend[Any]) -> bool:
        return isinstance(other, CpuBackend)

    def _create(self, plan: Plan) -> Engine:
        from stereo_bp_ros.engines.cpu.engine import CpuEngine
        return CpuEngine(plan)

    def warm_up(self, resolved: Resolved[Plan], width: int, height: int) -> None:
        from stereo_bp_ros.engines.cpu import engine
        engine.warm_up(resolved.passes[-1], resolved.config.downscale)

    def kernels_of(self, resolved: Resolved[Plan], width: int = 0, height: int = 0
                   ) -> tuple[object, ...]:
        config = resolved.passes[-1]
        matching = programs.matching('cpu', config)
        reaches = resolved.config.downscale > 1, config.rectify
        return ('cpu', matching, *reaches, *(operator.attrgetter(name)(config)
                                             for name in matching.kernel_settings))

    def is_fast_enough(self, resolved: Resolved[Plan], width: int, height: int) -> bool:
        share = width * height / memory.threads(resolved.config)
        return 0 < share <= MAX_SHARE

    def describe(self, config: MatcherConfig) -> dict[str, str]:
        from stereo_bp_ros.engines.cpu.simd import runtime
        return runtime.device_info(config.num_threads)

    def origins(self) -> dict[str, int]:
        from stereo_bp_ros.engines.cpu.simd import runtime
        return runtime.origins()


def _check_numba() -> None:
    """Reject a Numba, or settings of it, that the kernels do not work with.

    Only its version is read, because importing it takes a third of a second.
    """
    oldest = '.'.join(map(str, MIN_NUMBA))
    remedy = f"pip install 'numba>={oldest}', or the extra 'cpu' of this package"
    try:
        version = importlib.metadata.version('numba')
    except importlib.metadata.PackageNotFoundError:
        raise BackendUnavailable('the cpu back end needs Numba, which is not installed',
                                 remedy) from None
    if tuple(int(part) for part in version.split('.')[:2]) < MIN_NUMBA:
        raise BackendUnavailable(
            f'the cpu back end needs Numba {oldest} or later, not {version}', remedy)
    # Numba reads it while it is imported, and answers what is none with a traceback.
    threads = os.environ.get('NUMBA_NUM_THREADS', '1')
    if not (threads.isdecimal() and 0 < len(threads) < 9 and int(threads) > 0):
        raise BackendUnavailable(
            f'NUMBA_NUM_THREADS is {shown(threads)}, but must be a whole number of at least 1',
            'correct or unset this environment variable')
    # Vectors and threads are there in compiled code only.
    disabled = os.environ.get('NUMBA_DISABLE_JIT', '0')
    if disabled.strip().isdecimal() and int(disabled):
        raise BackendUnavailable(
            f'NUMBA_DISABLE_JIT is {shown(disabled)}, and the kernels of the cpu back end only '
            'run compiled', 'unset this environment variable')
