"""Reads and sets parameters of a running node, by rclpy's client of its services."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from rclpy.node import Node
from rclpy.parameter import Parameter, get_parameter_value, parameter_value_to_python
from rclpy.parameter_client import AsyncParameterClient

from stereo_bp_ros.config.settings import did_you_mean
from stereo_bp_ros.errors import StereoError, shown

#: Seconds after which a request is sent again: an answer is lost where DDS does not know yet
#: who asks. Asking twice changes nothing.
AGAIN_S = 2.0


class RemoteParameters:
    """The parameters of another node; ``node`` is spun by somebody else.

    :param target: fully qualified name of the other node.
    :param seconds: wait so long for each answer.
    """

    def __init__(self, node: Node, target: str, seconds: float) -> None:
        self._client = AsyncParameterClient(node, target)
        self._target, self._seconds = target, seconds

    def names(self) -> list[str]:
        """All that the node has declared."""
        return sorted(self._ask(self._client.list_parameters).result.names)

    def get(self, names: Sequence[str]) -> dict[str, Any]:
        """Values by names.

        :raises StereoError: the node has no parameter of a name; says which is the closest.
        """
        known = self.names()
        for name in names:
            if name not in known:
                raise StereoError(f'{self._target} has no parameter {shown(name)}'
                                  + did_you_mean(name, known))
        values = self._ask(self._client.get_parameters, list(names)).values
        return {name: parameter_value_to_python(value)
                for name, value in zip(names, values, strict=True)}

    def set(self, name: str, text: str) -> Any:
        """Set a parameter to what a text means for it; returns its value then.

        :raises StereoError: there is none of this name, or the node rejects the value.
        """
        now = self.get([name])[name]
        value = text if isinstance(now, str) else parameter_value_to_python(
            get_parameter_value(text))
        if isinstance(now, float) and type(value) is int:
            value = float(value)
        result, = self._ask(self._client.set_parameters, [Parameter(name, value=value)]).results
        if not result.successful:
            raise StereoError(f'{self._target} rejects it: {result.reason}')
        return self.get([name])[name]

    def _ask(self, request: Callable[..., Any], *arguments: Any) -> Any:
        end = time.monotonic() + self._seconds
        while (left := end - time.monotonic()) > 0:
            if not self._client.wait_for_services(left):
                break
            answered = threading.Event()
            future = request(*arguments)
            future.add_done_callback(lambda _, answered=answered: answered.set())
            if answered.wait(min(left, AGAIN_S)):
                return future.result()
        raise StereoError(f'{self._target} answers no request of parameters within '
                          f'{self._seconds:g} s')
