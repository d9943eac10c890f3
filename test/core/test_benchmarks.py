"""Benchmarks can be imported, say how they are called, and measure."""

from __future__ import annotations

import argparse
import importlib
import itertools
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

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
NAMES = sorted(path.relative_to(REPOSITORY / 'benchmarks').with_suffix('').as_posix()
               for path in (REPOSITORY / 'benchmarks').glob('*.py'))
PROGRAMS = [name for name in NAMES if name not in ('__init__', 'common', 'frame_loop')]

#: Modules that each needs beside the package's own requirements.
NEEDS = {'node_traffic': 'rclpy', 'scale': 'distributed', 'scale_steps': 'distributed'}

pytest.importorskip('numba')


def start(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A benchmark that has run as docs say."""
    return subprocess.run([sys.executable, '-m', f'benchmarks.{name}', *map(str, arguments)],
                          cwd=REPOSITORY, capture_output=True, text=True, timeout=300,
                          check=False)


def run(name: str, *arguments: object) -> str:
    """What a benchmark prints that ends well."""
    done = start(name, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(printed: str) -> list[list[str]]:
    """Cells of the tables, without their heads."""
    lines = [line for line in printed.splitlines() if line.startswith('|')]
    starts = [i for i, line in enumerate(lines) if line.startswith('| ---')]
    return [[cell.strip() for cell in line.strip('|').split('|')]
            for i, line in enumerate(lines) if i not in starts and i + 1 not in starts]


@pytest.fixture
def sets(tmp_path: pathlib.Path,
         textured_pair: Callable[..., tuple[np.ndarray, np.ndarray]]) -> pathlib.Path:
    """A data set of one small pair, whose truth is 5 pixels everywhere."""
    (tmp_path / 'small').mkdir()
    for side, image in zip(('left', 'right'), textured_pair(160, 96, 5), strict=True):
        cv2.imwrite(str(tmp_path / 'small' / f'{side}.png'), image)
    cv2.imwrite(str(tmp_path / 'small' / 'disparity.png'), np.full((96, 160), 40, np.uint8))
    (tmp_path / 'sets.yaml').write_text(
        yaml.safe_dump({'small': {'disparities': 16, 'disparity_scale': 8}}))
    return tmp_path


@pytest.mark.parametrize('name', NAMES)
def test_every_benchmark_can_be_imported(name: str) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    importlib.import_module(f'benchmarks.{name}')


@pytest.mark.filterwarnings('ignore:.*found in sys.modules')    # by the test before
@pytest.mark.parametrize('name', [*PROGRAMS, 'gates', 'gpu_faults'])
def test_every_benchmark_says_how_it_is_called(
        name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    monkeypatch.setattr(sys, 'argv', [name, '--help'])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(f'benchmarks.{name}', run_name='__main__', alter_sys=True)
    assert ended.value.code in (None, 0)
    assert f'python -m benchmarks.{name}' in capsys.readouterr().out


def test_programs_are_timed_in_turn_after_runs_that_do_not_count() -> None:
    from benchmarks import common
    ran: list[str] = []
    times = common.in_turn({name: lambda name=name: ran.append(name) for name in 'ab'}, 2)
    assert ''.join(ran) == 'aabb' + 'ab'
    assert {name: len(found) for name, found in times.items()} == {'a': 2, 'b': 2}
    ran.clear()
    times = common.in_turn({name: lambda name=name: ran.append(name) for name in 'ab'}, 2, turn=3)
    assert ''.join(ran) == 2 * ('aaaa' + 'bbbb')
    assert {name: len(found) for name, found in times.items()} == {'a': 6, 'b': 6}


@pytest.mark.slow
def test_peers_on_the_cpu(sets: pathlib.Path) -> None:
    report = sets / 'report.json'
    found = rows(run('cpu_peers', sets, '--rounds', 1, '--size', '160x96x16', '--output', report))
    assert [row[0] for row in found] == ['small', 'street 160x96x16']
    times = json.loads(report.read_text())['median_and_minimum_ms']
    assert list(times) == [row[0] for row in found]
    assert every(0 < least <= median for pair in times.values() for median, least in pair.values())


@pytest.mark.slow
def test_an_evaluation_over_processes() -> None:
    pytest.importorskip('distributed')
    alone, one, two, killed = rows(run('scale', '--frames', 60, '--rounds', 1, '--workers', 1, 2,
                                       '--preset', 'sad_fast'))
    assert [row[0] for row in (alone, one, two, killed)] == [
        'one process', '1 worker', '2 workers', '2 workers, one is killed']
    assert every(float(row[2]) > 0 for row in (alone, one, two, killed))
    assert (alone[5:7], alone[-2:]) == (['1.00', '-'], ['-', '-'])
    for row, workers in ((one, 1), (two, 2), (killed, 2)):
        rate, relative, efficiency = (float(row[column]) for column in (2, 5, 6))
        assert relative == pytest.approx(rate / float(alone[2]), abs=0.02)
        assert efficiency == pytest.approx(relative / workers, abs=0.01)
    assert [row[9] == '-' for row in (alone, one, two, killed)] == [True, True, True, False]


@pytest.mark.parametrize('source', ['folder', 'mcap'])
def test_pairs_of_an_evaluation_come_again_and_again(tmp_path: pathlib.Path, source: str) -> None:
    pytest.importorskip('distributed')
    from benchmarks import common, scale
    from stereo_bp_ros.evaluation import sources
    scale.write(tmp_path / 'pairs', source, scale.images(common.Size(64, 48, 16), 5))
    whole = sources.Sources(sources.inputs_of([tmp_path / 'pairs']))
    chunks = list(itertools.islice(scale.again(list(whole.chunks(1)), 3), 6))
    assert [chunk.stop - chunk.start for chunk in chunks] == [1, 3, 1, 3, 2, 3]
    assert [chunk.place for chunk in chunks] == [0, 1, 4, 5, 8, 10]
    with sources.ChunkReader() as reader:
        names = [pair.name for chunk in chunks for pair in reader.read(chunk)]
    expected = [pair.name for pair in whole.pairs()]
    assert names == (3 * expected)[:13]


def scale_options(**changes: object) -> argparse.Namespace:
    return argparse.Namespace(**{'frames': 24, 'seconds': 1e5, 'pairs': 5, **changes})


@pytest.mark.slow
def test_an_evaluation_says_which_device_has_matched(tmp_path: pathlib.Path) -> None:
    """On the CPU a device is only a number."""
    pytest.importorskip('distributed')
    from benchmarks import common, scale
    size = common.Size(64, 48, 16)
    scale.write(tmp_path / 'pairs', 'folder', scale.images(size, 5))
    measured = scale.measure(tmp_path / 'pairs', scale.configuration(None, 'cpu', size),
                             scale.Run(2, devices=2), scale_options())
    assert len(measured.seen.processes) == 2
    assert {index for _, index in measured.seen.frames} == {0, 1}
    first, second = (int(part.split(': ')[1]) for part in scale.shares([measured]).split(', '))
    assert first + second == pytest.approx(100, abs=1)
    assert min(first, second) > 0


def test_frames_in_another_order_end_the_measurement() -> None:
    pytest.importorskip('distributed')
    from benchmarks import scale
    from stereo_bp_ros.evaluation.results import Result
    results = [Result(name, 64, 48, {}) for name in 'abcdeabdc']
    with pytest.raises(RuntimeError, match='frame 8 is d, which is not its turn'):
        scale.Watch(scale_options(), 1).follow(results)
    with pytest.raises(RuntimeError, match='come to an end'):
        scale.Watch(scale_options(), 1).follow(results[:7])


@pytest.mark.gpu
def test_an_evaluation_over_devices() -> None:
    pytest.importorskip('distributed')
    alone, two, killed = rows(run('scale', '--backend', 'cuda', '--preset', 'sad_fast', '--size',
                                  '320x240x64', '--frames', 400, '--seconds', 5, '--rounds', 1))
    assert (alone[1], alone[8]) == ('1', '-')
    for row in (two, killed):
        assert float(row[2]) > 0
        matched = [int(part.split(': ')[1]) for part in row[8].split(', ')]
        assert len(matched) == min(2, int(row[1]))
        assert sum(matched) == pytest.approx(100, abs=1)


@pytest.mark.slow
def test_steps_of_an_evaluation() -> None:
    pytest.importorskip('distributed')
    found = rows(run('scale_steps', '--size', '64x48x16', '--frames', 5))
    assert [row[0] for row in found][:4] == ['read and decode PGM', 'PGM from the disk',
                                             'read and decode PNG', 'PNG from the disk']
    assert [row[0] for row in found][-2:] == ['match by sad_fast, score', 'match by road, score']
    assert every(float(row[1]) > 0 for row in found)


def test_a_set_that_is_not_there_is_named(sets: pathlib.Path) -> None:
    from benchmarks import common
    with pytest.raises(ValueError, match='has no set venus; it has small'):
        list(common.sets(sets, ['venus']))


@pytest.mark.ros
@pytest.mark.slow
def test_the_node_on_the_cpu(tmp_path: pathlib.Path) -> None:
    """A busy machine may drop frames: then the benchmark says so and fails; all is counted."""
    pytest.importorskip('rclpy')
    from benchmarks import node
    report = tmp_path / 'report.json'
    done = start('node', '--backend', 'cpu', '--runs', 'bp_small', '--frames', 10, '--output',
                 report)
    row, = json.loads(report.read_text())['rows']
    assert row['has_settled']
    assert row['adds_up']
    assert (row['step'], row['sent']) == ('steady', 10)
    assert row['sent'] == row['received'] + row['lost_to_node']
    assert row['received'] == row['published'] + row['waiting'] + sum(
        count for key, count in row['dropped'].items() if key.startswith(('pairs', 'left')))
    assert row['published'] == row['heard'] + row['lost_from_node']
    assert row['heard'] > 0
    assert len(row['lost_at_s']) == row['sent'] - row['heard']
    assert set(row['latency_ms']) >= {'messages', 'total', 'age'}
    for figures in (row['latency_ms']['total'], row['end_to_end_ms']):
        assert 0 < figures['p50'] <= figures['p95'] <= figures['p99'] <= figures['max']
    said = [line for line in done.stderr.splitlines() if line.startswith('FAILED')]
    assert said == [f'FAILED bp_small, steady at 30 Hz: {reason}' for reason in node.failures(row)]
    assert done.returncode == (0 if row['is_lossless'] else 1), done.stderr
    frames, stages, memory = rows(done.stdout)
    assert frames[0] == 'bp_small 320x240x32'
    assert frames[4:8] == [str(row[name]) for name in ('sent', 'received', 'published', 'heard')]
    assert stages[0] == memory[0] == 'bp_small'


@pytest.mark.parametrize(('changes', 'reasons'), [
    ({}, []),
    ({'received': 9, 'accounted': 9, 'published': 9, 'lost_to_node': 1},
     ['1 of 10 frames were lost on the way to the node']),
    ({'published': 8, 'dropped': {'pairs: stale': 2}}, ['2 dropped, pairs: stale']),
    ({'published': 9, 'waiting': 1}, ['1 frames wait for a partner or for the engine']),
    ({'heard': 7, 'lost_from_node': 3}, ['3 of 10 results were lost on the way from the node']),
    ({'published': 9, 'lost_from_node': 0, 'accounted': 9, 'adds_up': False},
     ['of 10 frames received, 9 were published, dropped or wait']),
    ({'accounted': 9, 'adds_up': False, 'has_settled': False, 'step': 'search'},
     ['of 10 frames received, 9 were published, dropped or wait, and the counters still change']),
    ({'heard': 7, 'lost_from_node': 3, 'step': 'search'}, [])])
def test_a_run_of_the_node_fails_for_reasons_that_are_said(changes: dict[str, Any],
                                                           reasons: list[str]) -> None:
    from benchmarks import node
    row = {'step': 'steady', 'sent': 10, 'received': 10, 'published': 10, 'heard': 10,
           'dropped': {}, 'waiting': 0, 'accounted': 10, 'adds_up': True, 'has_settled': True,
           'lost_to_node': 0, 'lost_from_node': 0, **changes}
    row['is_lossless'] = row['sent'] == row['received'] == row['published'] == row['heard']
    assert node.failures(row) == reasons
