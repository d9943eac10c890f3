"""Stage ``cost``: the data cost of level 0 and its pyramid."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines.cuda import compiler, plan
from stereo_bp_ros.engines.cuda.arena import Arena
from stereo_bp_ros.engines.cuda.device import Properties

#: Columns of a block, and blocks' parts of the chunks of a vector.
BLOCK = (64, 4, 1)


class _CostPass(ctypes.Structure):
    _fields_ = (('left', ctypes.c_void_p), ('right', ctypes.c_void_p),
                ('table', ctypes.c_void_p), ('cost', ctypes.c_void_p),
                ('parents', ctypes.c_void_p), ('width', ctypes.c_int),
                ('height', ctypes.c_int), ('half', ctypes.c_int), ('parent_half', ctypes.c_int),
                ('min_disparity', ctypes.c_int), ('factor', ctypes.c_double),
                ('truncation', ctypes.c_double), ('float_weight', ctypes.c_float),
                ('float_truncation', ctypes.c_float), ('stamp', ctypes.c_void_p))


def table(config: MatcherConfig) -> np.ndarray[Any, Any]:
    """Data cost of every difference of two grey values 0..255: uint16 or float32, 256."""
    kept = np.minimum(np.arange(256, dtype=np.float64), config.data_truncation)
    factor = config.data_weight * config.message_scale()
    if config.message_type == 'int16':
        return np.floor(factor * kept + 0.5).astype(np.uint16)
    return np.float32(factor) * kept.astype(np.float32)


def kernels(config: MatcherConfig, image: str) -> list[tuple[str, str]]:
    """File and name of the kernels of this stage; ``image`` is 'uint8' or 'float'."""
    labels = config.disparity_range
    names = [('cost.cu', f'data_cost<{plan.cost_type(config, 0)}, {image}, {labels}>')]
    if config.levels > 2:
        names.append(('cost.cu', f'parent_cost<{plan.cost_type(config, 1)}, {labels}>'))
    return names


class Cost:
    """The stage for one configuration and size."""

    def __init__(self, found: Properties, config: MatcherConfig, width: int, height: int,
                 arena: Arena) -> None:
        device = arena.device
        self._found = found
        self._config = config
        self._levels = plan.levels(config, width, height)
        self._costs = [device[f'cost_{k}'] for k in range(config.levels)]
        self._chunks = plan.shape(config).chunks
        base = self._levels[0]
        factor = config.data_weight * config.message_scale()
        self._passes = {}
        for image, kind in (('uint8', 'grey'), ('float', 'matched')):
            self._passes[image] = _CostPass(
                device[f'left_{kind}'], device[f'right_{kind}'], device['table'],
                self._costs[0], self._costs[1] if config.levels > 1 else None,
                base.width, base.height, base.half,
                self._levels[1].half if config.levels > 1 else 0, config.min_disparity,
                factor, config.data_truncation, factor, config.data_truncation,
                arena.host_address['stamps'])

    def load(self, image: str) -> None:
        """Compile or load what ``enqueue`` of this type of image launches."""
        for file, name in kernels(self._config, image):
            compiler.kernel(self._found, file, name)

    def enqueue(self, stream: int, image: str) -> None:
        """Fill the costs of every level from the matched images, 'uint8' or 'float'."""
        first, *rest = (compiler.kernel(self._found, file, name)
                        for file, name in kernels(self._config, image))
        width, height = self._levels[0][:2]
        first.launch(stream, _grid(width, height), self._block(), 0, self._passes[image])
        for k in range(2, len(self._levels)):
            child, parent = self._levels[k - 1], self._levels[k]
            rest[0].launch(
                stream, _grid(child.width, child.height), self._block(), 0,
                ctypes.c_void_p(self._costs[k - 1]), ctypes.c_int(child.width),
                ctypes.c_int(child.height), ctypes.c_int(child.half),
                ctypes.c_void_p(self._costs[k]), ctypes.c_int(parent.half))

    def _block(self) -> tuple[int, int, int]:
        return BLOCK[0], min(BLOCK[1], self._chunks), 1


def _grid(width: int, height: int) -> tuple[int, int, int]:
    """One thread column for each parent in a row of parents."""
    return -(-((width + 1) // 2) // BLOCK[0]), (height + 1) // 2, 1
