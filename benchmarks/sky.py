r"""How much of a sky without texture each matcher calls valid, and how much of that is far off.

Four skies: the saturated one of KITTI 2012 training frame 000000_10 (the connected region of grey
values of at least 250 in rows 0 to 119, columns 440 to 659), and those of the rendered street,
saturated, or of one grey level with two strengths of the sensor's noise. A sky has disparity 0.
OpenCV's matchers have the defaults of stereo_image_proc; "3WAY" is its fastest semi-global mode.

    python -m benchmarks.sky ../shared/data/kitti2012 [--backend cuda]
    python -m benchmarks.sky ../shared/data/kitti2012 --preset road_sobel \
        --set texture_threshold=40
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Sequence

import cv2
import numpy as np

from benchmarks import common
from stereo_bp_ros import MatcherConfig, StereoMatcher
from stereo_bp_ros.config import parse_assignments
from stereo_bp_ros.evaluation import metrics
from stereo_bp_ros.evaluation.peers import Peer
from stereo_bp_ros.evaluation.scenes import sequence as scenes

KITTI_FRAME = '000000_10'
STREET_FRAMES = (0, 25, 50, 75)
OWN = ('road', 'road_fast', 'road_sobel', 'indoor', 'sad_fast')

Match = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class Frame:
    """A pair, its disparities (H x W, pixels, NaN = unknown) and where the sky is (bool H x W)."""

    left: np.ndarray
    right: np.ndarray
    truth: np.ndarray
    sky: np.ndarray


@dataclasses.dataclass(frozen=True)
class Scene:
    """Frames that are searched for the same number of disparities."""

    name: str
    disparities: int
    frames: list[Frame]


PEERS: dict[str, Callable[[int], Match]] = {
    'OpenCV StereoBM': lambda disparities: Peer('bm', disparities).compute,
    'OpenCV StereoSGBM': lambda disparities: theirs(cv2.StereoSGBM.create(
        0, disparities, 15, 200, 400, 0, 31, 15, 100, 4)),
    'OpenCV StereoSGBM 3WAY, 5 x 5': lambda disparities: Peer('sgbm', disparities).compute}


def main() -> None:
    """Read the command line and print the table."""
    parser = common.parser(__doc__)
    common.add_data(parser)
    common.add_backend(parser)
    common.add_frames(parser, len(STREET_FRAMES), of='of a rendered street, at most')
    parser.add_argument('--preset', default='road', help='of the rows of --set; default: road')
    parser.add_argument('--set', nargs='+', default=[], metavar='KEY=VALUE[,KEY=VALUE]',
                        help='more rows of that preset, with settings changed')
    options = parser.parse_args()
    presets = {'`road` without `contrast_threshold`': preset('road', 'contrast_threshold=0')}
    presets |= {f'`{name}`': preset(name) for name in OWN}
    presets |= {f'`{options.preset}`, {changes}': preset(options.preset, *changes.split(','))
                for changes in options.set}
    streets = STREET_FRAMES[:options.frames]
    all_scenes = [kitti(options.data),
                  street('street, saturated', 'saturated', streets),
                  street('textureless, noise 0.5', 'textureless', streets, noise_sigma=0.5),
                  street('textureless, noise 1.0', 'textureless', streets)]
    common.print_machine(MatcherConfig(backend=options.backend))
    print('Per cent. Sky: valid (more than 3 px off, of all sky); frame: density (bad-3 of valid)')
    common.print_head('matcher', *(scene.name for scene in all_scenes), 'KITTI frame')
    for name in [*presets, *PEERS]:
        cells: list[str] = []
        for scene in all_scenes:
            if name in presets:
                with StereoMatcher(presets[name].replace(
                        disparity_range=scene.disparities, backend=options.backend)) as matcher:
                    sky, whole = scores(scene, ours(matcher))
            else:
                sky, whole = scores(scene, PEERS[name](scene.disparities))
            if scene is all_scenes[0]:
                frame = f'{whole.density:.1f} ({whole.bad_estimated(3.0):.2f})'
            wrong = sky.bad[sky.thresholds.index(3.0)]
            cells.append(f'{sky.coverage:.1f} ({100 * wrong / sky.pixels:.1f})')
        common.print_row(name, *cells, frame)


def kitti(path: pathlib.Path) -> Scene:
    """The frame with the saturated sky."""
    pair, = common.sets(path, [KITTI_FRAME])
    assert pair.truth is not None
    return Scene('KITTI', 128, [Frame(pair.left, pair.right, pair.truth,
                                      saturated_region(pair.left))])


def saturated_region(left: np.ndarray) -> np.ndarray:
    """The largest connected region of white pixels where that frame has its sky."""
    box = (slice(0, 120), slice(440, 660))
    white = np.zeros(left.shape, np.uint8)
    white[box] = left[box] >= 250
    _, regions, sizes, _ = cv2.connectedComponentsWithStats(white)
    return np.asarray(regions == 1 + np.argmax(sizes[1:, cv2.CC_STAT_AREA]))


def street(name: str, sky: str, indices: Sequence[int], noise_sigma: float = 1.0) -> Scene:
    """Some frames of the rendered street."""
    drive = scenes.RoadSequence(sky=sky, noise_sigma=noise_sigma)
    drawn = [drive.frame(index) for index in indices]
    return Scene(name, 64, [Frame(one.left, one.right, one.disparity, one.sky) for one in drawn])


def preset(name: str, *changes: str) -> MatcherConfig:
    """A shipped set of settings, with some of them changed."""
    return MatcherConfig.preset(name, **parse_assignments(changes))


def ours(matcher: StereoMatcher) -> Match:
    """From a pair to disparities and where they are valid."""
    def match(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        frame = matcher.compute(left, right)
        assert frame.disparity is not None
        return frame.disparity, frame.valid
    return match


def theirs(matcher: cv2.StereoMatcher) -> Match:
    """The same for a matcher of OpenCV's."""
    def match(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        disparity = matcher.compute(left, right) / np.float32(16)
        return disparity, disparity >= 0
    return match


def scores(scene: Scene, match: Match) -> tuple[metrics.Score, metrics.Score]:
    """Scores of the sky, where every disparity is 0, and of all known pixels."""
    skies, wholes = [], []
    for one in scene.frames:
        disparity, valid = match(one.left, one.right)
        skies.append(metrics.score(disparity, np.zeros_like(disparity), valid, mask=one.sky))
        wholes.append(metrics.score(disparity, one.truth, valid))
    return metrics.combine(skies), metrics.combine(wholes)


if __name__ == '__main__':
    main()
