"""Runs tests as other machines would: ``make test-portable``.

    elsewhere: core, cli, evaluation and packaging on one core, as a user who can read the tree but
               not write it, in another time zone, in random order, without real data, with the
               linear algebra of a processor that has AVX-512
    generic:   engines/cpu and presets, compiled for the oldest x86-64 processor, with the linear
               algebra of one that has AVX2

What a machine cannot do is left out and named. Each run has a home and caches of its own, so that
nobody takes the kernels of another processor. They run side by side where there are two cores.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent

#: Owns nothing.
NOBODY = 65534

USER = ('setpriv', f'--reuid={NOBODY}', f'--regid={NOBODY}', '--clear-groups')
#: For an interpreter in a folder of root's: reads everything, and writes no more than without.
READER = (*USER, '--inh-caps=-all,+dac_read_search', '--ambient-caps=-all,+dac_read_search')

ZONE = 'Asia/Kathmandu'

#: Reads the package and what is installed, and starts another process, as tests do.
_PROBE = """
import stereo_bp_ros, pytest, subprocess, sys
subprocess.run([sys.executable, '-c', 'import pytest'], check=True)
"""

PYTEST = (sys.executable, '-m', 'pytest', '-q', '-p', 'no:cacheprovider')


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Shuffle modules, and the tests of each, by the seed in ``TEST_ORDER_SEED``."""
    if seed := os.environ.get('TEST_ORDER_SEED'):
        draw = random.Random(seed).random
        places = {path: draw() for path in dict.fromkeys(item.path for item in items)}
        items.sort(key=lambda item: (places[item.path], draw()))


@dataclasses.dataclass(frozen=True)
class Run:
    """Tests, and what is told to them.

    coretypes: kernels of OpenBLAS and the flag of a processor that can run them, best first.
    as_visitor: by another user, who has no real data.
    """

    name: str
    tests: tuple[str, ...]
    coretypes: Mapping[str, str]
    environment: Mapping[str, str]
    as_visitor: bool = False


def runs(seed: str) -> tuple[Run, Run]:
    """Both runs; ``seed`` is that of the order of tests."""
    return (Run('elsewhere', ('test/core', 'test/cli', 'test/evaluation', 'test/packaging'),
                {'SkylakeX': 'avx512vl', 'Nehalem': 'sse4_2'},
                {'TZ': ZONE, 'TEST_ORDER_SEED': seed}, as_visitor=True),
            Run('generic', ('test/engines/cpu', 'test/core/test_presets.py',
                            'test/core/test_best_preset.py'),
                {'Haswell': 'avx2'}, {'NUMBA_CPU_NAME': 'generic'}))


def coretype(run: Run, flags: set[str]) -> tuple[str | None, list[str]]:
    """The first of a run's kernels of OpenBLAS that a processor has, and what is left out."""
    missing: list[str] = []
    for name, flag in run.coretypes.items():
        if flag in flags:
            return name, missing
        missing.append(f'OPENBLAS_CORETYPE={name}: this processor has no {flag}')
    return None, missing


def processor_flags() -> set[str]:
    """As Linux names them; none where the processor is no x86-64."""
    lines = pathlib.Path('/proc/cpuinfo').read_text().splitlines()
    return next((set(line.split()) for line in lines if line.startswith('flags')), set())


def other_user() -> tuple[tuple[str, ...], str]:
    """What a command begins with for another user to run it, and what is left out."""
    if os.geteuid() != 0:
        return (), 'another user and a read-only tree: only root can become another user'
    for prefix in (USER, READER) if shutil.which(USER[0]) else ():
        # setpriv itself may still start what the user it becomes may not.
        if subprocess.run([*prefix, sys.executable, '-c', _PROBE],
                          cwd=REPOSITORY, env={**os.environ, 'PYTHONPATH': str(REPOSITORY)},
                          capture_output=True, check=False).returncode == 0:
            return prefix, ''
    return (), 'another user and a read-only tree: setpriv cannot make one that reads this tree'


def start(run: Run, core: int, home: pathlib.Path, log: pathlib.Path, options: Sequence[str]
          ) -> subprocess.Popen[bytes]:
    """Begin a run on one core, with a folder for all that it writes; says what is left out."""
    kernels, left_out = coretype(run, processor_flags())
    prefix: tuple[str, ...] = ()
    if run.as_visitor:
        prefix, why = other_user()
        left_out += [why] if why else []
    if 'TZ' in run.environment and not pathlib.Path('/usr/share/zoneinfo', ZONE).is_file():
        left_out.append(f'TZ={ZONE}: there is no such time zone here, so that it is UTC')
    for what in left_out:
        print(f'{run.name}: left out: {what}')
    own = {'HOME': '', 'XDG_CACHE_HOME': 'cache', 'TMPDIR': 'tmp',
           'HYPOTHESIS_STORAGE_DIRECTORY': 'examples',
           **({'STEREO_BP_DATA': 'no_data'} if run.as_visitor else {})}
    for folder in own.values():
        (home / folder).mkdir(parents=True, exist_ok=True)
        if prefix:
            os.chown(home / folder, NOBODY, NOBODY)
    told = {**run.environment, **({'OPENBLAS_CORETYPE': kernels} if kernels else {})}
    print(f'{run.name}: core {core}, user {NOBODY if prefix else os.geteuid()},',
          ' '.join(f'{name}={value}' for name, value in told.items()), flush=True)
    with open(log, 'wb') as file:
        return subprocess.Popen(
            ['taskset', '--cpu-list', str(core), *prefix, *PYTEST, *run.tests, *options],
            cwd=REPOSITORY, stdout=file, stderr=subprocess.STDOUT,
            env={**{name: value for name, value in os.environ.items()
                    if not name.startswith('XDG_')},
                 **{name: str(home / folder) for name, folder in own.items()}, **told})


def main(options: Sequence[str]) -> int:
    """Both runs with these options of pytest's, and their logs; returns the exit status."""
    seed = os.environ.get('TEST_ORDER_SEED') or str(random.SystemRandom().randrange(10**6))
    cores = sorted(os.sched_getaffinity(0))
    began, failed = time.monotonic(), False
    with tempfile.TemporaryDirectory(prefix='stereo_bp_') as folder:
        place = pathlib.Path(folder)
        place.chmod(0o755)
        started: list[tuple[Run, subprocess.Popen[bytes], pathlib.Path]] = []
        try:
            for run, core in zip(runs(seed), (cores[0], cores[-1]), strict=True):
                if started and len(cores) == 1:
                    started[-1][1].wait()
                log = place / f'{run.name}.log'
                started.append((run, start(run, core, place / run.name, log, options), log))
            for run, process, log in started:
                # 5 = the options choose no test of this run.
                status = process.wait()
                failed |= status not in (0, 5)
                print(f'\n{run.name}: status {status} after {time.monotonic() - began:.0f} s')
                sys.stdout.flush()
                sys.stdout.buffer.write(log.read_bytes())
                sys.stdout.flush()
        finally:
            for _, process, _ in started:
                process.kill()
                process.wait()
    return int(failed)


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
