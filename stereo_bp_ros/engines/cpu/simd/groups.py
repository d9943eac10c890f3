"""Vectors of 64 bytes as four groups of 16: labels of two pixels, which each has two windows of.

The first two groups belong to the first pixel. The labels of a group are in the lanes from
``FIRST`` on, ``MOST`` at most. Addresses and offsets are as in ``vectors``.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from stereo_bp_ros.engines.cpu.simd import VECTOR_BYTES, target
from stereo_bp_ros.engines.cpu.simd.vectors import (
    BYTE_ADDRESS,
    BYTES,
    WORDS,
    Code,
    called,
    integer_lanes,
    loaded,
    operation,
    put,
    splatted,
    taken,
)

#: Bytes of a group, which a window of labels has, and of a pixel's two.
GROUP, PIXEL = 16, 32

FIRST, MOST = 3, 9

#: LLVM's intrinsic that picks bytes within 16, and how many it does at once, by what the CPU
#: has; the first one is taken.
_PICKS = {'avx2': ('llvm.x86.avx2.pshuf.b', 32), 'ssse3': ('llvm.x86.ssse3.pshuf.b.128', 16),
          'neon': ('llvm.aarch64.neon.tbl1.v16i8', 16)}


def _constant(values: Any) -> Any:
    return ir.Constant(integer_lanes(8, VECTOR_BYTES), list(values))


@operation(lambda: BYTES())
def lane_numbers(code: Code) -> Any:
    """0 to 15 in each group."""
    return _constant([lane % GROUP for lane in range(VECTOR_BYTES)])


@operation(lambda address, first, second: BYTES(BYTE_ADDRESS, types.intp, types.intp))
def load_pixels(code: Code, address: Any, first: Any, second: Any) -> Any:
    """The bytes of two pixels, 32 from each offset on."""
    return taken(code.builder, loaded(code, address, first, PIXEL),
                  loaded(code, address, second, PIXEL), range(VECTOR_BYTES))


@operation(lambda address, first, second, vector: types.void(
    BYTE_ADDRESS, types.intp, types.intp, BYTES))
def store_pixels(code: Code, address: Any, first: Any, second: Any, vector: Any) -> None:
    """Write the bytes of two pixels; the first one last, where both are the same."""
    for offset, start in ((second, PIXEL), (first, 0)):
        put(code, address, offset,
             taken(code.builder, vector, vector, range(start, start + PIXEL)))


@operation(lambda address, offset: types.uint32(BYTE_ADDRESS, types.intp))
def load_four(code: Code, address: Any, offset: Any) -> Any:
    """Four bytes as one number, the first one lowest."""
    word = ir.IntType(32)
    value = code.builder.load(code.builder.bitcast(code.builder.gep(address, [offset]),
                                                   word.as_pointer()))
    value.align = 1
    return value


@operation(lambda address, first, second: BYTES(BYTE_ADDRESS, types.intp, types.intp))
def spread_bytes(code: Code, address: Any, first: Any, second: Any) -> Any:
    """A byte for each of two pixels, in all of its lanes."""
    return taken(code.builder, loaded(code, address, first, 1),
                  loaded(code, address, second, 1),
                  [lane // PIXEL for lane in range(VECTOR_BYTES)])


@operation(lambda address, first, second: types.UniTuple(BYTES, 3)(
    BYTE_ADDRESS, types.intp, types.intp))
def spread_shifts(code: Code, address: Any, first: Any, second: Any) -> Any:
    """Of four bytes of each of two pixels in its groups 0 and 1, 2 and 3, and 3 and 2."""
    words = taken(code.builder, loaded(code, address, first, 4),
                  loaded(code, address, second, 4), range(8))
    parts = [taken(code.builder, words, words,
                   [lane // PIXEL * 4 + pair[lane // GROUP % 2] for lane in range(VECTOR_BYTES)])
             for pair in ((0, 1), (2, 3), (3, 2))]
    return code.context.make_tuple(code.builder, code.signature.return_type, parts)


@operation(lambda vector: BYTES(BYTES))
def swapped(code: Code, vector: Any) -> Any:
    """The two groups of each pixel, the second one first."""
    return taken(code.builder, vector, vector,
                  [lane ^ GROUP for lane in range(VECTOR_BYTES)])


@operation(lambda vector: BYTES(BYTES))
def least_of_pixels(code: Code, vector: Any) -> Any:
    """The minimum byte of each pixel, in all of its lanes."""
    distance = GROUP
    while distance:
        beside = taken(code.builder, vector, vector,
                        [lane ^ distance for lane in range(VECTOR_BYTES)])
        vector = code.builder.select(code.builder.icmp_unsigned('<', vector, beside), vector,
                                     beside)
        distance //= 2
    return vector


@operation(lambda vector, numbers: BYTES(BYTES, BYTES))
def picked(code: Code, vector: Any, numbers: Any) -> Any:
    """In each lane the one of its group with this number; 0 where the number is not 0 to 15.

    :param numbers: as of int8, at most 127 - 112 above 15.
    """
    builder, kind = code.builder, pick_instruction()
    if kind is None:
        return _picked_one_by_one(builder, vector, numbers)
    name, count = _PICKS[kind]
    if kind != 'neon':
        # Only the lower four bits count, and the highest, which makes a 0.
        numbers = called(builder, 'uadd.sat', numbers, _constant([127 - 15] * VECTOR_BYTES))
    lanes = integer_lanes(8, count)
    function = builder.module.globals.get(name) or ir.Function(
        builder.module, ir.FunctionType(lanes, (lanes, lanes)), name)
    parts = []
    for start in range(0, VECTOR_BYTES, count):
        chosen = range(start, start + count)
        parts.append(builder.call(function, [taken(builder, of, of, chosen)
                                             for of in (vector, numbers)]))
    while len(parts) > 1:
        parts = [taken(builder, *pair, range(2 * pair[0].type.count))
                 for pair in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def pick_instruction() -> str | None:
    """The entry of ``_PICKS`` that the CPU has that Numba compiles for."""
    if target.is_aarch64():
        return 'neon'
    return next(filter(target.has, _PICKS), None)


def _picked_one_by_one(builder: Any, vector: Any, numbers: Any) -> Any:
    byte, place = ir.IntType(8), ir.IntType(32)
    total = _constant([0] * VECTOR_BYTES)
    for lane in range(VECTOR_BYTES):
        number = builder.extract_element(numbers, place(lane))
        inside = builder.icmp_unsigned('<', number, byte(GROUP))
        source = builder.add(builder.zext(builder.and_(number, byte(GROUP - 1)), place),
                             place(lane - lane % GROUP))
        value = builder.select(inside, builder.extract_element(vector, source), byte(0))
        total = builder.insert_element(total, value, place(lane))
    return total


@operation(lambda address, offsets: BYTES(BYTE_ADDRESS, types.UniTuple(types.intp, 4)))
def load_groups(code: Code, address: Any, offsets: Any) -> Any:
    """16 bytes from each of four offsets on."""
    parts = [loaded(code, address, code.builder.extract_value(offsets, group), GROUP)
             for group in range(4)]
    first, second = (taken(code.builder, parts[pixel], parts[pixel + 1], range(PIXEL))
                     for pixel in (0, 2))
    return taken(code.builder, first, second, range(VECTOR_BYTES))


@operation(lambda first, second, start: WORDS(types.intp, types.intp, types.intp))
def numbers_of_windows(code: Code, first: Any, second: Any, start: Any) -> Any:
    """16 numbers from ``first`` on and 16 from ``second`` on, both less ``start``; uint16."""
    builder, count = code.builder, VECTOR_BYTES // 2
    first, second = (splatted(builder, builder.trunc(builder.sub(value, start), ir.IntType(16)),
                              count) for value in (first, second))
    order = [lane if lane < GROUP else count + lane for lane in range(count)]
    lanes = ir.Constant(integer_lanes(16, count), [lane % GROUP for lane in range(count)])
    return builder.add(taken(builder, first, second, order), lanes)


@operation(lambda vector: WORDS(WORDS))
def windows_swapped(code: Code, vector: Any) -> Any:
    """The 16 words of the second window before those of the first."""
    return taken(code.builder, vector, vector,
                 [lane ^ GROUP for lane in range(VECTOR_BYTES // 2)])


@operation(lambda vector, other: WORDS(WORDS, WORDS))
def first_window(code: Code, vector: Any, other: Any) -> Any:
    """The words of the first window, and the other's of the second."""
    count = VECTOR_BYTES // 2
    return taken(code.builder, vector, other,
                 [lane if lane < GROUP else count + lane for lane in range(count)])


@operation(lambda own, at, others, offsets: BYTES(
    BYTE_ADDRESS, types.UniTuple(types.intp, 2), BYTE_ADDRESS, types.UniTuple(types.intp, 4)))
def differing_bits_of_groups(code: Code, own: Any, at: Any, others: Any, offsets: Any) -> Any:
    """Of a word of 64 bits for each pixel and one for each label of a group; other lanes have 0.

    :param at, offsets: bytes; an offset is of what lane 0 stands for.
    """
    builder, parts, size = code.builder, [], 8
    none = ir.Constant(integer_lanes(8, size), [0] * size)
    for group in range(4):
        word = builder.load(builder.bitcast(
            builder.gep(own, [builder.extract_value(at, group // 2)]),
            ir.IntType(64).as_pointer()))
        start = builder.add(builder.extract_value(offsets, group), ir.IntType(64)(size * FIRST))
        found = builder.bitcast(loaded(code, others, start, size * size), integer_lanes(64, size))
        bits = called(builder, 'ctpop', builder.xor(found, splatted(builder, word, size)))
        end = builder.add(start, ir.IntType(64)(size * size))
        last = builder.load(builder.bitcast(builder.gep(others, [end]),
                                            ir.IntType(64).as_pointer()))
        rest = builder.insert_element(none, builder.trunc(builder.ctpop(
            builder.xor(last, word)), ir.IntType(8)), ir.IntType(32)(0))
        # ``rest`` has the ninth label, then zeros.
        order = [*[MOST] * FIRST, *range(MOST), *[MOST] * (GROUP - FIRST - MOST)]
        parts.append(taken(builder, builder.trunc(bits, integer_lanes(8, size)), rest, order))
    while len(parts) > 1:
        parts = [taken(builder, *pair, range(2 * pair[0].type.count))
                 for pair in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]
