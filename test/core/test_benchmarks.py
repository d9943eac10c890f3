"""Benchmarks say how they are called, and measure."""

from __future__ import annotations

import json
import pathlib
import runpy
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

from test.cases import every

pytest.importorskip('numba')

from benchmarks import common, gpu_faults, sanitizers
from benchmarks.frame_loop import FrameLoop
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.engines.cuda.plan import plan_of, resolve
from stereo_bp_ros.engines.cuda.runtime import device
from stereo_bp_ros.matcher.stereo_matcher import StereoMatcher

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = sorted({path.stem for path in (REPOSITORY / 'benchmarks').glob('*.py')}
                  - {'__init__', 'common', 'frame_loop'})


def start(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A benchmark that has run as docs say."""
    return subprocess.run([sys.executable, '-m', f'benchmarks.{name}', *map(str, arguments)],
                          cwd=REPOSITORY, capture_output=True, text=True, timeout=300,
                          check=False)


def rows(printed: str) -> list[list[str]]:
    """Cells of the tables, without their heads."""
    lines = [line for line in printed.splitlines() if line.startswith('|')]
    starts = [i for i, line in enumerate(lines) if line.startswith('| ---')]
    return [[cell.strip() for cell in line.strip('|').split('|')]
            for i, line in enumerate(lines) if i not in starts and i + 1 not in starts]


@pytest.mark.filterwarnings('ignore:.*found in sys.modules')    # by another test
@pytest.mark.parametrize('name', [*PROGRAMS, 'gates', 'papers'])
def test_every_benchmark_says_how_it_is_called(
        name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    if name == 'node_traffic':
        pytest.importorskip('rclpy')
    monkeypatch.setattr(sys, 'argv', [name, '--help'])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(f'benchmarks.{name}', run_name='__main__', alter_sys=True)
    assert ended.value.code in (None, 0)
    assert f'python -m benchmarks.{name}' in capsys.readouterr().out


@pytest.mark.parametrize(('program', 'reason'), [
    ('raise OSError("no such device")', 'ended with status 1: OSError: no such device'),
    ('import time; time.sleep(100)', 'ended with status -9: nothing on standard error'),
    ('print(\'{"error": "nobody subscribes"}\')', 'helper: nobody subscribes')])
def test_a_helper_that_does_not_answer_is_named_with_the_reason(
        tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, program: str, reason: str
        ) -> None:
    (tmp_path / 'a_helper.py').write_text(program)
    monkeypatch.setenv('PYTHONPATH', str(tmp_path))
    limit = 0.2 if 'sleep' in program else 60
    with common.Helper('a_helper', log=tmp_path / 'helper.log', limit_s=limit) as helper, \
            pytest.raises(common.HelperError, match=reason):
        helper.ask(what='now')


@pytest.mark.slow
def test_an_evaluation_over_processes() -> None:
    done = start('scale', '--frames', 300, '--workers', 2)
    assert done.returncode == 0, done.stderr
    (alone, rate, *_), (two, other, relative, efficiency, *_) = rows(done.stdout)
    assert (alone, two) == ('one process', '--workers 2')
    assert float(relative) == pytest.approx(float(other) / float(rate), rel=0.1)
    assert float(efficiency) == pytest.approx(float(relative) / 2, abs=0.01)


@pytest.mark.ros
@pytest.mark.slow
def test_the_node_on_the_cpu(tmp_path: pathlib.Path) -> None:
    """A busy machine may drop frames: then the benchmark says so and fails."""
    pytest.importorskip('rclpy')
    from benchmarks import node
    report = tmp_path / 'report.json'
    done = start('node', '--backend', 'cpu', '--runs', 'bp_small', '--frames', 10, '--output',
                 report)
    row, = json.loads(report.read_text())['rows']
    assert row['has_settled']
    assert (row['step'], row['frames']['sent'], row['backend']) == ('steady', 10, 'cpu')
    assert row['frames']['recorded'] > 0
    assert set(row['latency_ms']) >= {'messages', 'total', 'age'}
    for figures in (row['latency_ms']['total'], row['end_to_end_ms']):
        assert 0 < figures['p50'] <= figures['p95'] <= figures['p99'] <= figures['max']
    said = [line for line in done.stderr.splitlines() if line.startswith('FAILED')]
    assert said == [f'FAILED bp_small, steady at 30 Hz: {reason}' for reason in node.failures(row)]
    assert done.returncode == (1 if said else 0), done.stderr
    frames, stages = rows(done.stdout)
    assert frames[:3] == ['bp_small 320x240x32', 'steady', 'cpu']
    assert stages[0] == 'bp_small'


def test_a_run_of_the_node_fails_for_reasons_that_are_said() -> None:
    from benchmarks import node
    frames = {'sent': 10, 'dropped': {'superseded': 2}, 'lost_to_node': 1, 'waiting': 2,
              'in_progress': 3, 'lost_from_node': 4}
    row = {'step': 'steady', 'has_settled': False, 'frames': frames}
    assert node.failures(row) == [
        'the counters still change', '1 of 10 frames were lost on the way to the node',
        '2 of 10 frames wait for a partner', '3 of 10 frames wait for the engine',
        '4 of 10 frames were lost on the way from the node', '2 dropped, superseded']
    sound = {**dict.fromkeys(frames, 0), 'sent': 10, 'dropped': {}}
    assert node.failures({**row, 'has_settled': True, 'frames': sound}) == []
    lost = {**sound, 'lost_from_node': 4}
    assert node.failures({**row, 'has_settled': True, 'step': 'search', 'frames': lost}) == []


# Failing GPUs

def test_a_published_frame_with_other_bits_is_a_wrong_one(
        textured_pair: Callable[..., tuple[np.ndarray, np.ndarray]]) -> None:
    config = MatcherConfig(disparity_range=8, stereo_algorithm='sad', backend='cpu')
    left, right = textured_pair(64, 48, 3)
    with StereoMatcher(config) as matcher:
        expected = np.array(matcher.compute(left, right).disparity)
    changed = expected.copy()
    changed[24, 32] = np.nextafter(changed[24, 32], np.float32(9))
    loop = FrameLoop([left, left], [right, right], [expected, changed])
    loop.build(config)
    counts = loop.frames(6)
    loop.host.release()
    assert (counts['right'], counts['wrong'], counts['none'], len(counts['ms'])) == (3, 3, 0, 6)


@pytest.mark.parametrize('name', ['FAULT', 'LOAD'])
def test_kernels_of_the_benchmark_compile(name: str) -> None:
    pytest.importorskip('cupy')
    from cupy_backends.cuda.libs import nvrtc
    program = nvrtc.createProgram(getattr(gpu_faults, name), f'{name}.cu', (), ())
    nvrtc.compileProgram(program, ('-arch=sm_90',))
    assert nvrtc.getCUBIN(program)


@pytest.mark.slow
def test_a_loss_can_be_rehearsed_without_a_gpu(tmp_path: pathlib.Path) -> None:
    report = tmp_path / 'report.json'
    done = start('gpu_faults', '--backend', 'cpu', '--size', '64x48x16', '96x64x16', '--output',
                 report)
    assert done.returncode == 0, done.stderr
    lost = json.loads(report.read_text())['rows']
    assert [row['status'] for row in lost] == ['3', '0', '3', '0', '0']
    assert every(not row['wrong'] and row['none'] == 1 and row['right'] > 20 and row['again_s']
                 for row in lost)


# Kernels under compute-sanitizer

CLEAN = '========= COMPUTE-SANITIZER\nmatched road\n========= ERROR SUMMARY: 0 errors\n'
WRITE = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at speckles+0x1a0
matched road
========= ERROR SUMMARY: 37 errors
========= ERROR SUMMARY: 17 errors were not printed. Use --print-limit option to adjust
"""
RACE = ('matched road\n'
        '========= RACECHECK SUMMARY: 3 hazards displayed (1 error, 2 warnings)\n')


@pytest.mark.parametrize(('tool', 'printed', 'status', 'count'), [
    ('memcheck', CLEAN, 0, 0), ('memcheck', WRITE, 0, 37), ('racecheck', RACE, 0, 3),
    ('', 'matched road\n', 0, 0), ('', 'matched road\n', 1, None),
    ('memcheck', CLEAN.replace('matched road\n', ''), 0, None),
    ('synccheck', 'matched road\n========= Error: No attachable process found.', 255, None)])
def test_the_summary_of_a_tool_is_read(tool: str, printed: str, status: int,
                                       count: int | None) -> None:
    assert sanitizers.errors(tool, 'road', printed, status) == count


def test_cuda_has_every_configuration_that_a_tool_runs() -> None:
    for case in sanitizers.CASES.values():
        resolve(case.config, device.TYPICAL)
        planned = plan_of(case.config, case.width, case.height, device.TYPICAL)
        assert planned.memory.total < 2**26, case


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
    done = start('sanitizers', '--backend', 'cpu', '--only', 'sad_fast', '--tools', 'memcheck',
                 'racecheck', '--jobs', 1, '--sanitizer', stand_in, '--output', report)
    assert done.returncode == 1, done.stderr
    row = next(line for line in done.stdout.splitlines() if line.startswith('| sad_fast'))
    assert row.split(' | ')[-2:] == ['0', '2 |']
    assert 'RACECHECK SUMMARY: 2 hazards' in done.stdout
    counts = {one['tool']: one['findings'] for one in json.loads(report.read_text())['results']}
    assert counts == {'': 0, 'memcheck': 0, 'racecheck': 2}


@pytest.mark.gpu
@pytest.mark.parametrize('is_cleared', [True, False])
def test_arrays_apart_match_on_a_gpu(is_cleared: bool) -> None:
    sanitizers.match(sanitizers.CASES['road_full'], 'cuda', is_cleared=is_cleared)
