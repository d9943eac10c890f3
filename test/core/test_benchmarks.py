"""Benchmarks say how they are called, and measure."""

from __future__ import annotations

import json
import pathlib
import runpy
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest
import yaml

from test.cases import every

pytest.importorskip('numba')

from benchmarks import common

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
@pytest.mark.parametrize('name', [*PROGRAMS, 'gates'])
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
def test_peers_on_the_cpu(
        tmp_path: pathlib.Path,
        textured_pair: Callable[..., tuple[np.ndarray, np.ndarray]]) -> None:
    (tmp_path / 'small').mkdir()
    for side, image in zip(('left', 'right'), textured_pair(160, 96, 5), strict=True):
        cv2.imwrite(str(tmp_path / 'small' / f'{side}.png'), image)
    cv2.imwrite(str(tmp_path / 'small' / 'disparity.png'), np.full((96, 160), 40, np.uint8))
    (tmp_path / 'sets.yaml').write_text(
        yaml.safe_dump({'small': {'disparities': 16, 'disparity_scale': 8}}))
    report = tmp_path / 'report.json'
    done = start('cpu_peers', tmp_path, '--rounds', 1, '--size', '160x96x16', '--output', report)
    assert done.returncode == 0, done.stderr
    assert [row[0] for row in rows(done.stdout)] == ['small', 'street 160x96x16']
    times = json.loads(report.read_text())['median_and_minimum_ms']
    assert list(times) == ['small', 'street 160x96x16']
    assert every(0 < least <= median for pair in times.values() for median, least in pair.values())


@pytest.mark.slow
def test_an_evaluation_over_processes() -> None:
    pytest.importorskip('distributed')
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


@pytest.mark.parametrize(('changes', 'step', 'reasons'), [
    ({}, 'steady', []),
    ({'lost_to_node': 1}, 'steady', ['1 of 10 frames were lost on the way to the node']),
    ({'dropped': {'superseded': 2}}, 'steady', ['2 dropped, superseded']),
    ({'waiting': 1}, 'steady', ['1 of 10 frames wait for a partner']),
    ({'in_progress': 1}, 'steady', ['1 of 10 frames wait for the engine']),
    ({'lost_from_node': 3}, 'steady', ['3 of 10 frames were lost on the way from the node']),
    ({'lost_from_node': 3}, 'search', [])])
def test_a_run_of_the_node_fails_for_reasons_that_are_said(
        changes: dict[str, Any], step: str, reasons: list[str]) -> None:
    from benchmarks import node
    frames = {'sent': 10, 'dropped': {}, **dict.fromkeys(
        ('lost_to_node', 'waiting', 'in_progress', 'lost_from_node'), 0), **changes}
    row = {'step': step, 'has_settled': True, 'frames': frames}
    assert node.failures(row) == reasons
    assert node.failures({**row, 'has_settled': False}) == ['the counters still change', *reasons]
