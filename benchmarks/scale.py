"""How an evaluation grows with processes and devices: frames per second of ``stereo_bp evaluate``.

Rendered pairs, as PGM files in the page cache, are matched and scored by the command, in one
process and over workers. Each row is the difference of two runs, one over twice as many frames as
the other: neither start nor compiling counts.

    of one process    the rate over that of one process
    efficiency        the same over the number of workers
    processor         milliseconds of a frame, of the command and its workers together
    growth            of the resident memory of the largest process, KiB a frame

    python -m benchmarks.scale [--frames 10000] [--workers 2] [--size 64x48x16] [--sequences 4]
    python -m benchmarks.scale --backend cuda --preset road --size 1242x375x128 --frames 1000
        --workers 1 2 4 8

``CUDA_VISIBLE_DEVICES=0`` keeps the workers to one device, ``0,1`` has them take two in turn.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from benchmarks import common
from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.config.files import preset_names
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.images import files

#: Different pairs, which come again and again.
PAIRS = 32


class Used(NamedTuple):
    """By a command and the processes that it has started: seconds, and KiB of the largest."""

    wall: float
    processor: float
    resident_kib: float


def main() -> None:
    """Read the command line and print the table."""
    parser = common.parser(__doc__)
    parser.add_argument('--size', type=common.size, default=common.Size(64, 48, 16),
                        metavar='WxHxD', help='default 64x48x16')
    common.add_count(parser, '--frames', 10_000, 'that are counted in every row')
    common.add_backend(parser, 'cpu')
    parser.add_argument('--preset', choices=preset_names(), default='sad_fast', metavar='NAME',
                        help='what is matched with (default: %(default)s)')
    parser.add_argument('--sequences', type=shared.whole(0), default=0, metavar='N',
                        help='folders of equally many numbered frames, each for one process '
                             '(default 0: pairs without stamps, which are cut into blocks)')
    parser.add_argument('--workers', nargs='+', type=shared.whole(1), default=[2], metavar='N',
                        help='processes (default 2)')
    options = parser.parse_args()
    common.print_machine(MatcherConfig(backend=options.backend))
    print(f'{options.frames} frames of {options.size}, {options.preset}, in '
          + (f'{options.sequences} sequences' if options.sequences else 'blocks'))
    common.print_head('run', 'frames/s', 'of one process', 'efficiency', 'processor, ms',
                      'largest process, MiB', 'growth')
    with tempfile.TemporaryDirectory(prefix='stereo_bp_scale_') as name:
        folder = pathlib.Path(name)
        write(folder, options.size, options.frames, options.sequences)
        alone = 0.0
        for workers in (0, *options.workers):
            few, many = (evaluate(folder / part, workers, options) for part in ('once', 'twice'))
            rate = options.frames / (many.wall - few.wall)
            alone = alone or rate
            common.print_row(
                f'--workers {workers}' if workers else 'one process', f'{rate:.0f}',
                f'{rate / alone:.2f}', f'{rate / alone / workers:.2f}' if workers else '-',
                f'{(many.processor - few.processor) / options.frames * 1e3:.2f}',
                f'{many.resident_kib / 1024:.0f}',
                f'{(many.resident_kib - few.resident_kib) / options.frames:.2f}')


def write(folder: pathlib.Path, size: common.Size, frames: int, sequences: int) -> None:
    """Folders of as many frames, and of twice as many; files of the same pair are one."""
    pairs = common.street(size, min(PAIRS, frames))
    for side in ('left', 'right'):
        for index, pair in enumerate(pairs):
            files.write_image(folder / f'{side}{index}.pgm', getattr(pair, side))
        for part, count in (('once', frames), ('twice', 2 * frames)):
            for index in range(count):
                place = folder / part / f'{index * max(1, sequences) // count:04}' / side
                place.mkdir(parents=True, exist_ok=True)
                name = f'{index:07}.pgm' if sequences else f'pair{index:07}.pgm'
                (place / name).hardlink_to(folder / f'{side}{index % len(pairs)}.pgm')


def evaluate(folder: pathlib.Path, workers: int, options: argparse.Namespace) -> Used:
    """What the command takes for all pairs of the folders in one.

    :raises SystemExit: it has failed.
    """
    command = [sys.executable, '-m', 'stereo_bp_ros.cli.main', 'evaluate',
               *map(str, sorted(folder.iterdir())), '--preset', options.preset,
               '--backend', options.backend, '--set', 'num_threads=1',
               '--set', f'disparity_range={options.size.disparities}']
    if workers:
        command += ['--workers', str(workers)]
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f'{" ".join(command)}: status {process.returncode}')
    return Used(time.perf_counter() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss)


if __name__ == '__main__':
    main()
