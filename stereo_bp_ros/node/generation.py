"""Which results may still be published: a number that every activation and clock jump raises."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from stereo_bp_ros.node.diagnostics.ledger import PairDrop

#: Ended generations whose reason is remembered; no result is ever older than that.
REMEMBERED = 16


class Generation:
    """The current generation, and the gate that results pass on their way out.

    ``advance`` returns only when nobody is inside the gate: after it, nothing of an older
    generation is published.
    """

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._number = 0
        self._ended: dict[int, PairDrop] = {}
        self._clock_epoch = 0

    @property
    def number(self) -> int:
        return self._number

    @property
    def clock_epoch(self) -> int:
        """How often a generation ended because the clock went back."""
        return self._clock_epoch

    def advance(self, reason: PairDrop) -> int:
        """End the current generation for a reason; returns the number of the next one."""
        with self._gate:
            self._ended[self._number] = reason
            while len(self._ended) > REMEMBERED:
                del self._ended[next(iter(self._ended))]
            if reason is PairDrop.CLOCK_JUMP:
                self._clock_epoch += 1
            self._number += 1
            return self._number

    def ended(self, number: int) -> PairDrop | None:
        """Why a generation ended; None for the current one."""
        if number == self._number:
            return None
        return self._ended.get(number, PairDrop.DEACTIVATED)

    @contextmanager
    def gate(self, number: int) -> Iterator[PairDrop | None]:
        """Hold the gate open for one result; yields why it must not pass, or None."""
        with self._gate:
            yield self.ended(number)
