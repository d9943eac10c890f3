"""Every setting, declared once: type, default, range, unit, meaning.

ROS parameters, ``--set`` on the command line, the YAML presets and the reference table in
``docs/parameters.md`` all come from, or are checked against, the two classes below.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import typing
from collections.abc import Iterable, Mapping
from typing import Any

from stereo_bp_ros.errors import ConfigError
from stereo_bp_ros.parameter_files import load_preset
from stereo_bp_ros.settings import Setting, Settings, Value, setting

ALGORITHMS = ('sad', 'bp', 'tiled_bp')      # position = the number that stereo_image_proc gives it
LARGEST_FLOAT16 = 65504
LARGEST_INT16 = 32767
#: Finer steps of a grey value's cost than 1 / 128 change no map that was measured.
LARGEST_SCALE = 128


@dataclasses.dataclass(frozen=True)
class MatcherConfig(Settings):
    """What is computed, and on what. See ``docs/parameters.md`` for the table.

    :raises ConfigError: a value or a combination is refused; the text names it and the limit.
    """

    stereo_algorithm: str = setting(
        'bp', 'matching algorithm: SAD block matching, hierarchical or tiled belief propagation',
        choices=ALGORITHMS, aliases=dict(enumerate(ALGORITHMS)))
    min_disparity: int = setting(
        0, 'first disparity of the search', -2048, 2048, unit='pixels')
    disparity_range: int = setting(
        64, 'number of disparities searched', 2, 512, unit='pixels')
    reference_image: str = setting(
        'left', 'image whose pixels get a disparity', choices=('left', 'right'))

    smoothing_sigma: float = setting(
        0.0, 'standard deviation of the Gaussian before matching, 0 = none', 0, 10,
        unit='pixels')
    preprocessing: str = setting(
        'sobel_x', 'image that is matched: grey values, Sobel x derivative, Sobel gradient '
        'magnitude, or the residual of a box mean',
        choices=('none', 'sobel_x', 'sobel', 'residual'))
    sobel_scale: float = setting(
        0.25, 'factor on the Sobel derivatives', 0.001, 16)
    prefilter_cap: float = setting(
        63.0, 'bound of the absolute preprocessed value (sobel_x, sobel), 0 = none', 0, 2048,
        unit='grey levels')
    residual_window_size: int = setting(
        3, 'side of the box whose mean the residual subtracts', 3, 51, odd=True,
        unit='pixels')
    residual_iterations: int = setting(
        1, 'how often the residual subtracts its mean', 1, 10)
    mono16_scale: float = setting(
        0.00390625, 'factor from 16-bit values to grey values 0..255', 1e-6, 255)

    message_type: str = setting(
        'int16', 'number type of the messages of belief propagation; float16 is storage only, '
        'sums take 32 bits', choices=('float32', 'float16', 'int16'))
    exact: bool = setting(
        False, 'reproduce the reference maps bit by bit (float32 messages, slower; on CUDA only '
        'with message_storage or message_layout)')
    levels: int = setting(
        5, 'levels of the pyramid of belief propagation', 1, 10)
    iterations: int = setting(
        7, 'iterations per level; one updates one colour of the checkerboard', 0, 1000)
    tile_size: int = setting(
        13, 'side of the tiles of tiled_bp', 2, 64, unit='pixels')
    outer_iterations: int = setting(
        1, 'how often tiled_bp visits all tiles, in raster and then in reverse raster order', 1,
        1000)
    inner_iterations: int = setting(
        1, 'sweeps right, left, down and up of a visit to a tile', 1, 1000)
    message_computation: str = setting(
        'plain', 'how tiled_bp lowers messages: plain, in O(D), or fast, each label by itself, '
        'compared with those whose step costs less than the truncation',
        choices=('plain', 'fast'))
    tile_schedule: str = setting(
        'auto', 'how tiles wait on CUDA: auto is the fastest; speculative: not at all, but again '
        'until nothing changes; rows: blocks follow each other down the image; cooperative, '
        'lock_free: a barrier after, or launches: a launch for each diagonal',
        choices=('auto', 'speculative', 'rows', 'cooperative', 'lock_free', 'launches'))
    tile_synchronisation: str = setting(
        'needed', 'whether threads of a tile wait only where they must, or before and after every '
        'message (CUDA; not with speculative or rows)', choices=('needed', 'all'))
    data_weight: float = setting(0.15, 'weight of the data cost', 0.0001, 1000)
    data_truncation: float = setting(
        20.0, 'bound of the absolute difference in the data cost', 0.01, 4096,
        unit='grey levels')
    discontinuity_slope: float = setting(0.5, 'slope of the smoothness cost', 0.0001, 1000)
    discontinuity_truncation: float = setting(
        6.0, 'bound of the smoothness cost; 0 = disparity_range / 7.5', 0, 10000)

    message_storage: str = setting(
        'auto', 'to repeat the LCPC 2010 paper on CUDA: where the values of a message lie while '
        'it is computed; auto = the fast kernels. hybrid: storage_registers, storage_shared, and '
        'the rest local; both 0 = as stereo_bp tune has found, else all local',
        choices=('auto', 'register', 'shared', 'local', 'hybrid'))
    storage_registers: int = setting(
        0, 'values of a message in registers with message_storage hybrid', 0, 512)
    storage_shared: int = setting(
        0, 'values of a message in shared memory with message_storage hybrid', 0, 512)
    storage_block_width: int = setting(
        32, 'width of the blocks of the message kernel of that paper', 1, 1024, unit='threads')
    storage_block_height: int = setting(
        4, 'height of the blocks of the message kernel of that paper', 1, 1024, unit='threads')
    storage_blocks: int = setting(
        1, 'such blocks that a multiprocessor can hold at least: bounds their registers', 1, 32)
    message_layout: str = setting(
        'auto', 'to repeat the GPU + CPU paper: order of costs and messages in a row; auto = that '
        'of the fast kernels, or disparity_major where message_storage is not auto',
        choices=('auto', 'disparity_major', 'pixel_major'))
    aligned_rows: bool = setting(
        True, 'pad rows to multiples of 16 values in the layouts of that paper')
    allocation: str = setting(
        'once', 'memory of that paper: allocated once for all frames, or in every frame as a '
        'single block, or in every frame and level as separate arrays',
        choices=('once', 'single', 'separate'))
    packed_halves: bool = setting(
        False, 'that paper on CUDA: compute float16 messages in pairs of 16 bits (half2)')
    vectorised: bool = setting(
        True, 'that paper on the CPU: send messages with vectors, not one pixel at a time')

    correlation_window_size: int = setting(
        15, 'side of the SAD window', 1, 51, odd=True, unit='pixels')
    sad_variant: str = setting(
        'auto', 'how SAD reads the images on CUDA: auto is the fastest; the others sum every '
        'window by itself, from global memory, or from rows on chip that one thread or all '
        'threads of a block load', choices=('auto', 'global', 'shared_one', 'shared_all'))

    uniqueness_ratio: float = setting(
        0.0, 'margin by which the best match must beat every other but its neighbours; of the '
        'best SAD, or of the largest data cost of a pixel (bp); 0 = off', 0, 100,
        unit='per cent', live=True)
    texture_threshold: int = setting(
        0, 'least sum of the absolute clipped Sobel x derivative over the window; 0 = off',
        0, 1000000, unit='grey levels', live=True)
    subpixel: bool = setting(
        True, 'refine disparities by a parabola through three costs', live=True)
    disp12_max_diff: int = setting(
        0, 'largest difference in the left-right check; 0 = off', 0, 128, unit='pixels',
        live=True)
    median_window_size: int = setting(
        0, 'side of the median filter: 0 (off), 3 or 5', 0, 5, unit='pixels', live=True)
    speckle_size: int = setting(
        0, 'regions of at most this many pixels are removed; 0 = off', 0, 100000,
        unit='pixels', live=True)
    speckle_range: float = setting(
        1.0, 'largest step between neighbours of one region', 0, 128, unit='pixels', live=True)
    filling: str = setting(
        'none', 'value of invalid pixels inside the valid window: none, or the smaller of '
        'the nearest valid disparities left and right', choices=('none', 'background'),
        live=True)
    border: str = setting(
        'invalid', 'pixels outside the valid window: invalid, or keep the guess of belief '
        'propagation', choices=('invalid', 'keep'), live=True)
    pre_adjust_disparity: bool = setting(
        True, 'subtract cx_left - cx_right from the published disparities', live=True)

    max_image_width: int = setting(
        8192, 'widest image accepted', 16, 65536, unit='pixels', live=True)
    max_image_height: int = setting(
        8192, 'highest image accepted', 16, 65536, unit='pixels', live=True)
    memory_limit: int = setting(
        0, 'bytes that one engine may allocate; 0 = 80 % of what is there; larger images are '
        'matched in partitions (bp) or refused', 0, 2**50,
        unit='bytes')
    partition_columns: int = setting(
        0, 'partitions side by side that an image is cut into (bp); 0 = as many as the memory '
        'calls for', 0, 256)
    partition_rows: int = setting(
        0, 'partitions one above the other; 0 = as many as the memory calls for', 0, 256)
    partition_padding: int = setting(
        64, 'pixels that a partition goes on for at least where it was cut', 1, 1024,
        unit='pixels')
    backend: str = setting(
        'auto', 'what computes: cuda, cpu, or auto for the first of the two that works here',
        choices=('auto', 'cuda', 'cpu'))
    device_id: int = setting(
        0, 'number of the CUDA device', 0, 63)
    num_threads: int = setting(
        0, 'threads of the CPU back end; 0 = all cores', 0, 1024)

    def check(self) -> None:
        if self.median_window_size not in (0, 3, 5):
            raise ConfigError('median_window_size', self.median_window_size,
                              'must be 0 (off), 3 or 5')
        if self.exact and self.message_type != 'float32':
            raise ConfigError('exact', self.exact,
                              f'needs message_type float32, which is {self.message_type}')
        if self.is_belief_propagation and self.message_type == 'int16':
            self.message_scale()
        if self.stereo_algorithm == 'bp' and self.message_type == 'float16':
            self._check_float16()
        if self.stereo_algorithm == 'tiled_bp':
            self._check_tiles()
        if self.stereo_algorithm == 'sad' and self.border == 'keep':
            raise ConfigError('border', self.border,
                              'SAD has no result outside the valid window: use invalid')

    @property
    def is_belief_propagation(self) -> bool:
        """Whether there are messages, of whichever algorithm."""
        return self.stereo_algorithm in ('bp', 'tiled_bp')

    @property
    def truncation(self) -> float:
        """The bound of the smoothness cost, with 0 resolved to disparity_range / 7.5."""
        return self.discontinuity_truncation or self.disparity_range / 7.5

    @property
    def largest_cost(self) -> float:
        """The largest data cost of a pixel in units of the messages."""
        return self.message_scale() * self.data_weight * self.data_truncation

    @property
    def repeats_papers(self) -> bool:
        """Whether belief propagation runs in the papers' plain steps, see ``docs/storage.md``."""
        return self.stereo_algorithm == 'bp' and (
            self.message_storage != 'auto' or self.message_layout != 'auto')

    def message_scale(self) -> int:
        """S, the factor from costs to messages (``docs/algorithms.md``, message types).

        1 for float32. For 16 bits the whole number that makes data_weight, discontinuity_slope
        and discontinuity_truncation times S most nearly whole, so that what is rounded hardly
        differs from what is meant: from a quarter of the largest S that fits, or of 128, up to
        it; the smallest of equals.

        :raises ConfigError: int16, and no S keeps the slope or the costs above 0.
        """
        if self.message_type == 'float32':
            return 1
        if self.message_type == 'float16':
            # Whole numbers up to here are exact in float16. Where sums are so, too, they reach
            # four truncations before they are cut.
            largest = max(self.data_weight * self.data_truncation,
                          self.truncation * (4 if self.packed_halves else 1))
            return _wholest_scale(self, 2048 / largest) or 1
        pixels, truncations = _largest_sum(self)
        bound = (self.data_weight * self.data_truncation * pixels
                 + truncations * self.truncation)
        scale = _wholest_scale(self, LARGEST_INT16 / bound)
        if scale == 0:
            of_levels = f'levels {self.levels}, ' if self.stereo_algorithm == 'bp' else ''
            raise ConfigError(
                'message_type', self.message_type,
                f'with {of_levels}data_weight {self.data_weight:g}, data_truncation '
                f'{self.data_truncation:g} and discontinuity_slope {self.discontinuity_slope:g} '
                'its 16 bits cannot hold costs and slope: use float32'
                + (' or fewer levels' if of_levels else ''))
        return scale

    def message_smoothness(self) -> tuple[float, float]:
        """Slope and truncation of the smoothness cost in units of the messages."""
        scale = self.message_scale()
        slope, truncation = scale * self.discontinuity_slope, scale * self.truncation
        if self.message_type == 'int16':
            return round_half_up(slope), round_half_up(truncation)
        return slope, truncation

    def _check_float16(self) -> None:
        """Refuse costs and messages that float16 cannot hold.

        :raises ConfigError: the largest sum of them exceeds ``LARGEST_FLOAT16``.
        """
        largest = (self.data_weight * self.data_truncation * 4.0 ** (self.levels - 1)
                   + 3 * self.truncation)
        if largest > LARGEST_FLOAT16:
            raise ConfigError(
                'message_type', self.message_type,
                f'with levels {self.levels}, data_weight {self.data_weight:g} and '
                f'data_truncation {self.data_truncation:g} sums reach {largest:.0f}, and its '
                f'largest number is {LARGEST_FLOAT16}: use float32 or fewer levels')

    def _check_tiles(self) -> None:
        """Refuse what tiled belief propagation has not, with a ``ConfigError``."""
        if self.message_type == 'float16':
            raise ConfigError('message_type', self.message_type,
                              'tiled_bp has messages of int16 or float32')
        if self.exact:
            raise ConfigError('exact', self.exact,
                              'the reference maps are those of stereo_algorithm bp')
        if self.tile_schedule == 'speculative' and self.inner_iterations > 1:
            raise ConfigError('inner_iterations', self.inner_iterations,
                              'tile_schedule speculative has one: use rows or auto')
        if self.tile_synchronisation == 'all' and self.tile_schedule in ('speculative', 'rows'):
            raise ConfigError('tile_synchronisation', self.tile_synchronisation,
                              f'tile_schedule {self.tile_schedule} has several tiles at once in a '
                              'block: use cooperative, lock_free or launches')

    def is_live_change(self, other: MatcherConfig) -> bool:
        """Whether going from one configuration to the other needs no new engine."""
        known = self.settings()
        return all(known[name].live for name in self.differences(other))

    @classmethod
    def preset(cls, name: str, **changes: Any) -> MatcherConfig:
        """A shipped set of settings by name (``preset_names()``), with some changed.

        :raises ConfigError: there is no preset of this name, or a change is refused.
        """
        return typing.cast(MatcherConfig, cls.from_mapping({**load_preset(name), **changes}))


@dataclasses.dataclass(frozen=True)
class NodeConfig(Settings):
    """How the ROS node receives, pairs and publishes.

    :raises ConfigError: a value or a combination is refused; the text names it and the limit.
    """

    preset: str = setting(
        '', 'shipped set of settings that the defaults of all others come from', read_only=True)
    autostart: bool = setting(
        True, 'configure and activate without being asked', read_only=True)
    image_width: int = setting(
        0, 'width that configure prepares the engine for; 0 = from the first camera_info', 0,
        65536, unit='pixels', read_only=True)
    image_height: int = setting(
        0, 'height that configure prepares the engine for; 0 = from the first camera_info', 0,
        65536, unit='pixels', read_only=True)

    image_transport: str = setting(
        'raw', 'raw images, or compressed ones on <topic>/compressed',
        choices=('raw', 'compressed'), read_only=True)
    approximate_sync: bool = setting(
        False, 'pair images whose stamps differ by up to the tolerance', live=True)
    approximate_sync_tolerance_seconds: float = setting(
        0.01, 'largest difference of the stamps of a pair with approximate_sync', 0, 10,
        unit='seconds', live=True)
    queue_size: int = setting(
        5, 'images of each side kept while waiting for the other', 1, 1000, live=True)
    use_system_default_qos: bool = setting(
        False, 'subscribe with the system default QoS, not SensorDataQoS', read_only=True)

    max_input_age: float = setting(
        0.5, 'pairs older than this when taken to be matched are dropped as stale; 0 = off', 0,
        3600, unit='seconds', live=True)
    max_latency: float = setting(
        0.0, 'results later than this after their stamp are dropped as late; 0 = off', 0, 3600,
        unit='seconds', live=True)
    jump_threshold: float = setting(
        1.0, 'stamps going back by more than this are a restart of the clock or the bag', 0,
        3600, unit='seconds', live=True)
    input_timeout: float = setting(
        1.0, 'a topic silent for this long is an error in /diagnostics', 0.01, 3600,
        unit='seconds', live=True)
    min_valid_fraction: float = setting(
        0.05, 'a frame with a smaller part of valid pixels in its window is a warning', 0, 1,
        live=True)
    latency_budget_ms: float = setting(
        100.0, 'a 95th percentile of the total latency above this is a warning; 0 = off', 0,
        60000, unit='ms', live=True)
    on_device_loss: str = setting(
        'exit', 'after the loss of the GPU: exit with an error status, or go on on the CPU',
        choices=('exit', 'cpu'), live=True)

    prefilter_size: int = setting(
        9, 'accepted for stereo_image_proc and ignored: its default prefilter has no window',
        0, 255)
    P1: float = setting(
        200.0, 'accepted for stereo_image_proc and ignored: belongs to semi-global matching', 0,
        4000)
    P2: float = setting(
        400.0, 'accepted for stereo_image_proc and ignored: belongs to semi-global matching', 0,
        4000)
    sgbm_mode: int = setting(
        0, 'accepted for stereo_image_proc and ignored: belongs to semi-global matching', 0, 3)

    def check(self) -> None:
        if self.preset:
            load_preset(self.preset)
        if bool(self.image_width) != bool(self.image_height):
            raise ConfigError('image_height', self.image_height,
                              f'image_width is {self.image_width}: set both, or neither')


#: Settings of NodeConfig that are accepted for drop-in use and have no effect.
IGNORED = ('prefilter_size', 'P1', 'P2', 'sgbm_mode')


@functools.lru_cache(maxsize=64)
def _wholest_scale(config: MatcherConfig, most: float) -> int:
    """The S of ``message_scale`` that is at most ``most``; 0 = there is none."""
    most = min(most, LARGEST_SCALE)
    best, least = 0, math.inf
    pixels, truncations = _largest_sum(config)
    for scale in range(math.floor(most / 4) + 1, math.floor(most) + 1):
        slope, truncation = (round_half_up(scale * value) for value in
                             (config.discontinuity_slope, config.truncation))
        # Rounding to whole numbers can lift the largest sum over 16 bits.
        largest = (round_half_up(scale * config.data_weight * config.data_truncation) * pixels
                   + truncations * truncation)
        if config.message_type == 'int16' and (slope == 0 or largest > LARGEST_INT16):
            continue
        error = max(abs(round_half_up(scale * value) / (scale * value) - 1) for value in
                    (config.data_weight, config.discontinuity_slope, config.truncation))
        if error < least - 1e-9:        # what float64 leaves of whole numbers is none
            best, least = scale, error
    return best


def _largest_sum(config: MatcherConfig) -> tuple[int, int]:
    """Data costs of a pixel and truncations in the largest sum on the way (tiled: with steps)."""
    return (1, 8) if config.stereo_algorithm == 'tiled_bp' else (4 ** (config.levels - 1), 3)


def round_half_up(value: float) -> int:
    """floor(value + 0.5), in float64."""
    return math.floor(value + 0.5)


def all_settings() -> dict[str, Setting]:
    """Every setting of both classes by name."""
    return {**MatcherConfig.settings(), **NodeConfig.settings()}


def split(values: Mapping[str, Any]) -> tuple[MatcherConfig, NodeConfig]:
    """Both configurations from one flat mapping of names to values.

    :raises ConfigError: an unknown name, a refused value or a refused combination.
    """
    matcher = MatcherConfig.settings()
    return (MatcherConfig.from_mapping({k: v for k, v in values.items() if k in matcher}),
            NodeConfig.from_mapping({k: v for k, v in values.items() if k not in matcher}))


def parse_assignments(assignments: Iterable[str]) -> dict[str, Value]:
    """``['key=value', ...]`` of a command line as settings.

    :raises ConfigError: no '=', an unknown name or a refused value.
    """
    known = all_settings()
    values: dict[str, Value] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition('=')
        if not equals:
            raise ConfigError(assignment, text, 'settings are written key=value')
        if name not in known:
            raise ConfigError(name, text, 'there is no setting of this name')
        values[name] = known[name].parse(text)
    return values
