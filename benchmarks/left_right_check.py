"""Times and scores two ways to check belief propagation left against right.

    python -m benchmarks.left_right_check ../shared/data/middlebury [--backend cuda]

`same messages` is what ``disp12_max_diff`` does: every belief of the
left image is offered to its pixel of the right one. `second pass` matches once more with the
right image as reference, and compares on the host; its time is that of both frames, without the
comparison. Wall clock of whole frames, medians; the ways take turns. Quality with a tolerance
of 1: the share of known pixels that keep a disparity, and of those the share that is off by more
than 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import common
from stereo_bp_ros import MatcherConfig, StereoMatcher
from stereo_bp_ros.evaluation import metrics, timing
from stereo_bp_ros.evaluation.datasets import StereoPair

WAYS: dict[str, dict[str, Any]] = {
    'no check': {}, 'same messages': {'disp12_max_diff': 1},
    'right image': {'reference_image': 'right'}}


def main() -> None:
    """Read the command line and print the table."""
    parser = common.parser(__doc__)
    common.add_data(parser, sets=())
    common.add_backend(parser)
    parser.add_argument('--message-type', default='int16')
    common.add_frames(parser, 100)
    options = parser.parse_args()
    base = MatcherConfig.preset('five_sets', backend=options.backend,
                                message_type=options.message_type)
    common.print_machine(base)
    common.print_head('set', 'way', 'ms', 'ms more than without', 'kept, %', 'of them bad, %')
    for pair in common.sets(options.data, options.sets):
        print_rows(pair, base.replace(disparity_range=pair.disparities), options.frames)


def print_rows(pair: StereoPair, config: MatcherConfig, frames: int) -> None:
    """Three rows of one pair."""
    assert pair.truth is not None
    variants = [timing.Variant(name, config.replace(**changes)) for name, changes in WAYS.items()]
    ms = {one.variant: one.median
          for one in common.measure(common.timed(pair), variants, frames)}
    (plain, valid), (_, checked), (right, right_valid) = (
        matched(pair, one.config) for one in variants)
    twice = valid & agrees(plain, right, right_valid)
    for name, total, kept in (
            ('no check', ms['no check'], valid), ('same messages', ms['same messages'], checked),
            ('second pass', ms['no check'] + ms['right image'], twice)):
        score = metrics.score(plain, pair.truth, kept, thresholds=(1.0,))
        common.print_row(pair.name, name, f'{total:.3f}', f'{total - ms["no check"]:.3f}',
                         f'{100 * score.estimated / score.known:.1f}',
                         f'{100 * score.bad[0] / score.estimated:.2f}')


def matched(pair: StereoPair, config: MatcherConfig) -> tuple[np.ndarray, np.ndarray]:
    """Disparities and where they are valid."""
    with StereoMatcher(config) as matcher:
        frame = matcher.compute(pair.left, pair.right)
        assert frame.disparity is not None
        return frame.disparity, frame.valid


def agrees(left: np.ndarray, right: np.ndarray, is_valid: np.ndarray) -> np.ndarray:
    """Where the right image's disparity at a pixel's match is at most 1 from the pixel's own."""
    columns = np.arange(left.shape[1]) - np.rint(left).astype(int)
    inside = np.clip(columns, 0, left.shape[1] - 1)
    other = np.take_along_axis(right, inside, axis=1)
    return np.asarray((columns == inside) & np.take_along_axis(is_valid, inside, axis=1)
                      & (np.abs(np.rint(left) - np.rint(other)) <= 1))


if __name__ == '__main__':
    main()
