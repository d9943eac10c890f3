"""Quality of service of every topic, and what to say when two ends do not fit."""

from __future__ import annotations

import copy

from rclpy.qos import (
    HistoryPolicy,
    QoSPolicyKind,
    QoSProfile,
    ReliabilityPolicy,
    qos_policy_name_from_kind,
    qos_profile_sensor_data,
    qos_profile_system_default,
)
from rclpy.qos_overriding_options import QoSOverridingOptions

#: What users may override per topic with parameters; durability for latched camera_info.
OVERRIDABLE = (QoSPolicyKind.HISTORY, QoSPolicyKind.DEPTH, QoSPolicyKind.RELIABILITY,
               QoSPolicyKind.DURABILITY)


def subscription(use_system_default: bool) -> QoSProfile:
    """For images and camera_info; a copy, because rclpy writes overrides into it."""
    return copy.copy(qos_profile_system_default if use_system_default
                     else qos_profile_sensor_data)


def publisher() -> QoSProfile:
    """For results: only the latest counts, and it is to arrive."""
    return QoSProfile(history=HistoryPolicy.KEEP_LAST, depth=1,
                      reliability=ReliabilityPolicy.RELIABLE)


def overriding_options() -> QoSOverridingOptions:
    """Declares the ``qos_overrides`` parameters of a topic."""
    return QoSOverridingOptions(OVERRIDABLE)


def incompatible(topic: str, other: str, policy_kind: QoSPolicyKind) -> str:
    """The sentence for an incompatible-QoS event; ``other`` is 'publisher' or 'subscription'."""
    policy = qos_policy_name_from_kind(policy_kind).lower()
    return (f'a {other} of {topic} has an incompatible QoS ({policy}): nothing passes between it '
            f'and this node; change it there, or set qos_overrides.{topic}')
