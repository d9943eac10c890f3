"""The configurations that the gates make plans for: always the same list."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

from stereo_bp_ros import MatcherConfig, preset_names

#: What a frame is of, and the outputs that are asked for.
FRAMES = (('mono8', ('disparity',)), ('mono16', ('disparity', 'confidence')),
          ('rgb8', ('disparity', 'depth', 'confidence', 'fixed_disparity')),
          ('bgr8', ('depth_mm', 'disparity_color')))

#: What differs from the typical device.
DEVICES: dict[str, dict[str, Any]] = {
    'typical': {},
    'small': {'name': 'small', 'capability': (7, 5), 'multiprocessors': 8,
              'shared_memory': 64 * 1024, 'shared_memory_sm': 64 * 1024, 'memory': 2**33},
    'integrated': {'name': 'integrated', 'capability': (8, 7), 'multiprocessors': 16,
                   'shared_memory': 163 * 1024, 'shared_memory_sm': 164 * 1024,
                   'memory': 2**35, 'is_integrated': True}}

TYPES = ('int16', 'float32')
VGA, HD, KITTI, CONES, TSUKUBA = (640, 480), (1280, 720), (1242, 375), (434, 383), (384, 288)

#: Costs that are whole numbers, as in the papers.
WHOLE = {'preprocessing': 'none', 'data_weight': 0.1, 'data_truncation': 15.0,
         'discontinuity_slope': 1.0}

#: Sums of several costs in whole numbers.
COMBINED = {'census_weight': 0.8, 'sobel_weight': 1.0, 'discontinuity_slope': 20.0,
            'discontinuity_truncation': 120.0, 'levels': 3}

#: Each changes what comes before or after matching.
AROUND: tuple[dict[str, Any], ...] = (
    {'subpixel': False}, {'uniqueness_ratio': 5.0}, {'disp12_max_diff': 1},
    {'texture_threshold': 100}, {'median_window_size': 3}, {'median_window_size': 5},
    {'speckle_size': 100}, {'filling': 'background'},
    {'filling': 'plane', 'bilateral_passes': 2}, {'border': 'keep'},
    {'reference_image': 'right'}, {'smoothing_sigma': 1.0}, {'preprocessing': 'none'},
    {'preprocessing': 'sobel'}, {'preprocessing': 'residual', 'residual_iterations': 3},
    {'min_disparity': -16}, {'message_type': 'float32', 'exact': True},
    {'uniqueness_ratio': 5.0, 'disp12_max_diff': 2, 'texture_threshold': 50,
     'median_window_size': 3, 'speckle_size': 50, 'filling': 'background', 'subpixel': False})

#: Storage, layout and allocation of the papers' plain steps.
PLAIN: tuple[dict[str, Any], ...] = (
    {'storage': 'register', 'blocks': 2}, {'storage': 'hybrid', 'registers': 20, 'shared': 12},
    {'storage': 'local', 'block_width': 64, 'block_height': 2}, {'aligned_rows': False},
    {'layout': 'pixel_major', 'aligned_rows': False}, {'allocation': 'single'},
    {'allocation': 'separate'}, {'layout': 'pixel_major', 'vectorised': False},
    {'packed_halves': True})


class Case(NamedTuple):
    """Settings, those of ``preset`` below them; size in pixels and key of ``DEVICES``."""

    settings: dict[str, Any]
    width: int
    height: int
    device: str = 'typical'
    preset: str = ''

    @property
    def label(self) -> str:
        """Says all of it."""
        settings = ' '.join(f'{name}={value}' for name, value in self.settings.items())
        return f'{self.width}x{self.height} {self.device} {self.preset} {settings}'.strip()

    @property
    def config(self) -> MatcherConfig:
        """The settings as a configuration."""
        return (MatcherConfig.preset(self.preset, **self.settings) if self.preset
                else MatcherConfig.from_mapping(self.settings))


def of(program: str, settings: dict[str, Any]) -> dict[str, Any]:
    """A program of the papers with settings of its own."""
    return {'program': program,
            **{f'{program}.{name}': value for name, value in settings.items()}}


def cases() -> dict[str, Case]:
    """All of them by label."""
    found = itertools.chain(_hierarchical(), _costs(), _presets(), _papers(), _others())
    return {case.label: case for case in found}


def _hierarchical() -> Iterator[Case]:
    """Types, ranges, sizes, levels and iterations."""
    for kind in TYPES:
        base = {'message_type': kind, **WHOLE}
        for disparities in (2, 8, 16, 21, 32, 64, 77, 128, 256, 512):
            yield Case({**base, 'disparity_range': disparities}, *VGA)
        for disparities, size in itertools.product((16, 64, 128), (TSUKUBA, (53, 37), HD)):
            yield Case({**base, 'disparity_range': disparities}, *size)
        for iterations in (0, 1, 2, 3, 5, 10, 40):
            yield Case({**base, 'iterations': iterations}, *VGA)
        for levels in (1, 2, 4, 6, 9):
            yield Case({**base, 'levels': levels}, *VGA)
    for disparities in (16, 64, 128):       # of the CPU alone
        yield Case({'message_type': 'float16', 'disparity_range': disparities, **WHOLE}, *VGA)


def _costs() -> Iterator[Case]:
    """Weights and truncations that decide how messages and costs are kept."""
    for kind in TYPES:
        base = {'message_type': kind, **WHOLE}
        for slope in (0.03, 0.3, 1.1, 5.9, 10.0):
            yield Case({**base, 'disparity_range': 128, 'discontinuity_slope': slope,
                        'discontinuity_truncation': 30.0}, *VGA)
        for truncation in (15.3, 40.0, 127.0, 255.0):
            yield Case({**base, 'data_truncation': truncation}, *VGA)
        for image in ('sobel_x', 'sobel', 'residual'):
            yield Case({'message_type': kind, 'disparity_range': 48, 'preprocessing': image},
                       *VGA)
    for disparities, paths in itertools.product((21, 64, 128, 300), (False, True)):
        yield Case({'disparity_range': disparities, **COMBINED, 'path_aggregation': paths}, *VGA)
    for change in ({'grey_weight': 0.5}, {'sparse_census_weight': 0.5},
                   {'smoothing_sigma': 0.7},
                   {'texture_threshold': 50}, {'partition_columns': 2, 'path_aggregation': True}):
        yield Case({**COMBINED, **change}, *VGA)


def _presets() -> Iterator[Case]:
    for preset, size in itertools.product(preset_names(), ((450, 375), HD, KITTI)):
        yield Case({}, *size, preset=preset)
    for disparities in (16, 21, 32, 128):
        yield Case({'disparity_range': disparities}, *CONES, preset='five_sets')


def _papers() -> Iterator[Case]:
    for kind, storage, order in itertools.product(
            (*TYPES, 'float16'), ('register', 'shared', 'local'),
            ('disparity_major', 'pixel_major')):
        yield Case({'disparity_range': 32, 'message_type': kind, **of(
            'plain_steps', {'storage': storage, 'layout': order})}, *CONES, preset='five_sets')
    for kind, change in itertools.product(('float32', 'float16'), PLAIN):
        yield Case({'disparity_range': 64, 'message_type': kind, **of('plain_steps', change)},
                   *VGA, preset='five_sets')
    tiled = {'stereo_algorithm': 'tiled_bp', 'disparity_range': 16}
    schedules = ('auto', 'speculative', 'rows', 'cooperative', 'lock_free', 'launches')
    for kind, schedule in itertools.product(TYPES, schedules):
        yield Case({**tiled, 'message_type': kind, **WHOLE,
                    **of('tiled_barriers', {'schedule': schedule})}, *TSUKUBA)
    for size, computation in itertools.product((3, 5, 20, 64), ('plain', 'fast')):
        yield Case({**tiled, 'tile_size': size, 'outer_iterations': 2, **of(
            'tiled_barriers', {'schedule': 'auto', 'computation': computation})}, *VGA)
    for disparities in (5, 128, 300, 512):
        yield Case({**tiled, 'disparity_range': disparities, 'inner_iterations': 2, **of(
            'tiled_barriers', {'schedule': 'lock_free', 'synchronisation': 'all'})}, *TSUKUBA)
    for variant, window in itertools.product(('global', 'shared_one', 'shared_all'), (5, 15)):
        yield Case({'stereo_algorithm': 'sad', 'correlation_window_size': window,
                    'preprocessing': 'none', **of('streamed_sad', {'variant': variant})}, *VGA)


def _others() -> Iterator[Case]:
    """Other stages, SAD, partitions and devices."""
    for algorithm, change in itertools.product(('bp', 'tiled_bp', 'sad'), AROUND):
        yield Case({'stereo_algorithm': algorithm, **change}, *VGA)
    for window, disparities in itertools.product((5, 15, 35, 51), (2, 64, 128, 512)):
        yield Case({'stereo_algorithm': 'sad', 'correlation_window_size': window,
                    'disparity_range': disparities}, *HD)
    for kind, (columns, rows) in itertools.product(
            TYPES, ((2, 1), (1, 2), (2, 2), (3, 2), (9, 9))):
        yield Case({'message_type': kind, 'partition_columns': columns,
                    'partition_rows': rows}, *HD)
    for limit in (2**26, 2**27, 2**28):
        yield Case({'memory_limit': limit, 'disp12_max_diff': 1}, *HD)
    changes: tuple[dict[str, Any], ...] = (
        {}, {'message_type': 'float32'}, {'disparity_range': 256}, {'stereo_algorithm': 'sad'},
        {'stereo_algorithm': 'sad', **of('streamed_sad', {'variant': 'shared_all'})},
        {'stereo_algorithm': 'tiled_bp'}, {'stereo_algorithm': 'tiled_bp', 'tile_size': 5},
        of('plain_steps', {'storage': 'shared'}))
    for where, change in itertools.product(('small', 'integrated'), changes):
        yield Case(change, *VGA, where)
