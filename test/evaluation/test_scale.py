"""An evaluation spread over processes is the one of one process, whatever becomes of them."""

from __future__ import annotations

import contextlib
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
from collections.abc import Iterator

import numpy as np
import pytest

from stereo_bp_ros import Calibration, MatcherConfig, files, transport
from stereo_bp_ros.cli import evaluate_report, evaluate_scale, progress
from stereo_bp_ros.cli.evaluate_scale import for_workers
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.evaluation import scale, sources
from stereo_bp_ros.evaluation.method import Method
from stereo_bp_ros.evaluation.runs import Evaluation, judge_all
from test.cases import every

pytest.importorskip('numba')
bags = pytest.importorskip('stereo_bp_ros.evaluation.bags')
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
    """A sequence of pairs of several disparities."""
    path = tmp_path_factory.mktemp('scale') / 'pairs'
    for index in range(PAIRS):
        for side, image in zip(('left', 'right'), textured_pair(64, 48, 3 + index % 5, index),
                               strict=True):
            (path / side).mkdir(parents=True, exist_ok=True)
            files.write_image(path / side / f'{10**18 + index}.png', image)
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


def serial(path: pathlib.Path) -> list[object]:
    pairs = sources.Sources(sources.inputs_of([path])).unread()
    with Evaluation({'sad': CONFIG}, method=METHOD) as evaluation:
        return [scores(one.result.to_dict()) for one in judge_all(evaluation, pairs)]


def chunks_of(path: pathlib.Path, size: int) -> Iterator[sources.Chunk]:
    return sources.Sources(sources.inputs_of([path])).chunks(size)


@contextlib.contextmanager
def two(showing: object = None) -> Iterator[scale.Workers]:
    with scale.Workers(scale.Plan({'sad': CONFIG}, method=METHOD, showing=showing), 2) as workers:
        yield workers


def processes() -> set[str]:
    """Ids of the workers there are."""
    return {str(process.pid) for process in multiprocessing.active_children()}


@pytest.mark.parametrize('kind', ['folder', 'bag'])
def test_processes_find_what_one_process_finds_in_the_same_order(request, kind):
    path = request.getfixturevalue(kind)
    with two() as workers:
        found = [scores(result.to_dict()) for result in workers.judge(chunks_of(path, 3))]
        # An image is copied into memory that stays; linear algebra takes one thread.
        wanted = {**scale.ONE_THREAD, **transport.kept_memory({})}
        assert every(psutil.Process(int(pid)).environ().items() >= wanted.items()
                     for pid in processes())
    assert found == serial(path)
    assert len(found) == PAIRS
    assert workers.backend == 'cpu'
    assert not processes()
    assert 'OMP_NUM_THREADS' not in os.environ


class Collector:
    """What all chunks have collected is what one of them has."""

    def __add__(self, other):
        return self


class Waits(Collector):
    """Writes the process that has judged a pair; one pair waits for another process."""

    def __init__(self, folder: pathlib.Path, name: str) -> None:
        self.folder = folder
        self.name = name

    def collect(self, place, evaluation, matched) -> None:
        (self.folder / f'{matched.result.name}.{os.getpid()}').touch()
        deadline = time.monotonic() + 60
        while matched.result.name == self.name and time.monotonic() < deadline and len(
                {path.suffix for path in self.folder.iterdir()}) < 2:
            time.sleep(0.05)


def test_results_wait_for_those_before_them_and_few_chunks_are_under_way(folder, tmp_path):
    slow = sorted(path.stem for path in (folder / 'left').iterdir())[1]
    taken, found, most = [], [], 0
    with two(Waits(tmp_path, slow)) as workers:
        chunks = (taken.append(chunk.start) or chunk for chunk in chunks_of(folder, 1))
        for result in workers.judge(chunks):
            found.append(result.name)
            most = max(most, len(taken) - len(found))
        assert {path.suffix[1:] for path in tmp_path.iterdir()} == processes()
    assert found == sorted(found)
    assert len(taken) == PAIRS
    assert most <= scale.CHUNKS_PER_WORKER * 2


class Deadly(Collector):
    """Ends the process that judges a pair, as the system does where memory is short."""

    def __init__(self, folder: pathlib.Path, name: str, times: int) -> None:
        self.folder = folder
        self.name = name
        self.times = times

    def collect(self, place, evaluation, matched) -> None:
        if matched.result.name == self.name and len(list(self.folder.iterdir())) < self.times:
            (self.folder / str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGKILL)


def test_a_chunk_of_a_killed_worker_is_done_again(folder, tmp_path):
    with two(Deadly(tmp_path, str(10**18 + 8), times=1)) as workers:
        found = [scores(result.to_dict()) for result in workers.judge(chunks_of(folder, 3))]
        killed, = tmp_path.iterdir()
        assert killed.name not in processes()
    assert found == serial(folder)


def test_an_error_names_the_pair_behind_those_that_are_sound(folder, tmp_path):
    for side in ('left', 'right'):
        (tmp_path / side).mkdir()
        for path in (folder / side).iterdir():
            (tmp_path / side / path.name).symlink_to(path)
    names = sorted(path.name for path in (folder / 'right').iterdir())
    (tmp_path / 'right' / names[9]).unlink()
    (tmp_path / 'right' / names[9]).write_bytes(b'no image')
    with two() as workers:
        found = workers.judge(chunks_of(tmp_path, 3))
        assert len(list(itertools.islice(found, 9))) == 9
        with pytest.raises(StereoError, match=rf'^pair 10 .*{names[9]} cannot be read: this is'):
            next(found)


class Refuses(Collector):
    """Fails in a way that nobody has foreseen."""

    def collect(self, place, evaluation, matched) -> None:
        raise KeyError(matched.result.name)


def test_a_failure_that_nobody_has_foreseen_is_a_line_as_well(folder):
    with (two(Refuses()) as workers,
          pytest.raises(StereoError, match='behind pair 0: KeyError')):
        list(workers.judge(chunks_of(folder, 3)))


def test_an_engine_stays_from_chunk_to_chunk(folder, monkeypatch):
    made = []
    monkeypatch.setattr(scale, 'Evaluation', lambda *arguments: (
        made.append(1), Evaluation(*arguments))[1])
    judge = scale._Judge(scale.Plan({'sad': CONFIG}, method=METHOD))
    found = [judge.judge(chunk) for chunk in chunks_of(folder, 5)]
    assert sum(len(one.results) for one in found) == PAIRS
    assert len(made) == 1
    judge.ended.set()           # the command has ended: nobody takes the rest
    assert judge.judge(next(chunks_of(folder, 5))).results == []


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
    plan = scale.Plan({'one': CONFIG, 'two': CONFIG.replace(device_id=1)}, devices=2)
    assert [plan.configs_of(worker)['one'].device_id for worker in range(4)] == [0, 1, 0, 1]
    assert plan.configs_of(3)['two'].device_id == 1
    # A machine without devices takes what is configured.
    assert scale.Plan(plan.configs).configs_of(1) == plan.configs


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


@pytest.mark.slow      # workers end, and others start
def test_a_chunk_that_ends_worker_after_worker_ends_the_command(folder, tmp_path, monkeypatch,
                                                                capsys):
    killed = tmp_path / 'killed'
    killed.mkdir()
    monkeypatch.setattr(evaluate_scale, 'Showing',
                        lambda count: Deadly(killed, str(10**18 + 8), times=10))
    monkeypatch.setattr(evaluate_report, 'write_html', lambda *_: None)     # it shows nothing
    arguments = [*COMMAND[3:], str(folder), '--workers', '2']
    assert main([*arguments, '--output', str(tmp_path / 'report')]) == 2
    captured = capsys.readouterr()
    stopped = f'pairs 8 to 9 of {folder} have ended one worker after another'
    assert captured.err.splitlines()[-1].startswith(f'stereo_bp evaluate: {stopped}')
    report = json.loads((tmp_path / 'report' / 'report.json').read_text())
    assert report['stopped'].startswith(stopped)
    assert len(report['pairs']) == 7
    assert len(list(killed.iterdir())) >= 2
    assert not processes()


def test_a_worker_has_one_thread_unless_it_is_told_a_number():
    alone, many = (type('Options', (), {'workers': workers})
                   for workers in (0, 4))
    threads = [for_workers(options, CONFIG.replace(num_threads=number)).num_threads
               for options in (alone, many) for number in (0, 3)]
    assert threads == [0, 3, 1, 3]
