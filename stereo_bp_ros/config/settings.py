"""What a setting is: a typed value with a range, a unit and a meaning, checked in words."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
import math
import operator
import textwrap
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import yaml

from stereo_bp_ros.config import stereo_image_proc
from stereo_bp_ros.errors import ConfigError

Value = typing.Union[bool, int, float, str]


@dataclasses.dataclass(frozen=True)
class Setting:
    """One declared setting.

    live: it takes effect on the next frame without an allocation; takes_list: its value may also
    be a text of several whole numbers with commas between them; ignored: where its value has no
    effect, in words behind "ignored".
    """

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
    takes_list: bool = False
    ignored: str = ''
    aliases: Mapping[int, str] = dataclasses.field(default_factory=dict)

    @property
    def takes_other_types(self) -> bool:
        """Whether values of another type are accepted: whole numbers for numbers and for names
        that have one, lists, and false for ``off``, which YAML makes of that word."""
        return (self.type is float or self.takes_list or bool(self.aliases)
                or 'off' in self.choices)

    @property
    def described(self) -> str:
        """What it means, and where it is ignored."""
        return self.meaning + (f' (ignored {self.ignored})' if self.ignored else '')

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
        if self.takes_list:
            kind += ', or several with commas between them'
        return f'must be {kind}' + (f' {self.unit}' if self.unit else '')

    def coerce(self, value: Any) -> Value:
        """The value in the declared type.

        :raises ConfigError: wrong type, out of range, or not one of the choices.
        """
        if isinstance(value, np.generic):
            value = value.item()
        if self.takes_list and isinstance(value, str):
            return self._coerce_list(value)
        if self.aliases and isinstance(value, int) and not isinstance(value, bool):
            value = self.aliases.get(value, value)
        if value is False and 'off' in self.choices:
            value = 'off'
        accepted = {bool: (bool,), int: (int,), float: (int, float), str: (str,)}[self.type]
        if not isinstance(value, accepted) or (isinstance(value, bool) and self.type is not bool):
            raise ConfigError(self.name, value, self.limit())
        try:
            value = self.type(value)
        except OverflowError:           # a whole number beyond any float
            raise ConfigError(self.name, value, self.limit()) from None
        if self.choices and value not in self.choices:
            raise ConfigError(self.name, value,
                              self.limit() + did_you_mean(str(value), self.choices))
        if self.type in (int, float):
            low = -math.inf if self.minimum is None else self.minimum
            high = math.inf if self.maximum is None else self.maximum
            # NaN fails the comparison, and a whole number may be too large for isinf.
            if not low <= value <= high or value in (math.inf, -math.inf):
                raise ConfigError(self.name, value, self.limit())
            if self.odd and value % 2 == 0:
                raise ConfigError(self.name, value, self.limit())
        return value

    def _coerce_list(self, text: str) -> Value:
        words = [word.strip() for word in text.split(',')]
        # A number of many digits is no int at all.
        if not all(word.isdecimal() and len(word) < 10 for word in words):
            raise ConfigError(self.name, text, self.limit())
        try:
            values = [dataclasses.replace(self, takes_list=False).coerce(int(word))
                      for word in words]
        except ConfigError:
            raise ConfigError(self.name, text, self.limit()) from None
        return values[0] if len(values) == 1 else ', '.join(map(str, values))

    def parse(self, text: str) -> Value:
        """The value written on a command line (rules of a plain YAML scalar, as ROS does it).

        :raises ConfigError: as ``coerce``.
        """
        if self.type is str and not self.aliases:
            return self.coerce(text)
        return self.coerce(scalar(text))


def scalar(text: str) -> Value:
    """What YAML takes a plain word for: true or false, a number, else the text itself."""
    loader = yaml.SafeLoader('')
    word = text.strip()
    tag = loader.resolve(yaml.ScalarNode, word, (True, False))
    if tag.rpartition(':')[2] not in ('bool', 'int', 'float'):
        return text
    try:
        return typing.cast(Value, loader.construct_object(yaml.ScalarNode(tag, word)))
    except (ValueError, OverflowError):         # more digits than Python makes a number of
        return text


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about a name that is none: what takes its place, or the closest."""
    if instead := stereo_image_proc.hint(name):
        return f'; {instead}'
    close = difflib.get_close_matches(name, known, 1)
    return f'; did you mean {close[0]}?' if close else ''


def setting(default: Value, meaning: str, minimum: float | None = None,
             maximum: float | None = None, **rest: Any) -> Any:
    return dataclasses.field(default=default, metadata={
        'meaning': meaning, 'minimum': minimum, 'maximum': maximum, **rest})


_Kind = typing.TypeVar('_Kind', bound='Settings')


def documented(kind: type[_Kind]) -> type[_Kind]:
    """Decorate a class of settings: ``help`` lists each of them, and errors name the closest."""
    rows = '\n'.join(textwrap.fill(
        f'* ``{name}`` = {one.default!r}: {one.described} '
        f'({one.limit().removeprefix("must be ")})', 95, subsequent_indent='  ',
        break_on_hyphens=False)
        for name, one in kind.settings().items())
    kind.__doc__ = f'{inspect.cleandoc(kind.__doc__ or "")}\n\n{rows}'
    create: Any = kind.__init__
    fields = {field.name for field in dataclasses.fields(kind)}     # type: ignore[arg-type]

    @functools.wraps(create)
    def init(self: _Kind, *values: Any, **named: Any) -> None:
        for name in sorted(named.keys() - fields):
            raise unknown_setting(name, named[name], kind.settings())
        create(self, *values, **named)
    kind.__init__ = init                # type: ignore[method-assign, assignment]
    return kind


def unknown_setting(name: str, value: Any, known: Iterable[str]) -> ConfigError:
    """The error of a name that no setting has."""
    return ConfigError(name, value,
                       'there is no setting of this name' + did_you_mean(str(name), known))


class Settings:
    """Configuration classes; subclasses are frozen dataclasses.

    A field is a setting, or settings of their own kind: those are named ``field.setting``.
    """

    @classmethod
    @functools.cache
    def settings(cls) -> Mapping[str, Setting]:
        """Every declared setting by name, in the order of declaration."""
        hints, nested = typing.get_type_hints(cls), cls.nested()
        found: dict[str, Setting] = {}
        for field in dataclasses.fields(cls):       # type: ignore[arg-type]
            if field.name in nested:
                found |= {f'{field.name}.{name}': dataclasses.replace(
                    inner, name=f'{field.name}.{name}')
                    for name, inner in nested[field.name].settings().items()}
            else:
                # A setting that takes a list is declared as Union[int, str].
                kind = (typing.get_args(hints[field.name]) or (hints[field.name],))[0]
                found[field.name] = Setting(field.name, kind, typing.cast(Value, field.default),
                                            **field.metadata)
        return types.MappingProxyType(found)

    @classmethod
    @functools.cache
    def nested(cls) -> Mapping[str, type[Settings]]:
        """The kinds of the fields that are settings of their own kind."""
        hints = typing.get_type_hints(cls)
        return types.MappingProxyType({
            field.name: hints[field.name]
            for field in dataclasses.fields(cls)        # type: ignore[arg-type]
            if isinstance(hints[field.name], type) and issubclass(hints[field.name], Settings)})

    def __post_init__(self) -> None:
        nested = self.nested()
        for name, kind in nested.items():
            if type(getattr(self, name)) is not kind:
                raise ConfigError(name, getattr(self, name), f'must be {kind.__name__}(...)')
        for name, setting in self.settings().items():
            if name.partition('.')[0] not in nested:
                object.__setattr__(self, name, setting.coerce(getattr(self, name)))
        self.check()

    def __repr__(self) -> str:
        """The call that makes it: only what differs from the defaults."""
        default = type(self)()
        changed = [f'{one.name}={getattr(self, one.name)!r}'
                   for one in dataclasses.fields(self)      # type: ignore[arg-type]
                   if getattr(self, one.name) != getattr(default, one.name)]
        return f'{type(self).__name__}({", ".join(changed)})'

    def check(self) -> None:
        """Limits that involve more than one setting."""

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> typing.Any:
        """Build from names and values.

        :raises ConfigError: an unknown name, a rejected value or a rejected combination.
        """
        known = cls.settings()
        own: dict[str, Any] = {}
        inner: dict[str, dict[str, Any]] = {}
        for name, value in values.items():
            if name not in known:
                raise unknown_setting(name, value, known)
            outer, _, last = name.rpartition('.')
            if outer:
                inner.setdefault(outer, {})[last] = known[name].coerce(value)
            else:
                own[name] = value
        nested = cls.nested()
        return cls(**own, **{name: nested[name](**found) for name, found in inner.items()})

    def to_mapping(self) -> dict[str, Value]:
        """Every setting and its value, in the order of declaration."""
        return {name: operator.attrgetter(name)(self) for name in self.settings()}

    def replace(self, **changes: Any) -> typing.Any:
        """A copy with some settings changed.

        :raises ConfigError: as ``from_mapping``.
        """
        return self.from_mapping({**self.to_mapping(), **changes})

    def differences(self, other: Any) -> list[str]:
        """Names of the settings in which two configurations differ."""
        return [name for name in self.settings()
                if operator.attrgetter(name)(self) != operator.attrgetter(name)(other)]
