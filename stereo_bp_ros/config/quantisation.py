"""From settings to numbers that messages hold: scales, slopes, bounds, and what fits 16 bits."""

from __future__ import annotations

import functools
import math

from stereo_bp_ros.config.matcher_settings import MatcherSettings
from stereo_bp_ros.errors import ConfigError

MAX_FLOAT16 = 65504
MAX_INT16 = 32767
#: Pixels. Below half a sixteenth nothing but equal values would be averaged.
MIN_BILATERAL_SIGMA = 0.03
#: Grey level that 0 becomes in 8 bits, for the methods whose values have a sign.
SIGNED_OFFSET = 128
#: Stands for the cost of a second label where there is none.
NO_SECOND = 2**31 - 1
#: Neighbours whose disparities differ by more lie on both sides of a jump: sixteenths of a pixel.
JUMP = 32
#: Combined data costs of a pixel are cut at this.
MAX_COMBINED_COST = 255
#: Four of these, the largest sum of messages, fit 8 bits, as the costs of a band search do.
MAX_BAND_TRUNCATION = 63
#: Labels beyond both ends of its labels that a message of a band search goes on.
BAND_REACH = 3
#: Finer steps of a grey value's cost than 1 / 128 change no map that was measured.
MAX_SCALE = 128


def message_scale(config: MatcherSettings) -> int:
    """S, the factor from costs to messages (``docs/explanation/algorithms.md``, message types).

    1 for float32. For 16 bits the whole number that makes data_weight, discontinuity_slope
    and discontinuity_truncation times S most nearly whole, so that what is rounded hardly
    differs from what is meant: from a quarter of the largest S that fits, or of 128, up to
    it; the smallest of equals.

    :raises ConfigError: int16, and no S keeps the slope or the costs above 0; multi-feature costs,
        and 16 bits cannot hold sixteen truncations, the largest sum of four nodes' costs.
    """
    if config.has_combined_cost:
        _check_combined(config)
    if config.message_type == 'float32' or config.has_combined_cost:
        return 1
    sums = pixels, truncations = _largest_sum(config)
    data = config.data_weight * config.data_truncation
    if config.message_type == 'float16':
        # Whole numbers up to here are exact in float16. Where sums are so, too, they reach
        # four truncations before they are cut.
        truncations_of_sum = 4 if config.option('packed_halves', False) else 1
        most = 2048 / max(data, config.truncation * truncations_of_sum)
    else:
        most = MAX_INT16 / (data * pixels + truncations * config.truncation)
    scale = _whole_scale(most, config.message_type, sums, config.data_truncation,
                         (config.data_weight, config.discontinuity_slope, config.truncation))
    if scale == 0 and config.message_type == 'int16':
        of_levels = f'levels {config.levels}, ' if config.stereo_algorithm == 'bp' else ''
        raise ConfigError(
            'message_type', config.message_type,
            f'with {of_levels}data_weight {config.data_weight:g}, data_truncation '
            f'{config.data_truncation:g} and discontinuity_slope {config.discontinuity_slope:g} '
            'its 16 bits cannot hold costs and slope: use float32'
            + (' or fewer levels' if of_levels else ''))
    return scale or 1


def message_smoothness(config: MatcherSettings) -> tuple[float, float]:
    """Slope and truncation of the smoothness cost in units of the messages."""
    scale = message_scale(config)
    slope, truncation = scale * config.discontinuity_slope, scale * config.truncation
    if config.message_type == 'int16':
        return round_half_up(slope), round_half_up(truncation)
    return slope, truncation


def first_step(config: MatcherSettings) -> float:
    """Smoothness cost of a step of one label in units of the messages."""
    if config.discontinuity_first_step == 0:
        return message_smoothness(config)[0]
    step = message_scale(config) * config.discontinuity_first_step
    return round_half_up(step) if config.message_type == 'int16' else step


def fits_band(config: MatcherSettings) -> bool:
    """Whether 8 bits hold the messages of a band search, and no jump reaches beyond them."""
    slope, truncation = message_smoothness(config)
    return (truncation <= MAX_BAND_TRUNCATION
            and first_step(config) + BAND_REACH * slope >= truncation)


def edge_truncation(config: MatcherSettings) -> int:
    """Truncation between neighbours at an edge of the image, in units of the messages."""
    return round_half_up(message_scale(config) * config.discontinuity_edge_truncation)


def edge_threshold(config: MatcherSettings, level: int) -> int:
    """Minimum sum of three differences, of sums of 4^level grey values each, that is an edge."""
    return 3 * config.discontinuity_edge_threshold << 2 * level


def check_float16(config: MatcherSettings) -> None:
    """Reject costs and messages that float16 cannot hold.

    :raises ConfigError: the largest sum of them exceeds ``MAX_FLOAT16``.
    """
    largest = (config.data_weight * config.data_truncation * 4.0 ** (config.levels - 1)
               + 3 * config.truncation)
    if largest > MAX_FLOAT16:
        raise ConfigError(
            'message_type', config.message_type,
            f'with levels {config.levels}, data_weight {config.data_weight:g} and '
            f'data_truncation {config.data_truncation:g} sums reach {largest:.0f}, and its '
            f'maximum is {MAX_FLOAT16}: use float32 or fewer levels')


def largest_cost(config: MatcherSettings) -> float:
    """The largest data cost of a pixel in units of the messages."""
    if config.has_combined_cost:
        return MAX_COMBINED_COST
    return message_scale(config) * config.data_weight * config.data_truncation


@functools.lru_cache(maxsize=64)
def _whole_scale(most: float, message_type: str, sums: tuple[int, int], data_truncation: float,
                 weights: tuple[float, float, float]) -> int:
    """The S of ``message_scale`` that is at most ``most``; 0 = there is none."""
    most = min(most, MAX_SCALE)
    best, least = 0, math.inf
    (pixels, truncations), (data_weight, *smoothness) = sums, weights
    for scale in range(math.floor(most / 4) + 1, math.floor(most) + 1):
        slope, truncation = (round_half_up(scale * value) for value in smoothness)
        # Rounding to whole numbers can lift the largest sum over 16 bits.
        largest = (round_half_up(scale * data_weight * data_truncation) * pixels
                   + truncations * truncation)
        if message_type == 'int16' and (slope == 0 or largest > MAX_INT16):
            continue
        error = max(abs(round_half_up(scale * value) / (scale * value) - 1) for value in weights)
        if error < least - 1e-9:        # what float64 leaves of whole numbers is none
            best, least = scale, error
    return best


def _check_combined(config: MatcherSettings) -> None:
    most = MAX_INT16 // 16
    if round_half_up(config.truncation) > most:
        raise ConfigError('discontinuity_truncation', config.discontinuity_truncation,
                          'with census, sparse_census, sobel or grey_weight must be '
                          f'at most {most}')


def _largest_sum(config: MatcherSettings) -> tuple[int, int]:
    """Data costs of a pixel and truncations in the largest sum on the way (tiled: with steps)."""
    return (1, 8) if config.stereo_algorithm == 'tiled_bp' else (4 ** (config.levels - 1), 3)


def plane_threshold(config: MatcherSettings) -> float:
    """The confidence below which a pixel gets a plane; those little above it keep their value."""
    return 2 / 3 * config.confidence_threshold


def bilateral_factor(config: MatcherSettings) -> int:
    """From differences in sixteenths of a pixel to 65536ths of that which has no weight.

    That is 2.5 standard deviations: so Tukey's biweight is close to the Gaussian.
    """
    return round_half_up(65536 / (16 * 2.5 * max(config.bilateral_sigma, MIN_BILATERAL_SIGMA)))


def round_half_up(value: float) -> int:
    """floor(value + 0.5), in float64."""
    return math.floor(value + 0.5)
