"""The table of classes and functions in docs/reference/python.md, which reads without a build.

    python -m test.core.class_table

prints it.
"""

from __future__ import annotations

import enum
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import stereo_bp_ros

#: Members that the table leaves out: of no use to callers.
LEFT_OUT = {'check', 'layout', 'camera', 'nested', 'settings', 'settings_of',
            'projection', 'reduced', 'coarse', 'iterations_of_levels', 'max_disparity',
            'option', 'is_belief_propagation', 'truncation', 'searches_band',
            'has_combined_cost', 'differences', 'is_live_change', 'to_dict'}


def table() -> list[str]:
    """Its lines, heading included: one for each class, with all members."""
    return ['| name | meaning |', '| --- | --- |', *map(_row, stereo_bp_ros.__all__)]


def _row(name: str) -> str:
    thing = getattr(stereo_bp_ros, name)
    members: list[tuple[str, str]] = []
    if not inspect.isclass(thing):
        name += _arguments(thing)
    elif not issubclass(thing, (enum.Enum, Exception)):
        members = sorted(_members(thing))
    return f'| `{name}` | ' + '<br>'.join([_sentence(thing), *(
        f'`.{key}` {text}' for key, text in members)]) + ' |'


def _members(kind: type) -> Iterator[tuple[str, str]]:
    seen = set(LEFT_OUT)
    for owner in kind.__mro__:
        if not owner.__module__.startswith(stereo_bp_ros.__name__):
            continue
        for key, value in vars(owner).items():
            if key.startswith('_') or key in seen:
                continue
            seen.add(key)
            function = getattr(value, '__func__', value)
            if inspect.isfunction(function):
                is_static = isinstance(value, staticmethod)
                yield key + _arguments(function, 0 if is_static else 1), _sentence(function)
            elif isinstance(value, property) or hasattr(value, 'attrname'):
                yield key, _sentence(value)


def _arguments(function: Callable[..., Any], skipped: int = 0) -> str:
    signature = inspect.signature(function)
    bare = [one.replace(annotation=inspect.Parameter.empty)
            for one in list(signature.parameters.values())[skipped:]]
    return str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))


def _sentence(thing: Any) -> str:
    """The first one of a docstring, without its point, in Markdown."""
    text = ' '.join((inspect.getdoc(thing) or '').partition('\n\n')[0].split())
    first = re.split(r'(?<!e\.g)(?<!et al)\. (?=[A-Z])', text)[0].removesuffix('.')
    return first.replace('``', '`').replace('|', r'\|')


if __name__ == '__main__':
    sys.stdout.write('\n'.join(table()) + '\n')
