"""Vectors of 64 bytes in Numba: 32 x uint16, 16 x uint32 or 16 x float32.

A vector is a value that LLVM keeps in registers (one AVX-512 register, two of AVX2, four of
SSE or NEON), so that a kernel is written once, for one pixel, and the machine code does not
depend on what the automatic vectoriser makes of a loop. ``+``, ``-`` and the functions below
work lane by lane; integers are unsigned and wrap around, floats are never contracted or reordered.

Arrays of 8 bits and of float16 hold the same lanes in fewer bytes. int8 and uint8 become uint16,
extended by their sign and by zeros, and lose their upper byte when stored. int16 stands for
float16: Numba has no arrays of that, and nothing else here is int16 and goes through vectors. It
becomes float32, and is rounded to nearest even when stored.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

from stereo_bp_ros.engines.cpu.simd import VECTOR_BYTES, float16


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


def _vector_of(array: Any) -> Vector:
    """The vector that a load from this type of array gives."""
    return Vector(_WIDE.get(array.dtype, array.dtype))


def _stored_of(array: Any) -> Vector:
    """The same lanes as the array holds them."""
    return Vector(array.dtype, _vector_of(array).lanes)


def _widened(builder: Any, dtype: Any, stored: Any) -> Any:
    """LLVM's vector of the lanes to compute with from those that an array of ``dtype`` holds."""
    if dtype == types.int16:
        return float16.widen(builder, stored)
    words = ir.VectorType(ir.IntType(16), stored.type.count)
    if dtype == types.int8:
        return builder.sext(stored, words)
    return builder.zext(stored, words) if dtype == types.uint8 else stored


def _narrowed(builder: Any, dtype: Any, lanes: Any) -> Any:
    """The other way round."""
    if dtype == types.int16:
        return float16.narrow(builder, lanes)
    if dtype in (types.int8, types.uint8):
        return builder.trunc(lanes, ir.VectorType(ir.IntType(8), lanes.type.count))
    return lanes


@intrinsic
def address(typing_context: Any, array: Any) -> Any:
    """``address(array)``: of a contiguous array, taken by all functions here in its place.

    Numba counts the references to an array whenever a kernel hands it to another, in one place
    that all threads write to; nobody counts addresses. The array must outlive them.
    """
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _data(context, builder, signature.args[0], args[0])
    return types.CPointer(array.dtype)(array), generate


def _data(context: Any, builder: Any, array_type: Any, array: Any) -> Any:
    if isinstance(array_type, types.CPointer):
        return array
    return context.make_array(array_type)(context, builder, array).data


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, offset: Any) -> Any:
    """Address of the lanes that start ``offset`` elements into a contiguous array."""
    data = _data(context, builder, array_type, array)
    stored = ir.VectorType(context.get_value_type(array_type.dtype),
                           _vector_of(array_type).lanes)
    return builder.bitcast(builder.gep(data, [offset]), stored.as_pointer())


def _splat(builder: Any, scalar: Any, count: int) -> Any:
    """LLVM's vector of ``count`` times the same scalar."""
    unset = ir.Constant(ir.VectorType(scalar.type, count), ir.Undefined)
    first = ir.IntType(32)(0)
    return builder.shuffle_vector(builder.insert_element(unset, scalar, first), unset,
                                  ir.Constant(ir.VectorType(first.type, count), None))


def _is_less(builder: Any, vector: Vector, a: Any, b: Any) -> Any:
    if vector.is_float:
        return builder.fcmp_ordered('<', a, b)
    return builder.icmp_unsigned('<', a, b)


@intrinsic
def lanes(typing_context: Any, array: Any) -> Any:
    """``lanes(array)``: elements of an array that one vector holds."""
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.get_constant(types.intp, _vector_of(array).lanes)
    return types.intp(array), generate


@intrinsic
def load(typing_context: Any, array: Any, offset: Any) -> Any:
    """``load(array, offset)``: the lanes from element ``offset`` on, any alignment."""
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _widened(builder, array.dtype, _loaded(context, builder, signature, args))
    return _vector_of(array)(array, types.intp), generate


@intrinsic
def load_stored(typing_context: Any, array: Any, offset: Any) -> Any:
    """As ``load``, but as the array holds them: to be moved and stored in one of the same type."""
    return _stored_of(array)(array, types.intp), _loaded


def _loaded(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    array = signature.args[0]
    loaded = builder.load(_pointer(context, builder, array, *args))
    loaded.align = array.dtype.bitwidth // 8
    return loaded


@intrinsic
def store(typing_context: Any, array: Any, offset: Any, vector: Any) -> Any:
    """``store(array, offset, vector)``: write all lanes, any alignment."""
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _pointer(context, builder, signature.args[0], args[0], args[1])
        is_as_held = vector == _stored_of(array)
        value = args[2] if is_as_held else _narrowed(builder, array.dtype, args[2])
        builder.store(value, address).align = array.dtype.bitwidth // 8
        return context.get_dummy_value()
    return types.void(array, types.intp, vector), generate


@intrinsic
def splat(typing_context: Any, scalar: Any) -> Any:
    """``splat(scalar)``: every lane the same; the scalar's type is the lanes' type."""
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _splat(builder, args[0], signature.return_type.lanes)
    return Vector(scalar)(scalar), generate


@intrinsic
def minimum(typing_context: Any, a: Any, b: Any) -> Any:
    """``minimum(a, b)``."""
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(_is_less(builder, a, *args), *args)
    return a(a, a), generate


@intrinsic
def maximum(typing_context: Any, a: Any, b: Any) -> Any:
    """``maximum(a, b)``."""
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(_is_less(builder, a, *args), args[1], args[0])
    return a(a, a), generate


@intrinsic
def least_lane(typing_context: Any, vector: Any) -> Any:
    """``least_lane(vector)``: the scalar that is least; integers."""
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = args[0].type
        reduce = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(lanes.element, [lanes]),
            f'llvm.vector.reduce.umin.v{vector.lanes}i{vector.dtype.bitwidth}')
        return builder.call(reduce, args)
    return vector.dtype(vector), generate


@intrinsic
def spread(typing_context: Any, vector: Any) -> Any:
    """``spread(vector)``: two vectors of uint32 from lanes of uint16 that stand for int16."""
    wide = Vector(types.uint32)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        words = ir.VectorType(ir.IntType(32), wide.lanes)
        parts = [builder.sext(_taken(builder, args * 2, range(start, start + wide.lanes)), words)
                 for start in (0, wide.lanes)]
        return context.make_tuple(builder, signature.return_type, parts)
    return types.UniTuple(wide, 2)(vector), generate


@intrinsic
def where_less(typing_context: Any, a: Any, b: Any, chosen: Any, other: Any) -> Any:
    """``where_less(a, b, chosen, other)``: ``chosen`` in the lanes with a < b."""
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(_is_less(builder, a, args[0], args[1]), args[2], args[3])
    return chosen(a, a, chosen, chosen), generate


@intrinsic
def where_lane(typing_context: Any, first: Any, end: Any, chosen: Any, other: Any) -> Any:
    """``where_lane(first, end, chosen, other)``: ``chosen`` in the lanes [first, end)."""
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        number = ir.Constant(ir.VectorType(args[0].type, chosen.lanes),
                             list(range(chosen.lanes)))
        first, end = (_splat(builder, bound, chosen.lanes) for bound in args[:2])
        inside = builder.and_(builder.icmp_signed('>=', number, first),
                              builder.icmp_signed('<', number, end))
        return builder.select(inside, args[2], args[3])
    return chosen(types.intp, types.intp, chosen, chosen), generate


@intrinsic
def interleave(typing_context: Any, a: Any, b: Any) -> Any:
    """``interleave(a, b)``: two vectors that hold a0 b0 a1 b1 ... in order."""
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        order = [lane + side * a.lanes for lane in range(a.lanes) for side in (0, 1)]
        return _shuffled(context, builder, signature, args, order)
    return types.UniTuple(a, 2)(a, a), generate


@intrinsic
def deinterleave(typing_context: Any, a: Any, b: Any) -> Any:
    """``deinterleave(a, b)``: the even and the odd lanes of two consecutive vectors."""
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        order = [*range(0, 2 * a.lanes, 2), *range(1, 2 * a.lanes, 2)]
        return _shuffled(context, builder, signature, args, order)
    return types.UniTuple(a, 2)(a, a), generate


@intrinsic
def following(typing_context: Any, vector: Any, after: Any) -> Any:
    """``following(vector, after)``: each lane's next one, the last lane's from ``after``."""
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _taken(builder, args, range(1, vector.lanes + 1))
    return vector(vector, vector), generate


@intrinsic
def preceding(typing_context: Any, vector: Any, before: Any) -> Any:
    """``preceding(vector, before)``: each lane's previous one, the first's from ``before``."""
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _taken(builder, (args[1], args[0]), range(vector.lanes - 1, 2 * vector.lanes - 1))
    return vector(vector, vector), generate


def _taken(builder: Any, pair: Any, order: Iterable[int]) -> Any:
    """LLVM's vector of the lanes ``order`` of two."""
    chosen = list(order)
    return builder.shuffle_vector(
        *pair, ir.Constant(ir.VectorType(ir.IntType(32), len(chosen)), chosen))


def _shuffled(context: Any, builder: Any, signature: Any, args: Any, order: list[int]) -> Any:
    """Two vectors made of the lanes ``order`` of two others."""
    half = len(order) // 2
    parts = [_taken(builder, args, chosen) for chosen in (order[:half], order[half:])]
    return context.make_tuple(builder, signature.return_type, parts)


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
_define(operator.truediv, 'div')        # floats
_define(operator.and_, 'and_')          # integers, as the two below
_define(operator.lshift, 'shl')
_define(operator.rshift, 'lshr')
