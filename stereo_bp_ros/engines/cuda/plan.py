"""The plan of a CUDA engine. No CuPy here."""

from __future__ import annotations

import dataclasses

from stereo_bp_ros.engines import plan
from stereo_bp_ros.engines.cuda.hierarchical.launch import Launch
from stereo_bp_ros.engines.cuda.runtime.device import Properties
from stereo_bp_ros.geometry import MemoryPlan


@dataclasses.dataclass(frozen=True)
class Plan(plan.Plan):
    """See ``plan.Plan``.

    pinned: the arrays on the host, through which everything goes to and from the device.
    settings: of the way to match, that the tuner has found.
    launches: over the messages, coarsest level first; () without hierarchical messages.
    """

    pinned: MemoryPlan
    device: Properties
    settings: tuple[tuple[str, int], ...]
    launches: tuple[Launch, ...]
