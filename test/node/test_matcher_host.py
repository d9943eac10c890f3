"""The matcher host: what is built when, in which memory, and which buffers are page-locked."""

from __future__ import annotations

import array
import types
from collections.abc import Callable
from typing import Any

import pytest

from stereo_bp_ros import StereoMatcher
from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.engines import choice
from stereo_bp_ros.engines.backend import SHARE
from stereo_bp_ros.engines.cpu.backend import CpuBackend
from stereo_bp_ros.errors import DeviceLostError, OutOfDeviceMemory
from stereo_bp_ros.node.matcher_host import MatcherHost
from test.node.stand_ins import FakeMatcher


@pytest.mark.parametrize(('backend', 'count'), [('cuda', 1), ('cpu', 0)])
def test_buffers_are_page_locked_where_a_gpu_writes_them(
        monkeypatch: pytest.MonkeyPatch, backend: str, count: int) -> None:
    pinned: list[Any] = []
    host = MatcherHost(FakeMatcher)
    buffer = array.array('B', bytes(64))
    host.pin(buffer)                    # there is no matcher yet
    host.build(MatcherConfig(backend='cpu'), 32, 24)
    monkeypatch.setattr(choice, 'known', lambda _: types.SimpleNamespace(
        backend=types.SimpleNamespace(tools=types.SimpleNamespace(pin=pinned.append))))
    assert host.matcher is not None
    host.matcher.backend = backend      # type: ignore[misc]
    host.pin(buffer)
    assert [one is buffer for one in pinned] == [True] * count


def test_it_is_known_when_an_engine_is_in_the_making_and_when_it_has_been(
        monkeypatch: pytest.MonkeyPatch) -> None:
    config = MatcherConfig(backend='cpu')
    calibration = Calibration(100.0, 0.1, 16.0, 16.0, 12.0)
    host = MatcherHost(FakeMatcher)
    inside: list[bool] = []

    def told(work: Callable[..., Any]) -> Callable[..., Any]:
        def telling(*arguments: Any, **options: Any) -> Any:
            inside.append(host.building_since is not None)
            return work(*arguments, **options)
        return telling
    for name in ('prepare', 'reconfigure'):
        monkeypatch.setattr(FakeMatcher, name, told(getattr(FakeMatcher, name)))
    monkeypatch.setattr(host, '_match', told(lambda *_: None))

    def built(work: Callable[[], object]) -> tuple[bool, bool]:
        """Whether it was known inside that an engine is in the making, and that one was made."""
        before = host.built_at
        work()
        assert host.building_since is None
        return inside.pop(), host.built_at > before
    image: Any = types.SimpleNamespace(width=32, height=24)

    def match() -> None:
        host.compute(image, image, calibration, {})
    assert built(lambda: host.build(config, 32, 24)) == (True, True)
    assert built(match) == (True, True)             # the first one of an engine
    assert built(match) == (False, False)
    assert built(lambda: host.prepare(64, 48)) == (True, True)
    assert built(match) == (True, True)
    # Live changes and other calibrations need no engine: they must not put the wait off for ever.
    assert built(lambda: host.reconfigure(config.replace(speckle_size=7))) == (True, False)
    assert built(lambda: host.prepare(64, 48, calibration)) == (True, False)
    assert built(match) == (False, False)
    assert built(lambda: host.reconfigure(config.replace(disparity_range=32))) == (True, True)

    def fail(*_: object) -> None:
        raise OutOfDeviceMemory('none left')
    monkeypatch.setattr(FakeMatcher, 'reconfigure', told(fail))

    def fail_to_change() -> None:
        with pytest.raises(OutOfDeviceMemory):
            host.reconfigure(config.replace(disparity_range=48))
    assert built(fail_to_change) == (True, True)    # the old one serves from now on


def test_the_effective_configuration_is_told_while_the_worker_lets_the_matcher_go() -> None:
    class Going(MatcherHost):           # once somebody has looked
        @property
        def matcher(self) -> Any:       # type: ignore[override]
            return self.__dict__.pop('kept', None)

        @matcher.setter
        def matcher(self, matcher: Any) -> None:
            self.__dict__['kept'] = matcher

    host = Going(StereoMatcher)
    config = MatcherConfig(backend='cpu')
    host.matcher = StereoMatcher(config)
    assert host.effective_config == config
    assert host.effective_config is None


def test_a_size_and_a_calibration_that_moves_min_depth_are_prepared_for_once() -> None:
    logged: list[str] = []
    host = MatcherHost(FakeMatcher, logged.append)
    host.build(MatcherConfig(min_depth=1.0), 0, 0)
    wide, as_wide, narrow = (Calibration(100.0, baseline, 16.0, 16.0, 12.0)
                             for baseline in (0.2, 0.19, 0.1))
    assert [host.prepare(32, 24, calibration)
            for calibration in (wide, wide, as_wide, narrow, narrow)] == [
        True, False, False, True, False]
    assert logged == [
        f'ready for 32 x 24, disparities 0 to {last}, after 0.0 s, 0.0 s of it compiling'
        for last in (23, 15)]
    assert host.effective_config.disparity_range == 16
    # Another matcher after a loss searches as far.
    host.fall_back_to_cpu(DeviceLostError('gone'))
    assert host.effective_config == MatcherConfig(backend='cpu', disparity_range=16)


def test_a_device_without_memory_is_not_asked_again_for_every_image(
        monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[tuple[int, int]] = []

    def refuse(self: Any, width: int, height: int, calibration: Any) -> float:
        attempts.append((width, height))
        raise OutOfDeviceMemory('nothing is left')

    host = MatcherHost(FakeMatcher)
    host.build(MatcherConfig(backend='cpu'), 0, 0)
    monkeypatch.setattr(FakeMatcher, 'prepare', refuse)
    for text in ('nothing is left', 'trying again in 1 s', 'trying again in 1 s'):
        with pytest.raises(OutOfDeviceMemory, match=text):
            host.prepare(32, 24)
    assert attempts == [(32, 24)]


def test_a_node_that_changes_over_and_back_ends_with_the_partitions_that_it_began_with(
        monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip('numba')
    size = 320, 240
    small, large = (MatcherConfig(disparity_range=disparities, levels=4, backend='cpu')
                    for disparities in (16, 64))
    total = int(0.8 * choice.resolve(large).lay_out(*size).memory.total / SHARE)
    host = MatcherHost(StereoMatcher)

    def free_memory(_: object) -> int:
        plan = host.matcher.memory_plan if host.matcher else None
        return total - (plan.total if plan else 0)

    monkeypatch.setattr(CpuBackend, 'free_memory', free_memory)
    host.build(large, *size)
    matcher: Any = host.matcher
    began = matcher.memory_plan, matcher.partitions
    assert matcher.partitions.count > 1
    host.reconfigure(small)
    assert matcher.partitions.count == 1
    host.reconfigure(large)
    assert (matcher.memory_plan, matcher.partitions) == began
    host.release()
