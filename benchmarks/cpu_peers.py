"""Time the CPU engine beside OpenCV's matchers, on the same pairs, in turn, in one process.

    python -m benchmarks.cpu_peers ../shared/data/middlebury --rounds 30
    python -m benchmarks.cpu_peers kitti2012/ --preset road --preset road:filling=plane --size

Every program matches the pair once a round, so a drift of the machine meets all of them. OpenCV's
semi-global matching (SGBM, its fastest mode 3WAY) and block matching (StereoBM) search a multiple
of 16 disparities, at least 64. Whole frames: 8-bit images in memory before, disparity after.
Rendered streets follow the sets. Figures are median (minimum), ms. With ``--preset`` these presets
take the places of BP and SAD, and each has the median of its ratios to SGBM, round by round.
"""

from __future__ import annotations

import contextlib
import functools
import pathlib
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import cv2
import numpy as np

from benchmarks import common
from stereo_bp_ros import MatcherConfig, StereoMatcher
from stereo_bp_ros.cli import against
from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.evaluation.timing import Pair
from stereo_bp_ros.sources.datasets.dataset import open_dataset

SGBM = 'OpenCV SGBM 3WAY'


def main() -> None:
    """Read the command line and print the table."""
    parser = common.parser(__doc__)
    parser.add_argument('data', type=pathlib.Path, help='data set folder')
    parser.add_argument('--preset', action='append', default=[], metavar='NAME[:KEY=VALUE,...]',
                        help='may be given several times')
    common.add_sizes(parser, common.VGA, common.HD)
    common.add_count(parser, '--rounds', 30, 'of all programs')
    parser.add_argument('--threads', type=shared.whole(1), default=2, metavar='N',
                        help='default 2')
    common.add_output(parser)
    options = parser.parse_args()
    cv2.setNumThreads(options.threads)
    config = MatcherConfig(backend='cpu', num_threads=options.threads)
    common.print_machine(config)
    results: dict[str, dict[str, list[float]]] = {}
    presets = {text: preset(text) for text in options.preset}
    unknown = next((one.disparity_range for one in presets.values()), 64)
    pairs = [Pair(one.name, one.left, one.right, one.disparities or unknown)
             for one in open_dataset(options.data)]
    for wanted in options.size:
        pairs += common.street(wanted)
    for pair in pairs:
        found = measure(pair, options.threads, options.rounds, presets)
        if not results:
            common.print_head('set', *found, *(f'{name} / SGBM' for name in presets))
        common.print_row(pair.name, *(f'{statistics.median(all_of):.1f} ({min(all_of):.1f})'
                                      for all_of in found.values()),
                         *(f'{ratio(found[name], found[SGBM]):.2f}' for name in presets))
        results[pair.name] = found
    if presets:
        ratios = [[ratio(found[name], found[SGBM]) for found in results.values()]
                  for name in presets]
        common.print_row('mean', *('' for _ in found),
                         *(f'{statistics.mean(all_of):.2f}' for all_of in ratios))
    common.write_report(options.output, config, opencv=cv2.__version__, rounds=options.rounds,
                        ms=results)


def preset(text: str) -> MatcherConfig:
    """The configuration of NAME[:KEY=VALUE,...]."""
    name, _, assignments = text.partition(':')
    return against.changed(MatcherConfig.preset(name), assignments)


def ratio(times: Sequence[float], others: Sequence[float]) -> float:
    """Median of the ratios of one round."""
    return statistics.median(one / other for one, other in zip(times, others, strict=True))


def measure(pair: Pair, threads: int, rounds: int, presets: Mapping[str, MatcherConfig]
            ) -> dict[str, list[float]]:
    """Milliseconds of every program in each round."""
    searched = {'disparity_range': pair.disparities, 'num_threads': threads, 'backend': 'cpu'}
    configs = {name: config.replace(**searched) for name, config in presets.items()}
    if not configs:
        configs = {f'BP {kind}': MatcherConfig.preset('five_sets', message_type=kind, **searched)
                   for kind in ('int16', 'float16', 'float32')}
        configs |= {f'SAD {window}x{window}': MatcherConfig.preset(
            'sad_fast', correlation_window_size=window, speckle_size=0, **searched)
            for window in (5, 21)}
    multiple = max(64, -(-pair.disparities // 16) * 16)
    peers = {
        SGBM: cv2.StereoSGBM.create(
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
        return in_turn(programs, rounds)


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
