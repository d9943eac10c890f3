"""What each step of an evaluation before and behind the matcher costs in one process.

Rates for rendered pairs, in the page cache or from the disk of temporary files, and how many
bytes of a frame travel to a worker (with chunks) or from it (with figures).

    python -m benchmarks.scale_steps [--size 1242x375x128] [--frames 60] [--backend cpu]
        [--presets sad_fast road]
"""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import pathlib
import pickle
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from rosbags.rosbag2 import StoragePlugin

from benchmarks import common
from benchmarks.scale import METHOD, configuration, images, unread_of, write_bag, write_folder
from stereo_bp_ros import transport
from stereo_bp_ros.cli.evaluate_scale import LARGEST_CHUNK
from stereo_bp_ros.config.files import preset_names
from stereo_bp_ros.evaluation import sources
from stereo_bp_ros.evaluation.runs import Evaluation


def main() -> None:
    """Read the command line and print a table for each size."""
    parser = common.parser(__doc__)
    common.add_sizes(parser, common.Size(1242, 375, 128))
    common.add_frames(parser, 60, of='of every rate')
    common.add_backend(parser, 'cpu')
    parser.add_argument('--presets', nargs='+', choices=preset_names(), metavar='NAME',
                        default=['sad_fast', 'road'], help='default: sad_fast road')
    options = parser.parse_args()
    common.print_machine(configuration(options.presets[0], options.backend, options.size[0]))
    transport.keep_freed_memory()
    for size in options.size:
        print(f'{options.frames} frames of {size}, one process')
        common.print_head('step', 'frames/s', 'MB/s of raw images', 'bytes a frame')
        with tempfile.TemporaryDirectory(prefix='stereo_bp_scale_') as name:
            for cells in rates_of(pathlib.Path(name), size, options):
                common.print_row(*cells)


def rates_of(folder: pathlib.Path, size: common.Size, options: argparse.Namespace
             ) -> Iterator[list[str]]:
    """Rows of the table; files are in the page cache, unless the row says otherwise."""
    pairs = images(size, options.frames)
    count, raw = len(pairs), 2 * size.width * size.height

    def row(step: str, seconds: float, sent: str = '-') -> list[str]:
        return [step, f'{count / seconds:.0f}', f'{count * raw / seconds / 1e6:.0f}', sent]

    for suffix in ('.pgm', '.png'):
        path = folder / suffix[1:]
        write_folder(path, suffix, pairs)
        name = suffix[1:].upper()
        yield row(f'read and decode {name}', timed(functools.partial(read, path)))
        yield row(f'{name} from the disk', from_disk(path))
    for plugin in (StoragePlugin.MCAP, StoragePlugin.SQLITE3):
        path = folder / plugin.name.lower()
        write_bag(path, plugin, pairs)
        name = plugin.name.lower()
        yield row(f'{name}: stamps of all pairs', timed(functools.partial(split, path)))
        yield row(f'{name}: read raw images', timed(functools.partial(read, path)))
        chunks = list(split(path))
        yield row(f'{name}: read chunks', timed(functools.partial(read_chunks, chunks)), str(
            sum(len(pickle.dumps(chunk)) for chunk in chunks) // count))
    for preset in options.presets:
        config = configuration(preset, options.backend, size)
        with Evaluation({preset: config}, method=METHOD) as evaluation:
            few = list(itertools.islice(sources.open_pairs(folder / 'pgm')[1], 5))
            results = [evaluation.judge(pair).result for pair in few[:1]]
            start = time.perf_counter()
            results += [evaluation.judge(pair).result for pair in few[1:]]
            seconds = (time.perf_counter() - start) / (len(few) - 1) * count
        yield row(f'match by {preset}, score', seconds,
                  str(len(pickle.dumps(results)) // len(results)))


def split(path: pathlib.Path) -> Iterator[sources.Chunk]:
    """As the process that hands out the work does."""
    return sources.Sources(sources.inputs_of([path])).chunks(LARGEST_CHUNK)


def read(path: pathlib.Path) -> Iterator[sources.Pair]:
    """From the beginning to the end."""
    return sources.open_pairs(path)[1]


def read_chunks(chunks: Sequence[sources.Chunk]) -> Iterator[sources.Pair]:
    """As a worker does."""
    return (one.load() for one in unread_of(chunks))


def from_disk(path: pathlib.Path) -> float:
    """Seconds to read and decode a folder that the page cache has nothing of."""
    for file in path.rglob('*.*'):
        with open(file, 'rb') as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    start = time.perf_counter()
    for _ in read(path):
        pass
    return time.perf_counter() - start


def timed(program: Callable[[], Iterable[object]]) -> float:
    """Seconds that it takes to go through what a program returns; the second of two runs."""
    seconds = 0.0
    for _ in range(2):
        start = time.perf_counter()
        for _ in program():
            pass
        seconds = time.perf_counter() - start
    return seconds


if __name__ == '__main__':
    main()
