"""Figures that add up over frames: sums of dataclasses, and counts of values in fixed bins."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np

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
    if not one or not other:
        return one or other
    if isinstance(one, tuple):
        return tuple(a + b for a, b in zip(one, other, strict=True))
    if isinstance(one, Mapping):
        return {key: _add(one.get(key), other.get(key)) for key in {**one, **other}}
    return one + other


def none_for_nan(figures: Mapping[str, float]) -> dict[str, float | int | None]:
    """For JSON: NaN, which stands for no value, as None."""
    return {name: None if math.isnan(value) else value for name, value in figures.items()}


@dataclass(frozen=True)
class Scale:
    """Bins from ``low`` to ``high``, of equal width, or of equal ratio where ``is_geometric``.

    Values outside count in the first and the last bin.
    """

    low: float
    high: float
    bins: int
    is_geometric: bool = False

    def count(self, values: np.ndarray) -> tuple[int, ...]:
        """How many values fall into each bin; () without any.

        values: n, finite.
        """
        return self.counts(self.index(values))

    def index(self, values: np.ndarray) -> np.ndarray:
        """The bin of each of n finite values, intp."""
        place = self._place(np.clip(values.astype(np.float64), self.low, self.high))
        return np.asarray(np.minimum((place * self.bins).astype(np.intp), self.bins - 1))

    def counts(self, index: np.ndarray) -> tuple[int, ...]:
        """How many of n values, whose bins are known, fall into each; () without any."""
        if not index.size:
            return ()
        return tuple(np.bincount(index, minlength=self.bins).tolist())

    def percentile(self, counts: tuple[int, ...], share: float) -> float:
        """The value that ``share`` per cent of all are below; NaN without any.

        Values count as spread evenly over their bin (its logarithm where it is geometric): the
        result is at most the width of a bin from the exact one.
        """
        total = sum(counts)
        if not total:
            return math.nan
        reached = np.concatenate([[0], np.cumsum(counts)])
        wanted = share / 100 * total
        index = int(np.searchsorted(reached[1:], wanted, side='left'))
        part = (wanted - reached[index]) / max(counts[index], 1)
        return self._value((index + part) / self.bins)

    def _place(self, values: np.ndarray) -> np.ndarray:
        if self.is_geometric:
            return np.asarray(np.log(values / self.low) / math.log(self.high / self.low))
        return np.asarray((values - self.low) / (self.high - self.low))

    def _value(self, place: float) -> float:
        if self.is_geometric:
            return float(self.low * (self.high / self.low) ** place)
        return float(self.low + (self.high - self.low) * place)
