"""Sets many parameters at once, as ``ros2 param load`` does, in whatever order they come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rcl_interfaces.msg import SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.parameter_service import ParameterService

from stereo_bp_ros.node.parameters import same_value


class BatchParameterService(ParameterService):
    """The parameter services of a node, with one difference.

    A request to set several parameters is first tried as a whole, because values that go
    together may be refused one by one: one change of configuration instead of many, and a dump
    can be loaded whatever was set before.
    """

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self._batch_node = node

    def _set_parameters_callback(self, request: Any, response: Any) -> Any:
        response.results = set_together(
            self._batch_node, [Parameter.from_parameter_msg(p) for p in request.parameters])
        return response


def set_together(node: Node, parameters: Sequence[Parameter]) -> list[SetParametersResult]:
    """Set parameters as a whole where that is possible, else one by one; a result for each.

    Setting a read-only parameter to the value that it has is no failure.
    """
    results = [_known_result(node, parameter) for parameter in parameters]
    open_ = [i for i, result in enumerate(results) if result is None]
    if len(open_) > 1:
        together = _set(node, [parameters[i] for i in open_])
        if together.successful:
            return [result or together for result in results]
    # One value may be acceptable only after another: go round as long as that helps.
    while open_:
        refused = []
        for i in open_:
            results[i] = result = _set(node, [parameters[i]])
            if not result.successful:
                refused.append(i)
        if len(refused) == len(open_):
            break
        open_ = refused
    return [result for result in results if result is not None]


def _known_result(node: Node, parameter: Parameter) -> SetParametersResult | None:
    name = parameter.name
    if not node.has_parameter(name):
        return SetParametersResult(successful=False, reason=f'there is no parameter {name}')
    if (node.describe_parameter(name).read_only
            and same_value(node.get_parameter(name).value, parameter.value)):
        return SetParametersResult(successful=True)
    return None


def _set(node: Node, parameters: Sequence[Parameter]) -> SetParametersResult:
    return node.set_parameters_atomically(list(parameters))
