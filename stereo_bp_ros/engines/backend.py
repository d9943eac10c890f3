"""What a back end and its engines are, and what they run where a configuration was given."""

from __future__ import annotations

import abc
import dataclasses
import functools
import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.cameras.rectification import Maps, Rectification, RightWarp
from stereo_bp_ros.config.matcher import MatcherConfig, ResolvedConfig
from stereo_bp_ros.engines import geometry, partitions
from stereo_bp_ros.engines.partitions import Partitioning
from stereo_bp_ros.engines.plan import Passes, Plan
from stereo_bp_ros.errors import InputError
from stereo_bp_ros.images.device_arrays import DeviceArray
from stereo_bp_ros.images.raw_images import RawImage
from stereo_bp_ros.issues import IssueCode

#: Of what is free, one engine takes at most this much.
SHARE = 0.8

_log = logging.getLogger('stereo_bp_ros.engines')


PlanT = TypeVar('PlanT', bound=Plan)


def misplaced(name: str, place: str, matcher: str) -> InputError:
    """The rejection of an array that is where the matcher is not."""
    what = f'the {name} image' if name in ('left', 'right') else f'out[{name!r}]'
    return InputError(IssueCode.BAD_ARRAY, f'{what} is {place}', f'the matcher {matcher}')


class Engine(abc.ABC):
    """Matches pairs of one size with one configuration; everything is allocated at once.

    Not for two threads at a time; different engines never disturb each other.

    :param plan: what is allocated and launched.
    """

    backend: str

    #: Seconds that compiling took, or reading compiled code from the disk, while it was built.
    compile_time: float = 0.0

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        # With the live settings of the latest frame; the last of them is ``config``.
        self.passes = plan.passes
        self.width, self.height = plan.image_width, plan.image_height
        # What the maps of a side are of.
        self._mapped: dict[str, tuple[Rectification | None, RightWarp | None]] = {}

    @property
    def config(self) -> ResolvedConfig:
        """Settings of the last pass, with the live ones of the latest frame."""
        return self.passes[-1]

    def warm_up(self) -> float:
        """Compile what any frame can run and building has not compiled; returns the seconds."""
        return 0.0

    @abc.abstractmethod
    def compute(self, left: RawImage, right: RawImage, calibration: Calibration | None,
                outputs: Mapping[str, Any], rectification: Rectification | None = None,
                warp: RightWarp | None = None) -> dict[str, float]:
        """Match one pair of the size of ``plan.source`` and fill the given arrays.

        ``outputs`` maps names of ``OUTPUTS`` to C-contiguous arrays of the caller; only
        these are computed. Some need ``calibration``, of the rectified images; the setting
        ``rectify`` needs ``rectification``, of the plan's sizes. ``warp``, which is prepared for
        both, needs ``row_correction`` 'correct'. Images and arrays may be on a
        device if ``Backend.check_places`` lets them pass. Returns the milliseconds of each stage
        of ``ENGINE_STAGES``.
        """

    def _new_maps(self, rectification: Rectification | None, warp: RightWarp | None
                  ) -> Iterator[tuple[str, Maps]]:
        """The maps that a frame needs and the engine does not have, by the side of the camera.

        They count as the engine's once the next ones are asked for.
        """
        for side, wanted in (('left', (rectification, None)), ('right', (rectification, warp))):
            if wanted != (None, None) and wanted != self._mapped.get(side):
                self._mapped.pop(side, None)        # while half of it is new
                if warp is not None and side == 'right':
                    yield side, warp.maps
                elif rectification is not None:
                    yield side, rectification.maps(side)
                self._mapped[side] = wanted

    @abc.abstractmethod
    def wait_for(self, stream: int) -> None:
        """Begin the next frame when a stream of the caller's has done what it holds by now.

        :param stream: CUDA's handle.
        """

    @abc.abstractmethod
    def update(self, passes: Passes) -> None:
        """Take over passes that differ from the plan's in live settings only; no allocation."""

    @abc.abstractmethod
    def close(self) -> None:
        """Give the memory back; the engine is of no use afterwards."""


class Tools(Protocol):
    """What a back end has beyond matching: inspection and memory of its device."""

    def kernels_used(self) -> AbstractContextManager[list[Any]]:
        """Context whose list holds, once it is left, an ``inspection.KernelUse`` for each kernel
        launched inside."""

    def local_accesses(self, config: MatcherConfig, width: int, height: int) -> tuple[int, int]:
        """Loads and stores of local memory that settings ask of a frame, by warps."""

    def pin(self, buffer: Any) -> bool:
        """Page-lock the memory of a buffer that results go to again and again, until it is gone.

        An engine then writes into it directly. Returns whether that is so.

        :param buffer: owns its memory, never resizes it, and takes weak references (array.array).
        """

    def empty_pinned(self, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
        """An uninitialised C-contiguous array in memory that the device reads and writes directly.
        """


class Backend(abc.ABC, Generic[PlanT]):
    """What computes, for configurations that ``choice.choose`` has given to it.

    reason: why it was chosen, in one line; tools: None on the CPU.
    """

    name: ClassVar[str]
    tools: Tools | None = None

    def __init__(self, reason: str) -> None:
        self.reason = reason

    @abc.abstractmethod
    def resolve(self, config: MatcherConfig) -> Passes:
        """The passes that engines here run where an effective configuration is asked for.

        ``Resolved.passes`` keeps them; nothing else asks.

        :raises ConfigError: no engine here can compute it; names the setting and the limit.
        """

    @abc.abstractmethod
    def lay_out(self, config: MatcherConfig, passes: Passes, width: int, height: int,
                parts: Partitioning | None = None) -> PlanT:
        """As ``Resolved.lay_out``; ``passes``: of the effective configuration ``config``."""

    def allowed(self, config: MatcherConfig, returned: int = 0) -> int:
        """Bytes that one engine may allocate: ``memory_limit``, or 80 % of what is free.

        :param returned: bytes that another engine will have given back by then.
        """
        return config.memory_limit or int(SHARE * (self.free_memory() + returned))

    def allowed_at_best(self, config: MatcherConfig, returned: int = 0) -> int:
        """As ``allowed``, where nothing else takes memory. Asks no device: for any thread."""
        return self.allowed(config, returned)

    @abc.abstractmethod
    def free_memory(self) -> int:
        """Bytes that are free where engines allocate."""

    def check_places(self, arrays: Mapping[str, DeviceArray]) -> None:
        """Reject arrays on devices that no engine here reads and writes.

        :param arrays: images as 'left' and 'right', outputs by their names.
        :raises InputError: bad array; names it and where it is.
        """
        for name in arrays:
            raise misplaced(name, 'in the memory of a CUDA device', 'computes on the CPU: copy '
                            'the array to the host, or use backend cuda')

    @abc.abstractmethod
    def shares_memory_with(self, other: Backend[Any]) -> bool:
        """Whether engines of both allocate in the same place."""

    def create(self, plan: PlanT) -> Engine:
        """Build an engine.

        :raises OutOfDeviceMemory: the device has not enough memory left; recoverable.
        :raises DeviceLostError: the device was lost in this process.
        """
        if plan.parts.count > 1:
            size = f'{plan.image_width} x {plan.image_height}'
            if plan.config.partition_columns or plan.config.partition_rows:
                _log.info('images of %s are matched in %s', size, plan.parts)
            else:
                _log.warning('images of %s do not fit the memory allowed and are matched in %s',
                             size, plan.parts)
        return self._create(plan)

    @abc.abstractmethod
    def _create(self, plan: PlanT) -> Engine:
        """Build an engine, of which the user knows."""

    @abc.abstractmethod
    def warm_up(self, resolved: Resolved[PlanT], width: int, height: int) -> None:
        """Compile everything that a configuration will run. Asks no device: for any thread.

        No memory of the images' size is allocated, whatever the size.

        :param width, height: of the images, pixels; 0 = not known.
        """

    @abc.abstractmethod
    def kernels_of(self, resolved: Resolved[PlanT], width: int = 0, height: int = 0
                   ) -> tuple[object, ...]:
        """What decides which kernels run: with equal ones there is nothing new to compile.

        :param width, height: of the images, pixels; 0 = not known.
        """

    @abc.abstractmethod
    def is_fast_enough(self, resolved: Resolved[PlanT], width: int, height: int) -> bool:
        """Whether the preset ``road`` keeps 10 Hz here.

        :param resolved: of the preset with what is set beside it.
        :param width, height: of the images, pixels; 0 = not known.
        """

    @abc.abstractmethod
    def describe(self, config: MatcherConfig) -> dict[str, str]:
        """Name of the device that computes and how, for people."""

    @abc.abstractmethod
    def origins(self) -> dict[str, int]:
        """How many kernels this process has 'compiled', 'kept' of these, and read from 'disk'."""


@dataclasses.dataclass(frozen=True)
class Resolved(Generic[PlanT]):
    """What engines run where a configuration was given.

    given:   the configuration that was set.
    config:  the effective one, of the images as they come: see ``geometry.effective``.
    backend: what computes.
    """

    given: MatcherConfig
    config: MatcherConfig
    backend: Backend[PlanT]

    @functools.cached_property
    def passes(self) -> Passes:
        """What is run on the matched images.

        :raises ConfigError: as ``Backend.resolve``.
        """
        return self.backend.resolve(self.config)

    def changed(self, given: MatcherConfig, calibration: Calibration | None) -> Resolved[PlanT]:
        """After a change of live settings, which no other back end is chosen for."""
        return Resolved(given, geometry.effective(given, calibration), self.backend)

    def plan(self, width: int, height: int, allowed: int | None = None) -> PlanT:
        """The plan of an engine that fits the memory allowed, whole or in partitions.

        :param width, height: of the images as they come, pixels.
        :param allowed: bytes; None = ``Backend.allowed``.
        :raises MemoryLimitError: it does not fit, in whatever partitions.
        :raises ConfigError: as ``Backend.resolve``, or partitions that do not fit into the image.
        """
        if allowed is None:
            allowed = self.backend.allowed(self.config)
        parts = partitions.choose(
            self.passes[-1], *geometry.reduced_size(self.config, width, height), allowed,
            lambda parts: self.lay_out(width, height, parts).memory)
        return self.lay_out(width, height, parts)

    def lay_out(self, width: int, height: int, parts: Partitioning | None = None) -> PlanT:
        """The plan of an engine, whatever the memory.

        :param parts: how reduced images are cut; None = not at all.
        """
        return self.backend.lay_out(self.config, self.passes, width, height, parts)
