"""A new configuration is compiled while the old engine serves, and applied by the worker."""

from __future__ import annotations

import threading
import types

import pytest

from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.node.engine_keeper import EngineKeeper

OLD = MatcherConfig(disparity_range=16)


class Room:
    """An engine room whose engine is a configuration."""

    def __init__(self) -> None:
        self.config = OLD

    def effective(self, wanted: MatcherConfig) -> MatcherConfig:
        return wanted

    def reconfigure(self, wanted: MatcherConfig) -> bool:
        self.config = wanted
        return True


class Compiler:
    """A compiler that takes as long as the test wants."""

    def __init__(self) -> None:
        self.begun, self.finish = threading.Event(), threading.Event()
        self.compiled: list[MatcherConfig] = []

    def __call__(self, config: MatcherConfig) -> None:
        self.compiled.append(config)
        self.begun.set()
        assert self.finish.wait(10)


@pytest.fixture
def bench():
    """A keeper with a slow compiler; ``done`` is set when the worker has applied something."""
    done = threading.Event()
    room, compiler = Room(), Compiler()
    worker = types.SimpleNamespace(post=lambda command: (command(), done.set()))
    conditions = types.SimpleNamespace(clear=lambda key: None, warn=lambda key, text: None)
    keeper = EngineKeeper(engine_room=room, worker=worker, conditions=conditions,
                          mailbox=types.SimpleNamespace(reconfiguring=False),
                          log=lambda text: None, warm_up=compiler)
    return types.SimpleNamespace(keeper=keeper, room=room, compiler=compiler, done=done)


def parameters(**changes) -> types.SimpleNamespace:
    return types.SimpleNamespace(matcher=OLD.replace(**changes))


def test_the_old_engine_serves_until_the_new_one_is_compiled(bench):
    wanted = parameters(message_type='float32')
    bench.keeper.apply(wanted)
    assert bench.compiler.begun.wait(10)
    assert bench.room.config == OLD
    bench.compiler.finish.set()
    assert bench.done.wait(10)
    assert bench.room.config == wanted.matcher


@pytest.mark.parametrize('changes', [{'speckle_size': 10}, {'disparity_range': 48}])
def test_a_change_without_new_kernels_waits_for_no_compiler(bench, changes):
    wanted = parameters(**changes)
    bench.keeper.apply(wanted)
    assert bench.room.config == wanted.matcher
    assert not bench.compiler.compiled


def test_what_was_compiled_once_is_not_compiled_again(bench):
    bench.compiler.finish.set()
    bench.keeper.apply(parameters(message_type='float32'))
    assert bench.done.wait(10)
    bench.keeper.apply(parameters())
    assert bench.room.config == OLD
    bench.keeper.apply(parameters(message_type='float32'))
    assert bench.room.config.message_type == 'float32'
    assert len(bench.compiler.compiled) == 1


def test_of_several_changes_during_a_compilation_the_last_is_applied(bench):
    wanted = parameters(message_type='float32')
    bench.keeper.apply(wanted)
    assert bench.compiler.begun.wait(10)
    for changes in ({'disparity_range': 48}, {'stereo_algorithm': 'sad'}):
        wanted.matcher = OLD.replace(**changes)
        if changes.get('stereo_algorithm'):
            bench.keeper.apply(wanted)
    bench.compiler.finish.set()
    assert bench.done.wait(10)
    assert bench.room.config.stereo_algorithm == 'sad'
    assert [c.stereo_algorithm for c in bench.compiler.compiled] == ['bp', 'sad']


def test_a_configuration_that_cannot_be_compiled_is_left_to_the_worker_to_refuse(bench):
    def fail(config):
        raise RuntimeError('no compiler')

    bench.keeper._warm_up = fail
    bench.keeper.apply(parameters(message_type='float32'))
    assert bench.done.wait(10)
    assert bench.room.config.message_type == 'float32'
