"""Where the worker gets its work: commands in order, and the latest pair only."""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable
from typing import Union

from stereo_bp_ros.node.accounting import Ledger, PairDrop
from stereo_bp_ros.node.pairing import StereoPair

Command = Callable[[], None]


class Mailbox:
    """Holds any number of commands and at most one pair; for any number of threads.

    :param ledger: is told of every pair that is dropped here.
    """

    def __init__(self, *, ledger: Ledger) -> None:
        self._ledger = ledger
        self._changed = threading.Condition()
        self._commands: collections.deque[Command] = collections.deque()
        self._pair: StereoPair | None = None
        self._closed = False
        self._reconfiguring = False

    @property
    def occupied(self) -> bool:
        """Whether a pair waits."""
        return self._pair is not None

    @property
    def reconfiguring(self) -> bool:
        """Whether pairs that pile up now do so because of a new configuration."""
        return self._reconfiguring

    @reconfiguring.setter
    def reconfiguring(self, value: bool) -> None:
        with self._changed:
            self._reconfiguring = value

    def put(self, pair: StereoPair) -> None:
        """Leave a pair; of this one and the one that waits, the older is dropped."""
        with self._changed:
            if self._closed:
                self._ledger.drop_pair(PairDrop.DEACTIVATED)
                return
            waiting = self._pair
            if waiting is not None:
                self._ledger.drop_pair(PairDrop.RECONFIGURING if self._reconfiguring
                                       else PairDrop.SUPERSEDED)
                if (waiting.generation, waiting.stamp_ns) > (pair.generation, pair.stamp_ns):
                    return
            self._pair = pair
            self._changed.notify()

    def clear(self, reason: PairDrop) -> None:
        """Drop the pair that waits."""
        with self._changed:
            if self._pair is not None:
                self._pair = None
                self._ledger.drop_pair(reason)

    def post(self, command: Command) -> bool:
        """Leave a command; returns False where nobody will run it any more."""
        with self._changed:
            if self._closed:
                return False
            self._commands.append(command)
            self._changed.notify()
            return True

    def close(self) -> None:
        """Wake the worker for the last time; what still waits is dropped."""
        with self._changed:
            self._closed = True
            self._commands.clear()
            if self._pair is not None:
                self._pair = None
                self._ledger.drop_pair(PairDrop.DEACTIVATED)
            self._changed.notify_all()

    def take(self) -> Union[Command, StereoPair, None]:
        """Wait for work: the oldest command, else the pair; None once closed."""
        with self._changed:
            while not self._closed and not self._commands and self._pair is None:
                self._changed.wait()
            if self._closed:
                return None
            if self._commands:
                return self._commands.popleft()
            pair, self._pair = self._pair, None
            return pair
