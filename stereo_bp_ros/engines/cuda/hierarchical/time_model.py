"""How long a launch over the messages takes: tilings are chosen by it. No CuPy here.

All coefficients were fitted to an H200 (``docs/history.md``). Times are in us. Of
other architectures they are scaled by the clock, the multiprocessors, the bandwidth of the memory
and the L2 cache (``Properties.speed``), which no one has measured: ``stereo_bp tune`` does.
Within a fifth of the measured ones for 16 to 128 labels, from 32 nodes to whole levels; for
messages in bytes within 9 % (rms) of 380 launches of 16 to 32 labels; for floats within 12 % of
12,000. Only the order of the candidates matters.
"""

from __future__ import annotations

from stereo_bp_ros.engines.cuda.hierarchical import time_floats, time_int16
from stereo_bp_ros.engines.cuda.hierarchical.formats import Level, MessageFormat
from stereo_bp_ros.engines.cuda.hierarchical.launch import (
    LAST_COLOUR,
    OWN_LABELS,
    Launch,
    Tiling,
    Work,
)
from stereo_bp_ros.engines.cuda.runtime.device import Properties


def predicted(message: MessageFormat, labels: int, level: Level, launch: Launch,
              device: Properties) -> float:
    """Microseconds of one launch.

    :param labels: the disparity range.
    """
    if launch.finish == OWN_LABELS:
        alone = launch._replace(finish=LAST_COLOUR)
        return (predicted(message, labels, level, alone, device)
                + time_floats.labelling(message, labels, level, device.speed))
    if message.is_int16:
        return time_int16.predicted(Work(message, labels, level, launch, device))
    return time_floats.predicted(Work(message, 8 * message.chunks, level, launch, device))


def reading(message: MessageFormat, level: Level, tiling: Tiling, device: Properties) -> float:
    """Microseconds that a launch takes longer from its own level's messages than its parents'.

    These are a quarter as many. A single iteration's time is that from its own level's.
    """
    if tiling.iterations == 1:
        return 0.0
    if message.is_int16:
        return time_int16.reading(message, level, tiling, device.speed)
    return time_floats.loading(message, level, tiling, tiling.iterations - 1, device.speed)
