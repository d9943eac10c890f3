"""From the map of a first pass to labels, over the labels near it."""

from __future__ import annotations

import ctypes

from stereo_bp_ros.config import quantisation
from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines import geometry
from stereo_bp_ros.engines.cuda import memory
from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.costs import features
from stereo_bp_ros.engines.cuda.hierarchical import edges
from stereo_bp_ros.engines.cuda.runtime import compiler
from stereo_bp_ros.engines.cuda.runtime.structures import declared_in
from stereo_bp_ros.engines.cuda.stages import refine, right_labels
from stereo_bp_ros.engines.geometry import Wanted
from stereo_bp_ros.engines.partitions import Partition, Partitioning

#: Threads of a block, as in the files of ``kernels/band``, and of a path; pixels of a block of
#: ``widen_estimates``, and of ``match_band``.
COST_THREADS, PATH_THREADS, MATCH_THREADS, FRACTION_THREADS = 256, 32, 256, 128
PATH_LANES = 4
CENTRE_WIDTH, CENTRE_HEIGHT = 32, 8
BAND_WIDTH, BAND_HEIGHT = 16, 16

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


@declared_in('band/labels.cu')
class BandMatching(ctypes.Structure):
    """``BandMatching`` in ``labels.cu``."""


@declared_in('band/labels.cu')
class BandFractions(ctypes.Structure):
    """``BandFractions`` in ``labels.cu``."""


def arrays(config: ResolvedConfig, image: tuple[int, int], parts: Partitioning) -> Wanted:
    """Everything between the first pass and refinement.

    :param image: height and width, pixels.
    """
    windows = parts.height, parts.width, 4 * words(config.band_radius)
    return [*features.arrays(config, image), ('estimates', image, 'int16'),
            ('centres', (*image, 2), 'int16'), ('data_cost', windows, 'uint8'),
            ('path_costs', (SIDES, *windows), 'uint8'), *edges.arrays(config, parts),
            *memory.matches(config, image)]


def kernels(config: ResolvedConfig, image: str) -> list[tuple[str, str]]:
    """File and name of everything that is launched.

    :param image: type of the pixels that features are made of, 'uint8' or 'float'.
    """
    return [features.kernel(config, image),
            *(('band/centres.cu', name) for name in ('make_estimates', 'widen_estimates')),
            _combined(config),
            *(_kernel(config, file, name) for file, name in (
                ('paths', 'follow_band'), ('labels', 'match_band'),
                ('labels', 'take_band_fractions')))]


def _combined(config: ResolvedConfig) -> tuple[str, str]:
    return 'band/costs.cu', f'combine_band<{config.band_radius}, {features.kinds(config)}>'


def _kernel(config: ResolvedConfig, file: str, name: str) -> tuple[str, str]:
    return f'band/{file}.cu', f'{name}<{config.band_radius}>'


def words(radius: int) -> int:
    """Of a pixel's two windows; as in ``windows.cuh``."""
    return 2 * (-(-(2 * radius + 1) // 4))


class BandStage:
    """The stage for one configuration and size; partitions use the same arrays in turn."""

    def __init__(self, context: Context, parts: Partitioning) -> None:
        self._context, self._parts = context, parts
        self._device, config, self._width, self._height, self._arena = context
        self._config, found = config, context.arena.device
        self._features = features.Features(context)
        self._edges = (edges.Edges(context, parts) if config.discontinuity_edge_threshold
                       else None)
        windows = Windows(found['centres'], context.width, parts.width, parts.height)
        self._costs = BandCostLaunch(windows, cost=found['data_cost'],
                                     min_disparity=config.min_disparity,
                                     outside_cost=config.outside_cost)
        features.bind(self._costs, context)
        self._paths = BandPathLaunch(windows, found['data_cost'], found['path_costs'],
                                     config.path_step_penalty, config.path_jump_penalty)
        slope, truncation = map(int, quantisation.message_smoothness(config))
        self._matching = BandMatching(
            windows, found['path_costs'], found.get('image_edges_0'),
            min(int(quantisation.first_step(config)), truncation), min(slope, truncation),
            truncation, quantisation.edge_truncation(config), labels=config.disparity_range)

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
        for each in (self._costs, self._paths, self._matching):
            each.windows.centres = found['centres'] + 4 * first_pixel
        self._costs.first_x, self._costs.first_y = part.x, part.y
        blocks = -(-width * words(config.band_radius) // COST_THREADS)
        self._run(stream, _combined(config), (blocks, height, 1), self._costs,
                  (COST_THREADS, 1, 1))
        paths = PATH_THREADS // PATH_LANES
        self._run(stream, _kernel(config, 'paths', 'follow_band'),
                  (2 * (-(-width // paths) + -(-height // paths)), 1, 1), self._paths,
                  (PATH_THREADS, 1, 1))
        left, top, right, bottom = part.kept
        launch = self._matching
        launch.label = found['label'] + 2 * first_pixel
        launch.best = found['best'] + 4 * first_pixel if wanted.costs else None
        launch.second = found['second'] + 4 * first_pixel if wanted.costs else None
        launch.right = found['right_keys'] + 8 * part.y * self._width if wanted.right else None
        launch.first_partner = part.x - config.min_disparity
        launch.kept_left, launch.kept_top = left - part.x, top - part.y
        launch.kept_right, launch.kept_bottom = right - part.x, bottom - part.y
        columns = min(width - 1, launch.kept_right) - max(1, launch.kept_left)
        rows = min(height - 1, launch.kept_bottom) - max(1, launch.kept_top)
        if columns > 0 and rows > 0:
            self._run(stream, _kernel(config, 'labels', 'match_band'),
                      (-(-columns // BAND_WIDTH), -(-rows // BAND_HEIGHT), 1), launch,
                      (MATCH_THREADS, 1, 1))
        if wanted.fraction:
            fractions = BandFractions(
                self._costs.windows, found['data_cost'], found['label'] + 2 * first_pixel,
                found['fraction'] + first_pixel, left - part.x, top - part.y, right - left,
                bottom - top)
            self._run(stream, _kernel(config, 'labels', 'take_band_fractions'),
                      (-(-fractions.kept_width // FRACTION_THREADS), fractions.kept_height, 1),
                      fractions, (FRACTION_THREADS, 1, 1))

    def _run(self, stream: int, kernel: tuple[str, str], grid: tuple[int, int, int],
             launch: ctypes.Structure, block: tuple[int, int, int]) -> None:
        compiler.kernel(self._device, *kernel).launch(stream, grid, block, 0, launch)
