"""Errors of presets on a rendered street with noise, and in the dark with the same noise.

    python -m benchmarks.noise
    python -m benchmarks.noise road road_full --size 1242x375x128 --frames 4

Both images are multiplied by the brightness, then noise of their own is added. Per cent of the
pixels that both cameras see, means over the frames: bad-3 of the estimated pixels, their density,
and bad-3 with ``filling=plane``. Presets without it have a dash.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from benchmarks import common
from stereo_bp_ros import MatcherConfig, StereoMatcher
from stereo_bp_ros.cli.render import workers_for
from stereo_bp_ros.evaluation.metrics import score
from stereo_bp_ros.sources.scenes import sequence as scenes
from stereo_bp_ros.sources.scenes.renderer import SceneFrame

#: Brightness, and standard deviation of the noise in grey levels.
CONDITIONS = ((1.0, 0.0), (1.0, 16.0), (0.05, 16.0), (0.05, 1.5))


def seen(frame: SceneFrame, brightness: float, sigma: float, number: int) -> list[np.ndarray]:
    """Left and right image under a condition, uint8 H x W; the same ones every time."""
    random = np.random.default_rng([1, number])
    return [np.clip(np.rint(brightness * image + sigma * random.standard_normal(image.shape)),
                    0, 255).astype(np.uint8) for image in (frame.left, frame.right)]


def errors(config: MatcherConfig, frames: Sequence[SceneFrame], brightness: float, sigma: float
           ) -> tuple[float, float]:
    """Bad-3 of estimated pixels and density, per cent, means over the frames."""
    found = []
    with StereoMatcher(config) as matcher:
        for number, frame in enumerate(frames):
            result = matcher.compute(*seen(frame, brightness, sigma, number))
            assert result.disparity is not None
            one = score(result.disparity, frame.disparity, result.valid, mask=~frame.occluded)
            found.append((one.bad_estimated(3.0), one.density))
    bad, density = np.mean(found, axis=0)
    return float(bad), float(density)


def main() -> None:
    """Read the command line and print the table."""
    parser = common.parser(__doc__)
    parser.add_argument('preset', nargs='*', default=['road', 'road_full', 'road_fast', 'indoor'])
    common.add_sizes(parser, common.VGA)
    common.add_count(parser, '--frames', 4, 'of the street')
    common.add_backend(parser, 'cpu')
    print_tables(parser.parse_args())


def print_tables(options: argparse.Namespace) -> None:
    """A table of all sizes."""
    common.print_machine()
    common.print_head('size', 'brightness', 'noise', 'preset', 'bad-3, est', 'density',
                      'bad-3 filled')
    for size in options.size:
        frames = list(scenes.render(scenes.RoadSequence(
            width=size.width, height=size.height, max_disparity=size.disparities - 2,
            frames=options.frames), workers_for(options.frames)))
        for brightness, sigma in CONDITIONS:
            for name in options.preset:
                config = MatcherConfig.preset(name, backend=options.backend,
                                              disparity_range=size.disparities)
                bad, density = errors(config, frames, brightness, sigma)
                filled = ''
                if config.stereo_algorithm == 'bp':
                    bad_filled, _ = errors(config.replace(filling='plane'), frames, brightness,
                                           sigma)
                    filled = f'{bad_filled:.2f}'
                common.print_row(size, brightness, sigma, name, f'{bad:.2f}', f'{density:.2f}',
                                 filled or '-')


if __name__ == '__main__':
    main()
