"""Why there is no CUDA device, in words; nothing here needs one."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import sys
import types
from collections.abc import Callable

import pytest

from stereo_bp_ros.engines.cuda.runtime import device
from stereo_bp_ros.errors import BackendUnavailable, OutOfDeviceMemory


class FakeRuntimeError(RuntimeError):
    """Stands for CuPy's CUDARuntimeError."""

    def __init__(self, status: int) -> None:
        super().__init__(f'cudaError {status}: something')
        self.status = status


def pretend_cupy(monkeypatch: pytest.MonkeyPatch, count: Callable[[], int],
                 version: int = 13000, capability: tuple[int, int] = (9, 0)) -> None:
    """Install a CuPy whose runtime knows just enough."""
    runtime = types.SimpleNamespace(
        CUDARuntimeError=FakeRuntimeError, getDeviceCount=count,
        runtimeGetVersion=lambda: version)
    modules = {'cupy': types.ModuleType('cupy'), 'cupy.cuda': types.ModuleType('cupy.cuda')}
    modules['cupy.cuda'].runtime = runtime      # type: ignore[attr-defined]
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: types.SimpleNamespace())
    found = device.Properties(0, 'Some GPU', capability, 8, 65536, 65536, 2**33, False)
    monkeypatch.setattr(device, 'properties', lambda index: found)


def raises(status: int) -> Callable[[], int]:
    def count() -> int:
        raise FakeRuntimeError(status)
    return count


def problem_of(index: int = 0) -> BackendUnavailable:
    problem = device.unavailable(index)
    assert problem is not None
    assert '\n' not in str(problem)
    return problem


def test_without_cupy_the_remedy_names_both_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
    assert 'CuPy is not installed' in problem_of().reason
    assert 'cupy-cuda12x' in problem_of().remedy
    assert 'cupy-cuda13x' in problem_of().remedy


@pytest.mark.parametrize(('count', 'has_driver', 'reason', 'remedy'), [
    # CUDA answers the same to a driver that is too old and to one that is not there.
    (raises(35), True, 'driver is older', ''),
    (raises(35), False, 'no NVIDIA driver', 'backend cpu'),
    (raises(100), True, 'no CUDA device answers', ''),
    (lambda: 1, True, 'there is no CUDA device 3', '')])
def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, count: Callable[[], int],
                                  has_driver: bool, reason: str, remedy: str) -> None:
    pretend_cupy(monkeypatch, count)
    monkeypatch.setattr(device, '_has_driver', lambda: has_driver)
    assert reason in problem_of(3).reason
    assert remedy in problem_of(3).remedy


@pytest.mark.parametrize('status', [100, 999])
def test_a_driver_that_this_user_may_not_open_is_the_reason(
        monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, status: int) -> None:
    for name in ('nvidia0', 'nvidiactl'):
        (tmp_path / name).touch()
    monkeypatch.setattr(device, 'DEVICE_FILES', (f'{tmp_path}/nvidia[0-9]*',
                                                 f'{tmp_path}/nvidiactl', f'{tmp_path}/nvmap'))
    pretend_cupy(monkeypatch, raises(status))
    assert 'may not open' not in problem_of().reason
    # Root may open everything, whatever the file says.
    monkeypatch.setattr(device.os, 'access', lambda path, mode: not path.endswith('0'))
    problem = problem_of()
    assert f'cudaError {status}: something: this user may not open {tmp_path}/nvidia0' in str(
        problem)
    assert f"the group that 'ls -l {tmp_path}/nvidia0' shows" in problem.remedy


@pytest.mark.parametrize(('version', 'capability', 'works'), [
    (13000, (7, 5), True), (13000, (7, 0), False), (12080, (7, 0), True), (12080, (7, 2), True),
    (12080, (6, 1), False), (13000, (12, 0), True)])
def test_old_devices_are_refused_in_words(monkeypatch: pytest.MonkeyPatch, version: int,
                                          capability: tuple[int, int], works: bool) -> None:
    pretend_cupy(monkeypatch, lambda: 1, version, capability)
    problem = device.unavailable(0)
    assert (problem is None) == works
    if problem is not None:
        assert f'{capability[0]}.{capability[1]}' in problem.reason
        assert ('cupy-cuda12x' in problem.remedy) == (capability >= (7, 0))


def test_importing_the_package_of_the_engine_needs_no_cupy(child: Callable[..., str]) -> None:
    assert child('import sys; sys.modules["cupy"] = None\n'
                 'import stereo_bp_ros.engines.cuda.engine\nprint("fine")') == 'fine'


FAILURES = {
    'home': 'import os; os.makedirs("/proc/1/nowhere/.cupy")',
    'runtime': 'raise RuntimeError("two copies\\nof CuPy")',
    'syntax': 'this is no Python',
}


@pytest.mark.parametrize('source', FAILURES.values(), ids=FAILURES.keys())
def test_whatever_ends_cupy_s_start_auto_takes_the_cpu_in_one_line(
        source: str, tmp_path: pathlib.Path, repository: pathlib.Path,
        child: Callable[..., str]) -> None:
    (tmp_path / 'cupy').mkdir()
    (tmp_path / 'cupy' / '__init__.py').write_text(source)
    lines = child('from stereo_bp_ros import MatcherConfig, StereoMatcher\n'
                  'matcher = StereoMatcher(MatcherConfig(backend="auto"))\n'
                  'print(matcher.backend)\nprint(matcher.backend_reason)', tmp_path,
                  PYTHONPATH=f'{tmp_path}{os.pathsep}{repository}').splitlines()
    assert lines[0] == 'cpu'
    assert len(lines) == 2
    assert 'CuPy does not start' in lines[1]


def test_a_home_that_cannot_be_written_is_the_reason_with_the_remedy(
        child: Callable[..., str]) -> None:
    pytest.importorskip('cupy')
    source = ('from stereo_bp_ros.engines.cuda.runtime import device\n'
              'print(device.unavailable(0))')
    told = child(source, HOME='/proc/1/nowhere', CUPY_CACHE_DIR='')
    assert 'CuPy does not start' in told
    assert 'CUPY_CACHE_DIR' in told


def test_a_device_whose_properties_cannot_be_read_is_not_used(
        monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_cupy(monkeypatch, lambda: 1)

    def fail(_: int) -> None:
        raise FakeRuntimeError(999)
    monkeypatch.setattr(device, 'properties', fail)
    assert 'no CUDA device answers' in problem_of().reason


def test_a_device_without_room_for_a_context_is_out_of_memory(monkeypatch: pytest.MonkeyPatch
                                                              ) -> None:
    pretend_cupy(monkeypatch, lambda: 1)
    cuda = sys.modules['cupy.cuda']

    class Full:
        def __init__(self, index: int) -> None: ...
        def __enter__(self) -> None:
            raise FakeRuntimeError(device.OUT_OF_MEMORY)

        def __exit__(self, *_: object) -> None: ...

    for name, value in {
            'Device': Full, 'driver': types.SimpleNamespace(CUDADriverError=ValueError),
            'memory': types.SimpleNamespace(OutOfMemoryError=MemoryError)}.items():
        monkeypatch.setattr(cuda, name, value, raising=False)
    sys.modules['cupy'].cuda = cuda     # type: ignore[attr-defined]
    with pytest.raises(OutOfDeviceMemory, match='CUDA device 0 has no memory left'):
        device.available_memory(0)
