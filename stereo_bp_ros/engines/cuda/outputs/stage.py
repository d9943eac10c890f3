"""From the disparity as it is matched to the outputs that refinement does not write itself."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.memory import PARAMETER_BYTES
from stereo_bp_ros.engines.cuda.runtime import compiler
from stereo_bp_ros.engines.cuda.runtime.structures import declared_in
from stereo_bp_ros.engines.cuda.stages import convert, refine

#: File and name of the kernel of each derived output, by its name in ``OUTPUTS``.
KERNELS = {'disparity_color': ('outputs/disparity_color.cu', 'color_disparities'),
           'points': ('outputs/points.cu', 'points')}
ENLARGE = 'outputs/enlarge.cu', 'enlarge'
BLOCK = (32, 8, 1)


class Reference(NamedTuple):
    """The image that outputs take colors of.

    name: of its array; is_matched: it is as large as what is matched, and mirrored like that.
    """

    name: str
    reading: convert.Reading
    is_matched: bool = False
    is_mirrored: bool = False


@declared_in('outputs/finished.cuh')
class Finished(ctypes.Structure):
    """``Finished`` in ``finished.cuh``."""


@declared_in('outputs/enlarge.cu')
class Enlarging(ctypes.Structure):
    """``Enlarging`` in ``enlarge.cu``."""


class Outputs:
    """The stage for one configuration and size.

    :param image: width and height of the images, pixels.
    :param factor: how many times they were reduced.
    """

    def __init__(self, context: Context, image: tuple[int, int], factor: int) -> None:
        self._device, self._config, *self._reduced, self._arena = context
        self._image, self._factor = image, factor
        #: Whether refinement is of reduced images, and every output written here.
        self.enlarges = factor > 1

    def load(self) -> None:
        """Compile or load what the stage launches, whatever the live settings say."""
        for file, name in [*KERNELS.values(), *([ENLARGE] if self.enlarges else [])]:
            compiler.kernel(self._device, file, name)

    def enqueue(self, stream: int, wanted: refine.Steps, reference: Reference) -> list[str]:
        """Whatever is wanted beyond refinement; returns the stages whose start is stamped."""
        if self.enlarges:
            device = self._arena.device
            self._launch(stream, *ENLARGE, Enlarging(
                self._finished(reference), device['reduced_final'],
                device['reduced_confidence'], *self._reduced, self._factor))
        derived = [name for name in KERNELS if name in wanted.outputs]
        for name in derived:
            self._launch(stream, *KERNELS[name],
                         self._finished(reference, self._arena.stamp(name)))
        return derived

    def _finished(self, reference: Reference, stamp: int | None = None) -> Finished:
        device = self._arena.device
        size = (*self._reduced, self._factor) if reference.is_matched else (*self._image, 1)
        return Finished(device['parameters'] + PARAMETER_BYTES, device['final'],
                        device[reference.name], stamp, self._arena.stamp('end'), device['ended'],
                        *self._image, self._factor * self._config.min_disparity,
                        *reference.reading[:3], *size, reference.is_mirrored)

    def _launch(self, stream: int, file: str, name: str, argument: ctypes.Structure) -> None:
        width, height = self._image
        grid = -(-width // BLOCK[0]), -(-height // BLOCK[1]), 1
        compiler.kernel(self._device, file, name).launch(stream, grid, BLOCK, 0, argument)
