"""Stage ``beliefs``: labels from the messages of level 0."""

from __future__ import annotations

import ctypes

from stereo_bp_ros import geometry
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines.cuda import compiler, layout, tiling
from stereo_bp_ros.engines.cuda.arena import Arena
from stereo_bp_ros.engines.cuda.device import Properties
from stereo_bp_ros.partitions import Partition, Partitioning

#: Threads of a block; as the kernel is compiled for.
THREADS = 128


class Matches(ctypes.Structure):
    """Where labels go; as ``Matches`` in ``beliefs.cuh``."""

    _fields_ = (('label', ctypes.c_void_p), ('fraction', ctypes.c_void_p),
                ('best', ctypes.c_void_p), ('second', ctypes.c_void_p),
                ('right', ctypes.c_void_p), ('min_disparity', ctypes.c_int),
                ('first_x', ctypes.c_int), ('end_x', ctypes.c_int),
                ('image_width', ctypes.c_int), ('kept_left', ctypes.c_int),
                ('kept_top', ctypes.c_int), ('kept_width', ctypes.c_int),
                ('kept_height', ctypes.c_int))


def matches(config: MatcherConfig, width: int, height: int, arena: Arena, part: Partition,
            with_fraction: bool, with_costs: bool, with_right: bool) -> Matches:
    """The arrays that are filled with labels, and only those that are wanted.

    :param width, height: of the image, pixels; ``part``: what is matched of it.
    """
    first_pixel = part.y * width + part.x
    window = geometry.matched_window(config, width, height)

    def array(name: str, itemsize: int, is_wanted: bool = True) -> int | None:
        return arena.device[name] + itemsize * first_pixel if is_wanted else None

    left, top, right, bottom = part.kept
    return Matches(
        array('label', 2), array('fraction', 1, with_fraction), array('best', 4, with_costs),
        array('second', 4, with_costs), array('right_keys', 8, with_right),
        config.min_disparity, window.x_offset - part.x,
        window.x_offset + window.width - part.x, width, left - part.x, top - part.y,
        right - left, bottom - top)


def kernel_name(config: MatcherConfig) -> str:
    """The kernel in ``beliefs.cu`` that selects labels from messages in device memory."""
    return (f'select_labels<{layout.stored_type(config)}, {config.disparity_range}, '
            f'{layout.cost_type(config, 0)}>')


class Beliefs:
    """The stage for one configuration, and images that are cut into ``parts``."""

    def __init__(self, found: Properties, config: MatcherConfig, arena: Arena,
                 passes: list[tiling.Pass], parts: Partitioning) -> None:
        self._found = found
        self._config = config
        self._arena = arena
        self._level = layout.levels(config, parts.width, parts.height)[0]
        self._is_fused = bool(passes) and passes[-1].finish == tiling.LABELS

    def load(self) -> None:
        """Compile or load what ``enqueue`` launches."""
        if not self._is_fused:
            compiler.kernel(self._found, 'beliefs.cu', kernel_name(self._config))
        load_right_labels(self._found)

    def enqueue(self, stream: int, out: Matches) -> None:
        """Fill ``out``, of one partition, unless the last pass over the messages has done so."""
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
                ctypes.c_void_p(device['nothing']), ctypes.c_uint32(0), ctypes.c_int(width),
                ctypes.c_int(height),
                ctypes.c_int(half), *(ctypes.c_int(int(value)) for value in smoothness),
                *(ctypes.c_float(value) for value in smoothness), out)


def load_right_labels(found: Properties) -> None:
    """Compile or load what ``take_right_labels`` launches."""
    compiler.kernel(found, 'beliefs.cu', 'take_right_labels')


def take_right_labels(found: Properties, stream: int, arena: Arena) -> None:
    """Turn what was offered to the pixels of the other image into their labels.

    When every partition has offered its own.
    """
    count = arena.nbytes['right_keys'] // 8
    compiler.kernel(found, 'beliefs.cu', 'take_right_labels').launch(
        stream, (-(-count // 256), 1, 1), (256, 1, 1), 0,
        ctypes.c_void_p(arena.device['right_keys']),
        ctypes.c_void_p(arena.device['right_label']), ctypes.c_int(count))
