"""Whether two files of hashes or plans are equal, whatever their kernels are called."""

from __future__ import annotations

import collections
import re
from collections.abc import Iterator, Mapping
from typing import Any


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    """All texts in a value, keys included, with whole tokens replaced, the longest names first."""
    if not names:
        return value
    if isinstance(value, list):
        return [renamed(each, names) for each in value]
    if isinstance(value, dict):
        return {renamed(key, names): renamed(each, names) for key, each in value.items()}
    if not isinstance(value, str):
        return value
    longest_first = sorted(map(re.escape, names), key=len, reverse=True)
    return re.sub(rf'(?<!\w)(?:{"|".join(longest_first)})(?!\w)',
                  lambda found: names[found[0]], value)


def compare(old: Mapping[str, Any], new: Mapping[str, Any], names: Mapping[str, str],
            ignored: frozenset[str] = frozenset()) -> tuple[bool, list[str]]:
    """Whether two files are equal, and the lines that say so, or in which keys they differ.

    :param ignored: fields of plans that do not count.
    """
    for field in ('kind', 'selection'):
        if old[field] != new[field]:
            return False, [f'different {field}: {old[field]} and {new[field]}']
    kind, before, after = new['kind'], renamed(old['entries'], names), new['entries']
    if kind == 'kernels':
        # Two old names may have become one, whose code was the same.
        codes = collections.defaultdict(set)
        for key, code in old['entries'].items():
            codes[renamed(key, names)].add(code)
        before = {key: ' and '.join(sorted(found)) for key, found in codes.items()}
    differing = list(_differences('', before, after, ignored))
    if not differing:
        return True, [f'{len(after)} {kind} are equal']
    if (kind == 'kernels' and sorted(before.values()) == sorted(after.values())
            and all(before[key] == after[key] for key in before.keys() & after.keys())):
        return True, [f'all {len(after)} hashes are equal, {len(differing)} keys differ']
    return False, [f'{kind} differ in {len(differing)} places', *differing]


def _differences(place: str, old: Any, new: Any, ignored: frozenset[str]) -> Iterator[str]:
    """Places in which two values differ, with both values."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted((old.keys() | new.keys()) - ignored):
            if key in old and key in new:
                yield from _differences(f'{place}/{key}', old[key], new[key], ignored)
            else:
                yield f'{place}/{key}: only {"old" if key in old else "new"}'
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, pair in enumerate(zip(old, new, strict=True)):
            yield from _differences(f'{place}/{i}', *pair, ignored)
    elif old != new:
        yield f'{place}: {_shown(old)} became {_shown(new)}'


def _shown(value: Any) -> str:
    return f'{len(value)} entries' if isinstance(value, list) else str(value)
