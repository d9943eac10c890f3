"""ROS parameters: declared from, and checked against, the settings of ``config``."""

from __future__ import annotations

import difflib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    SetParametersResult,
)
from rclpy.node import Node
from rclpy.parameter import Parameter

from stereo_bp_ros.config import IGNORED, MatcherConfig, NodeConfig, all_settings, split
from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.parameter_files import load_preset
from stereo_bp_ros.settings import Setting, Value

#: Called with the configuration before, the one asked for, and the node's settings.
Check = Callable[[MatcherConfig, MatcherConfig, NodeConfig], None]


class Parameters:
    """Both configurations of a node, kept equal to its parameters.

    A set is checked as a whole, without touching a device, and refused in words; an accepted
    one is handed on at once.

    :param check: raises ``StereoError`` for a matcher configuration that cannot be accepted.
    :param on_change: is told after ``matcher`` or ``node`` has changed.
    :raises ConfigError: the initial values are refused.
    """

    def __init__(self, node: Node, *, check: Check, on_change: Callable[[], None]) -> None:
        self._node = node
        self._check = check
        self._on_change = on_change
        self._settings = all_settings()
        self._lock = threading.RLock()
        self._declare()
        self.matcher, self.node = split(self._values({}))
        self._normalize()
        self._warn_ignored(self._values({}))
        self._warn_unknown()
        node.add_on_set_parameters_callback(self._on_set)
        if hasattr(node, 'add_post_set_parameters_callback'):
            node.add_pre_set_parameters_callback(self._pre_set)
            node.add_post_set_parameters_callback(self._post_set)
            self._applies_on_set = False
        else:       # Humble
            self._applies_on_set = True

    def restore(self, attempted: MatcherConfig, active: MatcherConfig) -> None:
        """Set parameters back that could not be applied.

        What was set to something else in the meantime stays.
        """
        with self._lock:
            changes = {name: getattr(active, name) for name in attempted.differences(active)
                       if getattr(self.matcher, name) == getattr(attempted, name)}
        for values in (changes, active.to_mapping()):
            result = self._node.set_parameters_atomically(
                [Parameter(name, value=value) for name, value in values.items()])
            if result.successful:
                return
        self._node.get_logger().error(f'parameters could not be set back: {result.reason}')

    def _declare(self) -> None:
        preset = self._settings['preset']
        name = self._node.declare_parameter('preset', preset.default, descriptor(preset)).value
        defaults = load_preset(name) if name else {}
        for name, setting in self._settings.items():
            if name != 'preset':
                self._node.declare_parameter(name, defaults.get(name, setting.default),
                                             descriptor(setting))

    def _values(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        return {name: changes[name] if name in changes
                else self._node.get_parameter(name).value for name in self._settings}

    def _normalize(self) -> None:
        """Store 1.0 where 1 was given for a number with a fraction."""
        current = [self._node.get_parameter(name) for name in self._settings]
        self._node.set_parameters_atomically(
            [p for p in self._pre_set(current) if p.type_ == Parameter.Type.DOUBLE])

    def _pre_set(self, parameters: list[Parameter]) -> list[Parameter]:
        return [Parameter(p.name, value=float(p.value))
                if p.name in self._settings and self._settings[p.name].type is float
                and p.type_ == Parameter.Type.INTEGER else p for p in parameters]

    def _on_set(self, parameters: Sequence[Parameter]) -> SetParametersResult:
        changes = self._known(parameters)
        if not changes:
            return SetParametersResult(successful=True)
        try:
            matcher, node = split(self._values(changes))
            if matcher != self.matcher:
                self._check(self.matcher, matcher, node)
        except StereoError as error:
            return SetParametersResult(successful=False, reason=str(error))
        except Exception as error:
            return SetParametersResult(successful=False, reason=f'cannot be checked: {error!r}')
        if self._applies_on_set:
            self._apply(matcher, node, changes)
        return SetParametersResult(successful=True)

    def _post_set(self, parameters: Sequence[Parameter]) -> None:
        changes = self._known(parameters)
        if changes:
            self._apply(*split(self._values({})), changes)

    def _apply(self, matcher: MatcherConfig, node: NodeConfig,
               changes: Mapping[str, Any]) -> None:
        with self._lock:
            changed = (matcher, node) != (self.matcher, self.node)
            self.matcher, self.node = matcher, node
        self._warn_ignored(changes)
        if changed:
            self._on_change()

    def _known(self, parameters: Sequence[Parameter]) -> dict[str, Any]:
        return {p.name: p.value for p in parameters if p.name in self._settings}

    def _warn_ignored(self, values: Mapping[str, Any]) -> None:
        for name in IGNORED:
            setting = self._settings[name]
            if name in values and values[name] != setting.default:
                self._node.get_logger().warning(
                    f'{name} is {values[name]}, which has no effect: {setting.meaning}')

    def _warn_unknown(self) -> None:
        """A misspelt name in a parameter file is silently left out by ROS."""
        for name in getattr(self._node, '_parameter_overrides', {}):
            if not self._node.has_parameter(name) and not name.startswith('qos_overrides.'):
                close = difflib.get_close_matches(name, self._settings, 1)
                hint = f'; did you mean {close[0]}?' if close else ''
                self._node.get_logger().warning(f'there is no parameter {name}{hint}')


def descriptor(setting: Setting) -> ParameterDescriptor:
    """What ROS tools show of a setting, and check before the node is asked."""
    unit = f' ({setting.unit})' if setting.unit else ''
    result = ParameterDescriptor(
        name=setting.name, description=setting.meaning + unit, read_only=setting.read_only,
        additional_constraints=setting.limit(),
        # Whole numbers are accepted for numbers, and numbers for names that have one.
        dynamic_typing=setting.type is float or bool(setting.aliases))
    if setting.minimum is None or setting.maximum is None:
        return result
    if setting.type is int:
        result.integer_range = [IntegerRange(
            from_value=int(setting.minimum), to_value=int(setting.maximum),
            step=2 if setting.odd else 1)]
    elif setting.type is float:
        result.floating_point_range = [FloatingPointRange(
            from_value=float(setting.minimum), to_value=float(setting.maximum), step=0.0)]
    return result


def same_value(left: Value, right: Value) -> bool:
    """Whether two parameter values are equal and of one kind (True is not 1)."""
    return left == right and isinstance(left, bool) == isinstance(right, bool)
