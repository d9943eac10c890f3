"""How an evaluation grows with processes and devices.

Rendered pairs, uncompressed and in the page cache, are matched and scored in this process, over
processes, and over processes of which one is killed on the way. Workers take their CUDA devices
as those of `stereo_bp evaluate --workers` do: in turn. Counting begins when every worker has given
back a chunk, and all that was computed by then has been taken: neither start nor compiling counts.

    of one process    the rate over that of one process, on device 0
    efficiency        the same over the number of workers
    of one device     the rate over that of one device with as many workers a device, over the
                      number of devices
    by device         per cent of all frames that each device has matched
    back after        seconds from the kill to the first frame of the process that takes its place

Memory is resident, of this process and of the largest worker. `benchmarks.scale_steps` has the
rates of the steps before the matcher.

    python -m benchmarks.scale [--frames 10000] [--workers 2] [--rounds 3] [--size 64x48x16]
    python -m benchmarks.scale --backend cuda --preset road --size 1242x375x128 --devices 1 2
        --workers 2 8 --seconds 5 --rounds 1
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import importlib
import itertools
import os
import pathlib
import signal
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import psutil
from rosbags.rosbag2 import StoragePlugin, Writer

from benchmarks import common
from stereo_bp_ros import Calibration, MatcherConfig, transport
from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.cli.evaluate_scale import LARGEST_CHUNK
from stereo_bp_ros.cli.render import workers_for
from stereo_bp_ros.config.files import preset_names
from stereo_bp_ros.engines.cuda.runtime import device
from stereo_bp_ros.evaluation import bags, files, scale, sources
from stereo_bp_ros.evaluation.results import Result
from stereo_bp_ros.evaluation.runs import Evaluation, Matched, Method, judge_all
from stereo_bp_ros.evaluation.scenes import sequence as scenes

METHOD = Method(repeat=1)

SAMPLED_EVERY_S = 0.05
"""Memory."""

PATIENCE_S = 120.0
"""A worker gives back its first chunk, and a killed one is replaced, within this time."""

Images = Sequence[tuple[np.ndarray, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class Run:
    """A row of the table; 0 workers: this process, 0 devices: the CPU."""

    workers: int
    devices: int
    kills: bool = False

    def __str__(self) -> str:
        if not self.workers:
            return 'one process'
        return (f'{self.workers} worker' + 's' * (self.workers > 1)
                + ', one is killed' * self.kills)


def main() -> None:
    """Read the command line and print the tables."""
    options = parse()
    config = configuration(options.preset, options.backend, options.size)
    common.print_machine(config)
    transport.keep_freed_memory()
    with tempfile.TemporaryDirectory(prefix='stereo_bp_scale_') as name:
        folder = pathlib.Path(name)
        write(folder / 'pairs', options.source, images(options.size, options.pairs))
        print_runs(options, config, folder / 'pairs')


def parse() -> argparse.Namespace:
    """The command line."""
    parser = common.parser(__doc__)
    parser.add_argument('--size', type=common.size, default=common.Size(64, 48, 16),
                        metavar='WxHxD', help='of the frames that are spread (default 64x48x16)')
    common.add_frames(parser, 10_000, of='that are counted in every run')
    parser.add_argument('--seconds', type=shared.real(0.1, 1e5), default=1e5, metavar='S',
                        help='count no longer than this (default: all --frames)')
    common.add_frames(parser, 32, '--pairs', of='different pairs, which come again and again')
    parser.add_argument('--source', choices=('folder', 'mcap'), default='folder',
                        help='where pairs are: PGM files or an mcap (default: folder)')
    common.add_backend(parser, 'cpu')
    parser.add_argument('--preset', choices=preset_names(), metavar='NAME',
                        help='what is matched with (default: SAD without any refinement)')
    parser.add_argument('--workers', nargs='+', type=shared.whole(1), default=[2], metavar='N',
                        help='processes (default 2)')
    parser.add_argument('--devices', nargs='+', type=shared.whole(1), metavar='N',
                        help='CUDA devices that workers take in turn (default: all there are)')
    common.add_frames(parser, 3, '--rounds', of='runs of every row, in turn')
    options = parser.parse_args()
    there = 0 if options.backend == 'cpu' else device.count()
    if options.devices and max(options.devices) > there:
        parser.error(f'--devices {max(options.devices)}: {options.backend} has {there} of them')
    if options.backend == 'cuda' and not there:
        parser.error(f'--backend cuda: {device.unavailable(0)}')
    options.devices = options.devices or [there]
    return options


def configuration(preset: str | None, backend: str, size: common.Size) -> MatcherConfig:
    """Of a worker."""
    config = MatcherConfig.preset(preset) if preset else MatcherConfig(stereo_algorithm='sad')
    return config.replace(backend=backend, num_threads=1, disparity_range=size.disparities)


def runs_of(options: argparse.Namespace) -> list[Run]:
    """The rows of the table: one process, all numbers of workers on all numbers of devices,
    and the most of both with a kill."""
    spread = [Run(workers, devices) for devices in options.devices for workers in options.workers
              if workers >= devices]
    killed = [dataclasses.replace(spread[-1], kills=True)] if spread else []
    return [Run(0, min(1, max(options.devices))), *spread, *killed]


def print_runs(options: argparse.Namespace, config: MatcherConfig, path: pathlib.Path) -> None:
    """The table."""
    print(f'{options.pairs} pairs of {options.size} from a {options.source}, again and again, '
          f'{options.preset or "sad"}')
    common.print_head('run', 'devices', 'frames/s, median', 'least', 'most', 'of one process',
                      'efficiency', 'of one device', 'by device', 'back after',
                      'processor ms a frame', 'this process MiB', 'KiB a frame', 'worker MiB',
                      'KiB a frame')
    runs = runs_of(options)
    found: dict[Run, list[Measured]] = {run: [] for run in runs}
    for _ in range(options.rounds):
        for run in runs:
            found[run].append(measure(path, config, run, options))
    rates = {run: statistics.median(one.rate for one in measured)
             for run, measured in found.items()}
    for run, measured in found.items():
        relative = rates[run] / rates[runs[0]]
        peer = Run(run.workers // run.devices, 1) if run.devices else run
        several = run.devices > 1 and not run.workers % run.devices and peer in rates
        back = [one.back_s for one in measured]
        common.print_row(
            run, run.devices or '-', f'{rates[run]:.0f}',
            *(f'{one:.0f}' for one in (min(one.rate for one in measured),
                                       max(one.rate for one in measured))),
            f'{relative:.2f}', f'{relative / run.workers:.2f}' if run.workers else '-',
            f'{rates[run] / run.devices / rates[peer]:.2f}' if several else '-',
            shares(measured) if run.devices else '-',
            f'{statistics.median(back):.1f}' if run.kills else '-',
            # That of a process that has been killed is not known.
            '-' if run.kills else f'{statistics.median(one.cpu_ms for one in measured):.2f}',
            *memory(measured))


class Seen:
    """Frames by process and CUDA device, which workers bring with their results."""

    def __init__(self, frames: Iterable[tuple[tuple[int, int], int]] = ()) -> None:
        self.frames = collections.Counter(dict(frames))

    def __add__(self, other: Seen) -> Seen:
        return Seen((self.frames + other.frames).items())

    def collect(self, place: int, evaluation: Evaluation, matched: Matched) -> None:
        """Count a pair."""
        del place, matched
        config, *_ = evaluation.configs.values()
        self.frames[os.getpid(), config.device_id] += 1

    @property
    def processes(self) -> set[int]:
        """Ids, also of those that have ended."""
        return {process for process, _ in self.frames}


class Measured:
    """Frames per second and processor time a frame (ms) of one run, resident bytes by the number
    of results, frames by device, and seconds until a killed worker is replaced."""

    def __init__(self) -> None:
        self.rate = self.cpu_ms = self.back_s = 0.0
        self.own: list[tuple[int, int]] = []
        self.worker: list[tuple[int, int]] = []
        self.seen = Seen()


def measure(path: pathlib.Path, config: MatcherConfig, run: Run, options: argparse.Namespace
            ) -> Measured:
    """Evaluate the pairs again and again."""
    pairs = list(sources.Sources(sources.inputs_of([path])).chunks(1))
    size = max(1, min(LARGEST_CHUNK, options.frames // (4 * max(1, run.workers))))
    if not run.workers:
        with Evaluation({'sad': config}, method=METHOD) as evaluation:
            every = judge_all(evaluation, unread_of(again(pairs, size)))
            return Watch(options, size).follow(one.result for one in every)
    with scale.Cluster(run.workers) as cluster:
        plan = scale.Plan({'sad': config}, method=METHOD, devices=run.devices, collector=Seen())
        with contextlib.closing(cluster.judge(plan, again(pairs, size))) as results:
            return Watch(options, size, cluster, run).follow(results)


def again(pairs: Sequence[sources.Chunk], size: int) -> Iterator[sources.Chunk]:
    """Chunks of so many pairs, from the beginning to the end and again, without an end.

    :param pairs: chunks of one pair each.
    """
    done, wanted = 0, 1         # the first is done alone, as that of ``Sources.chunks``
    while True:
        start = done % len(pairs)
        part = pairs[start:start + wanted]
        yield dataclasses.replace(
            part[0], stop=part[-1].stop, entries=tuple(itertools.chain.from_iterable(
                one.entries for one in part)), before=None, first=done - start)
        done, wanted = done + len(part), size


def unread_of(chunks: Iterable[sources.Chunk]) -> Iterator[sources.Unread]:
    """As a worker has them."""
    with sources.ChunkReader() as reader:
        for chunk in chunks:
            yield from reader.unread(chunk)


class Watch:
    """Measures one run while its results come.

    :param size: pairs of a chunk.
    :param cluster: whose workers they are; None: this process.
    """

    def __init__(self, options: argparse.Namespace, size: int,
                 cluster: scale.Cluster | None = None, run: Run | None = None) -> None:
        self._frames, self._seconds, self._pairs = options.frames, options.seconds, options.pairs
        self._cluster, self._workers = cluster, run.workers if run else 0
        self._kills = run is not None and run.kills
        self._ahead = scale.CHUNKS_PER_WORKER * max(1, self._workers) * size
        self._began = time.perf_counter()
        self._found = Measured()

    def follow(self, results: Iterable[Result]) -> Measured:
        """Take results until enough are counted.

        :raises RuntimeError: frames are missing or in another order, or a worker never answers.
        """
        found, first, sampled = self._found, 0, 0.0
        start = before = killed = 0.0
        names: list[str] = []
        for count, result in enumerate(results, 1):
            now = time.perf_counter()
            names.append(result.name)
            if count > self._pairs and names.pop() != names[(count - 1) % self._pairs]:
                raise RuntimeError(f'frame {count} is {result.name}, which is not its turn')
            if not first:
                first = count + self._ahead if self._all_work() else 0
                self._hurry(now, self._began)
            elif count == first:
                start, before = now, processor_time()
            elif count > first and not found.rate:
                if now - sampled >= SAMPLED_EVERY_S:
                    sampled = now
                    self._sample(count)
                share = max((count - first) / self._frames, (now - start) / self._seconds)
                if self._kills and not killed and share >= 0.5:
                    killed = self._kill()
                if share >= 1:
                    found.rate = (count - first) / (now - start)
                    found.cpu_ms = (processor_time() - before) / (count - first) * 1e3
            if found.rate and (not killed or len(self._seen().processes) > self._workers):
                found.back_s = time.perf_counter() - killed
                found.seen = self._seen()
                return found
            if killed:
                self._hurry(now, killed)
        raise RuntimeError('frames have come to an end')

    def _seen(self) -> Seen:
        return self._cluster.collected if self._cluster else Seen()

    def _all_work(self) -> bool:
        return len(self._seen().processes) >= self._workers

    def _hurry(self, now: float, since: float) -> None:
        if now - since > PATIENCE_S:
            raise RuntimeError(f'{len(self._seen().processes)} workers have answered, and another '
                               f'one has not within {PATIENCE_S:g} s')

    def _kill(self) -> float:
        os.kill(min(self._seen().processes), signal.SIGKILL)
        return time.perf_counter()

    def _sample(self, count: int) -> None:
        self._found.own.append((count, resident(os.getpid())))
        if self._cluster:
            self._found.worker.append((count, max(map(resident, self._seen().processes))))


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


def shares(measured: Sequence[Measured]) -> str:
    """Cell: per cent of the frames by device."""
    frames: collections.Counter[int] = collections.Counter()
    for (_, index), count in itertools.chain.from_iterable(
            one.seen.frames.items() for one in measured):
        frames[index] += count
    return ', '.join(f'{index}: {100 * count / frames.total():.0f}'
                     for index, count in sorted(frames.items())) or '-'


def images(size: common.Size, count: int) -> Images:
    """Pairs of the rendered street."""
    street = scenes.RoadSequence(width=size.width, height=size.height, frames=count,
                                 max_disparity=size.disparities - 2)
    return [(frame.left, frame.right) for frame in scenes.render(street, workers_for(count))]


def write(path: pathlib.Path, source: str, pairs: Images) -> None:
    """As --source says, uncompressed."""
    if source == 'folder':
        write_folder(path, '.pgm', pairs)
    else:
        write_bag(path, StoragePlugin.MCAP, pairs)


def write_folder(path: pathlib.Path, suffix: str, pairs: Images) -> None:
    """A sequence of image files."""
    for side in ('left', 'right'):
        (path / side).mkdir(parents=True)
    for index, pair in enumerate(pairs):
        for side, image in zip(('left', 'right'), pair, strict=True):
            files.write_image(path / side / f'{index:06}{suffix}', image)


def write_bag(path: pathlib.Path, plugin: StoragePlugin, pairs: Images) -> None:
    """Raw images and camera_info, uncompressed."""
    height, width = pairs[0][0].shape
    calibration = Calibration(700, 0.5, width / 2, width / 2, height / 2)
    with Writer(path, version=9, storage_plugin=plugin) as writer:
        topics = {(side, kind): writer.add_connection(f'/{side}/{topic}', kind,
                                                      typestore=bags.STORE)
                  for side in ('left', 'right')
                  for topic, kind in (('image_rect', bags.IMAGE),
                                      ('camera_info', bags.CAMERA_INFO))}
        for index, pair in enumerate(pairs):
            time_ns = 10**18 + index * 10**8
            for side, image in zip(('left', 'right'), pair, strict=True):
                writer.write(topics[side, bags.CAMERA_INFO], time_ns, bags.serialize_camera_info(
                    time_ns, side, calibration, width, height))
                writer.write(topics[side, bags.IMAGE], time_ns,
                             bags.serialize_image(time_ns, side, image, 'mono8'))


if __name__ == '__main__':
    # By the name under which workers find ``Seen``.
    importlib.import_module('benchmarks.scale').main()
