"""The plan of a CPU engine. No Numba here."""

from __future__ import annotations

import dataclasses

from stereo_bp_ros.engines import plan


@dataclasses.dataclass(frozen=True)
class Plan(plan.Plan):
    """See ``plan.Plan``; ``threads``: of a frame."""

    threads: int
