"""The plot of ``stereo_bp sensitivity``: wrong pixels over each quantity."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence

from stereo_bp_ros.evaluation.plots import y_limits
from stereo_bp_ros.evaluation.sensitivity import Quantity, Row

COLUMNS = 4


def draw(curves: Mapping[str, tuple[Quantity, Sequence[Row]]], path: pathlib.Path) -> None:
    """Draw a panel for every quantity by its name, with a line for every matcher.

    :param path: its suffix says the format.
    :raises ImportError: without matplotlib.
    """
    import matplotlib
    matplotlib.use('Agg')
    from matplotlib import pyplot
    columns = min(COLUMNS, len(curves))
    lines = -(-len(curves) // columns)
    # The same figures give the same file; letters as text keep it small.
    with pyplot.rc_context({'svg.hashsalt': 'sensitivity', 'svg.fonttype': 'none',
                            'font.size': 8}):
        figure, panels = pyplot.subplots(lines, columns, squeeze=False, layout='constrained',
                                         figsize=(2.7 * columns, 2.3 * lines + 0.4))
        for (name, (quantity, rows)), axes in zip(curves.items(), panels.flat, strict=False):
            for number, matcher in enumerate(rows[0].matchers):
                axes.plot([row.value for row in rows],
                          [row.matchers[matcher]['bad_3_filled'] for row in rows],
                          linestyle=('-', '--', '-.', ':')[number % 4], label=matcher)
            axes.set(title=name, xlabel=quantity.unit, ylim=y_limits(axes),
                     xscale='log' if quantity.is_log else 'linear')
            if quantity.values[0] > quantity.values[-1]:
                axes.invert_xaxis()
            # Few ticks, and no markers: each is several hundred bytes of the file.
            axes.minorticks_off()
            axes.locator_params(axis='y', nbins=4)
            if quantity.is_log:
                axes.xaxis.set_major_formatter('{x:g}')
            else:
                axes.locator_params(axis='x', nbins=5)
            axes.grid(alpha=0.3)
        for axes in panels.flat[len(curves):]:
            axes.axis('off')
        figure.supylabel('bad-3 of filled pixels, per cent')
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc='outside upper center',
                      ncols=5, frameon=False)
        figure.savefig(path, metadata={'Date': None} if path.suffix == '.svg' else None)
        pyplot.close(figure)
