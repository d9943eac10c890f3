"""Asks a node that runs which settings are in force."""

from __future__ import annotations

import threading
from typing import Any

from rcl_interfaces.srv import GetParameters
from rclpy.node import Node
from rclpy.parameter import parameter_value_to_python

from stereo_bp_ros.config import MatcherConfig, Value

#: Settings that say which images are a pair.
SYNC = ('approximate_sync', 'approximate_sync_tolerance_seconds')

#: Seconds that the answer is waited for; the node has compiled by then.
LIMIT_S = 10.0


def of_publisher(node: Node, topic: str) -> dict[str, Value]:
    """Settings of the matcher and ``SYNC`` of the node that publishes a topic.

    Empty where it does not tell.

    :param node: spins in another thread.
    """
    publishers = node.get_publishers_info_by_topic(node.resolve_topic_name(topic))
    if len(publishers) != 1:
        return {}
    where = f'{publishers[0].node_namespace.rstrip("/")}/{publishers[0].node_name}'
    client = node.create_client(GetParameters, f'{where}/get_parameters')
    try:
        if not client.wait_for_service(LIMIT_S):
            return {}
        # Every node has these; settings of a single program are not parameters.
        names = [*MatcherConfig().to_mapping(), *SYNC]
        told = threading.Event()
        future: Any = client.call_async(GetParameters.Request(names=names))
        future.add_done_callback(lambda _: told.set())
        if not told.wait(LIMIT_S) or future.result() is None:
            return {}
        values = future.result().values
        # A node that lacks one of them answers with none.
        return {name: parameter_value_to_python(value)
                for name, value in zip(names, values, strict=False)}
    finally:
        node.destroy_client(client)
