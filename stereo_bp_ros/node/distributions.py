"""Where Humble's rclpy differs from that of Jazzy and Kilted.

That is all: Jazzy's and Kilted's are the same to this package. ``transport.profile_variable`` has
the one difference in Fast DDS, which is settled before rclpy is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.node import Node

try:
    from rclpy.event_handler import PublisherEventCallbacks, SubscriptionEventCallbacks
except ImportError:     # Humble
    from rclpy.qos_event import PublisherEventCallbacks, SubscriptionEventCallbacks

__all__ = ['PublisherEventCallbacks', 'SubscriptionEventCallbacks', 'add_parameter_callbacks']


def add_parameter_callbacks(node: Node, *, pre_set: Callable[[Any], Any],
                            on_set: Callable[[Any], Any],
                            post_set: Callable[[Any], Any]) -> bool:
    """Have these called around every set of parameters; returns whether all three are.

    Humble calls ``on_set`` alone: a change then has to be applied there.
    """
    node.add_on_set_parameters_callback(on_set)
    if not hasattr(node, 'add_post_set_parameters_callback'):
        return False
    node.add_pre_set_parameters_callback(pre_set)
    node.add_post_set_parameters_callback(post_set)
    return True
