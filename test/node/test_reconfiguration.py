"""A new configuration is compiled while the old engine serves, and applied by the worker."""

from __future__ import annotations

import concurrent.futures
import threading
import time
import types

import pytest

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.config.node import NodeConfig
from stereo_bp_ros.engines import choice, geometry, host_memory, partitions
from stereo_bp_ros.engines.backend import SHARE, Resolved
from stereo_bp_ros.engines.cuda.backend import CudaBackend
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL
from stereo_bp_ros.errors import MemoryLimitError
from stereo_bp_ros.node import reconfiguration
from stereo_bp_ros.node.reconfiguration import Reconfiguration
from test.node.processes import LIMIT

OLD = MatcherConfig(disparity_range=16, backend='cpu')


class Host:
    """A matcher host whose matcher is a configuration."""

    def __init__(self) -> None:
        self.config = OLD
        self.calibration: Calibration | None = None
        self.matcher: types.SimpleNamespace | None = None
        self.built: list[MatcherConfig] = []

    @property
    def effective_config(self) -> MatcherConfig:
        return geometry.effective(self.config, self.calibration)

    def usable(self, wanted: MatcherConfig) -> MatcherConfig:
        return wanted

    def reconfigure(self, wanted: MatcherConfig, calibration: Calibration | None = None) -> bool:
        self.calibration = calibration
        if not self.config.is_live_change(wanted):
            self.built.append(wanted)
        self.config = wanted
        return True


class Compiler:
    """A compiler that takes as long as the test wants."""

    def __init__(self) -> None:
        self.begun, self.finish = threading.Event(), threading.Event()
        self.compiled: list[MatcherConfig] = []
        self.sizes: list[tuple[int, int]] = []

    def __call__(self, resolved: Resolved, width: int, height: int) -> None:
        self.compiled.append(resolved.config)
        self.sizes.append((width, height))
        self.begun.set()
        assert self.finish.wait(LIMIT)


@pytest.fixture
def bench():
    """One with a slow compiler; ``done`` is set when the worker has applied something."""
    choice.choose(OLD)                 # as the worker has done by then
    done = threading.Event()
    host, compiler = Host(), Compiler()
    worker = types.SimpleNamespace(post=lambda command: (command(), done.set()))
    said: list[str] = []
    issues = types.SimpleNamespace(
        clear=lambda code: said.clear(), add=lambda code, text: said.append(text))
    reconfiguration = Reconfiguration(
        matcher_host=host, worker=worker, issues=issues,
        mailbox=types.SimpleNamespace(reconfiguring=False), log=lambda text: None,
        warm_up=compiler)
    yield types.SimpleNamespace(reconfiguration=reconfiguration, host=host, compiler=compiler,
                                done=done, said=said)
    # No thread is left behind that another test would find.
    compiler.finish.set()
    for thread in threading.enumerate():
        if thread.name == 'stereo_bp_compiler':
            thread.join(LIMIT)
            assert not thread.is_alive()


@pytest.fixture
def on_cuda(monkeypatch):
    """Kernels depend on the size there."""
    backend = CudaBackend(TYPICAL, '')
    monkeypatch.setattr(CudaBackend, 'free_memory', lambda _: TYPICAL.memory)
    for name in ('resolve', 'known'):
        monkeypatch.setattr(choice, name, lambda config, calibration=None: Resolved(
            config, geometry.effective(config, calibration), backend))
    return backend


def parameters(**changes) -> types.SimpleNamespace:
    return types.SimpleNamespace(matcher=OLD.replace(**changes), node=NodeConfig())


def info(width: int, height: int) -> types.SimpleNamespace:
    roi = types.SimpleNamespace(width=0, height=0, x_offset=0, y_offset=0)
    return types.SimpleNamespace(width=width, height=height, binning_x=0, binning_y=0, roi=roi)


def test_the_old_engine_serves_until_the_new_one_is_compiled(bench):
    wanted = parameters(message_type='float32')
    bench.reconfiguration.reconcile(wanted)
    assert bench.compiler.begun.wait(LIMIT)
    assert bench.host.config == OLD
    bench.compiler.finish.set()
    assert bench.done.wait(LIMIT)
    assert bench.host.config == wanted.matcher


def test_a_change_without_new_kernels_waits_for_no_compiler_and_a_live_one_asks_no_back_end(
        bench, monkeypatch):
    """Issue out which one there is reads files: a millisecond of the executor's time."""
    wanted = parameters(disparity_range=48)
    bench.reconfiguration.reconcile(wanted)
    assert bench.host.config == wanted.matcher
    for name in ('resolve', 'known'):
        monkeypatch.setattr(choice, name, lambda *_: pytest.fail('asked'))
    before, wanted = wanted.matcher, parameters(disparity_range=48, speckle_size=9)
    bench.reconfiguration.check(before, wanted.matcher,
                                NodeConfig(image_width=640, image_height=480))
    bench.reconfiguration.reconcile(wanted)
    assert bench.host.config == wanted.matcher
    assert not bench.compiler.compiled


def test_what_was_compiled_once_is_not_compiled_again(bench):
    bench.compiler.finish.set()
    bench.reconfiguration.reconcile(parameters(message_type='float32'))
    assert bench.done.wait(LIMIT)
    for changes in ({}, {'message_type': 'float32'}):
        bench.done.clear()
        bench.reconfiguration.reconcile(parameters(**changes))
        assert bench.done.wait(LIMIT)
        assert bench.host.config == OLD.replace(**changes)
    assert len(bench.compiler.compiled) == 1


def test_of_several_changes_during_a_compilation_the_last_is_applied(bench):
    wanted = parameters(message_type='float32')
    bench.reconfiguration.reconcile(wanted)
    assert bench.compiler.begun.wait(LIMIT)
    for changes in ({'disparity_range': 48}, {'stereo_algorithm': 'sad'}):
        wanted.matcher = OLD.replace(**changes)
        if changes.get('stereo_algorithm'):
            bench.reconfiguration.reconcile(wanted)
    bench.compiler.finish.set()
    assert bench.done.wait(LIMIT)
    assert bench.host.config.stereo_algorithm == 'sad'
    assert [c.stereo_algorithm for c in bench.compiler.compiled] == ['bp', 'sad']


def test_a_configuration_that_cannot_be_compiled_is_left_to_the_worker_to_refuse(bench):
    def fail(config, width, height):
        raise RuntimeError('no compiler')

    bench.reconfiguration._warm_up = fail
    bench.reconfiguration.reconcile(parameters(message_type='float32'))
    assert bench.done.wait(LIMIT)
    assert bench.host.config.message_type == 'float32'


@pytest.fixture
def in_a_thread(bench):
    """The bench with a worker's thread, as commands that wait need one."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        bench.posted = []
        bench.reconfiguration._worker = types.SimpleNamespace(
            post=lambda command: bench.posted.append(pool.submit(command)))
        yield bench


def test_of_a_burst_of_changes_the_first_and_the_last_are_built(in_a_thread, monkeypatch):
    bench = in_a_thread
    monkeypatch.setattr(reconfiguration, 'QUIET', 1.0)
    monkeypatch.setattr(reconfiguration, 'MAX_BURST', 60.0)       # on a busy machine, too
    wanted = parameters()
    for disparities in range(17, 117):
        wanted.matcher = OLD.replace(disparity_range=disparities, levels=4)
        bench.reconfiguration.reconcile(wanted)
        bench.posted[0].result(LIMIT)      # the first; the others come while it is new
    assert len(bench.posted) == 100
    for done in bench.posted:
        done.result(LIMIT)
    assert [config.disparity_range for config in bench.host.built] == [17, 116]


def test_no_pair_is_matched_with_the_old_engine_during_a_burst(in_a_thread, monkeypatch):
    """The worker, which matches, is the one that waits."""
    bench = in_a_thread
    monkeypatch.setattr(reconfiguration, 'QUIET', 0.2)
    for disparities in (17, 18):
        bench.reconfiguration.reconcile(parameters(disparity_range=disparities))
        bench.posted[0].result(LIMIT)
    bench.reconfiguration._worker.post(lambda: bench.host.config.disparity_range)
    assert bench.posted[-1].result(LIMIT) == 18


@pytest.mark.parametrize(('quiet', 'burst', 'apart'), [(30.0, 0.2, 0.0), (0.01, 30.0, 0.05)])
def test_a_burst_without_an_end_is_applied_all_the_same_and_changes_far_apart_at_once(
        in_a_thread, monkeypatch, quiet, burst, apart):
    bench = in_a_thread
    monkeypatch.setattr(reconfiguration, 'QUIET', quiet)
    monkeypatch.setattr(reconfiguration, 'MAX_BURST', burst)
    for disparities in (17, 18):
        time.sleep(apart)
        bench.reconfiguration.reconcile(parameters(disparity_range=disparities))
        bench.posted[-1].result(LIMIT)
    assert bench.host.config.disparity_range == 18


def compiled(bench) -> list[tuple[int, int]]:
    """The sizes that were compiled for, once nothing is compiled any more."""
    end = time.monotonic() + LIMIT
    while bench.reconfiguration.compiling:
        assert time.monotonic() < end
        time.sleep(0.01)
    return bench.compiler.sizes


def test_compiling_ahead_is_for_the_size_of_the_images_before_what_parameters_say(bench):
    settings = NodeConfig(image_width=1280, image_height=720)
    assert bench.reconfiguration.known_size(settings) == (1280, 720)
    bench.compiler.finish.set()
    # The host of this bench has nothing to allocate with, and the CPU no kernels for a size.
    bench.reconfiguration.expect(info(640, 480), info(640, 480), parameters())
    assert bench.reconfiguration.known_size(settings) == (640, 480)
    assert compiled(bench) == []
    assert not bench.host.built
    bench.reconfiguration.reconcile(parameters(message_type='float32'))
    assert compiled(bench) == [(640, 480)]


def test_camera_info_of_a_size_that_does_not_fit_says_so_until_another_comes(bench):
    bench.host.config = OLD.replace(memory_limit=10_000_000, stereo_algorithm='sad')
    bench.reconfiguration.expect(info(2048, 2048), info(2048, 2048), parameters())
    assert len(bench.said) == 1
    assert 'no engine for 2048 x 2048' in bench.said[0]
    assert 'memory_limit' in bench.said[0]
    bench.reconfiguration.expect(info(64, 48), info(64, 48), parameters())
    assert bench.said == []


def test_on_cuda_camera_info_has_the_kernels_compiled_until_there_is_an_engine(bench, on_cuda):
    bench.compiler.finish.set()
    for _ in range(3):
        bench.reconfiguration.expect(info(640, 480), info(640, 480), parameters())
        assert compiled(bench) == [(640, 480)]
    bench.reconfiguration.expect(info(640, 480), info(640, 482), parameters())
    bench.reconfiguration.expect(info(9000, 480), info(9000, 480), parameters())
    assert compiled(bench) == [(640, 480)]
    bench.reconfiguration.expect(info(1280, 720), info(1280, 720), parameters())
    assert bench.reconfiguration.known_size(NodeConfig()) == (1280, 720)
    assert compiled(bench) == [(640, 480), (1280, 720)]
    bench.host.matcher = types.SimpleNamespace(size=(640, 480))
    bench.reconfiguration.expect(info(8192, 8192), info(8192, 8192), parameters())
    assert bench.reconfiguration.known_size(NodeConfig()) == (640, 480)
    assert len(bench.compiler.sizes) == 2
    assert not bench.host.built


def test_a_change_during_a_burst_is_compiled_before_the_worker_has_it(in_a_thread, monkeypatch):
    bench = in_a_thread
    monkeypatch.setattr(reconfiguration, 'QUIET', 1.0)
    wanted = parameters()
    for changes in ({'disparity_range': 17}, {'disparity_range': 18}, {'message_type': 'float32'}):
        wanted.matcher = OLD.replace(**changes)
        bench.reconfiguration.reconcile(wanted)
        bench.posted[0].result(LIMIT)
    assert bench.compiler.begun.wait(LIMIT)
    bench.posted[1].result(LIMIT)          # the end of the burst, which leaves it to the compiler
    assert [config.message_type for config in bench.host.built] == ['int16']
    bench.compiler.finish.set()
    compiled(bench)
    bench.posted[-1].result(LIMIT)
    assert bench.host.config.message_type == 'float32'


def test_a_parameter_may_need_the_memory_that_the_old_engine_gives_back(bench, monkeypatch):
    wanted = OLD.replace(disparity_range=64)
    settings = NodeConfig(image_width=320, image_height=240)
    uncut = partitions.whole(320, 240)
    needed, held = (choice.resolve(config).lay_out(320, 240, uncut).memory
                    for config in (wanted, OLD))
    free = int(needed.total / SHARE) + 1 - held.total
    monkeypatch.setattr(host_memory, 'available', lambda **_: free)
    monkeypatch.setattr(partitions, 'can_be_cut', lambda _: False)
    with pytest.raises(MemoryLimitError):
        bench.reconfiguration.check(OLD, wanted, settings)
    bench.host.matcher = types.SimpleNamespace(size=(320, 240), memory_plan=held)
    bench.reconfiguration.check(OLD, wanted, settings)
