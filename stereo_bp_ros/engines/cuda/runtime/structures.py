"""Structures of the kernels for ctypes: their C++ sources alone declare the fields."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Callable
from typing import Any, TypeVar

from stereo_bp_ros.system.resources import KERNELS

AnyStructure = TypeVar('AnyStructure', bound=ctypes.Structure)

_VALUES: dict[str, type[Any]] = {
    'int': ctypes.c_int, 'uint8': ctypes.c_uint8, 'uint32': ctypes.c_uint32,
    'float': ctypes.c_float, 'double': ctypes.c_double}

#: Of the sources that have been read; those of the one that is read count first.
_constants: dict[str, int] = {}

#: File and structure by the name in C++.
DECLARED: dict[str, tuple[str, type[ctypes.Structure]]] = {}


def declared_in(file: str, name: str = '') -> Callable[[type[AnyStructure]], type[AnyStructure]]:
    """Class decorator that gives a structure the fields of its declaration in C++.

    :param file: in ``kernels``.
    :param name: in C++, where it is not that of the class. The structures and constants that it
        needs of other files have been read before.
    """
    def declare(structure: type[AnyStructure]) -> type[AnyStructure]:
        own_name = name or structure.__name__
        structure._fields_ = _fields(file, own_name)
        DECLARED[own_name] = file, structure
        return structure
    return declare


def _fields(file: str, name: str) -> list[tuple[str, type[Any]]]:
    """Names and types of the members, which stand before all functions."""
    source = re.sub('//.*', '', (KERNELS / file).read_text(encoding='utf-8'))
    body = source.partition(f'\nstruct {name} {{')[2].partition('\n};')[0]
    for constants in re.findall('constexpr int ([^;]*);', source):
        _constants.update((constant, int(value))
                          for constant, value in re.findall(r'(\w+) = (\d+)\b', constants))
    found = []
    for words, pointer, names in re.findall(r'([\w ]+)(\*?) (\w[^;(]*);',
                                            body.partition('DEVICE')[0]):
        kind = words.split()[-1]
        for member, sizes in re.findall(r'(\w+)((?:\[[^]]*\])*)', names):
            field = ctypes.c_void_p if pointer else _VALUES.get(kind) or DECLARED[kind][1]
            for size in reversed(re.findall(r'\[([^]]*)\]', sizes)):
                field *= _number(size)
            found.append((member, field))
    return found


def _number(text: str) -> int:
    """The value of a sum of products of numbers and constants."""
    return sum(math.prod(_constants[factor] if factor in _constants else int(factor)
                         for factor in map(str.strip, term.split('*')))
               for term in text.split('+'))
