"""Stages ``upload`` and ``convert`` of images that go through maps: bytes and rectified values.

One kernel reads the bytes of four raw pixels for each rectified one. The maps that say which lie
on the device, and are copied there once for a calibration or a warp.
"""

from __future__ import annotations

import ctypes

from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.runtime import compiler
from stereo_bp_ros.engines.cuda.runtime.structures import declared_in
from stereo_bp_ros.engines.cuda.stages import convert
from stereo_bp_ros.engines.cuda.stages.convert import Reading
from stereo_bp_ros.images.raw_images import RawImage
from stereo_bp_ros.images.stamps import SIDES


@declared_in('frame/convert.cu')
class RawPair(ctypes.Structure):
    """As in ``convert.cu``."""


class Rectify(convert.Convert):
    """Both stages for one configuration and size: both images go through maps, or none does or
    that of the right camera alone.

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
        if not self._config.rectify:
            super().load()

    def readings(self, pair: tuple[RawImage, RawImage], is_warped: bool
                 ) -> tuple[Reading, Reading]:
        left, right = (
            convert.reading(raw)._replace(
                is_mapped=self._config.rectify or (is_warped and side == 'right'))
            for raw, side in zip(pair, self._cameras, strict=True))
        return left, right

    def enqueue(self, stream: int, readings: tuple[Reading, Reading], stamp: int) -> bool:
        mapped = tuple(side for side, each in zip(SIDES, readings, strict=True) if each.is_mapped)
        if not mapped:
            return super().enqueue(stream, readings, stamp)
        self._enqueue_mapping(stream, readings, mapped, stamp)
        plain = tuple(side for side in SIDES if side not in mapped)
        if plain:
            self._enqueue_conversion(stream, readings, plain, None)
        return True

    @property
    def _cameras(self) -> tuple[str, ...]:
        """Sides of the cameras of both images, as they are matched."""
        return SIDES[::-1] if self.is_mirrored else SIDES

    def _enqueue_mapping(self, stream: int, readings: tuple[Reading, Reading],
                         sides: tuple[str, ...], stamp: int) -> None:
        """:param sides: as for ``_enqueue_conversion``."""
        device, cameras = self._arena.device, dict(zip(SIDES, self._cameras, strict=True))

        def of_each(name: str) -> ctypes.Array[ctypes.c_void_p]:
            return (ctypes.c_void_p * 2)(*(device[f'{cameras[side]}_{name}'] for side in sides))

        scales = (0.0 if each.is_8bit else self._config.mono16_scale
                  for side, each in zip(SIDES, readings, strict=True) if side in sides)
        self._launch(stream, f'rectify<{convert.KINDS[self.grey(readings)]}>', len(sides), RawPair(
            self._sources(readings, sides), of_each('map'), of_each('map_parts'),
            (ctypes.c_float * 2)(*scales), *self._image, *self._rectified, self._width,
            self._height, self._factor, self.is_mirrored, stamp))


def kernels() -> list[str]:
    """Names of the kernels in ``convert.cu`` of images that go through maps."""
    return ['upload', *(f'rectify<{kind}>' for kind in convert.KINDS.values())]
