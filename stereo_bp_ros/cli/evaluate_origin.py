"""What an evaluation says of itself: what has matched, how far, how often, and in what company."""

from __future__ import annotations

import collections
import dataclasses
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from stereo_bp_ros.evaluation import row_report
from stereo_bp_ros.evaluation.method import Method
from stereo_bp_ros.evaluation.results import Totals

#: Characters of a line for a terminal.
WIDTH = 80

MAPS = {'score': 'the map as the matcher publishes it, with its holes',
        'filled': 'the same map, every hole filled with a disparity of the background'}
"""Which map the figures below a key are of."""


def searched(totals: Totals) -> list[dict[str, Any]]:
    """For JSON: pairs by input, matcher and disparities searched, in the order of the results."""
    return [{'matcher': name, 'input': label, 'disparities': count, 'pairs': pairs}
            for label, part in totals.inputs.items() for name, one in part.items()
            for count, pairs in one.searched.items()]


def method_of(method: Method, limit: int) -> dict[str, Any]:
    """For JSON: everything of ``Method``, and how many pairs of each input count at most."""
    return {**dataclasses.asdict(method), 'limit': limit}


def facts(summary: Mapping[str, Any]) -> dict[str, str]:
    """Of a report in words, each with a name; what the report does not know is left out."""
    found = {'matched by': _computers(summary), 'disparities searched': _ranges(summary),
             'holes': _filling(summary), 'times': _times(summary),
             'rows': '; '.join(row_report.words(summary.get('rows', ())))}
    return {name: words for name, words in found.items() if words}


def lines(summary: Mapping[str, Any]) -> list[str]:
    """The same for a terminal, with the machine, versions and date."""
    machine = summary['machine']
    found = facts(summary)
    found.pop('rows', None)
    rows = row_report.words(summary.get('rows', ()))
    return folded([*(f'{name.capitalize()}: {words}.' for name, words in found.items()),
                   *(f'Rows of {words}.' for words in rows),
                   f'Machine: {machine["processor"]}, {machine["cores"]} cores; stereo_bp_ros '
                   f'{summary["versions"]["stereo_bp_ros"]}; {summary["date"]}.'])


def folded(sentences: Sequence[str]) -> list[str]:
    """Lines of a terminal, each sentence beginning a new one."""
    return [line for text in sentences for line in textwrap.wrap(
        text, WIDTH, break_on_hyphens=False, break_long_words=False)]


def device_words(devices: Sequence[Mapping[str, str]]) -> str:
    """Of what computes in one process or in several, as ``StereoMatcher.device`` has each."""
    kinds = collections.Counter(
        one['device'] + (f', {one["threads"]} thread{"s" * (one["threads"] != "1")}'
                         if 'threads' in one else '') for one in devices)
    return ' and '.join((f'{count} x ' if count > 1 else '') + words
                        for words, count in kinds.items())


def _computers(summary: Mapping[str, Any]) -> str:
    return '; '.join(f'{name} on {device_words(devices)}'
                     for name, devices in summary.get('devices', {}).items())


def _ranges(summary: Mapping[str, Any]) -> str:
    by_matcher: dict[str, list[Mapping[str, Any]]] = {}
    for one in summary.get('searched', ()):
        if one['disparities'] is not None:
            by_matcher.setdefault(one['matcher'], []).append(one)
    words = {name: ', '.join(
        f'{one["disparities"]} in {one["pairs"]} pair{"s" * (one["pairs"] > 1)}'
        + (f' of {one["input"]}' if one['input'] else '') for one in parts)
        for name, parts in by_matcher.items()}
    if not words:
        return ''
    text = (next(iter(words.values())) if len(set(words.values())) == 1
            else '; '.join(f'{name} {one}' for name, one in words.items()))
    return text + (f' ({_whose_range(summary["method"])})' if 'method' in summary else '')


def _whose_range(method: Mapping[str, Any]) -> str:
    """Who says how far is searched, of ``method_of``."""
    return ('as the settings say' if method['own_range'] else
            'as the data set says, else the settings')


def _filling(summary: Mapping[str, Any]) -> str:
    if 'matcher' not in summary:
        return ''
    settings = {summary['matcher']: summary['settings'],
                **{name: one['settings'] for name, one in summary.get('against', {}).items()}}
    own = [f'{name} fills them itself ({one["filling"]}), and what it has filled counts as valid'
           for name, one in settings.items() if one.get('filling', 'none') != 'none']
    return '; '.join(own)


def _times(summary: Mapping[str, Any]) -> str:
    if 'latency_ms' not in summary or 'method' not in summary:
        return ''
    total = summary['latency_ms']['total']
    runs = summary['BasicPerformanceMetrics.NUM_FRAMES_SENT']
    text = (f'{runs} run{"s" * (runs > 1)} of {summary["matcher"]}, {summary["repeat"]} of each '
            'pair, from images in memory to a disparity in memory: '
            f'p50 {_milliseconds(total["p50"])}, p99 {_milliseconds(total["p99"])}')
    if (summary.get('workers') or 0) > 1:
        text += (f'; {summary["workers"]} processes shared the machine: for latency evaluate '
                 'without --workers')
    return text


def _milliseconds(value: float) -> str:
    return f'{value:.0f} ms' if value >= 100 else f'{value:.3g} ms'
