"""A CUDA device as a back end. Importing this module needs neither CuPy nor a device."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.engines import programs
from stereo_bp_ros.engines.backend import SHARE, Backend, Engine, Resolved, misplaced
from stereo_bp_ros.engines.cuda import pipeline
from stereo_bp_ros.engines.cuda.matching import CudaMatching
from stereo_bp_ros.engines.cuda.plan import Plan, lay_out, resolve
from stereo_bp_ros.engines.cuda.runtime import compiler, device
from stereo_bp_ros.engines.partitions import Partitioning
from stereo_bp_ros.engines.plan import Passes
from stereo_bp_ros.errors import BackendUnavailable, MemoryLimitError
from stereo_bp_ros.images.device_arrays import DeviceArray

#: The largest images, pixels a multiprocessor, that ``road`` matches in about 90 ms on an
#: integrated GPU. A pixel takes 571 bytes and 519 instructions of warps (docs/howto/jetson.md).
#: The slowest multiprocessor, of an Orin Nano, has 7.2 bytes and 2.5 instructions a nanosecond.
MAX_SHARE = 300_000

#: What is known of each device that was asked for: its properties, or why it cannot be used.
_known: dict[int, device.Properties | BackendUnavailable] = {}


def ask(index: int) -> device.Properties:
    """Find out about a device; only a thread that may call CUDA does so.

    :raises BackendUnavailable: it cannot be used.
    """
    problem = device.unavailable(index)
    if problem is not None:
        _known[index] = problem
        raise problem
    _known[index] = properties = device.properties(index)
    return properties


def remember(index: int) -> device.Properties | None:
    """What ``ask`` has found out; None = nobody has asked.

    :raises BackendUnavailable: the device cannot be used, or was lost since.
    """
    if device.is_lost(index):
        device.require(index)       # says so without asking the device
    answer = _known.get(index)
    if isinstance(answer, BackendUnavailable):
        raise answer
    return answer


class CudaBackend(Backend[Plan]):
    """See ``Backend``.

    :param properties: of the device.
    """

    name = 'cuda'

    def __init__(self, properties: device.Properties, reason: str) -> None:
        super().__init__(reason)
        self.device = properties
        self.tools = CudaTools(self)

    def resolve(self, config: MatcherConfig) -> Passes:
        return resolve(config, self.device)

    def lay_out(self, config: MatcherConfig, passes: Passes, width: int, height: int,
                parts: Partitioning | None = None) -> Plan:
        return lay_out(self.device, config, passes, width, height, parts)

    def allowed_at_best(self, config: MatcherConfig, returned: int = 0) -> int:
        return config.memory_limit or int(SHARE * self.device.memory)

    def free_memory(self) -> int:
        return device.available_memory(self.device.index)

    def check_places(self, arrays: Mapping[str, DeviceArray]) -> None:
        own = self.device.index
        for name, array in arrays.items():
            with device.Errors(own):
                owner = device.owner(array.address)
            if owner != own:
                place = ('not in the memory of a CUDA device' if owner is None
                         else f'on CUDA device {owner}')
                raise misplaced(name, place, f'is on device {own}')

    def shares_memory_with(self, other: Backend[Any]) -> bool:
        return isinstance(other, CudaBackend) and other.device.index == self.device.index

    def _create(self, plan: Plan) -> Engine:
        from stereo_bp_ros.engines.cuda.engine import CudaEngine
        return CudaEngine(plan)

    def warm_up(self, resolved: Resolved[Plan], width: int, height: int) -> None:
        side = max(64, 2 * resolved.config.correlation_window_size)
        plan = resolved.plan(width or side, height or side, self.allowed_at_best(resolved.config))
        compiler.compile_ahead(self.device, pipeline.kernels_of(plan))

    def kernels_of(self, resolved: Resolved[Plan], width: int = 0, height: int = 0
                   ) -> tuple[object, ...]:
        config = resolved.config
        # Nearly everything that is not live is a template argument, and the tiles that blocks
        # work on depend on the size.
        known = config.settings()
        return ('cuda', width, height, *(
            value for name, value in config.to_mapping().items() if not known[name].live))

    def is_fast_enough(self, resolved: Resolved[Plan], width: int, height: int) -> bool:
        if (self.device.is_integrated
                and width * height > MAX_SHARE * self.device.multiprocessors):
            return False
        try:
            return not width or resolved.plan(
                width, height, self.allowed_at_best(resolved.config)).parts.count == 1
        except MemoryLimitError:
            return False

    def describe(self, config: MatcherConfig) -> dict[str, str]:
        return device.describe(self.device.index)

    def origins(self) -> dict[str, int]:
        return compiler.origins()


class CudaTools:
    """See ``Tools``."""

    def __init__(self, backend: CudaBackend) -> None:
        self._backend, self._device = backend, backend.device

    def kernels_used(self) -> contextlib.AbstractContextManager[list[Any]]:
        from stereo_bp_ros.engines.cuda.runtime import inspection
        return inspection.kernels_used(self._device.index)

    def local_accesses(self, config: MatcherConfig, width: int, height: int) -> tuple[int, int]:
        resolved = self._backend.resolve(config)[-1]
        matching: type[CudaMatching] = programs.matching('cuda', resolved)
        return matching.local_accesses(resolved, width, height)

    def pin(self, buffer: Any) -> bool:
        from stereo_bp_ros.engines.cuda.runtime import pinned
        return pinned.pin(buffer, self._device.index)

    def empty_pinned(self, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
        from stereo_bp_ros.engines.cuda.runtime import pinned
        return pinned.empty(shape, dtype, self._device.index)
