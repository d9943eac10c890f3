"""What differs between distributions of ROS, all of it: Humble, Jazzy and Kilted."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
from collections.abc import Callable, Mapping
from typing import Any

PROFILE_VARIABLES = ('FASTDDS_DEFAULT_PROFILES_FILE', 'FASTRTPS_DEFAULT_PROFILES_FILE')

#: Distributions whose Fast DDS is older than 3.
WITH_FAST_DDS_2 = ('humble', 'iron', 'jazzy')


def profile_variable(environment: Mapping[str, str] = os.environ) -> str:
    """The variable that names Fast DDS's profile.

    Fast DDS 2, of Jazzy and before, knows the old name only; Fast DDS 3 warns about that. Wheels
    of ROS leave ROS_DISTRO unset, and call Fast DDS 2 by its old name, too.
    """
    distribution = environment.get('ROS_DISTRO', '')
    is_old = distribution in WITH_FAST_DDS_2 if distribution else _is_installed('ros-fastrtps')
    return PROFILE_VARIABLES[is_old]


def _is_installed(wheel: str) -> bool:
    try:
        importlib.metadata.distribution(wheel)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def event_callbacks() -> Any:
    """The module of rclpy that has PublisherEventCallbacks and SubscriptionEventCallbacks."""
    try:
        return importlib.import_module('rclpy.event_handler')
    except ImportError:
        return importlib.import_module('rclpy.qos_event')       # Humble


def add_parameter_callbacks(node: Any, *, pre_set: Callable[[Any], Any],
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
