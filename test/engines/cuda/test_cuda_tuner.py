"""The tuner: what it tries and keeps, its files, and on a GPU that it changes times alone."""

from __future__ import annotations

import dataclasses
import json
import logging
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stereo_bp_ros import MatcherConfig, RawImage
from stereo_bp_ros.engines import cache as cache_files
from stereo_bp_ros.engines.cuda.hierarchical import schedule, tilings, tuner, tuning
from stereo_bp_ros.engines.cuda.hierarchical.launch import Tiling
from stereo_bp_ros.engines.cuda.hierarchical.search import (
    FINAL_TURNS,
    MARGIN,
    Candidate,
    TileSearch,
    most_disparities,
)
from stereo_bp_ros.engines.cuda.runtime import compiler, device
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL
from stereo_bp_ros.papers.plain_steps import tune
from test.engines.support.damage import Damage, every_damage

SIZE = (128, 96)
HERE = {'device': 'NVIDIA H200', 'capability': '9.0', 'driver': '13000', 'compiler': '13.0'}


@pytest.fixture(autouse=True)
def cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A cache directory that nothing has been written to."""
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    return tmp_path


HYBRID = {'program': 'plain_steps', 'plain_steps.storage': 'hybrid'}


def config_of(**changes: Any) -> MatcherConfig:
    return MatcherConfig.from_mapping({'disparity_range': 16, 'levels': 3, 'backend': 'cuda',
                                       **changes})


class Clock:
    """A timer that knows what each tiling of each level takes, ms, and counts its readings."""

    def __init__(self, time_of: Callable[[int, Tiling], float],
                 interrupted_after: int = 10**9) -> None:
        self.time_of = time_of
        self.interrupted_after = interrupted_after
        self.compared: list[tuple[Candidate, Candidate]] = []
        self.prepared: list[Candidate] = []

    def prepare(self, candidates: list[Candidate]) -> None:
        self.prepared += candidates

    def compare(self, ours: Candidate, theirs: Candidate,
                turns: int) -> tuple[float, float]:
        if len(self.compared) >= self.interrupted_after:
            raise KeyboardInterrupt
        self.compared.append((ours, theirs))
        return self.frame(ours), self.frame(theirs)

    def frame(self, tilings: Candidate) -> float:
        config = config_of()
        return sum(self.time_of(k, tilings.get(k) or own(config, k))
                   for k in range(config.levels))


def own(config: MatcherConfig, k: int) -> Tiling:
    """What an engine takes by itself."""
    return tilings.choose(config, *SIZE, k, TYPICAL)


def search(clock: Clock, config: MatcherConfig | None = None, **more: Any) -> TileSearch:
    return TileSearch(config or config_of(), *SIZE, TYPICAL, HERE, clock, **more)


def look_up(config: MatcherConfig | None = None,
            on: dict[str, str] | None = None) -> tuning.Tuned:
    return tuning.look_up(config or config_of(), *SIZE, TYPICAL, on or HERE)


def likes_large_tiles(k: int, tiling: Tiling) -> float:
    """Anything but what the table has."""
    area = tiling.width * tiling.height
    if tiling.last:
        area += tiling.last.width * tiling.last.height
    return 0.1 + 1.0 / (area * tiling.iterations)


def content(file: pathlib.Path) -> dict[str, Any]:
    whole = cache_files.read(file)
    assert whole is not None
    return dict(json.loads(whole))


def rewrite(**changes: Any) -> None:
    (file,) = tuning.directory().iterdir()
    cache_files.write_or_raise(file, json.dumps({**content(file), **changes}).encode())


def test_the_fastest_of_what_was_tried_is_kept() -> None:
    clock = Clock(likes_large_tiles)
    found = search(clock).run()
    fastest = min(clock.frame(ours) for ours, _ in clock.compared)
    assert clock.frame(found.best) == fastest < clock.frame({})
    assert found.ratio == pytest.approx(fastest / clock.frame({}))
    # What is measured has been compiled before.
    prepared = {(k, tiling) for tilings in clock.prepared for k, tiling in tilings.items()}
    for ours, theirs in clock.compared[:-1]:
        assert ours.items() - theirs.items() <= prepared


def test_every_candidate_differs_in_one_level_from_what_it_is_compared_with() -> None:
    clock = Clock(likes_large_tiles)
    search(clock).run()
    for ours, theirs in clock.compared[:-1]:
        assert len([k for k in range(3) if ours.get(k) != theirs.get(k)]) == 1
    assert clock.compared[-1][1] == {}


def test_levels_without_iterations_are_not_tuned_and_others_are_another_problem() -> None:
    config = config_of(level_iterations='4, 0, 5')
    clock = Clock(likes_large_tiles)
    search(clock, config).run()
    assert {k for ours, _ in clock.compared for k in ours} == {0, 2}
    assert look_up(config).tilings
    assert not look_up().tilings
    assert tuning.Problem.of(config, *SIZE).iterations == '4-0-5'
    assert tuning.Problem.of(config_of(level_iterations='4'), *SIZE).iterations == 4


@pytest.mark.parametrize('gain', [0.0, 0.5 * MARGIN])
def test_the_engine_s_own_choice_stands_where_nothing_is_faster_beyond_the_spread(
        gain: float) -> None:
    config = config_of()
    found = search(Clock(lambda k, tiling: 1.0 if tiling == own(config, k) else 1.0 - gain)).run()
    assert found.best == {}
    assert found.ratio == 1.0
    tuned = look_up()
    assert tuned.tilings == {}
    assert not tuned.is_ignored


def test_a_gain_that_whole_frames_do_not_show_is_given_up() -> None:
    class Fickle(Clock):
        def compare(self, ours: Candidate, theirs: Candidate,
                    turns: int) -> tuple[float, float]:
            return (1.0, 1.0) if turns == FINAL_TURNS else (0.5, 1.0)
    assert search(Fickle(likes_large_tiles)).run().best == {}


def test_what_was_found_is_what_engines_are_given() -> None:
    found = search(Clock(likes_large_tiles)).run()
    assert look_up().tilings == found.best != {}
    assert f'{found.ratio:.3f} of the time' in look_up().reason
    # Settings that no kernel depends on make no other problem.
    assert look_up(config_of(subpixel=False)).tilings == found.best
    for other in (config_of(iterations=6), config_of(disparity_range=17), config_of(levels=2),
                  config_of(message_type='float32')):
        assert look_up(other)[:3] == ({}, 'never tuned', False)


def test_an_interrupted_search_goes_on_after_its_last_group() -> None:
    whole = Clock(likes_large_tiles)
    expected = search(whole).run()
    (file,) = tuning.directory().iterdir()
    file.unlink()
    cut_off = Clock(likes_large_tiles, interrupted_after=len(whole.compared) // 2)
    with pytest.raises(KeyboardInterrupt):
        search(cut_off).run()
    assert look_up().is_ignored
    assert 'not finished' in look_up().reason
    done = content(file)['done']
    assert 0 < len(done) < 6
    rest = Clock(likes_large_tiles)
    assert search(rest).run().best == expected.best
    # The group that was cut off is measured again, those before it are not.
    assert len(rest.compared) < len(whole.compared)
    assert look_up().tilings == expected.best


def test_a_finished_search_is_not_repeated_unless_asked_for() -> None:
    found = search(Clock(likes_large_tiles)).run()
    again = Clock(likes_large_tiles)
    assert search(again).run() == found
    assert not again.compared
    afresh = Clock(likes_large_tiles)
    assert search(afresh, afresh=True).run().best == found.best
    assert afresh.compared


def test_progress_is_told_from_the_first_group_to_the_last() -> None:
    seen: list[tuple[int, int, str]] = []
    search(Clock(likes_large_tiles), progress=lambda *step: seen.append(step)).run()
    assert [done for done, _, _ in seen] == [0, *range(8)]
    assert {total for _, total, _ in seen} == {7}
    assert [what for _, _, what in seen[:2]] == ['compiling', 'level 0 launches']


@pytest.mark.parametrize(('changes', 'reason'), [
    ({'version': 1}, 'not of format 2'),
    ({'kernels': 'x'}, 'tuned for other kernels'),
    ({'machine': {**HERE, 'driver': '12080'}}, 'another driver: 12080, here 13000'),
    ({'finished': False}, 'not finished'),
    ({'tilings': []}, 'not a file of the tuner'),
    ({'problem': {}}, 'another problem'),
])
def test_an_entry_that_does_not_fit_is_ignored_with_a_reason(changes: dict[str, Any],
                                                             reason: str) -> None:
    search(Clock(likes_large_tiles)).run()
    rewrite(**changes)
    tuned = look_up()
    assert (tuned.tilings, tuned.is_ignored) == ({}, True)
    assert reason in tuned.reason


def test_an_entry_of_another_device_is_ignored_with_its_name() -> None:
    search(Clock(likes_large_tiles)).run()
    tuned = look_up(on={**HERE, 'device': 'Orin'})
    assert tuned[:3] == ({}, 'tuned for another device: NVIDIA H200, here Orin', True)


def test_without_a_home_nothing_was_ever_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError('Could not determine home directory.')
    monkeypatch.delenv('XDG_CACHE_HOME')
    monkeypatch.setattr(pathlib.Path, 'home', fail)
    assert look_up()[:3] == ({}, 'never tuned', False)


@every_damage
def test_a_damaged_file_is_set_aside_once_and_found_anew(
        damage: Damage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(tuning, 'machine', lambda _: HERE)
    monkeypatch.setattr(cache_files, '_warned', set())
    found = search(Clock(likes_large_tiles)).run()
    (file,) = tuning.directory().iterdir()
    damage(file)
    assert tuning.for_engine(config_of(), *SIZE, TYPICAL).tilings == {}
    assert len(caplog.messages) == 1
    assert str(file) in caplog.messages[0]
    tuned = tuning.for_engine(config_of(), *SIZE, TYPICAL)
    assert (tuned.tilings, tuned.reason) == ({}, 'never tuned')
    assert search(Clock(likes_large_tiles)).run().best == found.best
    assert tuning.for_engine(config_of(), *SIZE, TYPICAL).tilings == found.best
    assert len(caplog.messages) == 1


@pytest.mark.parametrize('changes', [{'threads': 33}, {'width': 7}, {'width': 4000},
                                     {'iterations': 0}, {'directions': 3}, {'threads': '128'},
                                     {'surprise': 1}])
def test_tilings_that_no_kernel_can_run_with_are_not_used(changes: dict[str, Any]) -> None:
    search(Clock(likes_large_tiles)).run()
    (file,) = tuning.directory().iterdir()
    tilings = content(file)['tilings']
    tilings[next(iter(tilings))].update(changes)
    rewrite(tilings=tilings)
    assert look_up()[:3] == ({}, 'the file has tilings that the device cannot run', True)


def test_a_file_is_written_as_a_whole_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    found = search(Clock(likes_large_tiles)).run()

    def fail(*_: object) -> None:
        raise OSError('no space left')
    monkeypatch.setattr('os.replace', fail)
    with pytest.raises(OSError, match='no space'):
        search(Clock(likes_large_tiles), afresh=True).run()
    assert len(list(tuning.directory().iterdir())) == 1
    assert look_up().tilings == found.best


def test_why_a_file_is_not_used_is_logged_where_an_engine_is_built(
        monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(tuning, 'machine', lambda _: HERE)
    with caplog.at_level(logging.WARNING):
        assert tuning.for_engine(config_of(), *SIZE, TYPICAL).tilings == {}
        assert not caplog.records
        found = search(Clock(likes_large_tiles)).run()
        assert tuning.for_engine(config_of(), *SIZE, TYPICAL).tilings == found.best
        assert not caplog.records
        rewrite(kernels='x')
        assert tuning.for_engine(config_of(), *SIZE, TYPICAL).tilings == {}
    assert 'tuned for other kernels' in caplog.text


def test_neighbours_divide_the_iterations_in_the_same_way() -> None:
    config = config_of(disparity_range=64)
    for k in range(3):
        chosen = own(config, k)
        around = tilings.neighbours(config, *SIZE, k, TYPICAL, chosen)
        assert chosen not in around
        for tiling in around:
            assert tiling.iterations == chosen.iterations
            assert (tiling.last is None) == (chosen.last is None)
            assert schedule.fits(config, k, tiling, TYPICAL)


def walk(clock: Clock, config: MatcherConfig, **more: Any) -> tune.OccupancyWalk:
    return tune.OccupancyWalk(config, *SIZE, TYPICAL, HERE, clock, limits=tune.TYPICAL,
                               **more)


class StorageClock(Clock):
    """Likes values in registers."""

    def __init__(self) -> None:
        super().__init__(lambda k, tiling: 0.0)

    def frame(self, candidate: Candidate) -> float:
        return 2.0 - candidate.get('plain_steps.registers', 0) / 100


def test_the_walk_over_occupancies_keeps_the_fastest_split_for_hybrid_storage() -> None:
    config = config_of(disparity_range=100, message_type='float32', **HYBRID)
    clock = StorageClock()
    found = walk(clock, config).run()
    walked = [split for _, split in tune.candidates(tune.TYPICAL, 100)]
    assert len(clock.compared) <= len(walked) + 1
    assert {frozenset(ours.items()) for ours, _ in clock.compared} <= {
        frozenset(tune.settings_of(split).items()) for split in walked}
    assert found.best['plain_steps.registers'] == max(split.split.registers for split in walked)
    tuned = look_up(config)
    assert (tuned.tilings, dict(tuned.settings)) == ({}, found.best)
    # Who says where values lie is not overruled, and tilings are another problem.
    chosen = config.replace(**{'plain_steps.registers': 8})
    assert look_up(chosen).reason == 'there is nothing to tune'
    assert look_up(config_of(disparity_range=100, message_type='float32')).reason == 'never tuned'


def test_settings_that_would_be_refused_are_not_used() -> None:
    config = config_of(disparity_range=100, message_type='float32', **HYBRID)
    walk(StorageClock(), config).run()
    (file,) = tuning.directory().iterdir()
    settings = content(file)['settings']
    for change in ({'plain_steps.registers': 101}, {'plain_steps.blocks': 'x'}, {'levels': 3}):
        rewrite(settings={**settings, **change})
        assert look_up(config).is_ignored, change


def test_the_longest_vectors_on_chip_are_those_of_the_paper() -> None:
    """The AI 2009 paper's device: 16 KiB of shared memory, values of 4 bytes."""
    old = dataclasses.replace(TYPICAL, shared_memory=16 * 1024)
    # Costs so small that three bytes do not hold a message.
    floats = config_of(message_type='float32', data_weight=0.0001, discontinuity_slope=10.0,
                       discontinuity_truncation=1000.0)
    assert [most_disparities(floats, old, with_label) for with_label in (False, True)] == [
        91, 90]
    assert most_disparities(config_of(message_type='float32'), old, False) == 121
    six_bits = MatcherConfig.preset('five_sets', disparity_range=128, message_type='int16')
    assert most_disparities(six_bits, old, False) == 485


@pytest.mark.gpu
def test_the_walk_on_the_device_ends_with_a_split_that_engines_take(
        monkeypatch: pytest.MonkeyPatch) -> None:
    from stereo_bp_ros.engines.cuda.engine import CudaEngine
    monkeypatch.setattr(tune, 'OCCUPANCIES', [0.1, 0.5, 1.0])
    config = config_of(disparity_range=24, message_type='float32', **HYBRID)
    found = tuner.tune(config, *SIZE)
    assert found.tuned <= found.untuned
    tuned = tuning.look_up(config, *SIZE, device.properties(0))
    assert dict(tuned.settings) == found.best
    CudaEngine.of(config, *SIZE).close()


@pytest.mark.gpu
@pytest.mark.parametrize('message_type', ['int16', 'float32'])
def test_tuning_on_the_device_changes_times_alone(message_type: str,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    from stereo_bp_ros.engines.cuda.engine import CudaEngine
    monkeypatch.setattr('stereo_bp_ros.engines.cuda.hierarchical.search.DIVISIONS', 3)
    monkeypatch.setattr('stereo_bp_ros.engines.cuda.hierarchical.search.TILES', 2)
    config = config_of(message_type=message_type)
    rng = np.random.default_rng(0)
    left, right = rng.integers(0, 256, (2, SIZE[1], SIZE[0]), dtype=np.uint8)

    def disparity() -> np.ndarray:
        engine = CudaEngine.of(config, *SIZE)
        out = {'disparity': np.empty((SIZE[1], SIZE[0]), np.float32)}
        engine.compute(RawImage.from_array(left), RawImage.from_array(right), None, out)
        engine.close()
        return out['disparity']

    before = disparity()
    found = tuner.tune(config, *SIZE)
    assert found.tuned <= found.untuned
    on = tuning.machine(device.properties(0))
    assert tuning.look_up(config, *SIZE, device.properties(0), on).tilings == found.best
    after = disparity()
    if message_type == 'int16':
        np.testing.assert_array_equal(after, before)
    else:
        assert (after != before).mean() <= 0.006


def test_the_digest_changes_with_the_kernels(tmp_path: pathlib.Path,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / 'a.cu').write_text('first')
    monkeypatch.setattr(compiler, 'KERNELS', tmp_path)
    first = compiler.sources_digest.__wrapped__()
    (tmp_path / 'a.cu').write_text('second')
    assert compiler.sources_digest.__wrapped__() != first
