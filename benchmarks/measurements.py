"""Whether the node's measurements delay frames: times of frames with and without them, in turn.

A matcher computes frames of the hard street at a camera's rate. In another thread the vertical
offset of the same images and the state of the GPU are measured once a second, as in the node.

    python -m benchmarks.measurements [--backend cuda] [--presets NAME ...] [--seconds N]
"""

from __future__ import annotations

import threading
import time

from benchmarks import common
from stereo_bp_ros import MatcherConfig, RawImage, StereoMatcher, engines
from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.evaluation.scenes.sequence import RoadSequence
from stereo_bp_ros.node.diagnostics.conditions import Conditions
from stereo_bp_ros.node.diagnostics.gpu import GpuMonitor
from stereo_bp_ros.node.diagnostics.offset_monitor import OffsetMonitor

LIMIT_PX, PERIOD_S = 0.75, 1.0


def main() -> None:
    """Read the command line and print the table."""
    parser = common.parser(__doc__)
    common.add_backend(parser)
    common.add_sizes(parser, common.HD)
    parser.add_argument('--presets', nargs='+', default=['road', 'sad_fast'], metavar='NAME')
    parser.add_argument('--seconds', type=shared.whole(1), default=12, metavar='N',
                        help='of every row (default 12)')
    parser.add_argument('--rate', type=shared.whole(1), default=100, metavar='HZ',
                        help='frames a second, at most (default 100)')
    common.add_frames(parser, 2, '--turns', of='rows of either kind')
    options = parser.parse_args()
    common.print_machine(MatcherConfig(backend=options.backend))
    common.print_head('frames', 'measured', 'number', 'p50', 'p95', 'p99', 'max', 'estimate, ms')
    for size in options.size:
        frame = RoadSequence.hard(width=size.width, height=size.height,
                                  max_disparity=size.disparities - 4).frame(20)
        pair = RawImage.from_array(frame.left), RawImage.from_array(frame.right)
        for preset in options.presets:
            config = MatcherConfig.preset(preset, backend=options.backend,
                                          disparity_range=size.disparities)
            with StereoMatcher(config) as matcher:
                matcher.compute(*pair)
                for row in range(2 * options.turns):
                    print_row(f'{preset} {size}', matcher, pair, is_measured=bool(row % 2),
                              seconds=options.seconds, period=1 / options.rate)


def print_row(name: str, matcher: StereoMatcher, pair: tuple[RawImage, RawImage], *,
              is_measured: bool, seconds: int, period: float) -> None:
    """Times of frames, with the measurements beside them or without."""
    conditions = Conditions(lambda level, text: None)
    offsets, gpu = OffsetMonitor(conditions), GpuMonitor(conditions)
    device = engines.choose(matcher.config).describe(matcher.config)
    ended = threading.Event()
    estimates: list[float] = []

    def measure() -> None:
        while not ended.wait(PERIOD_S):
            offsets.offer(*pair, matcher.config)
            estimates.append(common.milliseconds(lambda: offsets.measure(LIMIT_PX)))
            gpu.read(device)

    thread = threading.Thread(target=measure)
    if is_measured:
        thread.start()
    times = []
    begin = time.perf_counter()
    while (now := time.perf_counter()) < begin + seconds:
        times.append(common.milliseconds(lambda: matcher.compute(*pair)))
        time.sleep(max(0.0, now + period - time.perf_counter()))
    ended.set()
    if is_measured:
        thread.join()
    found, own = common.percentiles(times), common.percentiles(estimates)
    assert found is not None
    common.print_row(name, 'yes' if is_measured else 'no', len(times),
                     *(f'{found[key]:.2f}' for key in ('p50', 'p95', 'p99', 'max')),
                     f'{own["p50"]:.0f}' if own else '-')


if __name__ == '__main__':
    main()
