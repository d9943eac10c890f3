"""A new configuration is compiled while the old engine serves, and applied by the worker."""

from __future__ import annotations

import threading
import types

import pytest

from stereo_bp_ros import engines
from stereo_bp_ros.config import MatcherConfig, NodeConfig
from stereo_bp_ros.node.engine_keeper import EngineKeeper

OLD = MatcherConfig(disparity_range=16)


class Room:
    """An engine room whose engine is a configuration."""

    def __init__(self) -> None:
        self.config = OLD
        self.matcher: types.SimpleNamespace | None = None

    def effective(self, wanted: MatcherConfig) -> MatcherConfig:
        return wanted

    def reconfigure(self, wanted: MatcherConfig) -> bool:
        self.config = wanted
        return True

    def prepare(self, width: int, height: int) -> bool:
        if self.matcher is not None and self.matcher.size == (width, height):
            return False
        self.matcher = types.SimpleNamespace(size=(width, height), compile_time=1.5)
        return True


class Compiler:
    """A compiler that takes as long as the test wants."""

    def __init__(self) -> None:
        self.begun, self.finish = threading.Event(), threading.Event()
        self.compiled: list[MatcherConfig] = []
        self.sizes: list[tuple[int, int]] = []

    def __call__(self, config: MatcherConfig, width: int, height: int) -> None:
        self.compiled.append(config)
        self.sizes.append((width, height))
        self.begun.set()
        assert self.finish.wait(10)


@pytest.fixture
def bench():
    """A keeper with a slow compiler; ``done`` is set when the worker has applied something."""
    done = threading.Event()
    room, compiler = Room(), Compiler()
    worker = types.SimpleNamespace(post=lambda command: (command(), done.set()))
    conditions = types.SimpleNamespace(clear=lambda key: None, warn=lambda key, text: None)
    logged: list[str] = []
    keeper = EngineKeeper(engine_room=room, worker=worker, conditions=conditions,
                          mailbox=types.SimpleNamespace(reconfiguring=False),
                          log=logged.append, warm_up=compiler)
    return types.SimpleNamespace(keeper=keeper, room=room, compiler=compiler, done=done,
                                 logged=logged)


def parameters(**changes) -> types.SimpleNamespace:
    return types.SimpleNamespace(matcher=OLD.replace(**changes), node=NodeConfig())


def info(width: int, height: int) -> types.SimpleNamespace:
    roi = types.SimpleNamespace(width=0, height=0, x_offset=0, y_offset=0)
    return types.SimpleNamespace(width=width, height=height, binning_x=0, binning_y=0, roi=roi)


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
    def fail(config, width, height):
        raise RuntimeError('no compiler')

    bench.keeper._warm_up = fail
    bench.keeper.apply(parameters(message_type='float32'))
    assert bench.done.wait(10)
    assert bench.room.config.message_type == 'float32'


def test_compiling_ahead_is_for_the_size_of_the_images(bench):
    bench.compiler.finish.set()
    bench.keeper.prepare_for(info(640, 480), info(640, 480), OLD)
    bench.done.clear()
    bench.keeper.apply(parameters(message_type='float32'))
    assert bench.done.wait(10)
    assert bench.compiler.sizes == [(640, 480)]


def test_the_first_camera_info_prepares_and_says_how_long_compiling_took(bench):
    bench.keeper.prepare_for(info(640, 480), info(640, 480), OLD)
    assert bench.room.matcher.size == (640, 480)
    assert len(bench.logged) == 1
    assert 'ready for 640 x 480' in bench.logged[0]
    assert '1.5 s of it compiling' in bench.logged[0]
    bench.keeper.forget_size()
    bench.keeper.prepare_for(info(640, 480), info(640, 480), OLD)
    assert len(bench.logged) == 1       # nothing was left to do


def test_the_size_is_what_camera_info_told_before_what_parameters_say(bench):
    settings = NodeConfig(image_width=1280, image_height=720)
    assert bench.keeper.known_size(settings) == (1280, 720)
    bench.keeper.prepare_for(info(640, 480), info(640, 480), OLD)
    assert bench.keeper.known_size(settings) == (640, 480)


def test_on_cuda_another_size_may_need_other_kernels(monkeypatch):
    monkeypatch.setattr(engines, 'choose_backend', lambda config: engines.Choice('cuda', ''))
    small, large = (engines.kernels_of(OLD, *size) for size in ((640, 480), (1280, 720)))
    assert small != large
    assert engines.kernels_of(OLD.replace(speckle_size=9), 640, 480) == small
