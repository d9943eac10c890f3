"""The processor that Numba compiles for, which need not be the one that it runs on.

NUMBA_CPU_NAME, NUMBA_CPU_FEATURES and NUMBA_ENABLE_AVX choose it.
"""

from __future__ import annotations

from numba.core.registry import cpu_target


def description() -> tuple[str, str, str]:
    """LLVM's triple, the name of the processor, and its features: ``+avx2,-sse4a,...``."""
    triple, name, features = cpu_target.target_context.codegen().magic_tuple()
    return triple, name, features


def is_aarch64() -> bool:
    """Whether it is one of 64-bit Arm, all of which have NEON and convert float16."""
    return description()[0].startswith(('aarch64', 'arm64'))


def has(feature: str) -> bool:
    """Whether a feature is enabled, by LLVM's name.

    What the name of the processor alone implies does not count: that is for LLVM to know.
    """
    return f'+{feature}' in description()[2].split(',')
