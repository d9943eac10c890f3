"""One value of an array in Numba, as ``vectors`` does it for many: int16 holds float16."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from stereo_bp_ros.engines.cpu.simd import float16


@intrinsic
def load_one(typing_context: Any, array: Any, offset: Any) -> Any:
    """``load_one(array, offset)``: float32 from a contiguous array of float32 or float16."""
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        loaded = builder.load(_pointer(context, builder, signature.args[0], args[0], args[1]))
        if array.dtype != types.int16:
            return loaded
        return _only(builder, float16.widen(builder, _alone(builder, loaded)))
    return types.float32(array, types.intp), generate


@intrinsic
def store_one(typing_context: Any, array: Any, offset: Any, value: Any) -> Any:
    """``store_one(array, offset, value)``: the float32, rounded to nearest even for float16."""
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        stored = args[2]
        if array.dtype == types.int16:
            stored = _only(builder, float16.narrow(builder, _alone(builder, stored)))
        builder.store(stored, _pointer(context, builder, signature.args[0], args[0], args[1]))
        return context.get_dummy_value()
    return types.void(array, types.intp, types.float32), generate


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, offset: Any) -> Any:
    return builder.gep(context.make_array(array_type)(context, builder, array).data, [offset])


def _alone(builder: Any, scalar: Any) -> Any:
    """A vector of one lane."""
    return builder.bitcast(scalar, ir.VectorType(scalar.type, 1))


def _only(builder: Any, vector: Any) -> Any:
    return builder.extract_element(vector, ir.IntType(32)(0))
