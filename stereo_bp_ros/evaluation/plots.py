"""Plots by matplotlib: SVG inside a report, and files.

matplotlib comes with the extra ``evaluation``.
"""

from __future__ import annotations

import base64
import io
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from stereo_bp_ros.system import atomic_files

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: A longer line is drawn as pixels, so that its file stays small.
MAX_VECTOR_POINTS = 2000

LINE_STYLES = ('--', '-.', ':')

Values = Sequence[float | None]


def bars(groups: Sequence[str], series: Mapping[str, Values], y_label: str, *,
         is_log: bool = False) -> Figure:
    """One bar of each series in every group; None = there is none.

    is_log: the axis of the values is logarithmic; a bar of 0 has no length.
    """
    figure, axes = _new_figure()
    width = 0.8 / max(1, len(series))
    for number, (name, values) in enumerate(series.items()):
        places = np.arange(len(groups)) + (number - (len(series) - 1) / 2) * width
        axes.bar(places, _floats(values), 0.92 * width, label=_label(name))
    axes.set_xticks(range(len(groups)), [_label(group) for group in groups])
    axes.set_ylabel(_label(y_label))
    axes.grid(axis='y', alpha=0.3)
    if is_log:
        axes.set_yscale('log', nonpositive='clip')
        axes.yaxis.set_major_formatter('{x:g}')
    return _with_legend(figure, axes)


def lines(x: Sequence[float], series: Mapping[str, Values], x_label: str, y_label: str,
          levels: Mapping[str, float] | None = None,
          references: Mapping[str, Values] | None = None) -> Figure:
    """Lines over common x, of which short ones have the first; None = a gap.

    levels:     horizontal lines by their labels.
    references: further lines that are no measurement of their own, in grey.
    """
    figure, axes = _new_figure()
    for name, values in series.items():
        axes.plot(x[:len(values)], _floats(values), linewidth=1.3, label=_label(name),
                  marker='o' if len(x) <= 40 else '', markersize=3,
                  rasterized=len(x) > MAX_VECTOR_POINTS)
    for name, values in (references or {}).items():
        axes.plot(x, _floats(values), color='0.5', linestyle='--', label=_label(name))
    for number, (name, value) in enumerate((levels or {}).items()):
        axes.axhline(value, color='0.2', linewidth=1, label=_label(name),
                     linestyle=LINE_STYLES[number % 3])
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set(xlabel=_label(x_label), ylabel=_label(y_label), ylim=_y_limits(axes))
    axes.grid(axis='y', alpha=0.3)
    return _with_legend(figure, axes)


def rate_map(rate: np.ndarray, block: int, high: float) -> Figure:
    """Where in the image something happens: rates in per cent by blocks of pixels; NaN = unknown.

    rate: H x W blocks; block: side of one, pixels; high: end of the colours.
    """
    figure, axes = _new_figure()
    height, width = rate.shape
    image = axes.imshow(rate, cmap='plasma', vmin=0, vmax=max(1.0, high), interpolation='none',
                        extent=(0, width * block, height * block, 0))
    axes.set_facecolor('black')
    axes.set(xlabel='column, px', ylabel='row, px')
    figure.colorbar(image, ax=axes, label='% of pixels (black: unknown)', extend='max')
    return figure


def save(figure: Figure, path: pathlib.Path) -> None:
    """Write an SVG file: the same figures give the same file."""
    atomic_files.write_bytes(path, _svg(figure))


def _svg(figure: Figure) -> bytes:
    import matplotlib
    file = io.BytesIO()
    with matplotlib.rc_context({'svg.hashsalt': 'stereo_bp', 'svg.fonttype': 'none'}):
        figure.savefig(file, format='svg', metadata={'Date': None})
    return file.getvalue()


def data_uri(figure: Figure) -> str:
    """SVG as the address of a picture inside a page."""
    return f'data:image/svg+xml;base64,{base64.b64encode(_svg(figure)).decode()}'


def _new_figure() -> tuple[Figure, Any]:
    from matplotlib.figure import Figure
    figure = Figure(figsize=(5.2, 3.0), layout='constrained')
    axes = figure.add_subplot()
    axes.set_axisbelow(True)
    return figure, axes


def _with_legend(figure: Figure, axes: Any) -> Figure:
    if len(axes.get_legend_handles_labels()[0]) > 1:
        axes.legend(loc='lower left', bbox_to_anchor=(0, 1), ncol=3, frameon=False, fontsize=8)
    return figure


def _y_limits(axes: Any) -> tuple[float, float]:
    """From 0, where nothing is below it, to above the highest point with its marker.

    The usual margin is a part of what the values spread over: with 0 it is next to nothing.
    """
    low, high = axes.dataLim.y0, axes.dataLim.y1
    if not (math.isfinite(high) and low >= 0):
        return tuple(axes.get_ylim())
    return 0.0, 1.05 * high or 1.0


def _floats(values: Values) -> np.ndarray:
    return np.array([np.nan if value is None else value for value in values], np.float64)


def _label(text: str) -> str:
    """Text as it is: no formulas, nothing that a font cannot take."""
    return ''.join(one if one.isprintable() else '\N{REPLACEMENT CHARACTER}'
                   for one in text.encode('utf-8', 'backslashreplace').decode()
                   ).replace('$', r'\$')
