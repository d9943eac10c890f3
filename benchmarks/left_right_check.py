"""Times and scores two ways to check belief propagation left against right.

    python benchmarks/left_right_check.py DATA [--backend cuda] [--frames 100]

DATA holds ``sets.yaml``. `same messages` is what ``disp12_max_diff`` does: every belief of the
left image is offered to its pixel of the right one. `second pass` matches once more with the
right image as reference, and compares on the host; its time is that of both frames, without the
comparison. Wall clock of whole frames, medians; the ways take turns. Quality with a tolerance
of 1: the share of known pixels that keep a disparity, and of those the share that is off by more
than 1.
"""

from __future__ import annotations

import argparse
import pathlib

import numpy as np

from stereo_bp_ros import MatcherConfig, StereoMatcher, engines
from stereo_bp_ros.evaluation import metrics, timing
from stereo_bp_ros.evaluation.datasets import StereoPair, open_dataset

WAYS = {'no check': {}, 'same messages': {'disp12_max_diff': 1},
        'right image': {'reference_image': 'right'}}


def main() -> None:
    """Read the command line and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('data', type=pathlib.Path)
    parser.add_argument('--backend', default='auto', choices=('auto', 'cuda', 'cpu'))
    parser.add_argument('--message-type', default='int16')
    parser.add_argument('--frames', type=int, default=100)
    arguments = parser.parse_args()
    print('| set | way | ms | ms more than without | kept, % | of them bad, % |')
    print('| --- | --- | --- | --- | --- | --- |')
    for pair in open_dataset(arguments.data):
        print_rows(pair, arguments)


def print_rows(pair: StereoPair, arguments: argparse.Namespace) -> None:
    """Three rows of one pair."""
    assert pair.truth is not None
    variants = [timing.Variant(name, MatcherConfig.preset(
        'five_sets', disparity_range=pair.disparities, backend=arguments.backend,
        message_type=arguments.message_type, **settings)) for name, settings in WAYS.items()]
    ms = {one.variant: one.median for one in timing.measure(
        timing.Pair(pair.name, pair.left, pair.right, pair.disparities), variants,
        arguments.frames, engines)}
    frames = []
    for variant in variants:
        with StereoMatcher(variant.config) as matcher:
            frames.append(matcher.compute(pair.left, pair.right))
    plain, checked, right = frames
    twice = plain.valid & agrees(plain.disparity, right.disparity, right.valid)
    for name, total, kept in (
            ('no check', ms['no check'], plain.valid),
            ('same messages', ms['same messages'], checked.valid),
            ('second pass', ms['no check'] + ms['right image'], twice)):
        score = metrics.score(plain.disparity, pair.truth, kept, thresholds=(1.0,))
        print(f'| {pair.name} | {name} | {total:.3f} | {total - ms["no check"]:.3f} '
              f'| {100 * score.estimated / score.known:.1f} '
              f'| {100 * score.bad[0] / score.estimated:.2f} |')


def agrees(left: np.ndarray, right: np.ndarray, is_valid: np.ndarray) -> np.ndarray:
    """Where the right image's disparity at a pixel's match is at most 1 from the pixel's own."""
    columns = np.arange(left.shape[1]) - np.rint(left).astype(int)
    inside = np.clip(columns, 0, left.shape[1] - 1)
    other = np.take_along_axis(right, inside, axis=1)
    return ((columns == inside) & np.take_along_axis(is_valid, inside, axis=1)
            & (np.abs(np.rint(left) - np.rint(other)) <= 1))


if __name__ == '__main__':
    main()
