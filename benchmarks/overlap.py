"""What it would gain to have two frames in flight: one matcher, then two that take turns.

    python -m benchmarks.overlap [--size 640x480x64 1280x720x128] [--preset '' road]

Two matchers with streams and memory of their own, each led by a thread, overlap upload, computing
and download of successive frames as far as the device allows. Prints frames a second, and the
median and 99th percentile of a frame's time from its images in ordinary memory to its disparity
there.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Callable

import numpy as np

from benchmarks import common
from stereo_bp_ros import MatcherConfig, RawImage, StereoMatcher
from stereo_bp_ros.evaluation.timing import Pair, percentile


def main() -> None:
    """Read the command line and print the table."""
    parser = common.parser(__doc__)
    common.add_sizes(parser, common.VGA, common.HD)
    parser.add_argument('--preset', nargs='+', default=['', 'road'],
                        help="default: '' (the defaults of the settings) and road")
    common.add_backend(parser, 'cuda')
    common.add_frames(parser, 400, of='of each matcher')
    options = parser.parse_args()
    common.print_machine(MatcherConfig(backend=options.backend))
    common.print_head('size, preset', 'in flight', 'frames/s', 'median ms', '99th percentile ms')
    for size in options.size:
        pair = common.noise(size)
        for preset in options.preset:
            changes = {'disparity_range': size.disparities, 'backend': options.backend}
            config = (MatcherConfig.preset(preset, **changes) if preset
                      else MatcherConfig.from_mapping(changes))
            with contextlib.ExitStack() as opened:
                matchers = [opened.enter_context(StereoMatcher(config)) for _ in range(2)]
                for in_flight in (1, 2, 1, 2):
                    rate, times = play(matchers[:in_flight], pair, options.frames)
                    common.print_row(f'{size} {preset}', in_flight, f'{rate:.0f}',
                                     *(f'{percentile(times, part):.3f}' for part in (50, 99)))


def play(matchers: list[StereoMatcher], pair: Pair, frames: int) -> tuple[float, list[float]]:
    """Frames a second of all matchers together, and every frame's milliseconds."""
    images = RawImage.from_array(pair.left), RawImage.from_array(pair.right)
    times: list[float] = []
    ready = threading.Barrier(len(matchers) + 1)

    def lead(match: Callable[[], object]) -> None:
        ready.wait()
        for _ in range(frames):
            times.append(common.milliseconds(match))

    programs = [functools.partial(matcher.compute, *images, out={
        'disparity': np.empty(pair.left.shape, np.float32)}) for matcher in matchers]
    for match in programs:
        for _ in range(20):
            match()
    threads = [threading.Thread(target=lead, args=(match,)) for match in programs]
    for thread in threads:
        thread.start()
    ready.wait()
    start = time.perf_counter()
    for thread in threads:
        thread.join()
    return len(times) / (time.perf_counter() - start), times


if __name__ == '__main__':
    main()
