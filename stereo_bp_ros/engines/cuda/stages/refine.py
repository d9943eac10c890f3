"""Stage ``refine``: from labels to disparity, depth and confidence."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Collection, Mapping
from typing import NamedTuple

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.config import quantisation
from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines import colors, geometry
from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.hierarchical.formats import MessageFormat
from stereo_bp_ros.engines.cuda.runtime import compiler
from stereo_bp_ros.engines.cuda.runtime.structures import declared_in
from stereo_bp_ros.engines.plan import needs_confidence
from stereo_bp_ros.frame.disparity_frame import OUTPUTS

#: File and name of every kernel of the stage.
KERNELS = (*(('frame/refine.cu', name)
             for name in ('reject_matches', 'refine_matches', 'median<3>', 'median<5>',
                          'publish_matches', 'fill_matches', 'publish_filled')),
           *(('frame/confidence.cu', name) for name in ('add_confidences', 'judge_pixels')),
           *(('frame/planes.cu', name) for name in ('interpolate_rows', 'fill_planes')),
           *(('frame/bilateral.cu', f'smooth<{is_along_x}>') for is_along_x in ('true', 'false')),
           *(('frame/speckles.cu', name) for name in ('label_tiles', 'join_tiles', 'add_regions')))
BLOCK = (32, 8, 1)
ROW_BLOCK = 256

#: Pixels of a tile's side in ``speckles.cu``.
TILE = 32

#: Side of a cell of ``planes.cu``, and cells of a block, a warp for each.
CELL, CELLS = 8, 4

#: Outputs that kernels which select labels have registers for.
LIGHT = frozenset(('disparity', 'depth', 'fixed_disparity'))


class Steps(NamedTuple):
    """What live settings and outputs call for; one CUDA graph each.

    outputs: names of ``OUTPUTS``; fraction: of a pixel; costs: minimum and second lowest
    belief; right, texture: inputs of the left-right check and the texture threshold; median:
    side of the filter, 0 = none; speckles: small regions are removed; fills: invalid pixels are
    filled; planes: so are those that are not trusted, with planes; passes: of the bilateral
    filter; confidence: it is computed; judges: confidence or contrast leave pixels out;
    contrast: it is asked for; keeps: the finished disparity stays on the device, or has other
    forms than the light ones.
    """

    outputs: frozenset[str]
    fraction: bool
    costs: bool
    right: bool
    texture: bool
    median: int
    speckles: bool
    fills: bool
    planes: bool
    passes: int
    confidence: bool
    judges: bool
    contrast: bool
    keeps: bool

    @property
    def is_filtered(self) -> bool:
        """Whether something lies between rejection and publication."""
        return bool(self.median or self.speckles or self.fills or self.has_map)

    @property
    def has_map(self) -> bool:
        """Whether a map without holes lies between rejection and publication."""
        return bool(self.planes or self.passes or self.confidence or self.judges)

    @property
    def is_local(self) -> bool:
        """Whether a pixel is refined from its own label alone."""
        return not (self.is_filtered or self.right or self.keeps)


def steps(config: ResolvedConfig, outputs: Collection[str], is_reduced: bool = False) -> Steps:
    """The steps of a frame, of reduced images or of those of full size."""
    fills, planes = config.filling != 'none', config.filling == 'plane'
    has_confidence = needs_confidence(config, outputs)
    return Steps(
        outputs=frozenset(outputs), fraction=config.subpixel,
        costs=config.uniqueness_ratio > 0 or has_confidence, right=config.disp12_max_diff > 0,
        texture=config.texture_threshold > 0, median=config.median_window_size,
        speckles=config.speckle_size > 0, fills=fills, planes=planes,
        passes=config.bilateral_passes, confidence=has_confidence,
        judges=not fills and (config.confidence_threshold > 0 or config.contrast_threshold > 0),
        contrast=not fills and config.contrast_threshold > 0,
        keeps=is_reduced or not LIGHT.issuperset(outputs))


@declared_in('frame/refine.cuh')
class Parameters(ctypes.Structure):
    """What may change between two frames of one graph; ``Parameters`` in ``refine.cuh``."""

    def bind(self, targets: Mapping[str, int]) -> None:
        """Say where each output goes, and 'final'; what is missing is not written."""
        for name in (*OUTPUTS, 'final'):
            setattr(self, name, targets.get(name))

    def fill(self, config: ResolvedConfig, calibration: Calibration | None) -> None:
        """Take over live settings and calibration."""
        shift = calibration.shift if calibration is not None else 0.0
        if config.is_belief_propagation:
            self.largest_cost = quantisation.largest_cost(config) * MessageFormat.of(config).scale
        self.margin = config.uniqueness_ratio / 100 * self.largest_cost
        self.best_factor = 100.0 + config.uniqueness_ratio
        self.texture_threshold = float(config.texture_threshold)
        self.published_shift = shift if config.pre_adjust_disparity else 0.0
        self.shift = shift
        self.focal_baseline = (calibration.focal_px * calibration.baseline_m
                               if calibration is not None else 0.0)
        self.is_subpixel = config.subpixel
        self.is_unique = config.uniqueness_ratio > 0
        self.is_textured = config.texture_threshold > 0
        self.keeps_border = config.border == 'keep'
        self.fills = config.filling != 'none'
        self.bilateral_factor = quantisation.bilateral_factor(config)
        self.needs_partner = config.disp12_max_diff > 0 or (
            config.has_combined_cost and config.border != 'keep')
        self.max_difference = config.disp12_max_diff
        self.confidence_threshold = config.confidence_threshold
        self.contrast_threshold = config.contrast_threshold
        self.plane_threshold = quantisation.plane_threshold(config)
        self.speckle_size = config.speckle_size
        self.speckle_range = round(16 * config.speckle_range)
        self.color_range = 16 * (config.max_disparity - config.min_disparity)
        self.colors[:] = colors.table(config.color_map).tobytes()
        self._fill_points(config, calibration)

    def _fill_points(self, config: ResolvedConfig, calibration: Calibration | None) -> None:
        self.nearest = config.points_min_depth
        self.farthest = config.points_max_depth or math.inf
        self.decimation = config.points_decimation
        self.wide_scale = config.mono16_scale
        if calibration is not None:
            self.cx = (calibration.cx_left if config.reference_image == 'left'
                       else calibration.cx_right)
            self.cy = calibration.cy
            self.per_column = 1 / calibration.focal_px
            self.per_row = 1 / calibration.focal_y_px


@declared_in('frame/refine.cuh')
class Frame(ctypes.Structure):
    """``Frame`` in ``refine.cuh``."""


@declared_in('frame/refine.cuh')
class Filling(ctypes.Structure):
    """``Filling`` in ``refine.cuh``."""


class Refine:
    """The stage for one configuration and size; live settings come with each frame."""

    def __init__(self, context: Context) -> None:
        self._device, config, width, height, self._arena = context
        window = geometry.matched_window(config, width, height)
        is_sad = config.stereo_algorithm == 'sad'
        self._geometry = {
            'width': width, 'height': height, 'x_begin': window.x_offset,
            'x_end': window.x_offset + window.width, 'y_begin': window.y_offset,
            'y_end': window.y_offset + window.height, 'min_disparity': config.min_disparity,
            'is_mirrored': config.reference_image == 'right', 'is_sad': is_sad,
            'has_float_costs': not is_sad and not MessageFormat.of(config).is_whole}
        self._most = 16 * (config.disparity_range - 1)

    def load(self) -> None:
        """Compile or load what the stage launches, whatever the live settings say."""
        for file, name in KERNELS:
            compiler.kernel(self._device, file, name)

    def enqueue(self, stream: int, wanted: Steps, grey: str) -> None:
        """Everything from labels to outputs.

        :param grey: 'grey' or 'values', the end of the name of the grey values.
        """
        frame = self.frame()
        if not wanted.is_filtered:
            self._launch('refine_matches', stream, frame, self._pixels(1))
            return
        self._launch('reject_matches', stream, frame, self._pixels(1))
        frame.filtered = frame.sixteenths
        if wanted.median:
            frame.filtered = self._arena.device['filtered']
            self._launch(f'median<{wanted.median}>', stream, frame, self._pixels(2))
        if wanted.speckles:
            self._find_speckles(stream, frame)
        else:
            frame.regions = None
        rows = (frame.height, 1, 1), (ROW_BLOCK, 1, 1), 4 * -(-frame.width // 32)
        if not wanted.has_map:
            self._launch('publish_matches', stream, frame, *rows)
            return
        device = self._arena.device
        filling = Filling(
            frame, device['filled'], device['smoothed'], device['row_sums'], device['row_values'],
            device['judged_confidence'] if wanted.confidence else None, device[f'left_{grey}'],
            device['contrast'] if wanted.contrast else None, self._most, grey == 'values')
        self._launch('fill_matches', stream, filling, *rows)
        if wanted.confidence:
            self._launch('add_confidences', stream, filling,
                         (-(-frame.width // ROW_BLOCK), frame.height, 1), (ROW_BLOCK, 1, 1),
                         file='frame/confidence.cu')
            self._launch('judge_pixels', stream, filling, self._pixels(1),
                         file='frame/confidence.cu')
        if wanted.planes:
            self._launch('interpolate_rows', stream, filling, *rows, file='frame/planes.cu')
            cells = -(-frame.width // (CELL * CELLS)), -(-frame.height // CELL), 1
            self._launch('fill_planes', stream, filling, cells, (32, CELLS, 1),
                         file='frame/planes.cu')
        for is_along_x in ('true', 'false') * wanted.passes:
            self._launch(f'smooth<{is_along_x}>', stream, filling, self._pixels(1),
                         file='frame/bilateral.cu')
        self._launch('publish_filled', stream, filling, self._pixels(1))

    def _find_speckles(self, stream: int, frame: Frame) -> None:
        """Regions and their sizes."""
        width, height = frame.width, frame.height
        tiles = (-(-width // TILE), -(-height // TILE), 1)
        on_edges = (tiles[1] - 1) * width + (tiles[0] - 1) * height
        self._launch('label_tiles', stream, frame, tiles, (TILE, TILE, 1),
                     file='frame/speckles.cu')
        for name, threads in (('join_tiles', on_edges), ('add_regions', width * height)):
            if threads:
                self._launch(name, stream, frame, (-(-threads // ROW_BLOCK), 1, 1),
                             (ROW_BLOCK, 1, 1), file='frame/speckles.cu')

    def _pixels(self, rows: int) -> tuple[int, int, int]:
        """Blocks where a thread has so many pixels, one below the other."""
        return (-(-self._geometry['width'] // BLOCK[0]),
                -(-self._geometry['height'] // (rows * BLOCK[1])), 1)

    def frame(self) -> Frame:
        """What every kernel of the stage is given."""
        device = self._arena.device
        names = ('parameters', 'label', 'fraction', 'best', 'second', 'right_label', 'texture',
                 'sixteenths', 'filtered', 'regions', 'region_sizes', 'ended')
        return Frame(**{name: device[name] for name in names}, **self._geometry,
                     stamp=self._arena.stamp('refine'), end=self._arena.stamp('end'))

    def _launch(self, name: str, stream: int, frame: Frame | Filling,
                grid: tuple[int, int, int], block: tuple[int, int, int] = BLOCK,
                shared_bytes: int = 0, file: str = 'frame/refine.cu') -> None:
        compiler.kernel(self._device, file, name).launch(stream, grid, block, shared_bytes, frame)
