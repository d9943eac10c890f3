"""Kernels whose indices are shared out among threads.

Numba compiles each loop of ``numba.prange`` as functions and wrappers of its own. Here one such
loop serves all kernels, which it calls by their address: compiling takes a third less.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils, compiler
from numba.extending import intrinsic

from stereo_bp_ros.engines.cpu.simd.runtime import kernel

_WORD = ir.IntType(64)

#: What threads call: an index, and the address of the other arguments.
_TASK = ir.FunctionType(ir.VoidType(), (_WORD, _WORD))

_SHARED_OUT = types.void(types.int64, types.int64, types.int64)


def parallel_kernel(function: Callable[..., None]) -> Any:
    """A kernel that Python calls: ``function`` for every index, on the threads of ``frame``.

    ``compiled(count, *arguments)`` calls ``function(index, *arguments)`` with every index below
    ``count``, in any order.

    :param function: may fail only where it allocates; ``MemoryError`` then follows the last index.
    """
    for_each = _for_each(function)

    def launch(count: Any, *arguments: Any) -> None:
        for_each(count, *arguments)

    # Symbols of compiled code are made of these.
    launch.__module__, launch.__qualname__ = function.__module__, f'{function.__qualname__}.launch'
    return kernel(launch, of=function)


@intrinsic
def _call(_: Any, task: Any, index: Any, arguments: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        builder.call(builder.inttoptr(values[0], _TASK.as_pointer()), values[1:])
        return context.get_dummy_value()
    return types.void(types.int64, types.int64, types.int64), generate


@kernel(parallel=True)
def _share_out(count: int, task: int, arguments: int) -> None:
    for index in numba.prange(count):
        _call(task, index, arguments)


def _for_each(function: Callable[..., None]) -> Any:
    """An intrinsic that calls a function of Python, compiled, for every index below a count."""
    @intrinsic
    def for_each(_: Any, count: Any, *arguments: Any) -> Any:
        given = types.StarArgTuple([types.unliteral(kind) for kind in arguments])

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            # The arguments, and whether a call has failed.
            passed = ir.LiteralStructType([values[1].type, ir.IntType(8)])
            place = cgutils.alloca_once(builder, passed)
            builder.store(values[1], cgutils.gep_inbounds(builder, place, 0, 0))
            failed = cgutils.gep_inbounds(builder, place, 0, 1)
            builder.store(ir.IntType(8)(0), failed)
            task = ir.Function(builder.module, _TASK, f'{builder.function.name}.task')
            task.linkage = 'internal'
            _generate_task(context, task, _compiled(context, function, given), place.type)
            shared_out = _share_out.get_compile_result(_SHARED_OUT)
            context.add_linking_libs((shared_out.library,))
            _call_compiled(context, builder, shared_out.fndesc, (
                values[0], builder.ptrtoint(task, _WORD), builder.ptrtoint(place, _WORD)))
            with cgutils.if_unlikely(builder, cgutils.is_true(builder, builder.load(failed))):
                context.call_conv.return_user_exc(builder, MemoryError, (
                    f'no memory for the scratch of {function.__qualname__}',))
            return context.get_dummy_value()

        return types.void(types.int64, given), generate
    return for_each


def _generate_task(context: Any, task: Any, descriptor: Any, passed: Any) -> None:
    """Write the function that threads call.

    :param passed: type of the pointer to the arguments, and to what says that it has failed.
    """
    builder = ir.IRBuilder(task.append_basic_block())
    index, address = task.args
    place = builder.inttoptr(address, passed)
    arguments = builder.load(cgutils.gep_inbounds(builder, place, 0, 0))
    status = _call_compiled(context, builder, descriptor, (
        index, *cgutils.unpack_tuple(builder, arguments, len(descriptor.argtypes) - 1)))
    with cgutils.if_unlikely(builder, status.is_error):
        builder.store(ir.IntType(8)(1), cgutils.gep_inbounds(builder, place, 0, 1))
    builder.ret_void()


def _compiled(context: Any, function: Callable[..., None], given: Any) -> Any:
    """The descriptor of a function of an index and arguments, compiled into the code at hand.

    A library of its own would be optimised and made machine code of twice.
    """
    flags = compiler.Flags()
    flags.nrt, flags.error_model = True, 'numpy'
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    return compiler.compile_internal(
        context.typing_context, context, context.active_code_library, function,
        (types.int64, *given), types.void, flags, {}).fndesc


def _call_compiled(context: Any, builder: Any, descriptor: Any, values: Any) -> Any:
    """Call a compiled function; returns its status."""
    called = context.declare_function(builder.module, descriptor)
    status, _ = context.call_conv.call_function(
        builder, called, descriptor.restype, descriptor.argtypes, values)
    return status
