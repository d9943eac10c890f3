"""Hashes of the machine code of kernels, compiled without a GPU."""

from __future__ import annotations

import concurrent.futures
import hashlib
import importlib
import itertools
import struct
import sys
from collections.abc import Sequence
from typing import Any

from stereo_bp_ros.engines.cuda.runtime import compiler


def names(architecture: str, ranges: Sequence[int] = ()) -> set[tuple[str, str]]:
    """File and template expression of all kernels; no range = those of the tests."""
    known = importlib.import_module('test.engines.cuda.test_cuda_compile')
    ranges = ranges or known.RANGES
    found = itertools.chain(
        known.kernels_of_the_other_stages(), known.kernels_of_a_band(), known.kernels_of_sad(),
        known.kernels_of_tiles((*known.TILES, *known.OTHER_TILES), architecture),
        *map(known.kernels_of_the_papers, ('uint8', 'float')),
        *map(known.kernels_of_a_first_step, known.FIRST_STEPS),
        *itertools.starmap(known.kernels_of, itertools.product(ranges, known.MESSAGE_TYPES)),
        *map(known.kernels_of_combined_costs, ranges))
    return set(found)


def code_of(binary: bytes, symbol: str) -> bytes:
    """The section ``.text.<symbol>`` of an ELF file of 64 bits (System V ABI, chapter 4).

    :raises ValueError: there is no such section.
    """
    if binary[:6] != b'\x7fELF\x02\x01':
        raise ValueError('no little-endian ELF file of 64 bits')
    table, = struct.unpack_from('<Q', binary, 40)
    size, count, strings = struct.unpack_from('<HHH', binary, 58)
    # Of a section: name, type, flags, address, offset, bytes.
    sections = [struct.unpack_from('<IIQQQQ', binary, table + i * size) for i in range(count)]
    for name, *_, offset, length in sections:
        start = sections[strings][4] + name
        if binary[start:binary.index(b'\0', start)] == f'.text.{symbol}'.encode():
            return binary[offset:offset + length]
    raise ValueError(f'no section .text.{symbol}')


def code_hash(job: tuple[str, str, str]) -> str:
    """SHA-256 of the machine code of a kernel: (architecture, file, template expression)."""
    architecture, file, name = job
    binary, symbol = compiler.compile_kernel(file, name, architecture)
    return hashlib.sha256(code_of(binary, symbol)).hexdigest()


def record(architectures: Sequence[str], ranges: Sequence[int]) -> dict[str, Any]:
    """Hashes of all kernels; progress goes to standard error.

    :param architectures: such as 'sm_90'; none = those of the tests.
    """
    if not architectures:
        known = importlib.import_module('test.engines.cuda.test_cuda_compile')
        architectures = known.ARCHITECTURES
    jobs = sorted((architecture, *name) for architecture in architectures
                  for name in names(architecture, ranges))
    # Paths of this machine are left out.
    options = ' '.join(option for option in compiler.OPTIONS if not option.startswith('-I'))
    codes = {}
    with concurrent.futures.ProcessPoolExecutor(2) as processes:
        for job, code in zip(jobs, processes.map(code_hash, jobs, chunksize=4), strict=True):
            codes[' | '.join((*job, options))] = code
            if len(codes) % 100 == 0:
                print(f'{len(codes)} of {len(jobs)} kernels', file=sys.stderr)
    return {'kind': 'kernels', 'selection': [list(architectures), list(ranges)], 'entries': codes}
