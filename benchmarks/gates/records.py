"""Hashes of machine code, and plans of both engines: both without a GPU."""

from __future__ import annotations

import concurrent.futures
import hashlib
import json
import os
import struct
import sys
import unittest.mock
from collections.abc import Callable
from typing import Any

from benchmarks.gates import doors
from benchmarks.gates.cases import Case


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
    return hashlib.sha256(code_of(*doors.compiled(file, name, architecture))).hexdigest()


def kernels(asked: tuple[str, ...], ranges: tuple[int, ...]) -> dict[str, Any]:
    """Hashes of all kernels; progress goes to standard error."""
    jobs = sorted((architecture, *name) for architecture in asked
                  for name in doors.kernel_names(architecture, ranges))
    codes = {}
    with concurrent.futures.ProcessPoolExecutor(2) as processes:
        for job, code in zip(jobs, processes.map(code_hash, jobs, chunksize=4), strict=True):
            codes[' | '.join((*job, doors.options()))] = code
            if len(codes) % 100 == 0:
                print(f'{len(codes)} of {len(jobs)} kernels', file=sys.stderr)
    return {'kind': 'kernels', 'selection': [list(asked), list(ranges)], 'entries': codes}


def plans(cases: dict[str, Case]) -> dict[str, Any]:
    """Plans of both back ends for each case, or why it is refused."""
    entries = {}
    # As many threads as on any other machine: arrays of the CPU's plan follow from it.
    with unittest.mock.patch.dict(os.environ, {'NUMBA_NUM_THREADS': '8'}):
        for label, case in cases.items():
            entries[label] = {
                'cuda': _or_refusal(lambda config, case=case: doors.cuda_record(
                    config, case.width, case.height, doors.properties(case.device)), case),
                'cpu': _or_refusal(lambda config, case=case: doors.cpu_record(
                    config, case.width, case.height), case)}
    return {'kind': 'plans', 'selection': len(cases),
            'entries': json.loads(json.dumps(entries))}


def _or_refusal(record: Callable[..., dict[str, Any]], case: Case) -> dict[str, Any]:
    try:
        return record(doors.configuration(case.settings))
    except doors.StereoError as error:
        return {'refused': f'{type(error).__name__}: {error}'}
