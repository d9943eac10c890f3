"""A right camera that has moved: what ``row_correction`` makes of real pairs.

  python -m benchmarks.moved_cameras kitti2012/
  python -m benchmarks.moved_cameras sequence/ --preset road_fast

The right images are resampled (Lanczos) as if their camera had moved. Pairs with truth become
sequences of ``--repeats`` pairs of 10 Hz with fresh noise, whose last one is scored: filled bad-3,
per cent. A sequence is played forth and back: rows corrected in the middle of the image.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

import cv2
import numpy as np

from benchmarks import common
from stereo_bp_ros.cameras.row_correction import RowCorrection
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.evaluation.method import Method
from stereo_bp_ros.sources.datasets.dataset import open_dataset
from stereo_bp_ros.sources.pairs import Pair
from stereo_bp_ros.stream.stereo_stream import StereoStream

#: Rows, and degrees of roll.
MOVES = {'not moved': (0.0, 0.0), '0.5 px': (0.5, 0.0), '1 px': (1.0, 0.0), '2 px': (2.0, 0.0),
         'roll 0.3 degrees': (0.0, 0.3)}

#: Grey levels, from one pair to the next, and until a correction is to be settled.
NOISE, PERIOD_NS, SETTLED_S = 1.0, 100_000_000, 2.0


def moved(image: np.ndarray, rows: float, degrees: float) -> np.ndarray:
    """An image as a camera sees it that lies lower by these rows and is rolled."""
    if not rows and not degrees:
        return image
    height, width = image.shape[:2]
    move = cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), -degrees, 1.0)
    move[1, 2] += rows
    return np.asarray(cv2.warpAffine(image, move, (width, height), flags=cv2.INTER_LANCZOS4,
                                     borderMode=cv2.BORDER_REPLICATE))


def noisy(image: np.ndarray, random: np.random.Generator) -> np.ndarray:
    return np.asarray(np.clip(np.rint(image + NOISE * random.standard_normal(image.shape)), 0,
                              255).astype(np.uint8))


def repeated(pair: Pair, rows: float, degrees: float, repeats: int) -> Iterator[Pair]:
    """A sequence of one pair, each time with other noise."""
    left, right = np.asarray(pair.left), moved(np.asarray(pair.right), rows, degrees)
    for number in range(repeats):
        random = np.random.default_rng([1, number])
        yield dataclasses.replace(pair, left=noisy(left, random), right=noisy(right, random),
                                  stamp_ns=10**18 + number * PERIOD_NS)


def score(pairs: Sequence[Pair], configs: Mapping[str, MatcherConfig]) -> list[float]:
    """Bad-3 of the last pair by every configuration."""
    method, found = Method(repeat=1), []
    for config in configs.values():
        with StereoStream(method.range_of(config, pairs[-1])) as stream:
            for pair in pairs:
                observe(stream, pair)
            frame = stream.match()
        assert frame.disparity is not None
        found.append(method.judge(pairs[-1], frame.disparity, frame.valid)
                     .whole.filled.bad_all(3))
    return found


def observe(stream: StereoStream, pair: Pair) -> RowCorrection | None:
    """What is undone in the next pair."""
    return stream.observe(*pair.images, stamp=1e-9 * (pair.stamp_ns or 0),
                          calibration=pair.calibration).correction


def forth_and_back(pairs: Sequence[Pair], rows: float, degrees: float) -> Iterator[Pair]:
    """A sequence, and once more backwards, without the last pair again."""
    first, second = pairs[0].stamp_ns or 0, pairs[1].stamp_ns or 0
    for number, pair in enumerate([*pairs, *pairs[-2::-1]]):
        yield dataclasses.replace(pair, right=moved(np.asarray(pair.right), rows, degrees),
                                  stamp_ns=first + number * (second - first))


def undone(pairs: Iterable[Pair], config: MatcherConfig) -> np.ndarray:
    """Seconds, and rows corrected in the middle of the image: float64 N x 2."""
    found = []
    with StereoStream(config) as stream:
        corrections = [(pair, observe(stream, pair)) for pair in pairs]
    for pair, correction in corrections:
        height, width = np.asarray(pair.left).shape[:2]
        rows = 0.0 if correction is None else float(correction.rows(
            np.array([width / 2]), np.array([height / 2]))[0])
        found.append((1e-9 * (pair.stamp_ns or 0), rows))
    return np.array(found) - [found[0][0], 0]


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument('folder', type=pathlib.Path, help='pairs with truth, or a sequence')
    parser.add_argument('--preset', default='road')
    parser.add_argument('--repeats', type=int, default=40, help='pairs of a frame (40)')
    parser.add_argument('--backend', default='cpu')
    print_tables(parser.parse_args())


def print_tables(options: argparse.Namespace) -> None:
    config = MatcherConfig.preset(options.preset).replace(backend=options.backend)
    configs = {mode: config.replace(row_correction=mode) for mode in ('off', 'correct')}
    pairs = list(open_dataset(options.folder))
    if pairs[0].truth is not None:
        print(f'| {options.preset}, bad-3 | off | correct |\n| --- | --- | --- |')
        for name, move in MOVES.items():
            scores = np.array([score(list(repeated(pair, *move, options.repeats)), configs)
                               for pair in pairs])
            print(f'| {name} | ' + ' | '.join(
                f'{mean:.2f} ({", ".join(f"{one:.2f}" for one in column)})'
                for mean, column in zip(scores.mean(axis=0), scores.T, strict=True)) + ' |',
                flush=True)
        return
    print('| moved | settled within 0.1 px after, s | px then | range then, px |\n'
          + '| --- ' * 4 + '|')
    for name in ('not moved', '2 px', 'roll 0.3 degrees'):
        move = MOVES[name]
        track = undone(forth_and_back(pairs, *move), configs['correct'])
        late = track[track[:, 0] >= SETTLED_S, 1]
        outside = track[np.abs(track[:, 1] - np.median(late)) > 0.1, 0]
        print(f'| {name} | {outside.max(initial=0):.2f} | {np.median(late):.2f} | '
              f'{np.ptp(late):.3f} |', flush=True)


if __name__ == '__main__':
    main()
