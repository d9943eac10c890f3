"""What a setting is: a typed value with a range, a unit and a meaning, checked in words."""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Mapping
from typing import Any

import yaml

from stereo_bp_ros.errors import ConfigError

Value = typing.Union[bool, int, float, str]


@dataclasses.dataclass(frozen=True)
class Setting:
    """One declared setting. ``live`` = takes effect on the next frame without an allocation."""

    name: str
    type: type
    default: Value
    meaning: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    odd: bool = False
    unit: str = ''
    live: bool = False
    read_only: bool = False
    aliases: Mapping[int, str] = dataclasses.field(default_factory=dict)

    def limit(self) -> str:
        """The accepted values in words."""
        if self.choices:
            words = 'must be one of ' + ', '.join(self.choices)
            if self.aliases:
                words += ' (or ' + ', '.join(f'{k} = {v}' for k, v in self.aliases.items()) + ')'
            return words
        kind = {bool: 'true or false', int: 'a whole number', float: 'a number',
                str: 'a text'}[self.type]
        if self.odd:
            kind = 'an odd whole number'
        if self.minimum is not None and self.maximum is not None:
            kind += f' from {self.minimum:g} to {self.maximum:g}'
        elif self.minimum is not None:
            kind += f' of at least {self.minimum:g}'
        return f'must be {kind}' + (f' {self.unit}' if self.unit else '')

    def coerce(self, value: Any) -> Value:
        """The value in the declared type.

        :raises ConfigError: wrong type, out of range, or not one of the choices.
        """
        if self.aliases and not isinstance(value, bool):
            value = self.aliases.get(value, value)
        accepted = {bool: (bool,), int: (int,), float: (int, float), str: (str,)}[self.type]
        if hasattr(value, 'item') and not isinstance(value, (str, bytes)):
            value = value.item()            # NumPy scalars
        if not isinstance(value, accepted) or (isinstance(value, bool) and self.type is not bool):
            raise ConfigError(self.name, value, self.limit())
        value = self.type(value)
        if self.choices and value not in self.choices:
            raise ConfigError(self.name, value, self.limit())
        if self.type in (int, float):
            low = -math.inf if self.minimum is None else self.minimum
            high = math.inf if self.maximum is None else self.maximum
            if not low <= value <= high or math.isinf(value):    # NaN fails the comparison
                raise ConfigError(self.name, value, self.limit())
            if self.odd and value % 2 == 0:
                raise ConfigError(self.name, value, self.limit())
        return value

    def parse(self, text: str) -> Value:
        """The value written on a command line (YAML scalar rules, as ROS does it).

        :raises ConfigError: as ``coerce``.
        """
        if self.type is str and not self.aliases:
            return self.coerce(text)
        return self.coerce(yaml.safe_load(text))


def setting(default: Value, meaning: str, minimum: float | None = None,
             maximum: float | None = None, **rest: Any) -> Any:
    return dataclasses.field(default=default, metadata={
        'meaning': meaning, 'minimum': minimum, 'maximum': maximum, **rest})


class Settings:
    """What both configuration classes share; subclasses are frozen dataclasses."""

    @classmethod
    def settings(cls) -> dict[str, Setting]:
        """Every declared setting by name, in the order of declaration."""
        types = typing.get_type_hints(cls)
        return {field.name: Setting(field.name, types[field.name],
                                    typing.cast(Value, field.default), **field.metadata)
                for field in dataclasses.fields(cls)}       # type: ignore[arg-type]

    def __post_init__(self) -> None:
        for name, setting in self.settings().items():
            object.__setattr__(self, name, setting.coerce(getattr(self, name)))
        self.check()

    def check(self) -> None:
        """Limits that involve more than one setting."""

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> typing.Any:
        """Build from names and values.

        :raises ConfigError: an unknown name, a refused value or a refused combination.
        """
        known = cls.settings()
        for name in values:
            if name not in known:
                raise ConfigError(name, values[name], 'there is no setting of this name')
        return cls(**values)

    def to_mapping(self) -> dict[str, Value]:
        """Every setting and its value, in the order of declaration."""
        return {name: getattr(self, name) for name in self.settings()}

    def replace(self, **changes: Any) -> typing.Any:
        """A copy with some settings changed.

        :raises ConfigError: as ``from_mapping``.
        """
        return self.from_mapping({**self.to_mapping(), **changes})

    def differences(self, other: Any) -> list[str]:
        """Names of the settings in which two configurations differ."""
        return [name for name in self.settings() if getattr(self, name) != getattr(other, name)]
