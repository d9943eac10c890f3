"""Stage ``beliefs``: labels from the messages of level 0."""

from __future__ import annotations

import ctypes

from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines.cuda import compiler, layout, tiling
from stereo_bp_ros.engines.cuda.arena import Arena
from stereo_bp_ros.engines.cuda.device import Properties

#: Threads of a block; as the kernel is compiled for.
THREADS = 128


class Matches(ctypes.Structure):
    """Where labels go; as ``Matches`` in ``beliefs.cuh``."""

    _fields_ = (('label', ctypes.c_void_p), ('fraction', ctypes.c_void_p),
                ('best', ctypes.c_void_p), ('second', ctypes.c_void_p),
                ('right', ctypes.c_void_p), ('min_disparity', ctypes.c_int),
                ('first_x', ctypes.c_int), ('end_x', ctypes.c_int))


def matches(config: MatcherConfig, width: int, arena: Arena, with_fraction: bool,
            with_costs: bool, with_right: bool) -> Matches:
    """The arrays that the last pass fills, and only those that are wanted."""
    device = arena.device
    first = config.min_disparity
    return Matches(
        device['label'], device['fraction'] if with_fraction else None,
        device['best'] if with_costs else None,
        device['second'] if with_costs else None, device['right_keys'] if with_right else None,
        first, max(1, first + config.disparity_range - 1), min(width - 1, width + first))


def kernel_name(config: MatcherConfig) -> str:
    """The kernel in ``beliefs.cu`` that selects labels from messages in device memory."""
    return (f'select_labels<{layout.stored_type(config)}, {config.disparity_range}, '
            f'{layout.cost_type(config, 0)}>')


class Beliefs:
    """The stage for one configuration and size."""

    def __init__(self, found: Properties, config: MatcherConfig, width: int, height: int,
                 arena: Arena, passes: list[tiling.Pass]) -> None:
        self._found = found
        self._config = config
        self._arena = arena
        self._level = layout.levels(config, width, height)[0]
        self._is_fused = bool(passes) and passes[-1].finish == tiling.LABELS

    def load(self) -> None:
        """Compile or load what ``enqueue`` launches."""
        if not self._is_fused:
            compiler.kernel(self._found, 'beliefs.cu', kernel_name(self._config))
        compiler.kernel(self._found, 'beliefs.cu', 'take_right_labels')

    def enqueue(self, stream: int, out: Matches) -> None:
        """Fill ``out`` unless the last pass over the messages has done so already."""
        device, (width, height, half) = self._arena.device, self._level
        if not self._is_fused:
            has_messages = self._config.iterations > 0
            smoothness = layout.smoothness(self._config)
            nodes = THREADS // layout.shape(self._config).lanes
            compiler.kernel(self._found, 'beliefs.cu', kernel_name(self._config)).launch(
                stream, (-(-((width + 1) // 2) // nodes), height - 2, 2), (THREADS, 1, 1), 0,
                ctypes.c_void_p(device['cost_0']),
                *(ctypes.c_void_p(device[f'messages_0_{colour}'] if has_messages else None)
                  for colour in range(2)),
                ctypes.c_void_p(device['nothing']), ctypes.c_int(width), ctypes.c_int(height),
                ctypes.c_int(half), *(ctypes.c_int(int(value)) for value in smoothness),
                *(ctypes.c_float(value) for value in smoothness), out)
        if out.right:
            take_right_labels(self._found, stream, self._arena, width * height)


def take_right_labels(found: Properties, stream: int, arena: Arena, count: int) -> None:
    """Turn what was offered to the ``count`` pixels of the other image into their labels."""
    compiler.kernel(found, 'beliefs.cu', 'take_right_labels').launch(
        stream, (-(-count // 256), 1, 1), (256, 1, 1), 0,
        ctypes.c_void_p(arena.device['right_keys']),
        ctypes.c_void_p(arena.device['right_label']), ctypes.c_int(count))
