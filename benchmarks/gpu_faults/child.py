"""Processes of the benchmark, led line by line: JSON in, JSON out.

    python -m benchmarks.gpu_faults.child worker PAIRS.npz   the node's worker, without ROS
    python -m benchmarks.gpu_faults.child load               a neighbour on the same device
    python -m benchmarks.gpu_faults.child node FRAME ...     the node, whose device is lost then
"""

from __future__ import annotations

import json
import pathlib
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.frame_loop import FrameLoop
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.errors import DeviceLostError
from stereo_bp_ros.matcher import StereoMatcher
from stereo_bp_ros.node.main import EXIT_DEVICE_LOST

#: Clock cycles after which the kernel fails that is to fail within a frame: about 0.3 ms.
WITHIN = 500_000

FAULT = r"""
extern "C" __global__ void fault(long long cycles, unsigned long long address) {
    const long long begin = clock64();
    while (clock64() - begin < cycles) { }
    if (address) *reinterpret_cast<volatile int *>(address) = 1;
    else asm volatile("trap;");
}"""

LOAD = r"""
extern "C" __global__ void busy(float *values, unsigned long long count, int rounds) {
    const unsigned long long first = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (int round = 0; round < rounds; ++round)
        for (unsigned long long i = first; i < count; i += step) {
            float value = values[i];
            for (int k = 0; k < 64; ++k) value = value * 0.999f + 0.5f;
            values[i] = value;
        }
}"""

#: Values that each kernel of the load works on, and threads that do.
LOAD_VALUES, LOAD_BLOCKS, LOAD_THREADS = 1 << 26, 132 * 8, 256

#: Below every priority that CUDA has: it takes the nearest. Lower numbers come first.
HIGHEST_PRIORITY = -100


def main() -> int:
    """Run one role until standard input ends; returns the exit status."""
    role, *arguments = sys.argv[1:]
    if role == 'node':
        return node(int(arguments[0]), arguments[1:])
    made = Worker(pathlib.Path(arguments[0])) if role == 'worker' else Load()
    answer({'ready': True})
    for line in sys.stdin:
        question = json.loads(line)
        answer(getattr(made, f'do_{question.pop("do")}')(**question))
        if isinstance(made, Worker) and made.is_lost:
            made.close()
            return EXIT_DEVICE_LOST
    made.close()
    return 0


def answer(content: dict[str, Any]) -> None:
    """One line to whoever leads."""
    print(json.dumps(content), flush=True)


class Fault:
    """Loses the device of this process.

    kind: 'address' or 'trap', what the kernel does; delay: cycles before it does.
    """

    def __init__(self, backend: str, kind: str, delay: int) -> None:
        self._is_real = backend == 'cuda'
        if self._is_real:
            import cupy
            self._kernel = cupy.RawKernel(FAULT, 'fault')
            self._kernel.compile()
            self._stream = cupy.cuda.Stream(non_blocking=True)
            self._arguments = np.int64(delay), np.uint64(16 if kind == 'address' else 0)

    def __call__(self) -> None:
        """Launch it; in place of a GPU the CPU's matcher says that it is lost."""
        if not self._is_real:
            raise DeviceLostError('a stand-in for a device was lost')
        with self._stream:
            self._kernel((1,), (1,), self._arguments)


class Faulting(StereoMatcher):
    """A matcher before whose next frame something may happen."""

    before: Callable[[], None] | None = None

    def compute(self, *arguments: Any, **options: Any) -> Any:
        """As ``StereoMatcher.compute``."""
        happens, Faulting.before = Faulting.before, None
        if happens is not None:
            happens()
        return super().compute(*arguments, **options)


class Worker:
    """Any number of engines over the pairs of a file.

    :param path: .npz with left and right, uint8 N x H x W, and expected, float32 N x H x W; a
        second set of another size may be there under names that end in _large.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self._data = np.load(path)
        self._loops: list[FrameLoop] = []
        self._load: threading.Event | None = None
        self._config = MatcherConfig()

    @property
    def is_lost(self) -> bool:
        """Whether the node would end with the status of a lost device."""
        return any(loop.fatal for loop in self._loops)

    def do_context(self) -> dict[str, Any]:
        """Take what a process takes of a device before its engine."""
        import cupy
        free, total = cupy.cuda.runtime.memGetInfo()
        return {'free_mib': free >> 20, 'total_mib': total >> 20}

    def do_priority(self) -> dict[str, Any]:
        """Have engines that are built from now on use streams of the highest priority."""
        import cupy
        plain = cupy.cuda.Stream

        class First(plain):     # type: ignore[misc, valid-type]
            def __init__(self, *arguments: Any, **options: Any) -> None:
                super().__init__(*arguments, **options, priority=HIGHEST_PRIORITY)

        cupy.cuda.Stream = First
        stream = First()                # CUDA's goes with it
        return {'priority': int(cupy.cuda.runtime.streamGetPriority(stream.ptr))}

    def do_build(self, config: dict[str, Any], count: int = 1, on_device_loss: str = 'exit',
                 large: bool = False) -> dict[str, Any]:
        """Build engines; an answer with ``refused`` is what the node would say on its way out."""
        suffix = '_large' if large else ''
        begin = time.perf_counter()
        try:
            self._config = MatcherConfig.from_mapping(config)
            found = []
            for number in range(count):
                left, right, expected = (
                    np.roll(self._data[f'{name}{suffix}'], number, axis=0)
                    for name in ('left', 'right', 'expected'))
                found.append(FrameLoop(left, right, expected, factory=Faulting,
                                       on_device_loss=on_device_loss))
                found[-1].build(self._config)
        except Exception as error:
            return {'refused': f'{type(error).__name__}: {error}'}
        self._loops = found
        matcher = found[0].host.matcher
        assert matcher is not None
        return {'seconds': time.perf_counter() - begin, 'backend': matcher.backend,
                'reason': matcher.backend_reason}

    def do_enlarge(self) -> dict[str, Any]:
        """Have the next images be the large ones, as after a change of the camera."""
        left, right, expected = (self._data[f'{name}_large']
                                 for name in ('left', 'right', 'expected'))
        self._loops = [FrameLoop(left, right, expected, host=self._loops[0].host)]
        return {}

    def do_frames(self, count: int, period: float = 0.0, until_right: bool = False
                  ) -> dict[str, Any]:
        """Frames of every engine, side by side; the figures of all together."""
        found: list[dict[str, Any]] = [{} for _ in self._loops]

        def run(number: int) -> None:
            found[number] = self._loops[number].frames(
                count, period, until=lambda outcome: until_right and outcome == 'right')

        threads = [threading.Thread(target=run, args=(number,))
                   for number in range(len(self._loops))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        matcher = self._loops[0].host.matcher
        return {**{key: sum(each[key] for each in found) for key in ('right', 'wrong', 'none')},
                'ms': [value for each in found for value in each['ms']],
                'first_s': found[0]['first_s'],
                'said': [text for loop in self._loops for text in loop.said],
                'fatal': [text for loop in self._loops for text in loop.fatal],
                'backend': matcher.backend if matcher else ''}

    def do_fault(self, kind: str, within: bool) -> dict[str, Any]:
        """Lose the device at the next frame: before it, or while it is computed."""
        assert self._loops[0].host.matcher is not None
        fault = Fault(self._loops[0].host.matcher.backend, kind, WITHIN if within else 0)
        Faulting.before = fault
        return {}

    def do_load(self, on: bool) -> dict[str, Any]:
        """Keep another stream of this process busy, or stop that."""
        if self._load is not None:
            self._load.set()
            self._load = None
        if on:
            self._load = ended = threading.Event()
            threading.Thread(target=lambda: Load().run(ended), daemon=True).start()
        return {}

    def close(self) -> None:
        """Give everything back, as the node does at its end."""
        self.do_load(on=False)
        for loop in self._loops:
            loop.host.release()


class Load:
    """A process that holds memory of the device, and computes on it as fast as it can."""

    def __init__(self) -> None:
        import cupy
        self._runtime = cupy.cuda.runtime
        self._kernel = cupy.RawKernel(LOAD, 'busy')
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._held: list[int] = []
        self._ended: threading.Event | None = None

    def do_hold(self, leave_mib: int = 0, share: float = 0.0) -> dict[str, Any]:
        """Take all memory but ``leave_mib``, or ``share`` of all there is where it is free."""
        free, total = self._runtime.memGetInfo()
        wanted = min(free - (leave_mib << 20), int(share * total) if share else free)
        piece = 1 << 30
        while wanted > 0 and piece >= 1 << 20:
            try:
                self._held.append(self._runtime.malloc(min(piece, wanted)))
                wanted -= min(piece, wanted)
            except self._runtime.CUDARuntimeError:
                piece >>= 1
        free, total = self._runtime.memGetInfo()
        return {'free_mib': free >> 20, 'total_mib': total >> 20}

    def do_let_go(self) -> dict[str, Any]:
        """Give the memory back."""
        while self._held:
            self._runtime.free(self._held.pop())
        return {}

    def do_busy(self, on: bool) -> dict[str, Any]:
        """Compute, or stop that."""
        if self._ended is not None:
            self._ended.set()
            self._ended = None
        if on:
            self._ended = ended = threading.Event()
            threading.Thread(target=self.run, args=(ended,), daemon=True).start()
        return {}

    def run(self, ended: threading.Event) -> None:
        """Kernels without a gap until the event is set."""
        address = self._runtime.malloc(4 * LOAD_VALUES)
        self._runtime.memset(address, 0, 4 * LOAD_VALUES)
        arguments = np.uint64(address), np.uint64(LOAD_VALUES), np.int32(8)
        import cupy
        while not ended.is_set():
            with self._stream:
                for _ in range(4):
                    self._kernel((LOAD_BLOCKS,), (LOAD_THREADS,), arguments)
                done = cupy.cuda.Event()
                done.record(self._stream)
            done.synchronize()
        self._runtime.free(address)

    def close(self) -> None:
        """Give everything back."""
        self.do_busy(on=False)
        self.do_let_go()


def node(frame: int, arguments: list[str]) -> int:
    """The node as it is, but that its device is lost before a frame; 0 = never."""
    from stereo_bp_ros.node import main as node_main

    class Counting(Faulting):
        count = 0

        def compute(self, *given: Any, **options: Any) -> Any:
            Counting.count += 1
            if Counting.count == frame:
                Faulting.before = Fault(self.backend, 'address', WITHIN)
            return super().compute(*given, **options)

    return node_main.main(arguments, matcher_factory=Counting)


if __name__ == '__main__':
    sys.exit(main())
