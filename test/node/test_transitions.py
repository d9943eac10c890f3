"""Transitions that several threads ask for at once: autostart's, the service's, and the end's."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.images.raw_images import RawImage
from stereo_bp_ros.node.node import StereoBpNode
from stereo_bp_ros.stream.observer import Pair
from test.node.processes import LIMIT

pytestmark = pytest.mark.ros

#: Seconds for which something is watched that must not happen.
A_WHILE = 0.3
BODIES = ('_configure', '_activate', '_deactivate', '_cleanup')


class Watched:
    """A node in this process that says which transitions work at once."""

    def __init__(self, node: StereoBpNode, monkeypatch: pytest.MonkeyPatch) -> None:
        self.node = node
        self.working: list[int] = []        # threads
        self.overlaps: list[str] = []
        self.done: list[str] = []
        self.started = {name: threading.Event() for name in BODIES}
        self.go = {name: threading.Event() for name in BODIES}
        for name in BODIES:
            self.go[name].set()
            monkeypatch.setattr(node, name, self._watched(name, getattr(node, name)))

    def _watched(self, name: str, work: Callable[..., None]) -> Callable[..., None]:
        def watched(*arguments: Any) -> None:
            self.working.append(threading.get_ident())
            if len(set(self.working)) > 1:
                self.overlaps.append(name)
            self.started[name].set()
            try:
                assert self.go[name].wait(LIMIT)
                work(*arguments)
                time.sleep(0.002)
            finally:
                self.working.remove(threading.get_ident())
                self.done.append(name)
        return watched

    @property
    def state(self) -> str:
        return str(self.node._state_machine.current_state[1])


@pytest.fixture
def watched(make: Any, monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(make(autostart=True).node, monkeypatch)


def thread_of(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize('end', ['cleanup', 'clock jump'])
def test_images_that_wait_to_be_measured_go(watched: Watched, end: str) -> None:
    node = watched.node
    assert node.trigger_configure().name == 'SUCCESS'
    assert node.trigger_activate().name == 'SUCCESS'
    pixels = np.zeros((24, 32), np.uint8)
    image = RawImage.from_array(pixels)
    node._measuring.stop()
    node._observer.offer(Pair(image, image, MatcherConfig(), time_s=1.0))
    kept = weakref.ref(pixels)
    del image, pixels
    gc.collect()
    assert kept() is not None
    if end == 'cleanup':
        assert node.trigger_deactivate().name == node.trigger_cleanup().name == 'SUCCESS'
    else:
        node._on_clock_jump()
    gc.collect()
    assert kept() is None


def test_the_end_waits_for_a_transition_that_is_on_its_way(watched: Watched) -> None:
    node = watched.node
    assert node.trigger_configure().name == 'SUCCESS'
    watched.go['_activate'].clear()
    activating = thread_of(node.trigger_activate)
    assert watched.started['_activate'].wait(LIMIT)
    ending = thread_of(lambda: node.stop(LIMIT))
    ending.join(A_WHILE)
    assert ending.is_alive()
    assert not watched.started['_deactivate'].is_set()
    watched.go['_activate'].set()
    for thread in (activating, ending):
        thread.join(LIMIT)
        assert not thread.is_alive()
    assert watched.done == ['_configure', '_activate', '_deactivate']
    assert node._inputs is None
    assert watched.overlaps == []


def test_a_transition_that_hangs_holds_the_end_up_no_longer_than_its_limit(
        watched: Watched) -> None:
    watched.go['_configure'].clear()
    configuring = thread_of(watched.node.trigger_configure)
    assert watched.started['_configure'].wait(LIMIT)
    start = time.monotonic()
    watched.node.stop(A_WHILE)
    assert A_WHILE <= time.monotonic() - start < LIMIT / 2
    watched.go['_configure'].set()
    configuring.join(LIMIT)
    assert not configuring.is_alive()
    # After the end no transition begins.
    assert watched.node.trigger_configure().name == 'FAILURE'
    assert watched.done.count('_configure') == 1


def test_whoever_asks_between_the_two_transitions_of_autostart_wins(
        watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    configure = watched.node.trigger_configure

    def and_somebody_cleans_up() -> Any:
        result = configure()
        assert watched.node.trigger_cleanup().name == 'SUCCESS'
        return result
    monkeypatch.setattr(watched.node, 'trigger_configure', and_somebody_cleans_up)
    asked: list[str] = []
    monkeypatch.setattr(watched.node, 'trigger_activate', lambda: asked.append('activate'))
    watched.node._autostart()
    assert watched.state == 'unconfigured'
    assert asked == []


def test_threads_that_ask_at_once_never_work_at_once(watched: Watched) -> None:
    node = watched.node
    barrier = threading.Barrier(3)

    def ask(*steps: Callable[[], Any]) -> None:
        barrier.wait(LIMIT)
        for _ in range(5):
            for step in steps:
                step()
    threads = [
        thread_of(lambda: ask(node.trigger_configure, node.trigger_activate)),
        thread_of(lambda: ask(node.trigger_activate, node.trigger_deactivate)),
        thread_of(lambda: ask(node.trigger_deactivate, node.trigger_cleanup))]
    for thread in threads:
        thread.join(LIMIT)
        assert not thread.is_alive()
    assert '_configure' in watched.done
    assert watched.overlaps == []
    assert watched.state in ('unconfigured', 'inactive', 'active')
    assert node._busy_with == ''
