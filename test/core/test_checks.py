"""What a pair, a calibration and a recording must satisfy, and the registry."""

from __future__ import annotations

import pathlib
import re

import cv2
import numpy as np
import pytest

from stereo_bp_ros import (
    Calibration,
    ConfigError,
    InputError,
    Issue,
    IssueCode,
    IssueLevel,
    MatcherConfig,
    RawImage,
    Rectification,
    StereoMatcher,
    examine_pair,
)
from stereo_bp_ros.checks import checks, frame_checks, truth_checks
from stereo_bp_ros.checks.checks import FrozenCameras
from stereo_bp_ros.config.node import NodeConfig
from stereo_bp_ros.errors import ignored_codes
from stereo_bp_ros.images.raw_images import ENCODINGS
from stereo_bp_ros.images.stamps import SIDES
from stereo_bp_ros.issues import summarise
from stereo_bp_ros.sources.datasets.dataset import open_dataset
from test.raw_cameras import camera_info
from test.slanted_plane import SlantedPlane

RANDOM = np.random.default_rng(0)
GREY = RANDOM.integers(0, 256, (24, 32), np.uint8)
COLOUR = RANDOM.integers(0, 256, (24, 32, 3), np.uint8)
CONFIG = MatcherConfig(disparity_range=64)
CALIBRATION = Calibration(300.0, 0.2, 160.0, 160.0, 120.0)


def plane() -> tuple[np.ndarray, np.ndarray]:
    frame = SlantedPlane(width=320, height=240, slope_x=0.01).frame(0)
    return frame.left, frame.right


def raw(*images: np.ndarray) -> list[RawImage]:
    return [RawImage.from_array(image) for image in images]


def codes(issues: list[Issue]) -> list[IssueCode]:
    return [issue.code for issue in issues]


# The registry

def test_the_page_lists_every_code_with_its_level_and_what_has_to_hold(
        repository: pathlib.Path) -> None:
    text = (repository / 'docs/reference/checks.md').read_text()
    rows = {match[1]: match[2] for match in re.finditer(r'^\| `([^`]+)` \| (.*) \|$', text, re.M)}
    expected = {}
    for code in IssueCode:
        last = code.scope if code.scope != 'pair' else 'yes' if code.can_be_ignored else 'no'
        expected[code.value] = f'{code.level} | {code.about} | {last}'
    assert rows == expected


@pytest.mark.parametrize(('code', 'numbers'), [
    (IssueCode.BASELINE, f'{1000 * checks.MIN_BASELINE:g} mm to {checks.MAX_BASELINE:g} m'),
    (IssueCode.PRINCIPAL_POINT, 'from {:g} to {:g} of'.format(*checks.CENTRAL_RANGE)),
    (IssueCode.FIELD_OF_VIEW, f'{checks.MIN_FOCAL:g} to {checks.MAX_FOCAL:g} times'),
    (IssueCode.EXPOSURE, f'{100 * checks.MIN_SHARE:g} %'),
    (IssueCode.VERTICAL_OFFSET, f'{checks.MAX_VERTICAL_OFFSET:g} px'),
    (IssueCode.TRUTH, f'{100 * truth_checks.TRUTH_TOLERANCE:g} %'),
    (IssueCode.FEW_VALID, f'{100 * frame_checks.MIN_VALID_FRACTION:g} %'),
    (IssueCode.PILED_UP, f'{100 * frame_checks.PILED_UP:g} %')])
def test_what_has_to_hold_has_the_numbers_that_are_checked(code: IssueCode, numbers: str) -> None:
    assert numbers in code.about


def test_the_node_checks_by_the_limits_of_a_stream_unless_it_is_told_others() -> None:
    settings = NodeConfig()
    assert settings.min_valid_fraction == frame_checks.MIN_VALID_FRACTION
    assert settings.max_vertical_offset == checks.MAX_VERTICAL_OFFSET


def test_an_issue_is_ignored_by_its_code_and_none_of_sizes_memory_or_numbers() -> None:
    assert {code.value for code in IssueCode
            if code.level is IssueLevel.ERROR and code.can_be_ignored} == {'exchanged images'}
    same = raw(GREY, GREY)
    issue, = examine_pair(*same, CONFIG)
    assert issue.code is IssueCode.IDENTICAL
    assert str(issue).endswith('[identical images]')
    assert issue.to_dict() == {'code': 'identical images', 'level': 'warn', 'text': issue.text}
    ignoring = CONFIG.replace(ignored_checks='Identical images'.lower())
    assert examine_pair(*same, ignoring) == []
    assert ignored_codes('identical_images, frozen camera') == {
        IssueCode.IDENTICAL, IssueCode.FROZEN}
    for name in ('bad calibration', 'identical', 'device', 'source'):
        with pytest.raises(ConfigError, match=f'ignored_checks.*{name}'):
            CONFIG.replace(ignored_checks=name)


def test_issues_of_one_code_are_counted_by_pairs_and_told_by_the_worst() -> None:
    mild, bad = (IssueCode.EXPOSURE.issue(f'dark by {weight}', weight) for weight in (1.0, 2.0))
    other = IssueCode.BITS.issue('12 bits')
    pairs = [mild, other, mild], [bad, mild], [], [mild]
    assert list(summarise(pairs)) == [(bad, 3), (other, 1)]


# One image, and two beside each other

@pytest.mark.parametrize(('left', 'right', 'expected'), [
    (GREY, GREY[::-1].copy(), []),
    (GREY, GREY, ['left and right image are identical']),
    (np.zeros_like(GREY), GREY, ['the left image is black']),
    (GREY, np.full_like(GREY, 255), ['the right image is saturated']),
    (np.zeros_like(COLOUR), COLOUR, ['the left image is black']),
    (GREY.astype(np.uint16), GREY[::-1].astype(np.uint16),
     ['the left image is black (does mono16_scale', 'the right image is black',
      'the maximum value of the 16-bit images is 255, 8 bits']),
    (GREY.astype(np.uint16) * 256, GREY[::-1].astype(np.uint16) * 256, []),
])
def test_suspect_images_are_named(left: np.ndarray, right: np.ndarray, expected: list[str]
                                   ) -> None:
    found = [one.text for one in checks.examine_images(*raw(left, right), CONFIG)]
    assert len(found) == len(expected)
    assert [text for text, start in zip(found, expected, strict=True)
            if not text.startswith(start)] == []


@pytest.mark.parametrize('encoding', ['nv12', 'nv24', 'yuv422'])
def test_chroma_makes_no_image_black_or_saturated(encoding: str) -> None:
    for luma, chroma, expected in ((0, 255, ['the left image is black']), (128, 0, []),
                                   (255, 128, ['the left image is saturated'])):
        if encoding == 'yuv422':
            array = np.full((8, 8, 2), (chroma, luma), np.uint8)
        else:
            array = np.full((ENCODINGS[encoding].rows(8), 8), chroma, np.uint8)
            array[:8] = luma
        other = array.copy()
        other[:8:2] = 90
        if encoding == 'yuv422':
            other[..., 0] = chroma
        left, right = (RawImage.from_array(image, encoding) for image in (array, other))
        assert [one.text for one in checks.examine_images(left, right, CONFIG)] == expected


@pytest.mark.parametrize('dtype', ['<u2', '>u2'])
def test_a_mosaic_of_16_bits_is_judged_after_its_scale(dtype: str) -> None:
    grey = GREY.astype(dtype)
    dark, bright = (RawImage.from_array(grey * factor, 'bayer_rggb16') for factor in (1, 256))
    found = checks.check_exposure(dark, bright, 1 / 256)
    assert [one.text for one in found] == [
        'the left image is black (does mono16_scale fit the camera?)']
    assert checks.check_exposure(bright, dark, 1.0)[0].text.startswith(
        'the left image is saturated (does mono16_scale')


@pytest.mark.parametrize(('bits', 'dtype'), [(8, '<u2'), (12, '>u2'), (14, '<u2'), (16, '>u2')])
def test_fewer_bits_than_16_are_told_with_the_factor_that_mends_them(bits: int, dtype: str
                                                                     ) -> None:
    highest = 2**bits - 1
    left, right = (RawImage.from_array(RANDOM.integers(highest // 8, highest, (24, 32)).astype(
        dtype)) for _ in range(2))
    found = checks.check_bits(left, right, CONFIG.mono16_scale)
    assert len(found) == (bits < 16)
    if found:
        scale = float(found[0].text.rpartition('set mono16_scale to ')[2])
        assert scale * highest == pytest.approx(255, rel=1e-5)
        assert checks.check_bits(left, right, scale) == []
    assert checks.check_bits(*raw(GREY // 16, GREY // 16), CONFIG.mono16_scale) == []


# Frozen cameras

def test_a_camera_that_repeats_its_bytes_under_new_stamps_is_told_by_its_side() -> None:
    cameras, images = FrozenCameras(), [RANDOM.integers(0, 256, (24, 32), np.uint8)
                                        for _ in range(6)]
    assert cameras.examine(*raw(images[0], images[1]), 10**9) == []
    assert cameras.examine(*raw(images[2], images[3]), 2 * 10**9) == []
    left, = cameras.examine(*raw(images[2].copy(), images[4]), 3 * 10**9)
    assert 'the left image repeats for 1.0 s' in left.text
    both, = cameras.examine(*raw(images[2].copy(), images[4].copy()), 4 * 10**9)
    assert 'both images repeat for 1.0 s' in both.text
    assert cameras.examine(*raw(images[4], images[5]), 5 * 10**9) == []
    # The same pair again, and a bag that begins again.
    for stamp_ns in (5 * 10**9, 10**8):
        assert cameras.examine(*raw(images[4], images[5]), stamp_ns) == []
    # A clock that is set ahead by ten hours, while both cameras stand still.
    for seconds, told in ((1.1, 1.0), (36_001.1, 11.0), (36_002.1, 12.0)):
        both, = cameras.examine(*raw(images[4], images[5]), round(seconds * 1e9))
        assert f'both images repeat for {told} s' in both.text


def test_of_pairs_that_are_looked_at_now_and_then_a_short_loop_is_no_standstill() -> None:
    loop = [RANDOM.integers(0, 256, (24, 32), np.uint8) for _ in range(4)]

    def told(pictures: list[np.ndarray]) -> list[bool]:
        cameras, found = FrozenCameras(), []
        for place, picture in enumerate(pictures):
            if place % 4:
                cameras.pass_by(*raw(picture, picture + 1))
            else:
                found.append(bool(cameras.examine(*raw(picture.copy(), picture + 1), place + 1)))
        return found

    assert told(loop * 5) == [False] * 5
    assert told([loop[0]] * 20) == [False, *[True] * 4]
    # Each picture twice, of which a look may meet the second one.
    assert told([loop[0], *(RANDOM.integers(0, 256, (24, 32), np.uint8) for _ in range(2)),
                 *2 * [loop[1]]]) == [False, False]


# Both images together

def test_exchanged_images_are_rejected_with_where_their_corners_lie() -> None:
    left, right = plane()
    assert examine_pair(left, right, CONFIG) == []
    with pytest.raises(InputError, match='left and right image are probably exchanged') as caught:
        examine_pair(*raw(right, left), CONFIG)
    assert caught.value.code is IssueCode.EXCHANGED_IMAGES
    # Who knows better may match them; behind converged cameras all disparities are negative.
    for changes in ({'ignored_checks': 'exchanged images'}, {'min_disparity': -40}):
        assert examine_pair(*raw(right, left), CONFIG.replace(**changes)) == []


@pytest.mark.parametrize('images', [
    (np.full((240, 320), 128, np.uint8),) * 2,
    tuple(RANDOM.integers(0, 256, (2, 240, 320), np.uint8)),
    (GREY, GREY[::-1].copy())])
def test_images_that_tell_nothing_are_not_exchanged(images: tuple[np.ndarray, ...]) -> None:
    assert checks.check_exchanged(*images, CONFIG) == []


@pytest.mark.parametrize('folder', ['middlebury', 'sequence', 'driving'])
def test_real_pairs_are_rejected_if_and_only_if_they_are_exchanged(data: pathlib.Path,
                                                                   folder: str) -> None:
    pairs = open_dataset(data / folder)
    config = MatcherConfig(disparity_range=128)
    for index in range(0, len(pairs), max(1, len(pairs) // 3)):
        left, right = (cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) if image.ndim == 3 else image
                       for image in (pairs[index].left, pairs[index].right))
        assert checks.check_exchanged(left, right, config) == [], pairs[index].name
        assert checks.check_exchanged(right, left, config), pairs[index].name


def test_vertical_disparity_is_reported_with_its_size() -> None:
    left, right = plane()
    found, = examine_pair(*raw(left, np.roll(right, 3, axis=0)), CONFIG)
    assert found.code is IssueCode.VERTICAL_OFFSET
    assert 'is up to 3.0' in found.text


# Calibration

@pytest.mark.parametrize(('baseline', 'hint'), [
    (0.005, None), (2.0, None), (0.0004, 'If 0.12 m is right, P[3] is -baseline'),
    (120.0, 'If 0.12 m is right, P[3] is in millimetres'),
    (6.0, 'if 0.06 m is right, P[3] is in centimetres'), (3000.0, 'another unit')])
def test_baselines_that_nobody_builds_are_told_with_what_may_be_meant(
        baseline: float, hint: str | None) -> None:
    found = checks.check_baseline(Calibration(300.0, baseline, 160.0, 160.0, 120.0))
    assert [str(hint) in one.text for one in found] == [True] * (hint is not None)


def test_a_calibration_of_another_size_is_rejected_by_check_and_by_matcher() -> None:
    left, right = plane()
    other = Calibration(600.0, 0.2, 320.0, 320.0, 240.0, width=640, height=480)
    with pytest.raises(InputError, match='320 x 240; their calibration is of images of 640 x 480'):
        examine_pair(*raw(left, right), CONFIG, other)
    config = MatcherConfig.preset('sad_fast', backend='cpu', min_depth=5.0)
    with StereoMatcher(config) as matcher:
        for call in (lambda: matcher.prepare(320, 240, other),
                     lambda: matcher.compute(left, right, calibration=other)):
            with pytest.raises(InputError) as caught:
                call()
            assert caught.value.code is IssueCode.CAMERA_INFO_SIZE


@pytest.mark.parametrize('size', [(0, 0), (320, 240)])
def test_a_calibration_of_another_resolution_is_told_whatever_size_it_names(size: tuple[int, int]
                                                                           ) -> None:
    for factor, told in ((0.5, True), (1.0, False), (2.0, True)):
        scaled = Calibration(300 * factor, 0.2, 160 * factor, 160 * factor, 120 * factor,
                             width=size[0], height=size[1])
        found = examine_pair(*raw(*plane()), CONFIG, scaled)
        assert codes(found) == [IssueCode.PRINCIPAL_POINT] * told
        meant = (f'images of about {320 * factor:.0f} x {240 * factor:.0f}, and depth '
                 f'{factor:g} times what it should be')
        assert [meant in one.text for one in found] == [True] * told
    cropped, = examine_pair(*raw(*plane()), CONFIG, Calibration(300, 0.2, 160, 160, 12))
    assert 'cy in P of the left camera is 12 in images of 320 x 240' in cropped.text
    assert 'images that were cropped later' in cropped.text


@pytest.mark.parametrize(('focal', 'told'), [
    (0.9, True), (63.0, True), (65.0, False), (1590.0, False), (1800.0, True)])
def test_a_field_of_view_that_no_lens_has_is_told(focal: float, told: bool) -> None:
    found = checks.check_intrinsics(Calibration(focal, 0.2, 160, 160, 120), 320, 240)
    assert codes(found) == [IssueCode.FIELD_OF_VIEW] * told


@pytest.mark.parametrize('folder', ['middlebury2014', 'sequence'])
def test_real_calibrations_are_believed(data: pathlib.Path, folder: str) -> None:
    if not (data / folder).is_dir():
        pytest.skip(f'no {folder} in {data}')
    pair = open_dataset(data / folder)[0]
    assert pair.calibration is not None
    height, width = pair.left.shape[:2]
    assert checks.examine_calibration(pair.calibration, width, height) == []


def test_k_of_another_resolution_is_told_where_raw_images_are_rectified() -> None:
    for factor, told in ((1, False), (2, True)):
        infos = [camera_info(side) for side in SIDES]
        for info in infos:
            for place in (0, 2, 4, 5):
                info.k[place] *= factor
        rectification = Rectification.from_camera_info(*infos)
        found = checks.examine_calibration(rectification.calibration, rectification.width,
                                           rectification.height)
        assert codes(found) == [IssueCode.PRINCIPAL_POINT] * told
        assert ['cx in K of the left camera' in one.text for one in found] == [True] * told


def test_a_region_of_interest_is_a_crop_that_the_camera_knows_of() -> None:
    infos = [camera_info(side) for side in SIDES]
    for info in infos:
        info.roi.y_offset = info.height // 2
        info.roi.width, info.roi.height = info.width, info.height - info.height // 2
    for calibration in (Calibration.from_camera_info(*infos),
                        Rectification.from_camera_info(*infos).calibration):
        assert checks.check_intrinsics(calibration, calibration.width, calibration.height) == []
