"""Reads and sets parameters of a running node by the services that every node has.

``rclpy.parameter_client`` would do it, too, but not every distribution has it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from rcl_interfaces.srv import GetParameters, ListParameters, SetParameters
from rclpy.node import Node
from rclpy.parameter import Parameter, parameter_value_to_python

from stereo_bp_ros.config.settings import did_you_mean, scalar
from stereo_bp_ros.errors import StereoError, shown

#: Seconds after which a request is sent again: an answer is lost where DDS does not know yet
#: who asks. Asking twice changes nothing.
AGAIN_S = 2.0


#: What a parameter of a type takes, in words.
KINDS = {bool: 'true or false', int: 'a whole number', float: 'a number'}


class RemoteParameters:
    """The parameters of another node; ``node`` is spun by somebody else.

    :param target: fully qualified name of the other node.
    :param seconds: wait so long for each answer.
    """

    def __init__(self, node: Node, target: str, seconds: float) -> None:
        self._node, self._target, self._seconds = node, target, seconds

    def names(self) -> list[str]:
        """All that the node has declared."""
        return sorted(self._ask(ListParameters, 'list_parameters').result.names)

    def get(self, names: Sequence[str]) -> dict[str, Any]:
        """Values by names.

        :raises StereoError: the node has no parameter of a name; says which is the closest.
        """
        known = self.names()
        for name in names:
            if name not in known:
                raise StereoError(f'{self._target} has no parameter {shown(name)}'
                                  + did_you_mean(name, known))
        values = self._ask(GetParameters, 'get_parameters', names=list(names)).values
        return {name: parameter_value_to_python(value)
                for name, value in zip(names, values, strict=True)}

    def set(self, name: str, text: str) -> Any:
        """Set a parameter to what a text means for it; returns its value then.

        :raises StereoError: there is none of this name, or the node rejects the value.
        """
        now = self.get([name])[name]
        value = text if isinstance(now, str) else scalar(text)
        if isinstance(now, float) and type(value) is int:
            value = float(value)
        if type(now) in KINDS and type(value) is not type(now):
            raise StereoError(f'{name} takes {KINDS[type(now)]}, not {shown(text)}')
        if type(value) is int and not -2**63 <= value < 2**63:
            raise StereoError(f'{name} cannot be {shown(text)}: whole numbers of ROS have 64 bits')
        result, = self._ask(SetParameters, 'set_parameters', parameters=[
            Parameter(name, value=value).to_parameter_msg()]).results
        if not result.successful:
            raise StereoError(f'{self._target} rejects it: {result.reason}')
        return self.get([name])[name]

    def _ask(self, kind: Any, name: str, **fields: Any) -> Any:
        client = self._node.create_client(kind, f'{self._target}/{name}')
        end = time.monotonic() + self._seconds
        try:
            while (left := end - time.monotonic()) > 0 and client.wait_for_service(left):
                answered = threading.Event()
                future = client.call_async(kind.Request(**fields))
                future.add_done_callback(lambda _, answered=answered: answered.set())
                if answered.wait(min(left, AGAIN_S)):
                    return future.result()
        finally:
            self._node.destroy_client(client)
        raise StereoError(f'{self._target} answers no request of parameters within '
                          f'{self._seconds:g} s')
