"""Feed what comes from outside with damaged inputs, on all cores, and report what breaks.

    python -m test.fuzz --cases 1000000 --seed 1 --output build/fuzz/report.json
    python -m test.fuzz --target pfm --cases 1000
    python -m test.fuzz --target pfm --input FILE      # one case again

Case number N of a seed is always the same. A case fails by an exception that is not documented,
a warning of NumPy, more than 5 s of processor time, 256 MiB more memory, or the end of its
process. The status is 1 where one has failed. ROS's own parser ends the process of some cases:
these are counted.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import functools
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from test.fuzz import inputs
from test.fuzz.targets import TARGETS, Target

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = 'stereo_bp_ros'

#: Limits of one case: seconds of the processor, seconds of the clock, and KiB of memory.
MAX_WORK, MAX_SECONDS, MAX_MEMORY = 5.0, 60.0, 256 * 1024

Finding = dict[str, Any]


class Hung(BaseException):
    """Nothing but the fuzzer catches it."""


def main() -> None:
    """Read the command line and print what was found."""
    parser = argparse.ArgumentParser(prog='python -m test.fuzz', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--cases', type=int, default=1_000_000, metavar='N')
    parser.add_argument('--seed', type=int, default=0, metavar='S')
    parser.add_argument('--target', action='append', metavar='NAME', help='default: all')
    parser.add_argument('--jobs', type=int, default=len(os.sched_getaffinity(0)), metavar='N',
                        help='processes at a time')
    parser.add_argument('--output', type=pathlib.Path, metavar='FILE', help='write JSON there')
    parser.add_argument('--input', type=pathlib.Path, metavar='FILE', help='run this one case')
    parser.add_argument('--worker', help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(**json.loads(options.worker))
        return
    names = options.target or list(TARGETS)
    if unknown := set(names) - set(TARGETS):
        parser.error(f'no target {", ".join(unknown)}; known are {", ".join(TARGETS)}')
    if options.input:
        with limits(), tempfile.TemporaryDirectory() as folder:
            found = tried(TARGETS[names[0]], options.input.read_bytes(), pathlib.Path(folder))
        print(found['traceback'] if found else 'nothing found')
        sys.exit(1 if found else 0)
    report = fuzz(names, options.cases, options.seed, options.jobs)
    show(report)
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(report, indent=1) + '\n', encoding='utf-8')
    sys.exit(1 if report['findings'] else 0)


def fuzz(names: list[str], cases: int, seed: int, jobs: int) -> dict[str, Any]:
    """All cases of the targets in processes; the report."""
    start = time.monotonic()
    shares = {name: TARGETS[name].share for name in names}
    counts = {name: round(cases * share / sum(shares.values())) for name, share in shares.items()}
    # The slowest first; a process has enough to do to be worth its start.
    parts = [(name, first, min(first + size, counts[name]))
             for name in sorted(names, key=shares.__getitem__)
             for size in [max(200, -(-counts[name] // jobs))]
             for first in range(0, counts[name], size)]
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        done = list(pool.map(lambda part: run_part(*part, seed, pathlib.Path(folder)), parts))
    return {'seed': seed,
            **{key: {name: sum(one[key] for one in done if one['target'] == name)
                     for name in names} for key in ('cases', 'refused', 'crashes')},
            'findings': merged(found for one in done for found in one['findings']),
            'seconds': round(time.monotonic() - start, 1)}


def run_part(name: str, first: int, end: int, seed: int, folder: pathlib.Path) -> dict[str, Any]:
    """Cases of one target in a process, and again from the next one on where that has died."""
    total: dict[str, Any] = {'target': name, 'cases': end - first, 'refused': 0, 'crashes': 0,
                             'findings': []}
    result = folder / f'{name}.{first}.json'
    while first < end:
        arguments = {'name': name, 'first': first, 'end': end, 'seed': seed, 'result': str(result)}
        done = subprocess.run(
            [sys.executable, '-m', 'test.fuzz', '--worker', json.dumps(arguments)],
            cwd=REPOSITORY, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            errors='replace', check=False,
            env={**os.environ, 'NUMBA_NUM_THREADS': '3', 'OPENCV_LOG_LEVEL': 'SILENT'})
        if result.is_file():
            found = json.loads(result.read_text())
            total['refused'] += found['refused']
            total['findings'] += found['findings']
            break
        place = result.with_suffix('.place')
        number = int(place.read_text()) if place.is_file() else first
        if TARGETS[name].crashes:
            total['crashes'] += 1
        else:
            total['findings'].append({
                'target': name, 'error': f'the process ended with {done.returncode}',
                'place': '', 'traceback': done.stderr[-2000:], 'case': number,
                'input': case(name, seed, number).hex(), 'times': 1})
        first = number + 1
    return total


def work(name: str, first: int, end: int, seed: int, result: str) -> None:
    """A part of the cases in this process, whose number is kept in a file while each runs."""
    path = pathlib.Path(result)
    with open(path.with_suffix('.place'), 'wb') as file:
        found = run_cases(name, first, end, seed, lambda number: os.pwrite(
            file.fileno(), b'%20d' % number, 0))
    path.write_text(json.dumps(found))


def run_cases(name: str, first: int, end: int, seed: int,
              begin: Callable[[int], object] = lambda number: None) -> dict[str, Any]:
    """Cases of one target in this process.

    :param begin: is told the number of each case before it runs.
    """
    findings: list[Finding] = []
    refused = 0
    with limits(), tempfile.TemporaryDirectory() as folder:
        for number in range(first, end):
            begin(number)
            data = case(name, seed, number)
            found = tried(TARGETS[name], data, pathlib.Path(folder))
            if found:
                found |= {'target': name, 'case': number, 'input': data.hex(), 'times': 1}
                findings = merged([*findings, found])
            refused += found == {}
    return {'refused': refused, 'findings': findings}


def case(name: str, seed: int, number: int) -> bytes:
    """The bytes of a case; the first ones are the sound inputs and those that are kept."""
    known = corpus(name)
    if number < len(known):
        return known[number]
    return inputs.damaged(random.Random(f'{name} {seed} {number}'), known)


@functools.cache
def corpus(name: str) -> list[bytes]:
    """What the cases of a target are made from."""
    return [*TARGETS[name].corpus(), *inputs.kept(name)]


@contextlib.contextmanager
def limits() -> Iterator[None]:
    """Warnings of NumPy are errors, and a case that hangs is one, too."""
    def stop(*_: object) -> None:
        raise Hung(f'more than {MAX_SECONDS} s')
    previous = signal.signal(signal.SIGALRM, stop)
    with warnings.catch_warnings():
        warnings.filterwarnings('error', category=RuntimeWarning)
        yield
    signal.signal(signal.SIGALRM, previous)


def tried(target: Target, data: bytes, folder: pathlib.Path) -> Finding | None:
    """Run one case: None where it was taken, {} where it was refused, else what was found.

    One that takes too much runs again: the first time may import and compile.
    """
    found = _once(target, data, folder)
    return _once(target, data, folder) if found and 'limits' in found else found


def _once(target: Target, data: bytes, folder: pathlib.Path) -> Finding | None:
    # Has the kernel count the most memory from here on.
    pathlib.Path('/proc/self/clear_refs').write_text('5')
    before, start = memory(), time.process_time()
    refused = False
    signal.setitimer(signal.ITIMER_REAL, MAX_SECONDS)
    try:
        target.run(data, folder)
    except target.errors as error:
        if target.file not in str(error):
            return finding(error, f'the error does not name {target.file}: ')
        if inputs.NUMPY_SCALAR.search(str(error)):
            return finding(error, 'the error shows a number as NumPy does: ')
        refused = True
    except Hung as error:
        return {**finding(error), 'limits': [MAX_SECONDS]}
    except Exception as error:
        return finding(error)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    seconds = time.process_time() - start
    more = memory() - before
    if seconds > MAX_WORK or more > MAX_MEMORY:
        return {**finding(RuntimeError(f'{seconds:.1f} s and {more // 1024} MiB')),
                'limits': [MAX_WORK, MAX_MEMORY // 1024]}
    return {} if refused else None


def memory() -> int:
    """The most that this process has had since ``clear_refs``, KiB."""
    return int(re.search(r'^VmHWM:\s+(\d+) kB$', pathlib.Path('/proc/self/status').read_text(),
                         re.MULTILINE)[1])      # type: ignore[index]


def finding(error: BaseException, before: str = '') -> Finding:
    """What is reported of an exception: the last place in the package tells findings apart."""
    stack = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in stack if f'/{PACKAGE}/' in frame.filename] or stack
    place = f'{ours[-1].filename.rpartition("/")[2]}:{ours[-1].lineno}' if ours else ''
    return {'error': f'{before}{type(error).__name__}: {error}'[:500], 'place': place,
            'traceback': ''.join(traceback.format_exception(error))[-3000:]}


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """One of each kind, the shortest input, with how often it came."""
    kinds: dict[tuple[str, ...], Finding] = {}
    for one in findings:
        key = (one['target'], one['error'].split(':')[0], one['place'])
        known = kinds.setdefault(key, {**one, 'times': 0})
        best = min(known, one, key=lambda each: len(each['input']))
        kinds[key] = {**best, 'times': known['times'] + one['times']}
    return list(kinds.values())


def show(report: dict[str, Any]) -> None:
    """Print a report as tables."""
    print('| target | cases | refused | ends of other parsers |\n| --- | --- | --- | --- |')
    for name, count in report['cases'].items():
        print(f'| {name} | {count} | {report["refused"][name]} | {report["crashes"][name]} |')
    for one in report['findings']:
        print(f'\n{one["target"]}, case {one["case"]}, {one["times"]} times, {one["place"]}:\n'
              f'{one["traceback"]}\ninput: {one["input"][:400]}')
    print(f'\n{sum(report["cases"].values())} cases, {len(report["findings"])} findings, '
          f'{report["seconds"]} s, seed {report["seed"]}')


if __name__ == '__main__':
    main()
