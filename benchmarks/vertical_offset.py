"""What rows that do not match cost: bad-3 of pairs whose right image is moved up and down.

The right image is moved by Lanczos interpolation, so that the pair has the offset of the column:
the one that the node's diagnostics measure in it is taken away first. Every figure is the mean of
an offset up and one down, of all pairs of the data set, or of frames of the rendered street.
Pixels without a disparity are bad (bad-3, per cent); `density` is the part that has one, `told`
the mean of what the diagnostics say of the moved pairs, pixels.

    python -m benchmarks.vertical_offset ../shared/data/kitti2012 [--backend cuda]
    python -m benchmarks.vertical_offset street
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import cv2
import numpy as np

from benchmarks import common
from stereo_bp_ros import MatcherConfig, StereoMatcher
from stereo_bp_ros.alignment import vertical_offset
from stereo_bp_ros.evaluation import metrics
from stereo_bp_ros.evaluation.datasets import StereoPair, open_dataset
from stereo_bp_ros.evaluation.scenes.sequence import RoadSequence

SIZE = common.Size(1280, 384, 128)
OFFSETS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
STREET_FRAMES = (0, 25, 50, 75)


def main() -> None:
    """Read the command line and print the table."""
    parser = common.parser(__doc__)
    common.add_data(parser)
    common.add_backend(parser)
    common.add_sizes(parser, SIZE)
    parser.add_argument('--presets', nargs='+', default=['road', 'sad_fast'], metavar='NAME')
    parser.add_argument('--offsets', nargs='+', type=float, default=OFFSETS, metavar='ROWS')
    options = parser.parse_args()
    configs = {name: MatcherConfig.preset(name, backend=options.backend)
               for name in options.presets}
    common.print_machine(next(iter(configs.values())))
    for size in options.size:
        found = list(pairs(options.data, size))
        common.print_head('offset', *(f'{name}, {what}' for name in configs
                                      for what in ('bad-3', 'density')), 'told')
        matchers = {name: StereoMatcher(config.replace(disparity_range=size.disparities))
                    for name, config in configs.items()}
        for offset in options.offsets:
            print_offset(matchers, found, offset, size.disparities)


def pairs(data: pathlib.Path, size: common.Size) -> Iterator[StereoPair]:
    """Pairs with truth and without an offset of their own."""
    if str(data) == 'street':
        drive = RoadSequence(width=size.width, height=size.height,
                             max_disparity=size.disparities - 4)
        for index in STREET_FRAMES:
            frame = drive.frame(index)
            seen = ~frame.occluded & ~frame.sky
            yield StereoPair(str(index), frame.left, frame.right,
                             np.where(seen, frame.disparity, np.nan))
        return
    yield from open_dataset(data)


def print_offset(matchers: dict[str, StereoMatcher], found: list[StereoPair], offset: float,
                 disparities: int) -> None:
    """One row of the table."""
    scores: dict[str, list[metrics.Score]] = {name: [] for name in matchers}
    told = []
    for pair in found:
        own = vertical_offset(pair.left, pair.right, 0, disparities - 1)
        for wanted in {offset, -offset}:
            right = moved(pair.right, wanted - (own.offset if own else 0))
            again = vertical_offset(pair.left, right, 0, disparities - 1)
            if again is not None:
                told.append(np.copysign(1, wanted) * again.offset)
            for name, matcher in matchers.items():
                answer = matcher.compute(pair.left, right)
                assert answer.disparity is not None
                assert pair.truth is not None
                scores[name].append(metrics.score(answer.disparity, pair.truth, answer.valid,
                                                  thresholds=(3.0,)))
    cells = []
    for parts in scores.values():
        total = metrics.combine(parts)
        bad = 1 - (total.estimated - total.bad[0]) / total.known
        cells += [f'{100 * bad:.2f}', f'{total.density:.1f}']
    common.print_row(f'{offset:g}', *cells, f'{np.mean(told):.2f}')


def moved(image: np.ndarray, rows: float) -> np.ndarray:
    """An image whose content lies lower by some rows."""
    return np.asarray(cv2.warpAffine(
        image, np.array([[1, 0, 0], [0, 1, rows]], np.float64), image.shape[1::-1],
        flags=cv2.INTER_LANCZOS4, borderMode=cv2.BORDER_REPLICATE))


if __name__ == '__main__':
    main()
