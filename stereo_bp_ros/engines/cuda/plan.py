"""Every array of the CUDA engine, before one is made. No CuPy here."""

from __future__ import annotations

from stereo_bp_ros import geometry
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines.cuda import layout, sad_plan, storage_layout, tiled_plan, tiling
from stereo_bp_ros.engines.cuda.device import TYPICAL, Properties
from stereo_bp_ros.errors import ConfigError
from stereo_bp_ros.images import ENCODINGS
from stereo_bp_ros.partitions import Partitioning
from stereo_bp_ros.types import OUTPUT_TYPES

Wanted = list[tuple[str, tuple[int, ...], str]]

#: Bytes of the largest pixel of any encoding.
LARGEST_PIXEL = max(encoding.pixel_bytes for encoding in ENCODINGS.values())


def check(config: MatcherConfig, device: Properties = TYPICAL) -> None:
    """Refuse what this engine cannot compute.

    :raises ConfigError: ``exact`` belief propagation, but for the papers' kernels; storage that
        the device does not have; tiles that are too large for it.
    """
    if config.stereo_algorithm == 'tiled_bp':
        tiled_plan.check(config, device)
    storage_layout.check(config, device)
    if config.exact and config.stereo_algorithm == 'bp' and not config.repeats_papers:
        raise ConfigError('exact', config.exact,
                          'the CUDA engine adds in another order: use backend cpu or auto')


def memory_plan(config: MatcherConfig, width: int, height: int, device: Properties = TYPICAL,
                tilings: dict[int, tiling.Tiling] | None = None,
                parts: Partitioning | None = None) -> geometry.MemoryPlan:
    """The arrays on the device of an engine for images of this size, in pixels.

    :param parts: how belief propagation cuts the image; None = not at all.
    :raises ConfigError: as ``check``.
    """
    check(config, device)
    image = (height, width)
    if config.stereo_algorithm == 'sad':
        matching = sad_plan.arrays(config, image, device)
    elif config.repeats_papers:
        matching = [*_storage(config, image), *_matches(config, image)]
    elif config.stereo_algorithm == 'tiled_bp':
        matching = [*tiled_plan.arrays(config, width, height, device), *_matches(config, image)]
    else:
        part = (parts.height, parts.width) if parts else image
        matching = [*_messages(config, part, device, tilings), *_matches(config, image)]
    return geometry.MemoryPlan.lay_out(
        [*_uploaded(image), *_matched(config, image), *matching, *_refinement(image)])


def _messages(config: MatcherConfig, image: tuple[int, int], device: Properties,
              tilings: dict[int, tiling.Tiling] | None) -> Wanted:
    """Costs and messages of hierarchical belief propagation."""
    height, width = image
    pyramid = layout.levels(config, width, height)
    vector = layout.shape(config)
    wanted: Wanted = [('nothing', (16,), 'uint8'), ('table', (256,), 'uint16')]
    for k, level in enumerate(pyramid):
        kind = layout.cost_type(config, k)
        units = vector.chunks * (2 if kind == 'Float32' else 1)
        wanted.append((f'cost_{k}', (level.height, 2, units, level.half,
                                     8 if kind == 'Bytes' else 16), 'uint8'))
    for name in tiling.message_arrays(config, width, height, device, tilings):
        level = pyramid[int(name.split('_')[1])]
        wanted.append((name, (level.height, 4, vector.units, level.half,
                              vector.unit_bytes), 'uint8'))
    for i, step in enumerate(tiling.passes(config, width, height, device, tilings)):
        lists, _ = tiling.nodes_of(step)
        wanted.append((f'nodes_{i}', (2, max(map(len, lists))), 'uint32'))
    return wanted


def _storage(config: MatcherConfig, image: tuple[int, int]) -> Wanted:
    """Costs and messages of the papers' kernels, unless each frame allocates its own."""
    if config.allocation != 'once':
        return []
    height, width = image
    levels = storage_layout.levels(config, width, height)
    return [('storage', (storage_layout.block_offsets(config, levels)[2],), 'uint8')]


def _matches(config: MatcherConfig, image: tuple[int, int]) -> Wanted:
    """What belief propagation of any kind leaves to refinement."""
    costs = 'int32' if layout.is_whole(config) else 'float32'
    return [('label', image, 'int16'), ('fraction', image, 'int8'), ('best', image, costs),
            ('second', image, costs), ('right_keys', image, 'uint64')]


def host_plan(config: MatcherConfig, width: int, height: int) -> geometry.MemoryPlan:
    """The pinned arrays on the host, through which everything goes to and from the device."""
    image = (height, width)
    wanted: Wanted = [*_uploaded(image), ('sources', (2,), 'uint64'), ('stamps', (8,), 'uint64'),
                      *((name, image, kind) for name, kind in OUTPUT_TYPES.items())]
    return geometry.MemoryPlan.lay_out(wanted)


def _refinement(image: tuple[int, int]) -> Wanted:
    return [('right_label', image, 'int16'), ('sixteenths', image, 'int16'),
            ('filtered', image, 'int16'), ('regions', image, 'int32'),
            ('region_sizes', image, 'int32'), ('ended', (1,), 'uint32')]


def _uploaded(image: tuple[int, int]) -> Wanted:
    """What goes up with a frame, under the same names on both sides."""
    size = (image[0] * image[1] * LARGEST_PIXEL,)
    return [('parameters', (128,), 'uint8'), ('left_raw', size, 'uint8'),
            ('right_raw', size, 'uint8')]


def _matched(config: MatcherConfig, image: tuple[int, int]) -> Wanted:
    """Everything between the bytes of the images and what is matched."""
    kinds = {'grey': 'uint8', 'values': 'float32', 'spare': 'float32'}
    if config.smoothing_sigma > 0:
        kinds['smoothed'] = 'float32'
    if config.preprocessing != 'none':
        kinds['matched'] = 'float32'
    return [('texture', image, 'float32'),
            *((f'{side}_{name}', image, kind) for name, kind in kinds.items()
              for side in ('left', 'right'))]
