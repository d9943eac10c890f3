"""The tuner: what it tries and keeps, its files, and on a GPU that it changes times alone."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stereo_bp_ros import MatcherConfig, RawImage, geometry
from stereo_bp_ros.engines import cache as cache_files
from stereo_bp_ros.engines.cuda.backend import CudaBackend
from stereo_bp_ros.engines.cuda.hierarchical import schedule, tilings, tuner, tuning
from stereo_bp_ros.engines.cuda.hierarchical.launch import Tiling
from stereo_bp_ros.engines.cuda.hierarchical.search import (
    FINAL_TURNS,
    MARGIN,
    Candidate,
    TileSearch,
    most_disparities,
)
from stereo_bp_ros.engines.cuda.plan import plan_of
from stereo_bp_ros.engines.cuda.runtime import compiler, device
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL
from stereo_bp_ros.papers.plain_steps import tune
from test.engines.support.damage import flip

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
    (file,) = tuning.directory().glob('*.tuned')
    cache_files.write_or_raise(file, json.dumps({**content(file), **changes}).encode())


def test_the_fastest_of_what_was_tried_level_by_level_is_kept() -> None:
    clock = Clock(likes_large_tiles)
    seen: list[tuple[int, int, str]] = []
    found = search(clock, progress=lambda *step: seen.append(step)).run()
    fastest = min(clock.frame(ours) for ours, _ in clock.compared)
    assert clock.frame(found.best) == fastest < clock.frame({})
    assert found.ratio == pytest.approx(fastest / clock.frame({}))
    # What is measured has been compiled before, and differs in one level from its opponent.
    prepared = {(k, tiling) for tilings in clock.prepared for k, tiling in tilings.items()}
    for ours, theirs in clock.compared[:-1]:
        assert ours.items() - theirs.items() <= prepared
        assert len([k for k in range(3) if ours.get(k) != theirs.get(k)]) == 1
    assert clock.compared[-1][1] == {}
    assert [step[:2] for step in seen] == [(done, 7) for done in (0, *range(8))]
    assert [what for _, _, what in seen[:2]] == ['compiling', 'level 0 launches']


def test_levels_without_iterations_are_not_tuned_and_others_are_another_problem() -> None:
    config = config_of(iterations='4, 0, 5')
    clock = Clock(likes_large_tiles)
    search(clock, config).run()
    assert {k for ours, _ in clock.compared for k in ours} == {0, 2}
    assert look_up(config).tilings
    assert not look_up().tilings
    assert tuning.Problem.of(config, *SIZE).iterations == '4-0-5'
    assert tuning.Problem.of(config_of(iterations='4'), *SIZE).iterations == 4


@pytest.mark.parametrize('gain', [0.0, 0.5 * MARGIN])
def test_the_engine_s_own_choice_stands_where_nothing_is_faster_beyond_the_spread(
        gain: float) -> None:
    config = config_of()
    found = search(Clock(lambda k, tiling: 1.0 if tiling == own(config, k) else 1.0 - gain)).run()
    assert (found.best, found.ratio) == ({}, 1.0)
    assert (look_up().tilings, look_up().is_ignored) == ({}, False)


def test_a_gain_that_whole_frames_do_not_show_is_given_up() -> None:
    class Fickle(Clock):
        def compare(self, ours: Candidate, theirs: Candidate,
                    turns: int) -> tuple[float, float]:
            return (1.0, 1.0) if turns == FINAL_TURNS else (0.5, 1.0)
    assert search(Fickle(likes_large_tiles)).run().best == {}


def test_an_interrupted_search_goes_on_and_a_finished_one_is_repeated_only_on_request() -> None:
    whole = Clock(likes_large_tiles)
    expected = search(whole).run()
    assert look_up().tilings == expected.best != {}
    assert f'{expected.ratio:.3f} of the time' in look_up().reason
    # Settings that no kernel depends on make no other problem.
    assert look_up(config_of(subpixel=False)).tilings == expected.best
    for other in ({'iterations': 6}, {'disparity_range': 17}, {'levels': 2},
                  {'message_type': 'float32'}):
        assert look_up(config_of(**other))[:3] == ({}, 'never tuned', False)
    again = Clock(likes_large_tiles)
    assert search(again).run() == expected
    assert not again.compared
    with pytest.raises(KeyboardInterrupt):
        search(Clock(likes_large_tiles, interrupted_after=len(whole.compared) // 2),
               afresh=True).run()
    assert look_up().is_ignored
    assert 'not finished' in look_up().reason
    (file,) = tuning.directory().iterdir()
    assert 0 < len(content(file)['done']) < 6
    rest = Clock(likes_large_tiles)
    assert search(rest).run().best == expected.best
    # The group that was cut off is measured again, those before it are not.
    assert 0 < len(rest.compared) < len(whole.compared)
    assert look_up().tilings == expected.best


#: Changes of a tiling that no kernel can run with.
UNSOUND = ({'threads': 33}, {'width': 7}, {'width': 4000}, {'iterations': 0}, {'directions': 3},
           {'threads': '128'}, {'surprise': 1})


def test_an_entry_that_does_not_fit_is_ignored_with_a_reason() -> None:
    search(Clock(likes_large_tiles)).run()
    (file,) = tuning.directory().iterdir()
    sound = content(file)
    level, tiling = next(iter(sound['tilings'].items()))
    for changes, reason in (
            ({'version': 1}, 'not of format 2'), ({'kernels': 'x'}, 'tuned for other kernels'),
            ({'machine': {**HERE, 'driver': '12080'}}, 'another driver: 12080, here 13000'),
            ({'finished': False}, 'not finished'), ({'tilings': []}, 'not a file of the tuner'),
            ({'problem': {}}, 'another problem'),
            *(({'tilings': {**sound['tilings'], level: {**tiling, **change}}},
               'the file has tilings that the device cannot run') for change in UNSOUND)):
        rewrite(**{**sound, **changes})
        tuned = look_up()
        assert (tuned.tilings, tuned.is_ignored) == ({}, True), changes
        assert reason in tuned.reason
    rewrite(**sound)
    assert look_up().tilings
    assert look_up(on={**HERE, 'device': 'Orin'})[:3] == (
        {}, 'tuned for another device: NVIDIA H200, here Orin', True)


def test_without_a_home_nothing_was_ever_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError('Could not determine home directory.')
    monkeypatch.delenv('XDG_CACHE_HOME')
    monkeypatch.setattr(pathlib.Path, 'home', fail)
    assert look_up()[:3] == ({}, 'never tuned', False)


def test_why_a_file_is_not_used_is_logged_and_a_damaged_one_is_set_aside_once(
        monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def for_engine() -> tuning.Tuned:
        return tuning.for_engine(config_of(), *SIZE, TYPICAL)
    monkeypatch.setattr(tuning, 'machine', lambda _: HERE)
    monkeypatch.setattr(cache_files, '_warned', set())
    assert for_engine().tilings == {}
    found = search(Clock(likes_large_tiles)).run()
    assert for_engine().tilings == found.best
    assert not caplog.messages
    (file,) = tuning.directory().iterdir()
    flip(0.6)(file)
    assert for_engine().tilings == {}
    assert len(caplog.messages) == 1
    assert str(file) in caplog.messages[0]
    assert (for_engine().tilings, for_engine().reason) == ({}, 'never tuned')
    assert search(Clock(likes_large_tiles)).run().best == found.best
    assert for_engine().tilings == found.best
    assert len(caplog.messages) == 1
    rewrite(kernels='x')
    assert for_engine().tilings == {}
    assert 'tuned for other kernels' in caplog.messages[1]


def test_a_file_is_written_as_a_whole_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    found = search(Clock(likes_large_tiles)).run()

    def fail(*_: object) -> None:
        raise OSError('no space left')
    monkeypatch.setattr('os.replace', fail)
    with pytest.raises(OSError, match='no space'):
        search(Clock(likes_large_tiles), afresh=True).run()
    assert len(list(tuning.directory().iterdir())) == 1
    assert look_up().tilings == found.best


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


def test_the_walk_over_occupancies_keeps_the_fastest_split_for_hybrid_storage() -> None:
    class LikesRegisters(Clock):
        def frame(self, candidate: Candidate) -> float:
            return 2.0 - candidate.get('plain_steps.registers', 0) / 100
    config = config_of(disparity_range=100, message_type='float32', **HYBRID)
    clock = LikesRegisters(likes_large_tiles)
    found = tune.OccupancyWalk(config, *SIZE, TYPICAL, HERE, clock, limits=tune.TYPICAL).run()
    walked = [split for _, split in tune.candidates(tune.TYPICAL, 100)]
    assert len(clock.compared) <= len(walked) + 1
    assert {frozenset(ours.items()) for ours, _ in clock.compared} <= {
        frozenset(tune.settings_of(split).items()) for split in walked}
    assert found.best['plain_steps.registers'] == max(split.split.registers for split in walked)
    assert (look_up(config).tilings, dict(look_up(config).settings)) == ({}, found.best)
    # Who says where values lie is not overruled, and tilings are another problem.
    chosen = config.replace(**{'plain_steps.registers': 8})
    assert look_up(chosen).reason == 'there is nothing to tune'
    assert look_up(config_of(disparity_range=100, message_type='float32')).reason == 'never tuned'
    # Settings that would be refused are not used.
    for change in ({'plain_steps.registers': 101}, {'plain_steps.blocks': 'x'}, {'levels': 3}):
        rewrite(settings={**found.best, **change})
        assert look_up(config).is_ignored, change


class PrefersChange:
    """A timer with which every candidate beats the engine's own choice; runs nothing."""

    def __init__(self, config: MatcherConfig, width: int, height: int, *_: Any) -> None:
        self.source = width, height
        self.config = config

    def prepare(self, candidates: list[Candidate]) -> None:
        pass

    def compare(self, ours: Candidate, theirs: Candidate,
                turns: int) -> tuple[float, float]:
        return (1.0, 2.0) if len(ours) > len(theirs) else (2.0, 1.0)

    def close(self) -> None:
        pass


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> CudaBackend:
    """That of a device that is not here, and prefers every change."""
    monkeypatch.setattr(tuning, 'machine', lambda _: HERE)
    monkeypatch.setattr(tuner, 'properties', lambda _: TYPICAL)
    monkeypatch.setattr(tuner, 'FrameTimer', PrefersChange)
    monkeypatch.setattr('stereo_bp_ros.engines.cuda.hierarchical.search.DIVISIONS', 2)
    monkeypatch.setattr('stereo_bp_ros.engines.cuda.hierarchical.search.TILES', 1)
    monkeypatch.setattr(CudaBackend, 'free_memory', lambda _: 2**34)
    return CudaBackend(TYPICAL, 'for the test')


@pytest.mark.parametrize('settings', [
    {'preset': 'road'},
    {'disparity_range': 45, 'downscale': 4},
    {'disparity_range': 64, 'rectify': True,
     'rectified_width': 160, 'rectified_height': 120},
    {'disparity_range': 64, 'downscale': 2, 'partition_columns': 2},
], ids=str)
def test_an_engine_takes_what_was_tuned_for_its_configuration(
        settings: dict[str, Any], backend: CudaBackend) -> None:
    changes = {'backend': 'cuda', 'preset': 'road', **settings}
    config = MatcherConfig.preset(changes.pop('preset'), **changes)
    untuned = backend.fit(config, 324, 242)
    assert backend.tools.tuning_state(untuned) == 'never tuned'
    found = backend.tools.tune(config, 324, 242, lambda *_: None, False)
    assert found['best']
    plan = backend.fit(config, 324, 242)
    assert backend.tools.tuning_state(plan).startswith('tuned on ')
    stored = tuning.look_up(plan.config, plan.parts.width, plan.parts.height, TYPICAL)
    assert {str(level) for level in stored.tilings} == set(found['best'])
    tuned = plan_of(config, 324, 242, TYPICAL, stored.tilings, plan.parts)
    assert plan.launches == tuned.launches != untuned.launches


def test_the_tuner_tries_only_tilings_of_the_reduced_images(
        backend: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    alternatives = tilings.alternatives
    asked: list[tuple[int, int, int]] = []

    def spy(config: MatcherConfig, width: int, height: int, *more: Any) -> Any:
        asked.append((config.disparity_range, width, height))
        return alternatives(config, width, height, *more)
    monkeypatch.setattr(tilings, 'alternatives', spy)
    config = MatcherConfig.from_mapping({'backend': 'cuda', 'disparity_range': 64,
                                         'downscale': 2})
    tuner.tune(config, 324, 242)
    assert set(asked) == {(32, *geometry.reduced_size(config, 324, 242))}


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
