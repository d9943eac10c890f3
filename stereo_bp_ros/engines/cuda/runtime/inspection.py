"""What the kernels of a frame take, for people who tune one."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator

from stereo_bp_ros.engines.cuda.runtime import compiler


@dataclasses.dataclass(frozen=True)
class KernelUse:
    """One kernel as a frame launches it.

    launches:     in the frame, with this grid and these blocks.
    blocks:       of the grid; ``threads``: of a block.
    registers, local_bytes: of a thread; local memory is what did not fit in registers.
    shared_bytes: of a block, static and dynamic.
    resident:     blocks that run at once on one multiprocessor.
    occupancy:    share of a multiprocessor's threads that these are.
    """

    name: str
    launches: int
    blocks: int
    threads: int
    registers: int
    local_bytes: int
    shared_bytes: int
    resident: int
    occupancy: float


@contextlib.contextmanager
def kernels_used(device_id: int) -> Iterator[list[KernelUse]]:
    """Context whose list holds, once it is left, the kernels launched inside, in order.

    A CUDA graph launches its kernels when it is captured: at the first frame with its outputs.
    """
    used: list[KernelUse] = []
    with compiler.watched() as seen:
        yield used
    if not seen:
        return
    from cupy.cuda import Device, runtime
    most = runtime.getDeviceProperties(device_id)['maxThreadsPerMultiProcessor']
    with Device(device_id):
        for launch in dict.fromkeys(seen):
            threads, resources = math.prod(launch.block), launch.kernel.resources
            resident = launch.kernel.blocks_per_multiprocessor(threads, launch.shared_bytes)
            used.append(KernelUse(
                launch.kernel.name, seen.count(launch), math.prod(launch.grid), threads,
                resources.registers, resources.local_bytes,
                resources.shared_bytes + launch.shared_bytes, resident,
                resident * threads / most))
