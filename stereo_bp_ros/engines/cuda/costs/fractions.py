"""Fractions of a label from the combined data cost: after the labels, part of their stage."""

from __future__ import annotations

import ctypes

from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.runtime import compiler
from stereo_bp_ros.engines.cuda.runtime.structures import declared_in
from stereo_bp_ros.engines.partitions import Partition, Partitioning

#: Pixels of a block; as in ``fractions.cu``.
WIDTH, HEIGHT = 32, 4


@declared_in('costs/fractions.cu')
class FractionLaunch(ctypes.Structure):
    """``FractionLaunch`` in ``fractions.cu``."""


def kernel(config: ResolvedConfig) -> tuple[str, str]:
    """File and name of the kernel."""
    return 'costs/fractions.cu', f'take_fractions<{config.disparity_range}>'


class Fractions:
    """``fraction`` from ``data_cost`` and ``label``, for one configuration and size.

    :param parts: how the image is cut.
    """

    def __init__(self, context: Context, parts: Partitioning) -> None:
        self._device, self._arrays = context.device, context.arena.device
        self._kernel = kernel(context.config)
        self._image_width, self._parts = context.width, parts

    def load(self) -> None:
        """Compile or load what ``enqueue`` launches."""
        compiler.kernel(self._device, *self._kernel)

    def enqueue(self, stream: int, part: Partition) -> None:
        """Fill those of the pixels that a partition keeps, when it has its labels and costs."""
        left, top, right, bottom = part.kept
        first_pixel = part.y * self._image_width + part.x
        launch = FractionLaunch(
            self._arrays['data_cost'], self._arrays['label'] + 2 * first_pixel,
            self._arrays['fraction'] + first_pixel, self._image_width, self._parts.width,
            self._parts.height, left - part.x, top - part.y, right - left, bottom - top)
        grid = -(-launch.kept_width // WIDTH), -(-launch.kept_height // HEIGHT), 1
        compiler.kernel(self._device, *self._kernel).launch(
            stream, grid, (WIDTH * HEIGHT, 1, 1), 0, launch)
