"""The state of the GPU in /diagnostics: read from NVML, of the right device, or not there."""

from __future__ import annotations

import functools
import sys
import types
from typing import Any

import pytest

from stereo_bp_ros.node.diagnostics.conditions import Conditions, Level
from stereo_bp_ros.node.diagnostics.monitors import BUS, FRESH, GpuMonitor

#: Clocks of NVML's devices; CUDA's first is its second.
CLOCKS = {'0000:17:00.0': 345, '0000:65:00.0': 1320}
DEVICE = {BUS: '0000:65:00.0', 'device': 'NVIDIA H100'}
VALUES = {'gpu clock MHz': '1320', 'gpu highest clock MHz': '1980', 'gpu temperature C': '59',
          'gpu utilisation %': '97', 'gpu memory used MiB': '1459', 'gpu clock limited by': 'idle'}


class NVMLError(Exception):
    """As pynvml's."""


class Nvml:
    """Stands for the module pynvml, with two devices; functions named in ``missing`` fail."""

    NVML_CLOCK_SM, NVML_TEMPERATURE_GPU = 1, 0

    def __init__(self) -> None:
        self.reasons = 0x1
        self.missing: set[str] = set()
        self.started = 0

    def answer(self, name: str, *arguments: Any) -> Any:
        if name in self.missing:
            raise NVMLError('Not Supported')
        if name == 'nvmlInit':
            self.started += 1
            return None
        if name == 'nvmlDeviceGetHandleByPciBusId':
            if arguments[0] not in CLOCKS:
                raise NVMLError('Not Found')
            return arguments[0]
        handle, *of = arguments
        return {
            ('nvmlDeviceGetClockInfo', self.NVML_CLOCK_SM): CLOCKS[handle],
            ('nvmlDeviceGetMaxClockInfo', self.NVML_CLOCK_SM): 1980,
            ('nvmlDeviceGetTemperatureV', self.NVML_TEMPERATURE_GPU): 59,
            ('nvmlDeviceGetTemperature', self.NVML_TEMPERATURE_GPU): 60,
            ('nvmlDeviceGetUtilizationRates',): types.SimpleNamespace(gpu=97, memory=30),
            ('nvmlDeviceGetMemoryInfo',): types.SimpleNamespace(used=1459 * 2**20),
            ('nvmlDeviceGetCurrentClocksEventReasons',): self.reasons,
            ('nvmlDeviceGetCurrentClocksThrottleReasons',): self.reasons}[(name, *of)]

    def __getattr__(self, name: str) -> Any:
        return functools.partial(self.answer, name)


class Bench:
    def __init__(self) -> None:
        self.nvml = Nvml()
        self.now = 100.0
        self.loads = 0
        self.broken: Exception | None = None
        self.conditions = Conditions(lambda level, text: None)
        self.monitor = GpuMonitor(self.conditions, self.load, lambda: self.now)

    def load(self) -> Nvml:
        self.loads += 1
        if self.broken is not None:
            raise self.broken
        return self.nvml

    def read(self, device: dict[str, str] | None = None) -> dict[str, str]:
        self.monitor.read(DEVICE if device is None else device)
        return self.monitor.report()

    @property
    def warnings(self) -> list[str]:
        found = self.conditions.active('gpu')
        assert {condition.level for condition in found} <= {Level.WARN}
        return [condition.text for condition in found]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_the_device_at_the_bus_of_the_matcher_is_read(bench: Bench) -> None:
    assert bench.read() == VALUES
    assert bench.read({BUS: '0000:17:00.0'})['gpu clock MHz'] == '345'
    assert bench.nvml.started == 1
    assert bench.warnings == []


def test_on_the_cpu_nothing_is_loaded_or_read(bench: Bench) -> None:
    assert bench.read({'device': 'znver4'}) == {}
    assert bench.loads == 0


def test_a_back_end_that_changes_to_the_cpu_takes_the_state_of_the_gpu_along(bench: Bench) -> None:
    bench.nvml.reasons = 0x4
    bench.read()
    assert bench.warnings
    assert bench.read({}) == {}
    assert bench.warnings == []


@pytest.mark.parametrize('error', [ModuleNotFoundError('pynvml'), OSError('libnvidia-ml.so.1'),
                                   NVMLError('Driver Not Loaded')])
def test_without_the_package_or_the_driver_there_are_no_keys_and_no_error(
        bench: Bench, error: Exception) -> None:
    bench.broken = error
    assert bench.read() == {}
    assert bench.read() == {}
    assert bench.loads == 1
    assert bench.warnings == []


def test_a_driver_that_does_not_start_is_asked_once(bench: Bench) -> None:
    bench.nvml.missing = {'nvmlInit'}
    assert bench.read() == {}
    bench.nvml.missing = set()
    assert bench.read() == {}
    assert bench.loads == 1


def test_a_device_that_nvml_does_not_find_has_no_keys_until_it_does(bench: Bench) -> None:
    assert bench.read({BUS: '0000:00:00.0'}) == {}
    assert bench.read() == VALUES


@pytest.mark.parametrize(('function', 'key'), [
    ('nvmlDeviceGetClockInfo', 'gpu clock MHz'),
    ('nvmlDeviceGetMaxClockInfo', 'gpu highest clock MHz'),
    ('nvmlDeviceGetUtilizationRates', 'gpu utilisation %'),
    ('nvmlDeviceGetMemoryInfo', 'gpu memory used MiB')])
def test_what_a_device_does_not_tell_has_no_key(bench: Bench, function: str, key: str) -> None:
    bench.nvml.missing = {function}
    assert bench.read() == {name: value for name, value in VALUES.items() if name != key}


def test_older_drivers_are_asked_by_older_names(bench: Bench) -> None:
    bench.nvml.missing = {'nvmlDeviceGetTemperatureV', 'nvmlDeviceGetCurrentClocksEventReasons'}
    assert bench.read() == {**VALUES, 'gpu temperature C': '60'}
    bench.nvml.missing |= {'nvmlDeviceGetTemperature', 'nvmlDeviceGetCurrentClocksThrottleReasons'}
    assert bench.read().keys() == VALUES.keys() - {'gpu temperature C', 'gpu clock limited by'}


@pytest.mark.parametrize(('reasons', 'words', 'warned'), [
    (0x0, 'nothing', ''), (0x1, 'idle', ''), (0x2, 'clocks set by the user', ''),
    (0x4, 'power cap', 'power cap'), (0x20, 'heat', 'heat'),
    (0x48, 'slowdown by the hardware, heat (hardware)',
     'slowdown by the hardware, heat (hardware)'),
    (0x82, 'clocks set by the user, power supply', 'power supply')])
def test_heat_and_power_are_warnings_in_words_and_other_reasons_are_not(
        bench: Bench, reasons: int, words: str, warned: str) -> None:
    bench.nvml.reasons = reasons
    assert bench.read()['gpu clock limited by'] == words
    assert bench.warnings == ([f'the GPU is slowed down ({warned}), to 1320 of 1980 MHz: look at '
                               'its cooling and its power'] if warned else [])
    bench.nvml.reasons = 0
    bench.read()
    assert bench.warnings == []


def test_a_reading_is_shown_no_longer_than_it_is_true(bench: Bench) -> None:
    bench.read()
    bench.now += FRESH + 0.1
    assert bench.monitor.report() == {}


def test_the_real_package_is_asked_for_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, 'pynvml', Nvml())      # type: ignore[arg-type]
    monitor = GpuMonitor(Conditions(lambda level, text: None))
    monitor.read(DEVICE)
    assert monitor.report() == VALUES


@pytest.mark.gpu
def test_the_device_that_cuda_numbers_is_found_and_read() -> None:
    pytest.importorskip('pynvml')
    from stereo_bp_ros.engines.cuda.runtime import device
    monitor = GpuMonitor(Conditions(lambda level, text: None))
    monitor.read(device.describe(0))
    found = monitor.report()
    assert 0 < int(found['gpu temperature C']) < 120
    assert 0 < int(found['gpu clock MHz']) <= int(found['gpu highest clock MHz'])
    assert int(found['gpu memory used MiB']) > 0
