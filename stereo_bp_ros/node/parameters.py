"""ROS parameters: declared from, and checked against, the settings of ``config``."""

from __future__ import annotations

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
from rclpy.parameter_service import ParameterService

from stereo_bp_ros.config.files import AUTO, NONE, load_preset, preset_names
from stereo_bp_ros.config.mappings import all_settings, split
from stereo_bp_ros.config.matcher import MatcherConfig, is_of_presets, provided_by
from stereo_bp_ros.config.node import NodeConfig
from stereo_bp_ros.config.settings import Setting, Value, did_you_mean
from stereo_bp_ros.config.stereo_image_proc import IGNORED, translate
from stereo_bp_ros.errors import ConfigError, StereoError
from stereo_bp_ros.system import distributions

#: Called with the configuration before, the one asked for, and the node's settings.
Check = Callable[[MatcherConfig, MatcherConfig, NodeConfig], None]


class Parameters:
    """Both configurations of a node, kept equal to its parameters.

    A set is checked as a whole, without touching a device, and rejected in words; an accepted
    one is handed on at once.

    :param check: raises ``StereoError`` for a matcher configuration that cannot be accepted.
    :param on_change: is called after ``matcher`` or ``node`` has changed.
    :raises ConfigError: the initial values are rejected.
    """

    def __init__(self, node: Node, *, check: Check, on_change: Callable[[], None]) -> None:
        self._node = node
        self._check = check
        self._on_change = on_change
        self._matcher_settings = MatcherConfig.settings()
        self._lock = threading.RLock()
        self._settings = self._declare()
        values = {name: node.get_parameter(name).value for name in self._settings}
        self.matcher, self.node = split({**values, **self._misplaced(), **self._translate()})
        self._normalize()
        self._first = self.matcher.to_mapping()
        #: What ``auto`` is, and which values it has provided; '' until it is known.
        self._chosen, self._provided = '', dict[str, Value]()
        self._before = self.matcher, self.node.preset
        self._warn_unknown()
        self._applies_on_set = not distributions.add_parameter_callbacks(
            node, pre_set=self._pre_set, on_set=self._on_set, post_set=self._post_set)

    @property
    def awaits_preset(self) -> bool:
        """Whether ``use_preset`` needs the best preset."""
        return self.node.preset == AUTO and not self._chosen

    @property
    def preset(self) -> str:
        """The preset that is set and, of ``auto``, what it is."""
        if self.node.preset != AUTO:
            return self.node.preset
        return f'{AUTO} ({self._chosen or "waits for the first image"})'

    @property
    def given(self) -> dict[str, Value]:
        """Settings of the matcher that are set, at the start or later, beside any preset."""
        now, else_ = self.matcher.to_mapping(), {**self._first, **self._provided}
        return {name: value for name, value in now.items()
                if name in self._overrides() or value != else_[name]}

    def use_preset(self, name: str) -> None:
        """Set what the preset that ``auto`` is provides, but for what is set already.

        :raises ConfigError: it is rejected.
        """
        given = self.given
        provided = {setting: value for setting, value in provided_by(name).items()
                    if setting != 'program' and setting not in given}
        result = self._set(provided)
        if not result.successful:
            raise ConfigError('preset', name, result.reason)
        self._chosen, self._provided = name, provided

    def forget_preset(self) -> None:
        """Have ``auto`` chosen anew; what is set beside it stays."""
        now, provided = self.matcher.to_mapping(), self._provided
        self._chosen, self._provided = '', {}
        if self.node.preset == AUTO:
            self._set({name: self._first[name] for name, value in provided.items()
                       if now[name] == value})

    def _set(self, values: Mapping[str, Value]) -> SetParametersResult:
        return self._node.set_parameters_atomically(
            [Parameter(name, value=value) for name, value in values.items()])

    def restore(self, attempted: MatcherConfig, active: MatcherConfig) -> None:
        """Set parameters back that could not be applied.

        What was set to something else in the meantime stays.
        """
        with self._lock:
            now, then = self.matcher.to_mapping(), attempted.to_mapping()
            everything = {name: value for name, value in active.to_mapping().items()
                          if not self._settings[name].read_only}
            changes = {name: everything[name] for name in attempted.differences(active)
                       if now[name] == then[name]}
            config, preset = self._before
            if config == active and preset != self.node.preset:
                changes['preset'] = everything['preset'] = preset
        for values in (changes, everything):
            result = self._set(values)
            if result.successful:
                return
        self._node.get_logger().error(f'parameters could not be set back: {result.reason}')

    def _declare(self) -> Mapping[str, Setting]:
        """Declare the settings that count with the program that is set; returns them."""
        first, defaults = all_settings(), dict[str, Value]()

        def declare(name: str, setting: Setting) -> Any:
            return self._node.declare_parameter(
                name, defaults.get(name, setting.default), descriptor(setting)).value

        if any(is_of_presets(name) or name in IGNORED for name in self._overrides()):
            defaults['preset'] = NONE
        preset = declare('preset', first['preset'])
        defaults |= load_preset(preset) if preset not in ('', AUTO) else {}
        settings = all_settings(declare('program', first['program']))
        for name, setting in settings.items():
            if name not in ('preset', 'program'):
                declare(name, setting)
        return settings

    def _misplaced(self) -> dict[str, Any]:
        """Settings of another program, which ROS would leave out silently."""
        names = set(all_settings()) - set(self._settings)
        return {name: parameter.value for name, parameter in self._overrides().items()
                if name in names}

    def _translate(self) -> dict[str, Any]:
        """What means something else where it is set for stereo_image_proc."""
        given = {name: parameter.value for name, parameter in self._overrides().items()}
        meant, sentences = translate(given)
        for sentence in sentences:
            self._node.get_logger().warning(sentence)
        return {name: value for name, value in meant.items() if value != given[name]}

    def _overrides(self) -> Mapping[str, Parameter]:
        """What the command line and parameter files set, declared or not."""
        return getattr(self._node, '_parameter_overrides', {})

    def _changed(self, changes: Mapping[str, Any]) -> tuple[MatcherConfig, NodeConfig]:
        """Both configurations with these values; the very object where none is of it.

        :raises ConfigError: a value or a combination is rejected.
        """
        mine = {name: value for name, value in changes.items() if name in self._matcher_settings}
        others = {name: value for name, value in changes.items() if name not in mine}
        return (self.matcher.replace(**mine) if mine else self.matcher,
                self.node.replace(**others) if others else self.node)

    def _normalize(self) -> None:
        """Store 1.0 where 1 was given for a number with a fraction, and names for numbers.

        A dump then means the same when it is loaded. What is read-only stays as it was given.
        """
        meant = self.matcher.to_mapping() | self.node.to_mapping()
        self._node.set_parameters_atomically([
            Parameter(name, value=meant[name]) for name, setting in self._settings.items()
            if setting.takes_other_types and not setting.read_only])

    def _pre_set(self, parameters: list[Parameter]) -> list[Parameter]:
        return [Parameter(p.name, value=float(p.value))
                if p.name in self._settings and self._settings[p.name].type is float
                and p.type_ == Parameter.Type.INTEGER else p for p in parameters]

    def _on_set(self, parameters: Sequence[Parameter]) -> SetParametersResult:
        changes = self._known(parameters)
        if not changes:
            return SetParametersResult(successful=True)
        try:
            matcher, node = self._changed(changes)
            if matcher != self.matcher:
                self._check(self.matcher, matcher, node)
        except StereoError as error:
            return SetParametersResult(successful=False, reason=str(error))
        except Exception as error:
            return SetParametersResult(successful=False, reason=f'cannot be checked: {error!r}')
        if self._applies_on_set:
            self._post_set(parameters)
        return SetParametersResult(successful=True)

    def _post_set(self, parameters: Sequence[Parameter]) -> None:
        changes = self._known(parameters)
        with self._lock:
            before = self.matcher, self.node
            if changes.get('preset', self.node.preset) != self.node.preset:
                self._before = self.matcher, self.node.preset
            self.matcher, self.node = now = self._changed(changes)
        if now != before:
            self._on_change()

    def _known(self, parameters: Sequence[Parameter]) -> dict[str, Any]:
        return {p.name: p.value for p in parameters if p.name in self._settings}

    def _warn_unknown(self) -> None:
        """A misspelt name in a parameter file is silently left out by ROS."""
        for name in self._overrides():
            if not (self._node.has_parameter(name) or name in IGNORED
                    or name.startswith('qos_overrides.')):
                hint = did_you_mean(name, self._settings)
                self._node.get_logger().warning(f'there is no parameter {name}{hint}')


def descriptor(setting: Setting) -> ParameterDescriptor:
    """What ROS tools show of a setting, and check before the node is asked."""
    unit = f' ({setting.unit})' if setting.unit else ''
    result = ParameterDescriptor(
        name=setting.name, description=setting.meaning + unit, read_only=setting.read_only,
        additional_constraints=setting.limit(),
        dynamic_typing=setting.takes_other_types)
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


def _named(setting: Setting, value: Any) -> Any:
    """The name in place of a number that has one."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return setting.aliases.get(value, value) if is_number else value


class BatchParameterService(ParameterService):
    """The parameter services of a node, with two differences.

    A request to set several parameters is first tried as a whole, because values that go
    together may be rejected one by one: one change of configuration instead of many, and a dump
    can be loaded whatever was set before. Values for stereo_image_proc are translated.
    """

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self._batch_node = node

    def _set_parameters_callback(self, request: Any, response: Any) -> Any:
        parameters, node = self._meant(request), self._batch_node
        if any(p.name == 'preset' for p in parameters):
            known = [_known_result(node, parameter) for parameter in parameters]
            result = self._set_atomically([parameter for parameter, one in zip(
                parameters, known, strict=True) if one is None])
            response.results = [one or result for one in known]
        else:
            response.results = set_together(node, parameters)
        return response

    def _set_parameters_atomically_callback(self, request: Any, response: Any) -> Any:
        response.result = self._set_atomically(self._meant(request))
        return response

    def _set_atomically(self, parameters: list[Parameter]) -> SetParametersResult:
        try:
            return self._batch_node.set_parameters_atomically(self._with_preset(parameters))
        except ConfigError as error:
            return SetParametersResult(successful=False, reason=str(error))

    def _meant(self, request: Any) -> list[Parameter]:
        parameters = [Parameter.from_parameter_msg(p) for p in request.parameters]
        meant, sentences = translate({p.name: p.value for p in parameters})
        for sentence in sentences:
            self._batch_node.get_logger().warning(sentence)
        settings = all_settings()
        return [Parameter(p.name, value=_named(settings[p.name], meant[p.name]))
                if p.name in settings else p for p in parameters]

    def _with_preset(self, parameters: list[Parameter]) -> list[Parameter]:
        """Also what a preset among them provides, but for what they set themselves.

        :raises ConfigError: it is none that a running node can change to.
        """
        named = {p.name: p.value for p in parameters}
        node, values = self._batch_node, dict[str, Value]()
        if 'preset' in named:
            if named['preset'] == AUTO == node.get_parameter('preset').value:
                return parameters           # a dump is loaded
            if named['preset'] == AUTO:
                raise ConfigError('preset', AUTO, 'is for the start: '
                                  + ', '.join(preset_names()) + ' can be set now')
            values = provided_by(named['preset'] or NONE)
            program, current = values.pop('program'), node.get_parameter('program').value
            if program != current:
                raise ConfigError('preset', named['preset'], f'has program {program}, and this '
                                  f'node was started with {current}')
        return [*parameters, *(Parameter(name, value=value) for name, value in values.items()
                               if name not in named)]


def set_together(node: Node, parameters: Sequence[Parameter]) -> list[SetParametersResult]:
    """Set parameters as a whole where that is possible, else one by one; a result for each.

    Setting a read-only parameter to the value that it has is no failure.
    """
    results = [_known_result(node, parameter) for parameter in parameters]
    open_ = [i for i, result in enumerate(results) if result is None]
    if len(open_) > 1:
        together = node.set_parameters_atomically([parameters[i] for i in open_])
        if together.successful:
            return [result or together for result in results]
    # One value may be acceptable only after another: go round as long as that helps.
    while open_:
        refused = []
        for i in open_:
            results[i] = result = node.set_parameters_atomically([parameters[i]])
            if not result.successful:
                refused.append(i)
        if len(refused) == len(open_):
            break
        open_ = refused
    return [result for result in results if result is not None]


def _known_result(node: Node, parameter: Parameter) -> SetParametersResult | None:
    name = parameter.name
    if not node.has_parameter(name):
        return SetParametersResult(successful=False, reason=f'there is no parameter {name}'
                                   + did_you_mean(name, ()))
    value = node.get_parameter(name).value
    # True is not 1.
    is_same = value == parameter.value and type(value) is type(parameter.value)
    if is_same and node.describe_parameter(name).read_only:
        return SetParametersResult(successful=True)
    return None
