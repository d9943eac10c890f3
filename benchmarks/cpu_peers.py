"""Time the CPU engine beside OpenCV's matchers, on the same pairs, in turn, in one process.

    python -m benchmarks.cpu_peers ../shared/data/middlebury --rounds 30

Every program matches the pair once a round, so a drift of the machine meets all of them. OpenCV's
semi-global matching (SGBM, its fastest mode 3WAY) and block matching (StereoBM) search a multiple
of 16 disparities, at least 64. Whole frames: 8-bit images in memory before, disparity after.
Rendered streets follow the sets. Figures are median (minimum), ms.
"""

from __future__ import annotations

import contextlib
import functools
import pathlib
import statistics
import time
from collections.abc import Callable, Mapping

import cv2
import numpy as np

from benchmarks import common
from stereo_bp_ros import MatcherConfig, StereoMatcher
from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.evaluation.timing import Pair
from stereo_bp_ros.sources.datasets.dataset import open_dataset


def main() -> None:
    """Read the command line and print the table."""
    parser = common.parser(__doc__)
    parser.add_argument('data', type=pathlib.Path, help='data set folder')
    common.add_sizes(parser, common.VGA, common.HD)
    common.add_count(parser, '--rounds', 30, 'of all programs')
    parser.add_argument('--threads', type=shared.whole(1), default=2, metavar='N',
                        help='default 2')
    common.add_output(parser)
    options = parser.parse_args()
    cv2.setNumThreads(options.threads)
    config = MatcherConfig(backend='cpu', num_threads=options.threads)
    common.print_machine(config)
    results: dict[str, dict[str, tuple[float, float]]] = {}
    pairs = [Pair(one.name, one.left, one.right, one.disparities or 64)
             for one in open_dataset(options.data)]
    for wanted in options.size:
        pairs += common.street(wanted)
    for pair in pairs:
        found = measure(pair, options.threads, options.rounds)
        if not results:
            common.print_head('set', *found)
        common.print_row(pair.name, *(f'{median:.1f} ({least:.1f})'
                                      for median, least in found.values()))
        results[pair.name] = found
    common.write_report(options.output, config, opencv=cv2.__version__, rounds=options.rounds,
                        median_and_minimum_ms=results)


def measure(pair: Pair, threads: int, rounds: int) -> dict[str, tuple[float, float]]:
    """Median and minimum of every program, ms."""
    searched = {'disparity_range': pair.disparities, 'num_threads': threads, 'backend': 'cpu'}
    configs = {f'BP {kind}': MatcherConfig.preset('five_sets', message_type=kind, **searched)
               for kind in ('int16', 'float16', 'float32')}
    configs |= {f'SAD {window}x{window}': MatcherConfig.preset(
        'sad_fast', correlation_window_size=window, speckle_size=0, **searched)
        for window in (5, 21)}
    multiple = max(64, -(-pair.disparities // 16) * 16)
    peers = {
        'OpenCV SGBM 3WAY': cv2.StereoSGBM.create(
            0, multiple, 5, P1=200, P2=800, mode=cv2.STEREO_SGBM_MODE_SGBM_3WAY),
        'OpenCV StereoBM 5x5': cv2.StereoBM.create(multiple, 5)}
    left, right = grey(pair.left), grey(pair.right)
    with contextlib.ExitStack() as matchers:
        programs: dict[str, Callable[[], object]] = {
            name: functools.partial(matchers.enter_context(StereoMatcher(config)).compute,
                                    pair.left, pair.right)
            for name, config in configs.items()}
        programs |= {name: functools.partial(peer.compute, left, right)
                     for name, peer in peers.items()}
        times = in_turn(programs, rounds)
    return {name: (statistics.median(all_of), min(all_of)) for name, all_of in times.items()}


def grey(image: np.ndarray) -> np.ndarray:
    """An H x W image as it is, or H x W x 3 (rgb8) as OpenCV converts it."""
    return image if image.ndim == 2 else np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY))


def in_turn(programs: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each program in each round, after one run that is not counted."""
    times: dict[str, list[float]] = {name: [] for name in programs}
    for number in range(rounds + 1):
        for name, program in programs.items():
            start = time.perf_counter()
            program()
            if number:
                times[name].append((time.perf_counter() - start) * 1e3)
    return times


if __name__ == '__main__':
    main()
