"""The engine room: what is built when, and which buffers the device may write."""

from __future__ import annotations

import array
from typing import Any

import pytest

from stereo_bp_ros import engines
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.node.engine_room import EngineRoom


@pytest.mark.parametrize(('backend', 'count'), [('cuda', 1), ('cpu', 0)])
def test_buffers_are_page_locked_where_a_gpu_writes_them(
        fake_matcher: Any, monkeypatch: pytest.MonkeyPatch, backend: str, count: int) -> None:
    pinned: list[Any] = []
    monkeypatch.setattr(engines, 'pin', lambda buffer, config: pinned.append(buffer))
    room = EngineRoom(fake_matcher)
    buffer = array.array('B', bytes(64))
    room.pin(buffer)                    # there is no matcher yet
    room.build(MatcherConfig(backend='cpu'), 32, 24)
    assert room.matcher is not None
    room.matcher.backend = backend      # type: ignore[misc]
    room.pin(buffer)
    assert [one is buffer for one in pinned] == [True] * count


def test_a_size_is_prepared_for_once(fake_matcher: Any) -> None:
    room = EngineRoom(fake_matcher)
    room.build(MatcherConfig(backend='cpu'), 0, 0)
    assert room.prepare(32, 24)
    assert not room.prepare(32, 24)
    assert room.prepare(64, 48)
