"""The settings of the matcher, in the order in which tables show them."""

from __future__ import annotations

import dataclasses
from typing import Any, Union

from stereo_bp_ros.config.settings import Settings, setting
from stereo_bp_ros.papers import programs

#: OpenCV's, ``cv2.COLORMAP_*``.
COLOR_MAPS = ('autumn', 'bone', 'jet', 'winter', 'rainbow', 'ocean', 'summer', 'spring', 'cool',
              'hsv', 'pink', 'hot', 'parula', 'magma', 'inferno', 'plasma', 'viridis', 'cividis',
              'twilight', 'twilight_shifted', 'turbo', 'deepgreen')
CENSUS_WINDOWS = ('5x5', '7x5', '9x7')
ALGORITHMS = ('sad', 'bp', 'tiled_bp')      # position = the number that stereo_image_proc gives it

#: Settings of the images, of what is made of disparities, and of the machine: all others say how
#: is matched, and a preset provides them.
NOT_OF_PRESETS = (
    'min_depth', 'rectify', 'rectified_width', 'rectified_height', 'mono16_scale',
    'pre_adjust_disparity', 'color_map', 'points_decimation', 'points_min_depth',
    'points_max_depth', 'max_image_width', 'max_image_height', 'ignored_checks', 'memory_limit',
    'partition_columns', 'partition_rows', 'partition_padding', 'backend', 'device_id',
    'num_threads')


#: Where settings have no effect; multi-feature costs are those of a weight above 0.
SAD, NOT_BP, NOT_TILED = ('with stereo_algorithm sad', 'with stereo_algorithm sad and tiled_bp',
                          'unless stereo_algorithm is tiled_bp')
COMBINED, NOT_COMBINED = 'with multi-feature costs', 'without multi-feature costs'
SAD_OR_COMBINED = 'with stereo_algorithm sad, and with multi-feature costs'


@dataclasses.dataclass(frozen=True, repr=False)
class MatcherSettings(Settings):
    """What ``MatcherConfig`` is made of, one value at a time."""

    stereo_algorithm: str = setting(
        'bp', 'matching algorithm: SAD block matching, hierarchical or tiled belief propagation',
        choices=ALGORITHMS, aliases=dict(enumerate(ALGORITHMS)))
    program: str = setting(
        'default', programs.MEANING, choices=('default', *programs.PROGRAMS), read_only=True)
    min_disparity: int = setting(
        0, 'first disparity searched', -2048, 2048, unit='pixels')
    disparity_range: int = setting(
        64, 'number of disparities searched', 2, 512, unit='pixels',
        ignored='with min_depth, once a calibration is known')
    min_depth: float = setting(
        0.0, 'nearest depth to measure: once a calibration is known, the search ends there; '
        '0 = off', 0, 1e6, unit='metres')
    downscale: int = setting(
        1, 'reduce images this many times in both directions before matching, which takes a '
        'fraction of the time and loses small objects; results keep the size of the images', 1, 4)
    band_radius: int = setting(
        0, 'search only this many disparities on each side of two estimates from images of half '
        'the size, which takes a fraction of the time and of the memory; 0 = the whole range (bp '
        'with path_aggregation and one level)', 0, 4, unit='pixels')
    reference_image: str = setting(
        'left', 'reference image of the disparity', choices=('left', 'right'))

    rectify: bool = setting(
        False, 'rectify raw images by D, K, R and P of camera_info; the node then subscribes to '
        'image_raw in place of image_rect', read_only=True)
    rectified_width: int = setting(
        0, 'width of the rectified images, to which P is scaled; 0 = that of the raw ones (with '
        'rectify)', 0, 32766, unit='pixels')
    rectified_height: int = setting(
        0, 'height of the rectified images; 0 = that of the raw ones (with rectify)', 0, 32766,
        unit='pixels')
    row_correction: str = setting(
        'off', 'vertical displacement of the right image: off; measure and report it; correct it '
        'once it is significant (node, evaluate, match, replay)',
        choices=('off', 'measure', 'correct'))
    row_correction_limit: float = setting(
        4.0, 'maximum displacement of any place by one term of the correction (offset, roll, '
        'scale, keystone, pitch); a larger one is not corrected',
        0, 16, unit='pixels', live=True, ignored='unless row_correction is correct')

    smoothing_sigma: float = setting(
        0.0, 'standard deviation of the Gaussian filter before matching; 0 = off',
        0, 10, unit='pixels')
    preprocessing: str = setting(
        'sobel_x', 'image that is matched: grey values, Sobel x derivative, Sobel gradient '
        'magnitude, or the residual of a box mean',
        choices=('none', 'sobel_x', 'sobel', 'residual'), ignored=COMBINED)
    sobel_scale: float = setting(
        0.25, 'factor of the Sobel derivatives', 0.001, 16)
    prefilter_cap: float = setting(
        63.0, 'truncation of the absolute preprocessed value (sobel_x, sobel); 0 = off',
        0, 2048, unit='grey levels')
    residual_window_size: int = setting(
        3, 'side of the box filter that the residual subtracts', 3, 51, odd=True, unit='pixels',
        ignored='unless preprocessing is residual, and with multi-feature costs')
    residual_iterations: int = setting(
        1, 'number of times that the residual subtracts its mean', 1, 10,
        ignored='unless preprocessing is residual, and with multi-feature costs')
    mono16_scale: float = setting(
        0.00390625, 'factor from 16-bit values to grey values 0..255', 1e-6, 255,
        ignored='with images of 8 bits')

    message_type: str = setting(
        'int16', 'number type of the messages of belief propagation; float16 (CPU, or program '
        f'{programs.OF_FLOAT16}) is storage only, sums take 32 bits',
        choices=('float32', 'float16', 'int16'), ignored=SAD)
    exact: bool = setting(
        False, 'reproduce the reference maps of bp bit by bit (float32 messages, slower; on '
        'CUDA without partitions)')
    levels: int = setting(
        5, 'levels of the pyramid of belief propagation', 1, 10, ignored=NOT_BP)
    iterations: Union[int, str] = setting(
        7, 'iterations of every level, or of each one, level 0 first, where the last number holds '
        'for the remaining levels (bp with program default); one updates one colour of the '
        'checkerboard', 0, 1000, takes_list=True, ignored=NOT_BP)
    tile_size: int = setting(
        13, 'side of the tiles of tiled_bp', 2, 64, unit='pixels', ignored=NOT_TILED)
    outer_iterations: int = setting(
        1, 'passes of tiled_bp over all tiles, each in raster and then in reverse raster order',
        1, 1000, ignored=NOT_TILED)
    inner_iterations: int = setting(
        1, 'sweeps right, left, down and up of a visit to a tile', 1, 1000, ignored=NOT_TILED)
    data_weight: float = setting(
        0.15, 'weight of the data cost', 0.0001, 1000, ignored=SAD_OR_COMBINED)
    data_truncation: float = setting(
        20.0, 'truncation of the absolute difference in the data cost',
        0.01, 4096, unit='grey levels', ignored=SAD_OR_COMBINED)
    discontinuity_slope: float = setting(
        0.5, 'slope of the truncated linear smoothness cost', 0.0001, 1000, ignored=SAD)
    discontinuity_truncation: float = setting(
        6.0, 'truncation of the smoothness cost; 0 = disparity_range / 7.5', 0, 10000, ignored=SAD)
    discontinuity_first_step: float = setting(
        0.0, 'penalty of a one-label jump (P1 of SGM), at most the slope; 0 = the slope (bp with '
        'int16)', 0, 1000)
    discontinuity_edge_threshold: int = setting(
        0, 'neighbours whose grey values differ by at least this, as the mean of three pairs '
        'side by side, lie at an image edge and get discontinuity_edge_truncation (with the '
        'weights below); 0 = off', 0, 255, unit='grey levels')
    discontinuity_edge_truncation: float = setting(
        20.0, 'truncation of the smoothness cost at image edges', 0.5, 10000,
        ignored='unless discontinuity_edge_threshold is above 0')

    census_weight: float = setting(
        0.0, 'weight of the census cost, the Hamming distance of the bits neighbour < centre. If '
        'one of these four weights is above 0, the data cost is the sum of their costs in whole '
        'numbers up to 255, in place of data_weight (bp with int16)', 0, 16)
    census_window: str = setting(
        '9x7', 'width x height of the window of the census; of the sparse census twice as far',
        choices=CENSUS_WINDOWS, unit='pixels', ignored=NOT_COMBINED)
    sparse_census_weight: float = setting(
        0.0, 'weight of the sparse census cost: the census of the 3 x 3 mean, with neighbours '
        'twice as far away', 0, 16)
    sobel_weight: float = setting(
        0.0, 'weight of the difference of the Sobel x derivatives', 0, 16)
    sobel_bound: int = setting(
        20, 'truncation of this difference', 1, 255, unit='grey levels', ignored=NOT_COMBINED)
    grey_weight: float = setting(0.0, 'weight of the difference of grey values', 0, 16)
    grey_bound: int = setting(
        20, 'truncation of this difference', 1, 255, unit='grey levels', ignored=NOT_COMBINED)
    outside_cost: int = setting(
        20, 'cost of a label whose partner lies outside the other image', 0, 255,
        ignored=NOT_COMBINED)
    path_aggregation: bool = setting(
        False, 'aggregate the data cost along paths from four sides, as semi-global matching '
        'does, before belief propagation (with these weights)')
    path_step_penalty: int = setting(
        15, 'path aggregation: penalty of a one-label jump (P1 of SGM)', 0, 255,
        ignored='without path_aggregation')
    path_jump_penalty: int = setting(
        200, 'path aggregation: penalty of a larger jump (P2 of SGM)', 0, 255,
        ignored='without path_aggregation')

    correlation_window_size: int = setting(
        15, 'side of the window of SAD, and of texture_threshold', 1, 51, odd=True, unit='pixels',
        ignored='unless stereo_algorithm is sad or texture_threshold is above 0')

    uniqueness_ratio: float = setting(
        0.0, 'margin by which the best match must beat all others except its neighbours; '
        'relative to the best SAD, or to the largest data cost of a pixel (bp); 0 = off',
        0, 100, unit='per cent', live=True)
    texture_threshold: int = setting(
        0, 'minimum sum of the absolute truncated Sobel x derivative over the window; 0 = off',
        0, 1000000, unit='grey levels', live=True)
    confidence_threshold: float = setting(
        0.0, 'minimum confidence of a valid pixel; with filling plane, pixels below two thirds of '
        'it are filled, too; 0 = off', 0, 1, live=True, ignored='with filling background')
    contrast_threshold: float = setting(
        0.0, 'minimum range of grey values in every 7 x 7 window that contains a valid pixel of '
        'grey 128 or more: rejects saturated and plain sky; 0 = off',
        0, 255, unit='grey levels', live=True, ignored='unless filling is none')
    subpixel: bool = setting(
        True, 'refine disparities through three costs: by two lines of one slope with sad and '
        'with multi-feature costs, else by a parabola', live=True)
    disp12_max_diff: int = setting(
        0, 'maximum difference in the left-right check; 0 = off', 0, 128, unit='pixels', live=True)
    median_window_size: int = setting(
        0, 'side of the median filter: 0 (off), 3 or 5', 0, 5, unit='pixels', live=True)
    speckle_size: int = setting(
        0, 'remove regions of at most this many pixels; 0 = off',
        0, 100000, unit='pixels', live=True)
    speckle_range: float = setting(
        1.0, 'maximum jump between neighbours of one region; counts sixteenths beside '
        'stereo_algorithm 0, as in stereo_image_proc', 0, 128, unit='pixels', live=True,
        ignored='unless speckle_size is above 0')
    filling: str = setting(
        'none', 'value of invalid pixels inside the valid window: none; background, the smaller '
        'of the nearest valid disparities left and right; plane, where one fits a plane through '
        'pixels of like grey value around',
        choices=('none', 'background', 'plane'), live=True)
    bilateral_passes: int = setting(
        0, 'passes of a bilateral filter over the filled disparity; 0 = off', 0, 10, live=True)
    bilateral_sigma: float = setting(
        2.0, 'standard deviation of the range weights, over differences of disparity',
        0, 100, unit='pixels', live=True, ignored='unless bilateral_passes is above 0')
    border: str = setting(
        'invalid', 'pixels outside the valid window: invalid, or keep the estimate of belief '
        'propagation', choices=('invalid', 'keep'), live=True)
    pre_adjust_disparity: bool = setting(
        True, 'subtract cx_left - cx_right from the published disparities', live=True)
    color_map: str = setting(
        'turbo', 'colors of disparity_color, by their name in OpenCV', choices=COLOR_MAPS,
        live=True)

    points_decimation: int = setting(
        1, 'publish every n-th row and column of points', 1, 256, unit='pixels', live=True)
    points_min_depth: float = setting(
        0.0, 'minimum depth of a point; 0 = off', 0, 1e6, unit='metres', live=True)
    points_max_depth: float = setting(
        0.0, 'maximum depth of a point; 0 = off', 0, 1e6, unit='metres', live=True)

    max_image_width: int = setting(
        8192, 'maximum width of an image', 16, 65536, unit='pixels', live=True)
    max_image_height: int = setting(
        8192, 'maximum height of an image', 16, 65536, unit='pixels', live=True)
    ignored_checks: str = setting(
        '', 'checks of docs/reference/checks.md to skip, separated by commas', live=True)
    memory_limit: int = setting(
        0, 'maximum bytes of one engine; 0 = 80 % of what is free; larger images are matched in '
        'partitions (bp) or rejected', 0, 2**50, unit='bytes')
    partition_columns: int = setting(
        0, 'partitions side by side (bp); 0 = as many as the memory requires', 0, 256)
    partition_rows: int = setting(
        0, 'partitions one above the other (bp); 0 = as many as the memory requires', 0, 256)
    partition_padding: int = setting(
        64, 'minimum padding of a partition on each side where the image is cut',
        1, 1024, unit='pixels')
    backend: str = setting(
        'auto', 'what computes: cuda, cpu, or auto for the first of the two that works here',
        choices=('auto', 'cuda', 'cpu'))
    device_id: int = setting(
        0, 'number of the CUDA device', 0, 63, ignored='on the CPU')
    num_threads: int = setting(
        0, 'threads of the CPU back end; 0 = all cores', 0, 1024, ignored='on CUDA')

    def option(self, name: str, default: Any) -> Any:
        """A setting of the program in use; ``default`` where it has none of this name."""
        return getattr(getattr(self, self.program, None), name, default)

    @property
    def is_belief_propagation(self) -> bool:
        """Whether there are messages, of whichever algorithm."""
        return self.stereo_algorithm in ('bp', 'tiled_bp')

    @property
    def truncation(self) -> float:
        """The bound of the smoothness cost, with 0 resolved to disparity_range / 7.5."""
        return self.discontinuity_truncation or self.disparity_range / 7.5

    @property
    def searches_band(self) -> bool:
        """Whether each pixel has labels of its own, near two estimates.

        A range that has no more labels than both of these is searched whole.
        """
        return self.band_radius > 0 and self.disparity_range > 2 * (2 * self.band_radius + 1)

    @property
    def has_combined_cost(self) -> bool:
        """Whether the data cost is the weighted sum of several costs, in whole numbers."""
        return any((self.census_weight, self.sparse_census_weight, self.sobel_weight,
                    self.grey_weight))
