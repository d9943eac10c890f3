"""What computes: one engine per back end, chosen here and nowhere else."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import importlib.metadata
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from stereo_bp_ros import partitions
from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.errors import BackendUnavailable, ConfigError, StereoError
from stereo_bp_ros.geometry import MemoryPlan
from stereo_bp_ros.images import RawImage
from stereo_bp_ros.partitions import Partitioning

#: With older ones, parallel kernels were seen to crash.
OLDEST_NUMBA = (0, 57)

_log = logging.getLogger(__name__)


class Engine(abc.ABC):
    """Matches pairs of one size with one configuration; everything is allocated at once.

    Not for two threads at a time; different engines never disturb each other.
    """

    backend: str
    config: MatcherConfig
    width: int
    height: int
    plan: MemoryPlan
    parts: Partitioning

    #: Seconds that compiling took, or reading compiled code from the disk, while it was built.
    compile_time: float = 0.0

    def warm_up(self) -> float:
        """Compile what any frame can run and building has not compiled; returns the seconds."""
        return 0.0

    @abc.abstractmethod
    def compute(self, left: RawImage, right: RawImage, calibration: Calibration | None,
                outputs: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, float]:
        """Match one pair of the engine's size and fill the given arrays.

        ``outputs`` maps names of ``types.OUTPUT_TYPES`` to C-contiguous H x W arrays of the
        caller; only these are computed. Depth needs ``calibration``. Returns the milliseconds
        of each stage of ``types.ENGINE_STAGES``.
        """

    @abc.abstractmethod
    def update(self, config: MatcherConfig) -> None:
        """Take over a configuration that differs in live settings only; no allocation."""

    @abc.abstractmethod
    def close(self) -> None:
        """Give the memory back; the engine is of no use afterwards."""


@dataclasses.dataclass(frozen=True)
class Choice:
    """The back end that a configuration gets here, and why."""

    backend: str
    reason: str


def choose_backend(config: MatcherConfig) -> Choice:
    """Resolve ``config.backend`` on this machine.

    ``auto`` takes CUDA where there is a device and the engine has the settings, else the CPU,
    and says why in one line.

    :raises BackendUnavailable: the asked-for back end cannot run here.
    :raises ConfigError: backend cuda, and a setting that only the CPU engine has.
    """
    if config.backend == 'cpu':
        _check_numba()
        return Choice('cpu', 'asked for')
    from stereo_bp_ros.engines.cuda import device
    from stereo_bp_ros.engines.cuda.plan import check
    if config.backend == 'cuda':
        check(config)
        device.require(config.device_id)
        check(config, device.properties(config.device_id))
        return Choice('cuda', 'asked for')
    try:
        device.require(config.device_id)
        check(config)
        found = device.properties(config.device_id)
        check(config, found)
        return Choice('cuda', f'found {found.name}')
    except (BackendUnavailable, ConfigError) as error:
        reason = str(error)
    _check_numba()
    return Choice('cpu', reason)


def _check_numba() -> None:
    """Refuse to go on without a Numba that the kernels are known to work with.

    Only its version is read, because importing it takes a third of a second.
    """
    remedy = "install the extra: pip install 'stereo_bp_ros[cpu]'"
    try:
        version = importlib.metadata.version('numba')
    except importlib.metadata.PackageNotFoundError:
        raise BackendUnavailable('the cpu back end needs Numba, which is not installed',
                                 remedy) from None
    if tuple(int(part) for part in version.split('.')[:2]) < OLDEST_NUMBA:
        raise BackendUnavailable(
            f'the cpu back end needs Numba {".".join(map(str, OLDEST_NUMBA))} or later, '
            f'not {version}', remedy)


def memory_plan(config: MatcherConfig, width: int, height: int,
                parts: Partitioning | None = None) -> MemoryPlan:
    """What an engine for this size will allocate; nothing is allocated or compiled here.

    :param parts: how the image is cut; None = as ``partitioning`` says.
    :raises BackendUnavailable: as ``choose_backend``.
    :raises MemoryLimitError: as ``partitioning``.
    """
    if parts is None:
        parts = partitioning(config, width, height)
    return _planner(config, width, height)(parts)


def partitioning(config: MatcherConfig, width: int, height: int) -> Partitioning:
    """How an engine for this size will cut images so that it fits ``memory_allowed(config)``.

    :raises BackendUnavailable: as ``choose_backend``.
    :raises MemoryLimitError: it does not fit, in whatever partitions.
    :raises ConfigError: the partitions that are asked for do not fit into the image.
    """
    return partitions.choose(config, width, height, memory_allowed(config),
                             _planner(config, width, height))


def _planner(config: MatcherConfig, width: int,
             height: int) -> Callable[[Partitioning], MemoryPlan]:
    if choose_backend(config).backend == 'cuda':
        from stereo_bp_ros.engines.cuda.device import properties
        from stereo_bp_ros.engines.cuda.plan import memory_plan as cuda_plan
        from stereo_bp_ros.engines.cuda.tuning import look_up
        found = properties(config.device_id)
        return lambda parts: cuda_plan(
            config, width, height, found,
            look_up(config, parts.width, parts.height, found).tilings, parts)
    from stereo_bp_ros.engines.cpu.plan import memory_plan as cpu_plan
    return lambda parts: cpu_plan(config, width, height, parts)


def memory_allowed(config: MatcherConfig) -> int:
    """Bytes that one engine may allocate: ``memory_limit``, or 80 % of what is available."""
    if config.memory_limit:
        return config.memory_limit
    if choose_backend(config).backend == 'cuda':
        from stereo_bp_ros.engines.cuda.device import available_memory as on_device
        return int(0.8 * on_device(config.device_id))
    return int(0.8 * available_memory())


def available_memory() -> int:
    try:
        with open('/proc/meminfo', encoding='ascii') as file:
            for line in file:
                if line.startswith('MemAvailable:'):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')


def device_info(config: MatcherConfig) -> dict[str, str]:
    """Name of the device that computes and how, for people.

    :raises BackendUnavailable: as ``choose_backend``.
    """
    if choose_backend(config).backend == 'cuda':
        from stereo_bp_ros.engines.cuda.device import describe
        return describe(config.device_id)
    from stereo_bp_ros.engines.cpu.runtime import device_info as cpu_info
    return cpu_info(config.num_threads)


def create_engine(config: MatcherConfig, width: int, height: int) -> Engine:
    """Build the engine for a configuration and an image size in pixels.

    :raises BackendUnavailable: as ``choose_backend``.
    :raises MemoryLimitError: as ``partitioning``.
    :raises ConfigError: the back end has no such combination of settings, or as ``partitioning``.
    :raises OutOfDeviceMemory: the device has not enough memory left; recoverable.
    :raises DeviceLostError: the device was lost in this process.
    """
    choice = choose_backend(config)
    parts = partitioning(config, width, height)
    if parts.count > 1:
        if config.partition_columns or config.partition_rows:
            _log.info('images of %d x %d are matched in %s', width, height, parts)
        else:
            _log.warning('images of %d x %d do not fit the memory allowed and are matched in %s',
                         width, height, parts)
    if choice.backend == 'cuda':
        from stereo_bp_ros.engines.cuda.engine import CudaEngine
        return CudaEngine(config, width, height, parts=parts)
    from stereo_bp_ros.engines.cpu.engine import CpuEngine
    return CpuEngine(config, width, height, parts)


def kernels_of(config: MatcherConfig, width: int = 0, height: int = 0) -> tuple[object, ...]:
    """What decides which kernels run: with equal ones there is nothing new to compile.

    :param width, height: of the images, pixels; 0 = not known.
    :raises BackendUnavailable: as ``choose_backend``.
    """
    if choose_backend(config).backend == 'cuda':
        # Nearly everything that is not live is a template argument there, and the tiles that
        # blocks work on depend on the size.
        return ('cuda', width, height, *(
            getattr(config, name) for name, setting in config.settings().items()
            if not setting.live))
    return ('cpu', config.stereo_algorithm, config.message_type, config.exact,
            config.repeats_papers, config.message_layout, config.vectorised)


def warm_up(config: MatcherConfig, width: int = 0, height: int = 0) -> float:
    """Compile everything that a configuration will run; returns the seconds it took.

    :param width, height: of the images, pixels. On CUDA the kernels depend on them: where they
        are 0, an engine for a real size may find some of its kernels missing and compile them.
    :raises StereoError: as ``create_engine``.
    """
    start = time.perf_counter()
    if choose_backend(config).backend == 'cuda':
        side = max(64, 2 * config.correlation_window_size)
        create_engine(config, width or side, height or side).close()
    else:
        from stereo_bp_ros.engines.cpu.engine import warm_up as cpu_warm_up
        cpu_warm_up(config)
    return time.perf_counter() - start


def kernels_used(config: MatcherConfig) -> contextlib.AbstractContextManager[list[Any]]:
    """Context whose list holds, once it is left, what each kernel launched inside takes.

    ``cuda.inspection.KernelUse`` of a CUDA engine's; nothing of the CPU's.
    """
    if choose_backend(config).backend == 'cuda':
        from stereo_bp_ros.engines.cuda.inspection import kernels_used as cuda_kernels
        return cuda_kernels(config.device_id)
    return contextlib.nullcontext([])


def local_accesses(config: MatcherConfig, width: int, height: int) -> tuple[int, int]:
    """Loads and stores of local memory that ``message_storage`` asks of a frame, by warps.

    Derived from the settings; (0, 0) with the fast kernels and on the CPU.
    """
    if not config.repeats_papers or choose_backend(config).backend != 'cuda':
        return 0, 0
    from stereo_bp_ros.engines.cuda.storage_layout import local_accesses as of_storage
    return of_storage(config, width, height)


def kernel_origins(config: MatcherConfig) -> dict[str, int]:
    """How many kernels this process has 'compiled' and read from 'disk'; {} = not counted."""
    if choose_backend(config).backend == 'cuda':
        from stereo_bp_ros.engines.cuda.compiler import origins
        return origins()
    return {}


def tuning_state(config: MatcherConfig, width: int, height: int) -> str:
    """What the tuner has found for images of a size in pixels, or why that is not used.

    :raises StereoError: as ``partitioning``.
    """
    if choose_backend(config).backend != 'cuda':
        return 'the cpu back end has nothing to tune'
    from stereo_bp_ros.engines.cuda import device, tuning
    parts = partitioning(config, width, height)
    return tuning.look_up(config, parts.width, parts.height,
                          device.properties(config.device_id)).reason


def tune(config: MatcherConfig, width: int, height: int,
         progress: Callable[[int, int, str], None], afresh: bool) -> dict[str, Any]:
    """Search what is fastest on the CUDA device for images of a size, for engines built later.

    Returns the milliseconds of a frame 'untuned' and 'tuned', their 'ratio', what is 'best' where
    that is not the engine's own choice: tilings by level, or settings by name; and by the AI 2009
    paper the 'most_disparities' of the device for messages and for labels.

    :param progress: called with (steps done, steps, what is being done).
    :param afresh: begin anew, whatever was found earlier.
    :raises BackendUnavailable: there is no CUDA device.
    :raises ConfigError: the configuration has nothing to tune.
    :raises StereoError: an engine cannot be built.
    """
    if config.stereo_algorithm != 'bp':
        raise ConfigError('stereo_algorithm', config.stereo_algorithm,
                          'only bp has something to tune')
    config = config.replace(backend='cuda')
    parts = partitioning(config, width, height)
    from stereo_bp_ros.engines.cuda import device, tuner
    found = tuner.tune(config, width, height, parts, progress, afresh)
    properties = device.properties(config.device_id)
    return {'untuned': found.untuned, 'tuned': found.tuned, 'ratio': found.ratio,
            'best': {str(key): value if isinstance(value, int) else value._asdict()
                     for key, value in found.best.items()},
            'most_disparities': [tuner.most_disparities(config, properties, with_label)
                                 for with_label in (False, True)]}


def occupancy_walk(config: MatcherConfig, initial_values: int, most_values: int
                   ) -> list[tuple[float, dict[str, int]]]:
    """The walk over occupancies of the LCPC 2010 paper (section 7) for the CUDA device.

    Returns the most occupancy, 0 to 1, and the settings of ``message_storage: hybrid`` of each
    configuration that differs from the one before, for ``disparity_range`` values.

    :param initial_values, most_values: NUM_REG_VALUES_INITIAL and MAX_REG_VALUES of the paper.
    :raises BackendUnavailable: there is no CUDA device.
    """
    from stereo_bp_ros.engines.cuda import device
    device.require(config.device_id)
    from stereo_bp_ros.engines.cuda import storage, storage_layout, storage_plan, tuner
    return [(occupancy, tuner.settings_of(walked)) for occupancy, walked in
            storage_plan.candidates(storage.limits(config.device_id), config.disparity_range,
                                    value_bytes=storage_layout.VALUE_BYTES,
                                    initial_values=initial_values, most_values=most_values)]


def compile_side_by_side(configs: Iterable[MatcherConfig],
                         progress: Callable[[int, int], None] = lambda *_: None) -> None:
    """Compile the papers' plain steps of many configurations at once, for engines built later.

    Of a configuration with other kernels, on the CPU or refused here, nothing is compiled.

    :param progress: called with (kernels done, kernels).
    """
    names: dict[int, set[str]] = {}
    for config in configs:
        with contextlib.suppress(StereoError):
            if config.repeats_papers and choose_backend(config).backend == 'cuda':
                from stereo_bp_ros.engines.cuda.storage_layout import all_kernels
                names.setdefault(config.device_id, set()).update(all_kernels(config))
    for device_id, wanted in names.items():
        from stereo_bp_ros.engines.cuda import compiler, device
        compiler.compile_side_by_side((('storage.cu', name) for name in wanted),
                                      device.properties(device_id).architecture, progress)


def empty_pinned(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """An uninitialised C-contiguous array in memory that CUDA devices read and write directly.

    :raises BackendUnavailable: there is no CUDA device.
    """
    from stereo_bp_ros.engines.cuda.pinned import empty
    return empty(shape, dtype)


def pin(buffer: Any, config: MatcherConfig) -> bool:
    """Page-lock the memory of a buffer that results go to again and again, until it is gone.

    A CUDA engine then writes into it directly. Returns whether that is so.

    :param buffer: owns its memory, never resizes it, and takes weak references (array.array).
    :raises BackendUnavailable: as ``choose_backend``.
    """
    if choose_backend(config).backend != 'cuda':
        return False
    from stereo_bp_ros.engines.cuda.pinned import pin as pin_for_cuda
    return pin_for_cuda(buffer, config.device_id)


def sad_variant_times(config: MatcherConfig, left: np.ndarray[Any, Any],
                      right: np.ndarray[Any, Any], repeats: int
                      ) -> tuple[float, dict[tuple[str, str, bool, int], float | None]]:
    """Microseconds of the matching kernel of SAD on CUDA: the default, and each variant.

    :param left, right: uint8 H x W, matched as they are.
    :param repeats: graphs that a median is of.
    :raises BackendUnavailable: there is no CUDA device.
    :raises StereoError: a variant's results are not the default's.
    """
    from stereo_bp_ros.engines.cuda import device
    device.require(config.device_id)
    from stereo_bp_ros.engines.cuda.sad_timing import variant_times
    return variant_times(config, left, right, repeats)
