"""What the driver says of the GPU that matches: clock, heat, load, memory, and what throttles it.

NVML (package ``nvidia-ml-py``) answers from any thread and makes no CUDA context. It numbers
devices in another way than CUDA: the device is found by the address of its bus.
"""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from stereo_bp_ros.node.diagnostics.conditions import Conditions, Level

#: The key of what is wrong.
CONDITION = 'gpu'

#: Key of the bus address among those that describe a CUDA device.
BUS = 'pci bus'

#: Seconds after which a reading is too old to be shown: a driver may hang.
FRESH = 3.0

#: Bits of NVML's reasons for a clock below the highest (nvmlClocksEventReason...), in words.
REASONS = {0x1: 'idle', 0x2: 'clocks set by the user', 0x4: 'power cap',
           0x8: 'slowdown by the hardware', 0x10: 'clocks in step with other GPUs',
           0x20: 'heat', 0x40: 'heat (hardware)', 0x80: 'power supply',
           0x100: 'clocks set for a display'}

#: Those that mean heat or power.
THROTTLED = 0x4 | 0x8 | 0x20 | 0x40 | 0x80


class GpuMonitor:
    """Reads the state of one GPU; for any number of threads.

    Without the package, without a driver, and for what a device does not tell, there are no keys.

    :param conditions: is told when heat or power hold the clock down.
    :param load: imports NVML's module.
    :param now: seconds of a clock that never goes back.
    """

    def __init__(self, conditions: Conditions,
                 load: Callable[[], Any] = lambda: importlib.import_module('pynvml'),
                 now: Callable[[], float] = time.monotonic) -> None:
        self._conditions = conditions
        self._load = load
        self._now = now
        self._lock = threading.Lock()
        self._nvml: Any = None
        self._is_missing = False
        self._values: dict[str, str] = {}
        self._at = 0.0

    def read(self, device: Mapping[str, str]) -> None:
        """Read the state of a device; takes up to 10 ms, and as long as the driver hangs.

        :param device: what describes it, with its ``BUS``; without one there is nothing to read.
        """
        nvml = self._module() if BUS in device else None
        values: dict[str, str] = {}
        reasons = 0
        if nvml is not None:
            try:
                handle = nvml.nvmlDeviceGetHandleByPciBusId(device[BUS])
            except Exception:       # the device is lost, or hidden in a container
                handle = None
            if handle is not None:
                values, reasons = _state(nvml, handle)
        with self._lock:
            self._values, self._at = values, self._now()
        self._conditions.hold(CONDITION, Level.WARN, *_throttling(values, reasons))

    def report(self) -> dict[str, str]:
        """Keys and values for people."""
        with self._lock:
            return dict(self._values) if self._now() - self._at <= FRESH else {}

    def _module(self) -> Any:
        """NVML, ready to be asked; None where it is missing."""
        if self._nvml is None and not self._is_missing:
            try:
                nvml = self._load()
                nvml.nvmlInit()
                self._nvml = nvml
            except Exception:       # no package, no driver, or another one than the package's
                self._is_missing = True
        return self._nvml


def _state(nvml: Any, handle: Any) -> tuple[dict[str, str], int]:
    """Values by key, and the bits of ``REASONS``."""
    def ask(*names: str, of: tuple[Any, ...] = ()) -> Any:
        """The answer of the first function that the driver has, or None."""
        for name in names:
            try:
                return getattr(nvml, name)(handle, *of)
            except Exception:       # not supported by this device, driver or package
                continue
        return None

    sm = (getattr(nvml, 'NVML_CLOCK_SM', 1),)
    clock, highest = (ask(f'nvmlDeviceGet{kind}Info', of=sm) for kind in ('Clock', 'MaxClock'))
    heat = ask('nvmlDeviceGetTemperatureV', 'nvmlDeviceGetTemperature',
               of=(getattr(nvml, 'NVML_TEMPERATURE_GPU', 0),))
    load = ask('nvmlDeviceGetUtilizationRates')
    memory = ask('nvmlDeviceGetMemoryInfo')
    # The second is the name before driver 535.
    reasons = ask('nvmlDeviceGetCurrentClocksEventReasons',
                  'nvmlDeviceGetCurrentClocksThrottleReasons')
    values = {
        'gpu clock MHz': clock, 'gpu highest clock MHz': highest, 'gpu temperature C': heat,
        'gpu utilisation %': None if load is None else load.gpu,
        'gpu memory used MiB': None if memory is None else f'{memory.used / 2**20:.0f}',
        'gpu clock limited by': None if reasons is None else _words(reasons)}
    return {key: str(value) for key, value in values.items() if value is not None}, reasons or 0


def _words(reasons: int) -> str:
    return ', '.join(text for bit, text in REASONS.items() if reasons & bit) or 'nothing'


def _throttling(values: Mapping[str, str], reasons: int) -> list[str]:
    if not reasons & THROTTLED:
        return []
    clocks = [values[key] for key in ('gpu clock MHz', 'gpu highest clock MHz') if key in values]
    return [f'the GPU is slowed down ({_words(reasons & THROTTLED)}), to '
            f'{" of ".join(clocks) or "unknown"} MHz: look at its cooling and its power']
