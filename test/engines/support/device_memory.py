"""The memory of a CUDA engine without the engine, for tests of one stage."""

from __future__ import annotations

import cupy
import numpy as np
from cupy.cuda import runtime

from stereo_bp_ros import MatcherConfig
from stereo_bp_ros.engines.cuda import memory
from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.plan import plan_of
from stereo_bp_ros.engines.cuda.runtime import arena, device


class Memory:
    """All arrays of an engine, to be written and read by name; ``context`` is for its stages."""

    def __init__(self, config: MatcherConfig, width: int, height: int) -> None:
        found = device.properties(0)
        self.config, self.width, self.height = config, width, height
        plan = plan_of(config, width, height)
        self.plan = plan.memory
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.arena = arena.Arena(found, plan.memory, plan.pinned, memory.STAMPS, self.stream.ptr)
        self.context = Context(found, config, width, height, self.arena)

    def put(self, name: str, array: np.ndarray) -> None:
        """Write an array on the device."""
        arena.upload(self.arena.device[name], array, self.stream.ptr)

    def get(self, name: str) -> np.ndarray:
        """Read an array on the device, as soon as everything in the stream is done."""
        (spec,) = (spec for spec in self.plan.arrays if spec.name == name)
        array = np.empty(spec.shape, spec.dtype)
        runtime.memcpyAsync(array.ctypes.data, self.arena.device[name], array.nbytes,
                            runtime.memcpyDeviceToHost, self.stream.ptr)
        self.stream.synchronize()
        return array
