"""How a process begins, whatever it inherits, and how it ends, whatever C libraries do then."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import signal
import sys
import time

#: What a C library that fails ends a process with.
FAULTS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT)

#: Seconds that an end may take.
END_LIMIT = 5.0

#: Status of a command that SIGINT has ended, unless launch has started it.
INTERRUPTED = 130

#: How a process is started as a command of this package: by a name, or by ``python -m``.
COMMANDS = ('stereo_bp', 'stereo_bp_node')
MODULES = ('stereo_bp_ros.cli.main', 'stereo_bp_ros.node.main')

_MODES = {'stdin': 'r', 'stdout': 'w', 'stderr': 'w'}

#: Of <signal.h>.
_SIGEV_THREAD = 2

_libc = ctypes.CDLL(None, use_errno=True)
_libc.signal.argtypes, _libc.signal.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p

_kept: list[object] = []


def is_command() -> bool:
    """Whether this process was started as a command of this package, which is being imported."""
    started = sys.argv[:1] or ['']
    if started == ['-m']:               # while Python looks for the module
        return any(word.removeprefix('-m') in MODULES for word in sys.orig_argv)
    # A process that multiprocessing has spawned has the name of its parent here alone.
    return os.path.basename(started[0]) in COMMANDS and started[0] in sys.orig_argv


def end_by_interruption() -> None:
    """Have SIGINT end this process at once, without a word, until ``raise_interruptions``.

    For the imports of a command, above all: nothing there can catch a KeyboardInterrupt. A signal
    that is ignored, or that somebody else handles, is left alone.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end_interrupted)


def raise_interruptions() -> None:
    """Have SIGINT raise a KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _end_interrupted:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def interrupted_status() -> int:
    """Status of this process where SIGINT ends it.

    A process with --ros-args, which launch appends to every command, ends as nodes of ROS do:
    with 0. launch would report the death of any other.
    """
    return 0 if '--ros-args' in sys.orig_argv else INTERRUPTED


def _end_interrupted(number: int, frame: object) -> None:
    os._exit(interrupted_status())


def open_standard_streams() -> None:
    """Open /dev/null for each of standard input, output and error that is closed.

    A daemon may be started so. The next file that it opens would be its standard output: the pipe
    of its signals, or a device.
    """
    while (opened := os.open(os.devnull, os.O_RDWR)) < len(_MODES):
        os.set_inheritable(opened, True)
    os.close(opened)
    for number, (name, mode) in enumerate(_MODES.items()):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, closefd=False))      # noqa: SIM115


def keep(*objects: object) -> None:
    """Have these live as long as the interpreter, whoever else forgets them.

    A participant of DDS that others would destroy before the status is decided, for instance.
    """
    _kept.extend(objects)


def end_within(seconds: float, status: int) -> None:
    """End this process with a status after so many seconds, unless it has ended by then.

    No thread of Python could do so while another one waits in C with the interpreter in hand. Of
    two calls the sooner end counts.
    """
    timer = ctypes.c_void_p()
    event = _Event(status, 0, _SIGEV_THREAD, ctypes.cast(_libc._exit, ctypes.c_void_p))
    due = _Due(0, 0, int(seconds), int(seconds % 1 * 1e9))
    if (_libc.timer_create(time.CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(timer))
            or _libc.timer_settime(timer, 0, ctypes.byref(due), None)):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def end_despite_faults(status: int, limit: float = END_LIMIT) -> None:
    """Have this process end with a status, even where C libraries fail from here on.

    To be called once everything is said, and before DDS participants are destroyed. Where a peer
    was killed just before, Fast DDS gives back shared memory that another of its threads replaces
    meanwhile, and fails. A thread that fails sleeps until ``limit`` seconds are over.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):      # of a reader that has gone
            stream.flush()
    end_within(limit, status)
    # It would give back the handlers that it has found.
    faulthandler.disable()
    for number in FAULTS:
        _libc.signal(number, ctypes.cast(_libc.pause, ctypes.c_void_p))


class _Event(ctypes.Structure):
    """A sigevent that calls a function with a value in a thread of its own."""

    _fields_ = (('value', ctypes.c_ssize_t), ('number', ctypes.c_int), ('notify', ctypes.c_int),
                ('function', ctypes.c_void_p), ('attributes', ctypes.c_void_p),
                ('padding', ctypes.c_char * 32))


class _Due(ctypes.Structure):
    """An itimerspec: period and first time, in seconds and nanoseconds."""

    _fields_ = tuple((name, ctypes.c_long) for name in (
        'period_s', 'period_ns', 'first_s', 'first_ns'))
