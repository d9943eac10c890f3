"""What it would gain to have two frames in flight: one engine, then two that take turns.

    python benchmarks/overlap.py [--size 640x480x64 1280x720x128] [--preset '' road] [--frames 400]

Two engines of their own streams and memory, each led by a thread, overlap upload, computing and
download of successive frames as far as the device allows. Prints frames a second, and the median
and 99th percentile of a frame's time from its images in ordinary memory to its disparity there.
"""

from __future__ import annotations

import argparse
import threading
import time

import numpy as np

from stereo_bp_ros import MatcherConfig, RawImage
from stereo_bp_ros.config import load_preset
from stereo_bp_ros.engines.cuda import device
from stereo_bp_ros.engines.cuda import engine as cuda


def main() -> None:
    """Read the command line and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--size', nargs='+', default=['640x480x64', '1280x720x128'])
    parser.add_argument('--preset', nargs='+', default=['', 'road'])
    parser.add_argument('--frames', type=int, default=400, help='of each engine')
    arguments = parser.parse_args()
    print(device.describe(0))
    print('| size, preset | in flight | frames/s | median ms | 99th percentile ms |')
    print('| --- | --- | --- | --- | --- |')
    for size in arguments.size:
        width, height, disparities = (int(part) for part in size.split('x'))
        for preset in arguments.preset:
            config = MatcherConfig(**{**(load_preset(preset) if preset else {}),
                                      'disparity_range': disparities})
            engines = [cuda.CudaEngine(config, width, height) for _ in range(2)]
            for in_flight in (1, 2, 1, 2):
                rate, times = play(engines[:in_flight], arguments.frames)
                print(f'| {size} {preset} | {in_flight} | {rate:.0f} | '
                      f'{np.median(times):.3f} | {np.percentile(times, 99):.3f} |', flush=True)
            for engine in engines:
                engine.close()


def play(engines: list[cuda.CudaEngine], frames: int) -> tuple[float, list[float]]:
    """Frames a second of all engines together, and every frame's milliseconds."""
    width, height = engines[0].width, engines[0].height
    left = np.random.default_rng(0).integers(0, 256, (height, width), dtype=np.uint8)
    pair = [RawImage.from_array(image) for image in (left, np.roll(left, -7, axis=1))]
    times: list[float] = []
    ready = threading.Barrier(len(engines) + 1)

    def lead(engine: cuda.CudaEngine) -> None:
        out = {'disparity': np.empty((height, width), np.float32)}
        for _ in range(20):
            engine.compute(*pair, None, out)
        ready.wait()
        for _ in range(frames):
            start = time.perf_counter()
            engine.compute(*pair, None, out)
            times.append((time.perf_counter() - start) * 1e3)

    threads = [threading.Thread(target=lead, args=(engine,)) for engine in engines]
    for thread in threads:
        thread.start()
    ready.wait()
    start = time.perf_counter()
    for thread in threads:
        thread.join()
    return len(times) / (time.perf_counter() - start), times


if __name__ == '__main__':
    main()
