"""A time limit for every test, with its fixtures: what loops for ever fails.

An alarm fails the test where Python's main thread runs. Where it does not, in compiled code, the
process ends a little later with the stacks of all threads on standard error.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
from collections.abc import Iterator
from types import FrameType

import pytest

#: Seconds, several times as long as the longest test takes on a machine that is busy otherwise,
#: and as a wait for a node that fails; 0 = no limit, for a debugger.
LIMIT = float(os.environ.get('TEST_TIME_LIMIT', '1200'))

#: Seconds after the alarm that the process ends.
GRACE = float(os.environ.get('TEST_TIME_GRACE', '60'))


@contextlib.contextmanager
def limited(seconds: float, grace: float) -> Iterator[None]:
    """Context that fails after so many seconds, in the main thread."""
    def alarm(_number: int, _frame: FrameType | None) -> None:
        pytest.fail(f'the test has taken more than {seconds:g} s (TEST_TIME_LIMIT)')
    previous = signal.signal(signal.SIGALRM, alarm)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    faulthandler.dump_traceback_later(seconds + grace, exit=True, file=_STDERR)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


# Where pytest has not captured it, or not yet.
_STDERR = os.dup(2)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Run every test, with what its fixtures do, within the limit."""
    with limited(LIMIT, GRACE) if LIMIT else contextlib.nullcontext():
        yield
