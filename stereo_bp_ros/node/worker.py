"""The one thread that matches, and the mailbox it takes its work from.

It alone touches the matcher, and with it Numba or the GPU.
"""

from __future__ import annotations

import collections
import concurrent.futures
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar, Union

from stereo_bp_ros.node.diagnostics.ledger import Ledger, PairDrop
from stereo_bp_ros.node.pairing import StereoPair

Command = Callable[[], None]
Result = TypeVar('Result')

#: Seconds for which whoever delivers a pair leaves the interpreter to the worker, at most.
HEAD_START = 0.002


class Mailbox:
    """Holds any number of commands and at most one pair; for any number of threads.

    :param ledger: is notified of every pair that is dropped here.
    """

    def __init__(self, *, ledger: Ledger) -> None:
        self._ledger = ledger
        self._changed = threading.Condition()
        self._commands: collections.deque[Command] = collections.deque()
        self._pair: StereoPair | None = None
        self._closed = False
        #: Whether pairs that pile up now do so because of a new configuration.
        self.reconfiguring = False

    @property
    def occupied(self) -> bool:
        """Whether a pair waits."""
        return self._pair is not None

    def put(self, pair: StereoPair) -> None:
        """Leave a pair; of this one and the one that waits, the older is dropped."""
        with self._changed:
            if self._closed:
                self._ledger.drop_pair(PairDrop.DEACTIVATED)
                return
            waiting = self._pair
            if waiting is not None:
                self._ledger.drop_pair(PairDrop.RECONFIGURING if self.reconfiguring
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
            self._changed.notify()

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


class WorkerStopped(Exception):
    """The worker ended before it got to a command."""


class Worker:
    """Runs posted commands in order and, between them, matches the pair in the mailbox.

    :param mailbox: where both come from.
    :param process: is called in the worker's thread with every pair; it must not raise.
    :param on_error: is notified of an exception that ``process`` let through nevertheless.
    """

    def __init__(self, *, mailbox: Mailbox, process: Callable[[StereoPair], None],
                 on_error: Callable[[BaseException], None]) -> None:
        self._mailbox = mailbox
        self._process = process
        self._on_error = on_error
        self._lock = threading.Lock()
        self._pending: set[concurrent.futures.Future[Any]] = set()
        self._stopping = False
        #: Whether a pair is being matched right now.
        self.busy = False
        self._idle = threading.Event()
        # A daemon: a compiler that cannot be interrupted must not keep the process alive.
        self._thread = threading.Thread(target=self._run, name='stereo_bp_worker', daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def deliver(self, pair: StereoPair) -> None:
        """Leave a pair in the mailbox and stand back until it is matched, at most ``HEAD_START``.

        Preparing its next wait takes the executor's thread as long as a fast engine takes for a
        frame; side by side the two get in each other's way, and the frame is the one that counts.
        """
        self._idle.clear()
        self._mailbox.put(pair)
        self._idle.wait(HEAD_START)

    def post(self, command: Callable[[], Result]) -> concurrent.futures.Future[Result]:
        """Have a command run before the next pair; returns what it will return.

        The future raises ``WorkerStopped`` where the worker ends first.
        """
        future: concurrent.futures.Future[Result] = concurrent.futures.Future()

        def run() -> None:
            try:
                result = command()
            except BaseException as error:
                self._settle(future, error=error)
            else:
                self._settle(future, result=result)

        with self._lock:
            self._pending.add(future)
        if self._stopping or not self._mailbox.post(run):
            self._settle(future, error=WorkerStopped('the worker has stopped'))
        return future

    def call(self, command: Callable[[], Result], *, limit: float,
             progress: Callable[[float], None] | None = None,
             interval: float = 4.0) -> Result:
        """As ``post``, and wait for the result, at most ``limit`` seconds.

        :param progress: is called every ``interval`` seconds with the seconds waited.
        :raises WorkerStopped: the worker ended first.
        :raises TimeoutError: the command has not run within the limit; it still will.
        """
        future = self.post(command)
        start = time.monotonic()
        while True:
            waited = time.monotonic() - start
            try:
                return future.result(min(interval, max(0.0, limit - waited)))
            except concurrent.futures.TimeoutError:
                if future.done():       # just now, or by a TimeoutError of its own
                    return future.result()
            waited = time.monotonic() - start
            if waited >= limit:
                raise TimeoutError(f'the worker has not answered within {limit:g} s')
            if progress is not None:
                progress(waited)

    def stop(self, limit: float) -> bool:
        """End the thread; whoever waits for a command continues at once.

        Returns whether the thread ended within ``limit`` seconds: one that is compiling
        cannot be interrupted.
        """
        self._stopping = True
        self._mailbox.close()
        with self._lock:
            pending = list(self._pending)
        for future in pending:
            self._settle(future, error=WorkerStopped('the worker was stopped'))
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(limit)
        return not self._thread.is_alive()

    def _settle(self, future: concurrent.futures.Future[Any], *, result: Any = None,
                error: BaseException | None = None) -> None:
        with self._lock:
            if future not in self._pending:
                return
            self._pending.discard(future)
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)

    def _run(self) -> None:
        while True:
            work = self._mailbox.take()
            if work is None:
                return
            if isinstance(work, StereoPair):
                self.busy = True
                try:
                    self._process(work)
                except BaseException as error:
                    self._on_error(error)
                finally:
                    self.busy = False
                    self._idle.set()
            else:
                work()
            # Messages must not live on through this frame's local variable while it waits.
            del work
