"""Vectors of 64 x uint8 in Numba, beside those of ``vectors``.

``splat``, ``minimum``, ``where_less``, ``least_lane``, ``preceding`` and ``following`` of
``vectors`` take them, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from stereo_bp_ros.engines.cpu.simd import VECTOR_BYTES
from stereo_bp_ros.engines.cpu.simd.vectors import Vector

_BYTES = Vector(types.uint8)
_WORDS = Vector(types.uint16)
#: Bytes on each side of the square that ``transpose`` turns.
SQUARE = 32


def _lanes(bits: int, count: int) -> Any:
    return ir.VectorType(ir.IntType(bits), count)


def _place(builder: Any, pointer: Any, offset: Any, lanes: Any) -> Any:
    return builder.bitcast(builder.gep(pointer, [offset]), lanes.as_pointer())


def _loaded(builder: Any, pointer: Any, offset: Any, lanes: Any) -> Any:
    value = builder.load(_place(builder, pointer, offset, lanes))
    value.align = 1
    return value


def _splat(builder: Any, scalar: Any, count: int) -> Any:
    unset = ir.Constant(ir.VectorType(scalar.type, count), ir.Undefined)
    return builder.shuffle_vector(builder.insert_element(unset, scalar, ir.IntType(32)(0)), unset,
                                  ir.Constant(_lanes(32, count), None))


def _call(builder: Any, name: str, *args: Any) -> Any:
    """LLVM's intrinsic on vectors of one type."""
    lanes = args[0].type
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(lanes, [argument.type for argument in args]),
        f'llvm.{name}.v{lanes.count}i{lanes.element.width}')
    return builder.call(function, args)


@intrinsic
def load_bytes(typing_context: Any, address: Any, offset: Any) -> Any:
    """``load_bytes(address, offset)``: 64 bytes from an address of uint8, any alignment."""
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _loaded(builder, args[0], args[1], _lanes(8, VECTOR_BYTES))
    return _BYTES(types.CPointer(types.uint8), types.intp), generate


@intrinsic
def store_bytes(typing_context: Any, address: Any, offset: Any, vector: Any) -> Any:
    """``store_bytes(address, offset, vector)``: write 64 bytes, any alignment."""
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _place(builder, args[0], args[1], args[2].type)).align = 1
        return context.get_dummy_value()
    return types.void(types.CPointer(types.uint8), types.intp, _BYTES), generate


def _lane_by_lane(name: str) -> Callable[..., Any]:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _call(builder, name, *args)
    return generate


@intrinsic
def saturating_sum(typing_context: Any, a: Any, b: Any) -> Any:
    """``saturating_sum(a, b)``: a + b, at most the largest value of a lane."""
    return a(a, a), _lane_by_lane('uadd.sat')


@intrinsic
def saturating_difference(typing_context: Any, a: Any, b: Any) -> Any:
    """``saturating_difference(a, b)``: a - b, at least 0."""
    return a(a, a), _lane_by_lane('usub.sat')


@intrinsic
def scaled(typing_context: Any, vector: Any, factor: Any) -> Any:
    """``scaled(vector, factor)``: (factor value + 32) // 64, at most 255.

    The product with a ``factor`` of uint16 must fit 16 bits.
    """
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        words = _lanes(16, VECTOR_BYTES)
        rounding, shift, most = (ir.Constant(words, [value] * VECTOR_BYTES)
                                 for value in (32, 6, 255))
        value = builder.mul(builder.zext(args[0], words),
                            _splat(builder, args[1], VECTOR_BYTES))
        value = builder.lshr(builder.add(value, rounding), shift)
        value = builder.select(builder.icmp_unsigned('<', value, most), value, most)
        return builder.trunc(value, _lanes(8, VECTOR_BYTES))
    return _BYTES(_BYTES, types.uint16), generate


@intrinsic
def differing_bits(typing_context: Any, own: Any, at: Any, others: Any, offset: Any) -> Any:
    """``differing_bits(own, at, others, offset)``: of one and 64 words of 64 bits.

    :param own, others: addresses of uint8; at, offset: bytes.
    """
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        step, parts = 8, []
        one = builder.load(builder.bitcast(builder.gep(args[0], [args[1]]),
                                           ir.IntType(64).as_pointer()))
        for start in range(0, VECTOR_BYTES, step):
            place = builder.add(args[3], ir.IntType(64)(8 * start))
            words = _loaded(builder, args[2], place, _lanes(64, step))
            bits = _call(builder, 'ctpop', builder.xor(words, _splat(builder, one, step)))
            parts.append(builder.trunc(bits, _lanes(8, step)))
        while len(parts) > 1:
            both = 2 * parts[0].type.count
            order = ir.Constant(_lanes(32, both), list(range(both)))
            parts = [builder.shuffle_vector(*pair, order)
                     for pair in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]
    pointer = types.CPointer(types.uint8)
    return _BYTES(pointer, types.intp, pointer, types.intp), generate


@intrinsic
def halves(typing_context: Any, vector: Any) -> Any:
    """``halves(vector)``: two vectors of uint16 with the first and the last 32 lanes."""
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        half = VECTOR_BYTES // 2
        parts = [builder.zext(builder.shuffle_vector(
                     args[0], args[0], ir.Constant(_lanes(32, half),
                                                   list(range(start, start + half)))),
                     _lanes(16, half)) for start in (0, half)]
        return context.make_tuple(builder, signature.return_type, parts)
    return types.UniTuple(_WORDS, 2)(_BYTES), generate


@intrinsic
def joined(typing_context: Any, first: Any, last: Any) -> Any:
    """``joined(first, last)``: the lower bytes of two vectors of uint16."""
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        half = VECTOR_BYTES // 2
        parts = [builder.trunc(part, _lanes(8, half)) for part in args]
        return builder.shuffle_vector(*parts, ir.Constant(_lanes(32, VECTOR_BYTES),
                                                          list(range(VECTOR_BYTES))))
    return _BYTES(_WORDS, _WORDS), generate


@intrinsic
def transpose(typing_context: Any, source: Any, start: Any, stride: Any, target: Any,
              first: Any) -> Any:
    """``transpose(source, start, stride, target, first)``: a square of 32 x 32 bytes.

    Rows ``stride`` bytes apart from ``start`` on become columns of rows of 32 bytes, one after
    the other from ``first`` on. Addresses of uint8, any alignment.
    """
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = _lanes(8, SQUARE)
        rows, place = [], args[1]
        for _ in range(SQUARE):
            rows.append(_loaded(builder, args[0], place, lanes))
            place = builder.add(place, args[2])
        # Bit by bit the row's number moves into the column's.
        orders = [ir.Constant(_lanes(32, SQUARE),
                              [half + lane // 2 + lane % 2 * SQUARE for lane in range(SQUARE)])
                  for half in (0, SQUARE // 2)]
        for _ in range(SQUARE.bit_length() - 1):
            pairs = zip(rows[:SQUARE // 2], rows[SQUARE // 2:], strict=True)
            rows = [builder.shuffle_vector(*pair, order) for pair in pairs for order in orders]
        for number, row in enumerate(rows):
            place = builder.add(args[4], ir.IntType(64)(number * SQUARE))
            builder.store(row, _place(builder, args[3], place, lanes)).align = 1
        return context.get_dummy_value()
    pointer = types.CPointer(types.uint8)
    return types.void(pointer, types.intp, types.intp, pointer, types.intp), generate
