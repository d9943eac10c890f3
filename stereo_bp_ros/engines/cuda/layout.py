"""How vectors over the disparities and the levels of the pyramid lie in memory. No CuPy here."""

from __future__ import annotations

import math
from typing import NamedTuple

from stereo_bp_ros import geometry
from stereo_bp_ros.config import MatcherConfig, round_half_up

#: Ranges from here on keep int16 messages as differences in bytes, where these are exact: what
#: is moved is halved, what is computed grows.
LEAST_RANGE_OF_DELTAS = 32

#: Slopes up to this keep these differences in 6 bits, where the range is whole units of 64 labels.
LARGEST_SLOPE_OF_SIX_BITS = 31

#: Truncations up to this keep int16 messages in bytes: no value is larger.
LARGEST_BYTE = 255

#: float32 messages are kept in three bytes where the largest cost of a pixel is at least this part
#: of the largest message: their steps, 2^-22 or less of it, then show nowhere.
LEAST_COST_OF_THREE_BYTES = 2.0 ** -10

#: Messages of floats over so many chunks or more are kept, and computed, in halves: what one
#: thread has of a vector is then half as long, and nothing of its envelope is found twice.
LEAST_CHUNKS_OF_HALVES = {'float32': 8, 'float16': 9}

#: Such messages are whole numbers of a step, 2^14 of which or more are the slope, where
#: the largest cost of a pixel is so many times the slope ...
COSTS_OF_FIXED = 0.25, 32.0

#: ... and the largest message at least so many times: 2^16 steps or more.
LEAST_MESSAGE_OF_FIXED = 4

#: Of differences of neighbouring labels, which are up to the slope, 16 bits hold this.
LARGEST_SLOPE_OF_FIXED = 32766

#: The C++ types of the messages.
MESSAGE_TYPES = {'int16': 'Int16', 'float32': 'Float32', 'float16': 'Float16'}


class Shape(NamedTuple):
    """One vector over the disparities in registers and memory; as ``Shape`` in ``words.cuh``."""

    chunks: int         # of 8 disparities
    units: int          # that one thread moves at once
    unit_bytes: int     # 8 or 16, of a message
    lanes: int          # threads that share a vector
    registers: int      # of 32 bits, for one vector in one thread


class Level(NamedTuple):
    """One level of the pyramid as it lies in memory.

    width, height: nodes; half: columns of one colour, padded to whole lines of memory.
    """

    width: int
    height: int
    half: int


def shape(config: MatcherConfig) -> Shape:
    """How the vectors of a configuration are laid out."""
    is_integer = config.message_type == 'int16'
    chunks = -(-config.disparity_range // 8)
    sides = 2 if has_halves(config) else 1
    limit = 16 if is_integer or sides == 2 else 8
    parts = next(parts for parts in (1, 2, 4, 8) if chunks <= limit * parts)
    units, unit_bytes = chunks, 16
    if keeps_six_bits(config):
        units = chunks * 3 // 8
    elif keeps_bytes(config) or keeps_deltas(config):
        unit_bytes = 8
    elif keeps_three_bytes(config):
        units, unit_bytes = 3 * chunks, 8
    elif config.message_type == 'float32' and not is_fixed(config):
        units = 2 * chunks
    return Shape(chunks, units, unit_bytes, sides * parts,
                 -(-chunks // parts) * (4 if is_integer or sides == 2 else 8))


def levels(config: MatcherConfig, width: int, height: int) -> list[Level]:
    """The pyramid, level 0 first."""
    return [Level(w, h, -(-((w + 1) // 2) // 16) * 16)
            for w, h in geometry.pyramid(width, height, config.levels)]


def keeps_bytes(config: MatcherConfig) -> bool:
    """Whether int16 messages are kept in bytes as they are."""
    return config.message_type == 'int16' and smoothness(config)[1] <= LARGEST_BYTE


def keeps_deltas(config: MatcherConfig) -> bool:
    """Whether messages are kept as the differences of neighbouring labels, in bytes.

    Where bytes do not hold the values themselves. Exact where the slope fits a byte's 7 bits,
    and where sums of messages that are too large by up to the truncation still fit 16 bits.
    """
    if (config.message_type != 'int16' or keeps_bytes(config)
            or config.disparity_range < LEAST_RANGE_OF_DELTAS):
        return False
    slope, truncation = smoothness(config)
    return (config.disparity_range <= 128 and slope <= 127
            and _largest_cost(config) * 4 ** (config.levels - 1) + 6 * truncation <= 32767)


def keeps_six_bits(config: MatcherConfig) -> bool:
    """Whether these differences are kept in 6 bits, eight chunks in three units of 16 bytes."""
    return (keeps_deltas(config) and smoothness(config)[0] <= LARGEST_SLOPE_OF_SIX_BITS
            and -(-config.disparity_range // 8) % 8 == 0)


def has_halves(config: MatcherConfig) -> bool:
    """Whether two lanes have a half of a vector each, and a word is one value."""
    least = LEAST_CHUNKS_OF_HALVES.get(config.message_type)
    return least is not None and -(-config.disparity_range // 8) >= least


def is_fixed(config: MatcherConfig) -> bool:
    """Whether messages of floats are whole numbers of 32 bits, and kept as differences of 16.

    Neighbouring labels of a message differ by at most the slope, so that 16 bits hold a difference
    where three bytes hold a value; binary16 takes as many, and is less exact. They need all of a
    half in one lane.
    """
    if (config.stereo_algorithm != 'bp' or config.repeats_papers or not has_halves(config)
            or config.disparity_range > 128):
        return False
    slope = config.message_smoothness()[0]
    if not 0 < LEAST_MESSAGE_OF_FIXED * slope <= _largest_message(config):
        return False
    least, most = COSTS_OF_FIXED
    sums = config.largest_cost * 4 ** (config.levels - 1) + 8 * _largest_message(config)
    return (least * slope <= config.largest_cost <= most * slope
            and sums * _fixed_scale(slope) < 2 ** 30)


def is_whole(config: MatcherConfig) -> bool:
    """Whether the device's messages and beliefs are whole numbers."""
    return config.message_type == 'int16' or is_fixed(config)


def _fixed_scale(slope: float) -> float:
    """Steps of 1: a power of two where the slope is whole then, or such that it is."""
    scale = 2.0 ** math.floor(math.log2(LARGEST_SLOPE_OF_FIXED / slope))
    return scale if (slope * scale).is_integer() else LARGEST_SLOPE_OF_FIXED / slope


def keeps_three_bytes(config: MatcherConfig) -> bool:
    """Whether float32 messages are kept as fixed-point numbers of three bytes.

    As exact as float32 sums of a few of them are; but where costs are far below the truncation,
    float32 knows them more exactly.
    """
    return (config.message_type == 'float32' and config.stereo_algorithm == 'bp'
            and not config.repeats_papers and not is_fixed(config)
            and config.largest_cost >= LEAST_COST_OF_THREE_BYTES * _largest_message(config) > 0)


def float_scale(config: MatcherConfig) -> float:
    """What costs and messages of the device are multiplied by.

    A power of two brings the largest message that is kept in three bytes into [1, 2); messages of
    whole numbers are so many steps; otherwise 1.
    """
    if is_fixed(config):
        return _fixed_scale(config.message_smoothness()[0])
    if not keeps_three_bytes(config):
        return 1.0
    return 2.0 ** (1 - math.frexp(_largest_message(config))[1])


def _largest_message(config: MatcherConfig) -> float:
    """No step over the range costs more."""
    slope, truncation = config.message_smoothness()
    return min(truncation, slope * (config.disparity_range - 1))


def has_byte_costs(config: MatcherConfig, k: int) -> bool:
    """Whether the data cost of level ``k``, 0 or 1, is kept in 8 bits, where it is exact."""
    return config.message_type == 'int16' and _largest_cost(config) * 4 ** k <= 255


def _largest_cost(config: MatcherConfig) -> int:
    """Of a node of level 0, in units of int16 messages."""
    return round_half_up(config.largest_cost)


def smoothness(config: MatcherConfig) -> tuple[float, float]:
    """Slope and truncation in units of the device's messages.

    A step that costs more than the truncation is never taken, and 16 bits need not hold it.
    """
    slope, truncation = config.message_smoothness()
    if is_fixed(config):
        scale = float_scale(config)
        return round(scale * slope), round_half_up(scale * _largest_message(config))
    if keeps_three_bytes(config):
        scale = float_scale(config)
        slope, truncation = scale * slope, scale * _largest_message(config)
    return min(slope, truncation), truncation


def nothing(config: MatcherConfig) -> bytes:
    """16 bytes of a message that says nothing, as it is kept."""
    if keeps_six_bits(config):      # two differences of 0 in each half of a word
        return bytes((0x20, 0x08)) * 8
    return bytes((int(smoothness(config)[0]) if keeps_deltas(config) else 0,)) * 16


def cost_type(config: MatcherConfig, k: int) -> str:
    """The C++ type of the data cost of level ``k`` as it is kept."""
    if k < 2 and has_byte_costs(config, k):
        return 'Bytes'
    # Sums of many costs, and as whole numbers even those of one pixel, lose too much in binary16.
    if k > 0 or is_fixed(config):
        return 'Int16' if config.message_type == 'int16' else 'Float32'
    return MESSAGE_TYPES[config.message_type]


def stored_type(config: MatcherConfig) -> str:
    """The C++ type of the messages as they are kept."""
    if keeps_bytes(config):
        return 'Int16Bytes'
    if keeps_six_bits(config):
        return 'Int16SixBits'
    if is_fixed(config):
        return 'Fixed32'
    if keeps_three_bytes(config):
        return 'Float32ThreeByteHalves' if has_halves(config) else 'Float32ThreeBytes'
    if has_halves(config):
        return MESSAGE_TYPES[config.message_type] + 'Halves'
    return 'Int16Deltas' if keeps_deltas(config) else MESSAGE_TYPES[config.message_type]
