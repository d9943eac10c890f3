"""Everything that others build on, a line each: what QUALITY_DECLARATION.md calls the public API.

    python -m test.core.public_api > test/core/public_api.txt

writes it anew, after a change that is meant. CHANGELOG.rst then says what changed; the rules for
versions of that page say which version it makes.
"""

from __future__ import annotations

import argparse
import dataclasses
import enum
import inspect
import sys
from collections.abc import Iterator

import stereo_bp_ros
from stereo_bp_ros.cli.main import build_parser
from stereo_bp_ros.config.files import preset_names
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.config.node import NodeConfig
from stereo_bp_ros.config.settings import Settings
from stereo_bp_ros.frame import disparity_frame


def lines(topics: bool = True) -> list[str]:
    """All of it, sorted.

    :param topics: those of the node, too, which need ROS.
    """
    return sorted({*_python(), *_settings(), *_commands(), *(_topics() if topics else ()),
                   *(f'output {name}' for name in disparity_frame.OUTPUTS),
                   *(f'preset {name}' for name in preset_names())})


def _python() -> Iterator[str]:
    for name in stereo_bp_ros.__all__:
        thing = getattr(stereo_bp_ros, name)
        if not inspect.isclass(thing):
            yield f'python {name}{inspect.signature(thing)}'
        elif issubclass(thing, enum.Enum):
            yield from (f'python {name}.{member.name} = {member.value!r}' for member in thing)
        else:
            yield from _class(name, thing)


def _class(name: str, kind: type) -> Iterator[str]:
    bases = ', '.join(base.__name__ for base in kind.__bases__)
    yield f'python class {name}({bases})'
    # The fields of settings are the settings themselves.
    if dataclasses.is_dataclass(kind) and not issubclass(kind, Settings):
        yield from (f'python {name}.{field.name}: {field.type}'
                    for field in dataclasses.fields(kind))
    elif '__init__' in vars(kind) and not issubclass(kind, Settings):
        yield f'python {name}{inspect.signature(vars(kind)["__init__"])}'
    for owner in kind.__mro__:
        if not owner.__module__.startswith(stereo_bp_ros.__name__):
            continue
        for key, value in vars(owner).items():
            if key.startswith('_') and key not in ('__enter__', '__add__'):
                continue
            if isinstance(value, (classmethod, staticmethod)):
                value = value.__func__
            if inspect.isfunction(value):
                yield f'python {name}.{key}{inspect.signature(value)}'
            elif isinstance(value, property) or hasattr(value, 'attrname'):
                yield f'python {name}.{key}'


def _settings() -> Iterator[str]:
    for kind in (MatcherConfig, NodeConfig):
        for name, one in kind.settings().items():
            when = 'live' if one.live else 'start' if one.read_only else 'rebuild'
            yield f'setting {name} ({one.type.__name__}, {when}): {one.limit()}'


def _commands() -> Iterator[str]:
    verbs = next(action for action in build_parser()._actions
                 if isinstance(action, argparse._SubParsersAction))
    for verb, parser in verbs.choices.items():
        yield from _options(verb, parser)


def _options(verb: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                yield from _options(f'{verb} {name}', child)
        elif not isinstance(action, argparse._HelpAction):
            names = ', '.join(action.option_strings) or action.dest
            yield f'command stereo_bp {verb} {names}'


def _topics() -> Iterator[str]:
    from stereo_bp_ros.node.diagnostics.ledger import ImageDrop, PairDrop
    from stereo_bp_ros.node.publishing import CORRECTED_INFO, LATENCY, LATENCY_MS, TOPICS
    for name, topic in TOPICS.items():
        package, kind = topic.message.kind.__module__.split('.')[0], topic.message.kind.__name__
        yield f'topic {name}: {package}/{kind}'
    yield from (f'topic {name}' for name in (LATENCY, LATENCY_MS, CORRECTED_INFO))
    yield from (f'dropped {reason.value}' for kind in (ImageDrop, PairDrop) for reason in kind)


if __name__ == '__main__':
    sys.stdout.write('\n'.join(lines()) + '\n')
