"""What rectifying inside the engine takes, and rectifying in a step before it.

    python -m benchmarks.rectification [--size 640x480x64 1280x720x128] [--encoding mono8 bgr8]
    python -m benchmarks.rectification --hop
    python -m benchmarks.rectification --backend cuda

Prints milliseconds from the bytes of both raw images to rectified grey values:

  convert:  conversion alone, of images that are rectified already
  inside:   rectify, as the engine does it: conversion, then the grey images are remapped
  before:   both images are remapped as they come, mosaics after demosaicing to colours, as
            image_proc orders it; then they are converted
  hop:      with --hop: both rectified images once more through the middleware, as bytes from one
            publisher to one subscriber of this process, which a node of its own needs

and what the maps of a new calibration take. image_proc itself is C++ and is not run. On CUDA steps
are no programs of their own: with a --backend other than cpu ``convert`` and ``inside`` are whole
frames of `sad_fast`, from raw images in ordinary arrays to the disparity in one.
"""

from __future__ import annotations

import contextlib
import functools
import statistics
import time
from collections.abc import Callable, Mapping

import cv2
import numpy as np

from benchmarks import common
from stereo_bp_ros import (
    MatcherConfig,
    RawCamera,
    RawImage,
    Rectification,
    StereoMatcher,
    geometry,
)
from stereo_bp_ros.engines.cpu import scratch
from stereo_bp_ros.engines.cpu.stages import convert, rectify
from stereo_bp_ros.evaluation import bags
from stereo_bp_ros.rectification import SIDES

CONFIG = MatcherConfig(rectify=True)
DISTORTIONS = {'plumb_bob': (-0.3, 0.1, 0.001, -0.001, 0.0),
               'rational_polynomial': (0.3, 0.1, 0.001, -0.001, 0.01, 0.6, 0.2, 0.02),
               'equidistant': (0.02, -0.01, 0.004, -0.001)}


def main() -> None:
    """Read the command line and print the tables."""
    parser = common.parser(__doc__)
    common.add_sizes(parser, common.VGA, common.HD)
    parser.add_argument('--encoding', nargs='+', default=['mono8', 'bgr8', 'bayer_rggb8'],
                        choices=('mono8', 'bgr8', 'bayer_rggb8'), help='default: all')
    parser.add_argument('--hop', action='store_true', help='needs ROS')
    common.add_backend(parser, 'cpu')
    common.add_frames(parser, 100)
    parser.add_argument('--threads', type=int, default=cv2.getNumThreads(), metavar='N',
                        help='of OpenCV (default: all cores)')
    options = parser.parse_args()
    cv2.setNumThreads(options.threads)
    common.print_machine(CONFIG.replace(backend=options.backend))
    common.print_head('size', 'encoding', 'step', 'median ms', 'least ms')
    for size in options.size:
        for encoding in options.encoding:
            with contextlib.ExitStack() as opened:
                steps = (programs(size, encoding) if options.backend == 'cpu' else
                         frames(size, encoding, options.backend, opened))
                if options.hop:
                    steps['hop'] = hop(size, 'mono8' if encoding == 'mono8' else 'bgr8')
                _print(f'{size.width} x {size.height}', encoding,
                       common.in_turn(steps, options.frames // 5 or 1,
                                      turn=min(5, options.frames)))
    common.print_head('size', 'model', 'step', 'median ms', 'least ms')
    for size in options.size:
        for model in DISTORTIONS:
            maps = {'maps': functools.partial(_both_maps, rectification(size, model))}
            _print(f'{size.width} x {size.height}', model, common.in_turn(maps, 10))


def _print(size: str, kind: str, times: Mapping[str, list[float]]) -> None:
    for name, values in times.items():
        common.print_row(size, kind, name, f'{statistics.median(values):.2f}',
                         f'{min(values):.2f}')


def rectification(size: common.Size, model: str = 'plumb_bob') -> Rectification:
    """Of cameras that look slightly towards each other."""
    focal, cx, cy = 0.7 * size.width, size.width / 2, size.height / 2
    k = (focal, 0, cx, 0, focal, cy, 0, 0, 1)
    left, right = (
        RawCamera(model, DISTORTIONS[model], k,
                  cv2.Rodrigues(np.array((0.005, turned, 0.003)))[0].reshape(-1),
                  (focal, 0, cx, shift, 0, focal, cy, 0, 0, 0, 1, 0))
        for turned, shift in ((0.01, 0.0), (-0.01, -0.2 * focal)))
    return Rectification(left, right, size.width, size.height)


def _both_maps(found: Rectification) -> None:
    for side in SIDES:
        found.maps(side)


def raw_images(size: common.Size, encoding: str) -> list[RawImage]:
    """Noise, of both cameras."""
    channels = 3 if encoding == 'bgr8' else 1
    pixels = np.random.default_rng(0).integers(0, 256, (2, size.height, size.width, channels),
                                               np.uint8)
    return [RawImage(image.reshape(-1), size.height, size.width, size.width * channels, encoding)
            for image in pixels]


def frames(size: common.Size, encoding: str, backend: str, opened: contextlib.ExitStack
           ) -> dict[str, Callable[[], object]]:
    """Whole frames, of images that are rectified already and of raw ones."""
    left, right = raw_images(size, encoding)
    config = MatcherConfig.preset('sad_fast', disparity_range=size.disparities, backend=backend)
    rectified, raw = (opened.enter_context(StereoMatcher(config.replace(rectify=rectify)))
                      for rectify in (False, True))
    out = {'disparity': np.empty((size.height, size.width), np.float32)}
    return {'convert': functools.partial(rectified.compute, left, right, out=out),
            'inside': functools.partial(raw.compute, left, right,
                                        rectification=rectification(size), out=out)}


def programs(size: common.Size, encoding: str) -> dict[str, Callable[[], object]]:
    """The steps by their names, each for both images."""
    width, height = size.width, size.height
    raws = raw_images(size, encoding)
    found = rectification(size)
    arrays = {name: np.empty(shape, kind) for name, shape, kind in (
        *geometry.map_arrays(CONFIG, width, height), *scratch.convert(width, height),
        *scratch.rectify(CONFIG, width, height, (width, height)))}
    rectify.fill_maps(found, arrays)
    grey = np.empty((height, width), np.float32)
    colours = np.empty((height, width, 3), np.uint8)
    between = np.empty((height, width, 1 if encoding == 'mono8' else 3), np.uint8)

    def converted() -> None:
        for raw in raws:
            convert.to_grey(raw, grey, CONFIG.mono16_scale, arrays)

    def inside() -> None:
        for raw, side in zip(raws, SIDES, strict=True):
            rectify.to_grey(raw, side, grey, CONFIG.mono16_scale, arrays)

    def before() -> None:
        for raw, side in zip(raws, SIDES, strict=True):
            source = raw.pixels
            if raw.layout.bayer:
                cv2.cvtColor(source, cv2.COLOR_BayerBG2BGR, dst=colours)
                source = colours
            cv2.remap(source, arrays[f'{side}_map'], arrays[f'{side}_map_parts'],
                      cv2.INTER_LINEAR, dst=between)
            image = RawImage(between.reshape(-1), height, width, between.strides[0],
                             'mono8' if between.shape[2] == 1 else 'bgr8')
            convert.to_grey(image, grey, CONFIG.mono16_scale, arrays)

    return {'convert': converted, 'inside': inside, 'before': before}


def hop(size: common.Size, encoding: str) -> Callable[[], None]:
    """Sends both images of a size through the middleware and waits for them."""
    import rclpy
    from rclpy.qos import QoSProfile
    from sensor_msgs.msg import Image

    if not rclpy.ok():
        rclpy.init()
    node = rclpy.create_node(f'hop_{time.monotonic_ns()}')
    shape = (size.height, size.width) if encoding == 'mono8' else (size.height, size.width, 3)
    image = np.random.default_rng(1).integers(0, 256, shape, np.uint8)
    message = bytes(bags.serialize_image(0, 'left', image, encoding))
    received: list[bytes] = []
    topics = [f'{node.get_name()}/{side}/image_rect' for side in SIDES]
    publishers = [node.create_publisher(Image, topic, QoSProfile(depth=1)) for topic in topics]
    for topic in topics:
        node.create_subscription(Image, topic, received.append, QoSProfile(depth=1), raw=True)
    deadline = time.monotonic() + 30
    while not all(publisher.get_subscription_count() for publisher in publishers):
        if time.monotonic() > deadline:
            raise TimeoutError('the subscriptions of this process were not found within 30 s')
        time.sleep(0.02)

    def send() -> None:
        received.clear()
        for publisher in publishers:
            publisher.publish(message)
        while len(received) < len(publishers):
            rclpy.spin_once(node, timeout_sec=10)

    return send


if __name__ == '__main__':
    main()
