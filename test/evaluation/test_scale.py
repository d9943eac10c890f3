"""An evaluation spread over processes is the one of one process, whatever becomes of them."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import math
import multiprocessing
import os
import pathlib
import re
import signal
import sys
import time
from collections.abc import Generator

import numpy as np
import pytest

from stereo_bp_ros import Calibration, MatcherConfig
from stereo_bp_ros.cli import evaluate_report, evaluate_scale, progress
from stereo_bp_ros.cli.evaluate_scale import for_workers
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.evaluation import scale
from stereo_bp_ros.evaluation.method import Method
from stereo_bp_ros.evaluation.results import Result
from stereo_bp_ros.evaluation.runs import Evaluation
from stereo_bp_ros.images import files
from stereo_bp_ros.sources.pairs import Sources, inputs_of
from stereo_bp_ros.system import transport
from test.cases import every

pytest.importorskip('numba')
bags = pytest.importorskip('stereo_bp_ros.sources.bags')
psutil = pytest.importorskip('psutil')


PAIRS = 16


CONFIG = MatcherConfig(stereo_algorithm='sad', disparity_range=16, backend='cpu', num_threads=1)
METHOD = Method(repeat=1)
COMMAND = [sys.executable, '-m', 'stereo_bp_ros.cli.main', 'evaluate', '--repeat', '1',
           '--backend', 'cpu', '--set', 'stereo_algorithm=sad', '--set', 'disparity_range=16']

#: Figures of two runs that differ: times, memory of the process, and what the machine was doing.
OWN = {'times_ms', 'median_ms', 'stages_ms', 'latency_ms', 'device_ms', 'process_bytes', 'date',
       'machine', 'workers'}


@pytest.fixture(scope='module')
def folder(tmp_path_factory, textured_pair) -> pathlib.Path:
    """Pairs of several disparities, without stamps."""
    path = tmp_path_factory.mktemp('scale') / 'pairs'
    for index in range(PAIRS):
        for side, image in zip(('left', 'right'), textured_pair(64, 48, 3 + index % 5, index),
                               strict=True):
            (path / side).mkdir(parents=True, exist_ok=True)
            files.write_image(path / side / f'pair{index}.png', image)
    return path


@pytest.fixture(scope='module')
def bag(tmp_path_factory, textured_pair) -> pathlib.Path:
    """The same as a bag with truth."""
    path = tmp_path_factory.mktemp('scale') / 'bag'
    bags.write_bag(path, Calibration(100, 0.5, 32, 32, 24), (
        (10**18 + index * 10**8, *textured_pair(64, 48, 3 + index % 5, index),
         np.full((48, 64), 3 + index % 5, np.float32)) for index in range(PAIRS)))
    return path


def scores(value: object) -> object:
    """The same without times."""
    if isinstance(value, dict):
        return {key: scores(one) for key, one in value.items()
                if key not in OWN and not key.startswith('BasicPerformanceMetrics.')}
    return [scores(one) for one in value] if isinstance(value, list) else value


def of(path: pathlib.Path) -> Sources:
    return Sources(inputs_of([path]))


def serial(path: pathlib.Path) -> list[object]:
    with Evaluation({'sad': CONFIG}, method=METHOD) as evaluation:
        return [scores(one.to_dict()) for one in scale.judge_here(evaluation, of(path),
                                                                  scale.Run())]


def two(path: pathlib.Path, run: scale.Run | None = None
        ) -> contextlib.closing[Generator[Result, None, None]]:
    """Results of two processes."""
    make = functools.partial(scale.on_device, {'sad': CONFIG}, (), METHOD, 0)
    return contextlib.closing(scale.spread(make, of(path), run or scale.Run(), 2))


def processes() -> set[str]:
    """Ids of the workers there are."""
    return {str(process.pid) for process in multiprocessing.active_children()}


@pytest.mark.parametrize('kind', ['folder', 'bag'])
def test_processes_find_what_one_process_finds_in_the_same_order(request, kind):
    path, run = request.getfixturevalue(kind), scale.Run()
    with two(path, run) as results:
        found = [scores(next(results).to_dict())]
        # What one process has found by now does not wait for the rest of its chunk.
        assert run.backend == 'cpu'
        # An image is copied into memory that stays; linear algebra takes one thread.
        wanted = {**scale.ONE_THREAD, **transport.kept_memory({})}
        assert processes()
        assert every(psutil.Process(int(pid)).environ().items() >= wanted.items()
                     for pid in processes())
        found += [scores(result.to_dict()) for result in results]
    assert found == serial(path)
    assert len(found) == PAIRS
    assert not processes()
    assert 'OMP_NUM_THREADS' not in os.environ


class Collector:
    """What all chunks have collected is what one of them has."""

    def __add__(self, other):
        return self


class Waits(Collector):
    """Writes the process and the evaluation that have judged a pair; one waits for another."""

    def __init__(self, folder: pathlib.Path, name: str) -> None:
        self.folder = folder
        self.name = name

    def collect(self, place, evaluation, matched) -> None:
        (self.folder / f'{matched.result.name}.{os.getpid()}.{id(evaluation)}').touch()
        deadline = time.monotonic() + 60
        while matched.result.name == self.name and time.monotonic() < deadline and len(
                self.judges()) < 2:
            time.sleep(0.05)

    def judges(self) -> set[tuple[str, str]]:
        return {tuple(path.name.split('.')[1:]) for path in self.folder.iterdir()}


def test_results_wait_for_those_before_them_and_engines_stay_from_chunk_to_chunk(
        folder, tmp_path):
    waits = Waits(tmp_path, 'pair1')
    with two(folder, scale.Run(waits)) as results:
        found = [result.name for result in results]
    assert found == [f'pair{index}' for index in range(PAIRS)]
    assert len(list(tmp_path.iterdir())) == PAIRS
    # Of two processes each has one, although there are more chunks.
    assert len(waits.judges()) == len({pid for pid, _ in waits.judges()}) == 2


class Deadly(Collector):
    """Ends the process that judges a pair, as the system does where memory is short."""

    def __init__(self, folder: pathlib.Path, name: str) -> None:
        self.folder = folder
        self.name = name

    def collect(self, place, evaluation, matched) -> None:
        if matched.result.name == self.name:
            (self.folder / str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize('kind', ['folder', 'bag'])
def test_a_killed_worker_ends_it_behind_what_is_sound_and_its_input_is_named(
        request, tmp_path, kind):
    path, place = request.getfixturevalue(kind), 9
    name = serial(path)[place]['name']
    of_chunk = 'pairs 9 to 10' if kind == 'folder' else f'pairs 1 to {PAIRS}'
    found = []
    with (two(path, scale.Run(Deadly(tmp_path, name))) as results,
          pytest.raises(StereoError, match=rf'^a worker died while .*{of_chunk} of {path}.*: is '
                        'memory short')):
        found.extend(scores(result.to_dict()) for result in results)
    # The other process may not have done its own.
    assert found == serial(path)[:len(found)]
    assert len(found) == place or kind == 'folder'
    assert not processes()


def test_an_error_names_the_pair_behind_those_that_are_sound(folder, tmp_path):
    for side in ('left', 'right'):
        (tmp_path / side).mkdir()
        for path in (folder / side).iterdir():
            (tmp_path / side / path.name).symlink_to(path)
    (tmp_path / 'right' / 'pair9.png').unlink()
    (tmp_path / 'right' / 'pair9.png').write_bytes(b'no image')
    with two(tmp_path) as found:
        assert len(list(itertools.islice(found, 9))) == 9
        with pytest.raises(StereoError, match=r'^pair 10 .*pair9.png cannot be read: this is'):
            next(found)


class Refuses(Collector):
    """Fails in a way that nobody has foreseen."""

    def collect(self, place, evaluation, matched) -> None:
        raise KeyError(matched.result.name)


def test_a_failure_that_nobody_has_foreseen_is_a_line_as_well(folder):
    with (two(folder, scale.Run(Refuses())) as results,
          pytest.raises(StereoError, match=f'pairs 1 to 2 of {folder}: KeyError')):
        list(results)


def test_no_room_for_results_is_said_as_such(folder, monkeypatch):
    monkeypatch.setattr(scale, '_of_this_worker', [
        lambda: Evaluation({'sad': CONFIG}, method=METHOD), None])
    with pytest.raises(StereoError, match=r'^results cannot be kept in .*No space left'):
        scale._judge(next(of(folder).chunks(2)), pathlib.Path('/dev/full'))


def test_the_command_spreads_several_paths_over_processes_of_its_own(
        bag, folder, tmp_path, capsys, monkeypatch):
    kept = []
    monkeypatch.setattr(transport, 'keep_freed_memory', lambda: kept.append(True))
    arguments = [bag, folder, '--limit', '5', '--output']
    found = report_of(capsys, *arguments, tmp_path / 'report', '--workers', '2')
    kept.clear()
    alone = report_of(capsys, *arguments, tmp_path / 'alone', '--workers', '1')
    assert kept == [True]
    assert (found['workers'], alone['workers'], alone['settings']['num_threads']) == (2, 1, 1)
    assert scores(found) == scores(alone)
    assert list(found['by_input']) == [bag.name, folder.name]
    shown, shown_alone = (pictures(tmp_path / name) for name in ('report', 'alone'))
    assert len([title for title in shown if title.startswith('image, disparity')]) == 10
    assert shown == shown_alone


def test_workers_take_the_devices_in_turn():
    configs = {'one': CONFIG, 'two': CONFIG.replace(device_id=1)}

    def devices_of(worker: int, devices: int) -> list[int]:
        with scale.on_device(configs, (), METHOD, devices, worker) as evaluation:
            return [one.device_id for one in evaluation.configs.values()]

    assert [devices_of(worker, 2) for worker in range(4)] == [[0, 0], [1, 1], [0, 0], [1, 1]]
    # A machine without devices takes what is configured.
    assert devices_of(1, 0) == [0, 1]


def report_of(capsys, *arguments: object) -> dict:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, 'TOLD_EVERY_S', math.inf)      # a slow machine has more to say
        assert main([*COMMAND[3:], *map(str, arguments), '--json']) == 0
    captured = capsys.readouterr()
    assert captured.err == ''
    return json.loads(captured.out)


def pictures(output: pathlib.Path) -> dict[str, str]:
    """Of a page, by their titles, but for the plot of times."""
    page = (output / 'report.html').read_text()
    found = {title: uri for uri, title in re.findall(r'<img src="([^"]*)" alt="([^"]*)"', page)}
    del found['Time over frames']
    return found


def workers_of(command: psutil.Process) -> list[psutil.Process]:
    """Processes that it has started to compute."""
    found = []
    for process in command.children(recursive=True):
        with contextlib.suppress(psutil.Error):         # it has just ended
            if 'spawn_main' in ' '.join(process.cmdline()):
                found.append(process)
    return found


def test_the_report_of_a_command_whose_worker_is_killed_has_the_pairs_before_it(
        bag, tmp_path, monkeypatch, capsys):
    killed = tmp_path / 'killed'
    killed.mkdir()
    monkeypatch.setattr(evaluate_scale, 'Showing',
                        lambda count: Deadly(killed, str(10**18 + 8 * 10**8)))
    monkeypatch.setattr(evaluate_report, 'write_html', lambda *_: None)     # it shows nothing
    assert main([*COMMAND[3:], str(bag), '--workers', '2', '--output',
                 str(tmp_path / 'report')]) == 2
    stopped = f'a worker died while it evaluated pairs 1 to {PAIRS} of {bag}'
    assert capsys.readouterr().err.splitlines()[-1].startswith(f'stereo_bp evaluate: {stopped}')
    report = json.loads((tmp_path / 'report' / 'report.json').read_text())
    assert report['stopped'].startswith(stopped)
    assert (len(report['pairs']), report['backend']) == (8, 'cpu')
    assert len(list(killed.iterdir())) == 1
    assert not processes()


def test_a_worker_has_one_thread_unless_it_is_told_a_number():
    alone, many = (type('Options', (), {'workers': workers})
                   for workers in (0, 4))
    threads = [for_workers(options, CONFIG.replace(num_threads=number)).num_threads
               for options in (alone, many) for number in (0, 3)]
    assert threads == [0, 3, 1, 3]
