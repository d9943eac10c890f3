"""Entry point of ``stereo_bp_node``: one process, one node, and an orderly end."""

from __future__ import annotations

import collections
import gc
import importlib.util
import itertools
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from stereo_bp_ros.system import process

#: The signals that end the node; the last one unless who started it has it ignored (nohup).
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class ShutdownSignals:
    """While entered, SIGINT, SIGTERM and SIGHUP interrupt nothing and only end ``wait``.

    Whichever thread of the process gets the signal, the interpreter writes its number into a
    pipe at once, so that the answer does not depend on what other threads are doing. To be
    entered in the main thread. Once a signal has asked for the end, further ones are ignored for
    good: a terminal and a launch file may both send one.
    """

    def __enter__(self) -> ShutdownSignals:
        self._asked = False
        self._read, self._write = os.pipe()
        for end in (self._read, self._write):
            os.set_blocking(end, False)
        self._previous_fd = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._previous: dict[int, Any] = {
            number: signal.signal(number, _ignore) for number in SIGNALS
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, signal.SIG_IGN if self._asked else handler)
        signal.set_wakeup_fd(self._previous_fd)
        os.close(self._read)
        os.close(self._write)

    def wait(self) -> str:
        """Wait for a signal and return its name, or for ``wake`` and return ''."""
        select.select([self._read], [], [])
        number = os.read(self._read, 1)[0]
        self._asked = bool(number)
        return signal.Signals(number).name if number else ''

    def wake(self) -> None:
        """End ``wait`` from any thread."""
        os.write(self._write, b'\0')


def _ignore(number: int, frame: object) -> None:
    """Python calls this some time after the pipe has told everything."""


if TYPE_CHECKING:
    from rclpy.executors import Executor

    from stereo_bp_ros.node.matcher_host import MatcherFactory

#: Exit statuses but 0, which signals give.
EXIT_REFUSED, EXIT_DEVICE_LOST, EXIT_SPINNING = 2, 3, 4

#: So many exceptions of the executor within so many seconds are an endless loop: damaged messages
#: of two cameras with their camera_infos, 30 a second each, are 600 in that time.
MAX_ERRORS, ERROR_WINDOW = 1000, 5.0

#: Seconds that a frame in progress is waited for.
STOP_LIMIT = 0.8

SWITCH_INTERVAL = 0.0002

USAGE = """usage: stereo_bp_node [--ros-args -p NAME:=VALUE -r FROM:=TO --params-file FILE ...]

Turns rectified stereo pairs into disparity. docs/reference/node.md lists its topics, parameters.md
beside it the parameters, which stereo_bp info --settings prints, too."""


class Spinner:
    """Runs an executor in a thread of its own until its context is shut down.

    It goes on after an exception, whoever raised it, until they follow each other without end.

    :param on_error: is notified of every exception except ``InvalidHandle``: a subscription that
        is destroyed while it is waited for raises that, and the next round no longer has it.
    :param on_endless: is notified in words, once, that there are ``MAX_ERRORS`` within
        ``ERROR_WINDOW``; the thread has ended by then.
    """

    def __init__(self, executor: Executor, *, on_error: Callable[[BaseException], None],
                 on_endless: Callable[[str], None]) -> None:
        self._executor = executor
        self._on_error = on_error
        self._on_endless = on_endless
        self._thread = threading.Thread(target=self._spin, name='stereo_bp_executor', daemon=True)
        self._thread.start()

    def end(self, limit: float) -> bool:
        """Shut the context down; returns whether the thread ended within ``limit`` seconds.

        Not the executor: its ``shutdown`` takes away what wakes a wait that is just being
        prepared, which then lasts for ever and holds the DDS participant.
        """
        self._executor.context.try_shutdown()
        self._thread.join(limit)
        return not self._thread.is_alive()

    def _spin(self) -> None:
        from rclpy.exceptions import InvalidHandle
        from rclpy.executors import ExternalShutdownException

        errors: collections.deque[float] = collections.deque(maxlen=MAX_ERRORS)
        while self._executor.context.ok():
            try:
                self._executor.spin()
                return
            except ExternalShutdownException:
                return
            except Exception as error:
                if not self._executor.context.ok():
                    return              # an end in the middle of a callback is no news
                if not isinstance(error, InvalidHandle):
                    self._on_error(error)
                errors.append(time.monotonic())
                if len(errors) == MAX_ERRORS and errors[-1] - errors[0] < ERROR_WINDOW:
                    self._on_endless(f'the executor fails without end: {MAX_ERRORS} exceptions in '
                                     f'{errors[-1] - errors[0]:.1f} s, the last one {error!r}')
                    return


def main(args: Sequence[str] | None = None, *,
         matcher_factory: MatcherFactory | None = None) -> int:
    """Run the node until a signal, a lost device or an executor that only fails ends it.

    Returns the exit status.
    """
    process.open_standard_streams()
    with ShutdownSignals() as signals:
        return _run(args, matcher_factory, signals)


def _run(args: Sequence[str] | None, matcher_factory: MatcherFactory | None,
         signals: ShutdownSignals) -> int:
    from stereo_bp_ros.engines import host_memory
    from stereo_bp_ros.errors import StereoError, printable
    from stereo_bp_ros.system import transport

    arguments = list(sys.argv[1:] if args is None else args)
    own = arguments[:arguments.index('--ros-args')] if '--ros-args' in arguments else arguments
    if {'-h', '--help'} & set(own):
        print(USAGE)
        return 0
    if importlib.util.find_spec('rclpy') is None:
        print("stereo_bp_node: needs rclpy: source the setup.bash of ROS 2, or install the extra "
              "'ros' of this package", file=sys.stderr)
        return EXIT_REFUSED
    try:
        host_memory.check_address_space(before_compiler=True)
        missing = transport.prepare()
    except StereoError as error:
        print(f'stereo_bp_node: {error}', file=sys.stderr)
        return EXIT_REFUSED
    transport.keep_freed_memory()
    # After the signals are in hand: these imports take a second.
    import rclpy
    from rclpy.exceptions import (
        InvalidParameterTypeException,
        InvalidParameterValueException,
    )
    from rclpy.executors import SingleThreadedExecutor
    from rclpy.signals import SignalHandlerOptions

    from stereo_bp_ros.config.parameter_blocks import without_node
    from stereo_bp_ros.node.node import StereoBpNode

    fatal: list[tuple[str, int]] = []

    def end(text: str, status: int) -> None:
        fatal.append((text, status))
        signals.wake()

    # A thread that has become ready waits for the interpreter at most so long: this is where the
    # worker's wake-up would lose milliseconds.
    sys.setswitchinterval(SWITCH_INTERVAL)
    try:
        rclpy.init(args=None if args is None else list(args),
                   signal_handler_options=SignalHandlerOptions.NO)
        node = StereoBpNode(matcher_factory=matcher_factory,
                            on_fatal=lambda text: end(text, EXIT_DEVICE_LOST),
                            on_configured=freeze, transport=missing)
    except (StereoError, InvalidParameterTypeException, InvalidParameterValueException,
            RuntimeError) as error:     # RuntimeError: ROS arguments that rcl rejects
        print(f'stereo_bp_node: {error}', file=sys.stderr)
        process.end_despite_faults(EXIT_REFUSED)
        rclpy.try_shutdown()
        return EXIT_REFUSED
    for text in own:
        name, assigns, _ = text.partition(':=')
        if assigns and node.has_parameter(name):
            node.get_logger().warning(f'{printable(text)} is a remapping; a parameter is '
                                      f'--ros-args -p {printable(text)}')
    for option, path in itertools.pairwise(arguments):
        if option == '--params-file' and (sentence := without_node(
                path, node.get_fully_qualified_name())):
            node.get_logger().warning(sentence)
    # rclpy's multi-threaded executor hands a task that has not begun yet to its pool again and
    # again; when frames keep both cores busy it takes one of them for itself.
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    # Not in the main thread, which is to answer signals at once.
    spinner = Spinner(executor, on_error=node.report_error,
                      on_endless=lambda text: end(text, EXIT_SPINNING))
    node.autostart()

    name = signals.wait()
    text, status = (name, 0) if name else fatal[0]
    if status == EXIT_SPINNING:
        node.get_logger().error(text)
    node.get_logger().info(f'shutting down ({text})')
    process.end_within(process.END_LIMIT, status)
    ended = node.stop(STOP_LIMIT)
    spinner.end(1.0)
    executor.shutdown(timeout_sec=0.0)
    process.end_despite_faults(status)
    node.destroy_node()
    rclpy.try_shutdown()
    # What was frozen would hold the DDS participant, and with it its shared memory, to the end.
    gc.unfreeze()
    if not ended:
        # The compiler cannot be interrupted, and is not to be torn down while it runs.
        os._exit(status)
    return status


def freeze() -> None:
    """Have the garbage collector leave alone what lives by now.

    Looking through all of it, mostly modules and compiled code, holds every thread up for longer
    than a frame may take. What was frozen before and is garbage since is collected first.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()


if __name__ == '__main__':
    sys.exit(main())
