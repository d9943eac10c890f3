"""How late frames of the node are beside a load, with each step of a set-up for real time.

Camera, node and listener are processes of their own; another one computes without a pause on one
of two cores. The node is started anew for each set-up:

    plain     as it is, with Python's garbage collector as Python has it
    frozen    what lives when it is configured is frozen: the node's default
    affinity  frozen; the node has a core, everything else the other one
    fifo      frozen; SCHED_FIFO (needs CAP_SYS_NICE or an rtprio limit)
    locked    frozen; the parameter lock_memory (needs CAP_IPC_LOCK or a memlock limit)
    all       fifo and locked
    chain     all; SCHED_FIFO for the camera and the listener, too
    again     plain once more: by how much the machine itself has changed

    python -m benchmarks.real_time --minutes 10 --output real_time.json
    python -m benchmarks.real_time --minutes 0.5 --setups plain fifo

Latency counts from the receipt of the second image to the return of publish, end to end from the
stamp to the listener. Prints a Markdown table: percentiles and the worst frame in milliseconds,
collections of the garbage collector of the whole heap and the longest of all. A set-up that the
machine refuses has the reason in its row.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from benchmarks import common, node
from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.replay import session

#: What each set-up takes, by name.
SETUPS: dict[str, tuple[str, ...]] = {
    'plain': ('thaw',), 'frozen': (), 'affinity': ('affinity',), 'fifo': ('fifo',),
    'locked': ('lock',), 'all': ('fifo', 'lock'), 'chain': ('fifo', 'lock', 'ends'),
    'again': ('thaw',)}

#: Above ordinary threads, below the kernel's own.
FIFO_PRIORITY = 10

LOAD = 'while True: pass'

#: Frames before those that count.
WARM_UP = 60


def main() -> int:
    """Read the command line, make the runs, print the table."""
    if sys.argv[1:2] == ['node']:
        return prepared_node(json.loads(sys.argv[2]), pathlib.Path(sys.argv[3]), sys.argv[4:])
    parser = common.parser(__doc__)
    parser.add_argument('--setups', nargs='+', choices=tuple(SETUPS), default=list(SETUPS))
    parser.add_argument('--run', choices=tuple(node.RUNS), default='sad_30_hz',
                        help='size and preset, as of benchmarks.node (default: sad_30_hz)')
    parser.add_argument('--minutes', type=shared.real(0.01, 1e4), default=10.0, metavar='N',
                        help='of every set-up (default 10)')
    parser.add_argument('--no-load', action='store_true', help='leave the cores to the frames')
    common.add_backend(parser, 'cpu')
    common.add_output(parser)
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, cores)
    common.print_machine()
    common.print_head('set-up', 'frames', 'lost', 'p50', 'p99', 'p99.9', 'worst, ms',
                      'end to end p99', 'p99.9', 'worst, ms', 'full collections',
                      'longest collection, ms')
    rows = []
    with tempfile.TemporaryDirectory(prefix='real_time_') as folder:
        for name in options.setups:
            rows.append(measure(name, node.RUNS[options.run], options.backend,
                                pathlib.Path(folder), cores, options.minutes,
                                is_loaded=not options.no_load))
            print_row(rows[-1])
    common.write_report(options.output, rows=rows)
    return 0


def measure(name: str, run: node.Run, backend: str, folder: pathlib.Path, cores: Sequence[int],
            minutes: float, *, is_loaded: bool) -> dict[str, Any]:
    """One set-up."""
    steps = SETUPS[name]
    if 'fifo' in steps and (problem := _refusal_of_fifo()):
        return {'setup': name, 'refused': problem}
    alone = 'affinity' in steps and len(cores) > 1
    parameters = {**run.parameters(backend), 'lock_memory': 'lock' in steps}
    if alone:
        parameters['num_threads'] = 1
    collected, frames = folder / f'{name}.json', round(minutes * 60 * run.rate)
    environment = session.private_environment()
    with contextlib.ExitStack() as stack:
        stack.callback(os.sched_setaffinity, 0, cores)
        os.sched_setaffinity(0, cores[:1] if alone else cores)
        stack.enter_context(node.running(
            [sys.executable, '-m', 'benchmarks.real_time', 'node', json.dumps(steps),
             str(collected)], parameters, folder / name, environment))
        os.sched_setaffinity(0, cores[1:] if alone else cores)
        log = (folder / name).with_suffix('.log').read_text(encoding='utf-8')
        if 'lock' in steps and (refused := re.search('memory is not locked.*', log)):
            return {'setup': name, 'refused': refused[0]}
        if 'ends' in steps:
            _take_fifo()        # their processes inherit it
        camera, listener = stack.enter_context(node.traffic(run.size, folder, environment))
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        camera.ask(rate=run.rate, frames=WARM_UP)
        listener.ask(sent=WARM_UP)
        if is_loaded:
            load = stack.enter_context(subprocess.Popen([sys.executable, '-c', LOAD]))
            stack.callback(load.kill)
        camera.ask(rate=run.rate, frames=frames)
        heard = listener.ask(sent=frames)
    return {'setup': name, 'frames': frames, 'lost': frames - heard['frames']['recorded'],
            'total_ms': common.percentiles(heard['stages_ms'].get('total', [])),
            'end_to_end_ms': common.percentiles(heard['end_to_end_ms']),
            **json.loads(collected.read_text(encoding='utf-8'))}


def print_row(row: dict[str, Any]) -> None:
    """One line of the table."""
    if 'refused' in row:
        common.print_row(row['setup'], row['refused'])
        return
    common.print_row(row['setup'], row['frames'], row['lost'],
                     *common.figures(row['total_ms'], 'p50', 'p99', 'p99.9', 'max'),
                     *common.figures(row['end_to_end_ms'], 'p99', 'p99.9', 'max'),
                     row['full_collections'], f'{row["longest_collection_ms"]:.1f}')


def prepared_node(steps: Sequence[str], report: pathlib.Path, arguments: list[str]) -> int:
    """The node after some steps; at its end it writes what the garbage collector has done."""
    from stereo_bp_ros.node import main as node_main
    collections, freeze = Collections(), node_main.freeze

    def configured() -> None:
        if 'thaw' not in steps:
            freeze()
        gc.callbacks.append(collections.on_collection)

    node_main.freeze = configured
    if 'fifo' in steps:
        _take_fifo()
    status = node_main.main(arguments)
    report.write_text(json.dumps({'full_collections': collections.full,
                                  'longest_collection_ms': collections.longest_ms}))
    return status


class Collections:
    """What the garbage collector does."""

    def __init__(self) -> None:
        self.full, self.longest_ms = 0, 0.0
        self._begin = 0.0

    def on_collection(self, phase: str, info: dict[str, int]) -> None:
        """As an entry of ``gc.callbacks``."""
        if phase == 'start':
            self._begin = time.perf_counter()
            return
        self.full += info['generation'] == 2
        self.longest_ms = max(self.longest_ms, (time.perf_counter() - self._begin) * 1e3)


def _refusal_of_fifo() -> str:
    """Why this process may not take the policy, or ''."""
    try:
        _take_fifo()
    except OSError as error:
        return f'no SCHED_FIFO: {error}'
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    return ''


def _take_fifo() -> None:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(FIFO_PRIORITY))


if __name__ == '__main__':
    sys.exit(main())
