"""What computes: one engine per back end, chosen here and nowhere else."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.engines.backend import Backend, Engine
from stereo_bp_ros.errors import BackendUnavailable, ConfigError

if TYPE_CHECKING:
    from stereo_bp_ros.engines.cuda.runtime.device import Properties


def choose(config: MatcherConfig) -> Backend[Any]:
    """The back end that ``config.backend`` gets on this machine.

    ``auto`` takes CUDA where there is a device and the engine has the settings, else the CPU,
    and says why in one line.

    :raises BackendUnavailable: the asked-for back end cannot run here.
    :raises ConfigError: backend cuda, and a setting that only the CPU engine has.
    """
    from stereo_bp_ros.engines.cuda.backend import ask
    chosen = _choose(config, ask)
    assert chosen is not None
    return chosen


def known(config: MatcherConfig) -> Backend[Any] | None:
    """As ``choose``, from what that has found out about the device before; asks no device.

    Any thread may call this, while CUDA is for one. None = nobody has asked for that device.

    :raises BackendUnavailable, ConfigError: as ``choose``.
    """
    from stereo_bp_ros.engines.cuda.backend import remember
    return _choose(config, remember)


def _choose(config: MatcherConfig, properties_of: Callable[[int], Properties | None]
            ) -> Backend[Any] | None:
    from stereo_bp_ros.engines.cpu.backend import CpuBackend
    from stereo_bp_ros.engines.cuda.backend import CudaBackend
    if config.backend == 'cpu':
        return CpuBackend('asked for')
    try:
        device = properties_of(config.device_id)
        if device is None:
            return None
        cuda = CudaBackend(device, 'asked for' if config.backend == 'cuda'
                           else f'found {device.name}')
        cuda.resolve(config)
        return cuda
    except (BackendUnavailable, ConfigError) as error:
        if config.backend == 'cuda':
            raise
        return CpuBackend(str(error))


#: Settings of the machine, by which ``auto`` chooses a preset.
OF_MACHINE = ('backend', 'device_id', 'num_threads')


def best_preset(config: MatcherConfig, width: int = 0, height: int = 0) -> tuple[str, str]:
    """The preset with the fewest errors that keeps 10 Hz where ``config`` would be computed.

    Returns its name, and a sentence that says so and why.

    :param width, height: of the images, pixels; 0 = not known.
    :raises BackendUnavailable, ConfigError: as ``choose``.
    """
    backend = choose(config)
    name = backend.best_preset(config, width, height)
    size = f', images of {width} x {height}' if width else ''
    return name, f'preset auto takes {name} on {backend.name} ({backend.reason}){size}'


def create_engine(config: MatcherConfig, width: int, height: int) -> Engine:
    """Build the engine for a configuration and an image size in pixels.

    :raises BackendUnavailable: as ``choose``.
    :raises StereoError: as ``Backend.fit`` and ``Backend.create``.
    """
    backend = choose(config)
    return backend.create(backend.fit(config, width, height))


def warm_up(config: MatcherConfig, width: int = 0, height: int = 0) -> float:
    """Compile everything that a configuration will run; returns the seconds it took.

    No memory of the images' size is allocated, whatever the size.

    :param width, height: of the images, pixels. On CUDA the kernels depend on them: where they
        are 0, an engine for a real size may find some of its kernels missing and compile them.
    :raises StereoError: as ``create_engine``.
    """
    start = time.perf_counter()
    choose(config).warm_up(config, width, height)
    return time.perf_counter() - start
