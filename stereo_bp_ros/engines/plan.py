"""What an engine is built from: the passes of a configuration, their sizes and arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from typing import Any

from stereo_bp_ros.config.matcher import MatcherConfig, ResolvedConfig
from stereo_bp_ros.engines import geometry, partitions
from stereo_bp_ros.engines.geometry import MemoryPlan
from stereo_bp_ros.engines.partitions import Partitioning

#: Settings of every pass over the matched images, in their order; the last one gives the map.
Passes = tuple[ResolvedConfig, ...]


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
    memory: the arrays that the engine allocates, on the device, or on the host for the CPU;
    first:  the pass before, over images of half the size; None = there is none.
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
    first: Any

    @property
    def passes(self) -> Passes:
        """Settings of every pass, in their order."""
        return (self.config,) if self.first is None else (*self.first.passes, self.config)


def needs_confidence(config: ResolvedConfig, outputs: Collection[str]) -> bool:
    """Whether settings and outputs call for the confidence of a pixel."""
    return ('confidence' in outputs or config.confidence_threshold > 0
            or config.filling == 'plane')


def passes_of(config: MatcherConfig, resolve: Callable[[ResolvedConfig], ResolvedConfig]
              ) -> Passes:
    """The passes of a back end, for ``Backend.resolve``.

    :param config: without ``min_depth``.
    :param resolve: checks a pass, and names the program that computes it.
    """
    if config.downscale > 1:
        first, count = geometry.reduced_range(config)
        config = config.replace(downscale=1, min_disparity=first, disparity_range=count)
    last = resolve(ResolvedConfig(config))
    if not last.searches_band:
        return (last,)
    return resolve(ResolvedConfig(first_pass_of(last))), last


def first_pass_of(config: MatcherConfig) -> MatcherConfig:
    """The first pass of a band search, over images of half the size.

    It searches the whole range and leaves no hole. The sparse census of an image is the census
    of one of half the size, which gets the weight of both.
    """
    first, last = config.min_disparity, config.min_disparity + config.disparity_range - 1
    return config.replace(
        band_radius=0, min_disparity=first // 2,
        disparity_range=last // 2 - first // 2 + 1, reference_image='left',
        rectify=False, rectified_width=0, rectified_height=0,
        row_correction='off',
        census_weight=min(16.0, config.census_weight + config.sparse_census_weight),
        sparse_census_weight=0.0, uniqueness_ratio=0.0, texture_threshold=0,
        confidence_threshold=0.0, contrast_threshold=0.0, subpixel=False, border='invalid',
        speckle_size=0, filling='background', bilateral_passes=0)


def first_plan(passes: Passes, width: int, height: int, parts: Partitioning,
               lay_out: Callable[..., Any]) -> Any:
    """The plan of the passes before the last one; None = there are none.

    :param width, height: of the images of the last pass, pixels; ``parts``: how they are cut.
    :param lay_out: of the back end, called with a configuration, its passes, size and partitions.
    """
    if not passes[:-1]:
        return None
    config, size = passes[-2], geometry.coarse_size(width, height)
    return lay_out(config, passes[:-1], *size, partitions.of_coarse(config, *size, parts))
