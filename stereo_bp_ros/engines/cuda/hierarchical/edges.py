"""Which messages cross an edge of the image: part of the stage ``cost``."""

from __future__ import annotations

import ctypes

from stereo_bp_ros.config import quantisation
from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.hierarchical import formats
from stereo_bp_ros.engines.cuda.runtime import compiler
from stereo_bp_ros.engines.cuda.runtime.structures import declared_in
from stereo_bp_ros.engines.geometry import Wanted
from stereo_bp_ros.engines.partitions import Partition, Partitioning

#: Nodes of a block; as in ``edges.cu``.
WIDTH, HEIGHT = 32, 8

#: Bytes of a pixel.
BYTES = {'uint8': 1, 'float': 4}


@declared_in('hierarchical/edges.cu')
class EdgeLaunch(ctypes.Structure):
    """``EdgeLaunch`` in ``edges.cu``."""


def arrays(config: ResolvedConfig, parts: Partitioning) -> Wanted:
    """Of one partition, for every level."""
    if not config.discontinuity_edge_threshold:
        return []
    return [array for k, level in enumerate(formats.levels(config, parts.width, parts.height))
            for array in ((f'image_edges_{k}', (level.height, level.width), 'uint8'),
                          (f'grey_sums_{k}', (level.height, level.width), 'int32'))]


def kernel(values: str) -> tuple[str, str]:
    """File and name of the kernel; ``values``: 'uint8', 'float', or 'int' of coarser levels."""
    return 'hierarchical/edges.cu', f'find_edges<{values}>'


class Edges:
    """``image_edges_k`` of every level, for one configuration and size.

    :param parts: how the image is cut.
    """

    def __init__(self, context: Context, parts: Partitioning) -> None:
        config, found = context.config, context.arena.device
        self._device, self._image_width = context.device, context.width
        levels = formats.levels(config, parts.width, parts.height)
        self._launches = []
        for k, level in enumerate(levels):
            finer = levels[max(k - 1, 0)]
            self._launches.append(EdgeLaunch(
                found[f'grey_sums_{k - 1}'] if k else None, finer.width, finer.height,
                finer.width if k else context.width, found[f'grey_sums_{k}'],
                found[f'image_edges_{k}'], level.width, level.height,
                quantisation.edge_threshold(config, k)))

    def load(self, image: str) -> None:
        """Compile or load what ``enqueue`` of such images launches."""
        for values in (image, 'int')[:len(self._launches)]:
            compiler.kernel(self._device, *kernel(values))

    def enqueue(self, stream: int, image: str, left: int, part: Partition) -> None:
        """Find those of a partition.

        :param image: 'uint8' or 'float'; ``left``: address of such pixels, the whole image.
        """
        first = part.y * self._image_width + part.x
        self._launches[0].grey = left + BYTES[image] * first
        for k, launch in enumerate(self._launches):
            grid = -(-launch.width // WIDTH), -(-launch.height // HEIGHT), 1
            compiler.kernel(self._device, *kernel('int' if k else image)).launch(
                stream, grid, (WIDTH * HEIGHT, 1, 1), 0, launch)
