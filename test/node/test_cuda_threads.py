"""Only the worker's thread calls CUDA, whatever the executor's thread validates."""

from __future__ import annotations

import concurrent.futures
import threading
import time
import types
from collections.abc import Iterator
from typing import Any

import pytest

from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.config.node import NodeConfig
from stereo_bp_ros.engines import choice
from stereo_bp_ros.engines.cuda import backend
from stereo_bp_ros.engines.cuda.runtime import compiler, device
from stereo_bp_ros.errors import MemoryLimitError
from stereo_bp_ros.node.reconfiguration import Reconfiguration

OLD = MatcherConfig(disparity_range=16, backend='cuda')
SIZE = NodeConfig(image_width=640, image_height=480)
GPU = {'name': b'fake', 'major': 9, 'minor': 0, 'multiProcessorCount': 132,
       'sharedMemPerBlockOptin': 227 * 1024, 'sharedMemPerMultiprocessor': 228 * 1024,
       'totalGlobalMem': 2**33, 'integrated': 0}


@pytest.fixture
def callers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names of the threads that have called CUDA, of which a fake answers."""
    cupy = pytest.importorskip('cupy')
    from cupy.cuda import runtime
    names: list[str] = []

    def answers(result: Any) -> Any:
        def call(*_: Any, **__: Any) -> Any:
            names.append(threading.current_thread().name)
            return result
        return call

    for name, result in (('getDeviceCount', 1), ('getDeviceProperties', GPU),
                         ('runtimeGetVersion', 13000), ('driverGetVersion', 13000),
                         ('memGetInfo', (2**33, 2**33)), ('malloc', 4096),
                         ('pointerGetAttributes', None)):
        monkeypatch.setattr(runtime, name, answers(result))
    for name in ('Device', 'Stream'):
        monkeypatch.setattr(cupy.cuda, name, answers(types.SimpleNamespace()))
    monkeypatch.setattr(compiler, 'compiled', lambda file, name, architecture: (b'', name))
    monkeypatch.setattr(compiler, '_ahead', {})
    monkeypatch.setattr(backend, '_known', {})
    device.properties.cache_clear()
    yield names
    device.properties.cache_clear()


@pytest.fixture
def bench(callers: list[str]) -> Iterator[types.SimpleNamespace]:
    """Its worker is a thread that has asked for the device, as at configure."""
    host = types.SimpleNamespace(config=OLD, effective_config=OLD, matcher=None,
                                 usable=lambda wanted: wanted)

    def reconfigure(wanted: MatcherConfig, calibration: object = None) -> bool:
        choice.choose(wanted)
        host.config = host.effective_config = wanted
        return True

    host.reconfigure = reconfigure
    issues = types.SimpleNamespace(clear=lambda code: None, add=lambda code, text: None)
    with concurrent.futures.ThreadPoolExecutor(1, 'worker') as pool:
        reconfiguration = Reconfiguration(
            matcher_host=host, worker=types.SimpleNamespace(post=pool.submit),   # type: ignore
            mailbox=types.SimpleNamespace(reconfiguring=False),                 # type: ignore
            issues=issues, log=lambda text: None)                       # type: ignore
        yield types.SimpleNamespace(reconfiguration=reconfiguration, host=host, pool=pool)


def test_validating_a_change_and_compiling_for_it_call_no_cuda(
        bench: types.SimpleNamespace, callers: list[str]) -> None:
    bench.pool.submit(choice.choose, OLD).result(10)
    assert callers
    for changes in ({'message_type': 'float32'}, {'disparity_range': 128}):
        wanted = OLD.replace(**changes)
        bench.reconfiguration.check(bench.host.config, wanted, SIZE)
        bench.reconfiguration.reconcile(types.SimpleNamespace(matcher=wanted, node=SIZE))
        end = time.monotonic() + 60
        while bench.host.config != wanted:
            assert time.monotonic() < end
            time.sleep(0.01)
    assert {name.split('_')[0] for name in callers} == {'worker'}


def test_what_no_device_could_hold_or_nobody_has_asked_is_checked_without_cuda(
        bench: types.SimpleNamespace, callers: list[str]) -> None:
    bench.reconfiguration.check(OLD.replace(backend='cpu'), OLD, SIZE)
    assert not callers
    bench.pool.submit(choice.choose, OLD).result(10)
    callers.clear()
    wanted = OLD.replace(stereo_algorithm='sad', max_image_width=65536,
                         max_image_height=65536)
    with pytest.raises(MemoryLimitError):
        bench.reconfiguration.check(
            OLD, wanted, SIZE.replace(image_width=65536, image_height=65536))
    assert not callers
