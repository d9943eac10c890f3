# PYTHON_ARGCOMPLETE_OK
"""Entry point of ``stereo_bp``: finds the verb and runs it."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn

from stereo_bp_ros import __version__
from stereo_bp_ros.engines import compiling, host_memory
from stereo_bp_ros.errors import StereoError, visible
from stereo_bp_ros.system import process

if TYPE_CHECKING:
    from sys import UnraisableHookArgs
    from types import ModuleType

VERBS = ('match', 'evaluate', 'benchmark', 'replay', 'view', 'status', 'param', 'info', 'demo',
         'render', 'calibrate-check')

#: Status where the reader of the output has gone; that of Rich, which prints the tables.
BROKEN_PIPE = 1

#: What Python says where the system starts no thread: of a RuntimeError that has no other mark.
NO_THREAD = "can't start new thread"

#: Seconds until an interruption that was lost comes again.
AGAIN = 0.05


class UsageError(StereoError):
    """The command line itself is wrong; ``program`` is the command whose --help says how."""

    def __init__(self, program: str, message: str) -> None:
        super().__init__(message)
        self.program = program


class Parser(argparse.ArgumentParser):
    """Raises what it rejects, so that a mistake is one line as everywhere else."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(self.prog, f'{message} ({self.prog} --help shows the usage)')


def verb_module(name: str) -> ModuleType:
    """The module of a verb, e.g. ``cli/calibrate_check.py`` of ``calibrate-check``."""
    return importlib.import_module(f'stereo_bp_ros.cli.{name.replace("-", "_")}')


def build_parser(only: str | None = None) -> Parser:
    """The parser of every verb; each verb module has HELP, NEEDS, add_arguments and run.

    :param only: the one verb to know.
    """
    parser = Parser(
        prog='stereo_bp', description='Stereo matching: match two images, evaluate data sets '
        'and bags, replay them to the ROS node, render streets with exact truth.')
    parser.add_argument('--version', action='version', version=__version__)
    verbs = parser.add_subparsers(dest='verb', required=True, metavar='VERB')
    from stereo_bp_ros.cli.options import missing
    for name in [only] if only else VERBS:
        verb = verb_module(name)
        lacking = missing(verb.NEEDS)
        child = verbs.add_parser(
            name, help=f'{verb.HELP} (not here: {lacking})' if lacking else verb.HELP,
            description=verb.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        verb.add_arguments(child)
        if lacking:
            child.epilog = f'{name} cannot run here: it {lacking}'
        child.set_defaults(run=verb.run, needs=verb.NEEDS)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``stereo_bp`` with these arguments, or those of the process; returns the exit status.

    An error that the user can mend is one line on standard error and status 2. An interruption,
    or a reader of the output that has gone, is no error and says nothing.
    """
    if arguments is None:
        if '_ARGCOMPLETE' in os.environ:
            with contextlib.suppress(ImportError):
                import argcomplete
                argcomplete.autocomplete(build_parser())    # the shell asks at TAB; ends here
        process.open_standard_streams()
        status = main(sys.argv[1:])
        process.end_by_interruption()   # what the interpreter does at the end is no one's to catch
        if 'rclpy' in sys.modules:
            process.end_despite_faults(status)
        return status
    handler = logging.StreamHandler()
    handler.setFormatter(_OneLine('%(levelname)s: %(message)s'))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    # Who waits for a compiler is told so, whatever else is worth a line.
    compiling.log.setLevel(logging.INFO)
    for stream in (sys.stdout, sys.stderr):
        # Names of files need not be text, nor text be what a terminal can show.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors='backslashreplace')
    program = 'stereo_bp'
    try:
        try:
            process.raise_interruptions()
            host_memory.check_address_space()
            options = _parse(list(arguments))
            program = f'stereo_bp {options.verb}'
            from stereo_bp_ros.cli.options import require
            with interruptions_kept():
                require(*options.needs)
                return int(options.run(options))
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _abandon_output()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return process.interrupted_status()
    except UsageError as error:
        program, message = error.program, str(error)
    except (StereoError, ValueError, OSError) as error:
        message = str(error)
    except ImportError as error:        # a library that is there, but cannot be loaded
        message = f'a package cannot be loaded: {error}'
    except Warning as error:
        message = f'a warning is an error here (-W, PYTHONWARNINGS): {error}'
    except MemoryError as error:
        message = f'there is not enough memory: {error}'
    except RuntimeError as error:
        if NO_THREAD not in str(error):
            raise
        message = f'there is not enough memory, or a limit of processes is reached: {error}'
    print(f'{program}: {one_line(message)}', file=sys.stderr)
    try:
        sys.stdout.flush()
    except OSError:                 # what could not be written is what was reported
        _abandon_output()
    return 2


@contextlib.contextmanager
def interruptions_kept() -> Iterator[None]:
    """Raise a KeyboardInterrupt again where Python could only print it.

    It is lost where C has called Python: llvmlite does so while Numba loads compiled code.
    """
    previous = sys.unraisablehook

    def hook(lost: UnraisableHookArgs) -> None:
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            previous(lost)
            return
        # Not here, where it would be lost again; and a signal, which ends a sleep.
        later = threading.Timer(AGAIN, signal.pthread_kill,
                                (threading.main_thread().ident, signal.SIGINT))
        later.daemon = True
        later.start()

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = previous


def _parse(arguments: list[str]) -> argparse.Namespace:
    # What follows --ros-args belongs to ROS: remappings and parameters of the verb's node.
    ros_arguments: list[str] = []
    if '--ros-args' in arguments:
        start = arguments.index('--ros-args')
        arguments, ros_arguments = arguments[:start], arguments[start:]
    # Half a second of the start would go into verbs that nobody asked for.
    only = arguments[0] if arguments and arguments[0] in VERBS else None
    options, unknown = build_parser(only).parse_known_args(arguments)
    if unknown:
        program = f'stereo_bp {options.verb}'
        raise UsageError(program, f'unrecognized arguments: {" ".join(unknown)} ({program} --help '
                         'shows the usage)')
    if ros_arguments and options.verb != 'replay':
        raise UsageError(f'stereo_bp {options.verb}', '--ros-args are for replay, which has a '
                         'node; this verb takes none')
    options.ros_arguments = ros_arguments
    return options


def one_line(text: str) -> str:
    """A message without line breaks; what cannot be shown is written as its code."""
    return visible(' '.join(text.split()))


class _OneLine(logging.Formatter):
    """Writes a message in one line, whatever names are in it."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (of the base class)
        return one_line(super().formatMessage(record))


def _abandon_output() -> None:
    """Let the interpreter find nothing to write when it ends: it would complain again."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == '__main__':
    sys.exit(main())
