"""The node as a vehicle would run it: latency, highest rate, and 10,000 frames accounted for.

Camera, node and listener are processes of their own; images go over DDS with reliable QoS
overrides and what ``python3 -m stereo_bp_ros.transport`` prints: the shipped Fast DDS profile, and
memory that is kept. Latency counts from the receipt of the second image to the return of publish,
end to end from the stamp (taken before the left image is published) to the listener.

    python -m benchmarks.node
    python -m benchmarks.node --backend cpu --runs sad_30_hz bp_small
    python -m benchmarks.node --output node.json

Each run starts a node for a size and an algorithm; where a run says so, the long run follows at
--long-rate, and the highest rate without loss is searched for. Prints Markdown tables, and for
every frame that was lost when that was; --output takes every figure. Ends with status 1 where a
frame was lost or dropped at a rate that a run asks for, and says on standard error why.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import yaml

from benchmarks import common
from stereo_bp_ros import transport
from stereo_bp_ros.config import Value, parse_assignments
from stereo_bp_ros.config.files import load_preset
from stereo_bp_ros.evaluation.scenes import sequence as scenes
from stereo_bp_ros.replay import session

#: Different pairs that are played in turn.
PAIRS = 8

#: Frames after which memory should no longer grow.
SETTLED = 500

#: Rates that the search begins with, Hz; between the last good and the first bad it bisects.
RATES = (200, 300, 400, 500, 600, 800, 1000)


@dataclasses.dataclass(frozen=True)
class Run:
    """What one node is measured with.

    preset: '' = the node's defaults; latency_ms: wanted median and 99th percentile; searches:
    make the long run, and look for the highest rate.
    """

    width: int
    height: int
    disparities: int
    preset: str
    rate: float
    latency_ms: tuple[float, float] | None
    searches: bool = False


RUNS = {
    'bp': Run(640, 480, 64, '', 30.0, (1.2, 1.6), searches=True),
    'bp_large': Run(1280, 720, 128, '', 30.0, (3.6, 4.5)),
    'road': Run(640, 480, 64, 'road', 30.0, None),
    'sad': Run(640, 480, 64, 'sad_fast', 100.0, (2.0, 4.0)),
    'bp_small': Run(320, 240, 32, 'road', 30.0, None),
    'sad_30_hz': Run(640, 480, 64, 'sad_fast', 30.0, None),
    'sad_60_hz': Run(640, 480, 64, 'sad_fast', 60.0, None)}


class Helper:
    """A process that answers a JSON line with a JSON line."""

    def __init__(self, command: list[str], environment: dict[str, str],
                 log: pathlib.Path) -> None:
        self._log = log
        with open(log, 'w', encoding='utf-8') as file:
            self._process = subprocess.Popen(
                [sys.executable, '-m', 'benchmarks.node_traffic', *command], env=environment,
                text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file)

    def ask(self, **question: Any) -> dict[str, Any]:
        """Send a question and wait for the answer."""
        self.tell(**question)
        return self.answer()

    def tell(self, **question: Any) -> None:
        """Send a question; ``answer`` waits for what it answers."""
        assert self._process.stdin is not None
        print(json.dumps(question), file=self._process.stdin, flush=True)

    def answer(self) -> dict[str, Any]:
        """The next line; ends the program where the helper says what went wrong."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        content: dict[str, Any] = json.loads(line) if line else {
            'error': f'it ended: {self._log.read_text(encoding="utf-8")[-2000:]}'}
        if 'error' in content:
            sys.exit(f'{self._log.stem}: {content["error"]}')
        return content

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Watch:
    """Samples the node's memory and the time that its threads compute."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._stop = threading.Event()
        self._samples: list[tuple[float, float, float]] = []
        self._device: list[tuple[float, float]] = []
        self._threads = self._seconds()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def report(self, settled_at: float, frames: int) -> dict[str, Any]:
        """End watching; ``settled_at`` is a time in seconds since the epoch."""
        self._stop.set()
        self._thread.join()
        now = self._seconds()
        threads = sorted((now[key] - self._threads.get(key, 0.0) for key in now), reverse=True)
        resident = [(rss, anonymous) for at, rss, anonymous in self._samples if at >= settled_at]
        if (used := device_memory()) is not None:
            self._device.append((time.time(), used))
        device = [used for at, used in self._device if at >= settled_at]
        return {
            'cpu_ms_per_frame': [1e3 * seconds / frames for seconds in threads[:4]],
            'resident_mib': resident[-1][0] if resident else None,
            'resident_growth_mib': resident[-1][0] - resident[0][0] if resident else None,
            'anonymous_growth_mib': resident[-1][1] - resident[0][1] if resident else None,
            'resident_every_5_s_mib': [round(rss, 1) for _, rss, _ in self._samples[::20]],
            'device_mib': device[-1] if device else None,
            'device_change_mib': max(device) - min(device) if device else None,
            'device_asked_at': [at for at, _ in self._device]}

    def _run(self) -> None:
        count = 0
        while not self._stop.wait(0.25):
            with contextlib.suppress(OSError):
                status = dict(line.split(':', 1) for line in pathlib.Path(
                    f'/proc/{self._pid}/status').read_text(encoding='ascii').splitlines())
                resident, anonymous = (
                    int(status[name].split()[0]) / 1024 for name in ('VmRSS', 'RssAnon'))
                self._samples.append((time.time(), resident, anonymous))
            # Asking the driver takes milliseconds of the machine, so not often.
            if count % 40 == 4 and (used := device_memory()) is not None:
                self._device.append((time.time(), used))
            count += 1

    def _seconds(self) -> dict[str, float]:
        tick = os.sysconf('SC_CLK_TCK')
        seconds = {}
        for task in pathlib.Path(f'/proc/{self._pid}/task').iterdir():
            with contextlib.suppress(OSError):
                fields = (task / 'stat').read_text(encoding='ascii').rpartition(')')[2].split()
                seconds[task.name] = (int(fields[11]) + int(fields[12])) / tick
        return seconds


def device_memory() -> float | None:
    """MiB in use on the first GPU, by all processes; None without one."""
    program = shutil.which('nvidia-smi')
    if program is None:
        return None
    answer = subprocess.run([program, '--query-gpu=memory.used', '--format=csv,noheader,nounits',
                             '--id=0'], capture_output=True, text=True, check=False)
    try:
        return float(answer.stdout)
    except ValueError:
        return None


def main() -> int:
    """Read the command line, make the runs, print the tables."""
    parser = common.parser(__doc__)
    parser.add_argument('--runs', nargs='+', choices=tuple(RUNS),
                        default=['bp', 'bp_large', 'road', 'sad'])
    common.add_backend(parser)
    common.add_frames(parser, 300, of='of every run')
    parser.add_argument('--long', type=int, default=10_000, metavar='FRAMES',
                        help='of the long run (default 10000, 0 = none)')
    parser.add_argument('--long-rate', type=float, default=200.0, metavar='HZ',
                        help='of the long run (default 200)')
    parser.add_argument('--search-seconds', type=float, default=3.0, metavar='S',
                        help='of every rate that is tried (default 3)')
    parser.add_argument('--no-search', action='store_true', help='leave out the highest rate')
    parser.add_argument('--given-back', action='store_true',
                        help='let camera and listener give freed memory back')
    parser.add_argument('--set', action='append', default=[], metavar='KEY=VALUE',
                        dest='settings', help='change a parameter of the node')
    common.add_output(parser)
    parser.add_argument('--logs', type=pathlib.Path, metavar='DIR', help='keep logs there')
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix='node_') as temporary:
        folder = options.logs or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        rows = [row for name in options.runs for row in measure(name, options, folder)]
    common.write_report(options.output, rows=rows)
    print_tables(rows)
    failed = [f'FAILED {row["run"]}, {row["step"]} at {row["wanted_hz"]:g} Hz: {reason}'
              for row in rows for reason in failures(row)]
    print(*failed, sep='\n', end='\n' if failed else '', file=sys.stderr)
    return 1 if failed else 0


def failures(row: dict[str, Any]) -> list[str]:
    """Why a row makes the status 1: frames that are not accounted for, lost or dropped.

    A search is for the rate at which frames are lost; all it is held to is that they add up.
    """
    found = []
    if not row['adds_up']:
        found.append(f'of {row["received"]} frames received, {row["accounted"]} were published, '
                     'dropped or wait' + ('' if row['has_settled'] else
                                          ', and the counters still change'))
    if row['step'] == 'search' or row['is_lossless']:
        return found
    if row['lost_to_node']:
        found.append(f'{row["lost_to_node"]} of {row["sent"]} frames were lost on the way to the '
                     'node')
    found += [f'{count} dropped, {reason}' for reason, count in row['dropped'].items()]
    if row['waiting']:
        found.append(f'{row["waiting"]} frames wait for a partner or for the engine')
    if row['lost_from_node']:
        found.append(f'{row["lost_from_node"]} of {row["published"]} results were lost on the way '
                     'from the node')
    return found


def measure(name: str, options: argparse.Namespace, folder: pathlib.Path
            ) -> list[dict[str, Any]]:
    """All rows of one run."""
    run = RUNS[name]
    pairs = folder / f'{run.width}x{run.height}x{run.disparities}.npz'
    if not pairs.exists():
        render(run, pairs)
    rows = []
    environment = session.private_environment()
    if not options.given_back:
        environment |= {name: str(size) for name, (_, size) in transport.KEPT_MEMORY.items()}
    with node(run, options, folder, name, environment) as (process, ready):
        log = folder / f'{name}_listener.log'
        listener = Helper(['listener'], environment, log)
        camera = Helper(['camera', str(pairs)], environment, folder / f'{name}_camera.log')
        listener.answer()
        camera.answer()

        def play(step: str, rate: float, frames: int) -> dict[str, Any]:
            print(f'{name}: {step}, {frames} frames at {rate:g} Hz', file=sys.stderr)
            watch = Watch(process.pid)
            sent = camera.ask(rate=rate, frames=frames)
            heard = listener.ask(sent=frames)
            row = account(run, name, step, rate, sent, heard, counts)
            row['ready_s'] = ready
            times = heard['received_s']
            row |= watch.report(times[min(SETTLED, len(times) - 1)] if times else 0.0, frames)
            rows.append(row)
            counts.update(row.pop('counts'))
            return row

        counts: dict[str, int] = {}
        play('warm', run.rate, 30)      # fills caches and queues, and shows what is counted so far
        rows.clear()
        play('steady', run.rate, options.frames)
        # Before the search, which leaves images behind that lost their partners.
        if run.searches and options.long:
            play('long', options.long_rate, options.long)
        if run.searches and not options.no_search:
            search(lambda rate: bool(
                play('search', rate, int(options.search_seconds * rate))['is_lossless']))
        camera.close()
        listener.close()
    return rows


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


def render(run: Run, path: pathlib.Path) -> None:
    """Pairs of a drive along a street."""
    sequence = scenes.RoadSequence(width=run.width, height=run.height, frames=PAIRS,
                                   max_disparity=run.disparities - 2, noise_sigma=1.5)
    frames = list(scenes.render(sequence, len(os.sched_getaffinity(0))))
    np.savez(path, left=[frame.left for frame in frames],
             right=[frame.right for frame in frames])


@contextlib.contextmanager
def node(run: Run, options: argparse.Namespace, folder: pathlib.Path, name: str,
         environment: dict[str, str]) -> Iterator[tuple[subprocess.Popen[bytes], float]]:
    """The node with its log; yields its process and the seconds until it was active."""
    parameters: dict[str, Value] = {
        **(load_preset(run.preset) if run.preset else {}), 'backend': options.backend,
        'disparity_range': run.disparities, 'image_width': run.width,
        'image_height': run.height, **session.reliable_overrides()}
    parameters.update(parse_assignments(options.settings))
    file = folder / f'{name}.yaml'
    file.write_text(yaml.safe_dump({'/**': {'ros__parameters': parameters}}), encoding='utf-8')
    log = folder / f'{name}_node.log'
    start = time.monotonic()
    with open(log, 'wb') as output:
        process = subprocess.Popen([*session.node_command(), '--ros-args', '--params-file',
                                    str(file)], env=environment, stdin=subprocess.DEVNULL,
                                   stdout=output, stderr=output)
    try:
        while 'active: waiting for' not in log.read_text(encoding='utf-8'):
            if process.poll() is not None or time.monotonic() - start > session.START_LIMIT_S:
                sys.exit(f'the node did not start:\n{log.read_text(encoding="utf-8")}')
            time.sleep(0.02)
        ready = time.monotonic() - start
        yield process, ready
        process.send_signal(signal.SIGINT)
        process.wait(session.STOP_LIMIT_S)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        for line in log.read_text(encoding='utf-8').splitlines():
            print(f'  {line}', file=sys.stderr)


def account(run: Run, name: str, step: str, rate: float, sent: dict[str, Any],
            heard: dict[str, Any], before: dict[str, int]) -> dict[str, Any]:
    """One row: frames at every step since ``before``, and the latency."""
    diagnostics = heard['diagnostics']
    if 'pairing' not in diagnostics:
        sys.exit('no /diagnostics came from the node')
    counts = {key: int(value) for key, value in diagnostics['pairing'].items()
              if value.isdecimal()}
    new = {key: value - before.get(key, 0) for key, value in counts.items()}
    dropped = {key.removeprefix('dropped '): value for key, value in new.items()
               if key.startswith('dropped ') and value}
    received, published = new['received left'], new['published']
    waiting = new['waiting left'] + new['held']
    accounted = published + waiting + sum(
        count for key, count in dropped.items() if key.startswith(('pairs', 'left')))
    latency = {stage: common.percentiles(values) for stage, values in heard['stages_ms'].items()}
    total = latency.get('total')
    return {
        'run': name, 'step': step, 'size': f'{run.width}x{run.height}x{run.disparities}',
        'preset': run.preset, 'backend': diagnostics['device'].get('backend', ''),
        'wanted_hz': rate, 'sent_hz': sent['rate_hz'], 'camera_late_ms': sent['late_ms'],
        'camera_sending_ms': sent['sending_ms'], 'camera_stalls_s_ms': sent['stalls_s_ms'],
        'lost_at_s': [round((stamp - sent['stamps_ns'][0]) * 1e-9, 3)
                      for stamp in sorted(set(sent['stamps_ns']) - set(heard['stamps_ns']))],
        'sent': sent['sent'], 'received': received, 'published': published,
        'heard': heard['received'], 'dropped': dropped,
        'waiting': waiting, 'accounted': accounted, 'adds_up': received == accounted,
        'has_settled': heard['has_settled'],
        'lost_to_node': sent['sent'] - received, 'lost_from_node': published - heard['received'],
        'is_lossless': sent['sent'] == received == published == heard['received'],
        'wanted_ms': run.latency_ms, 'latency_ms': latency,
        'end_to_end_ms': common.percentiles(heard['end_to_end_ms']),
        'stalls_s_ms': stalls(heard['received_s'], heard['end_to_end_ms']),
        'is_in_time': None if run.latency_ms is None or total is None else bool(
            total['p50'] <= run.latency_ms[0] and total['p99'] <= run.latency_ms[1]),
        'device': diagnostics['device'], 'counts': counts}


def stalls(received_s: list[float], end_to_end_ms: list[float]) -> list[tuple[float, float]]:
    """When frames came more than 10 ms later than the median one, and the worst of each time."""
    found: list[tuple[float, float]] = []
    usual, last = np.median(end_to_end_ms) if end_to_end_ms else 0.0, -1.0
    for at, late in zip(received_s, end_to_end_ms, strict=True):
        if late > usual + 10:
            if at - last > 0.2:
                found.append((round(at - received_s[0], 2), late))
            found[-1] = found[-1][0], max(found[-1][1], late)
            last = at
    return found


def print_tables(rows: list[dict[str, Any]]) -> None:
    """Frames and latency, then stages."""
    common.print_machine()
    head, cells = common.print_head, common.print_row
    head('run', 'step', 'back end', 'Hz', 'sent', 'received', 'published', 'heard', 'dropped',
         'waiting', 'p50', 'p95', 'p99', 'max', 'wanted p50, p99', 'end to end p50, p99')
    for row in rows:
        total, whole = (row['latency_ms'].get('total') or {}), (row['end_to_end_ms'] or {})
        cells(f'{row["run"]} {row["size"]}', row['step'], row['backend'],
              f'{row["sent_hz"]:.1f}', row['sent'], row['received'], row['published'],
              row['heard'], ', '.join(f'{n} {k}' for k, n in row['dropped'].items()) or 0,
              row['waiting'],
              *(f'{total.get(p, 0):.2f}' for p in ('p50', 'p95', 'p99', 'max')),
              ', '.join(f'{limit:g}' for limit in row['wanted_ms'] or ()) or '-',
              f'{whole.get("p50", 0):.2f}, {whole.get("p99", 0):.2f}')
    stages = [stage for stage in rows[0]['latency_ms'] if stage not in ('total', 'age')]
    head('run', 'step', 'Hz', *stages, 'CPU of the busiest threads, ms a frame')
    for row in rows:
        cells(row['run'], row['step'], f'{row["sent_hz"]:.0f}',
              *(f'{(row["latency_ms"].get(stage) or {}).get("p50", 0):.3f}' for stage in stages),
              ', '.join(f'{value:.2f}' for value in row['cpu_ms_per_frame']))
    head('run', 'step', 'frames', 'ready after s', f'resident MiB, growth after {SETTLED}',
         'of it anonymous', 'device MiB, change')
    for row in rows:
        if row['step'] != 'search':
            cells(row['run'], row['step'], row['sent'], f'{row["ready_s"]:.1f}',
                  f'{figure(row["resident_mib"])}, {figure(row["resident_growth_mib"])}',
                  figure(row['anonymous_growth_mib']),
                  f'{figure(row["device_mib"])}, {figure(row["device_change_mib"])}')
    for row in rows:
        if row['lost_at_s'] or row['step'] == 'long':
            print(f'\n{row["run"]}, {row["step"]} at {row["sent_hz"]:.0f} Hz: not heard of at '
                  f'{row["lost_at_s"]} s; camera late or sending for long '
                  f'(at s, late ms, sending ms): {row["camera_stalls_s_ms"]}; '
                  f'results late (at s, ms): {row["stalls_s_ms"]}')


def figure(value: float | None) -> str:
    """One decimal, or a dash for what was not measured."""
    return '-' if value is None else f'{value:.1f}'


if __name__ == '__main__':
    sys.exit(main())
