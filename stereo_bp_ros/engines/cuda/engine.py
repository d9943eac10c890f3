"""The CUDA engine: one arena, and a frame as one CUDA graph."""

from __future__ import annotations

import itertools
import time
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
    is_pinned: the device reads both where the caller has them.
    """

    readings: tuple[convert.Reading, convert.Reading]
    is_pinned: bool
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
        self._form: _Form | None = None
        self._launched: Any = None
        self._targets: dict[str, int] = {}
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
            self._form = self._launched = None
            del self._parameters
            self._arena.close()

    def compute(self, left: RawImage, right: RawImage, calibration: Calibration | None,
                outputs: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, float]:
        if not self._arena.is_open:
            raise RuntimeError('this engine is closed')
        start = time.perf_counter()
        pair = (right, left) if self._convert.is_mirrored else (left, right)
        with self._device, device.Errors(self.config.device_id):
            is_pinned = self._stage(pair)
            form = _Form((convert.reading(pair[0]), convert.reading(pair[1])), is_pinned,
                         self._wanted(tuple(outputs)))
            if form != self._form:
                self._form, self._launched = form, self._graph(form)
            targets = {name: device.mapped_address(array) for name, array in outputs.items()}
            if targets != self._targets:
                self._parameters.aim({name: address or self._arena.host_address[name]
                                      for name, address in targets.items()})
                self._targets = targets
            if self._filled != (self.config, calibration):
                self._parameters.fill(self.config, calibration)
                self._filled = (self.config, calibration)
            launched = time.perf_counter()
            self._launched.launch(self._stream)
            self._stream.synchronize()
        for name, array in outputs.items():
            if not targets[name]:
                np.copyto(array, self._arena.host[name])
        return self._timings(form, start, launched, time.perf_counter())

    def replay(self) -> float:
        """Run the last frame once more, without its host's part; returns the seconds it took."""
        with self._device, device.Errors(self.config.device_id):
            start = time.perf_counter()
            self._launched.launch(self._stream)
            self._stream.synchronize()
            return time.perf_counter() - start

    def _timings(self, form: _Form, start: float, launched: float,
                 end: float) -> dict[str, float]:
        """Milliseconds of the stages: from the host's clock and the device's time stamps.

        ``upload`` begins on the host, where images are copied into pinned memory.
        """
        timings = dict.fromkeys(ENGINE_STAGES, 0.0)
        timings['upload'] = (launched - start) * 1e3
        stamps = self._arena.host['stamps'].tolist()
        timed = self._timed[form]
        for name, first, last in timed.stages:
            timings[name] += (stamps[last] - stamps[first]) * 1e-6
        on_device = (stamps[timed.last] - stamps[timed.first]) * 1e-6
        timings['download'] = max(0.0, (end - launched) * 1e3 - on_device)
        return timings

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

    def _stage(self, pair: tuple[RawImage, RawImage]) -> bool:
        """Put both images where the device reads them; whether they lie there already."""
        host = self._arena.host
        left = convert.pinned_address(pair[0])
        right = convert.pinned_address(pair[1]) if left else 0
        if left and right:
            host['sources'][:] = left, right
            return True
        for name, raw in zip(('left_raw', 'right_raw'), pair, strict=True):
            convert.stage(raw, host[name])
        return False

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
        if self._convert.enqueue_upload(stream, form.readings, form.is_pinned,
                                        self._arena.stamp('upload')):
            timed.append('upload')
        if self._convert.enqueue(stream, form.readings, self._arena.stamp('convert')):
            timed.append('convert')
        if self._preprocess.enqueue(stream, grey, form.steps.texture,
                                    self._arena.stamp('preprocess')):
            timed.append('preprocess')
        return timed, grey, self._preprocess.result(grey)
