"""The arrays of a CUDA engine around those of its way of matching. No CuPy here."""

from __future__ import annotations

from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines.cuda.hierarchical.formats import MessageFormat
from stereo_bp_ros.engines.cuda.stages import preprocess
from stereo_bp_ros.geometry import Wanted
from stereo_bp_ros.images import ENCODINGS
from stereo_bp_ros.types import OUTPUT_TYPES

#: Bytes of what goes up with every frame beside the images; ``refine.Parameters`` fits.
PARAMETER_BYTES = 160

#: Bytes of the largest pixel of any encoding.
LARGEST_PIXEL = max(encoding.pixel_bytes for encoding in ENCODINGS.values())


def on_device(config: MatcherConfig, image: tuple[int, int], matching: Wanted) -> Wanted:
    """All arrays on the device; those of matching are given.

    :param image: height and width, pixels.
    """
    return [*_uploaded(image), *_matched(config, image), *matching, *_refinement(image)]


def on_host(image: tuple[int, int]) -> Wanted:
    """The pinned arrays on the host."""
    return [*_uploaded(image), ('sources', (2,), 'uint64'), ('stamps', (8,), 'uint64'),
            *((name, image, kind) for name, kind in OUTPUT_TYPES.items())]


def matches(config: MatcherConfig, image: tuple[int, int]) -> Wanted:
    """What belief propagation of any kind leaves to refinement."""
    costs = 'int32' if MessageFormat.of(config).is_whole else 'float32'
    return [('label', image, 'int16'), ('fraction', image, 'int8'), ('best', image, costs),
            ('second', image, costs), ('right_keys', image, 'uint64')]


def _refinement(image: tuple[int, int]) -> Wanted:
    return [('right_label', image, 'int16'), ('sixteenths', image, 'int16'),
            ('filtered', image, 'int16'), ('filled', image, 'int16'),
            ('smoothed', image, 'int16'), ('confidence_sums', image, 'uint16'),
            ('mean_confidence', image, 'float32'), ('regions', image, 'int32'),
            ('region_sizes', image, 'int32'), ('ended', (1,), 'uint32')]


def _uploaded(image: tuple[int, int]) -> Wanted:
    """What goes up with a frame, under the same names on both sides."""
    size = (image[0] * image[1] * LARGEST_PIXEL,)
    return [('parameters', (PARAMETER_BYTES,), 'uint8'), ('left_raw', size, 'uint8'),
            ('right_raw', size, 'uint8')]


def _matched(config: MatcherConfig, image: tuple[int, int]) -> Wanted:
    """Everything between the bytes of the images and what is matched."""
    kinds = {'grey': 'uint8', 'values': 'float32', 'spare': 'float32'}
    if config.smoothing_sigma > 0:
        kinds['smoothed'] = 'float32'
    if preprocess.method(config) != 'none':
        kinds['matched'] = 'float32'
    return [('texture', image, 'float32'), ('contrast', image, 'float32'),
            *((f'{side}_{name}', image, kind) for name, kind in kinds.items()
              for side in ('left', 'right'))]
