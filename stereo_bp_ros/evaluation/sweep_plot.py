"""The plot of a sweep: a figure over time."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from stereo_bp_ros.evaluation.sweep import Point, pareto

#: More labels than this would lie over each other.
LABELS = 12


def draw_sweep(points: Sequence[Point], figure: str, chosen: Point, title: str,
               path: pathlib.Path) -> bool:
    """Draw every point that has the figure into a file whose suffix says the format.

    The points that no other one beats are joined and labelled, the chosen one is a star. False:
    no point has the figure, and there is no file.

    :raises ImportError: without matplotlib.
    """
    import matplotlib
    matplotlib.use('Agg')
    from matplotlib import pyplot

    front = pareto(points, figure)
    if not front:
        return False
    drawing, axes = pyplot.subplots(figsize=(8, 5), layout='constrained')
    try:
        axes.scatter(*_places(points, figure), s=18, color='0.6', label='points')
        axes.plot(*_places(front, figure), 'o-', color='tab:blue', markersize=5, label='Pareto')
        axes.scatter(*_places([chosen], figure), marker='*', s=180, color='tab:red', zorder=3,
                     label=f'chosen: {chosen.label}')
        for one in front[::-(-len(front) // LABELS)]:
            x, y = _places([one], figure)
            axes.annotate(one.label, (x[0], y[0]), fontsize=7, xytext=(4, 4),
                          textcoords='offset points')
        axes.set(xlabel='median time, ms', ylabel=figure,
                 title=title)
        axes.legend(fontsize=8)
        axes.grid(alpha=0.3)
        drawing.savefig(path)
    finally:
        pyplot.close(drawing)
    return True


def _places(points: Sequence[Point], figure: str) -> tuple[list[float], list[float]]:
    """Times and values of the points that have the figure."""
    both = [(one.time_ms, value) for one in points
            if (value := one.figure(figure)) is not None]
    return [x for x, _ in both], [y for _, y in both]
