"""What the benchmarks share: options, pairs, turns, tables and reports.

Tables are Markdown, as docs have them. Times are wall clock in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import cv2
import numpy as np

from stereo_bp_ros import __version__, engines
from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.cli.machine import processor
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.evaluation import timing
from stereo_bp_ros.evaluation.datasets import StereoPair, open_dataset
from stereo_bp_ros.evaluation.scenes import sequence as scenes


class Size(NamedTuple):
    """Of images in pixels, and the number of disparities searched."""

    width: int
    height: int
    disparities: int

    def __str__(self) -> str:
        return 'x'.join(map(str, self))


def size(text: str) -> Size:
    """Type of an option: 640x480x64."""
    try:
        return Size(*shared.parse_size(text, 'WIDTHxHEIGHTxDISPARITIES', (16, 16, 2)))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


VGA, HD = Size(640, 480, 64), Size(1280, 720, 128)


def parser(module_docstring: str | None) -> argparse.ArgumentParser:
    """A parser whose help is the docstring of a benchmark."""
    return argparse.ArgumentParser(description=module_docstring,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)


def add_data(options: argparse.ArgumentParser, sets: Sequence[str] | None = None) -> None:
    """The data set, and which pairs of it where ``sets`` names those that are the default."""
    options.add_argument('data', type=pathlib.Path, help='data set folder')
    if sets is not None:
        options.add_argument('--sets', nargs='+', default=list(sets), metavar='NAME',
                             help='default: ' + (' '.join(sets) or 'all'))


def add_sizes(options: argparse.ArgumentParser, *default: Size) -> None:
    """--size."""
    options.add_argument('--size', nargs='+', type=size, default=list(default), metavar='WxHxD',
                         help='default: ' + ' '.join(map(str, default)))


def add_frames(options: argparse.ArgumentParser, default: int, name: str = '--frames',
               of: str = 'of every variant') -> None:
    """--frames, or how else a benchmark counts."""
    options.add_argument(name, type=shared.whole(1), default=default, metavar='N',
                         help=f'{of} (default {default})')


def add_backend(options: argparse.ArgumentParser, default: str = 'auto') -> None:
    """--backend."""
    options.add_argument('--backend', choices=('auto', 'cuda', 'cpu'), default=default,
                         help=f'what computes (default: {default})')


def add_output(options: argparse.ArgumentParser) -> None:
    """--output."""
    options.add_argument('--output', type=pathlib.Path, metavar='FILE', help='write JSON there')


def sets(folder: pathlib.Path, names: Sequence[str] = ()) -> Iterator[StereoPair]:
    """Pairs of a data set.

    :param names: those wanted, in this order; none = all.
    :raises ValueError: there is no such set, or as ``open_dataset``.
    """
    found = open_dataset(folder)
    for name in names or found.names:
        if name not in found.names:
            raise ValueError(f'{folder} has no set {name}; it has ' + ', '.join(found.names))
        yield found[found.names.index(name)]


def grey(image: np.ndarray) -> np.ndarray:
    """An H x W image as it is, or H x W x 3 (rgb8) as OpenCV converts it."""
    return image if image.ndim == 2 else np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY))


def timed(pair: StereoPair, *, is_grey: bool = False) -> timing.Pair:
    """What of a pair is matched, 64 disparities where its data set names none.

    :param is_grey: images of three colours become grey here, not in the matcher.
    """
    left, right = (grey(side) if is_grey else side for side in (pair.left, pair.right))
    return timing.Pair(pair.name, left, right, pair.disparities or 64)


def street(wanted: Size, noise_sigma: float = 1.0) -> timing.Pair:
    """A frame of the rendered street."""
    frame = scenes.RoadSequence(
        width=wanted.width, height=wanted.height, max_disparity=wanted.disparities - 2,
        frames=1, noise_sigma=noise_sigma).frame(0)
    return timing.Pair(f'street {wanted}', frame.left, frame.right, wanted.disparities)


def in_turn(programs: Mapping[str, Callable[[], object]], rounds: int, *, turn: int = 1
            ) -> dict[str, list[float]]:
    """Milliseconds of each program: a drift of the machine meets all of them.

    :param turn: runs in a row of one program in a round. One run before them is not counted:
        in the first round it compiles and allocates, later it settles caches. Where a turn is
        one run, only the first round has it.
    """
    times: dict[str, list[float]] = {name: [] for name in programs}
    for number in range(rounds):
        for name, program in programs.items():
            if turn > 1 or number == 0:
                program()
            for _ in range(turn):
                times[name].append(milliseconds(program))
    return times


def milliseconds(program: Callable[[], object]) -> float:
    """Of one run."""
    start = time.perf_counter()
    program()
    return (time.perf_counter() - start) * 1e3


def percentiles(values: Sequence[float]) -> dict[str, float] | None:
    """Median, 95th and 99th percentile and maximum; None of no values."""
    if not values:
        return None
    return {'p50': statistics.median(values), 'p95': timing.percentile(values, 95),
            'p99': timing.percentile(values, 99), 'max': max(values)}


def print_row(*cells: object) -> None:
    """A row of a table, at once."""
    print('| ' + ' | '.join(map(str, cells)) + ' |', flush=True)


def print_head(*columns: str) -> None:
    """The head of a table."""
    print()
    print_row(*columns)
    print_row(*('---' for _ in columns))


def machine(config: MatcherConfig | None = None) -> dict[str, str]:
    """Processor, versions and date; with a configuration also the device that computes it."""
    about = {'processor': processor(), 'cores': str(len(os.sched_getaffinity(0))),
             'load average': f'{os.getloadavg()[0]:.1f}', 'platform': platform.platform(),
             'python': platform.python_version(), 'numpy': np.__version__,
             'stereo_bp_ros': __version__, 'date': time.strftime('%Y-%m-%d')}
    if config:
        about |= engines.choose(config).describe(config)
    for name in ('kernel cache', 'pci bus'):        # places that say nothing about times
        about.pop(name, None)
    return about


def print_machine(config: MatcherConfig | None = None) -> None:
    """One line that figures are quoted with."""
    print(', '.join(f'{name} {value}' for name, value in machine(config).items()))


def write_report(path: pathlib.Path | None, config: MatcherConfig | None = None,
                 **results: Any) -> None:
    """JSON with the machine and the command beside the results; no path = nothing."""
    if path:
        path.write_text(json.dumps({'machine': machine(config), 'command': sys.argv, **results},
                                   indent=1) + '\n', encoding='utf-8')
