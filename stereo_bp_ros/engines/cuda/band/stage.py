"""From the map of a first pass to labels, over the labels near it."""

from __future__ import annotations

import ctypes

from stereo_bp_ros import geometry
from stereo_bp_ros.config import ResolvedConfig, quantisation
from stereo_bp_ros.engines.cuda import memory
from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.costs import features
from stereo_bp_ros.engines.cuda.hierarchical import edges
from stereo_bp_ros.engines.cuda.runtime import compiler
from stereo_bp_ros.engines.cuda.runtime.structures import declared_in
from stereo_bp_ros.engines.cuda.stages import refine, right_labels
from stereo_bp_ros.geometry import Wanted
from stereo_bp_ros.partitions import Partition, Partitioning

#: Bytes of what belongs to a pixel's labels, and threads that have them; as in ``windows.cuh``.
PIXEL, WORDS = 32, 8

#: Threads of a block, as in the files of ``kernels/band``; pixels of one of ``widen_estimates``.
THREADS, PATH_THREADS, FRACTION_THREADS = 256, 128, 128
CENTRE_WIDTH, CENTRE_HEIGHT = 32, 8

#: Sides from which paths come.
SIDES = 4


@declared_in('band/windows.cuh')
class Windows(ctypes.Structure):
    """``Windows`` in ``windows.cuh``."""


@declared_in('band/centres.cu')
class CentreLaunch(ctypes.Structure):
    """``CentreLaunch`` in ``centres.cu``."""


@declared_in('band/costs.cu')
class BandCostLaunch(ctypes.Structure):
    """``BandCostLaunch`` in ``costs.cu``."""


@declared_in('band/paths.cu')
class BandPathLaunch(ctypes.Structure):
    """``BandPathLaunch`` in ``paths.cu``."""


@declared_in('band/messages.cuh')
class BandMessages(ctypes.Structure):
    """``BandMessages`` in ``messages.cuh``."""


@declared_in('band/messages.cu')
class BandUpdate(ctypes.Structure):
    """``BandUpdate`` in ``messages.cu``."""


@declared_in('band/labels.cu')
class BandLabels(ctypes.Structure):
    """``BandLabels`` in ``labels.cu``."""


@declared_in('band/labels.cu')
class BandFractions(ctypes.Structure):
    """``BandFractions`` in ``labels.cu``."""


def arrays(config: ResolvedConfig, image: tuple[int, int], parts: Partitioning) -> Wanted:
    """Everything between the first pass and refinement.

    :param image: height and width, pixels.
    """
    pixels = parts.height, parts.width
    return [*features.arrays(config, image), ('estimates', image, 'int16'),
            ('centres', (*image, 2), 'int16'), ('data_cost', (*pixels, PIXEL), 'uint8'),
            ('cost_0', (*pixels, PIXEL), 'uint8'),
            # Costs of paths, and when they are added up, messages.
            ('path_costs', (SIDES, *pixels, PIXEL), 'uint8'), *edges.arrays(config, parts),
            *memory.matches(config, image)]


def kernels(config: ResolvedConfig, image: str) -> list[tuple[str, str]]:
    """File and name of everything that is launched.

    :param image: type of the pixels that features are made of, 'uint8' or 'float'.
    """
    return [features.kernel(config, image),
            *(('band/centres.cu', name) for name in ('make_estimates', 'widen_estimates')),
            _combined(config),
            *(('band/paths.cu', name) for name in ('follow_band', 'add_paths')),
            *(('band/messages.cu', f'update_band<{is_first}>') for is_first in ('true', 'false')),
            *(('band/labels.cu', name) for name in ('select_band', 'take_band_fractions'))]


def _combined(config: ResolvedConfig) -> tuple[str, str]:
    return 'band/costs.cu', f'combine_band<{features.kinds(config)}>'


class BandStage:
    """The stage for one configuration and size; partitions use the same arrays in turn."""

    def __init__(self, context: Context, parts: Partitioning) -> None:
        self._context, self._parts = context, parts
        self._device, config, self._width, self._height, self._arena = context
        self._config, found = config, context.arena.device
        self._features = features.Features(context)
        self._edges = (edges.Edges(context, parts) if config.discontinuity_edge_threshold
                       else None)
        windows = Windows(found['centres'], context.width, parts.width, parts.height,
                          config.band_radius)
        self._costs = BandCostLaunch(windows, cost=found['data_cost'],
                                     min_disparity=config.min_disparity,
                                     outside_cost=config.outside_cost)
        features.bind(self._costs, context)
        self._paths = BandPathLaunch(windows, found['data_cost'], found['path_costs'],
                                     found['cost_0'], config.path_step_penalty,
                                     config.path_jump_penalty)
        slope, truncation = map(int, quantisation.message_smoothness(config))
        self._messages = BandMessages(
            windows, found['cost_0'], found.get('image_edges_0'), found['path_costs'],
            int(quantisation.first_step(config)), min(slope, truncation), truncation,
            quantisation.edge_truncation(config))

    def load(self, image: str) -> None:
        """Compile or load what ``enqueue`` of such images launches."""
        for file, name in kernels(self._config, image):
            compiler.kernel(self._device, file, name)
        if self._edges:
            self._edges.load(image)
        right_labels.load(self._device, 'uint64')

    def enqueue(self, stream: int, image: str, left: int, right: int, reduced: int,
                coarse: ResolvedConfig, wanted: refine.Steps, stamp: int | None) -> None:
        """Fill the labels of a frame, and what refinement wants beside them.

        :param image: 'uint8' or 'float'; ``left`` and ``right``: addresses of such pixels.
        :param reduced: of the first pass's finished map, of ``coarse`` images.
        :param stamp: address of the time at which the stage starts; None = not wanted.
        """
        self._features.enqueue(stream, image, left, right, stamp)
        self._find_centres(stream, reduced, coarse)
        for part in self._parts.partitions:
            if self._edges:
                self._edges.enqueue(stream, image, left, part)
            self._match(stream, part, wanted)
        if wanted.right:
            right_labels.enqueue(self._device, stream, self._arena, 'uint64')

    def _find_centres(self, stream: int, reduced: int, coarse: ResolvedConfig) -> None:
        config, found = self._config, self._arena.device
        width, height = geometry.coarse_size(self._width, self._height)
        window = geometry.matched_window(coarse, width, height)
        launch = CentreLaunch(
            reduced, found['estimates'], found['centres'], width, height, self._width,
            self._height, window.x_offset, window.y_offset, window.x_offset + window.width,
            window.y_offset + window.height, 2 * coarse.min_disparity - config.min_disparity,
            config.band_radius, config.disparity_range - 1 - config.band_radius)
        blocks = -(-self._width // CENTRE_WIDTH), -(-self._height // CENTRE_HEIGHT), 1
        self._run(stream, ('band/centres.cu', 'make_estimates'), blocks, launch,
                  (CENTRE_WIDTH, CENTRE_HEIGHT, 1))
        self._run(stream, ('band/centres.cu', 'widen_estimates'), blocks, launch,
                  (CENTRE_WIDTH * CENTRE_HEIGHT, 1, 1))

    def _match(self, stream: int, part: Partition, wanted: refine.Steps) -> None:
        config, found = self._config, self._arena.device
        width, height = self._parts.width, self._parts.height
        first_pixel = part.y * self._width + part.x
        for each in (self._costs, self._paths, self._messages):
            each.windows.centres = found['centres'] + 4 * first_pixel
        row = -(-width * WORDS // THREADS)
        self._costs.first_x, self._costs.first_y = part.x, part.y
        self._run(stream, _combined(config), (row, height, 1), self._costs)
        paths = PATH_THREADS // WORDS
        self._run(stream, ('band/paths.cu', 'follow_band'),
                  (2 * (-(-width // paths) + -(-height // paths)), 1, 1), self._paths,
                  (PATH_THREADS, 1, 1))
        self._run(stream, ('band/paths.cu', 'add_paths'),
                  (-(-width * height * WORDS // PATH_THREADS), 1, 1), self._paths,
                  (PATH_THREADS, 1, 1))
        left, top, right, bottom = part.kept
        if width > 2 and height > 2:
            # Of the pixels that do not send at first, nothing else is read.
            for iteration in range(config.iterations_of_levels[0]):
                update = BandUpdate(self._messages, (iteration + 1) % 2)
                self._run(stream, ('band/messages.cu',
                                   f'update_band<{str(iteration == 0).lower()}>'),
                          (-(-(width // 2) * WORDS // THREADS), height - 2, 1), update)
            launch = BandLabels(
                self._messages, found['label'] + 2 * first_pixel,
                found['best'] + 4 * first_pixel if wanted.costs else None,
                found['second'] + 4 * first_pixel if wanted.costs else None,
                found['right_keys'] + 8 * part.y * self._width if wanted.right else None,
                part.x - config.min_disparity, config.disparity_range, left - part.x,
                top - part.y, right - part.x, bottom - part.y)
            first_x, first_y = max(1, launch.kept_left), max(1, launch.kept_top)
            blocks = (-(-(min(width - 1, launch.kept_right) - first_x) // (THREADS // WORDS)),
                      min(height - 1, launch.kept_bottom) - first_y, 1)
            if min(blocks) > 0:
                self._run(stream, ('band/labels.cu', 'select_band'), blocks, launch)
        if wanted.fraction:
            fractions = BandFractions(
                self._costs.windows, found['data_cost'], found['label'] + 2 * first_pixel,
                found['fraction'] + first_pixel, left - part.x, top - part.y, right - left,
                bottom - top)
            self._run(stream, ('band/labels.cu', 'take_band_fractions'),
                      (-(-fractions.kept_width // FRACTION_THREADS), fractions.kept_height, 1),
                      fractions, (FRACTION_THREADS, 1, 1))

    def _run(self, stream: int, kernel: tuple[str, str], grid: tuple[int, int, int],
             launch: ctypes.Structure, block: tuple[int, int, int] = (THREADS, 1, 1)) -> None:
        compiler.kernel(self._device, *kernel).launch(stream, grid, block, 0, launch)
