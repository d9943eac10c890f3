"""Stages ``upload`` and ``convert`` of raw images: their bytes, and rectified grey values.

One kernel reads the bytes of four raw pixels for each rectified one. The maps that say which lie
on the device, and are computed and copied there once for a calibration.
"""

from __future__ import annotations

import ctypes

from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.runtime import compiler
from stereo_bp_ros.engines.cuda.runtime.structures import declared_in
from stereo_bp_ros.engines.cuda.stages import convert
from stereo_bp_ros.engines.cuda.stages.convert import CONVERT_BLOCK, Reading
from stereo_bp_ros.rectification import Rectification
from stereo_bp_ros.stamps import SIDES


@declared_in('frame/convert.cu')
class RawPair(ctypes.Structure):
    """As in ``convert.cu``."""


class Rectify(convert.Convert):
    """Both stages for one configuration and size.

    :param source: width and height of the images as they come, pixels.
    :param rectified: the same of the rectified ones; factor: how many times they are reduced.
    """

    def __init__(self, context: Context, source: tuple[int, int], rectified: tuple[int, int],
                 factor: int) -> None:
        super().__init__(context, source, factor)
        self._rectified = rectified

    def load(self) -> None:
        for name in kernels():
            compiler.kernel(self._device, 'frame/convert.cu', name)

    def fill_maps(self, rectification: Rectification, stream: int) -> None:
        """Compute the maps of both images, as they are matched, and copy them to the device.

        The stream is done when this returns.
        """
        from cupy.cuda import runtime
        sides = reversed(SIDES) if self.is_mirrored else SIDES
        for matched, side in zip(SIDES, sides, strict=True):
            for name, values in zip(('map', 'map_parts'), rectification.maps(side), strict=True):
                runtime.memcpyAsync(self._arena.device[f'{matched}_{name}'], values.ctypes.data,
                                    values.nbytes, runtime.memcpyHostToDevice, stream)
                runtime.streamSynchronize(stream)       # while ``values`` lives

    def is_needed(self, readings: tuple[Reading, Reading]) -> bool:
        return True

    def enqueue(self, stream: int, readings: tuple[Reading, Reading], stamp: int) -> bool:
        device, grey = self._arena.device, self.grey(readings)

        def both(name: str) -> ctypes.Array[ctypes.c_void_p]:
            return (ctypes.c_void_p * 2)(*(device[f'{side}_{name}'] for side in SIDES))

        scales = (0.0 if each.is_8bit else self._config.mono16_scale for each in readings)
        parameters = RawPair(self._sources(readings), both('map'), both('map_parts'),
                             (ctypes.c_float * 2)(*scales), *self._image, *self._rectified,
                             self._width, self._height, self._factor, self.is_mirrored, stamp)
        name = f'rectify<{convert.KINDS[grey]}>'
        columns, rows, _ = CONVERT_BLOCK
        compiler.kernel(self._device, 'frame/convert.cu', name).launch(
            stream, (-(-self._width // columns), -(-self._height // rows), 2),
            CONVERT_BLOCK, 0, parameters)
        return True


def kernels() -> list[str]:
    """Names of the kernels in ``convert.cu``."""
    return ['upload', *(f'rectify<{kind}>' for kind in convert.KINDS.values())]
