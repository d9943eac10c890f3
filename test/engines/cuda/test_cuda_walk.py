"""The LCPC 2010 paper's walk over occupancies: what is tried, and which split is taken."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from stereo_bp_ros import MatcherConfig
from stereo_bp_ros.engines.cuda.plan import plan_of
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL
from stereo_bp_ros.papers.plain_steps import search, tune

CONFIG = MatcherConfig.from_mapping({
    'disparity_range': 100, 'levels': 3, 'backend': 'cuda', 'message_type': 'float32',
    'program': 'plain_steps', 'plain_steps.storage': 'hybrid'})
SIZE = (128, 96)


class Clock:
    """A timer that knows what a frame of each candidate takes, ms; runs nothing."""

    def __init__(self, time_of: Callable[[search.Candidate], float]) -> None:
        self.time_of = time_of
        self.compared: list[search.Candidate] = []
        self.prepared: list[search.Candidate] = []

    def prepare(self, candidates: Sequence[search.Candidate]) -> None:
        self.prepared += candidates

    def compare(self, ours: search.Candidate, theirs: search.Candidate,
                turns: int) -> tuple[float, float]:
        self.compared.append(ours)
        return self.time_of(ours), self.time_of(theirs)

    def close(self) -> None:
        pass


def registers(candidate: search.Candidate) -> int:
    return candidate.get('plain_steps.registers', 0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """That of a device that is not here, and likes registers."""
    made = Clock(lambda candidate: 2.0 - registers(candidate) / 100)
    monkeypatch.setattr(tune, 'FrameTimer', lambda *_: made)
    monkeypatch.setattr(tune, 'device_limits', lambda _: tune.TYPICAL)
    monkeypatch.setattr(tune.device, 'require', lambda _: None)
    monkeypatch.setattr(tune.device, 'properties', lambda _: TYPICAL)
    return made


def test_the_fastest_split_of_the_walk_is_told_in_settings_that_engines_take(
        clock: Clock) -> None:
    seen: list[tuple[int, int]] = []
    found = tune.tune(CONFIG, *SIZE, lambda *step: seen.append(step))
    walked = [tune.settings_of(split) for _, split in tune.candidates(tune.TYPICAL, 100)]
    assert clock.prepared == clock.compared[:-1] == walked
    assert registers(found.best) == max(map(registers, walked)) > 0
    assert found.after == clock.time_of(found.best) < found.before == 2.0
    assert seen == [(done, len(walked)) for done in range(len(walked))]
    kept = plan_of(CONFIG.replace(**found.best), *SIZE).config.to_mapping()
    assert found.best.items() <= kept.items()


def test_a_split_that_no_block_can_hold_is_not_tried(
        clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    small = dataclasses.replace(TYPICAL, shared_memory=16 * 1024)
    monkeypatch.setattr(tune.device, 'properties', lambda _: small)
    tune.tune(CONFIG, *SIZE)
    walked = tune.candidates(tune.TYPICAL, 100)
    assert 0 < len(clock.prepared) < len(walked)


@pytest.mark.parametrize('gain', [0.0, 0.5 * search.MARGIN])
def test_the_configuration_s_own_split_stands_where_none_is_faster_beyond_the_spread(
        gain: float) -> None:
    found = search.search([{'plain_steps.registers': 8}], Clock(
        lambda candidate: 1.0 - gain if candidate else 1.0))
    assert found == ({}, 1.0, 1.0)


def test_a_gain_that_the_last_turns_do_not_show_is_given_up() -> None:
    class Fickle(Clock):
        def compare(self, *arguments: Any) -> tuple[float, float]:
            return (1.0, 1.0) if arguments[-1] == search.FINAL_TURNS else (0.5, 1.0)
    assert search.search([{'plain_steps.registers': 8}], Fickle(len)).best == {}


@pytest.mark.gpu
def test_the_walk_on_the_device_ends_with_a_split_that_engines_take(
        monkeypatch: pytest.MonkeyPatch) -> None:
    from stereo_bp_ros.engines.cuda.engine import CudaEngine
    monkeypatch.setattr(tune, 'OCCUPANCIES', [0.1, 0.5, 1.0])
    config = CONFIG.replace(disparity_range=24)
    found = tune.tune(config, *SIZE)
    assert found.after <= found.before
    CudaEngine.of(config.replace(**found.best), *SIZE).close()
