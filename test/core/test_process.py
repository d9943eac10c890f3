"""How a process begins and ends, whatever it inherits and whatever C libraries do."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

LIMIT = 60.0

END = 'import ctypes, os, signal, sys; from stereo_bp_ros import process; '


def status_of(code: str, *options: str, **arguments: object) -> int:
    """Of a process that runs this code."""
    return subprocess.run([sys.executable, *options, '-c', code], timeout=LIMIT,
                          stderr=subprocess.DEVNULL, **arguments).returncode     # type: ignore


@pytest.mark.parametrize(('fault', 'options'), [
    ('ctypes.string_at(0)', ()), ('os.abort()', ('-X', 'faulthandler')),
    ('os.kill(os.getpid(), signal.SIGBUS)', ())])
def test_a_fault_of_c_at_the_end_leaves_the_status_as_it_was_decided(
        fault: str, options: tuple[str, ...]) -> None:
    assert status_of(f'{END}process.end_despite_faults(7, 0.2); {fault}', *options) == 7


def test_a_fault_of_c_while_the_interpreter_ends_leaves_the_status_too() -> None:
    bad = f"{END}process.keep(type('', (), {{'__del__': lambda self, fail=os.abort: fail()}})()); "
    assert status_of(f'{bad}sys.exit(3)') == -signal.SIGABRT
    assert status_of(f'{bad}process.end_despite_faults(3, 0.2); sys.exit(3)') == 3


def test_an_end_that_hangs_in_c_with_the_interpreter_in_hand_is_over_in_time() -> None:
    assert status_of(f'{END}process.end_within(60, 1); process.end_within(0.2, 4); '
                     f'ctypes.PyDLL(None).sleep({int(2 * LIMIT)})') == 4


def test_an_end_in_time_is_not_waited_for() -> None:
    begin = time.monotonic()
    assert status_of(f'{END}process.end_despite_faults(1, {2 * LIMIT}); sys.exit(5)') == 5
    assert time.monotonic() - begin < LIMIT


def test_closed_standard_streams_are_opened_and_the_next_file_is_none_of_them() -> None:
    code = ('import os, sys; from stereo_bp_ros import process; process.open_standard_streams(); '
            'print("lost"); print("lost", file=sys.stderr); sys.stdout.flush(); '
            'assert not sys.stdin.read(); '
            'assert all(map(os.get_inheritable, range(3))); sys.exit(10 + min(os.pipe()))')
    closed = f"exec {sys.executable} -c '{code}' <&- >&- 2>&-"
    assert subprocess.run(['sh', '-c', closed], timeout=LIMIT).returncode == 13
