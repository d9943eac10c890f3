"""Times of the SAD kernel and of its data-streaming variants, on images that lie on the device."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator

import cupy
import numpy as np

from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.engines.cuda.plan import resolve
from stereo_bp_ros.engines.cuda.runtime import compiler, device
from stereo_bp_ros.engines.cuda.sad import launch as sad_launch
from stereo_bp_ros.engines.cuda.sad import matching as sad
from stereo_bp_ros.engines.cuda.stages import refine
from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.papers.streamed_sad import cuda

#: Threads of a block in the experiments of Pudpai, Kim & Liu, section VII.
BLOCKS = (32, 64, 128, 256, 512)

_FILLED = {'label': 'int16', 'fraction': 'int8'}
_LAUNCHES = 20


def variants() -> Iterator[cuda.Variant]:
    """Everything that the paper compares: streaming, 8 and 32 bits, loops and none, blocks."""
    for streaming, pixel, unrolled, threads in itertools.product(
            cuda.STREAMING, ('int32', 'uint8'), (False, True), BLOCKS):
        yield cuda.Variant(streaming, pixel, unrolled, threads)


def variant_times(config: MatcherConfig, left: np.ndarray, right: np.ndarray, repeats: int
                  ) -> tuple[float, dict[tuple[str, str, bool, int], float | None]]:
    """Microseconds of the default kernel and of every variant, medians of ``repeats`` graphs.

    None where a variant's rows do not fit the shared memory of a block.

    :param left, right: uint8 H x W, matched as they are.
    :raises StereoError: a variant's results are not the default's.
    """
    with cupy.cuda.Device(config.device_id):
        bench = _Bench(config, left, right, repeats)
        default = bench.default()
        times: dict[tuple[str, str, bool, int], float | None] = {
            variant: bench.variant(variant) for variant in variants()}
        return default, times


class _Bench:
    """One pair on the device, and what the default made of it."""

    def __init__(self, config: MatcherConfig, left: np.ndarray, right: np.ndarray,
                 repeats: int) -> None:
        # Labels and fractions are what the variants are compared in.
        self._repeats = repeats
        self._device = device.properties(config.device_id)
        self._config = resolve(config.replace(subpixel=True), self._device)[-1]
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._height, self._width = left.shape
        if config.reference_image == 'right':
            # Both mirrored and swapped, as in the engine.
            left, right = (np.ascontiguousarray(side[:, ::-1]) for side in (right, left))
        with self._stream:
            self._images = {pixel: [cupy.asarray(side.astype(pixel)) for side in (left, right)]
                            for pixel in ('uint8', 'int32')}
            self._filled = {name: cupy.zeros(left.shape, dtype)
                            for name, dtype in _FILLED.items()}
        self._expected: dict[str, np.ndarray] = {}

    def default(self) -> float:
        """Time of the engine's own kernel, whose results are kept to compare with."""
        launch = sad_launch.launch_of(self._config, self._width, self._height, self._device)
        name = sad.kernel_name(launch, 'uint8', refine.steps(self._config, ()))
        kernel = compiler.kernel(self._device, 'sad/sad.cu', name)
        windows = self._windows('uint8', launch.rows)
        time = self._time(lambda: kernel.launch(
            self._stream.ptr, launch.grid, (launch.threads, 1, 1), launch.shared_bytes, windows))
        self._expected = self._found()
        return time

    def variant(self, variant: cuda.Variant) -> float | None:
        """Time of a variant; None where its rows do not fit the shared memory."""
        if variant.shared_bytes(self._config) > self._device.shared_memory - 1024:
            return None
        rows = variant.rows(self._config, self._width, self._height, self._device)
        windows = self._windows(variant.pixel, rows)
        with self._stream:
            for array in self._filled.values():
                array.fill(0)
        time = self._time(lambda: cuda.enqueue(
            self._device, self._stream.ptr, variant, self._config, windows))
        inside = (slice(windows.y_begin, windows.y_end), slice(windows.x_begin, windows.x_end))
        for name, found in self._found().items():
            if not np.array_equal(found[inside], self._expected[name][inside]):
                raise StereoError(f'{variant}: {name} differs from the default')
        return time

    def _found(self) -> dict[str, np.ndarray]:
        """What the last kernel has filled in."""
        with self._stream:
            return {name: cupy.asnumpy(array) for name, array in self._filled.items()}

    def _windows(self, pixel: str, rows: int) -> sad.Windows:
        addresses = {side: image.data.ptr for side, image in
                     zip(('left', 'right'), self._images[pixel], strict=True)}
        addresses |= {name: array.data.ptr for name, array in self._filled.items()}
        return sad.windows(self._config, self._width, self._height, rows, addresses)

    def _time(self, launch: Callable[[], None]) -> float:
        """Median microseconds of one launch among many in a graph."""
        launch()                    # loads the kernel
        with self._stream:
            self._stream.begin_capture()
            for _ in range(_LAUNCHES):
                launch()
            graph = self._stream.end_capture()
        times = []
        for _ in range(self._repeats + 1):
            begin, end = cupy.cuda.Event(), cupy.cuda.Event()
            begin.record(self._stream)
            graph.launch(self._stream)
            end.record(self._stream)
            end.synchronize()
            times.append(cupy.cuda.get_elapsed_time(begin, end) / _LAUNCHES * 1e3)
        return statistics.median(times[1:])
