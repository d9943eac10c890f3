"""A configuration gets the same plan after a change as after a start, on both back ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stereo_bp_ros import StereoMatcher, engines, partitions
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines.backend import Backend, Engine
from stereo_bp_ros.engines.cpu.backend import CpuBackend
from stereo_bp_ros.engines.cuda.backend import CudaBackend
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL
from stereo_bp_ros.node.matcher_host import MatcherHost

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
