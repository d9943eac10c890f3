"""What is known of an engine before it is built."""

from __future__ import annotations

import dataclasses

from stereo_bp_ros.config import ResolvedConfig
from stereo_bp_ros.geometry import MemoryPlan
from stereo_bp_ros.partitions import Partitioning


@dataclasses.dataclass(frozen=True)
class Plan:
    """Everything that an engine is built from; computed once and never changed.

    config: with which images are matched that are
    width, height: pixels large, after reduction;
    parts:  how belief propagation cuts them;
    downscale: by how much images of
    image_width, image_height: pixels are reduced;
    source: width and height of the images as they come, which differ from those where images are
    rectified to another size;
    memory: the arrays that the engine allocates, on the device, or on the host for the CPU.
    """

    config: ResolvedConfig
    width: int
    height: int
    parts: Partitioning
    downscale: int
    image_width: int
    image_height: int
    source: tuple[int, int]
    memory: MemoryPlan
