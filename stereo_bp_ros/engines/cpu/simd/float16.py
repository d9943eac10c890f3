"""float16 to float32 and back in LLVM's vectors, on every CPU.

Where there are instructions for it (F16C and AVX-512 on x86, all of aarch64) LLVM's own
conversions become one of them. Without, LLVM would call functions of a C run-time library that
Numba does not have, so the same is done on the bits, with the same results.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from stereo_bp_ros.engines.cpu.simd import target


def in_hardware() -> bool:
    """Whether the CPU that Numba compiles for converts halves itself."""
    return target.is_aarch64() or target.has('f16c')


def widen(builder: Any, bits: Any) -> Any:
    """LLVM's vector of float32 from the bits (a vector of i16) of float16; exact."""
    count = bits.type.count
    floats = ir.VectorType(ir.FloatType(), count)
    if in_hardware():
        return builder.fpext(builder.bitcast(bits, ir.VectorType(ir.HalfType(), count)), floats)
    words = builder.zext(bits, _words(count))
    magnitude = builder.shl(builder.and_(words, _every(count, 0x7fff)), _every(count, 13))
    # The exponent's bias differs by 112; a product also normalises subnormal numbers.
    scaled = builder.fmul(builder.bitcast(magnitude, floats),
                          ir.Constant(floats, [2.0 ** 112] * count))
    is_finite = builder.icmp_unsigned('<', magnitude, _every(count, 0x7c00 << 13))
    value = builder.select(is_finite, builder.bitcast(scaled, _words(count)),
                           builder.or_(magnitude, _every(count, 0x7f800000)))
    sign = builder.shl(builder.and_(words, _every(count, 0x8000)), _every(count, 16))
    return builder.bitcast(builder.or_(value, sign), floats)


def narrow(builder: Any, floats: Any) -> Any:
    """The bits (a vector of i16) of float16 from float32, rounded to nearest even."""
    count = floats.type.count
    halves = ir.VectorType(ir.IntType(16), count)
    if in_hardware():
        return builder.bitcast(builder.fptrunc(floats, ir.VectorType(ir.HalfType(), count)),
                               halves)
    words = builder.bitcast(floats, _words(count))
    sign = builder.and_(words, _every(count, 0x80000000))
    magnitude = builder.xor(words, sign)
    # Normal numbers: another bias, and the 13 bits that go decide, with the last that stays.
    odd = builder.and_(builder.lshr(magnitude, _every(count, 13)), _every(count, 1))
    rebiased = builder.add(magnitude, _every(count, 0xfff - (112 << 23)))
    normal = builder.lshr(builder.add(rebiased, odd), _every(count, 13))
    # Subnormal ones: beside 0.5 a float32 has just the bits that stay.
    beside = builder.fadd(builder.bitcast(magnitude, floats.type),
                          ir.Constant(floats.type, [0.5] * count))
    subnormal = builder.sub(builder.bitcast(beside, _words(count)), _every(count, 126 << 23))
    value = builder.select(builder.icmp_unsigned('<', magnitude, _every(count, 113 << 23)),
                           subnormal, normal)
    special = builder.select(
        builder.icmp_unsigned('>', magnitude, _every(count, 0x7f800000)),
        _every(count, 0x7e00), _every(count, 0x7c00))
    value = builder.select(builder.icmp_unsigned('<', magnitude, _every(count, 143 << 23)),
                           value, special)
    return builder.trunc(builder.or_(value, builder.lshr(sign, _every(count, 16))), halves)


def _words(count: int) -> Any:
    return ir.VectorType(ir.IntType(32), count)


def _every(count: int, value: int) -> Any:
    return ir.Constant(_words(count), [value & 0xffffffff] * count)
