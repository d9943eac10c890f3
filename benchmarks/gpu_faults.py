"""What becomes of frames when a GPU fails, fills up or is shared.

    python -m benchmarks.gpu_faults --output faults.json
    python -m benchmarks.gpu_faults --pieces lost memory
    python -m benchmarks.gpu_faults --backend cpu       without a GPU: 'lost', by an error

A process with the node's worker matches pairs on an NVIDIA GPU, and things happen to it:

    lost       a kernel of the process fails, before a frame and within one
    memory     another process holds the memory: at the start, a build and a rebuild
    neighbour  another process takes 95 % of the memory and computes without a pause

Every published frame is compared with the CPU engine's bits. Prints a Markdown table; --output
takes every figure. Ends with status 1 where a frame was wrong, or a process failed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.frame_loop import FrameLoop
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.errors import DeviceLostError
from stereo_bp_ros.matcher.stereo_matcher import StereoMatcher
from stereo_bp_ros.node.main import EXIT_DEVICE_LOST

#: Different pairs, frames before something happens to a worker, and frames a second.
PAIRS, BEFORE, RATE = 3, 20, 200

#: MiB that a neighbour leaves of a device: less than a process takes of it, and less than an
#: engine does; and its share of the memory where it leaves enough.
NO_CONTEXT_MIB, NO_ENGINE_MIB, SHARE = 64, 8, 0.95

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


@dataclasses.dataclass(frozen=True)
class Setting:
    """What all pieces share; seconds: that latencies of a row are taken for."""

    folder: pathlib.Path
    config: dict[str, Any]
    seconds: int

    @contextlib.contextmanager
    def child(self, role: str) -> Iterator[common.Helper]:
        """A process of this file that is ready: 'worker' or 'load'."""
        with common.Helper('benchmarks.gpu_faults', role, self.folder / 'pairs.npz',
                           log=self.folder / f'{role}.log', limit_s=60) as helper:
            helper.answer()
            yield helper


@dataclasses.dataclass
class Row:
    """What became of frames.

    again_s: from the fault to the next frame; status: of the process that it met.
    """

    piece: str
    case: str
    right: int = 0
    wrong: int = 0
    none: int = 0
    said: list[str] = dataclasses.field(default_factory=list)
    status: str = ''
    again_s: float | None = None
    ms: dict[str, float] = dataclasses.field(default_factory=dict)

    def build(self, worker: common.Helper, config: dict[str, Any], policy: str = 'exit') -> bool:
        """Build an engine; False where it is refused."""
        found = worker.ask(do='build', config=config, on_device_loss=policy)
        self.said += [text for text in found['said'] if text not in self.said]
        return bool(found['is_built'])

    def frames(self, worker: common.Helper, count: int = BEFORE, **options: Any
               ) -> dict[str, Any]:
        """Match frames and count them."""
        found = worker.ask(do='frames', count=count, **options)
        for outcome in ('right', 'wrong', 'none'):
            setattr(self, outcome, getattr(self, outcome) + found[outcome])
        self.said += [text for text in found['said'] if text not in self.said]
        return found

    def failures(self) -> list[str]:
        """Why it makes the status 1."""
        found = [f'{self.wrong} frames were published with wrong bits'] if self.wrong else []
        if self.status.startswith(('failed', 'killed', '-')):
            found.append(f'{self.status}: {" / ".join(self.said)}')
        return found

    def print(self) -> None:
        """One line of the table."""
        common.print_row(
            self.piece, self.case, self.right, self.wrong, self.none,
            '-' if self.again_s is None else f'{self.again_s:.2f}', self.status or '-',
            *common.figures(self.ms, 'p50', 'p99', 'p99.9', 'max'),
            ' / '.join(self.said).replace('|', r'\|').replace('\n', ' ') or '-')


def main() -> int:
    """Run a child, or read the command line, do it all and print the table."""
    if sys.argv[1:2] in (['worker'], ['load']):
        return serve(sys.argv[1], pathlib.Path(sys.argv[2]))
    parser = common.parser(__doc__)
    parser.add_argument('--pieces', nargs='+', choices=('lost', 'memory', 'neighbour'),
                        help='default: all that can run here')
    common.add_backend(parser, 'cuda')
    common.add_sizes(parser, common.VGA, common.Size(1280, 720, 64))
    common.add_count(parser, '--seconds', 4, 'that latencies are taken for')
    common.add_output(parser)
    options = parser.parse_args()
    if len(options.size) != 2:
        parser.error('--size takes two: of the frames, and of those that ask for a rebuild')
    wanted = options.pieces or (['lost'] if options.backend == 'cpu' else
                                ['lost', 'memory', 'neighbour'])
    # Partitions would change bits: an engine that does not fit in one piece is to be refused.
    config = {'backend': options.backend, 'disparity_range': options.size[0].disparities,
              'message_type': 'int16', 'partition_columns': 1, 'partition_rows': 1}
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix='gpu_faults_') as folder:
        given = Setting(pathlib.Path(folder), config, options.seconds)
        write_pairs(given, *options.size)
        common.print_machine(MatcherConfig(backend=options.backend))
        common.print_head('piece', 'case', 'right', 'wrong', 'none', 'frames again, s',
                          'exit status', 'p50', 'p99', 'p99.9', 'max, ms', 'said')
        for row, measure, arguments in cases():
            if row.piece not in wanted:
                continue
            try:
                measure(row, given, *arguments)
            except common.HelperError as error:
                row.said.append(str(error))
                row.status = row.status or 'failed'
            rows.append(row)
            row.print()
    common.write_report(options.output, MatcherConfig(backend=options.backend),
                        rows=[dataclasses.asdict(row) for row in rows])
    failed = [f'FAILED {row.piece}, {row.case}: {reason}' for row in rows
              for reason in row.failures()]
    print(*failed, sep='\n', end='\n' if failed else '', file=sys.stderr)
    return 1 if failed else 0


def write_pairs(given: Setting, small: common.Size, large: common.Size) -> None:
    """Pairs of two sizes with the CPU engine's disparity of each.

    That also fills the kernel cache of the CPU, as an installation does.
    """
    arrays: dict[str, Any] = {}
    config = MatcherConfig.from_mapping({**given.config, 'backend': 'cpu'})
    for size, suffix in ((small, ''), (large, '_large')):
        pairs = common.street(size._replace(disparities=small.disparities), PAIRS)
        with StereoMatcher(config) as matcher:
            found = [np.array(matcher.compute(pair.left, pair.right).disparity) for pair in pairs]
        arrays |= {f'left{suffix}': [pair.left for pair in pairs],
                   f'right{suffix}': [pair.right for pair in pairs], f'expected{suffix}': found}
    np.savez(given.folder / 'pairs.npz', **arrays)


def cases() -> Iterator[tuple[Row, Callable[..., None], tuple[Any, ...]]]:
    """Empty rows, and what fills them with which arguments."""
    for kind, within, policy in (
            ('address', False, 'exit'), ('address', False, 'cpu'), ('address', True, 'exit'),
            ('address', True, 'cpu'), ('trap', True, 'cpu')):
        yield Row('lost', f'{kind}, {"within" if within else "before"} a frame, '
                          f'on_device_loss {policy}'), lose, (kind, within, policy)
    for backend in ('cuda', 'auto'):
        yield (Row('memory', f'start with {NO_CONTEXT_MIB} MiB free, backend {backend}'),
               build_without, (backend, NO_CONTEXT_MIB))
    yield (Row('memory', f'build with {NO_ENGINE_MIB} MiB free'), build_without,
           ('cuda', NO_ENGINE_MIB))
    yield Row('memory', f'rebuild for larger images with {NO_ENGINE_MIB} MiB free'), enlarge, ()
    yield Row('neighbour', f'{SHARE:.0%} of the memory, full load'), beside, ()


def lose(row: Row, given: Setting, kind: str, within: bool, policy: str) -> None:
    """A kernel of the same process fails."""
    with given.child('worker') as worker:
        row.build(worker, given.config, policy)
        row.frames(worker)
        worker.ask(do='fault', kind=kind, within=within)
        begin = time.monotonic()
        row.again_s = row.frames(worker)['first_s']
        row.status = worker.close()
    if policy == 'exit':
        # As the launch file, which waits 2 s more.
        with given.child('worker') as worker:
            row.build(worker, given.config, policy)
            row.frames(worker, until_right=True)
            row.again_s = time.monotonic() - begin
            row.frames(worker)


def build_without(row: Row, given: Setting, backend: str, leave_mib: int) -> None:
    """Another process holds the memory and gives it back: does the same process find it?"""
    config = {**given.config, 'backend': backend}
    with given.child('load') as load, given.child('worker') as worker:
        if leave_mib < NO_CONTEXT_MIB:
            worker.ask(do='context')
        load.ask(do='hold', leave_mib=leave_mib)
        if row.build(worker, config):
            row.frames(worker)
        load.ask(do='let_go')
        begin = time.monotonic()
        if row.build(worker, config):
            row.frames(worker, until_right=True)
            row.again_s = time.monotonic() - begin
            row.frames(worker)
        row.status = worker.close()


def enlarge(row: Row, given: Setting) -> None:
    """The images become larger while another process holds the memory."""
    with given.child('load') as load, given.child('worker') as worker:
        row.build(worker, given.config)
        row.frames(worker)
        load.ask(do='hold', leave_mib=NO_ENGINE_MIB)
        worker.ask(do='enlarge')
        row.frames(worker, 40, period=0.05)
        load.ask(do='let_go')
        row.again_s = row.frames(worker, 400, period=0.05, until_right=True)['first_s']
        row.frames(worker)
        row.status = worker.close()


def beside(row: Row, given: Setting) -> None:
    """Another process takes nearly all memory, and computes without a pause."""
    with given.child('load') as load, given.child('worker') as worker:
        load.ask(do='hold', share=SHARE)
        load.ask(do='busy')
        row.build(worker, given.config)
        row.ms = common.percentiles(
            row.frames(worker, RATE * given.seconds, period=1 / RATE)['ms'])
        row.status = worker.close()


def serve(role: str, path: pathlib.Path) -> int:
    """Answer questions on standard input until it ends; returns the exit status."""
    made = Worker(path) if role == 'worker' else Load()
    print(json.dumps({'ready': True}), flush=True)
    for line in sys.stdin:
        question = json.loads(line)
        print(json.dumps(getattr(made, question.pop('do'))(**question) or {}), flush=True)
        if isinstance(made, Worker) and made.loop and made.loop.fatal:
            made.close()
            return EXIT_DEVICE_LOST
    made.close()
    return 0


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
    """The node's worker over the pairs of a file that ``write_pairs`` has written."""

    def __init__(self, path: pathlib.Path) -> None:
        self._data = np.load(path)
        self.loop: FrameLoop | None = None

    def context(self) -> None:
        """Take what a process takes of a device before its engine."""
        import cupy
        cupy.cuda.runtime.memGetInfo()

    def build(self, config: dict[str, Any], on_device_loss: str) -> dict[str, Any]:
        """Build an engine, or say what the node would say on its way out."""
        try:
            loop = FrameLoop(*self._pairs(''), factory=Faulting, on_device_loss=on_device_loss)
            loop.build(MatcherConfig.from_mapping(config))
        except Exception as error:
            return {'is_built': False, 'said': [f'{type(error).__name__}: {error}']}
        self.loop, matcher = loop, loop.host.matcher
        assert matcher is not None
        return {'is_built': True, 'said': [f'{matcher.backend}: {matcher.backend_reason}']}

    def enlarge(self) -> None:
        """Have the next images be the large ones, as after a change of the camera."""
        assert self.loop is not None
        self.loop = FrameLoop(*self._pairs('_large'), host=self.loop.host)

    def frames(self, count: int, period: float = 0.0, until_right: bool = False
               ) -> dict[str, Any]:
        """As ``FrameLoop.frames``, and what the node would have logged."""
        assert self.loop is not None
        found = self.loop.frames(count, period,
                                 until=lambda outcome: until_right and outcome == 'right')
        return {**found, 'said': [*self.loop.said, *self.loop.fatal]}

    def fault(self, kind: str, within: bool) -> None:
        """Lose the device at the next frame: before it, or while it is computed.

        In place of a GPU the CPU's matcher says that it is lost.
        """
        assert self.loop is not None
        assert self.loop.host.matcher is not None
        if self.loop.host.matcher.backend == 'cpu':
            def launch() -> None:
                raise DeviceLostError('a stand-in for a device was lost')
        else:
            import cupy
            kernel, stream = cupy.RawKernel(FAULT, 'fault'), cupy.cuda.Stream(non_blocking=True)
            kernel.compile()

            def launch() -> None:
                with stream:
                    kernel((1,), (1,), (np.int64(WITHIN if within else 0),
                                        np.uint64(16 if kind == 'address' else 0)))
        Faulting.before = launch

    def close(self) -> None:
        """Give everything back, as the node does at its end."""
        if self.loop is not None:
            self.loop.host.release()

    def _pairs(self, suffix: str) -> list[list[np.ndarray]]:
        return [list(self._data[name + suffix]) for name in ('left', 'right', 'expected')]


class Load:
    """A process that holds memory of the device, and computes on it as fast as it can."""

    def __init__(self) -> None:
        import cupy
        self._runtime = cupy.cuda.runtime
        self._kernel = cupy.RawKernel(LOAD, 'busy')
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._values = self._runtime.malloc(4 * LOAD_VALUES)
        self._held: list[int] = []
        self._ended = threading.Event()

    def hold(self, leave_mib: int = 0, share: float = 0.0) -> None:
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

    def let_go(self) -> None:
        """Give the memory back."""
        while self._held:
            self._runtime.free(self._held.pop())

    def busy(self) -> None:
        """Compute until the process ends."""
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        self._runtime.memsetAsync(self._values, 0, 4 * LOAD_VALUES, self._stream.ptr)
        arguments = np.uint64(self._values), np.uint64(LOAD_VALUES), np.int32(8)
        while not self._ended.is_set():
            with self._stream:
                for _ in range(4):
                    self._kernel((LOAD_BLOCKS,), (LOAD_THREADS,), arguments)
            self._stream.synchronize()

    def close(self) -> None:
        """Stop."""
        self._ended.set()


if __name__ == '__main__':
    sys.exit(main())
