"""Labels of the right image from the keys that pixels of the left image offer to its pixels."""

from __future__ import annotations

import ctypes

from stereo_bp_ros.engines.cuda.runtime import compiler
from stereo_bp_ros.engines.cuda.runtime.arena import Arena
from stereo_bp_ros.engines.cuda.runtime.device import Properties

#: The C++ type of a key, and its bytes: of belief propagation, and of block matching.
KEYS = {'uint64': ('unsigned long long', 8), 'uint32': ('unsigned int', 4)}

#: Threads of a block.
THREADS = 256


def kernel(key: str) -> tuple[str, str]:
    """File and name of the kernel for keys of a type of ``KEYS``."""
    return 'frame/right_labels.cu', f'take_right_labels<{KEYS[key][0]}>'


def load(device: Properties, key: str) -> None:
    """Compile or load the kernel that ``enqueue`` launches."""
    compiler.kernel(device, *kernel(key))


def enqueue(device: Properties, stream: int, arena: Arena, key: str) -> None:
    """Fill ``right_label`` from ``right_keys``, and reset the keys for the next frame.

    To be called when every partition has offered its keys.
    """
    count = arena.nbytes['right_keys'] // KEYS[key][1]
    compiler.kernel(device, *kernel(key)).launch(
        stream, (-(-count // THREADS), 1, 1), (THREADS, 1, 1), 0,
        ctypes.c_void_p(arena.device['right_keys']),
        ctypes.c_void_p(arena.device['right_label']), ctypes.c_int(count))
