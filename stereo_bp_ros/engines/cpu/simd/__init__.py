"""Numba itself: compiled kernels, vector registers, float16; nothing of stereo."""

#: Bytes that a kernel handles at once, one lane per pixel: a cache line, an AVX-512 register.
VECTOR_BYTES = 64
