#!/usr/bin/env python3
"""Time the CPU engine beside OpenCV's matchers, on the same pairs, in turn, in one process.

Every program matches the pair once a round, so a drift of the machine meets all of them. OpenCV's
semi-global matching (SGBM, its fastest mode 3WAY) and block matching (StereoBM) search a multiple
of 16 disparities, at least 64. Whole frames: 8-bit images in memory before, disparity after.

  python benchmarks/cpu_peers.py ../shared/data/middlebury --rounds 30
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import pathlib
import platform
import statistics
import time
from collections.abc import Callable

import cv2
import numpy as np

from stereo_bp_ros import MatcherConfig, StereoMatcher
from stereo_bp_ros.cli.options import print_table
from stereo_bp_ros.evaluation import datasets, scenes
from stereo_bp_ros.evaluation.timing import Pair

Program = Callable[[], object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('path', type=pathlib.Path, help='data set folder of the five sets')
    parser.add_argument('--rounds', type=int, default=30, metavar='N', help='default 30')
    parser.add_argument('--threads', type=int, default=2, metavar='N', help='default 2')
    parser.add_argument('--output', type=pathlib.Path, metavar='FILE', help='write JSON there')
    options = parser.parse_args()
    cv2.setNumThreads(options.threads)
    results = {}
    for pair in [*_pairs(options.path), _street(640, 480, 64), _street(1280, 720, 128)]:
        results[pair.name] = _measure(pair, options.threads, options.rounds)
    columns = list(next(iter(results.values())))
    print_table(f'{_processor()}, {options.threads} threads, {options.rounds} rounds; '
                'median (minimum), ms', ['set', *columns],
                [[name, *(f'{times[c][0]:.1f} ({times[c][1]:.1f})' for c in columns)]
                 for name, times in results.items()])
    if options.output:
        options.output.write_text(json.dumps({
            'processor': _processor(), 'opencv': cv2.__version__, 'threads': options.threads,
            'rounds': options.rounds, 'load_average': os.getloadavg(),
            'median_and_minimum_ms': results}, indent=1) + '\n', encoding='utf-8')


def _pairs(path: pathlib.Path) -> list[Pair]:
    return [Pair(pair.name, pair.left, pair.right, pair.disparities or 64)
            for pair in datasets.open_dataset(path)
            if isinstance(pair.left, np.ndarray) and isinstance(pair.right, np.ndarray)]


def _street(width: int, height: int, disparities: int) -> Pair:
    frame = scenes.RoadSequence(width=width, height=height, max_disparity=disparities - 2,
                                frames=1).frame(0)
    return Pair(f'{width}x{height}x{disparities}', frame.left, frame.right, disparities)


def _measure(pair: Pair, threads: int, rounds: int) -> dict[str, tuple[float, float]]:
    """Median and minimum of every program, ms."""
    bp = MatcherConfig.preset('five_sets', disparity_range=pair.disparities,
                              num_threads=threads, backend='cpu')
    matchers = {
        'BP int16': StereoMatcher(bp.replace(message_type='int16')),
        'BP float16': StereoMatcher(bp.replace(message_type='float16')),
        'BP float32': StereoMatcher(bp.replace(message_type='float32')),
        'SAD 5x5': StereoMatcher(_sad(pair, threads, 5)),
        'SAD 21x21': StereoMatcher(_sad(pair, threads, 21))}
    programs: dict[str, Program] = {
        name: functools.partial(matcher.compute, pair.left, pair.right)
        for name, matcher in matchers.items()}
    left, right = _grey(pair.left), _grey(pair.right)
    searched = max(64, -(-pair.disparities // 16) * 16)
    peers = {
        'OpenCV SGBM 3WAY': cv2.StereoSGBM.create(
            0, searched, 5, P1=200, P2=800, mode=cv2.STEREO_SGBM_MODE_SGBM_3WAY),
        'OpenCV StereoBM 5x5': cv2.StereoBM.create(searched, 5)}
    programs |= {name: functools.partial(peer.compute, left, right)
                 for name, peer in peers.items()}
    times: dict[str, list[float]] = {name: [] for name in programs}
    try:
        for number in range(rounds + 1):
            for name, program in programs.items():
                start = time.perf_counter()
                program()
                if number:                  # the first round compiles and allocates
                    times[name].append((time.perf_counter() - start) * 1e3)
    finally:
        for matcher in matchers.values():
            matcher.close()
    return {name: (statistics.median(all_of), min(all_of)) for name, all_of in times.items()}


def _sad(pair: Pair, threads: int, window: int) -> MatcherConfig:
    return MatcherConfig.preset('sad_fast', disparity_range=pair.disparities, backend='cpu',
                                correlation_window_size=window, speckle_size=0,
                                num_threads=threads)


def _grey(image: np.ndarray) -> np.ndarray:
    return image if image.ndim == 2 else np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY))


def _processor() -> str:
    with open('/proc/cpuinfo', encoding='ascii', errors='replace') as file:
        for line in file:
            if line.startswith('model name'):
                return line.split(':', 1)[1].strip()
    return platform.processor() or platform.machine()


if __name__ == '__main__':
    main()
