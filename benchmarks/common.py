"""What the benchmarks share: options, rendered pairs, helper processes, tables and reports.

Tables are Markdown, as docs have them. Times are wall clock in milliseconds.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from stereo_bp_ros import __version__
from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.cli.machine import processor
from stereo_bp_ros.cli.render import workers_for
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.engines import choice
from stereo_bp_ros.evaluation import timing
from stereo_bp_ros.sources.scenes import sequence as scenes


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


def add_sizes(options: argparse.ArgumentParser, *default: Size) -> None:
    """--size."""
    options.add_argument('--size', nargs='*', type=size, default=list(default), metavar='WxHxD',
                         help='default: ' + ' '.join(map(str, default)))


def add_count(options: argparse.ArgumentParser, name: str, default: int, what: str,
              metavar: str = 'N') -> None:
    """An option that is a whole number of 1 or more."""
    options.add_argument(name, type=shared.whole(1), default=default, metavar=metavar,
                         help=f'{what} (default {default})')


def add_backend(options: argparse.ArgumentParser, default: str = 'auto') -> None:
    """--backend."""
    options.add_argument('--backend', choices=('auto', 'cuda', 'cpu'), default=default,
                         help=f'what computes (default: {default})')


def add_output(options: argparse.ArgumentParser) -> None:
    """--output."""
    options.add_argument('--output', type=pathlib.Path, metavar='FILE', help='write JSON there')


def street(wanted: Size, count: int = 1) -> list[timing.Pair]:
    """Frames of a drive along the rendered street."""
    sequence = scenes.RoadSequence(
        width=wanted.width, height=wanted.height, max_disparity=wanted.disparities - 2,
        frames=count, noise_sigma=1.5)
    return [timing.Pair(f'street {wanted}', frame.left, frame.right, wanted.disparities)
            for frame in scenes.render(sequence, workers_for(count))]


class HelperError(Exception):
    """A helper ended, failed, or said nothing for too long."""


class Helper:
    """A process that answers a JSON object a line with one.

    :param arguments: the module, and its arguments.
    :param log: gets what it writes to standard error.
    :param limit_s: seconds after which it is killed while an answer is waited for.
    """

    def __init__(self, *arguments: object, log: pathlib.Path,
                 environment: Mapping[str, str] | None = None, limit_s: float = 36_000) -> None:
        self._log, self._limit_s = log, limit_s
        with open(log, 'w', encoding='utf-8') as file:
            self.process = subprocess.Popen(
                [sys.executable, '-m', *map(str, arguments)], env=environment, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file)

    def __enter__(self) -> Helper:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, **question: Any) -> dict[str, Any]:
        """Send a question and wait for the answer.

        :raises HelperError: none came, or it is an error.
        """
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):      # then there is no answer either
            print(json.dumps(question), file=self.process.stdin, flush=True)
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """The next answer; the first one, without a question, says that the helper is ready."""
        assert self.process.stdout is not None
        timer = threading.Timer(self._limit_s, self.process.kill)
        timer.start()
        try:
            content = next((json.loads(line) for line in self.process.stdout
                            if line.startswith('{')), None)
        finally:
            timer.cancel()
        if content is None:
            status = self.process.wait()
            last = self._log.read_text(encoding='utf-8').strip().splitlines()[-1:]
            raise HelperError(f'{self._log.stem} ended with status {status}: '
                              + ''.join(last or ['nothing on standard error']))
        if 'error' in content:
            raise HelperError(f'{self._log.stem}: {content["error"]}')
        found: dict[str, Any] = content
        return found

    def close(self, limit_s: float = 20.0) -> str:
        """End it: its exit status, or a word for why there is none."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            return str(self.process.wait(limit_s))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return f'killed: it had not ended after {limit_s:g} s'


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """What a control loop is laid out by; nothing of no values."""
    if not values:
        return {}
    return {'p50': statistics.median(values),
            **{f'p{per_cent:g}': timing.percentile(values, per_cent)
               for per_cent in (95, 99, 99.9)}, 'max': max(values)}


def figures(values: Mapping[str, float], *names: str) -> list[str]:
    """Cells of a table, of what ``percentiles`` gives."""
    return [f'{values[name]:.2f}' if name in values else '-' for name in names]


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
        about |= choice.choose(config).describe(config)
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
