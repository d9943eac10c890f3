"""What is said of a pair that was matched and of its result; pairs that look sound one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stereo_bp_ros.cameras.rectification import Rectification
from stereo_bp_ros.checks.frame_checks import LOOKS
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.frame.disparity_frame import DisparityFrame
from stereo_bp_ros.images.raw_images import RawImage
from stereo_bp_ros.issues import IssueCode
from stereo_bp_ros.node.diagnostics.issue_log import IssueLog
from stereo_bp_ros.node.diagnostics.ledger import PairDrop
from stereo_bp_ros.node.diagnostics.rows import measure
from stereo_bp_ros.stream.observer import EXCHANGED_PAIRS, Pair, PairObserver
from test.node.stand_ins import NOW, SECOND, Bench, make_image, make_stamped
from test.raw_cameras import camera_info, scene
from test.slanted_plane import SlantedPlane


def test_images_that_cannot_match_are_a_warning_with_a_reason() -> None:
    random = np.random.default_rng(0).integers(0, 256, (24, 32), np.uint8)
    for left, text in ((random, 'identical'), (random // 64, 'is black'),
                       (250 + random // 64, 'is saturated')):
        bench = Bench()
        bench.process(left=make_image(NOW, left), right=make_image(NOW, random))
        assert text in bench.texts('quality')
        assert bench.outcome() == {'published': 1}
    bench = Bench(config=MatcherConfig(disparity_range=64))
    bench.process()
    assert 'too narrow for disparity_range' in bench.texts('quality')


def change_frames(bench: Bench, change: Callable[[np.ndarray, DisparityFrame], None]) -> None:
    """Let ``change`` write into the disparities of every frame that is computed from now on."""
    compute = bench.matcher.compute

    def changed(*args: Any, **options: Any) -> DisparityFrame:
        frame: DisparityFrame = compute(*args, **options)
        assert frame.disparity is not None
        change(frame.disparity, frame)
        return frame

    bench.matcher.compute = changed


def look_at(bench: Bench, first: int, **images: np.ndarray) -> str:
    """The texts after as many looks as it takes, and after one more."""
    texts = []
    for k in range(LOOKS + 1):
        bench.now = NOW + (first + k) * SECOND
        bench.process(bench.now, **{
            side: make_image(bench.now, pixels) for side, pixels in images.items()})
        texts.append('\n'.join(one.text for one in bench.issues.active('quality')
                               if one.code is not IssueCode.FROZEN))
    assert texts[-1] == texts[-2]
    return texts[-1]


def test_nothing_is_said_of_valid_pixels_where_no_output_shows_them() -> None:
    bench = Bench(min_valid_fraction=1.0)
    bench.outputs.topics = ('confidence',)
    bench.process()
    assert bench.texts('quality') == ''
    assert bench.outcome() == {'published': 1}


def test_a_frame_that_was_looked_at_leaves_its_quality_and_its_images() -> None:
    bench = Bench()
    offered: list[Pair] = []
    bench.observer.offer = offered.append                           # type: ignore[method-assign]
    assert bench.observer.quality is None
    for k in range(3):                  # all within one look at the images
        bench.process(NOW + k)
    quality = bench.observer.quality
    assert quality is not None
    assert quality.valid == 1.0
    assert quality.nearest == pytest.approx(100 * 0.1 / 7)
    pair, *later = offered
    assert len(later) == 2              # until one is measured
    assert pair.calibration is not None
    assert (pair.apart_s, pair.time_s, pair.calibration.focal_px) == (0, 1e-9 * NOW, 100)
    assert pair.rectification is None
    assert (pair.left.width, pair.right.height, pair.config.disparity_range) == (32, 24, 8)


def test_few_valid_pixels_and_many_at_the_last_label_are_warnings_unless_an_image_is_black(
        ) -> None:

    def nearer(disparity: np.ndarray, frame: DisparityFrame) -> None:
        disparity[:, 20:] = frame.max_disparity

    def mostly_invalid(disparity: np.ndarray, frame: DisparityFrame) -> None:
        disparity[:, :25] = frame.min_disparity - 1

    bench = Bench(min_valid_fraction=0.5)
    change_frames(bench, mostly_invalid)
    assert 'fewer than 50 % of the pixels have a disparity' in look_at(bench, 0)
    bench = Bench()
    bench.process()
    change_frames(bench, nearer)
    bench.now += SECOND
    bench.process(bench.now)
    assert 'something may be nearer' not in bench.texts('quality')
    assert 'something may be nearer than can be measured' in look_at(bench, 2)
    said = look_at(bench, 9, right=np.zeros((24, 32), np.uint8))
    assert 'the right image is black' in said
    assert 'something may be nearer' not in said


def test_every_warning_is_renewed_by_every_frame_and_ends_with_its_cause() -> None:
    bench = Bench()
    bench.left_info.header.frame_id = 'elsewhere'
    bench.right_info.p[6] += 3
    for k in range(5):                  # all within one look at the images
        bench.process(NOW + k)
        texts = ' '.join(one.text for one in bench.issues.report())
        assert 'rows do not match' in texts
        assert "'elsewhere'" in texts
    bench.issues.report()
    assert bench.issues.report() == []


@pytest.mark.parametrize(('frame_id', 'words'), [
    ('', 'is empty, and published so: TF rejects it, RViz and costmaps drop every depth'),
    ('/left_optical', "is '/left_optical', with a slash in front"), ('/', 'set a name')])
def test_a_frame_that_no_consumer_takes_is_told_once_until_it_is_another(frame_id: str, words: str
                                                                         ) -> None:
    bench = Bench()
    bench.left_info.header.frame_id = frame_id
    for k in range(3):
        bench.process(NOW + k * SECOND)
        bench.now += SECOND
        assert any(words in one.text for one in bench.issues.report())
    assert sum('camera_info is' in text for _, text in bench.logged) == 1
    bench.left_info.header.frame_id = 'left_optical'
    bench.process(bench.now)
    bench.issues.report()
    assert not any('costmaps' in one.text for one in bench.issues.report())
    # The right camera's frame is published where it is the reference.
    bench = Bench()
    bench.right_info.header.frame_id = frame_id
    bench.process()
    assert not any('costmaps' in one.text for one in bench.issues.report())


def test_texts_of_messages_are_cut_and_made_printable_wherever_they_are_told() -> None:
    long = 'x\n\x1b[31m\u202e\0' * 60000
    for field in ('frame_id', 'encoding', 'format'):
        bench = Bench()
        random = np.random.default_rng(0).integers(0, 256, (24, 32), np.uint8)
        left = make_image(NOW, random)
        if field == 'frame_id':
            bench.left_info.header.frame_id = long
            left.header.frame_id = long[1:]
        elif field == 'encoding':
            left.encoding = long
        else:
            left = make_stamped(NOW, data=b'no image', format=long)
        bench.process(left=left)
        for text in (bench.texts(), *(text for _, text in bench.logged)):
            assert len(text) < 700, field
            assert text.isprintable()
            assert text.count('x\\n') <= 2 * 80 / len('x\\n')


# Exchanged, frozen, rectified twice

LIMIT = 0.75
CONFIG = MatcherConfig(stereo_algorithm='sad', disparity_range=64)


@pytest.fixture
def bench() -> Bench:
    return Bench(config=CONFIG)


def process(bench: Bench, stamp_ns: int, left: np.ndarray, right: np.ndarray) -> None:
    height, width = left.shape
    for info in (bench.left_info, bench.right_info):
        info.width, info.height = width, height
    bench.now = stamp_ns
    bench.process(stamp_ns, left=make_image(stamp_ns, left),
                  right=make_image(stamp_ns, right))


def outcomes(bench: Bench, pairs: list[tuple[np.ndarray, np.ndarray]],
             limit: float = LIMIT) -> list[int]:
    """Pairs that were published by then, after each; every one is measured."""
    published = []
    for pair in pairs:
        process(bench, bench.now + SECOND, *pair)
        bench.observer.max_vertical_offset = limit
        measure(bench.observer, bench.issues)
        published.append(bench.ledger.counts().published)
    return published


def plane() -> tuple[np.ndarray, np.ndarray]:
    frame = SlantedPlane(width=320, height=240, slope_x=0.01).frame(0)
    return frame.left, frame.right


def test_exchanged_images_are_rejected_until_they_are_right_again(bench: Bench) -> None:
    left, right = plane()
    published = outcomes(bench, [(right, left)] * 4 + [(left, right)] * 2)
    # The first right pair ends the rejection, once it has been measured.
    assert published == [1, 1, 1, 1, 1, 2]
    assert bench.outcome()[IssueCode.EXCHANGED_IMAGES] == 4
    assert bench.outcome()[PairDrop.BAD_INPUT] == 4
    assert any('probably exchanged' in text for _, text in bench.logged)
    # They are published where that check is ignored; without a limit it is still made.
    ignoring = Bench(config=CONFIG.replace(ignored_checks='exchanged images'))
    assert outcomes(ignoring, [(right, left)] * 4) == [1, 2, 3, 4]
    assert outcomes(Bench(config=CONFIG), [(right, left)] * 4, limit=0.0)[-1] == 1


def test_one_pair_that_seems_exchanged_among_right_ones_is_not_rejected(bench: Bench) -> None:
    left, right = plane()
    assert outcomes(bench, [(left, right), (right, left), (left, right), (left, right)]) == [
        1, 2, 3, 4]
    assert outcomes(bench, [(right, left)] * 4)[-1] == 4 + EXCHANGED_PAIRS


def test_a_frozen_camera_is_told_with_the_next_look_and_published() -> None:
    first, later = np.random.default_rng(0).integers(0, 256, (2, 2, 24, 128), np.uint8)
    for frozen, words in (((0,), 'the left image repeats'), ((0, 1), 'both images repeat'),
                          ((), '')):
        bench = Bench(config=CONFIG)
        process(bench, NOW, *first)
        process(bench, NOW + SECOND, *(first[side] if side in frozen else later[side]
                                       for side in (0, 1)))
        assert ('under new stamps' in bench.texts('quality')) is bool(frozen)
        assert words in bench.texts('quality')
        assert bench.ledger.counts().published == 2
    for is_loop in (True, False):
        bench = Bench(config=CONFIG)
        for number in range(9):         # looked at twice a second, at 8 Hz
            process(bench, NOW + number * SECOND // 8,
                    *(later if is_loop and number % 4 else first))
        assert ('both images repeat' in bench.texts('quality')) is not is_loop
    bench = Bench(config=CONFIG.replace(ignored_checks='frozen_camera'))
    for number in range(3):
        process(bench, NOW + number * SECOND, *first)
    assert 'under new stamps' not in bench.texts()


def test_a_camera_of_12_bits_is_told_the_scale_that_it_needs(bench: Bench) -> None:
    pair = np.random.default_rng(0).integers(500, 4095, (2, 24, 128)).astype(np.uint16)
    process(bench, NOW, pair[0], pair[1])
    assert 'set mono16_scale to 0.0622711' in bench.texts('quality')


def test_images_that_are_rectified_twice_are_told_so() -> None:
    issues = IssueLog(lambda level, text: None)
    observer = PairObserver(LIMIT)
    found = Rectification.from_camera_info(*infos())
    left, right = (RawImage.from_array(image) for image in scene(320, 240, 12.0))
    observer.offer(Pair(left, right, MatcherConfig(disparity_range=64, rectify=True), None, found))
    measure(observer, issues)
    texts = [one.text for one in issues.active(IssueCode.RECTIFIED)]
    assert any('set rectify to false' in text for text in texts)


def infos() -> list[Any]:
    return [camera_info(side, size=(320, 240), k=(265, 0, 163, 0, 262, 118, 0, 0, 1),
                        p=(260, 0, 158.5, shift, 0, 260, 121.5, 0, 0, 0, 1, 0))
            for side, shift in (('left', 0.0), ('right', -52.0))]
