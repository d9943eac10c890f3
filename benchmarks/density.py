"""Errors of matchers over their density, from reports of ``evaluate``: a table and a plot.

    stereo_bp evaluate kitti/ --preset road --against road_full,sgbm --confidence --json > a.json
    stereo_bp evaluate kitti/ --preset road --set confidence_threshold=0 --confidence \\
        --against road_full:confidence_threshold=0 --json > b.json
    python -m benchmarks.density a.json --curves b.json --plot density.svg

The table has means over the frames, per cent, with intervals of 95 % by a bootstrap over frames.
In the plot a mark is a matcher as it publishes, a line what remains of its map when the pixels of
least confidence are left out, the same share of each frame.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks import common
from stereo_bp_ros.evaluation.sparsification import SHARES

#: Samples of the bootstrap.
SAMPLES = 10_000

#: Least density that is drawn, per cent.
LEAST = 70.0

#: What the columns are, and where in the figures of a matcher on a frame.
COLUMNS = {'bad-3, est': ('score', 'bad_3_estimated'), 'density': ('score', 'density'),
           'bad-3 filled': ('filled', 'bad_3_all'), 'bad-1 filled': ('filled', 'bad_1_all')}


def matchers(path: pathlib.Path) -> dict[str, list[dict[str, Any]]]:
    """Figures of every matcher of a report, frame by frame."""
    report = json.loads(path.read_text(encoding='utf-8'))
    return {report['matcher']: report['pairs'],
            **{name: [pair['against'][name] for pair in report['pairs']]
               for name in report['against']}}


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Where the mean lies with a probability of 95 %, had other frames been drawn."""
    drawn = np.random.default_rng(1).integers(len(values), size=(SAMPLES, len(values)))
    low, high = np.percentile(np.asarray(values)[drawn].mean(axis=1), (2.5, 97.5))
    return float(low), float(high)


def cells(frames: Sequence[Mapping[str, Any]]) -> list[str]:
    """A matcher's cells of the table."""
    found = []
    for part, figure in COLUMNS.values():
        values = [frame[part][figure] for frame in frames]
        low, high = interval(values)
        found.append(f'{np.mean(values):.2f} ({low:.2f} to {high:.2f})')
    return found


def curve(frames: Sequence[Mapping[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
    """Density and bad-3 of a matcher at every share of the pixels that it keeps."""
    density = np.mean([frame['score']['density'] for frame in frames]) * np.array(SHARES)
    bad = np.mean([frame['sparsification']['bad_3']['curve'] for frame in frames], axis=0)
    return density, bad


def draw(path: pathlib.Path, shipped: Mapping[str, Sequence[Mapping[str, Any]]],
         curves: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """The plot, in the format that its name ends with."""
    import matplotlib
    matplotlib.use('agg')
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(figsize=(6.4, 4.0), layout='constrained')
    for number, (name, frames) in enumerate(shipped.items()):
        color = f'C{number}'
        density, bad = (np.mean([frame['score'][key] for frame in frames])
                        for key in ('density', 'bad_3_estimated'))
        axes.plot(density, bad, 'o' if name in curves else 's', color=color, label=name)
        if name in curves:
            x, y = curve(curves[name])
            axes.plot(x[x >= LEAST], y[x >= LEAST], color=color)
    axes.set(xlabel='density, %', ylabel='bad-3 of estimated pixels, %', ylim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend()
    metadata = {'Date': None} if path.suffix == '.svg' else None
    figure.savefig(path, metadata=metadata)
    pyplot.close(figure)


def main() -> None:
    """Read the command line, print the table and draw the plot."""
    parser = common.parser(__doc__)
    parser.add_argument('report', type=pathlib.Path, help='of matchers as they publish')
    parser.add_argument('--curves', type=pathlib.Path, metavar='REPORT',
                        help='of matchers of the same names, with a confidence')
    parser.add_argument('--plot', type=pathlib.Path, metavar='FILE', help='.svg or .png')
    options = parser.parse_args()
    shipped = matchers(options.report)
    common.print_head('matcher', *COLUMNS)
    for name, frames in shipped.items():
        common.print_row(name, *cells(frames))
    if options.plot:
        draw(options.plot, shipped, matchers(options.curves) if options.curves else {})


if __name__ == '__main__':
    main()
