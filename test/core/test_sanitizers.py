"""The kernels' run under compute-sanitizer: its commands, and how its reports are read."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip('numba')
from benchmarks import sanitizers
from stereo_bp_ros.engines.cuda.plan import resolve, tuned_plan
from stereo_bp_ros.engines.cuda.runtime import device

CLEAN = '========= COMPUTE-SANITIZER\nmatched road\n========= ERROR SUMMARY: 0 errors\n'
WRITE = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at speckles+0x1a0
matched road
========= ERROR SUMMARY: 37 errors
========= ERROR SUMMARY: 17 errors were not printed. Use --print-limit option to adjust
"""
RACE = """========= COMPUTE-SANITIZER
matched road
========= RACECHECK SUMMARY: 3 hazards displayed (1 error, 2 warnings)
"""
NO_RACE = ('matched road\n'
           '========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n')


@pytest.mark.parametrize(('tool', 'printed', 'status', 'count'), [
    ('memcheck', CLEAN, 0, 0), ('memcheck', WRITE, 0, 37), ('racecheck', RACE, 0, 3),
    ('racecheck', NO_RACE, 0, 0), ('', 'matched road\n', 0, 0), ('', 'matched road\n', 1, None),
    ('memcheck', CLEAN.replace('matched road\n', ''), 0, None),
    ('synccheck', 'matched road\n========= Error: No attachable process found.', 255, None)])
def test_the_summary_of_a_tool_is_read(tool: str, printed: str, status: int,
                                       count: int | None) -> None:
    assert sanitizers.errors(tool, 'road', printed, status) == count


def test_a_tool_runs_one_configuration_in_a_process() -> None:
    plain = sanitizers.command('', 'road', 'sanitizer')
    assert plain == [sys.executable, '-m', 'benchmarks.sanitizers', '--match', 'road',
                     '--backend', 'cuda']
    watched = sanitizers.command('memcheck', 'road', 'sanitizer')
    assert watched[:3] == ['sanitizer', '--tool', 'memcheck']
    assert watched[-len(plain):] == plain
    assert sanitizers.command('initcheck', 'road', 'sanitizer')[-1] == '--not-cleared'


@pytest.mark.parametrize('name', sanitizers.CASES)
def test_cuda_has_every_configuration(name: str) -> None:
    case = sanitizers.CASES[name]
    resolve(case.config, device.TYPICAL)
    planned = tuned_plan(case.config, case.width, case.height, device.TYPICAL)
    assert planned.memory.total < 2**26


def test_a_configuration_matches_two_frames(capsys: pytest.CaptureFixture[str],
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, 'argv', ['', '--match', 'rectified_colour', '--backend', 'cpu'])
    sanitizers.main()
    assert capsys.readouterr().out == 'matched rectified_colour\n'


@pytest.mark.slow
def test_findings_are_printed_and_make_the_status_1(tmp_path: pathlib.Path) -> None:
    stand_in = tmp_path / 'sanitizer'
    stand_in.write_text("""#!/bin/sh
[ $2 = racecheck ] && found='RACECHECK SUMMARY: 2 hazards displayed (0 errors, 2 warnings)'
while [ "$1" != --print-limit ]; do shift; done; shift 2
[ "$found" ] || found='ERROR SUMMARY: 0 errors'
"$@"
echo "========= $found"
""")
    stand_in.chmod(0o755)
    report = tmp_path / 'report.json'
    done = subprocess.run(
        [sys.executable, '-m', 'benchmarks.sanitizers', '--backend', 'cpu', '--only', 'sad_fast',
         '--tools', 'memcheck', 'racecheck', '--jobs', '1', '--sanitizer', str(stand_in),
         '--output', str(report)],
        cwd=sanitizers.REPOSITORY, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 1, done.stderr
    row = next(line for line in done.stdout.splitlines() if line.startswith('| sad_fast'))
    assert row.split(' | ')[-2:] == ['0', '2 |']
    assert 'RACECHECK SUMMARY: 2 hazards' in done.stdout
    found = {one['tool']: one['findings'] for one in json.loads(report.read_text())['results']}
    assert found == {'': 0, 'memcheck': 0, 'racecheck': 2}


def test_a_run_without_an_end_is_killed(tmp_path: pathlib.Path,
                                        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sanitizers, 'command', lambda *_: ['sleep', '1000'])
    options = type('Options', (), {'sanitizer': '', 'backend': 'cpu', 'seconds': 0.2})()
    result = sanitizers.run('memcheck', 'road', options)
    assert result.cell == 'failed'
    assert 'killed after 0.2 s' in result.report


@pytest.mark.gpu
@pytest.mark.parametrize('is_cleared', [True, False])
def test_arrays_apart_match_on_a_gpu(is_cleared: bool) -> None:
    sanitizers.match(sanitizers.CASES['road'], 'cuda', is_cleared=is_cleared)
