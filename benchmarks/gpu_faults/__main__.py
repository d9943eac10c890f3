"""What becomes of frames when a GPU fails, fills up or is shared.

    python -m benchmarks.gpu_faults --output faults.json
    python -m benchmarks.gpu_faults --pieces lost memory
    python -m benchmarks.gpu_faults --backend cpu           without a GPU: what can be rehearsed

Processes with the node's worker match pairs on an NVIDIA GPU, and things happen to them:

    lost       a kernel of the process fails, before a frame and within one
    memory     another process holds the memory: at the start, a build and a rebuild
    neighbour  another process takes 95 % of the memory and computes without a pause
    driver     no device is visible; the driver's library cannot be loaded
    devices    CUDA_VISIBLE_DEVICES names devices that are not there
    many       two processes with four engines each
    priority   latency beside a load, with and without the highest priority of CUDA's streams
    node       the node itself loses its device and is started again (needs rclpy)

Every published frame is compared with the CPU engine's bits; those of 'node' are only counted.
Prints a Markdown table; --output takes every figure. Ends with status 1 where a frame was wrong,
or a process failed.
With --backend cpu the pieces run that need no GPU, and 'lost' with an error in place of a fault.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import pathlib
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from benchmarks import common
from benchmarks.gpu_faults import pieces, processes
from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.config import MatcherConfig


def main() -> int:
    """Read the command line, do it all, print the table."""
    known = {**pieces.PIECES, 'node': _node}
    parser = common.parser(__doc__)
    parser.add_argument('--pieces', nargs='+', choices=tuple(known), metavar='NAME',
                        help='default: all that can run here')
    common.add_backend(parser, 'cuda')
    common.add_sizes(parser, common.VGA, common.Size(1280, 720, 64))
    parser.add_argument('--seconds', type=shared.whole(1), default=4, metavar='N',
                        help='that latencies are taken for, of every row (default 4)')
    parser.add_argument('--rate', type=shared.whole(1), default=200, metavar='HZ',
                        help='frames a second meanwhile, at most (default 200)')
    common.add_output(parser)
    options = parser.parse_args()
    if len(options.size) != 2:
        parser.error('--size takes two: of the frames, and of those that ask for a rebuild')
    wanted = options.pieces or [name for name in known if can_run(name, options.backend)]
    begin = time.monotonic()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix='gpu_faults_') as folder:
        pairs = pathlib.Path(folder) / 'pairs.npz'
        processes.write_pairs(pairs, *options.size)
        seconds = {'pairs': time.monotonic() - begin}
        given = pieces.Setting(pairs, options.backend, options.size[0].disparities,
                               options.seconds, options.rate)
        common.print_machine(MatcherConfig(backend=options.backend))
        common.print_head('piece', 'case', 'right', 'wrong', 'none', 'frames again, s',
                          'exit status', 'p50', 'p99', 'p99.9', 'max, ms', 'said')
        for name in wanted:
            start = time.monotonic()
            for row in known[name](given):
                rows.append(dataclasses.asdict(row))
                print_row(row)
            seconds[name] = time.monotonic() - start
    print()
    print(', '.join(f'{name} {taken:.0f} s' for name, taken in seconds.items()))
    common.write_report(options.output, MatcherConfig(backend=options.backend), rows=rows,
                        seconds=seconds)
    failed = [f'FAILED {row["piece"]}, {row["case"]}: {reason}' for row in rows
              for reason in failures(row)]
    print(*failed, sep='\n', end='\n' if failed else '', file=sys.stderr)
    return 1 if failed else 0


def _node(given: pieces.Setting) -> Iterator[pieces.Row]:
    # It needs rosbags, which the other pieces do without.
    from benchmarks.gpu_faults.node import node
    return node(given)


def can_run(name: str, backend: str) -> bool:
    """Whether a piece has what it needs here."""
    if name == 'node':
        return importlib.util.find_spec('rclpy') is not None
    return backend != 'cpu' or name not in pieces.OF_A_GPU


def failures(row: dict[str, Any]) -> list[str]:
    """Why a row makes the status 1."""
    found = []
    if row['wrong']:
        found.append(f'{row["wrong"]} frames were published with wrong bits')
    if row['status'].startswith(('failed', 'killed', '-')):
        found.append(f'{row["status"]}: {row["said"]}')
    return found


def print_row(row: pieces.Row) -> None:
    """One line of the table."""
    times = row.ms or {}
    common.print_row(
        row.piece, row.case, row.right, row.wrong, row.none,
        '-' if row.again_s is None else f'{row.again_s:.2f}', row.status or '-',
        *(f'{times[key]:.2f}' if key in times else '-' for key in ('p50', 'p99', 'p99.9', 'max')),
        row.said.replace('|', r'\|').replace('\n', ' ') or '-')


if __name__ == '__main__':
    sys.exit(main())
