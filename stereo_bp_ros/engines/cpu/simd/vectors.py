"""Vectors of 64 bytes in Numba: 64 x uint8, 32 x uint16, 16 x uint32 or 16 x float32.

A vector is a value that LLVM keeps in registers (one AVX-512 register, two of AVX2, four of
SSE or NEON), so that a kernel is written once, for one pixel, and the machine code does not
depend on what the automatic vectoriser makes of a loop. ``+``, ``-`` and the functions below
work lane by lane; integers are unsigned and wrap around, floats are never contracted or reordered.

Arrays of 8 bits and of float16 hold the same lanes in fewer bytes. int8 and uint8 become uint16,
extended by their sign and by zeros, and lose their upper byte when stored. int16 stands for
float16: Numba has no arrays of that, and nothing else here is int16 and goes through vectors. It
becomes float32, and is rounded to nearest even when stored. Lanes of uint8 come from
``load_bytes``.

Arrays are contiguous, or their ``address``; offsets count their elements, at any alignment.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

from stereo_bp_ros.engines.cpu.simd import VECTOR_BYTES, float16

#: Bytes on each side of the square that ``transpose`` turns.
SQUARE = 32


class Vector(types.Type):
    """Numba's type of a vector; ``dtype`` is the scalar type of a lane.

    One that is as its array holds it, of fewer bytes, can only be moved.
    """

    def __init__(self, dtype: Any, lanes: int | None = None) -> None:
        self.dtype = dtype
        self.lanes = lanes or VECTOR_BYTES * 8 // dtype.bitwidth
        super().__init__(f'Vector({self.lanes} x {dtype})')

    @property
    def is_float(self) -> bool:
        return isinstance(self.dtype, types.Float)


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, vector: Vector) -> None:
        lane = manager.lookup(vector.dtype).get_value_type()
        super().__init__(manager, vector, ir.VectorType(lane, vector.lanes))


# What the lanes of an array become when they are not computed with as they are.
_WIDE = {types.int16: types.float32, types.int8: types.uint16, types.uint8: types.uint16}
BYTES, WORDS, BYTE_ADDRESS = (Vector(types.uint8), Vector(types.uint16),
                                 types.CPointer(types.uint8))


class Code(NamedTuple):
    """Where an operation is compiled."""

    context: Any
    builder: Any
    signature: Any


def operation(signature_of: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Make a function of kernels from one that emits its code from LLVM's values.

    :param signature_of: Numba's signature from the types of the arguments.
    """
    def made(emit: Callable[..., Any]) -> Any:
        @functools.wraps(emit)          # whose first parameter stands for Numba's own
        def typed(typing_context: Any, *argument_types: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                value = emit(Code(context, builder, signature), *args)
                return context.get_dummy_value() if value is None else value
            return signature_of(*argument_types), generate
        return intrinsic(typed)
    return made


# --- from and to memory

def _vector_of(array: Any) -> Vector:
    """The vector that a load from this type of array gives."""
    return Vector(_WIDE.get(array.dtype, array.dtype))


def _stored_of(array: Any) -> Vector:
    """The same lanes as the array holds them."""
    return Vector(array.dtype, _vector_of(array).lanes)


def _widen(builder: Any, dtype: Any, stored: Any) -> Any:
    """The lanes to compute with from those that an array of ``dtype`` holds."""
    if dtype == types.int16:
        return float16.widen(builder, stored)
    words = integer_lanes(16, stored.type.count)
    if dtype == types.int8:
        return builder.sext(stored, words)
    return builder.zext(stored, words) if dtype == types.uint8 else stored


def _narrow(builder: Any, dtype: Any, lanes: Any) -> Any:
    """The other way round."""
    if dtype == types.int16:
        return float16.narrow(builder, lanes)
    if dtype in (types.int8, types.uint8):
        return builder.trunc(lanes, integer_lanes(8, lanes.type.count))
    return lanes


def _pointer(code: Code, array: Any, offset: Any, lanes: int = 0) -> Any:
    """To the lanes, by default a vector's, from an element of the first argument on."""
    kind = code.signature.args[0]
    if not isinstance(kind, types.CPointer):
        array = code.context.make_array(kind)(code.context, code.builder, array).data
    stored = ir.VectorType(code.context.get_value_type(kind.dtype),
                           lanes or _vector_of(kind).lanes)
    return code.builder.bitcast(code.builder.gep(array, [offset]), stored.as_pointer())


def loaded(code: Code, array: Any, offset: Any, lanes: int = 0) -> Any:
    value = code.builder.load(_pointer(code, array, offset, lanes))
    value.align = code.signature.args[0].dtype.bitwidth // 8
    return value


def put(code: Code, array: Any, offset: Any, value: Any) -> None:
    pointer = _pointer(code, array, offset, value.type.count)
    code.builder.store(value, pointer).align = code.signature.args[0].dtype.bitwidth // 8


@operation(lambda array: types.CPointer(array.dtype)(array))
def address(code: Code, array: Any) -> Any:
    """Of a contiguous array, taken by all functions here in its place.

    Numba counts the references to an array whenever a kernel hands it to another, in one place
    that all threads write to; nobody counts addresses. The array must outlive them.
    """
    return code.context.make_array(code.signature.args[0])(code.context, code.builder, array).data


@operation(lambda array: types.intp(array))
def lanes(code: Code, array: Any) -> Any:
    """Elements of an array that one vector holds."""
    return code.context.get_constant(types.intp, _vector_of(code.signature.args[0]).lanes)


@operation(lambda array, offset: _vector_of(array)(array, types.intp))
def load(code: Code, array: Any, offset: Any) -> Any:
    """A vector."""
    return _widen(code.builder, code.signature.args[0].dtype, loaded(code, array, offset))


@operation(lambda array, offset: _stored_of(array)(array, types.intp))
def load_stored(code: Code, array: Any, offset: Any) -> Any:
    """As ``load``, but as the array holds them: to be moved and stored in one of the same type."""
    return loaded(code, array, offset)


@operation(lambda array, offset, vector: types.void(array, types.intp, vector))
def store(code: Code, array: Any, offset: Any, vector: Any) -> None:
    """Write a vector, also one of ``load_stored``."""
    kind, _, given = code.signature.args
    is_as_held = given == _stored_of(kind)
    put(code, array, offset,
         vector if is_as_held else _narrow(code.builder, kind.dtype, vector))


@operation(lambda array, offset: types.float32(array, types.intp))
def load_one(code: Code, array: Any, offset: Any) -> Any:
    """float32 from one element of an array of float32 or float16."""
    one = _widen(code.builder, code.signature.args[0].dtype, loaded(code, array, offset, 1))
    return code.builder.extract_element(one, ir.IntType(32)(0))


@operation(lambda array, offset, value: types.void(array, types.intp, types.float32))
def store_one(code: Code, array: Any, offset: Any, value: Any) -> None:
    """Write a float32 to one element of an array of float32 or float16."""
    one = splatted(code.builder, value, 1)
    put(code, array, offset, _narrow(code.builder, code.signature.args[0].dtype, one))


@operation(lambda address, offset: BYTES(BYTE_ADDRESS, types.intp))
def load_bytes(code: Code, address: Any, offset: Any) -> Any:
    """64 lanes of uint8 from an address of uint8."""
    return loaded(code, address, offset, VECTOR_BYTES)


@operation(lambda address, offset, vector: types.void(BYTE_ADDRESS, types.intp, BYTES))
def store_bytes(code: Code, address: Any, offset: Any, vector: Any) -> None:
    """Write 64 bytes."""
    put(code, address, offset, vector)


# --- lane by lane

def integer_lanes(bits: int, count: int) -> Any:
    return ir.VectorType(ir.IntType(bits), count)


def splatted(builder: Any, scalar: Any, count: int) -> Any:
    unset = ir.Constant(ir.VectorType(scalar.type, count), ir.Undefined)
    return builder.shuffle_vector(builder.insert_element(unset, scalar, ir.IntType(32)(0)), unset,
                                  ir.Constant(integer_lanes(32, count), None))


def taken(builder: Any, first: Any, second: Any, order: Iterable[int]) -> Any:
    """The lanes ``order`` of two vectors one after the other."""
    chosen = list(order)
    return builder.shuffle_vector(first, second,
                                  ir.Constant(integer_lanes(32, len(chosen)), chosen))


def called(builder: Any, name: str, *args: Any, result: Any = None) -> Any:
    """LLVM's intrinsic on vectors of one type, which by default the result has, too."""
    kind = args[0].type
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(result or kind, [argument.type for argument in args]),
        f'llvm.{name}.v{kind.count}i{kind.element.width}')
    return builder.call(function, args)


def _is_less(code: Code, a: Any, b: Any) -> Any:
    if code.signature.args[0].is_float:
        return code.builder.fcmp_ordered('<', a, b)
    return code.builder.icmp_unsigned('<', a, b)


@operation(lambda scalar: Vector(scalar)(scalar))
def splat(code: Code, scalar: Any) -> Any:
    """Every lane the same; the scalar's type is the lanes' type."""
    return splatted(code.builder, scalar, code.signature.return_type.lanes)


@operation(lambda a, b: a(a, a))
def minimum(code: Code, a: Any, b: Any) -> Any:
    """The lesser one."""
    return code.builder.select(_is_less(code, a, b), a, b)


@operation(lambda a, b: a(a, a))
def maximum(code: Code, a: Any, b: Any) -> Any:
    """The greater one."""
    return code.builder.select(_is_less(code, a, b), b, a)


@operation(lambda a, b, chosen, other: chosen(a, a, chosen, chosen))
def where_less(code: Code, a: Any, b: Any, chosen: Any, other: Any) -> Any:
    """``chosen`` in the lanes with a < b."""
    return code.builder.select(_is_less(code, a, b), chosen, other)


@operation(lambda first, end, chosen, other: chosen(types.intp, types.intp, chosen, chosen))
def where_lane(code: Code, first: Any, end: Any, chosen: Any, other: Any) -> Any:
    """``chosen`` in the lanes [first, end)."""
    builder, count = code.builder, chosen.type.count
    number = ir.Constant(integer_lanes(64, count), list(range(count)))
    inside = builder.and_(builder.icmp_signed('>=', number, splatted(builder, first, count)),
                          builder.icmp_signed('<', number, splatted(builder, end, count)))
    return builder.select(inside, chosen, other)


@operation(lambda a, b: a(a, a))
def saturating_sum(code: Code, a: Any, b: Any) -> Any:
    """a + b, at most the maximum of a lane."""
    return called(code.builder, 'uadd.sat', a, b)


@operation(lambda a, b: a(a, a))
def saturating_difference(code: Code, a: Any, b: Any) -> Any:
    """a - b, at least 0."""
    return called(code.builder, 'usub.sat', a, b)


@operation(lambda a, b: WORDS(WORDS, WORDS))
def upper_product(code: Code, a: Any, b: Any) -> Any:
    """a b // 65536."""
    builder, words = code.builder, integer_lanes(32, a.type.count)
    product = builder.mul(builder.zext(a, words), builder.zext(b, words))
    return builder.trunc(builder.lshr(product, ir.Constant(words, [16] * a.type.count)), a.type)


@operation(lambda vector, factor: BYTES(BYTES, types.uint16))
def scaled(code: Code, vector: Any, factor: Any) -> Any:
    """(factor value + 32) // 64, at most 255, of bytes.

    The product with a ``factor`` of uint16 must fit 16 bits.
    """
    builder, words = code.builder, integer_lanes(16, VECTOR_BYTES)
    rounding, shift, most = (ir.Constant(words, [value] * VECTOR_BYTES) for value in (32, 6, 255))
    value = builder.mul(builder.zext(vector, words), splatted(builder, factor, VECTOR_BYTES))
    value = builder.lshr(builder.add(value, rounding), shift)
    value = builder.select(builder.icmp_unsigned('<', value, most), value, most)
    return builder.trunc(value, integer_lanes(8, VECTOR_BYTES))


@operation(lambda own, at, others, offset: BYTES(BYTE_ADDRESS, types.intp, BYTE_ADDRESS,
                                                   types.intp))
def differing_bits(code: Code, own: Any, at: Any, others: Any, offset: Any) -> Any:
    """Of one word of 64 bits and each of 64 words.

    :param own, others: addresses of uint8; at, offset: bytes.
    """
    step, parts, builder = 8, [], code.builder
    one = builder.load(builder.bitcast(builder.gep(own, [at]), ir.IntType(64).as_pointer()))
    for start in range(0, VECTOR_BYTES, step):
        place = builder.add(offset, ir.IntType(64)(8 * start))
        words = builder.bitcast(loaded(code, others, place, VECTOR_BYTES), integer_lanes(64, step))
        bits = called(builder, 'ctpop', builder.xor(words, splatted(builder, one, step)))
        parts.append(builder.trunc(bits, integer_lanes(8, step)))
    while len(parts) > 1:
        parts = [taken(builder, *pair, range(2 * pair[0].type.count))
                 for pair in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _define(function: Callable[..., Any], instruction: str) -> None:
    """Give an operator its meaning between two vectors of one type, defined there."""
    @type_callable(function)
    def typer(_context: Any) -> Callable[..., Any]:
        return lambda a, b: a if isinstance(a, Vector) and a == b else None

    @lower_builtin(function, Vector, Vector)
    def lane_by_lane(_context: Any, builder: Any, signature: Any, args: Any) -> Any:
        prefix = 'f' if signature.return_type.is_float else ''
        return getattr(builder, prefix + instruction)(*args)


_define(operator.add, 'add')
_define(operator.sub, 'sub')
_define(operator.mul, 'mul')            # the lower half of integers
_define(operator.truediv, 'div')        # floats
_define(operator.and_, 'and_')          # integers, as the two below
_define(operator.lshift, 'shl')
_define(operator.rshift, 'lshr')


# --- across lanes

def _both(code: Code, parts: Iterable[Any]) -> Any:
    return code.context.make_tuple(code.builder, code.signature.return_type, list(parts))


@operation(lambda vector: vector.dtype(vector))
def least_lane(code: Code, vector: Any) -> Any:
    """The scalar minimum; integers."""
    return called(code.builder, 'vector.reduce.umin', vector, result=vector.type.element)


@operation(lambda vector: types.UniTuple(Vector(types.uint32), 2)(vector))
def spread(code: Code, vector: Any) -> Any:
    """Two vectors of uint32 from lanes of uint16 that stand for int16."""
    count = vector.type.count // 2
    return _both(code, (
        code.builder.sext(taken(code.builder, vector, vector, range(start, start + count)),
                          integer_lanes(32, count)) for start in (0, count)))


@operation(lambda vector: types.UniTuple(WORDS, 2)(BYTES))
def halves(code: Code, vector: Any) -> Any:
    """Two vectors of uint16 with the first and the last 32 of 64 bytes."""
    count = VECTOR_BYTES // 2
    return _both(code, (
        code.builder.zext(taken(code.builder, vector, vector, range(start, start + count)),
                          integer_lanes(16, count)) for start in (0, count)))


@operation(lambda first, last: BYTES(WORDS, WORDS))
def joined(code: Code, first: Any, last: Any) -> Any:
    """The lower bytes of two vectors of uint16."""
    half = integer_lanes(8, VECTOR_BYTES // 2)
    return taken(code.builder, code.builder.trunc(first, half), code.builder.trunc(last, half),
                  range(VECTOR_BYTES))


@operation(lambda a, b: types.UniTuple(a, 2)(a, a))
def interleave(code: Code, a: Any, b: Any) -> Any:
    """Two vectors that hold a0 b0 a1 b1 ... in order."""
    count = a.type.count
    order = [lane + side * count for lane in range(count) for side in (0, 1)]
    return _both(code, (taken(code.builder, a, b, order[start:start + count])
                        for start in (0, count)))


@operation(lambda a, b: types.UniTuple(a, 2)(a, a))
def deinterleave(code: Code, a: Any, b: Any) -> Any:
    """The even and the odd lanes of two consecutive vectors."""
    return _both(code, (taken(code.builder, a, b, range(first, 2 * a.type.count, 2))
                        for first in (0, 1)))


@operation(lambda vector, after: vector(vector, vector))
def following(code: Code, vector: Any, after: Any) -> Any:
    """Each lane's next one, the last lane's from ``after``."""
    return taken(code.builder, vector, after, range(1, vector.type.count + 1))


@operation(lambda vector, before: vector(vector, vector))
def preceding(code: Code, vector: Any, before: Any) -> Any:
    """Each lane's previous one, the first lane's from ``before``."""
    count = vector.type.count
    return taken(code.builder, before, vector, range(count - 1, 2 * count - 1))


@operation(lambda source, start, stride, target, first: types.void(
    BYTE_ADDRESS, types.intp, types.intp, BYTE_ADDRESS, types.intp))
def transpose(code: Code, source: Any, start: Any, stride: Any, target: Any, first: Any) -> None:
    """A square of 32 x 32 bytes.

    Rows ``stride`` bytes apart from ``start`` on become columns of rows of 32 bytes, one after
    the other from ``first`` on. Addresses of uint8.
    """
    builder, rows, half = code.builder, [], SQUARE // 2
    for _ in range(SQUARE):
        rows.append(loaded(code, source, start, SQUARE))
        start = builder.add(start, stride)
    # Bit by bit the row's number moves into the column's.
    orders = [[side + lane // 2 + lane % 2 * SQUARE for lane in range(SQUARE)]
              for side in (0, half)]
    for _ in range(SQUARE.bit_length() - 1):
        rows = [taken(builder, *pair, order)
                for pair in zip(rows[:half], rows[half:], strict=True) for order in orders]
    for number, row in enumerate(rows):
        put(code, target, builder.add(first, ir.IntType(64)(number * SQUARE)), row)
