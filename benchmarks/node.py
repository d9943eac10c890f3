"""The node as a vehicle would run it: latency, highest rate, and 10,000 frames accounted for.

Camera, node and listener are processes of their own; images go over DDS with reliable QoS
overrides and what ``python3 -m stereo_bp_ros.system.transport`` prints: the shipped Fast DDS
profile, and memory that is kept. Latency counts from the receipt of the second image to the return
of publish, end to end from the stamp (taken before the left image is published) to the listener.

    python -m benchmarks.node
    python -m benchmarks.node --backend cpu --runs sad_30_hz bp_small
    python -m benchmarks.node --output node.json

Each run starts a node for a size and an algorithm; where a run says so, the long run follows at
--long-rate, and the highest rate without loss is searched for. Prints Markdown tables; --output
takes every figure. Ends with status 1 where a frame was lost or dropped at a rate that a run asks
for, and says on standard error why.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import yaml

from benchmarks import common
from stereo_bp_ros.config.files import load_preset
from stereo_bp_ros.config.mappings import parse_assignments
from stereo_bp_ros.config.settings import Value
from stereo_bp_ros.replay import session
from stereo_bp_ros.system import transport

#: Different pairs that are played in turn, and frames after which memory no longer grows.
PAIRS, SETTLED = 8, 500

#: Rates that the search begins with, Hz; between the last good and the first bad it bisects.
RATES = (200, 300, 400, 500, 600, 800, 1000)


@dataclasses.dataclass(frozen=True)
class Run:
    """What one node is measured with.

    preset: '' = the node's defaults; wanted: median and 99th percentile of the latency, ms;
    searches: make the long run, and look for the highest rate.
    """

    size: common.Size
    preset: str
    rate: float
    wanted: str = '-'
    searches: bool = False

    def parameters(self, backend: str) -> dict[str, Value]:
        """Of the node."""
        return {**(load_preset(self.preset) if self.preset else {}), 'backend': backend,
                'disparity_range': self.size.disparities, 'image_width': self.size.width,
                'image_height': self.size.height, **session.reliable_overrides()}


RUNS = {
    'bp': Run(common.VGA, '', 30.0, '1.2, 1.6', searches=True),
    'bp_large': Run(common.HD, '', 30.0, '3.6, 4.5'),
    'road': Run(common.VGA, 'road', 30.0),
    'sad': Run(common.VGA, 'sad_fast', 100.0, '2, 4'),
    'bp_small': Run(common.Size(320, 240, 32), 'road', 30.0),
    'sad_30_hz': Run(common.VGA, 'sad_fast', 30.0)}


def main() -> int:
    """Read the command line, make the runs, print the tables."""
    parser = common.parser(__doc__)
    parser.add_argument('--runs', nargs='+', choices=tuple(RUNS),
                        default=['bp', 'bp_large', 'road', 'sad'])
    common.add_backend(parser)
    common.add_count(parser, '--frames', 300, 'of every run')
    parser.add_argument('--long', type=int, default=10_000, metavar='FRAMES',
                        help='of the long run (default 10000, 0 = none)')
    parser.add_argument('--long-rate', type=float, default=200.0, metavar='HZ',
                        help='of the long run (default 200)')
    parser.add_argument('--search-seconds', type=float, default=3.0, metavar='S',
                        help='of every rate that is tried (default 3)')
    parser.add_argument('--no-search', action='store_true', help='leave out the highest rate')
    parser.add_argument('--set', action='append', default=[], metavar='KEY=VALUE',
                        dest='settings', help='change a parameter of the node')
    common.add_output(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix='node_') as folder:
        rows = [row for name in options.runs
                for row in measure(name, options, pathlib.Path(folder))]
    common.write_report(options.output, rows=rows)
    print_tables(rows)
    failed = [f'FAILED {row["run"]}, {row["step"]} at {row["wanted_hz"]:g} Hz: {reason}'
              for row in rows for reason in failures(row)]
    print(*failed, sep='\n', end='\n' if failed else '', file=sys.stderr)
    return 1 if failed else 0


def failures(row: Mapping[str, Any]) -> list[str]:
    """Why a row makes the status 1: frames that are lost or dropped, or not settled.

    A search is for the rate at which frames are lost; all it is held to is that it settles.
    """
    found = [] if row['has_settled'] else ['the counters still change']
    return found if row['step'] == 'search' else [*found, *losses(row['frames'])]


def losses(frames: Mapping[str, Any]) -> list[str]:
    """What of the frames that were sent did not become a result, in words."""
    found = [f'{frames[key]} of {frames["sent"]} frames {text}' for key, text in (
        ('lost_to_node', 'were lost on the way to the node'),
        ('waiting', 'wait for a partner'), ('in_progress', 'wait for the engine'),
        ('lost_from_node', 'were lost on the way from the node')) if frames[key]]
    return found + [f'{count} dropped, {reason}' for reason, count in frames['dropped'].items()]


def measure(name: str, options: argparse.Namespace, folder: pathlib.Path
            ) -> list[dict[str, Any]]:
    """All rows of one run."""
    run = RUNS[name]
    rows: list[dict[str, Any]] = []
    environment = session.private_environment()
    environment |= {key: str(size) for key, (_, size) in transport.KEPT_MEMORY.items()}
    parameters = run.parameters(options.backend) | parse_assignments(options.settings)
    with running(session.node_command(), parameters, folder / name, environment) as (
            process, ready_s), traffic(run.size, folder, environment) as (camera, listener):

        def play(step: str, rate: float, frames: int) -> bool:
            print(f'{name}: {step}, {frames} frames at {rate:g} Hz', file=sys.stderr)
            seconds, mib = used(process.pid)
            sent = camera.ask(rate=rate, frames=frames)
            heard = listener.ask(sent=frames)
            after, mib_after = used(process.pid)
            rows.append({
                'run': name, 'step': step, 'size': str(run.size), 'preset': run.preset,
                'backend': heard['backend'], 'wanted_hz': rate, 'wanted_ms': run.wanted,
                'ready_s': ready_s, **sent, 'frames': heard['frames'],
                'has_settled': heard['has_settled'],
                'latency_ms': {stage: common.percentiles(values)
                               for stage, values in heard['stages_ms'].items()},
                'end_to_end_ms': common.percentiles(heard['end_to_end_ms']),
                'cpu_ms': (after - seconds) / frames * 1e3, 'mib': mib_after,
                'growth_mib': mib_after - mib})
            return not losses(heard['frames'])

        play('warm', run.rate, 30)      # fills caches and queues
        play('steady', run.rate, options.frames)
        # Before the search, which leaves images behind that lost their partners.
        if run.searches and options.long:
            play('settle', options.long_rate, SETTLED)
            play('long', options.long_rate, options.long)
        if run.searches and not options.no_search:
            search(lambda rate: play('search', rate, int(options.search_seconds * rate)))
    return [row for row in rows if row['step'] not in ('warm', 'settle')]


def search(is_lossless: Callable[[float], bool]) -> None:
    """Find the highest rate that loses nothing, within 10 %; every rate tried becomes a row."""
    good, bad = 0.0, 0.0
    for rate in RATES:
        if not is_lossless(rate):
            bad = rate
            break
        good = rate
    while bad and good and bad > 1.1 * good:
        middle = round((good + bad) / 2)
        good, bad = (middle, bad) if is_lossless(middle) else (good, middle)


@contextlib.contextmanager
def traffic(size: common.Size, folder: pathlib.Path, environment: Mapping[str, str]
            ) -> Iterator[tuple[common.Helper, common.Helper]]:
    """A camera that plays pairs of the street, and a listener; both are ready."""
    pairs = folder / f'{size}.npz'
    if not pairs.exists():
        drive = common.street(size, PAIRS)
        np.savez(pairs, left=[pair.left for pair in drive], right=[pair.right for pair in drive])
    with contextlib.ExitStack() as stack:
        helpers = [stack.enter_context(common.Helper(
            'benchmarks.node_traffic', role, *arguments, environment=environment,
            log=folder / f'{role}.log')) for role, arguments in (('camera', [pairs]),
                                                                 ('listener', []))]
        for helper in helpers:
            helper.answer()
        camera, listener = helpers
        yield camera, listener


@contextlib.contextmanager
def running(command: Sequence[str], parameters: Mapping[str, Value], file: pathlib.Path,
            environment: Mapping[str, str]) -> Iterator[tuple[subprocess.Popen[bytes], float]]:
    """The node, once it is active, and the seconds that this took.

    :param file: its parameters and its log go there, with .yaml and .log behind it.
    :raises SystemExit: it did not start.
    """
    told, log = file.with_suffix('.yaml'), file.with_suffix('.log')
    told.write_text(yaml.safe_dump({'/**': {'ros__parameters': dict(parameters)}}),
                    encoding='utf-8')
    begin = time.monotonic()
    with open(log, 'wb') as output:
        process = subprocess.Popen([*command, '--ros-args', '--params-file', str(told)],
                                   env=environment, stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=output)
    try:
        while 'active: waiting for' not in log.read_text(encoding='utf-8'):
            if process.poll() is not None or time.monotonic() > begin + session.START_LIMIT_S:
                sys.exit(f'the node did not start:\n{log.read_text(encoding="utf-8")}')
            time.sleep(0.02)
        yield process, time.monotonic() - begin
        process.send_signal(signal.SIGINT)
        process.wait(session.STOP_LIMIT_S)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def used(pid: int) -> tuple[float, float]:
    """Seconds of the processor that a process has taken, and MiB that it has in memory."""
    stat = pathlib.Path(f'/proc/{pid}/stat').read_text(encoding='ascii')
    fields = stat.rpartition(')')[2].split()
    return (sum(map(int, fields[11:13])) / os.sysconf('SC_CLK_TCK'),
            int(fields[21]) * os.sysconf('SC_PAGE_SIZE') / 2**20)


def print_tables(rows: Sequence[Mapping[str, Any]]) -> None:
    """Frames and latency, then stages."""
    common.print_machine()
    common.print_head('run', 'step', 'back end', 'Hz', 'sent', 'received', 'published', 'heard',
                      'dropped', 'p50', 'p95', 'p99', 'max', 'wanted p50, p99', 'end to end p50',
                      'p99', 'camera late, ms')
    for row in rows:
        frames = row['frames']
        common.print_row(
            f'{row["run"]} {row["size"]}', row['step'], row['backend'], f'{row["rate_hz"]:.1f}',
            *(frames[key] for key in ('sent', 'received', 'published', 'recorded')),
            ', '.join(f'{n} {reason}' for reason, n in frames['dropped'].items()) or 0,
            *common.figures(row['latency_ms'].get('total', {}), 'p50', 'p95', 'p99', 'max'),
            row['wanted_ms'], *common.figures(row['end_to_end_ms'], 'p50', 'p99'),
            f'{row["late_ms"]:.1f}')
    stages = [stage for stage in rows[0]['latency_ms'] if stage not in ('total', 'age')]
    common.print_head('run', 'step', *stages, 'CPU ms a frame', 'ready after s', 'MiB', 'growth')
    for row in rows:
        common.print_row(
            row['run'], row['step'],
            *(cell for stage in stages
              for cell in common.figures(row['latency_ms'].get(stage, {}), 'p50')),
            *(f'{row[key]:.1f}' for key in ('cpu_ms', 'ready_s', 'mib', 'growth_mib')))


if __name__ == '__main__':
    sys.exit(main())
