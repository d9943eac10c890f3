"""What each thing that makes the rendered street hard costs a matcher, region by region.

Rows are the street without options, with one option at a time, and with all (`RoadSequence.hard`).
Sky and occluded pixels are left out of every column but the last.

    python -m benchmarks.hard_street [--backend cuda] [--set K=V[,K=V]] [--preset NAME]
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import cv2
import numpy as np

from benchmarks import common
from stereo_bp_ros import MatcherConfig, StereoMatcher
from stereo_bp_ros.config import parse_assignments
from stereo_bp_ros.evaluation import files, metrics, peers, pictures
from stereo_bp_ros.evaluation.scenes import sequence as scenes
from stereo_bp_ros.evaluation.scenes.frames import SceneFrame

SIZE = common.Size(620, 188, 64)
STEP = 7
EDGE_PX, EDGE_JUMP, RIM_PX, THIN_PX = 5, 3.0, 16, 4

#: Options of a row, by name; their values are those of the hard street.
ROWS: dict[str, tuple[str, ...]] = {
    'without options': (),
    **{name: (name,) for name in scenes.HARD if not name.startswith('exposure')},
    'exposure': ('exposure_gain', 'exposure_offset'), 'all': tuple(scenes.HARD)}


def main() -> None:
    """Read the command line and print the table."""
    parser = common.parser(__doc__)
    common.add_backend(parser)
    common.add_sizes(parser, SIZE)
    common.add_frames(parser, 8, of=f'of every street, every {STEP}th')
    parser.add_argument('--preset', default='road', help='default: road')
    parser.add_argument('--set', default='', metavar='K=V[,K=V]', help='settings changed')
    parser.add_argument('--picture', type=pathlib.Path, metavar='FILE',
                        help='write the hardest street as a picture and measure nothing: input, '
                             'the preset, OpenCV StereoSGBM and their errors')
    options = parser.parse_args()
    changes = parse_assignments(options.set.split(',') if options.set else [])
    config = MatcherConfig.preset(options.preset, **changes).replace(backend=options.backend)
    if options.picture:
        write_picture(options.picture, config, options.size[0], options.preset)
        return
    common.print_machine(config)
    print('Per cent. Bad-3 of valid pixels (density in brackets): all, near depth edges, rim of '
          f'the image,\nfences, poles and signs, their parts of at most {THIN_PX} px; vehicles by '
          'D1; sky called valid')
    for size in options.size:
        common.print_head(f'street {size}', 'all', 'edges', 'rim', 'fences', 'poles', 'thin',
                          'vehicles', 'sky')
        with StereoMatcher(config.replace(disparity_range=size.disparities)) as matcher:
            for name, given in ROWS.items():
                drive = scenes.RoadSequence(
                    width=size.width, height=size.height, max_disparity=size.disparities - 4,
                    **{option: scenes.HARD[option] for option in given})
                common.print_row(name, *row(matcher, drive, options.frames))


def write_picture(path: pathlib.Path, config: MatcherConfig, size: common.Size, name: str
                  ) -> None:
    """Input, truth, and what the preset and OpenCV's StereoSGBM make of a frame."""
    frame = scenes.RoadSequence.hard(width=size.width, height=size.height,
                                     max_disparity=size.disparities - 4).frame(3 * STEP)
    with StereoMatcher(config.replace(disparity_range=size.disparities)) as matcher:
        own = matcher.compute(frame.left, frame.right)
    assert own.disparity is not None
    truth = np.where(frame.occluded | frame.sky, np.nan, frame.disparity)
    high = float(size.disparities)
    panels = [('left image', pictures.grey_picture(frame.left)),
              ('truth', pictures.disparity_picture(truth, high=high))]
    peer = peers.Peer('sgbm', size.disparities)
    for caption, disparity, valid in ((name, own.disparity, own.valid),
                                      ('OpenCV StereoSGBM',
                                       *peer.compute(frame.left, frame.right))):
        wrong = metrics.score(disparity, truth, valid)
        panels += [(caption, pictures.disparity_picture(disparity, valid, high=high)),
                   (f'wrong by > 3 px: {wrong.bad_estimated(3.0):.1f} % of valid; valid: '
                    f'{wrong.density:.1f} %', pictures.error_picture(disparity, truth, valid))]
    files.write_image(path, pictures.sheet(panels, 2, [
        pictures.disparity_bar(size.height, 0.0, high), pictures.error_bar(size.height)]))


def row(matcher: StereoMatcher, drive: scenes.RoadSequence, frames: int) -> list[str]:
    """Figures of a drive, as `main` heads them."""
    scores: dict[str, list[metrics.Score]] = {}
    for index in range(0, STEP * frames, STEP):
        frame = drive.frame(index)
        answer = matcher.compute(frame.left, frame.right)
        assert answer.disparity is not None
        for name, mask in regions(frame):
            # D1 of KITTI 2015 is bad-3 where 3 pixels are more than 5 % of the truth.
            far = 3.0 if name != 'vehicles' else np.maximum(3.0, 0.05 * frame.disparity)
            scaled = 3.0 / np.asarray(far, np.float32)
            scores.setdefault(name, []).append(metrics.score(
                answer.disparity * scaled, frame.disparity * scaled, answer.valid, mask=mask))
    totals = {name: metrics.combine(parts) for name, parts in scores.items()}
    sky = totals.pop('sky')
    return [*(f'{part.bad_estimated(3.0):.2f} ({part.density:.1f})' if part.known else '-'
              for part in totals.values()), f'{sky.coverage:.1f}']


def regions(frame: SceneFrame) -> Iterator[tuple[str, np.ndarray]]:
    """Masks of a frame, bool H x W, by name."""
    seen = ~frame.occluded & ~frame.sky
    yield 'all', seen
    box = np.ones((2 * EDGE_PX + 1,) * 2, np.uint8)
    jump = cv2.dilate(frame.disparity, box) - cv2.erode(frame.disparity, box) > EDGE_JUMP
    yield 'edges', seen & jump
    rim = np.ones(seen.shape, bool)
    rim[RIM_PX:-RIM_PX, RIM_PX:-RIM_PX] = False
    yield 'rim', seen & rim
    yield 'fences', seen & frame.fence
    yield 'poles', seen & frame.thin
    wide = cv2.morphologyEx(frame.thin.astype(np.uint8), cv2.MORPH_OPEN,
                            np.ones((1, THIN_PX + 1), np.uint8)) > 0
    yield 'thin', seen & frame.thin & ~wide
    yield 'vehicles', seen & frame.vehicles
    yield 'sky', frame.sky


if __name__ == '__main__':
    main()
