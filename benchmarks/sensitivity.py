"""Sensitivity curves: wrong pixels over one quantity of the rendered street, whose size is known.

Every quantity is swept alone, from its harmless value on. A cell is bad-3 of pixels that both
cameras see, without the sky, after holes are filled; in brackets the density before. All in per
cent. The last table has the first value at which bad-3 is at least twice that of the first.

    python -m benchmarks.sensitivity [--quantity pitch yaw] [--output FILE.json] [--plot FILE.svg]
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import common
from stereo_bp_ros import MatcherConfig, StereoMatcher
from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.evaluation import metrics, peers
from stereo_bp_ros.evaluation.filling import fill_background
from stereo_bp_ros.evaluation.scenes.misalignment import Misalignment
from stereo_bp_ros.evaluation.scenes.sequence import RoadSequence

SIZE = common.Size(640, 240, 64)
STEP = 25
"""Frames of the drive from one that is matched to the next."""

BAD_PX = 3.0

Matcher = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""From two images to the disparity, float32 H x W, and where it is valid, bool H x W."""


@dataclass(frozen=True)
class Sweep:
    """One quantity: its unit, its values from the harmless one on, and what it changes."""

    unit: str
    values: tuple[float, ...]
    options: Callable[[float], dict[str, Any]]
    is_log: bool = False


def _error(name: str) -> Callable[[float], dict[str, Any]]:
    return lambda value: {'misalignment': Misalignment(**{name: value})}


def _option(name: str) -> Callable[[float], dict[str, Any]]:
    return lambda value: {name: value}


SWEEPS = {
    'vertical offset': Sweep('px', (0, 0.25, 0.5, 0.75, 1, 1.5, 2), _error('vertical_offset_px')),
    'pitch': Sweep('degrees', (0, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2), _error('pitch_deg')),
    'yaw': Sweep('degrees', (0, 0.05, 0.1, 0.2, 0.25, 0.3, 0.4), _error('yaw_deg')),
    'roll': Sweep('degrees', (0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8), _error('roll_deg')),
    'focal error': Sweep('per cent', (0, 0.25, 0.5, 1, 1.5, 2, 3),
                         _error('focal_error_percent')),
    'noise': Sweep('grey levels', (0, 1, 2, 4, 8, 12, 16), _option('noise_sigma')),
    'exposure': Sweep('gain', (1, 0.9, 0.8, 0.6, 0.4, 0.2, 0.1), _option('exposure_gain')),
    'fog': Sweep('metres of visibility', (10000, 500, 200, 100, 50, 30, 20),
                 _option('visibility_m'), is_log=True),
    'night': Sweep('share of daylight', (1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01),
                   _option('daylight'), is_log=True),
    'dirt': Sweep('share of each picture', (0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3),
                  _option('dirt'))}


def main() -> None:
    """Read the command line, print the tables, write JSON and the plot."""
    parser = common.parser(__doc__)
    common.add_backend(parser)
    common.add_frames(parser, 4, of=f'of every street, every {STEP}th')
    parser.add_argument('--size', type=common.size, default=SIZE, metavar='WxHxD',
                        help=f'default: {SIZE}')
    parser.add_argument('--quantity', nargs='+', choices=list(SWEEPS), default=list(SWEEPS),
                        help='default: all', metavar='NAME')
    parser.add_argument('--presets', nargs='+', default=['road', 'road_fast'], metavar='NAME')
    common.add_output(parser)
    parser.add_argument('--plot', type=pathlib.Path, metavar='FILE',
                        help='draw the curves there, SVG or PNG; needs matplotlib')
    options = parser.parse_args()
    if options.plot:
        shared.require('matplotlib')
    configs = {name: MatcherConfig.preset(name, backend=options.backend).replace(
        disparity_range=options.size.disparities) for name in options.presets}
    common.print_machine(next(iter(configs.values())))
    with ExitStack() as opened:
        matchers = {name: _own(opened.enter_context(StereoMatcher(config)))
                    for name, config in configs.items()}
        matchers['SGBM'] = peers.Peer('sgbm', options.size.disparities).compute
        found = {}
        for name in options.quantity:
            common.print_head(f'{name}, {SWEEPS[name].unit}', *matchers)
            found[name] = list(curve(SWEEPS[name], matchers, options.size, options.frames))
    common.print_head('bad-3 is doubled at', *matchers)
    for name, rows in found.items():
        common.print_row(f'{name}, {SWEEPS[name].unit}',
                         *(doubled(rows, matcher) for matcher in matchers))
    common.write_report(options.output, next(iter(configs.values())), size=str(options.size),
                        frames=options.frames, sweeps={
                            name: {'unit': SWEEPS[name].unit, 'rows': rows}
                            for name, rows in found.items()})
    if options.plot:
        draw(found, options.plot)


def _own(matcher: StereoMatcher) -> Matcher:
    def compute(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        answer = matcher.compute(left, right)
        assert answer.disparity is not None
        return answer.disparity, answer.valid
    return compute


def curve(sweep: Sweep, matchers: dict[str, Matcher], size: common.Size, frames: int
          ) -> Iterator[dict[str, Any]]:
    """Rows of a quantity's table, printed as they come: the value, and figures by matcher."""
    for value in sweep.values:
        drive = RoadSequence(width=size.width, height=size.height,
                             max_disparity=size.disparities - 4, **sweep.options(value))
        row: dict[str, Any] = {'value': value, **figures(drive, matchers, frames)}
        common.print_row(f'{value:g}', *(
            f'{row[name]["bad_3_filled"]:.2f} ({row[name]["density"]:.1f})' for name in matchers))
        yield row


def figures(drive: RoadSequence, matchers: dict[str, Matcher], frames: int
            ) -> dict[str, dict[str, float]]:
    """Per cent, by matcher: ``bad_3_filled``, ``bad_3_estimated`` and ``density``."""
    published: dict[str, list[metrics.Score]] = {name: [] for name in matchers}
    filled: dict[str, list[metrics.Score]] = {name: [] for name in matchers}
    for index in range(0, STEP * frames, STEP):
        frame = drive.frame(index)
        seen = ~frame.occluded & ~frame.sky
        for name, matcher in matchers.items():
            disparity, valid = matcher(frame.left, frame.right)
            published[name].append(metrics.score(disparity, frame.disparity, valid, (BAD_PX,),
                                                 seen))
            filled[name].append(metrics.score(fill_background(disparity, valid), frame.disparity,
                                              None, (BAD_PX,), seen))
    found = {}
    for name in matchers:
        own, whole = metrics.combine(published[name]), metrics.combine(filled[name])
        # Without a single valid pixel nothing can be filled: all are bad.
        found[name] = {'bad_3_filled': whole.bad_known(BAD_PX), 'density': own.density,
                       'bad_3_estimated': own.bad_estimated(BAD_PX) if own.estimated else 100.0}
    return found


def doubled(rows: Sequence[dict[str, Any]], matcher: str) -> str:
    """The first value with twice the bad pixels of the first; '-' where none has."""
    first = rows[0][matcher]['bad_3_filled']
    for row in rows[1:]:
        if row[matcher]['bad_3_filled'] >= 2 * first:
            return f'{row["value"]:g}'
    return '-'


def draw(found: dict[str, list[dict[str, Any]]], path: pathlib.Path) -> None:
    """A panel for every quantity: bad-3 of filled pixels over it, a line for every matcher."""
    import matplotlib
    matplotlib.use('Agg')
    from matplotlib import pyplot
    columns = min(4, len(found))
    lines = -(-len(found) // columns)
    # The same figures give the same file; letters as text keep it small.
    with pyplot.rc_context({'svg.hashsalt': 'sensitivity', 'svg.fonttype': 'none',
                            'font.size': 8}):
        figure, panels = pyplot.subplots(lines, columns, squeeze=False, layout='constrained',
                                         figsize=(2.7 * columns, 2.3 * lines + 0.4))
        for name, axes in zip(found, panels.flat, strict=False):
            rows, sweep = found[name], SWEEPS[name]
            for number, matcher in enumerate(key for key in rows[0] if key != 'value'):
                axes.plot([row['value'] for row in rows],
                          [row[matcher]['bad_3_filled'] for row in rows],
                          linestyle=('-', '--', '-.', ':')[number % 4], label=matcher)
            axes.set(title=name, xlabel=sweep.unit, ylim=(0, None),
                     xscale='log' if sweep.is_log else 'linear')
            if sweep.values[0] > sweep.values[-1]:
                axes.invert_xaxis()
            # Few ticks, and no markers: each is several hundred bytes of the file.
            axes.minorticks_off()
            axes.locator_params(axis='y', nbins=4)
            if sweep.is_log:
                axes.xaxis.set_major_formatter('{x:g}')
            else:
                axes.locator_params(axis='x', nbins=5)
            axes.grid(alpha=0.3)
        for axes in panels.flat[len(found):]:
            axes.axis('off')
        figure.supylabel('bad-3 of filled pixels, per cent')
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc='outside upper center',
                      ncols=5, frameon=False)
        figure.savefig(path, metadata={'Date': None} if path.suffix == '.svg' else None)
        pyplot.close(figure)


if __name__ == '__main__':
    main()
