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

from test import domains
from test.cases import every

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
NAMES = sorted(path.relative_to(REPOSITORY / 'benchmarks').with_suffix('').as_posix()
               for path in (REPOSITORY / 'benchmarks').glob('*.py'))
PROGRAMS = [name for name in NAMES if name not in ('__init__', 'common', 'device', 'frame_loop')]

#: Modules that each needs beside the package's own requirements.
NEEDS = {'cuda_five_sets': 'cupy', 'device': 'cupy', 'partitions': 'cupy', 'refine_stage': 'cupy',
         'sad_sizes': 'cupy', 'tiled_schedules': 'cupy', 'node_traffic': 'rclpy',
         'points': 'rclpy', 'message_copies': 'rclpy', 'scale': 'distributed',
         'scale_steps': 'distributed'}

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


def test_what_rows_that_do_not_match_cost(sets: pathlib.Path) -> None:
    found = rows(run('vertical_offset', sets, '--backend', 'cpu', '--size', '160x96x16',
                     '--presets', 'sad_fast', '--offsets', 0, 2))
    (_, matched, _, nothing), (_, moved, _, two) = found
    assert float(moved) > float(matched) + 10
    assert (float(nothing), float(two)) == (pytest.approx(0, abs=0.1), pytest.approx(2, abs=0.1))


@pytest.mark.slow
def test_frames_with_and_without_measurements() -> None:
    found = rows(run('measurements', '--backend', 'cpu', '--size', '160x96x16', '--presets',
                     'sad_fast', '--seconds', 2, '--turns', 1))
    (_, measured, _, *without, nothing), (_, also, _, *beside, estimate) = found
    assert (measured, also, nothing) == ('no', 'yes', '-')
    assert every(float(figure) > 0 for figure in (*without, *beside, estimate))


@pytest.mark.slow
def test_storage_on_the_cpu(sets: pathlib.Path) -> None:
    from benchmarks import storage
    found = rows(run('storage', sets, '--backend', 'cpu', '--sets', 'small', '--frames', 1))
    assert [row[1] for row in found] == list(storage.CPU)
    assert found[0][3] == '1.00'
    assert every(float(row[2]) > 0 for row in found)


def test_left_right_check_on_the_cpu(sets: pathlib.Path) -> None:
    found = rows(run('left_right_check', sets, '--backend', 'cpu', '--frames', 1))
    assert [row[1] for row in found] == ['no check', 'same messages', 'second pass']
    kept, bad = ([float(row[column]) for row in found] for column in (4, 5))
    assert min(kept) > 80
    assert max(kept) == kept[0]
    assert max(bad) == bad[0] < 10


def test_rectification_inside_and_before() -> None:
    found = rows(run('rectification', '--size', '64x48x16', '--encoding', 'mono8', 'bayer_rggb8',
                     '--frames', 10))
    steps = ('convert', 'inside', 'before')
    assert [tuple(row[1:3]) for row in found] == [
        *((encoding, step) for encoding in ('mono8', 'bayer_rggb8') for step in steps),
        *((model, 'maps') for model in ('plumb_bob', 'rational_polynomial', 'equidistant'))]
    assert every(float(row[3]) >= float(row[4]) for row in found)


def test_whole_frames_of_raw_and_of_rectified_images() -> None:
    found = rows(run('rectification', '--backend', 'auto', '--size', '64x48x16', '--encoding',
                     'mono8', '--frames', 5))
    assert [row[2] for row in found] == ['convert', 'inside', *['maps'] * 3]
    assert every(float(row[3]) >= float(row[4]) > 0 for row in found)


@pytest.mark.slow
def test_an_evaluation_over_processes() -> None:
    pytest.importorskip('distributed')
    pytest.importorskip('cryptography')
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
    pytest.importorskip('cryptography')
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
    pytest.importorskip('cryptography')
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


def test_overlap_on_the_cpu() -> None:
    found = rows(run('overlap', '--backend', 'cpu', '--size', '64x48x16', '--preset', 'sad_fast',
                     '--frames', 3))
    assert [row[1] for row in found] == ['1', '2', '1', '2']
    assert every(float(row[2]) > 0 for row in found)


@pytest.mark.slow
def test_the_cost_of_a_range_on_the_cpu(sets: pathlib.Path) -> None:
    found = rows(run('search_range', sets, '--ranges', 16, 20, 24, '--frames', 1))
    assert [row[1] for row in found] == ['16', '20', '24'] * 2
    assert every(float(cell) > 0 for row in found for cell in row[2:])


@pytest.mark.slow
def test_sky_on_the_cpu(tmp_path: pathlib.Path) -> None:
    image = np.random.default_rng(0).integers(0, 200, (130, 700), dtype=np.uint8)
    image[:100, 450:650] = 255
    for folder, content in (('image_0', image), ('image_1', image),
                            ('disp_occ', np.full(image.shape, 256, np.uint16))):
        (tmp_path / folder).mkdir()
        cv2.imwrite(str(tmp_path / folder / '000000_10.png'), content)
    found = rows(run('sky', tmp_path, '--backend', 'cpu', '--frames', 1,
                     '--preset', 'road_fast', '--set', 'contrast_threshold=0,speckle_size=0'))
    assert [row[0] for row in found if ',' in row[0]][:1] == [
        '`road_fast`, contrast_threshold=0,speckle_size=0']
    assert len(found) == 10
    shares = [float(cell.split()[0]) for row in found for cell in row[1:]]
    assert len(shares) == 10 * 5
    assert every(0 <= share <= 100 for share in shares)


@pytest.mark.slow
def test_hard_street_on_the_cpu() -> None:
    found = rows(run('hard_street', '--backend', 'cpu', '--frames', 1, '--size', '320x120x32',
                     '--preset', 'sad_fast', '--set', 'correlation_window_size=9'))
    assert (found[0][0], found[-1][0]) == ('without options', 'all')
    assert found[0][4] == '-'
    bad, kept = zip(*(map(float, row[1].strip(')').split(' (')) for row in found), strict=True)
    assert bad[-1] > 2 * bad[0]
    assert min(kept) > 20


@pytest.mark.slow
def test_the_hard_street_is_drawn(tmp_path: pathlib.Path) -> None:
    run('hard_street', '--backend', 'cpu', '--size', '320x120x32', '--preset', 'sad_fast',
        '--picture', tmp_path / 'street.png')
    picture = cv2.imread(str(tmp_path / 'street.png'))
    assert picture.shape[0] > 3 * 120
    assert picture.shape[1] > 2 * 320


def test_a_set_that_is_not_there_is_named(sets: pathlib.Path) -> None:
    from benchmarks import common
    with pytest.raises(ValueError, match='has no set venus; it has small'):
        list(common.sets(sets, ['venus']))


@pytest.mark.ros
@pytest.mark.slow
def test_cameras_in_processes_and_in_one_process_account_for_every_frame(tmp_path: pathlib.Path
                                                                         ) -> None:
    pytest.importorskip('rclpy')
    report = tmp_path / 'report.json'
    printed = run('cameras', '--backend', 'cpu', '--run', 'bp_small', '--cameras', 2, '--rounds',
                  1, '--frames', 10, '--output', report)
    measured = json.loads(report.read_text())['rows']
    assert [row[:2] for row in rows(printed)] == [['2', 'processes'], ['2', 'one process']]
    for row in measured:
        assert row['sent'] == 2 * 10
        assert row['received'] == row['published'] + row['superseded'] == row['sent']
        assert 0 < row['heard'] <= row['published']
        assert row['latency_ms']['total']['p50'] > 0
        assert row['cpu_ms_per_frame'] > 0


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


@pytest.mark.gpu
@pytest.mark.parametrize(('name', 'arguments'), [
    ('cuda_five_sets', ['SETS', '--sets', 'small', '--types', 'int16', '--frames', 2,
                        '--kernels']),
    ('left_right_check', ['SETS', '--backend', 'cuda', '--frames', 2]),
    ('overlap', ['--size', '64x48x16', '--frames', 2]),
    ('partitions', ['--frames', 1]),
    ('refine_stage', ['--size', '320x240x32', '--repeats', 5]),
    ('sad_sizes', ['--size', '320x240x32', '--windows', 5, '--repeats', 3]),
    ('storage', ['SETS', '--sets', 'small', '--part', 'storage', '--part', 'layouts',
                 '--frames', 2]),
    ('tiled_schedules', ['SETS', '--sets', 'small', '--frames', 2])])
def test_benchmarks_on_a_gpu(name: str, arguments: list[object], sets: pathlib.Path) -> None:
    pytest.importorskip('cupy')
    from stereo_bp_ros.engines.cuda.runtime import device
    if device.unavailable(0):
        pytest.skip('needs an NVIDIA GPU')
    assert rows(run(name, *(sets if part == 'SETS' else part for part in arguments)))


@pytest.mark.slow
@pytest.mark.ros
def test_points_are_timed_as_the_node_publishes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip('rclpy')
    with domains.domain() as number:
        monkeypatch.setenv('ROS_DOMAIN_ID', str(number))
        printed = rows(run('points', '--size', '161x96x16', '--frames', 2))
    assert [row[:3] for row in printed] == [
        ['mono8', '1', 'kept'], ['bgr8', '1', 'kept'], ['mono8', '1', 'left out'],
        ['mono8', '2', 'kept'], ['mono8', '2', 'left out'], ['mono8', '4', 'kept']]
    assert every(float(milliseconds) > 0 for row in printed for milliseconds in row[4:])


@pytest.mark.ros
def test_copies_of_messages_are_timed_alone_and_on_their_way(monkeypatch: pytest.MonkeyPatch
                                                             ) -> None:
    pytest.importorskip('rclpy')
    with domains.domain() as number:
        monkeypatch.setenv('ROS_DOMAIN_ID', str(number))
        found = rows(run('message_copies', '--size', '96x64x8', '--frames', 5, '--rounds', 1,
                         '--variants', 'asynchronous'))
    copies, sent = [row for row in found if len(row) == 4], [
        row for row in found if row[0] == '96x64x8']
    assert {row[0] for row in copies} == {'6144', '24576'}
    assert every(float(row[2]) >= 0 for row in copies)
    assert [row[1:3] for row in sent] == [['asynchronous', '5, 5']]
    assert 0 < float(sent[0][3]) < float(sent[0][4])
