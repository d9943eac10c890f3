"""Quality of service of every topic, and what to say when two ends do not fit."""

from __future__ import annotations

import copy
import itertools
from typing import Any

from rclpy.node import Node
from rclpy.qos import (
    DurabilityPolicy,
    HistoryPolicy,
    QoSCompatibility,
    QoSPolicyKind,
    QoSProfile,
    ReliabilityPolicy,
    qos_check_compatible,
    qos_policy_name_from_kind,
    qos_profile_sensor_data,
    qos_profile_system_default,
)
from rclpy.qos_overriding_options import QoSOverridingOptions

from stereo_bp_ros.errors import printable
from stereo_bp_ros.issues import IssueCode
from stereo_bp_ros.node.diagnostics.issue_log import IssueLog
from stereo_bp_ros.system import distributions

#: What users may override per topic with parameters.
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


def latched() -> QoSProfile:
    """For what is published once, and arrives later on, too."""
    return QoSProfile(history=HistoryPolicy.KEEP_LAST, depth=1,
                      reliability=ReliabilityPolicy.RELIABLE,
                      durability=DurabilityPolicy.TRANSIENT_LOCAL)


def is_latched(node: Node, topic: str) -> bool:
    """Whether a publisher of a resolved topic keeps what it has published for who comes later."""
    return any(one.qos_profile.durability == DurabilityPolicy.TRANSIENT_LOCAL
               and one.qos_profile.reliability == ReliabilityPolicy.RELIABLE
               for one in node.get_publishers_info_by_topic(topic))


def overriding_options() -> QoSOverridingOptions:
    """Declares the ``qos_overrides`` parameters of a topic."""
    return QoSOverridingOptions(OVERRIDABLE)


class QosWatch:
    """Holds an issue for every topic on which nothing passes because of its QoS.

    QoS events are not withdrawn when an endpoint leaves. So the topics of events are looked up
    among the present endpoints.
    """

    def __init__(self, node: Node, issues: IssueLog) -> None:
        self._node = node
        self._issues = issues
        #: By topic: what the other end is, 'publisher' or 'subscription', and the kind of policy.
        self._events: dict[str, tuple[str, Any]] = {}

    def subscription(self, topic: str) -> Any:
        """Callbacks for a subscription of this node, by its resolved topic."""
        return distributions.event_callbacks().SubscriptionEventCallbacks(
            incompatible_qos=lambda event: self._incompatible(topic, 'publisher', event))

    def optional_subscription(self) -> Any:
        """Callbacks for a subscription beside another one: that nothing fits it is no issue."""
        return distributions.event_callbacks().SubscriptionEventCallbacks(
            incompatible_qos=lambda event: None)

    def publisher(self, topic: str) -> Any:
        """Callbacks for a publisher of this node, by its resolved topic."""
        return distributions.event_callbacks().PublisherEventCallbacks(
            incompatible_qos=lambda event: self._incompatible(topic, 'subscription', event))

    def refresh(self) -> None:
        """Report what does not fit by now."""
        for topic in list(self._events):
            self._hold(topic)

    def _incompatible(self, topic: str, other: str, event: Any) -> None:
        self._events[topic] = other, event.last_policy_kind
        self._hold(topic)

    def _hold(self, topic: str) -> None:
        other, kind = self._events[topic]
        policy = qos_policy_name_from_kind(kind).lower()
        owners = ' and '.join(sorted(self._owners(topic, other)))
        self._issues.hold(IssueCode.QOS, *(
            [f'a {other} of {topic} has an incompatible QoS ({policy}): nothing passes between '
             f'{owners} and this node; change it there, or set qos_overrides.{topic}']
            if owners else []), place=topic)

    def _owners(self, topic: str, other: str) -> set[str]:
        """Names of the nodes whose end of the topic does not fit this node's."""
        publishers = self._node.get_publishers_info_by_topic(topic)
        subscriptions = self._node.get_subscriptions_info_by_topic(topic)
        own_name = self._node.get_name(), self._node.get_namespace()
        names = set()
        for publisher, subscription in itertools.product(publishers, subscriptions):
            own, foreign = publisher, subscription
            if other == 'publisher':
                own, foreign = foreign, own
            if (own.node_name, own.node_namespace) == own_name and qos_check_compatible(
                    publisher.qos_profile, subscription.qos_profile
                    )[0] == QoSCompatibility.ERROR:
                names.add(printable(f'{foreign.node_namespace.rstrip("/")}/{foreign.node_name}'))
        return names
