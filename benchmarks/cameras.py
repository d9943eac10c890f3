"""Several cameras on one machine: a process for each node, or all nodes in one process.

In one process the nodes share an executor and the lock of the interpreter. Each camera and each
listener is a process of its own, in the namespace of its node, as in benchmarks.node.

    python -m benchmarks.cameras
    python -m benchmarks.cameras --cameras 3 --set num_threads=1

Both layouts are measured in turn. Prints a Markdown table: frames at every step, latency of all
cameras together, CPU time and memory of all nodes together.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import itertools
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from benchmarks import common
from benchmarks import node as one_node
from stereo_bp_ros import engines
from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.config import Value, parse_assignments, split
from stereo_bp_ros.config.files import load_preset
from stereo_bp_ros.replay import session

LAYOUTS = ('processes', 'one process')


def main() -> int:
    """Read the command line, measure, print the table."""
    if sys.argv[1:2] == ['host']:
        return host(sys.argv[2:])
    parser = common.parser(__doc__)
    parser.add_argument('--cameras', nargs='+', type=shared.whole(1), default=[2, 3], metavar='N',
                        help='how many (default 2 3)')
    parser.add_argument('--run', choices=tuple(one_node.RUNS), default='sad_30_hz',
                        help='size and preset, as in benchmarks.node (default sad_30_hz)')
    parser.add_argument('--rate', type=float, default=8.0, metavar='HZ',
                        help='of each camera (default 8)')
    parser.add_argument('--rounds', type=shared.whole(1), default=3, metavar='N',
                        help='how often both layouts take turns (default 3)')
    parser.add_argument('--set', action='append', default=[], metavar='KEY=VALUE',
                        dest='settings', help='change a parameter of the nodes')
    common.add_backend(parser)
    common.add_frames(parser, 300, of='of each camera and round')
    common.add_output(parser)
    options = parser.parse_args()
    rows = []
    config, _ = split(settings(options))
    # Nodes that start together would compile the same kernels, each for itself.
    run = one_node.RUNS[options.run]
    engines.choose(config).warm_up(config, run.width, run.height)
    with tempfile.TemporaryDirectory(prefix='cameras_') as temporary:
        folder = pathlib.Path(temporary)
        one_node.render(run, folder / 'pairs.npz')
        common.print_machine()
        common.print_head('cameras', 'layout', 'Hz each', 'sent', 'received', 'superseded',
                          'published', 'heard', 'latency p50, p95, p99', 'wait p50, p99',
                          'end to end p50, p99', 'CPU ms a frame', 'MiB')
        for count in options.cameras:
            for layout in options.rounds * LAYOUTS:
                rows.append(measure(count, layout, options, folder))
                print_measured(rows[-1])
    common.write_report(options.output, rows=rows)
    return 0


def measure(count: int, layout: str, options: argparse.Namespace, folder: pathlib.Path
            ) -> dict[str, Any]:
    """One row."""
    environment = session.private_environment()
    names = [f'/camera{number}' for number in range(count)]
    calls = [ros_arguments(name, options, folder) for name in names]
    commands = ([[*session.node_command(), *call] for call in calls] if layout == LAYOUTS[0] else
                [[sys.executable, '-m', 'benchmarks.cameras', 'host',
                  *itertools.chain.from_iterable(calls)]])
    with contextlib.ExitStack() as stack:
        nodes = stack.enter_context(running(commands, count, environment, folder))
        helpers = {role: [one_node.Helper([role, *map(str, rest), *where(name)], environment,
                                          folder / f'{role}{name[1:]}.log') for name in names]
                   for role, rest in (('listener', ()), ('camera', (folder / 'pairs.npz',)))}
        for helper in itertools.chain.from_iterable(helpers.values()):
            stack.callback(helper.close)
            helper.answer()
        pool = stack.enter_context(concurrent.futures.ThreadPoolExecutor(count))

        def ask(role: str, **question: Any) -> list[dict[str, Any]]:
            return list(pool.map(lambda helper: helper.ask(**question), helpers[role]))

        ask('camera', rate=options.rate, frames=30)         # fills caches and queues
        before = ask('listener', sent=30)
        used = sum(map(seconds, nodes))
        sent = ask('camera', rate=options.rate, frames=options.frames)
        used = sum(map(seconds, nodes)) - used
        heard = ask('listener', sent=options.frames)
        resident = sum(map(resident_mib, nodes))
    return row(count, layout, options, sent, heard, before) | {
        'cpu_ms_per_frame': 1e3 * used / (count * options.frames), 'resident_mib': resident}


def where(namespace: str) -> list[str]:
    """ROS arguments of everything that belongs to a camera; its diagnostics are its own."""
    return ['--ros-args', '-r', f'__ns:={namespace}', '-r', '/diagnostics:=diagnostics']


def settings(options: argparse.Namespace) -> dict[str, Value]:
    """Of every node."""
    run = one_node.RUNS[options.run]
    return {**(load_preset(run.preset) if run.preset else {}), 'backend': options.backend,
            'disparity_range': run.disparities, 'image_width': run.width,
            'image_height': run.height, **parse_assignments(options.settings)}


def ros_arguments(namespace: str, options: argparse.Namespace, folder: pathlib.Path) -> list[str]:
    """Of a node."""
    parameters = {**settings(options), **session.reliable_overrides(namespace)}
    file = folder / f'{namespace[1:]}.yaml'
    file.write_text(yaml.safe_dump({'/**': {'ros__parameters': parameters}}), encoding='utf-8')
    return [*where(namespace), '--params-file', str(file)]


@contextlib.contextmanager
def running(commands: Sequence[Sequence[str]], count: int, environment: dict[str, str],
            folder: pathlib.Path) -> Iterator[list[int]]:
    """The nodes, once all are active; yields the ids of their processes."""
    log = folder / 'nodes.log'
    processes: list[subprocess.Popen[bytes]] = []
    deadline = time.monotonic() + session.START_LIMIT_S
    try:
        with open(log, 'wb') as output:
            processes += [subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL,
                                           stdout=output, stderr=output) for command in commands]
        while log.read_text(encoding='utf-8').count('active: waiting for') < count:
            if any(process.poll() is not None for process in processes) or (
                    time.monotonic() > deadline):
                sys.exit(f'the nodes did not start:\n{log.read_text(encoding="utf-8")}')
            time.sleep(0.05)
        yield [process.pid for process in processes]
        for process in processes:
            process.send_signal(signal.SIGINT)
        for process in processes:
            process.wait(session.STOP_LIMIT_S)
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()


def host(arguments: Sequence[str]) -> int:
    """All nodes in this process, until SIGINT; ``--ros-args`` begins the arguments of each."""
    import rclpy
    from rclpy.executors import SingleThreadedExecutor
    from rclpy.signals import SignalHandlerOptions

    from stereo_bp_ros.node.main import SWITCH_INTERVAL, ShutdownSignals
    from stereo_bp_ros.node.node import StereoBpNode

    sys.setswitchinterval(SWITCH_INTERVAL)
    begins = [i for i, word in enumerate(arguments) if word == '--ros-args']
    with ShutdownSignals() as signals:
        rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
        executor = SingleThreadedExecutor()
        nodes = [StereoBpNode(cli_args=list(arguments[begin:end]))
                 for begin, end in zip(begins, [*begins[1:], None], strict=True)]
        for node in nodes:
            executor.add_node(node)
        threading.Thread(target=executor.spin, daemon=True).start()
        for node in nodes:
            node.trigger_configure()
            node.trigger_activate()
        signals.wait()
        for node in nodes:
            node.stop(5.0)
        rclpy.try_shutdown()
    return 0


def row(count: int, layout: str, options: argparse.Namespace, sent: Sequence[dict[str, Any]],
        heard: Sequence[dict[str, Any]], before: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Frames and latency of all cameras."""
    def counted(key: str) -> int:
        return sum(int(now['diagnostics']['pairing'][key]) - int(
            then['diagnostics']['pairing'][key]) for now, then in zip(heard, before, strict=True))

    stages = {name: common.percentiles([value for one in heard
                                        for value in one['stages_ms'].get(name, ())])
              for name in ('wait', 'total')}
    return {'cameras': count, 'layout': layout, 'rate': options.rate,
            'late_ms': max(one['late_ms']['max'] for one in sent),
            'sent': sum(one['sent'] for one in sent), 'received': counted('received left'),
            'superseded': counted('dropped pairs: superseded'),
            'published': counted('published'), 'heard': sum(one['received'] for one in heard),
            'latency_ms': stages,
            'end_to_end_ms': common.percentiles(
                [value for one in heard for value in one['end_to_end_ms']])}


def seconds(process: int) -> float:
    """Of the processor, that a process has used."""
    fields = pathlib.Path(f'/proc/{process}/stat').read_text(encoding='ascii').rpartition(')')[2]
    return sum(map(int, fields.split()[11:13])) / os.sysconf('SC_CLK_TCK')


def resident_mib(process: int) -> float:
    """Memory of a process, with its part of what it shares with others."""
    lines = pathlib.Path(f'/proc/{process}/smaps_rollup').read_text(encoding='ascii').splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith('Pss:'))


def print_measured(one: dict[str, Any]) -> None:
    """A row of the table."""
    total, wait, whole = (one['latency_ms']['total'], one['latency_ms']['wait'],
                          one['end_to_end_ms'])
    common.print_row(
        one['cameras'], one['layout'], f'{one["rate"]:g}', one['sent'], one['received'],
        one['superseded'], one['published'], one['heard'],
        *(', '.join(f'{values[name]:.1f}' for name in names) for values, names in (
            (total, ('p50', 'p95', 'p99')), (wait, ('p50', 'p99')), (whole, ('p50', 'p99')))),
        f'{one["cpu_ms_per_frame"]:.1f}', f'{one["resident_mib"]:.0f}')


if __name__ == '__main__':
    sys.exit(main())
