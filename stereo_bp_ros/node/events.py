"""Events of publishers and subscriptions: two ends that do not fit are named, in words."""

from __future__ import annotations

from typing import Any

from stereo_bp_ros.node import qos
from stereo_bp_ros.node.conditions import Conditions

try:
    from rclpy.event_handler import PublisherEventCallbacks, SubscriptionEventCallbacks
except ImportError:     # Humble
    from rclpy.qos_event import PublisherEventCallbacks, SubscriptionEventCallbacks


def subscription_events(topic: str, conditions: Conditions) -> SubscriptionEventCallbacks:
    """Callbacks that report publishers of a topic whose QoS does not fit."""
    def incompatible(event: Any) -> None:
        conditions.warn(f'qos {topic}',
                        qos.incompatible(topic, 'publisher', event.last_policy_kind))

    return SubscriptionEventCallbacks(incompatible_qos=incompatible)


def publisher_events(topic: str, conditions: Conditions) -> PublisherEventCallbacks:
    """Callbacks that report subscriptions to a topic whose QoS does not fit."""
    def incompatible(event: Any) -> None:
        conditions.warn(f'qos {topic}',
                        qos.incompatible(topic, 'subscription', event.last_policy_kind))

    return PublisherEventCallbacks(incompatible_qos=incompatible)
