"""Times the variants of SAD block matching on CUDA: figures 8 and 9 of the data-streaming paper.

    python benchmarks/sad_variants.py [DATA] [--size 434x383x64] [--window 5] [--output FOLDER]

Pudpai, Kim & Liu: "Data Stream Optimization of Sum of Absolute Differences Algorithm on a
Graphics Processing Unit". Time against the threads of a block, 32 to 512, for pixels from global
memory, from rows on chip that one thread loads, and from rows that all threads load; in 8 and 32
bits; with the sum over a window in a loop and unrolled. Beside them the default, whose blocks are
its own. Every variant must give the default's labels and fractions.

DATA (or the variable STEREO_BP_DATA) is a folder with ``middlebury/venus``: 434x383, matched as
in the paper with 64 disparities, a window of 5x5 and the right image as reference. Without it,
or with --size, noise of that size is matched. Times are those of the matching kernel alone, in
a graph of many, medians. --output gets sad_variants.md, .json and .png.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import pathlib
import statistics
from collections.abc import Callable, Iterator
from typing import Any

import cupy
import cv2
import numpy as np

from stereo_bp_ros import MatcherConfig
from stereo_bp_ros.engines.cuda import compiler, device, refine, sad, sad_plan, sad_variants

BLOCKS = (32, 64, 128, 256, 512)
NAMES = {'global': 'global memory', 'shared_one': 'on chip, one thread',
         'shared_all': 'on chip, all threads'}
FILLED = {'label': 'int16', 'fraction': 'int8'}


def main() -> None:
    """Read the command line, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('data', nargs='?', type=pathlib.Path,
                        default=os.environ.get('STEREO_BP_DATA'))
    parser.add_argument('--size', help='WIDTHxHEIGHTxDISPARITIES of noise, in place of Venus')
    parser.add_argument('--window', type=int, default=5)
    parser.add_argument('--repeats', type=int, default=15)
    parser.add_argument('--output', type=pathlib.Path)
    arguments = parser.parse_args()
    left, right, disparities, name = images(arguments.data, arguments.size)
    config = MatcherConfig(stereo_algorithm='sad', preprocessing='none',
                           correlation_window_size=arguments.window,
                           disparity_range=disparities, reference_image='right')
    bench = Bench(config, left, right, arguments.repeats)
    default = bench.default()
    times = {variant: bench.variant(variant) for variant in variants()}
    height, width = left.shape
    title = (f'{name} {width}x{height}, {disparities} disparities, '
             f'{arguments.window}x{arguments.window}, {device.describe(0)["name"]}, medians of '
             f'{arguments.repeats}')
    text = table(title, default, times)
    print(text)
    if arguments.output:
        arguments.output.mkdir(parents=True, exist_ok=True)
        (arguments.output / 'sad_variants.md').write_text(text + '\n', encoding='utf-8')
        write_json(arguments.output / 'sad_variants.json', title, default, times)
        plot(arguments.output / 'sad_variants.png', title, default, times)


def images(data: pathlib.Path | None, size: str | None
           ) -> tuple[np.ndarray, np.ndarray, int, str]:
    """Left and right image, the number of disparities, and what it is."""
    if size is None and data is not None:
        sides = [cv2.imread(str(pathlib.Path(data) / 'middlebury' / 'venus' / f'{side}.png'), 0)
                 for side in ('left', 'right')]
        if sides[0] is not None and sides[1] is not None:
            return sides[0], sides[1], 64, 'Venus'
        raise SystemExit(f'{data} has no middlebury/venus')
    width, height, disparities = (int(part) for part in (size or '434x383x64').split('x'))
    left = np.random.default_rng(0).integers(0, 256, (height, width), dtype=np.uint8)
    return left, np.roll(left, -7, axis=1), disparities, 'noise'


def variants() -> Iterator[sad_variants.Variant]:
    """Everything that the paper compares."""
    for streaming, pixel, unrolled, threads in itertools.product(
            NAMES, ('int32', 'uint8'), (False, True), BLOCKS):
        yield sad_variants.Variant(streaming, pixel, unrolled, threads)


class Bench:
    """One pair on the device, and what the default made of it."""

    def __init__(self, config: MatcherConfig, left: np.ndarray, right: np.ndarray,
                 repeats: int) -> None:
        self.config = config
        self.repeats = repeats
        self.found = device.properties(0)
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.height, self.width = left.shape
        # The right image is the reference: both mirrored and swapped, as in the engine.
        mirrored = [np.ascontiguousarray(side[:, ::-1]) for side in (right, left)]
        self.images = {pixel: [cupy.asarray(side.astype(pixel)) for side in mirrored]
                       for pixel in ('uint8', 'int32')}
        self.filled = {name: cupy.zeros(left.shape, dtype) for name, dtype in FILLED.items()}
        self.expected: dict[str, np.ndarray] = {}

    def default(self) -> float:
        """Microseconds of the engine's own kernel, whose results are kept to compare with."""
        cut = sad_plan.cut(self.config, self.width, self.height, self.found)
        name = sad.kernel_name(cut, 'uint8', refine.steps(self.config, ()))
        kernel = compiler.kernel(self.found, 'sad.cu', name)
        windows = self._windows('uint8', cut.rows)
        time = self._time(lambda: kernel.launch(
            self.stream.ptr, cut.grid, (cut.threads, 1, 1), cut.shared_bytes, windows))
        self.expected = {name: cupy.asnumpy(array) for name, array in self.filled.items()}
        return time

    def variant(self, variant: sad_variants.Variant) -> float | None:
        """Microseconds of a variant; None where its rows do not fit the shared memory."""
        if variant.shared_bytes(self.config) > self.found.shared_memory - 1024:
            return None
        rows = variant.rows(self.config, self.width, self.height, self.found)
        windows = self._windows(variant.pixel, rows)
        for array in self.filled.values():
            array.fill(0)
        time = self._time(lambda: sad_variants.enqueue(
            self.found, self.stream.ptr, variant, self.config, windows))
        inside = (slice(windows.y_begin, windows.y_end), slice(windows.x_begin, windows.x_end))
        for name, expected in self.expected.items():
            if not np.array_equal(cupy.asnumpy(self.filled[name])[inside], expected[inside]):
                raise SystemExit(f'{variant}: {name} differs from the default')
        return time

    def _windows(self, pixel: str, rows: int) -> sad.Windows:
        addresses = {side: image.data.ptr for side, image in
                     zip(('left', 'right'), self.images[pixel], strict=True)}
        addresses |= {name: array.data.ptr for name, array in self.filled.items()}
        return sad.windows(self.config, self.width, self.height, rows, addresses)

    def _time(self, launch: Callable[[], None], count: int = 20) -> float:
        cupy.cuda.Device().synchronize()
        launch()                    # loads the kernel
        with self.stream:
            self.stream.begin_capture()
            for _ in range(count):
                launch()
            graph = self.stream.end_capture()
        times = []
        for _ in range(self.repeats + 1):
            begin, end = cupy.cuda.Event(), cupy.cuda.Event()
            begin.record(self.stream)
            graph.launch(self.stream)
            end.record(self.stream)
            end.synchronize()
            times.append(cupy.cuda.get_elapsed_time(begin, end) / count * 1e3)
        return statistics.median(times[1:])


Times = dict[sad_variants.Variant, float | None]


def groups(times: Times) -> dict[tuple[str, str, bool], list[float | None]]:
    """Times over the block sizes of each way of streaming, type of pixel and kind of loop."""
    found: dict[tuple[str, str, bool], list[float | None]] = {}
    for variant, time in times.items():
        found.setdefault(variant[:3], []).append(time)
    return found


def decreases(row: list[float | None]) -> list[float | None]:
    """Per cent less than with the block size before: figure 9."""
    return [None if before is None or after is None else 100 * (before - after) / before
            for before, after in itertools.pairwise(row)]


def label(group: tuple[str, str, bool]) -> str:
    """What a group is called in tables and pictures."""
    return (f'{NAMES[group[0]]}, {8 if group[1] == "uint8" else 32} bit, '
            f'{"unrolled" if group[2] else "loop"}')


def table(title: str, default: float, times: Times) -> str:
    """Both figures as Markdown."""
    lines = [title, '', 'Figure 8: microseconds against the threads of a block', '',
             '| variant | ' + ' | '.join(map(str, BLOCKS)) + ' |',
             '| --- |' + ' --- |' * len(BLOCKS)]
    for group, row in groups(times).items():
        lines.append(f'| {label(group)} | ' + ' | '.join(cells(row)) + ' |')
    lines += [f'| **default** (blocks of its own) | {default:.1f} |' + '  |' * (len(BLOCKS) - 1),
              '', 'Figure 9: per cent less time than with the block size before', '',
              '| variant | ' + ' | '.join(map(str, BLOCKS[1:])) + ' |',
              '| --- |' + ' --- |' * (len(BLOCKS) - 1)]
    for group, row in groups(times).items():
        lines.append(f'| {label(group)} | ' + ' | '.join(cells(decreases(row))) + ' |')
    return '\n'.join(lines)


def cells(row: list[float | None]) -> list[str]:
    return ['does not fit' if value is None else f'{value:.1f}' for value in row]


def write_json(path: pathlib.Path, title: str, default: float, times: Times) -> None:
    """Every figure for a machine."""
    report: dict[str, Any] = {
        'title': title, 'default_us': default,
        'variants': [{**variant._asdict(), 'us': time} for variant, time in times.items()]}
    path.write_text(json.dumps(report, indent=1) + '\n', encoding='utf-8')


def plot(path: pathlib.Path, title: str, default: float, times: Times) -> None:
    """Both figures as one picture."""
    import matplotlib
    matplotlib.use('Agg')
    from matplotlib import pyplot
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(13, 5.5))
    colours = dict(zip(NAMES, ('tab:red', 'tab:orange', 'tab:green'), strict=True))
    for group, row in groups(times).items():
        style = {'color': colours[group[0]], 'linestyle': '-' if group[2] else '--',
                 'marker': 'o' if group[1] == 'uint8' else 's', 'label': label(group)}
        left.plot(BLOCKS, [value or np.nan for value in row], **style)
        right.plot(BLOCKS[1:], [np.nan if value is None else value
                                for value in decreases(row)], **style)
    left.axhline(default, color='black', label='default')
    left.set(xscale='log', yscale='log', xlabel='threads of a block', ylabel='microseconds')
    right.axhline(0, color='black', linewidth=0.5)
    right.set(xscale='log', xlabel='threads of a block', ylabel='per cent less than before')
    for axes in (left, right):
        axes.set_xticks(BLOCKS, [str(size) for size in BLOCKS])
        axes.minorticks_off()
    left.legend(fontsize=7)
    figure.suptitle(title, fontsize=10)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


if __name__ == '__main__':
    main()
