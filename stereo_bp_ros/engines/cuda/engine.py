"""The CUDA engine: one arena, and a frame as one CUDA graph."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.engines import Engine
from stereo_bp_ros.engines.cuda import (
    beliefs,
    compiler,
    convert,
    cost,
    device,
    messages,
    plan,
    preprocess,
    refine,
    sad,
    sad_variants,
)
from stereo_bp_ros.engines.cuda.arena import Arena
from stereo_bp_ros.errors import DeviceLostError
from stereo_bp_ros.images import RawImage
from stereo_bp_ros.types import ENGINE_STAGES

_TO_DEVICE = 1      # cudaMemcpyKind


class _Form(NamedTuple):
    """What distinguishes one captured frame from another.

    is_grey: 8-bit grey values are uploaded, not the float32 images that are matched.
    """

    is_grey: bool
    steps: refine.Steps


class CudaEngine(Engine):
    """Matches pairs of one size on a CUDA device; see ``engines.Engine``.

    Everything is allocated and compiled here. A graph is captured for each set of outputs and
    of live settings that needs other kernels: in ``update`` for the outputs known so far, at a
    frame with new outputs in ``compute``.

    :param tilings: level to tiling, in place of the engine's own choice.
    :raises ConfigError: a setting that only the CPU engine has.
    :raises BackendUnavailable: the device cannot be used.
    :raises OutOfDeviceMemory: the device has not enough memory left.
    :raises DeviceLostError: the device was lost, now or earlier in this process.
    """

    backend = 'cuda'

    def __init__(self, config: MatcherConfig, width: int, height: int, *,
                 tilings: dict[int, plan.Tiling] | None = None) -> None:
        self.config = config
        self.width = width
        self.height = height
        plan.check(config)
        if device.is_lost(config.device_id):
            raise DeviceLostError(f'CUDA device {config.device_id} was lost: restart the process')
        problem = device.unavailable(config.device_id)
        if problem is not None:
            raise problem
        import cupy
        self._device = cupy.cuda.Device(config.device_id)
        self._found = found = device.properties(config.device_id)
        self.passes = plan.passes(config, width, height, found, tilings)
        self.plan = plan.memory_plan(config, width, height, found, tilings)
        self._graphs: dict[_Form, Any] = {}
        # Outputs that frames were asked for, each with: were the images of 8 bits.
        self._seen: set[tuple[frozenset[str], bool]] = set()
        start = time.perf_counter()
        with self._device, device.errors(config.device_id):
            self._stream = cupy.cuda.Stream(non_blocking=True)
            self._arena = arena = Arena(found, self.plan, plan.host_plan(config, width, height),
                                        plan.scratch_plan(config, width, height))
            self._preprocess = preprocess.Preprocess(found, config, width, height, arena)
            self._sad: sad.Sad | sad_variants.Streamed | None = None
            if config.stereo_algorithm == 'sad':
                self._sad = sad_variants.stage(found, config, width, height, arena)
            else:
                self._cost = cost.Cost(found, config, width, height, arena)
                self._messages = messages.Messages(found, config, width, height, arena,
                                                   self.passes)
                self._beliefs = beliefs.Beliefs(found, config, width, height, arena, self.passes)
            self._refine = refine.Refine(found, config, width, height, arena)
            compiling = time.perf_counter()
            self._load()
            #: Seconds that compiling the kernels took, or reading them from the disk.
            self.compile_time = time.perf_counter() - compiling
            self._initialise()
        self._parameters = refine.Parameters.from_buffer(arena.host['parameters'].data)
        self._parameters.fill(config, None)
        #: Seconds from nothing to an engine that is ready for its first frame.
        self.build_time = time.perf_counter() - start

    def update(self, config: MatcherConfig) -> None:
        self.config = config
        with self._device, device.errors(config.device_id):
            for outputs, is_8bit in self._seen:
                self._graph(self._form(outputs, is_8bit))

    def close(self) -> None:
        if not self._arena.is_open:
            return
        with self._device:
            if not device.is_lost(self.config.device_id):
                self._stream.synchronize()
            self._graphs.clear()
            del self._parameters
            self._arena.close()

    def compute(self, left: RawImage, right: RawImage, calibration: Calibration | None,
                outputs: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, float]:
        if not self._arena.is_open:
            raise RuntimeError('this engine is closed')
        start = time.perf_counter()
        is_8bit = convert.is_8bit(left) and convert.is_8bit(right)
        form = self._form(outputs, is_8bit)
        with self._device, device.errors(self.config.device_id):
            graph = self._graph(form)
            self._seen.add((form.steps.outputs, is_8bit))
            self._prepare(left, right, form)
            self._parameters.fill(self.config, calibration)
            launched = time.perf_counter()
            graph.launch(self._stream)
            self._stream.synchronize()
        for name, array in outputs.items():
            np.copyto(array, self._arena.host[name])
        return self._timings(start, launched, time.perf_counter())

    def _timings(self, start: float, launched: float, end: float) -> dict[str, float]:
        """Milliseconds of the stages: from the host's clock and the device's time stamps."""
        timings = dict.fromkeys(ENGINE_STAGES, 0.0)
        cost_start, messages_start, refine_start = (
            int(stamp) * 1e-6 for stamp in self._arena.host['stamps'][:3])
        timings['convert'] = (launched - start) * 1e3
        if self.passes:
            timings['cost'] = messages_start - cost_start
            timings['messages'] = refine_start - messages_start
        else:
            timings['messages'] = refine_start - cost_start
        on_device = refine_start - cost_start
        timings['download'] = max(0.0, (end - launched) * 1e3 - on_device)
        return timings

    def _form(self, outputs: Collection[str], is_8bit: bool) -> _Form:
        wanted = refine.steps(self.config, outputs)
        on_device = preprocess.runs_on_device(self.config) and not wanted.texture
        return _Form(is_8bit and on_device, wanted)

    def _graph(self, form: _Form) -> Any:
        if form not in self._graphs:
            self._graphs[form] = self._capture(form)
        return self._graphs[form]

    def _load(self) -> None:
        images = {'float'}
        if preprocess.runs_on_device(self.config):
            images.add(self._image(True))
        matching = self._sad or self._cost
        for image in images:
            matching.load(image)
        if self._sad is None:
            self._messages.load()
            self._beliefs.load()
        self._refine.load()

    def _image(self, is_grey: bool) -> str:
        """Type of the images that are matched."""
        return 'uint8' if is_grey and self.config.preprocessing == 'none' else 'float'

    def _initialise(self) -> None:
        """What is written once: the table of costs, and labels of the border."""
        from cupy.cuda import runtime
        address, stream = self._arena.device, self._stream.ptr
        for name in ('label', 'right_keys'):
            runtime.memsetAsync(address[name], 0xff, self._arena.nbytes[name], stream)
        if self._sad is not None:
            self._stream.synchronize()
            return
        values = cost.table(self.config)
        runtime.memcpyAsync(address['table'], values.ctypes.data, values.nbytes, _TO_DEVICE,
                            stream)
        if plan.keeps_deltas(self.config):
            slope = int(plan.smoothness(self.config)[0])
            runtime.memsetAsync(address['nothing'], slope, 16, stream)
        self._stream.synchronize()

    def _prepare(self, left: RawImage, right: RawImage, form: _Form) -> None:
        """Put both images where the graph uploads them from."""
        config, host, scratch = self.config, self._arena.host, self._arena.scratch
        # With the right image as reference, mirrored and swapped images have the same geometry:
        # its pixel x matches x + d of the left one, which after mirroring is x - d.
        mirrored = config.reference_image == 'right'
        pair = (right, left) if mirrored else (left, right)
        for side, raw in zip(('left', 'right'), pair, strict=True):
            if form.is_grey:
                convert.to_grey8(raw, host[f'{side}_grey'], scratch['grey8'][0], mirrored)
                continue
            convert.to_grey(raw, scratch['grey'], config.mono16_scale, scratch['grey8'],
                            mirrored)
            smoothed = preprocess.on_host(scratch['grey'], config, host[f'{side}_matched'],
                                          scratch)
            if form.steps.texture and side == 'left':
                preprocess.texture(smoothed, config, host['texture'], scratch['plane_b'])

    def _capture(self, form: _Form) -> Any:
        """Record a frame."""
        # Published straight into the host's memory: that takes no longer than a copy of its own.
        outputs = {name: self._arena.host_address[name] for name in form.steps.outputs}
        stream = self._stream
        with stream:
            stream.begin_capture()
            if form.is_grey:
                self._upload('parameters', 'right_grey')
            else:
                self._upload('left_matched', 'parameters')
            if form.is_grey:
                self._preprocess.enqueue(stream.ptr)
            if self._sad is not None:
                self._sad.enqueue(stream.ptr, self._image(form.is_grey), form.steps)
            else:
                self._cost.enqueue(stream.ptr, self._image(form.is_grey))
                out = beliefs.matches(self.config, self.width, self._arena, form.steps.costs,
                                      form.steps.right)
                self._messages.enqueue(stream.ptr, out)
                self._beliefs.enqueue(stream.ptr, out)
            self._refine.enqueue(stream.ptr, form.steps, outputs)
            return stream.end_capture()

    def _upload(self, first: str, last: str = '') -> None:
        """Copy the pinned arrays from one to another, which lie side by side on both sides."""
        from cupy.cuda import runtime
        arena, last = self._arena, last or first
        start = arena.host_address[first]
        if arena.device[first] != start:
            size = arena.host_address[last] + arena.nbytes[last] - start
            runtime.memcpyAsync(arena.device[first], start, size, _TO_DEVICE, self._stream.ptr)


def warm_up(config: MatcherConfig) -> float:
    """Compile every kernel of a configuration, or find it on disk; returns the seconds.

    The kernels of the passes depend on the image size a little; these are of the smallest.

    :raises BackendUnavailable: the device cannot be used.
    """
    start = time.perf_counter()
    engine = CudaEngine(config, 64, 64)
    engine.close()
    return time.perf_counter() - start


def resources(config: MatcherConfig) -> dict[str, compiler.Resources]:
    """Registers, local and shared bytes of each kernel that this process has loaded."""
    return compiler.loaded_kernels(config.device_id)
