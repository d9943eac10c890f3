"""Stage ``cost`` of multi-feature costs: features, data costs, path aggregation, pyramid."""

from __future__ import annotations

import ctypes

from stereo_bp_ros.config import quantisation
from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.costs import features, terms
from stereo_bp_ros.engines.cuda.hierarchical import formats
from stereo_bp_ros.engines.cuda.hierarchical.cost_formats import CostFormat
from stereo_bp_ros.engines.cuda.runtime import compiler
from stereo_bp_ros.engines.cuda.runtime.structures import declared_in
from stereo_bp_ros.engines.geometry import Wanted
from stereo_bp_ros.engines.partitions import Partition, Partitioning

#: Pixels and rows of a block of ``combine_costs``; as in ``combine.cu``.
ROW_WIDTH, ROWS = 64, 4

#: Threads of a block of ``follow_paths``; as in ``path_aggregation.cu``.
PATH_THREADS = 128

#: Pixels of a block of ``arrange_costs`` and threads, nodes of a block of ``add_children`` and the
#: most warps; as in ``pyramid.cu``.
ARRANGED, ARRANGING, NODES, MAX_WARPS = 32, 256, 32, 8

#: Sides from which paths come.
SIDES = 4

#: No cost of a coarser level is above so many truncations.
MAX_TRUNCATIONS = 4


@declared_in('costs/combine.cu')
class CombineLaunch(ctypes.Structure):
    """``CombineLaunch`` in ``combine.cu``."""


@declared_in('costs/path_aggregation.cu')
class PathLaunch(ctypes.Structure):
    """``PathLaunch`` in ``path_aggregation.cu``."""


@declared_in('costs/pyramid.cu')
class ArrangeLaunch(ctypes.Structure):
    """``ArrangeLaunch`` in ``pyramid.cu``."""


@declared_in('costs/pyramid.cu')
class CoarserLaunch(ctypes.Structure):
    """``CoarserLaunch`` in ``pyramid.cu``."""


def arrays(config: ResolvedConfig, image: tuple[int, int], parts: Partitioning) -> Wanted:
    """The features of whole images, and the volumes of one partition.

    :param image: height and width, pixels.
    """
    volume = parts.height, parts.width, terms.padded_labels(config.disparity_range)
    wanted = [*features.arrays(config, image), ('data_cost', volume, 'uint8')]
    if config.path_aggregation:
        wanted.append(('path_costs', (SIDES, *volume), 'uint8'))
    return wanted


def kernels(config: ResolvedConfig, image: str) -> list[tuple[str, str]]:
    """File and name of the kernels of this stage.

    :param image: type of the pixels that features are made of, 'uint8' or 'float'.
    """
    names = [features.kernel(config, image), _combined(config), _arranged(config),
             *(_coarser(config, k) for k in range(1, config.levels))]
    return sorted({*names, _paths(config)} if config.path_aggregation else {*names})


def _combined(config: ResolvedConfig) -> tuple[str, str]:
    return 'costs/combine.cu', f'combine_costs<{config.disparity_range}, {features.kinds(config)}>'


def _paths(config: ResolvedConfig) -> tuple[str, str]:
    return 'costs/path_aggregation.cu', f'follow_paths<{config.disparity_range}>'


def _arranged(config: ResolvedConfig) -> tuple[str, str]:
    volumes = SIDES if config.path_aggregation else 1
    return 'costs/pyramid.cu', f'arrange_costs<{config.disparity_range}, {volumes}>'


def _coarser(config: ResolvedConfig, level: int) -> tuple[str, str]:
    kind = CostFormat.of(config, level - 1).name
    return 'costs/pyramid.cu', f'add_children<{kind}, {config.disparity_range}>'


def _truncation(config: ResolvedConfig) -> int:
    return int(quantisation.message_smoothness(config)[1])


class CombinedCost:
    """The stage for one configuration and size; takes the place of ``hierarchical.cost.Cost``.

    Features are of the whole images, volumes and levels of one partition.

    :param parts: how the image is cut.
    """

    def __init__(self, context: Context, parts: Partitioning) -> None:
        config, found = context.config, context.arena.device
        self._device, self._config = context.device, config
        self._first = parts.partitions[0]
        self._levels = formats.levels(config, parts.width, parts.height)
        self._features = features.Features(context)
        self._combine = self._combine_launch(context, parts)
        self._follow = PathLaunch(found['data_cost'], found.get('path_costs'), parts.width,
                                  parts.height, config.path_step_penalty,
                                  config.path_jump_penalty)
        volumes = found['path_costs' if config.path_aggregation else 'data_cost']
        self._arrange = ArrangeLaunch(volumes, found['cost_0'], *self._levels[0])
        self._coarser = [
            CoarserLaunch(found[f'cost_{k - 1}'], found[f'cost_{k}'], *self._levels[k - 1],
                          *self._levels[k], MAX_TRUNCATIONS * _truncation(config))
            for k in range(1, len(self._levels))]

    def load(self, image: str, _has_whole_grey: bool = True, _base: str | None = None) -> None:
        """Compile or load what ``enqueue`` of such images launches."""
        for file, name in kernels(self._config, image):
            compiler.kernel(self._device, file, name)

    def initialise(self, stream: int) -> None:
        """Nothing stays the same in every frame."""

    def enqueue(self, stream: int, image: str, _has_whole_grey: bool, left: int, right: int,
                part: Partition, stamp: int | None, _base: str | None = None) -> None:
        """Fill the costs of every level of a partition.

        The first partition of a frame makes the features of the whole images.

        :param image: 'uint8' or 'float'; ``left`` and ``right``: addresses of such pixels.
        :param stamp: address of the time at which the stage starts; None = not wanted.
        """
        config, level = self._config, self._levels[0]
        if part == self._first:
            self._features.enqueue(stream, image, left, right, stamp)
        self._combine.first_x, self._combine.first_y = part.x, part.y
        self._run(stream, _combined(config),
                  (-(-level.width // ROW_WIDTH), -(-level.height // ROWS), 1), 32 * ROWS,
                  self._combine)
        if config.path_aggregation:
            paths = PATH_THREADS // terms.lanes(config.disparity_range)
            blocks = 2 * (-(-level.width // paths) + -(-level.height // paths))
            self._run(stream, _paths(config), (blocks, 1, 1), PATH_THREADS, self._follow)
        self._run(stream, _arranged(config),
                  (2 * level.columns // ARRANGED * level.height, 1, 1), ARRANGING, self._arrange)
        warps = min(MAX_WARPS, -(-config.disparity_range // formats.CHUNK))
        for k, launch in enumerate(self._coarser, 1):
            self._run(stream, _coarser(config, k),
                      (-(-launch.width // NODES), launch.height, 1), NODES * warps, launch)

    def _run(self, stream: int, kernel: tuple[str, str], grid: tuple[int, int, int],
             threads: int, launch: ctypes.Structure, shared_bytes: int = 0) -> None:
        compiler.kernel(self._device, *kernel).launch(stream, grid, (threads, 1, 1),
                                                      shared_bytes, launch)

    def _combine_launch(self, context: Context, parts: Partitioning) -> CombineLaunch:
        config, found = context.config, context.arena.device
        launch = CombineLaunch(
            cost=found['data_cost'], image_width=context.width, width=parts.width,
            height=parts.height, min_disparity=config.min_disparity,
            outside_cost=config.outside_cost)
        features.bind(launch, context)
        return launch
