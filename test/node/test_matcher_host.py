"""The engine room: what is built when, and which buffers the device may write."""

from __future__ import annotations

import array
import types
from typing import Any

import pytest

from stereo_bp_ros import engines
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.errors import OutOfDeviceMemory
from stereo_bp_ros.node.matcher_host import MatcherHost


@pytest.mark.parametrize(('backend', 'count'), [('cuda', 1), ('cpu', 0)])
def test_buffers_are_page_locked_where_a_gpu_writes_them(
        fake_matcher: Any, monkeypatch: pytest.MonkeyPatch, backend: str, count: int) -> None:
    pinned: list[Any] = []
    room = MatcherHost(fake_matcher)
    buffer = array.array('B', bytes(64))
    room.pin(buffer)                    # there is no matcher yet
    room.build(MatcherConfig(backend='cpu'), 32, 24)
    monkeypatch.setattr(engines, 'known', lambda _: types.SimpleNamespace(pin=pinned.append))
    assert room.matcher is not None
    room.matcher.backend = backend      # type: ignore[misc]
    room.pin(buffer)
    assert [one is buffer for one in pinned] == [True] * count


def test_a_size_is_prepared_for_once_and_it_is_said_how_long_that_took(fake_matcher: Any
                                                                       ) -> None:
    logged: list[str] = []
    room = MatcherHost(fake_matcher, logged.append)
    room.build(MatcherConfig(backend='cpu'), 0, 0)
    assert room.prepare(32, 24)
    assert not room.prepare(32, 24)
    assert room.prepare(64, 48)
    assert logged == [f'ready for {size} after 0.0 s, 0.0 s of it compiling'
                      for size in ('32 x 24', '64 x 48')]


def test_a_device_without_memory_is_not_asked_again_for_every_image(
        fake_matcher: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[tuple[int, int]] = []

    def refuse(self: Any, width: int, height: int) -> float:
        attempts.append((width, height))
        raise OutOfDeviceMemory('nothing is left')

    room = MatcherHost(fake_matcher)
    room.build(MatcherConfig(backend='cpu'), 0, 0)
    monkeypatch.setattr(fake_matcher, 'prepare', refuse)
    for text in ('nothing is left', 'trying again in 1 s', 'trying again in 1 s'):
        with pytest.raises(OutOfDeviceMemory, match=text):
            room.prepare(32, 24)
    assert attempts == [(32, 24)]
