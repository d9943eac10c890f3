"""The CUDA engine: one arena, and a frame as one CUDA graph."""

from __future__ import annotations

import itertools
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from stereo_bp_ros import partitions
from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines import Engine
from stereo_bp_ros.engines.cuda import (
    convert,
    device,
    hierarchical,
    plan,
    preprocess,
    refine,
    sad_variants,
    storage,
    tiled,
    tiling,
    tuning,
)
from stereo_bp_ros.engines.cuda.arena import STAMPS, Arena
from stereo_bp_ros.engines.cuda.matching import Matching
from stereo_bp_ros.errors import DeviceLostError
from stereo_bp_ros.images import RawImage
from stereo_bp_ros.types import ENGINE_STAGES


class _Form(NamedTuple):
    """What distinguishes one captured frame from another.

    readings: how the bytes of the left and of the right image are read, as they are matched;
    sources: where the device reads both; ``convert.STAGED`` or ``convert.ANYWHERE``.
    """

    readings: tuple[convert.Reading, convert.Reading]
    sources: convert.Sources
    steps: refine.Steps


class _Timed(NamedTuple):
    """What a frame's time stamps mean, by their places in ``stamps``.

    stages: name of a stage in ``ENGINE_STAGES``, where its start and its end are.
    """

    stages: tuple[tuple[str, int, int], ...]
    first: int
    last: int

    @classmethod
    def of(cls, stamped: list[str]) -> _Timed:
        """From the names of the stamps that a frame writes, in order."""
        # Without passes the labels are chosen under the name of the messages.
        return cls(tuple(('messages' if following == 'refine' else stage, STAMPS[stage],
                          STAMPS[following]) for stage, following in itertools.pairwise(stamped)),
                   STAMPS[stamped[0]], STAMPS[stamped[-1]])


class _Aim(NamedTuple):
    """An output's array as it was last seen, and where the device writes it; 0 = it cannot."""

    array: weakref.ref[np.ndarray[Any, Any]]
    address: int


class _Uncaptured(NamedTuple):
    """Stands for the graph of a frame that allocates memory, which no graph may."""

    enqueue: Callable[[], None]

    def launch(self, _stream: Any) -> None:
        self.enqueue()


class CudaEngine(Engine):
    """Matches pairs of one size on a CUDA device; see ``engines.Engine``.

    Everything is allocated and compiled here. A graph is captured for each set of outputs and
    of live settings that needs other kernels: in ``update`` for the outputs known so far, at a
    frame with new outputs in ``compute``.

    :param tilings: level to tiling, in place of the engine's own choice; None = what the tuner
        has found for this problem on this machine, if anything.
    :param parts: how belief propagation cuts the images; None = not at all.
    :raises ConfigError: a setting that only the CPU engine has.
    :raises BackendUnavailable: the device cannot be used.
    :raises OutOfDeviceMemory: the device has not enough memory left.
    :raises DeviceLostError: the device was lost, now or earlier in this process.
    """

    backend = 'cuda'

    def __init__(self, config: MatcherConfig, width: int, height: int, *,
                 tilings: dict[int, tiling.Tiling] | None = None,
                 parts: partitions.Partitioning | None = None) -> None:
        self.config = config
        self.width = width
        self.height = height
        plan.check(config)
        if device.is_lost(config.device_id):
            raise DeviceLostError(f'CUDA device {config.device_id} was lost: restart the process')
        device.require(config.device_id)
        import cupy
        self._device = cupy.cuda.Device(config.device_id)
        self._found = found = device.properties(config.device_id)
        self.parts = parts or partitions.whole(width, height)
        self._storage: Mapping[str, int] = {}
        if tilings is None:
            tuned = tuning.for_engine(config, self.parts.width, self.parts.height, found)
            tilings, self._storage = tuned.tilings, tuned.settings
        self.passes = tiling.passes(config, self.parts.width, self.parts.height, found, tilings)
        self.plan = plan.memory_plan(config, width, height, found, tilings, self.parts)
        self._graphs: dict[_Form, Any] = {}
        self._timed: dict[_Form, _Timed] = {}
        start = time.perf_counter()
        with self._device, device.Errors(config.device_id):
            self._stream = cupy.cuda.Stream(non_blocking=True)
            self._arena = arena = Arena(found, self.plan, plan.host_plan(config, width, height))
            self._convert = convert.Convert(found, config, width, height, arena)
            self._preprocess = preprocess.Preprocess(found, config, width, height, arena)
            self._matching = self._stage_of_matching()
            self._refine = refine.Refine(found, config, width, height, arena)
            compiling = time.perf_counter()
            self._load()
            #: Seconds that compiling the kernels took, or reading them from the disk.
            self.compile_time = time.perf_counter() - compiling
            self._initialise()
        self._parameters = refine.Parameters.from_buffer(arena.host['parameters'].data)
        self._parameters.fill(config, None)
        self._filled: tuple[MatcherConfig, Calibration | None] = (config, None)
        self._steps: dict[tuple[str, ...], refine.Steps] = {}
        # Of the last frame, which most frames are like.
        self._shape: tuple[object, ...] = ()
        self._launched: Any = None
        self._form: _Form
        self._images: tuple[weakref.ref[RawImage], ...] = ()
        self._sources = convert.STAGED
        self._pinned = convert.PinnedSources()
        self._aims: dict[str, _Aim] = {}
        #: Seconds from nothing to an engine that is ready for its first frame.
        self.build_time = time.perf_counter() - start

    def _stage_of_matching(self) -> Matching:
        if self.config.stereo_algorithm == 'sad':
            return sad_variants.stage(self._found, self.config, self.width, self.height,
                                      self._arena)
        if self.config.repeats_papers:
            return storage.Storage(self._found, self.config.replace(**self._storage), self.width,
                                   self.height, self._arena)
        if self.config.stereo_algorithm == 'tiled_bp':
            return tiled.Tiled(self._found, self.config, self.width, self.height, self._arena)
        return hierarchical.Hierarchical(self._found, self.config, self.width, self.height,
                                         self._arena, self.passes, self.parts)

    def update(self, config: MatcherConfig) -> None:
        self.config = config
        self._steps.clear()
        self._shape, self._images = (), ()
        self._forget(self._pinned.clear())
        with self._device, device.Errors(config.device_id):
            for form in list(self._graphs):
                self._graph(form._replace(steps=refine.steps(config, form.steps.outputs)))

    def close(self) -> None:
        if not self._arena.is_open:
            return
        with self._device:
            if not device.is_lost(self.config.device_id):
                self._stream.synchronize()
            self._graphs.clear()
            self._launched = None
            del self._parameters
            self._arena.close()

    def compute(self, left: RawImage, right: RawImage, calibration: Calibration | None,
                outputs: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, float]:
        if not self._arena.is_open:
            raise RuntimeError('this engine is closed')
        start = time.perf_counter()
        if self._convert.is_mirrored:
            left, right = right, left
        with self._device, device.Errors(self.config.device_id):
            if (not self._images or self._images[0]() is not left
                    or self._images[1]() is not right or self._sources is convert.ANYWHERE):
                self._find((left, right))
            if self._sources is convert.STAGED:
                self._stage((left, right))
            shape = (left.encoding, left.big_endian, right.encoding, right.big_endian,
                     self._sources, *outputs)
            if shape != self._shape:
                self._form = _Form((convert.reading(left), convert.reading(right)),
                                   self._sources, self._wanted(tuple(outputs)))
                self._launched = self._graph(self._form)
                self._aim(outputs)
                self._shape = shape
            for name, array in outputs.items():
                if self._aims[name].array() is not array:
                    self._aim(outputs)
                    break
            if self._filled != (self.config, calibration):
                self._parameters.fill(self.config, calibration)
                self._filled = (self.config, calibration)
            launched = time.perf_counter()
            self._launched.launch(self._stream)
            # What the device need not be waited for.
            timings = dict.fromkeys(ENGINE_STAGES, 0.0)
            timings['upload'] = (launched - start) * 1e3
            timed = self._timed[self._form]
            self._stream.synchronize()
        for name, array in outputs.items():
            if not self._aims[name].address:
                np.copyto(array, self._arena.host[name])
        self._add_stages(timings, timed, launched)
        return timings

    def replay(self) -> float:
        """Run the last frame once more, without its host's part; returns the seconds it took."""
        with self._device, device.Errors(self.config.device_id):
            start = time.perf_counter()
            self._launched.launch(self._stream)
            self._stream.synchronize()
            return time.perf_counter() - start

    def _add_stages(self, timings: dict[str, float], timed: _Timed, launched: float) -> None:
        """Milliseconds of the stages: from the device's time stamps and the host's clock.

        ``upload`` began on the host, where images are copied into pinned memory.
        """
        stamps = self._arena.host['stamps'].tolist()
        for name, first, last in timed.stages:
            timings[name] += (stamps[last] - stamps[first]) * 1e-6
        on_device = (stamps[timed.last] - stamps[timed.first]) * 1e-6
        timings['download'] = max(0.0, (time.perf_counter() - launched) * 1e3 - on_device)

    def _wanted(self, outputs: tuple[str, ...]) -> refine.Steps:
        if outputs not in self._steps:
            self._steps[outputs] = refine.steps(self.config, outputs)
        return self._steps[outputs]

    def _graph(self, form: _Form) -> Any:
        if form not in self._graphs:
            self._graphs[form] = self._capture(form)
        return self._graphs[form]

    def _load(self) -> None:
        self._convert.load()
        self._preprocess.load()
        for grey in ('grey', 'values'):
            self._matching.load(self._preprocess.result(grey), grey == 'grey')
        self._refine.load()

    def _initialise(self) -> None:
        """What is written once: labels of the border, and what the way of matching needs."""
        from cupy.cuda import runtime
        address, stream = self._arena.device, self._stream.ptr
        for name in ('label', 'right_keys'):
            runtime.memsetAsync(address[name], 0xff, self._arena.nbytes[name], stream)
        self._matching.initialise(stream)
        self._stream.synchronize()

    def _find(self, pair: tuple[RawImage, RawImage]) -> None:
        """See whether the device can read both images where they lie.

        Asked once for images that come again and again: what was pinned stays so as long as
        somebody has it.
        """
        left = convert.pinned_address(pair[0])
        right = convert.pinned_address(pair[1]) if left else 0
        self._sources = convert.STAGED
        if left and right:
            self._sources, dropped = self._pinned.see((left, right))
            self._forget(dropped)
            if self._sources is convert.ANYWHERE:
                self._arena.host['sources'][:] = left, right
        self._images = tuple(weakref.ref(raw) for raw in pair)

    def _forget(self, dropped: list[convert.Sources]) -> None:
        """Drop the graphs of images that lie there."""
        for form in [form for form in self._graphs if form.sources in dropped]:
            del self._graphs[form], self._timed[form]

    def _stage(self, pair: tuple[RawImage, RawImage]) -> None:
        """Copy both images to where the device reads them."""
        for name, raw in zip(('left_raw', 'right_raw'), pair, strict=True):
            convert.stage(raw, self._arena.host[name])

    def _aim(self, outputs: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Say where the outputs go: to the caller's arrays, where the device can write them."""
        self._aims = {name: _Aim(weakref.ref(array), device.mapped_address(array))
                      for name, array in outputs.items()}
        self._parameters.aim({name: aim.address or self._arena.host_address[name]
                              for name, aim in self._aims.items()})

    def _capture(self, form: _Form) -> Any:
        """Record a frame."""
        if not self._matching.can_be_captured:
            return _Uncaptured(lambda: self._enqueue(form))
        stream = self._stream
        with stream:
            stream.begin_capture()
            self._enqueue(form)
            return stream.end_capture()

    def _enqueue(self, form: _Form) -> None:
        """Put a frame's work into the stream."""
        stream = self._stream.ptr
        timed, grey, matched = self._enqueue_images(form)
        publishes = self._matching.enqueue(stream, matched, grey == 'grey', form.steps,
                                           self._refine.frame())
        timed += [*self._matching.stages, 'refine']
        if not publishes:
            self._refine.enqueue(stream, form.steps)
            timed.append('end')
        self._timed[form] = _Timed.of(timed)

    def _enqueue_images(self, form: _Form) -> tuple[list[str], str, str]:
        """Everything up to the matched images.

        Returns the stages of the frame that are timed so far, and the names of the arrays of
        the grey values and of the images that are matched.
        """
        stream = self._stream.ptr
        grey = self._convert.grey(form.readings)
        timed = []
        if self._convert.enqueue_upload(stream, form.readings, form.sources,
                                        self._arena.stamp('upload')):
            timed.append('upload')
        if self._convert.enqueue(stream, form.readings, self._arena.stamp('convert')):
            timed.append('convert')
        if self._preprocess.enqueue(stream, grey, form.steps.texture,
                                    self._arena.stamp('preprocess')):
            timed.append('preprocess')
        return timed, grey, self._preprocess.result(grey)
