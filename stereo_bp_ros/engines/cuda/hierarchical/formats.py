"""How messages and the levels of the pyramid lie in memory. No CuPy here."""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from typing import ClassVar, NamedTuple

from stereo_bp_ros.config import quantisation
from stereo_bp_ros.config.matcher import ResolvedConfig
from stereo_bp_ros.engines import geometry

#: Disparities of a chunk: four words of two labels, or eight of one.
CHUNK = 8

#: Registers of 32 bits that one thread has for the words of one vector.
MAX_VECTOR_REGISTERS = 64

#: The largest value of a byte.
MAX_BYTE = 255

#: The largest range of differences: their sums must fit the bits that a word has for them.
MAX_RANGE_OF_DIFFERENCES = 128

#: Differences up to this fit 6 bits with their sign.
MAX_SIX_BIT_SLOPE = 31

#: float32 messages take three bytes where the maximum cost of a pixel is at least this part of the
#: largest message: their steps are 2^-22 of that or less, and show nowhere.
MIN_COST_OF_THREE_BYTES = 2.0 ** -10

#: Vectors of floats of so many chunks or more are split over two lanes: a thread's part is half as
#: long then, and no part of the envelope is computed twice.
MIN_CHUNKS_OF_SPLIT = 8

#: ``Fixed32`` needs a largest cost of a pixel between these multiples of the slope, so that 2^14
#: steps of the slope resolve costs as float32 does ...
COSTS_OF_FIXED = 0.25, 32.0

#: ... and a largest message of at least so many slopes, which are 2^16 steps.
MIN_MESSAGE_OF_FIXED = 4

#: The slope in steps of ``Fixed32``: 16 bits hold a difference of neighbouring labels.
MAX_SLOPE_OF_FIXED = 32766


class Level(NamedTuple):
    """One level of the pyramid as it lies in memory.

    width, height: nodes; columns: of one colour, padded to whole lines of memory.
    """

    width: int
    height: int
    columns: int


def levels(config: ResolvedConfig, width: int, height: int) -> list[Level]:
    """The pyramid, level 0 first."""
    return [Level(w, h, -(-((w + 1) // 2) // 16) * 16)
            for w, h in geometry.pyramid(width, height, config.levels)]


@dataclasses.dataclass(frozen=True)
class MessageFormat(abc.ABC):
    """How one message, a vector over the disparities, lies in memory and in registers.

    A word of 32 bits holds label r and its mirror image, or one of them where a vector
    ``is_split`` over two lanes. ``Shape`` of the kernels repeats chunks, units and lanes.

    chunks: of 8 disparities. is_split: two lanes have one side of the labels each. scale: device
    units of a message of 1. slope, truncation: of the smoothness cost in device units, int where
    messages are whole numbers; no message is larger than the truncation. first_step: the cost of
    a step of one label where it is less than the slope, or messages have truncations of their
    own (int16 alone).
    """

    chunks: int
    is_split: bool
    scale: float
    slope: float
    truncation: float
    first_step: int | None = None

    #: Name in C++, and that of the split variant.
    names: ClassVar[tuple[str, str]]
    #: Whether messages and beliefs are whole numbers, whose sums do not depend on their order.
    is_whole: ClassVar[bool] = False
    #: Whether a word is two integers of 16 bits, and data costs are integers, too.
    is_int16: ClassVar[bool] = False
    #: Bytes of a chunk in memory, and those that one thread moves at once.
    chunk_bytes: ClassVar[int] = 16
    unit_bytes: ClassVar[int] = 16
    #: Registers of the two values of labels r and its mirror image in one lane.
    word_registers: ClassVar[int] = 2

    @staticmethod
    @functools.lru_cache(maxsize=256)
    def of(config: ResolvedConfig) -> MessageFormat:
        """The format of a configuration: the first family of ``FAMILIES`` that suits it."""
        family = next(family for family in FAMILIES if family.suits(config))
        scale, slope, truncation = family.numbers(config)
        return family(-(-config.disparity_range // CHUNK), _is_split(config), scale, slope,
                      truncation, _first_step(config, slope))

    @classmethod
    @abc.abstractmethod
    def suits(cls, config: ResolvedConfig) -> bool:
        """Whether the family holds the messages of a configuration."""

    @classmethod
    def numbers(cls, config: ResolvedConfig) -> tuple[float, float, float]:
        """Scale, slope and truncation.

        A step that costs more than the truncation is never taken: 16 bits need not hold it.
        """
        slope, truncation = quantisation.message_smoothness(config)
        return 1.0, min(slope, truncation), truncation

    @property
    def name(self) -> str:
        """The C++ type."""
        return self.names[self.is_split] + ('' if self.first_step is None else 'FirstStep')

    @property
    def message_bytes(self) -> int:
        """Bytes of one message in memory."""
        return self.chunks * self.chunk_bytes

    @property
    def units(self) -> int:
        """Units of one message in memory."""
        return self.message_bytes // self.unit_bytes

    @property
    def lanes(self) -> int:
        """Threads that share a vector: one or two sides, and parts of these."""
        return self._parts * (2 if self.is_split else 1)

    @property
    def registers(self) -> int:
        """Registers of 32 bits of one vector in one thread."""
        return -(-self.chunks // self._parts) * self._chunk_registers

    @property
    def _chunk_registers(self) -> int:
        return 4 * (1 if self.is_split else self.word_registers)

    @functools.cached_property
    def _parts(self) -> int:
        most = MAX_VECTOR_REGISTERS // self._chunk_registers
        return next(parts for parts in (1, 2, 4, 8) if self.chunks <= most * parts)

    @property
    def neutral(self) -> bytes:
        """16 bytes of a message that is the same for all labels."""
        return bytes(16)

    @property
    def smoothness(self) -> dict[str, float]:
        """Slope and truncation under the names of the kernels' structures."""
        return {'slope': int(self.slope) if self.is_whole else 0,
                'truncation': int(self.truncation) if self.is_whole else 0,
                'float_slope': float(self.slope), 'float_truncation': float(self.truncation)}


class Int16(MessageFormat):
    """16 bits a label, two labels a word: a unit of 16 bytes is a chunk.

    For what no narrower family holds exactly.
    """

    names = ('Int16', 'Int16')
    is_whole = is_int16 = True
    word_registers = 1

    @classmethod
    def suits(cls, config: ResolvedConfig) -> bool:
        return config.message_type == 'int16'


class Int16Bytes(Int16):
    """8 bits a label, the values themselves: a unit of 8 bytes is a chunk.

    Chosen first, where the truncation fits a byte: half the traffic, and one instruction for two
    values.
    """

    names = ('Int16Bytes', 'Int16Bytes')
    chunk_bytes = unit_bytes = 8

    @classmethod
    def suits(cls, config: ResolvedConfig) -> bool:
        return super().suits(config) and (
            quantisation.message_smoothness(config)[1] <= MAX_BYTE)


class Int16SixBits(Int16):
    """6 bits a label, differences of neighbouring labels plus 32: three units are eight chunks.

    Where values exceed a byte, the slope does not exceed 31, and a vector is whole units: a
    quarter less traffic than bytes. A constant is lost, which moves every label of a belief
    alike: sums must fit 16 bits although each message may be too large by the truncation.
    """

    names = ('Int16SixBits', 'Int16SixBits')
    chunk_bytes = 6

    @classmethod
    def suits(cls, config: ResolvedConfig) -> bool:
        if not super().suits(config):
            return False
        _, slope, truncation = cls.numbers(config)
        sums = largest_cost(config) * 4 ** (config.levels - 1) + 6 * truncation
        return (-(-config.disparity_range // CHUNK) % 8 == 0
                and config.disparity_range <= MAX_RANGE_OF_DIFFERENCES
                and slope <= MAX_SIX_BIT_SLOPE and sums <= quantisation.MAX_INT16)

    @property
    def neutral(self) -> bytes:
        return bytes((0x20, 0x08)) * 8      # two differences of 0 in each 16 bits


class Float32(MessageFormat):
    """4 bytes a label: two units of 16 bytes are a chunk.

    Where costs are so far below the truncation that three bytes would lose them. Other programs
    keep messages in arrays of their own, and compute those of float16 like these.
    """

    names = ('Float32', 'Float32Split')
    chunk_bytes = 32

    @classmethod
    def suits(cls, config: ResolvedConfig) -> bool:
        return config.message_type != 'int16'


class Float32ThreeBytes(Float32):
    """3 bytes a label, in steps of 2^-22 from 0 to 2: three units of 8 bytes are a chunk.

    A power of two brings the maximum message into [1, 2). As exact as a few sums of float32 are,
    where the maximum cost of a pixel is not far below the maximum message.
    """

    names = ('Float32ThreeBytes', 'Float32ThreeBytesSplit')
    chunk_bytes, unit_bytes = 24, 8

    @classmethod
    def suits(cls, config: ResolvedConfig) -> bool:
        return (super().suits(config) and _is_default_program(config)
                and quantisation.largest_cost(config)
                >= MIN_COST_OF_THREE_BYTES * _largest_message(config) > 0)

    @classmethod
    def numbers(cls, config: ResolvedConfig) -> tuple[float, float, float]:
        largest = _largest_message(config)
        scale = 2.0 ** (1 - math.frexp(largest)[1])
        slope = scale * quantisation.message_smoothness(config)[0]
        return scale, min(slope, scale * largest), scale * largest


class Fixed32(MessageFormat):
    """Whole numbers of 32 bits, kept as 16-bit differences of neighbours: 16 bytes a chunk.

    For long vectors of floats, always split: each side must lie in one lane. Neighbours differ by
    the slope at most, so that 16 bits hold a difference where three bytes hold a value.
    """

    names = ('Fixed32', 'Fixed32')
    is_whole = True

    @classmethod
    def suits(cls, config: ResolvedConfig) -> bool:
        if (not _is_default_program(config) or not _is_split(config)
                or config.disparity_range > MAX_RANGE_OF_DIFFERENCES):
            return False
        slope, largest = quantisation.message_smoothness(config)[0], _largest_message(config)
        if not 0 < MIN_MESSAGE_OF_FIXED * slope <= largest:
            return False
        least, most = COSTS_OF_FIXED
        cost = quantisation.largest_cost(config)
        sums = cost * 4 ** (config.levels - 1) + 8 * largest
        return least * slope <= cost <= most * slope and sums * cls._scale(slope) < 2 ** 30

    @staticmethod
    def _scale(slope: float) -> float:
        """Steps of 1: a power of two where the slope is whole then, or such that it is."""
        scale = 2.0 ** math.floor(math.log2(MAX_SLOPE_OF_FIXED / slope))
        return scale if (slope * scale).is_integer() else MAX_SLOPE_OF_FIXED / slope

    @classmethod
    def numbers(cls, config: ResolvedConfig) -> tuple[float, float, float]:
        slope = quantisation.message_smoothness(config)[0]
        scale = cls._scale(slope)
        return (scale, round(scale * slope),
                quantisation.round_half_up(scale * _largest_message(config)))


#: The families, and the order in which they are tried.
FAMILIES: tuple[type[MessageFormat], ...] = (
    Int16Bytes, Int16SixBits, Int16, Fixed32, Float32ThreeBytes, Float32)


def _first_step(config: ResolvedConfig, slope: float) -> int | None:
    """The cost of a step of one label where it is less than the slope of the messages.

    Where messages have a truncation across edges of the image, too, at most the slope: the same
    formats have both.
    """
    if config.discontinuity_edge_threshold:
        return int(min(quantisation.first_step(config), slope))
    if not config.discontinuity_first_step:
        return None
    step = int(quantisation.first_step(config))
    return step if step < slope else None


def _is_split(config: ResolvedConfig) -> bool:
    return (config.message_type != 'int16'
            and -(-config.disparity_range // CHUNK) >= MIN_CHUNKS_OF_SPLIT)


def _is_default_program(config: ResolvedConfig) -> bool:
    """Whether the kernels of this room run, whose formats may round as they like."""
    return config.stereo_algorithm == 'bp' and config.program == 'default'


def _largest_message(config: ResolvedConfig) -> float:
    """No step over the range costs more."""
    slope, truncation = quantisation.message_smoothness(config)
    return min(truncation, slope * (config.disparity_range - 1))


def largest_cost(config: ResolvedConfig) -> int:
    """Of a node of level 0, in units of int16 messages."""
    return quantisation.round_half_up(quantisation.largest_cost(config))


def forget() -> None:
    """Drop formats found earlier; for tests that change the thresholds."""
    MessageFormat.of.cache_clear()
