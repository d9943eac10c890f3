"""Stage ``preprocess``: from grey values to the image that is matched."""

from __future__ import annotations

import ctypes
import math
from typing import Any, NamedTuple

from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.runtime import compiler
from stereo_bp_ros.engines.cuda.runtime.structures import declared_in

#: Pixels and threads of a block, and the widest Gaussian; as in ``preprocess.cu``.
TILE_WIDTH, TILE_HEIGHT = 32, 16
BLOCK = (32, 8, 1)
MAX_RADIUS = 41

#: The C++ type of the pixels of an array, by the end of its name.
PIXELS = {'grey': 'uint8', 'values': 'float', 'smoothed': 'float', 'matched': 'float',
          'spare': 'float'}


@declared_in('frame/preprocess.cu', 'Planes')
class _Planes(ctypes.Structure):
    """``Planes`` of the kernels."""


@declared_in('frame/preprocess.cu', 'Gaussian')
class _Gaussian(ctypes.Structure):
    """``Gaussian`` of the kernels."""


class _Plain(ctypes.Structure):
    _fields_ = (('planes', _Planes),)


@declared_in('frame/preprocess.cu', 'Box')
class _Box(ctypes.Structure):
    """``Box`` of the kernels."""


@declared_in('frame/preprocess.cu', 'Derivative')
class _Derivative(ctypes.Structure):
    """``Derivative`` of the kernels."""


def gaussian_weights(sigma: float) -> list[float]:
    """Weights of the Gaussian from its middle outwards; all of them add up to 1.

    Radius ceil(4 sigma) + 1 (Felzenszwalb & Huttenlocher).
    """
    weights = [math.exp(-0.5 * (i / sigma) ** 2) for i in range(math.ceil(4 * sigma) + 2)]
    total = weights[0] + 2 * sum(weights[1:])
    return [weight / total for weight in weights]


def method(config: ResolvedConfig) -> str:
    """What makes the matched image; multi-feature costs make features of the grey one instead."""
    return 'none' if config.has_combined_cost else config.preprocessing


def kernels(config: ResolvedConfig) -> list[str]:
    """Names of the kernels in ``preprocess.cu`` that a frame may need."""
    names = []
    pixels = {'uint8', 'float'}         # before and after the Gaussian
    if config.smoothing_sigma > 0:
        names += [f'gaussian<{pixel}>' for pixel in sorted(pixels)]
        pixels = {'float'}
    # The thresholds of texture and contrast can be set at any time.
    names += ['texture', *(f'{kernel}<{pixel}{rest}>' for kernel, rest in (
        ('sobel', ', false'), ('contrast', '')) for pixel in sorted(pixels))]
    if method(config) == 'sobel':
        names += [f'sobel<{pixel}, true>' for pixel in sorted(pixels)]
    elif method(config) == 'residual':
        names += [f'residual<{pixel}>' for pixel in sorted(pixels | {'float'})]
    return names


class _Launch(NamedTuple):
    name: str
    shared_bytes: int
    parameters: Any         # a structure that begins with ``planes``
    images: int = 2


class Preprocess:
    """The stage for one configuration and size."""

    def __init__(self, context: Context) -> None:
        self._device, self._config, width, height, self._arena = context
        self._size = width, height
        self._grid = -(-width // TILE_WIDTH), -(-height // TILE_HEIGHT)

    def load(self) -> None:
        """Compile or load what the stage launches, whatever the live settings say."""
        for name in kernels(self._config):
            compiler.kernel(self._device, 'frame/preprocess.cu', name)

    def result(self, grey: str) -> str:
        """Name of the arrays that are matched, from those of the grey values."""
        if method(self._config) != 'none':
            return 'matched'
        return 'smoothed' if self._config.smoothing_sigma > 0 else grey

    def enqueue(self, stream: int, grey: str, with_texture: bool, with_contrast: bool,
                stamp: int) -> bool:
        """Make both matched images; False where they are the grey ones and nothing is to do.

        :param grey: 'grey' or 'values', of which ``left_`` and ``right_`` are read.
        :param with_texture, with_contrast: fill ``texture``, ``contrast`` for the left image.
        :param stamp: address of the time at which the stage starts.
        """
        launches = self._launches(grey, with_texture, with_contrast)
        for i, launch in enumerate(launches):
            launch.parameters.planes.stamp = None if i else stamp
            compiler.kernel(self._device, 'frame/preprocess.cu', launch.name).launch(
                stream, (*self._grid, launch.images), BLOCK, launch.shared_bytes,
                launch.parameters)
        return bool(launches)

    def _launches(self, grey: str, with_texture: bool, with_contrast: bool) -> list[_Launch]:
        config = self._config
        launches = []
        source = grey
        if config.smoothing_sigma > 0:
            launches.append(self._gaussian(source, 'smoothed'))
            source = 'smoothed'
        smoothed = source
        if method(config) in ('sobel', 'sobel_x'):
            launches.append(self._sobel(source, 'matched', method(config) == 'sobel'))
        elif method(config) == 'residual':
            for i in reversed(range(config.residual_iterations)):
                target = 'spare' if i % 2 else 'matched'
                launches.append(self._residual(source, target))
                source = target
        if with_texture:
            derivative = 'matched'
            if method(config) != 'sobel_x':
                derivative = 'spare'
                launches.append(self._sobel(smoothed, derivative, False)._replace(images=1))
            launches.append(self._texture(derivative))
        if with_contrast:
            launches.append(self._contrast(smoothed))
        return launches

    def _gaussian(self, source: str, target: str) -> _Launch:
        weights = gaussian_weights(self._config.smoothing_sigma)
        radius = len(weights) - 1
        return _Launch(f'gaussian<{PIXELS[source]}>', _shared_bytes(radius, 4, 4),
                       _Gaussian(self._planes(source, target), radius,
                                 (ctypes.c_float * (MAX_RADIUS + 1))(*weights)))

    def _sobel(self, source: str, target: str, is_magnitude: bool) -> _Launch:
        config = self._config
        return _Launch(f'sobel<{PIXELS[source]}, {str(is_magnitude).lower()}>', 0,
                       _Derivative(self._planes(source, target), config.sobel_scale,
                                   config.prefilter_cap or math.inf))

    def _residual(self, source: str, target: str) -> _Launch:
        side, pixel = self._config.residual_window_size, PIXELS[source]
        sum_bytes, element_bytes = (4, 1) if pixel == 'uint8' else (8, 4)
        return _Launch(f'residual<{pixel}>', _shared_bytes(side // 2, sum_bytes, element_bytes),
                       _Box(self._planes(source, target), side // 2, 1.0 / (side * side)))

    def _texture(self, source: str) -> _Launch:
        radius = self._config.correlation_window_size // 2
        planes = self._planes(source, source)
        planes.to[0] = self._arena.device['texture']
        return _Launch('texture', _shared_bytes(radius, 8, 4), _Box(planes, radius), 1)

    def _contrast(self, source: str) -> _Launch:
        planes = self._planes(source, source)
        planes.to[0] = self._arena.device['contrast']
        return _Launch(f'contrast<{PIXELS[source]}>', 0, _Plain(planes), 1)

    def _planes(self, source: str, target: str) -> _Planes:
        def both(name: str) -> ctypes.Array[ctypes.c_void_p]:
            return (ctypes.c_void_p * 2)(*(self._arena.device[f'{side}_{name}']
                                           for side in ('left', 'right')))

        return _Planes(both(source), both(target), *self._size)


def _shared_bytes(halo: int, sum_bytes: int, element_bytes: int) -> int:
    """Bytes of shared memory of a tile with its halo; as ``FilterTile``."""
    return (TILE_HEIGHT + 2 * halo) * (
        TILE_WIDTH * sum_bytes + (TILE_WIDTH + 2 * halo) * element_bytes)
