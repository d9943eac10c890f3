"""The arrays of a CUDA engine around those of its way of matching. No CuPy here."""

from __future__ import annotations

from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines.cuda.hierarchical.formats import MessageFormat
from stereo_bp_ros.engines.cuda.stages import preprocess
from stereo_bp_ros.engines.geometry import Wanted, map_arrays
from stereo_bp_ros.frame.disparity_frame import ENGINE_STAGES, OUTPUTS
from stereo_bp_ros.images.raw_images import ENCODINGS

#: Bytes of ``refine.Parameters``. Three go up with every frame: of refinement, of the outputs, and
#: of the refinement of a first pass.
PARAMETER_BYTES = 1024

#: Where in ``stamps`` the time lies at which a stage starts on the device, and the last one ends.
STAMPS = {name: place for place, name in enumerate((*ENGINE_STAGES, 'end'))}

#: Bytes of the largest pixel of any encoding.
MAX_PIXEL_BYTES = max(encoding.pixel_bytes for encoding in ENCODINGS.values())


#: Arrays of refinement, as large as what is matched.
REFINEMENT = {'right_label': 'int16', 'sixteenths': 'int16', 'filtered': 'int16',
              'filled': 'int16', 'smoothed': 'int16', 'row_sums': 'uint32',
              'row_values': 'uint8', 'judged_confidence': 'float32', 'regions': 'int32',
              'region_sizes': 'int32'}


def on_device(config: ResolvedConfig, source: tuple[int, int], image: tuple[int, int],
              reduced: tuple[int, int], factor: int, matching: Wanted) -> Wanted:
    """All arrays on the device; those of matching are given.

    :param source, image, reduced: height and width of the images as they come, of these once they
        are rectified, and of what is matched, pixels.
    :param factor: how many times images are reduced. One of 1 x 1 stays as large.
    """
    kinds = {'grey': 'uint8', 'values': 'float32', 'spare': 'float32'}
    if config.smoothing_sigma > 0:
        kinds['smoothed'] = 'float32'
    if preprocess.method(config) != 'none':
        kinds['matched'] = 'float32'
    enlarged: Wanted = [('reduced_final', reduced, 'int16'),
                        ('reduced_confidence', reduced, 'float32')]
    return [*_upload_arrays(source), *map_arrays(config, image[1], image[0]),
            ('texture', reduced, 'float32'), ('contrast', reduced, 'float32'),
            *((f'{side}_{name}', reduced, kind) for name, kind in kinds.items()
              for side in ('left', 'right')),
            *matching, *((name, reduced, kind) for name, kind in REFINEMENT.items()),
            ('ended', (1,), 'uint32'), ('final', image, 'int16'),
            *(enlarged if factor > 1 else [])]


def on_host(source: tuple[int, int], image: tuple[int, int]) -> Wanted:
    """The pinned arrays on the host; sizes as for ``on_device``."""
    return [*_upload_arrays(source), ('sources', (2,), 'uint64'),
            ('stamps', (len(STAMPS),), 'uint64'),
            *((name, output.shape(image), output.dtype) for name, output in OUTPUTS.items())]


def matches(config: ResolvedConfig, image: tuple[int, int]) -> Wanted:
    """What belief propagation of any kind leaves to refinement."""
    costs = 'int32' if MessageFormat.of(config).is_whole else 'float32'
    return [('label', image, 'int16'), ('fraction', image, 'int8'), ('best', image, costs),
            ('second', image, costs), ('right_keys', image, 'uint64')]


def _upload_arrays(source: tuple[int, int]) -> Wanted:
    """What goes up with a frame, under the same names on both sides."""
    size = (source[0] * source[1] * MAX_PIXEL_BYTES,)
    return [('parameters', (3, PARAMETER_BYTES), 'uint8'), ('left_raw', size, 'uint8'),
            ('right_raw', size, 'uint8')]
