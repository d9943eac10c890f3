"""The CUDA engine: one arena, and a frame as one CUDA graph."""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.cameras.rectification import Rectification, RightWarp
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.engines.backend import Engine
from stereo_bp_ros.engines.cuda.memory import STAMPS
from stereo_bp_ros.engines.cuda.pipeline import Form, Pipeline, Timed
from stereo_bp_ros.engines.cuda.plan import Plan, plan_of
from stereo_bp_ros.engines.cuda.runtime import device
from stereo_bp_ros.engines.cuda.runtime.arena import Arena
from stereo_bp_ros.engines.cuda.stages import convert, refine
from stereo_bp_ros.engines.partitions import Partitioning
from stereo_bp_ros.engines.plan import Passes
from stereo_bp_ros.errors import DeviceLostError
from stereo_bp_ros.frame.disparity_frame import ENGINE_STAGES
from stereo_bp_ros.images.device_arrays import DeviceArray
from stereo_bp_ros.images.raw_images import RawImage


class _OutputBinding(NamedTuple):
    """The caller's array bound to an output, and its device address (0: not mapped, copied after
    the frame).
    """

    array: weakref.ref[Any]
    address: int


class _Uncaptured(NamedTuple):
    """Stands for the graph of a frame that allocates memory, which no graph may."""

    enqueue: Callable[[], None]

    def launch(self, _stream: Any) -> None:
        self.enqueue()


class CudaEngine(Engine):
    """Matches pairs of one size on a CUDA device; see ``backend.Engine``.

    Everything is allocated and compiled here. A graph is captured for each set of outputs and
    of live settings that needs other kernels: in ``update`` for the outputs known so far, at a
    frame with new outputs in ``compute``.

    :raises BackendUnavailable: the device cannot be used.
    :raises OutOfDeviceMemory: the device has not enough memory left.
    :raises DeviceLostError: the device was lost, now or earlier in this process.
    """

    backend = 'cuda'
    plan: Plan

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        index = plan.config.device_id
        _require(index)
        import cupy
        self._device = cupy.cuda.Device(index)
        self._graphs: dict[Form, Any] = {}
        self._timed: dict[Form, Timed] = {}
        with device.Errors(index), self._device:
            self._stream = cupy.cuda.Stream(non_blocking=True)
            self._caller = cupy.cuda.Event(disable_timing=True)
            self._arena = arena = Arena(plan.device, plan.memory, plan.pinned, STAMPS,
                                        self._stream.ptr)
            self._pipeline = Pipeline(plan, arena)
            self._convert = self._pipeline.convert
            compiling = time.perf_counter()
            self._pipeline.load()
            #: Seconds that compiling the kernels took, or reading them from the disk.
            self.compile_time = time.perf_counter() - compiling
            self._pipeline.initialise(self._stream.ptr)
            self._stream.synchronize()
        # Of refinement, and of the outputs; one and the same except for where they write. And of
        # the refinement of a first pass, which always writes to the same place.
        *self._parameters, self._of_first_pass = [
            refine.Parameters.from_buffer(each.data) for each in arena.host['parameters']]
        self._of_first_pass.bind({'final': arena.device.get('coarse_final', 0)})
        self._fill(plan.passes, None)
        self._filled: tuple[Passes, Calibration | None] | None = (plan.passes, None)
        self._steps: dict[tuple[str, ...], refine.Steps] = {}
        # Of the last frame, which most frames are like.
        self._graph_key: tuple[object, ...] = ()
        self._launched: Any = None
        self._form: Form
        self._images: tuple[weakref.ref[RawImage], ...] = ()
        self._sources = convert.STAGED
        self._is_in_place = self._is_warped = False
        self._pinned = convert.PinnedSources()
        self._bindings: dict[str, _OutputBinding] = {}

    @classmethod
    def of(cls, config: MatcherConfig, width: int, height: int, *,
           parts: Partitioning | None = None) -> CudaEngine:
        """An engine with a plan for the device of a configuration.

        :param parts: how belief propagation cuts the images; None = not at all.
        :raises ConfigError: a setting that only the CPU engine has.
        :raises StereoError: as ``CudaEngine``.
        """
        _require(config.device_id)
        return cls(plan_of(config, width, height, device.properties(config.device_id), parts))

    def update(self, passes: Passes) -> None:
        previous, self.passes = self.passes, passes
        self._forget_frame()
        self._drop_graphs(self._pinned.clear())
        try:
            with device.Errors(self.config.device_id), self._device:
                for form in list(self._graphs):
                    self._graph(form._replace(steps=self._wanted(tuple(form.steps.outputs))))
        except BaseException:
            self.passes = previous
            self._forget_frame()
            raise

    def close(self) -> None:
        if not self._arena.is_open:
            return
        with self._device:
            if not device.is_lost(self.config.device_id):
                self._stream.synchronize()
            self._graphs.clear()
            self._launched = None
            del self._parameters, self._of_first_pass
            self._arena.close()

    def compute(self, left: RawImage, right: RawImage, calibration: Calibration | None,
                outputs: Mapping[str, Any], rectification: Rectification | None = None,
                warp: RightWarp | None = None) -> dict[str, float]:
        if not self._arena.is_open:
            raise RuntimeError('this engine is closed')
        start = time.perf_counter()
        if self._convert.is_mirrored:
            left, right = right, left
        with device.Errors(self.config.device_id), self._device:
            if (not self._images or self._images[0]() is not left
                    or self._images[1]() is not right or self._sources is convert.ANYWHERE
                    or self._is_warped != (warp is not None)):
                self._bind_inputs((left, right), warp is not None)
            if not self._is_in_place:
                self._stage_inputs((left, right))
            for side, maps in self._new_maps(rectification, warp):
                self._convert.fill_maps(side, maps, self._stream.ptr)
            key = (left.encoding, left.big_endian, right.encoding, right.big_endian,
                   self._sources, self._is_warped, *outputs)
            if key != self._graph_key:
                form = Form(self._convert.readings((left, right), self._is_warped),
                            self._sources, self._wanted(tuple(outputs)))
                launched_graph = self._graph(form)
                # Outputs are bound to no graph until they are to this one.
                self._graph_key = ()
                self._bind_outputs(outputs)
                self._form, self._launched, self._graph_key = form, launched_graph, key
            for name, array in outputs.items():
                if self._bindings[name].array() is not array:
                    self._bind_outputs(outputs)
                    break
            if self._filled != (self.passes, calibration):
                self._filled = None     # while half of it is new
                self._fill(self.passes, calibration)
                self._filled = (self.passes, calibration)
            launched = time.perf_counter()
            self._launched.launch(self._stream)
            # What the device need not be waited for.
            timings = dict.fromkeys(ENGINE_STAGES, 0.0)
            timings['upload'] = (launched - start) * 1e3
            timed = self._timed[self._form]
            self._stream.synchronize()
        for name, array in outputs.items():
            if not self._bindings[name].address:
                found = self._arena.host[name].reshape(-1)
                np.copyto(array, found[:array.size].reshape(array.shape))
        self._add_stages(timings, timed, launched)
        return timings

    def wait_for(self, stream: int) -> None:
        from cupy.cuda import runtime
        with device.Errors(self.config.device_id), self._device:
            runtime.eventRecord(self._caller.ptr, stream)
            runtime.streamWaitEvent(self._stream.ptr, self._caller.ptr)

    def replay(self) -> float:
        """Run the last frame once more, without its host's part; returns the seconds it took."""
        with device.Errors(self.config.device_id), self._device:
            start = time.perf_counter()
            self._launched.launch(self._stream)
            self._stream.synchronize()
            return time.perf_counter() - start

    def _add_stages(self, timings: dict[str, float], timed: Timed, launched: float) -> None:
        """Milliseconds of the stages: from the device's time stamps and the host's clock.

        ``upload`` began on the host, where images are copied into pinned memory.
        """
        stamps = self._arena.host['stamps'].tolist()
        for name, first, last in timed.stages:
            timings[name] += (stamps[last] - stamps[first]) * 1e-6
        on_device = (stamps[timed.last] - stamps[timed.first]) * 1e-6
        timings['download'] = max(0.0, (time.perf_counter() - launched) * 1e3 - on_device)

    def _forget_frame(self) -> None:
        """Have the next frame look anew at its images, its graph and its outputs."""
        self._steps.clear()
        self._graph_key, self._images = (), ()

    def _wanted(self, outputs: tuple[str, ...]) -> refine.Steps:
        if outputs not in self._steps:
            self._steps[outputs] = refine.steps(self.config, outputs,
                                                self._pipeline.outputs.enlarges)
        return self._steps[outputs]

    def _graph(self, form: Form) -> Any:
        if form not in self._graphs:
            self._graphs[form] = self._capture(form)
        return self._graphs[form]

    def _bind_inputs(self, pair: tuple[RawImage, RawImage], is_warped: bool) -> None:
        """See whether the device can read both images where they lie.

        Cached per image object: pinned memory stays pinned for the lifetime of its owner.
        """
        self._images, self._is_in_place, self._is_warped = (), False, is_warped
        if any(raw.is_on_device for raw in pair):
            self._sources = self._convert.places(pair, self._convert.readings(pair, is_warped))
        else:
            left = convert.pinned_address(pair[0])
            right = convert.pinned_address(pair[1]) if left else 0
            self._sources = convert.STAGED
            self._is_in_place = bool(left and right)
            if self._is_in_place:
                self._sources, dropped = self._pinned.see((left, right))
                self._drop_graphs(dropped)
                if self._sources is convert.ANYWHERE:
                    self._arena.host['sources'][:] = left, right
        self._images = tuple(weakref.ref(raw) for raw in pair)

    def _drop_graphs(self, dropped: list[convert.Sources]) -> None:
        """Drop the graphs of images that lie there."""
        for form in [form for form in self._graphs if form.sources in dropped]:
            del self._graphs[form], self._timed[form]

    def _stage_inputs(self, pair: tuple[RawImage, RawImage]) -> None:
        """Copy both images to where the device reads them."""
        for name, raw, source in zip(('left_raw', 'right_raw'), pair, self._sources, strict=True):
            if raw.is_on_device:
                convert.copy(raw, source, self._stream.ptr)
            else:
                convert.stage(raw, self._arena.host[name])

    def _bind_outputs(self, outputs: Mapping[str, Any]) -> None:
        """Say where the outputs go: to the caller's arrays, where the device can write them."""
        bindings = {
            name: _OutputBinding(
                weakref.ref(array), array.address if isinstance(array, DeviceArray)
                else device.mapped_address(array)) for name, array in outputs.items()}
        targets = {name: binding.address or self._arena.host_address[name]
                   for name, binding in bindings.items()}
        arrays = self._arena.device
        if self._wanted(tuple(outputs)).keeps:
            targets['final'] = arrays['final']
        reduced = targets
        if self._pipeline.outputs.enlarges:
            reduced = {'final': arrays['reduced_final']}
            if 'confidence' in targets:
                reduced['confidence'] = arrays['reduced_confidence']
        for parameters, written in zip(self._parameters, (reduced, targets), strict=True):
            parameters.bind(written)
        self._bindings = bindings

    def _fill(self, passes: Passes, calibration: Calibration | None) -> None:
        *before, last = passes
        for parameters in self._parameters:
            parameters.fill(last, calibration)
        for first in before:
            self._of_first_pass.fill(first, None)

    def _capture(self, form: Form) -> Any:
        """Record a frame. Afterwards the stream records no more, whatever was raised."""
        if not self._pipeline.matching.can_be_captured:
            return _Uncaptured(lambda: self._enqueue(form))
        stream = self._stream
        with stream:
            stream.begin_capture()
            try:
                self._enqueue(form)
            except BaseException:
                with contextlib.suppress(Exception):
                    stream.end_capture()
                raise
            return stream.end_capture()

    def _enqueue(self, form: Form) -> None:
        self._timed[form] = self._pipeline.enqueue(self._stream.ptr, form)


def _require(index: int) -> None:
    """Go on only with a device that can be used.

    :raises DeviceLostError: it was lost earlier in this process.
    :raises BackendUnavailable: as ``device.unavailable`` says.
    """
    if device.is_lost(index):
        raise DeviceLostError(f'CUDA device {index} was lost: restart the process')
    device.require(index)
