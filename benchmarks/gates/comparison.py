"""Whether two files of hashes or plans are equal, whatever their kernels are called."""

from __future__ import annotations

import collections
import re
from collections.abc import Iterator
from typing import Any


def renamed(value: Any, names: dict[str, str]) -> Any:
    """All texts in a value, keys included, with whole tokens replaced, the longest names first."""
    if not names:
        return value
    pattern = re.compile(r'(?<!\w)(?:' + '|'.join(
        map(re.escape, sorted(names, key=len, reverse=True))) + r')(?!\w)')

    def walk(part: Any) -> Any:
        if isinstance(part, str):
            return pattern.sub(lambda found: names[found[0]], part)
        if isinstance(part, list):
            return [walk(each) for each in part]
        if isinstance(part, dict):
            return {walk(key): walk(each) for key, each in part.items()}
        return part
    return walk(value)


def compare(old: dict[str, Any], new: dict[str, Any], names: dict[str, str],
            ignored: frozenset[str] = frozenset()) -> tuple[bool, list[str]]:
    """Whether two files are equal, and the lines that say so, or in which keys they differ.

    :param ignored: fields of plans that do not count.
    """
    for field in ('kind', 'selection'):
        if old[field] != new[field]:
            return False, [f'different {field}: {old[field]} and {new[field]}']
    if old['kind'] == 'kernels':
        return _compare_kernels(old['entries'], new['entries'], names)
    differing = list(_differences('', renamed(old['entries'], names), new['entries'], ignored))
    if differing:
        return False, [f'plans differ in {len(differing)} places', *differing]
    return True, [f'{len(new["entries"])} plans are equal']


def _compare_kernels(old: dict[str, str], new: dict[str, str], names: dict[str, str]
                     ) -> tuple[bool, list[str]]:
    before: dict[str, set[str]] = collections.defaultdict(set)
    # Two old names may have become one, whose code was the same.
    for key, code in old.items():
        before[renamed(key, names)].add(code)
    after = {key: {code} for key, code in new.items()}
    changed = sorted(key for key in before.keys() & after.keys() if before[key] != after[key])
    strangers = sorted(before.keys() ^ after.keys())
    if not changed and not strangers:
        return True, [f'{len(new)} kernels are equal']
    multisets = [collections.Counter((key.split(' | ')[0], code) for key, code in side.items())
                 for side in (old, new)]
    if not changed and multisets[0] == multisets[1]:
        return True, [f'all {len(new)} hashes equal, keys differ: {len(strangers)} of them']
    gone, come = multisets[0] - multisets[1], multisets[1] - multisets[0]
    return False, [
        f'code differs: {gone.total()} hashes of the old file are missing, {come.total()} are new',
        *(f'changed: {key}' for key in changed),
        *(f'{"only old" if key in before else "only new"}: {key}' for key in strangers)]


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
