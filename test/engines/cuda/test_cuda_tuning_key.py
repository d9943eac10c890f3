"""What ``stereo_bp tune`` stores is what the engine of the same configuration looks up."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from stereo_bp_ros import MatcherConfig, StereoMatcher, engines, geometry
from stereo_bp_ros.engines.cuda.backend import CudaBackend
from stereo_bp_ros.engines.cuda.hierarchical import tilings, tuner, tuning
from stereo_bp_ros.engines.cuda.hierarchical.search import Candidate
from stereo_bp_ros.engines.cuda.plan import plan_of
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL

WIDTH, HEIGHT = 324, 242
HERE = {'device': 'NVIDIA H200', 'capability': '9.0', 'driver': '13000', 'compiler': '13.0'}


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
def backend(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> CudaBackend:
    """That of a device that is not here, with a cache that holds nothing."""
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    monkeypatch.setattr(tuning, 'machine', lambda _: HERE)
    monkeypatch.setattr(tuner, 'properties', lambda _: TYPICAL)
    monkeypatch.setattr(tuner, 'FrameTimer', PrefersChange)
    monkeypatch.setattr('stereo_bp_ros.engines.cuda.hierarchical.search.DIVISIONS', 2)
    monkeypatch.setattr('stereo_bp_ros.engines.cuda.hierarchical.search.TILES', 1)
    monkeypatch.setattr(CudaBackend, 'free_memory', lambda _: 2**34)
    return CudaBackend(TYPICAL, 'for the test')


@pytest.mark.parametrize('settings', [
    {'preset': 'road'},
    {'preset': 'road_fast'},
    {'disparity_range': 45, 'downscale': 4},
    {'disparity_range': 64, 'downscale': 2, 'min_disparity': -8},
    {'disparity_range': 64, 'rectify': True,
     'rectified_width': 160, 'rectified_height': 120},
    {'disparity_range': 64, 'downscale': 2, 'rectify': True},
    {'disparity_range': 64, 'downscale': 2, 'partition_columns': 2},
], ids=str)
def test_an_engine_takes_what_was_tuned_for_its_configuration(
        settings: dict[str, Any], backend: CudaBackend) -> None:
    changes = {'backend': 'cuda', 'preset': 'road', **settings}
    config = MatcherConfig.preset(changes.pop('preset'), **changes)
    untuned = backend.fit(config, WIDTH, HEIGHT)
    assert backend.tools.tuning_state(untuned) == 'never tuned'
    found = backend.tools.tune(config, WIDTH, HEIGHT, lambda *_: None, False)
    assert found['best']
    plan = backend.fit(config, WIDTH, HEIGHT)
    assert backend.tools.tuning_state(plan).startswith('tuned on ')
    stored = tuning.look_up(plan.config, plan.parts.width, plan.parts.height, TYPICAL)
    assert {str(level) for level in stored.tilings} == set(found['best'])
    tuned = plan_of(config, WIDTH, HEIGHT, TYPICAL, stored.tilings, plan.parts)
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
    tuner.tune(config, WIDTH, HEIGHT)
    assert set(asked) == {(32, *geometry.reduced_size(config, WIDTH, HEIGHT))}


@pytest.mark.gpu
def test_tuning_on_the_device_is_used_by_engines_of_reduced_images(
        tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    monkeypatch.setattr('stereo_bp_ros.engines.cuda.hierarchical.search.DIVISIONS', 2)
    monkeypatch.setattr('stereo_bp_ros.engines.cuda.hierarchical.search.TILES', 1)
    config = MatcherConfig.preset('road_fast', backend='cuda')
    chosen = engines.choose(config)
    found = chosen.tools.tune(config, WIDTH, HEIGHT, lambda *_: None, False)
    assert found['tuned'] <= found['untuned']
    with StereoMatcher(config) as matcher:
        matcher.prepare(WIDTH, HEIGHT)
        assert chosen.tools.tuning_state(chosen.fit(config, WIDTH, HEIGHT)).startswith('tuned on ')
