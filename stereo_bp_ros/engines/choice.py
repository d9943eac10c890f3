"""What computes: one engine per back end, chosen here and nowhere else."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.engines import geometry
from stereo_bp_ros.engines.backend import Backend, Engine, Resolved
from stereo_bp_ros.errors import BackendUnavailable, ConfigError

if TYPE_CHECKING:
    from stereo_bp_ros.engines.cuda.runtime.device import Properties


def choose(config: MatcherConfig) -> Backend[Any]:
    """The back end that ``config.backend`` gets on this machine; as ``resolve``."""
    return resolve(config).backend


def resolve(config: MatcherConfig, calibration: Calibration | None = None) -> Resolved[Any]:
    """What engines run where a configuration is given, and the back end that computes it.

    ``auto`` takes CUDA where there is a device and the engine has the settings, else the CPU,
    and says why in one line.

    :param calibration: of the pairs; None: not known.
    :raises BackendUnavailable: the asked-for back end cannot run here.
    :raises ConfigError: backend cuda, and a setting that only the CPU engine has; or as
        ``geometry.effective``.
    """
    from stereo_bp_ros.engines.cuda.backend import ask
    resolved = _resolve(config, calibration, ask)
    assert resolved is not None
    return resolved


def known(config: MatcherConfig, calibration: Calibration | None = None) -> Resolved[Any] | None:
    """As ``resolve``, from what that has found out about the device before; asks no device.

    Any thread may call this, while CUDA is for one. None = nobody has asked for that device.

    :raises BackendUnavailable, ConfigError: as ``resolve``.
    """
    from stereo_bp_ros.engines.cuda.backend import remember
    return _resolve(config, calibration, remember)


def _resolve(given: MatcherConfig, calibration: Calibration | None,
             properties_of: Callable[[int], Properties | None]) -> Resolved[Any] | None:
    from stereo_bp_ros.engines.cpu.backend import CpuBackend
    from stereo_bp_ros.engines.cuda.backend import CudaBackend
    config = geometry.effective(given, calibration)
    if config.backend == 'cpu':
        return Resolved(given, config, CpuBackend('asked for'))
    try:
        device = properties_of(config.device_id)
        if device is None:
            return None
        resolved = Resolved(given, config, CudaBackend(
            device, 'asked for' if config.backend == 'cuda' else f'found {device.name}'))
        _ = resolved.passes         # rejected where CUDA cannot compute it
        return resolved
    except (BackendUnavailable, ConfigError) as error:
        if config.backend == 'cuda':
            raise
        return Resolved(given, config, CpuBackend(str(error)))


#: What ``auto`` chooses from, the fewest errors first. The last one is taken anyway.
BEST = ('road', 'road_fast')

#: Said with every choice: the other kind of scene that has a preset of its own.
SCENES = 'auto is for roads: for a robot indoors set the preset indoor'


def best_preset(settings: Mapping[str, Any], width: int = 0, height: int = 0) -> tuple[str, str]:
    """The preset for roads with the fewest errors that keeps 10 Hz here and suits the settings.

    Returns its name, and a sentence that says so, why, and for which scenes.

    :param settings: those that win over the preset's; on any machine the presets that are
        rejected with them are left out.
    :param width, height: of the images, pixels; 0 = not known.
    :raises ConfigError: no preset goes with the settings; as the last one says.
    :raises BackendUnavailable: as ``resolve``.
    """
    valid: dict[str, MatcherConfig] = {}
    for name in BEST:
        try:
            valid[name] = MatcherConfig.preset(name, **settings)
        except ConfigError as error:
            rejected = error
    if not valid:
        raise rejected
    for name in valid:
        backend = (resolved := resolve(valid[name])).backend
        if name == BEST[-1] or backend.is_fast_enough(resolved, width, height):
            break
    size = f', images of {width} x {height}' if width else ''
    return name, f'preset auto takes {name} on {backend.name} ({backend.reason}){size}; {SCENES}'


def create_engine(config: MatcherConfig, width: int, height: int) -> Engine:
    """Build the engine for a configuration and an image size in pixels.

    :raises StereoError: as ``resolve``, ``Resolved.plan`` and ``Backend.create``.
    """
    resolved = resolve(config)
    return resolved.backend.create(resolved.plan(width, height))


def warm_up(config: MatcherConfig, width: int = 0, height: int = 0) -> float:
    """Compile everything that a configuration will run; returns the seconds it took.

    No memory of the images' size is allocated, whatever the size.

    :param width, height: of the images, pixels. On CUDA the kernels depend on them: where they
        are 0, an engine for a real size may find some of its kernels missing and compile them.
    :raises StereoError: as ``create_engine``.
    """
    start = time.perf_counter()
    resolved = resolve(config)
    resolved.backend.warm_up(resolved, width, height)
    return time.perf_counter() - start
