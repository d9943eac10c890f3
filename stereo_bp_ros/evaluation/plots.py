"""Plots inside a report: SVG of matplotlib in the colours of the page, light, dark or printed.

matplotlib comes with the extra ``evaluation``; without it a report has no plots and says so.
"""

from __future__ import annotations

import hashlib
import html
import importlib.util
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

MOST_POINTS = 600
"""A longer line is drawn as the mean of equal stretches, in a band from their least to their
greatest value."""

SIZE_INCHES = (5.0, 2.9)

#: Colours that stand for those of the page until the SVG is written.
_INK, _SOFT, _LINE = '#010203', '#010204', '#010205'
_SERIES = tuple(f'#0102{16 + number:02x}' for number in range(5))
_VARIABLES = {_INK: 'ink', _SOFT: 'soft', _LINE: 'line',
              **{colour: f's{number}' for number, colour in enumerate(_SERIES, 1)}}
_DASHES = ('-', '--', ':', '-.')

Values = Sequence[float | None]


def available() -> bool:
    """Whether matplotlib is there."""
    return importlib.util.find_spec('matplotlib') is not None


def bars(title: str, groups: Sequence[str], series: Mapping[str, Values], y_label: str, *,
         is_log: bool = False) -> str:
    """SVG of bars: one of each series in every group; None = there is none.

    title:  for those who hear the page.
    is_log: the axis of the values is logarithmic; a bar of 0 has no length.
    """
    def draw(axes: Any) -> None:
        width = 0.8 / max(1, len(series))
        for number, (name, values) in enumerate(series.items()):
            places = np.arange(len(groups)) + (number - (len(series) - 1) / 2) * width
            axes.bar(places, _floats(values), 0.92 * width, label=_label(name),
                     color=_SERIES[number % len(_SERIES)])
        axes.set_xticks(range(len(groups)))
        axes.set_xticklabels([_label(group) for group in groups])
        axes.set_ylabel(_label(y_label))
        if is_log:
            axes.set_yscale('log', nonpositive='clip')
            # From one power of ten to another, each of which has a label.
            known = np.log10([value for values in series.values() for value in values if value])
            if known.size:
                axes.set_ylim(10 ** np.floor(known.min()), 10 ** np.ceil(known.max() + 1e-9))
            axes.yaxis.set_major_formatter('{x:g}')
            axes.yaxis.set_minor_formatter('')
    return _svg(title, draw, ('bars', groups, list(series.items()), y_label, is_log),
                len(series) > 1)


def lines(title: str, x: Sequence[float], series: Mapping[str, Values], x_label: str,
          y_label: str, levels: Mapping[str, float] | None = None,
          references: Mapping[str, Values] | None = None) -> str:
    """SVG of lines over common x; None = a gap.

    levels:     horizontal lines by their labels.
    references: further lines that are no measurement of their own, in grey.
    """
    def draw(axes: Any) -> None:
        for number, (name, values) in enumerate(series.items()):
            colour = _SERIES[number % len(_SERIES)]
            places, mean, least, greatest = _thinned(x, _floats(values))
            if len(places) < len(x):
                axes.fill_between(places, least, greatest, color=colour, alpha=0.25, linewidth=0)
            axes.plot(places, mean, color=colour, linewidth=1.3, label=_label(name),
                      marker='o' if len(places) <= 40 else '', markersize=3)
        for name, values in (references or {}).items():
            axes.plot(x, _floats(values), color=_SOFT, linewidth=1, linestyle='--',
                      label=_label(name))
        for number, (name, value) in enumerate((levels or {}).items()):
            axes.axhline(value, color=_INK, linewidth=1, label=_label(name),
                         linestyle=_DASHES[1 + number % 3])
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_xlabel(_label(x_label))
        axes.set_ylabel(_label(y_label))
        axes.set_ylim(y_limits(axes))
    return _svg(title, draw, ('lines', list(x), list(series.items()), x_label, y_label, levels,
                              references),
                len(series) + len(levels or {}) + len(references or {}) > 1)


def y_limits(axes: Any) -> tuple[float, float]:
    """From 0, where nothing is below it, to above the highest point with its marker.

    The usual margin is a part of what the values spread over: with 0 it is next to nothing.
    """
    low, high = axes.dataLim.y0, axes.dataLim.y1
    if not (math.isfinite(high) and low >= 0):
        return tuple(axes.get_ylim())
    return 0.0, 1.05 * high or 1.0


def _floats(values: Values) -> np.ndarray:
    return np.array([np.nan if value is None else value for value in values], np.float64)


def _thinned(x: Sequence[float], y: np.ndarray
             ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """x, mean, least and greatest y of at most ``MOST_POINTS`` stretches."""
    places = np.asarray(x, np.float64)
    if len(places) <= MOST_POINTS:
        return places, y, y, y
    starts = np.linspace(0, len(places), MOST_POINTS, endpoint=False).astype(int)
    known = np.isfinite(y)
    counts = np.add.reduceat(known, starts, dtype=np.int64)
    sums = np.add.reduceat(np.where(known, y, 0.0), starts)
    mean = np.full(MOST_POINTS, np.nan)
    np.divide(sums, counts, out=mean, where=counts > 0)
    least = np.fmin.reduceat(y, starts)
    return places[starts], mean, least, np.fmax.reduceat(y, starts)


def _label(text: str) -> str:
    """Text as it is: no formulas, nothing that a font cannot take."""
    return _plain(text).replace('$', r'\$')


def _plain(text: str) -> str:
    """Text of printable characters."""
    return ''.join(one if one.isprintable() else '\N{REPLACEMENT CHARACTER}'
                   for one in text.encode('utf-8', 'backslashreplace').decode())


def _svg(title: str, draw: Callable[[Any], None], data: object, has_legend: bool) -> str:
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    # Equal plots get equal names inside, and different ones different names: a page holds many.
    salt = hashlib.sha256(repr(data).encode('utf-8', 'backslashreplace')).hexdigest()
    text = io.StringIO()
    with matplotlib.rc_context({
            'svg.fonttype': 'none', 'svg.hashsalt': salt, 'font.size': 9, 'text.color': _INK,
            'axes.edgecolor': _SOFT, 'axes.labelcolor': _SOFT, 'xtick.color': _SOFT,
            'ytick.color': _SOFT, 'grid.color': _LINE, 'axes.axisbelow': True}):
        figure = Figure(figsize=SIZE_INCHES)
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        axes.spines[['top', 'right']].set_visible(False)
        axes.grid(axis='y')
        draw(axes)
        if has_legend:
            axes.legend(loc='lower left', bbox_to_anchor=(0, 1), ncol=3, frameon=False,
                        borderaxespad=0.2, handlelength=1.6, columnspacing=1.4)
        figure.savefig(text, format='svg', transparent=True, bbox_inches='tight',
                       metadata=dict.fromkeys(('Date', 'Creator', 'Format', 'Type')))
    return _inline(text.getvalue(), title)


def _inline(svg: str, title: str) -> str:
    """The SVG element of a file as a part of a page."""
    body = svg[svg.index('>', svg.index('<svg')) + 1:]
    box = re.search(r'viewBox="([^"]+)"', svg)
    assert box is not None
    # Its style is one for every element of the page.
    body = re.sub(r'<(metadata|style)\b.*?</\1>', '', body, flags=re.DOTALL)
    # Names that nothing refers to would be many times in one page.
    used = set(re.findall(r'(?:href="|url\()#([^")]+)', body))
    body = re.sub(r' id="([^"]*)"', lambda one: one[0] if one[1] in used else '', body)
    for colour, variable in _VARIABLES.items():
        body = body.replace(colour, f'var(--{variable})')
    return f'<svg viewBox="{box[1]}" role="img" aria-label="{html.escape(_plain(title))}">{body}'
