"""Entry point of ``stereo_bp_node``: one process, one node, and an orderly end."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stereo_bp_ros.node.signals import ShutdownSignals

if TYPE_CHECKING:
    from rclpy.executors import Executor
    from rclpy.impl.rcutils_logger import RcutilsLogger

    from stereo_bp_ros.node.engine_room import MatcherFactory

#: Exit statuses but 0, which SIGINT and SIGTERM give.
EXIT_REFUSED, EXIT_DEVICE_LOST = 2, 3

#: Seconds that a frame in progress is waited for, and that the whole end may take.
STOP_LIMIT, END_LIMIT = 0.8, 5.0

SWITCH_INTERVAL = 0.0002


def main(args: Sequence[str] | None = None, *,
         matcher_factory: MatcherFactory | None = None) -> int:
    """Run the node until a signal or a lost device ends it; returns the exit status."""
    with ShutdownSignals() as signals:
        return _run(args, matcher_factory, signals)


def _run(args: Sequence[str] | None, matcher_factory: MatcherFactory | None,
         signals: ShutdownSignals) -> int:
    # After the signals are in hand: these imports take a second.
    import rclpy
    from rclpy.exceptions import (
        InvalidParameterTypeException,
        InvalidParameterValueException,
    )
    from rclpy.executors import SingleThreadedExecutor
    from rclpy.signals import SignalHandlerOptions

    from stereo_bp_ros.errors import StereoError
    from stereo_bp_ros.node.node import StereoBpNode

    fatal: list[str] = []

    def on_fatal(text: str) -> None:
        fatal.append(text)
        signals.wake()

    # A thread that has become ready waits for the interpreter at most so long: this is where the
    # worker's wake-up would lose milliseconds.
    sys.setswitchinterval(SWITCH_INTERVAL)
    try:
        rclpy.init(args=None if args is None else list(args),
                   signal_handler_options=SignalHandlerOptions.NO)
        node = StereoBpNode(matcher_factory=matcher_factory, on_fatal=on_fatal)
    except (StereoError, InvalidParameterTypeException, InvalidParameterValueException,
            RuntimeError) as error:     # RuntimeError: ROS arguments that rcl refuses
        print(f'stereo_bp_node: {error}', file=sys.stderr)
        rclpy.try_shutdown()
        return EXIT_REFUSED
    # rclpy's multi-threaded executor hands a task that has not begun yet to its pool again and
    # again; when frames keep both cores busy it takes one of them for itself.
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    # Not in the main thread, which is to answer signals at once.
    spinner = threading.Thread(target=_spin, args=(executor, node.get_logger()),
                               name='stereo_bp_executor', daemon=True)
    spinner.start()
    node.autostart()

    name = signals.wait()
    status = EXIT_DEVICE_LOST if fatal else 0
    node.get_logger().info(f'shutting down ({name or fatal[0]})')
    _exit_after(END_LIMIT, status)
    ended = node.stop(STOP_LIMIT)
    executor.shutdown(timeout_sec=1.0)
    spinner.join(1.0)
    node.destroy_node()
    rclpy.try_shutdown()
    if not ended:
        # The compiler cannot be interrupted, and is not to be torn down while it runs.
        _exit_now(status)
    return status


def _spin(executor: Executor, logger: RcutilsLogger) -> None:
    from rclpy.executors import ExternalShutdownException

    while executor.context.ok():
        try:
            executor.spin()
            return
        except ExternalShutdownException:
            return
        except Exception as error:
            # A subscription that is destroyed while it is waited for raises here; the next
            # round no longer has it.
            logger.debug(f'executor: {error!r}')


def _exit_after(seconds: float, status: int) -> None:
    watchdog = threading.Timer(seconds, _exit_now, (status,))
    watchdog.daemon = True
    watchdog.start()


def _exit_now(status: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == '__main__':
    sys.exit(main())
