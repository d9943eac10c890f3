"""Figures that add up over frames: sums of dataclasses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

T = TypeVar('T', bound='Sums')


@dataclass(frozen=True)
class Sums:
    """Counts and sums of one frame or of many: the fields of subclasses add up.

    Numbers are added, tuples item by item, mappings by their keys; None and empty ones are
    nothing. A field with the metadata ``is_summed: False`` has its default in a sum.
    """

    def __add__(self: T, other: T) -> T:
        """Of the frames of both."""
        if type(other) is not type(self):
            return NotImplemented
        return type(self)(**{
            one.name: _add(getattr(self, one.name), getattr(other, one.name))
            for one in fields(self) if one.metadata.get('is_summed', True)})


def _add(one: Any, other: Any) -> Any:
    if one in (None, (), {}) or other in (None, (), {}):
        return other if one in (None, (), {}) else one
    if isinstance(one, tuple):
        return tuple(a + b for a, b in zip(one, other, strict=True))
    if isinstance(one, Mapping):
        return {key: _add(one.get(key), other.get(key)) for key in {**one, **other}}
    return one + other


def none_for_nan(figures: Mapping[str, float]) -> dict[str, float | int | None]:
    """For JSON: NaN, which stands for no value, as None."""
    return {name: None if math.isnan(value) else value for name, value in figures.items()}
