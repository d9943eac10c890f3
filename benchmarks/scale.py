"""How an evaluation grows with processes, and what each step before the matcher costs.

The first table is small random pairs by SAD, in this process with one thread, over processes, and
over processes of which one is killed on the way. Memory is resident, of this process and of the
largest worker. Rates, processor time of all processes and slopes are of the last three quarters of
the frames: a worker that starts has no rate. The second table is rates of one process for frames
of --size, and how many bytes of a frame travel.

    python -m benchmarks.scale [--frames 10000] [--workers 2] [--rounds 3] [--small 64x48x16]
        [--size 1242x375x128]
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import pathlib
import pickle
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import psutil
from rosbags.rosbag2 import StoragePlugin, Writer

from benchmarks import common
from stereo_bp_ros import Calibration, MatcherConfig, transport
from stereo_bp_ros.evaluation import bags, files, scale, sources
from stereo_bp_ros.evaluation.results import Result
from stereo_bp_ros.evaluation.runs import Evaluation, Method, judge_all

CHUNK = 32
METHOD = Method(repeat=1)
ROWS = ('one process', 'processes', 'one is killed')


def main() -> None:
    """Read the command line and print the tables."""
    parser = common.parser(__doc__)
    common.add_sizes(parser, common.Size(1242, 375, 128))
    common.add_frames(parser, 10_000, of='small frames of every run')
    parser.add_argument('--small', type=common.size, default=common.Size(64, 48, 16),
                        metavar='WxHxD', help='of small frames (default 64x48x16)')
    common.add_frames(parser, 2, '--workers', of='processes')
    common.add_frames(parser, 3, '--rounds', of='runs of every row, in turn')
    common.add_frames(parser, 60, '--large', of='frames of --size for every rate')
    options = parser.parse_args()
    config = MatcherConfig(stereo_algorithm='sad', disparity_range=options.small.disparities,
                           backend='cpu', num_threads=1)
    common.print_machine(config)
    transport.keep_freed_memory()
    with tempfile.TemporaryDirectory(prefix='stereo_bp_scale_') as name:
        folder = pathlib.Path(name)
        write_folder(folder / 'small', options.small, options.frames)
        print(f'{options.frames} frames of {options.small} from PNG, sad, {options.workers} '
              'workers')
        common.print_head('run', 'frames/s, median', 'least', 'most', 'of one process',
                          'processor ms a frame', 'this process MiB', 'KiB a frame',
                          'worker MiB', 'KiB a frame')
        found: dict[str, list[Measured]] = {row: [] for row in ROWS}
        for _ in range(options.rounds):
            for row in ROWS:
                found[row].append(measure(folder / 'small', config, options.frames,
                                          0 if row == ROWS[0] else options.workers,
                                          kills=row == ROWS[2]))
        alone = statistics.median(one.rate for one in found[ROWS[0]])
        for row, runs in found.items():
            rates = [one.rate for one in runs]
            common.print_row(row, *(f'{rate:.0f}' for rate in (
                statistics.median(rates), min(rates), max(rates))),
                f'{statistics.median(rates) / alone:.2f}',
                f'{statistics.median(one.cpu_ms for one in runs):.2f}', *memory(runs))
        for size in options.size:
            print(f'{options.large} frames of {size}, one process')
            common.print_head('step', 'frames/s', 'MB/s of raw images', 'bytes a frame')
            for cells in rates_of(folder / str(size), size, options.large):
                common.print_row(*cells)


class Measured:
    """Frames per second and processor time a frame (ms) of one run, and resident bytes by the
    number of results."""

    def __init__(self) -> None:
        self.rate = self.cpu_ms = 0.0
        self.own: list[tuple[int, int]] = []
        self.worker: list[tuple[int, int]] = []


def measure(path: pathlib.Path, config: MatcherConfig, frames: int, workers: int, *,
            kills: bool) -> Measured:
    """Evaluate a folder."""
    found = Measured()
    if not workers:
        with Evaluation({'sad': config}, method=METHOD) as evaluation:
            pairs = sources.open_pairs(path)[1]
            follow(found, (one.result for one in judge_all(evaluation, pairs)), frames, None)
        return found
    with scale.Cluster(workers) as cluster:
        results = cluster.judge(scale.Plan({'sad': config}, method=METHOD), split(path))
        follow(found, results, frames, cluster, kills)
    return found


def follow(found: Measured, results: Iterable[Result], frames: int,
           cluster: scale.Cluster | None, kills: bool = False) -> None:
    start, before, count = 0.0, 0.0, 0
    for count, _ in enumerate(results, 1):
        if count == frames // 4:
            start, before = time.perf_counter(), processor_time()
        if count % max(1, frames // 40) == 0:
            found.own.append((count, psutil.Process().memory_info().rss))
            if cluster is not None:
                found.worker.append((count, max(resident(pid) for pid in cluster.processes)))
        if kills and count == frames // 2 and cluster is not None:
            os.kill(cluster.processes[0], signal.SIGKILL)
    if count != frames:
        raise RuntimeError(f'{count} of {frames} frames came back')
    counted = frames - frames // 4
    found.rate = counted / (time.perf_counter() - start)
    found.cpu_ms = (processor_time() - before) / counted * 1e3


def processor_time() -> float:
    """Seconds of this process and of those that it has started, ended ones left out."""
    seconds = 0.0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            seconds += sum(process.cpu_times()[:2])
    return seconds


def resident(pid: int) -> int:
    """Bytes; 0 where the process has ended."""
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def memory(runs: list[Measured]) -> Iterator[str]:
    """Cells: MiB at the end, and the slope over the last three quarters, median of runs."""
    for samples in ([one.own for one in runs], [one.worker for one in runs]):
        late = [series[len(series) // 4:] for series in samples]
        if not all(len(series) > 1 for series in late):
            yield from ('-', '-')
            continue
        yield f'{statistics.median(series[-1][1] for series in late) / 2**20:.0f}'
        slopes = [statistics.linear_regression(*zip(*series, strict=True)).slope
                  for series in late]
        yield f'{statistics.median(slopes) / 2**10:.2f}'


def images(size: common.Size, count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Smooth random pairs, which compress about as photographs do."""
    random = np.random.default_rng(0)
    for _ in range(count):
        noise = random.integers(0, 6, (size.height, size.width + 8))
        wave = 90 + 60 * np.sin(np.arange(size.width + 8) / 19)
        image = (wave + noise).astype(np.uint8)
        yield (np.ascontiguousarray(image[:, 5:5 + size.width]),
               np.ascontiguousarray(image[:, 8:8 + size.width]))


def write_folder(path: pathlib.Path, size: common.Size, count: int) -> None:
    """A sequence as PNG files."""
    for side in ('left', 'right'):
        (path / side).mkdir(parents=True)
    for index, pair in enumerate(images(size, count)):
        for side, image in zip(('left', 'right'), pair, strict=True):
            files.write_image(path / side / f'{index}.png', image)


def write_bag(path: pathlib.Path, plugin: StoragePlugin, size: common.Size, count: int) -> None:
    """Raw images and camera_info, uncompressed."""
    calibration = Calibration(700, 0.5, size.width / 2, size.width / 2, size.height / 2)
    with Writer(path, version=9, storage_plugin=plugin) as writer:
        topics = {(side, kind): writer.add_connection(f'/{side}/{topic}', kind,
                                                      typestore=bags.STORE)
                  for side in ('left', 'right')
                  for topic, kind in (('image_rect', bags.IMAGE),
                                      ('camera_info', bags.CAMERA_INFO))}
        for index, pair in enumerate(images(size, count)):
            time_ns = 10**18 + index * 10**8
            for side, image in zip(('left', 'right'), pair, strict=True):
                writer.write(topics[side, bags.CAMERA_INFO], time_ns, bags.serialize_camera_info(
                    time_ns, side, calibration, size.width, size.height))
                writer.write(topics[side, bags.IMAGE], time_ns,
                             bags.serialize_image(time_ns, side, image, 'mono8'))


def rates_of(folder: pathlib.Path, size: common.Size, count: int) -> Iterator[list[str]]:
    """Rows of the second table; files are in the page cache."""
    raw = 2 * size.width * size.height

    def row(step: str, seconds: float, sent: str = '-') -> list[str]:
        return [step, f'{count / seconds:.0f}', f'{count * raw / seconds / 1e6:.0f}', sent]

    write_folder(folder / 'png', size, count)
    yield row('read and decode PNG', timed(functools.partial(read, folder / 'png')))
    for plugin in (StoragePlugin.MCAP, StoragePlugin.SQLITE3):
        path = folder / plugin.name.lower()
        write_bag(path, plugin, size, count)
        name = plugin.name.lower()
        yield row(f'{name}: stamps of all pairs', timed(functools.partial(split, path)))
        yield row(f'{name}: read raw images', timed(functools.partial(read, path)))
        chunks = list(split(path))
        yield row(f'{name}: read chunks', timed(functools.partial(read_chunks, chunks)), str(
            sum(len(pickle.dumps(chunk)) for chunk in chunks) // count))
    for name in ('sad_fast', 'road'):
        config = MatcherConfig.preset(name).replace(
            backend='cpu', num_threads=1, disparity_range=size.disparities)
        with Evaluation({name: config}, method=METHOD) as evaluation:
            pairs = list(itertools.islice(sources.open_pairs(folder / 'png')[1], 5))
            results = [evaluation.judge(pair).result for pair in pairs[:1]]
            start = time.perf_counter()
            results += [evaluation.judge(pair).result for pair in pairs[1:]]
            seconds = (time.perf_counter() - start) / (len(pairs) - 1) * count
        yield row(f'match by {name}, score', seconds,
                  str(len(pickle.dumps(results)) // len(results)))


def split(path: pathlib.Path) -> Iterator[sources.Chunk]:
    """As the process that hands out the work does."""
    return sources.Sources(sources.inputs_of([path])).chunks(CHUNK)


def read(path: pathlib.Path) -> Iterator[sources.Pair]:
    """From the beginning to the end."""
    return sources.open_pairs(path)[1]


def read_chunks(chunks: Iterable[sources.Chunk]) -> Iterator[sources.Pair]:
    """As a worker does."""
    with sources.ChunkReader() as reader:
        for chunk in chunks:
            yield from reader.read(chunk)


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
