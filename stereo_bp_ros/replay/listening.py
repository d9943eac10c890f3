"""Nodes that only listen, and the threads that hand them their messages."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

import rclpy
from rclpy.context import Context
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node


@contextlib.contextmanager
def listener(name: str, context: Context | None) -> Iterator[Node]:
    """A node without services, parameters and log topic.

    :param context: of rclpy; None: one of its own.
    """
    own = context or Context()
    if context is None:
        rclpy.init(context=own, args=[])
    try:
        node = Node(name, context=own, enable_rosout=False, start_parameter_services=False,
                    use_global_arguments=False)
        try:
            yield node
        finally:
            node.destroy_node()
    finally:
        if context is None:
            rclpy.try_shutdown(context=own)


class Spinner:
    """A thread that calls a node's callbacks until it is closed.

    :param name: of the thread.
    :param between: is called between messages, ten times a second at least.
    """

    def __init__(self, node: Node, name: str, between: Callable[[], None] = lambda: None) -> None:
        self._between = between
        self._closing = threading.Event()
        self._executor = SingleThreadedExecutor(context=node.context)
        self._executor.add_node(node)
        self._thread = threading.Thread(target=self._spin, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """No callback runs any more, unless one takes longer than ten seconds."""
        self._closing.set()
        self._thread.join(10)
        self._executor.shutdown()

    def _spin(self) -> None:
        with contextlib.suppress(ExternalShutdownException):
            while not self._closing.is_set():
                self._between()
                self._executor.spin_once(timeout_sec=0.1)


def absolute(namespace: str) -> str:
    """A namespace as somebody writes it, from the root on."""
    return f'/{namespace.strip("/")}'


def namespace_of(node: str) -> str:
    """Of a fully qualified name."""
    return node.rpartition('/')[0] or '/'
