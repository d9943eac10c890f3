"""The matcher host: what is built when, in which memory, and which buffers are page-locked."""

from __future__ import annotations

import array
import types
from collections.abc import Callable
from typing import Any

import pytest

from stereo_bp_ros import StereoMatcher, engines, partitions
from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines.backend import Backend, Engine
from stereo_bp_ros.engines.cpu.backend import CpuBackend
from stereo_bp_ros.engines.cuda.backend import CudaBackend
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL
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
    monkeypatch.setattr(engines, 'known', lambda _: types.SimpleNamespace(
        tools=types.SimpleNamespace(pin=pinned.append)))
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


def test_a_size_is_prepared_for_once_and_it_is_said_how_long_that_took() -> None:
    logged: list[str] = []
    host = MatcherHost(FakeMatcher, logged.append)
    host.build(MatcherConfig(backend='cpu'), 0, 0)
    assert host.prepare(32, 24)
    assert not host.prepare(32, 24)
    assert host.prepare(64, 48)
    assert logged == [f'ready for {size} after 0.0 s, 0.0 s of it compiling'
                      for size in ('32 x 24', '64 x 48')]


def test_only_a_calibration_that_moves_min_depth_is_prepared_for() -> None:
    logged: list[str] = []
    host = MatcherHost(FakeMatcher, logged.append)
    host.build(MatcherConfig(backend='cpu', min_depth=1.0), 0, 0)
    wide, as_wide, narrow = (Calibration(100.0, baseline, 16.0, 16.0, 12.0)
                             for baseline in (0.2, 0.19, 0.1))
    assert [host.prepare(32, 24, one) for one in (wide, wide, as_wide, narrow, narrow)] == [
        True, False, False, True, False]
    assert host.effective_config == MatcherConfig(backend='cpu', disparity_range=16)
    assert [line.partition(' after')[0] for line in logged] == [
        'ready for 32 x 24, disparities 0 to 23,', 'ready for 32 x 24, disparities 0 to 15,']


def test_another_matcher_after_a_loss_searches_as_far() -> None:
    host = MatcherHost(FakeMatcher)
    host.build(MatcherConfig(min_depth=1.0), 0, 0)
    host.prepare(32, 24, Calibration(100.0, 0.2, 16.0, 16.0, 12.0))
    host.fall_back_to_cpu(DeviceLostError('gone'))
    assert host.effective_config == MatcherConfig(backend='cpu', disparity_range=24)


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


SIZE = (640, 480)
SMALL, LARGE = (MatcherConfig(disparity_range=disparities, levels=4)
                for disparities in (16, 128))


class Holder(Engine):
    """An engine that only holds its memory."""

    def __init__(self, plan: engines.Plan, held: list[int]) -> None:
        super().__init__(plan)
        self._held = held
        self._is_open = True
        held.append(plan.memory.total)

    def compute(self, *_: Any) -> dict[str, float]:
        return {}

    def wait_for(self, stream: int) -> None: ...

    def update(self, config: MatcherConfig) -> None:
        self.config = config

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._held.remove(self.plan.memory.total)


@pytest.fixture(params=['cpu', 'cuda'])
def with_memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
                ) -> Callable[[int], Backend]:
    """Makes the back end one with so many bytes, in which engines hold their plans' totals."""
    made: Backend = (CpuBackend('') if request.param == 'cpu' else CudaBackend(TYPICAL, ''))

    def install(total: int) -> Backend:
        held: list[int] = []
        kind = type(made)
        monkeypatch.setattr(kind, 'free_memory', lambda _: total - sum(held))
        monkeypatch.setattr(kind, '_create', lambda _, plan: Holder(plan, held))
        monkeypatch.setattr(kind, 'describe', lambda *_: {})
        monkeypatch.setattr(engines, 'choose', lambda _: made)
        return made
    return install


def fitting_total(backend: Backend, share: float) -> int:
    """Bytes of which an engine for ``LARGE`` may take so much of what it takes as a whole."""
    whole = backend.plan(LARGE, *SIZE, partitions.whole(*SIZE)).memory.total
    return int(share * whole / engines.SHARE) + 1


@pytest.mark.parametrize(('share', 'is_cut'), [(1.0, False), (0.6, True), (5.0, False)])
def test_a_changed_matcher_has_the_plan_of_a_fresh_one(with_memory, share, is_cut):
    total = fitting_total(with_memory(0), share)
    with_memory(total)
    with StereoMatcher(LARGE) as fresh:
        fresh.prepare(*SIZE)
        expected, parts = fresh.memory_plan, fresh.partitions
    with_memory(total)
    with StereoMatcher(SMALL) as changed:
        changed.prepare(*SIZE)
        changed.reconfigure(LARGE)
        assert (changed.memory_plan, changed.partitions) == (expected, parts)
    assert (parts.count > 1) == is_cut


@pytest.mark.parametrize(('share', 'is_cut'), [(1.0, False), (0.6, True)])
def test_a_node_that_changes_over_and_back_ends_as_it_began(with_memory, share, is_cut):
    with_memory(fitting_total(with_memory(0), share))
    room = MatcherHost(StereoMatcher)
    room.build(LARGE, *SIZE)
    began = room.matcher.partitions
    room.reconfigure(SMALL)
    assert room.matcher.partitions.count == 1
    room.reconfigure(LARGE)
    assert room.matcher.partitions == began
    assert (began.count > 1) == is_cut
    room.release()
