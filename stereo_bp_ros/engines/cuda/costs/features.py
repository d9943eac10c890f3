"""The features of both images that multi-feature costs compare."""

from __future__ import annotations

import ctypes
import math

from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.costs import terms
from stereo_bp_ros.engines.cuda.runtime import compiler
from stereo_bp_ros.engines.cuda.runtime.structures import declared_in
from stereo_bp_ros.engines.geometry import Wanted

#: Pixels of a block of ``make_features``, and threads; as in ``features.cuh``.
TILE_WIDTH, TILE_HEIGHT, THREADS = 32, 16, 256

_Pair = ctypes.c_void_p * 2


@declared_in('costs/features.cuh')
class FeatureSettings(ctypes.Structure):
    """``FeatureSettings`` in ``features.cuh``."""


@declared_in('costs/features.cuh')
class FeatureLaunch(ctypes.Structure):
    """``FeatureLaunch`` in ``features.cuh``."""


@declared_in('costs/terms.cuh')
class Term(ctypes.Structure):
    """``Term`` in ``terms.cuh``."""


def arrays(config: ResolvedConfig, image: tuple[int, int]) -> Wanted:
    """The features of whole images.

    :param image: height and width, pixels.
    """
    return [(f'{side}_{term.name}_feature', image, term.feature)
            for term in terms.terms(config) for side in ('left', 'right')]


def kinds(config: ResolvedConfig) -> str:
    """The C++ types of the costs."""
    return ', '.join(term.kind for term in terms.terms(config))


def kernel(config: ResolvedConfig, image: str) -> tuple[str, str]:
    """File and name of the kernel.

    :param image: type of the pixels that features are made of, 'uint8' or 'float'.
    """
    return 'costs/features.cu', f'make_features<{image}, {kinds(config)}>'


def bind(launch: ctypes.Structure, context: Context) -> None:
    """Give a launch the features of both images in ``left`` and ``right``, and its ``terms``."""
    found = context.arena.device
    for i, term in enumerate(terms.terms(context.config)):
        launch.left[i] = found[f'left_{term.name}_feature']
        launch.right[i] = found[f'right_{term.name}_feature']
        launch.terms[i] = Term(term.weight, term.bound)


class Features:
    """The features for one configuration and size."""

    def __init__(self, context: Context) -> None:
        config, found = context.config, context.arena.device
        self._device, self._config = context.device, config
        costs = terms.terms(config)
        self._launch = FeatureLaunch(
            settings=FeatureSettings(config.sobel_scale, config.prefilter_cap or math.inf),
            width=context.width, height=context.height, halo=max(term.radius for term in costs))
        for i, term in enumerate(costs):
            self._launch.features[i] = _Pair(*(found[f'{side}_{term.name}_feature']
                                               for side in ('left', 'right')))
        self._grid = -(-context.width // TILE_WIDTH), -(-context.height // TILE_HEIGHT), 2

    def enqueue(self, stream: int, image: str, left: int, right: int, stamp: int | None) -> None:
        """Make them.

        :param image: 'uint8' or 'float'; ``left`` and ``right``: addresses of such pixels.
        :param stamp: address of the time at which the stage starts; None = not wanted.
        """
        self._launch.grey, self._launch.stamp = _Pair(left, right), stamp
        compiler.kernel(self._device, *kernel(self._config, image)).launch(
            stream, self._grid, (THREADS, 1, 1),
            _shared_bytes(self._launch.halo, self._config.sparse_census_weight > 0),
            self._launch)


def _shared_bytes(halo: int, has_means: bool) -> int:
    """Of a block of ``make_features``; as ``GreyTile``, and two words that are read behind it."""
    return (TILE_HEIGHT + 2 * halo) * (1 + has_means) * (TILE_WIDTH + 2 * halo) + 8
