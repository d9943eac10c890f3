"""Truths that are not what they are taken for: compared with their images, and with the range."""

from __future__ import annotations

import pathlib
import re
import types
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pytest

from stereo_bp_ros import (
    Calibration,
    InputError,
    Issue,
    IssueCode,
    MatcherConfig,
    RawImage,
    examine_pair,
)
from stereo_bp_ros.checks import truth_checks
from stereo_bp_ros.checks.truth_checks import TruthScale
from stereo_bp_ros.evaluation.method import Method
from stereo_bp_ros.evaluation.runs import COMPARED_TRUTHS, Evaluation
from stereo_bp_ros.images import files
from stereo_bp_ros.images.grey import to_8_bits
from stereo_bp_ros.sources.bag_topics import DISPARITY_IMAGE, IMAGE
from stereo_bp_ros.sources.bag_truth import BagTruth
from stereo_bp_ros.sources.datasets.dataset import open_dataset
from stereo_bp_ros.sources.pairs import Pair
from test.slanted_plane import SlantedPlane

CONFIG = MatcherConfig(disparity_range=64)
FRAME = SlantedPlane(width=320, height=240, slope_x=0.05, slope_y=0.08).frame(0)
SETS = ('middlebury', 'middlebury2014', 'kitti2012', 'kitti_noc/kitti2012', 'kitti_noc/kitti2015')


def in_16_bits(truth: np.ndarray) -> np.ndarray:
    """As levels of an image whose bytes were exchanged."""
    levels = np.where(np.isfinite(truth), np.rint(256 * truth), 0).astype(np.uint16).byteswap()
    return np.where(levels, levels / np.float32(256), np.float32(np.nan)).astype(np.float32)


#: What a truth may be in place of what it should be, and what is to be told.
WRONG = {
    'x 4': (lambda one: one / 4, 'multiplied by 4 (they were taken to be 256 per pixel of '
            'disparity): --truth-scale 64'),
    'levels': (lambda one: one * 200 / 256, '--truth-scale 200'),
    'hundreds': (lambda one: one * 100 / 256, '--truth-scale 100'),
    'half': (lambda one: one / 2, '--truth-scale 128'),
    'double': (lambda one: one * 2, 'divided by 2'),
    'eighths': (lambda one: np.floor(one * 8) / 256, 'multiplied by 32'),
    'millimetres': (lambda one: one / 1000, 'multiplied by 1000'),
    'unusual': (lambda one: one / 1.7, 'multiplied by 1.7'),
    'sign': (lambda one: -one, 'with the other sign (they were taken to be 256 per pixel of '
             'disparity): --truth-scale -256'),
    'sign and scale': (lambda one: -16 * one, 'with the other sign and divided by 16'),
    'depth': (lambda one: 120 / one, 'as depths'),
    'rows': (lambda one: one[::-1], 'upside down'),
    'columns': (lambda one: one[:, ::-1], 'left and right exchanged'),
    'bytes': (lambda one: one.byteswap(), 'the bytes of each value exchanged'),
    'two bytes': (in_16_bits, 'the two bytes of each grey level exchanged'),
    'half floats': (lambda one: one.astype(np.float16).view(np.uint16) / 256,
                    'as half floats in 16 bits'),
    'zeros': (lambda one: np.where(np.arange(one.size).reshape(one.shape) % 3, one, 0),
              'does 0 mean unknown?'),
    'nothing': (lambda one: one * 0, 'the truth is 0 in all of its known pixels'),
}


def told(truth: np.ndarray, left: np.ndarray = FRAME.left, right: np.ndarray = FRAME.right
         ) -> list[Issue]:
    with np.errstate(all='ignore'):
        return truth_checks.check_values(left, right, np.float32(truth), TruthScale())


@pytest.mark.parametrize('kind', WRONG)
def test_a_truth_that_fits_otherwise_is_told_with_how(kind: str) -> None:
    change, text = WRONG[kind]
    issue, = told(change(FRAME.disparity))
    assert issue.code is IssueCode.TRUTH_VALUES
    assert text in issue.text


def test_nothing_is_said_of_a_truth_that_fits_or_that_tells_nothing() -> None:
    truth, flat = FRAME.disparity, np.full_like(FRAME.left, 90)
    sparse = np.where(np.random.default_rng(0).random(truth.shape) < 0.1, truth, np.nan)
    for one in (truth, truth * 1.01, truth + 0.2, sparse, np.full_like(truth, np.inf),
                truth[:4, :4]):
        assert told(one) == []
    assert told(truth / 4, flat, flat) == []
    # The sky is infinitely far.
    sky = np.zeros(truth.shape, bool)
    sky[:60] = True
    left, right = np.where(sky, flat, FRAME.left), np.where(sky, flat, FRAME.right)
    assert told(np.where(sky, 0, truth), left, right) == []


def test_a_truth_of_another_pair_and_one_of_few_pixels_are_told() -> None:
    other = SlantedPlane(width=320, height=240, disparity=40.0, slope_y=0.1, seed=7).frame(0)
    issue, = told(FRAME.disparity, other.left, other.right)
    assert 'no more like the left one than by chance' in issue.text
    few = np.full_like(FRAME.disparity, np.nan)
    few[100, :200] = FRAME.disparity[100, :200]
    issue, = told(few)
    assert 'only 0.26 % of the pixels have a truth' in issue.text


@pytest.mark.parametrize(('low', 'high', 'settings'), [
    (1.0, 63.0, None), (1.0, 107.3, 'disparity_range=109 holds all'),
    (-20.0, 40.0, 'min_disparity=-20 and disparity_range=84 holds all'),
    (1.0, 3e38, 'further than any range'), (-3e38, 4.0, 'further than any range'),
    (1.0, 1000.0, 'further than any range')])
def test_truth_beyond_the_range_is_told_with_a_range_that_can_be_set(
        low: float, high: float, settings: str | None) -> None:
    truth = np.linspace(low, high, 10000, dtype=np.float32).reshape(100, 100)
    truth[0] = np.inf
    truth[1] = np.nan
    truth[-1, -1] = high
    truth[2, 0] = low
    found = truth_checks.check_range(truth, CONFIG)
    assert [str(settings) in one.text for one in found] == [True] * (settings is not None)
    for name, value in re.findall(r'(\w+)=(-?\d+)', ' '.join(one.text for one in found)):
        CONFIG.replace(**{name: int(value)})
    # A few wrong values are no range.
    few = np.full((100, 100), 20, np.float32)
    few[0, :40] = 100
    assert truth_checks.check_range(few, CONFIG) == []


def test_one_cause_is_told_of_a_truth_and_none_where_the_images_are_the_cause() -> None:
    left, right, truth = FRAME.left, FRAME.right, FRAME.disparity
    assert examine_pair(left, right, CONFIG, truth=truth) == []
    assert [one.code for one in examine_pair(left, right, CONFIG, truth=4 * truth)] == [
        IssueCode.TRUTH_VALUES]
    assert [one.code for one in examine_pair(left, left, CONFIG, truth=truth)] == [
        IssueCode.IDENTICAL]
    lower = np.roll(right, 1, axis=0)
    assert [one.code for one in examine_pair(left, lower, CONFIG, truth=truth / 4)] == [
        IssueCode.VERTICAL_OFFSET, IssueCode.TRUTH_VALUES][::-1]
    ignoring = CONFIG.replace(ignored_checks='truth_values, truth_beyond_the_range')
    assert examine_pair(left, right, ignoring, truth=4 * truth) == []
    with pytest.raises(InputError, match=r'truth is .*240 x 320'):
        examine_pair(left, right, CONFIG, truth=truth[1:])


def test_an_evaluation_compares_the_first_truths_of_every_input() -> None:
    config = MatcherConfig.preset('sad_fast', backend='cpu', disparity_range=64)
    with Evaluation({'own': config}, method=Method(repeat=1)) as evaluation:
        codes = [[one.code for one in evaluation.judge(Pair(
            f'{source}/{place}', FRAME.left, FRAME.right, -FRAME.disparity, input=source)
        ).result.issues] for source in 'ab' for place in range(COMPARED_TRUTHS + 1)]
    assert codes == [*[[IssueCode.TRUTH_VALUES]] * COMPARED_TRUTHS, [IssueCode.TRUTH]] * 2


@pytest.mark.parametrize(('values', 'known'), [
    (-FRAME.disparity, 1.0), (np.where(FRAME.disparity > 25, -1, -2), 0.0),
    (np.where(FRAME.disparity > 20, FRAME.disparity, -1), None),
    (np.full_like(FRAME.disparity, -1), 0.0)])
def test_disparities_of_the_other_sign_are_no_invalid_pixels(values: np.ndarray,
                                                             known: float | None) -> None:
    image = types.SimpleNamespace(
        encoding='32FC1', is_bigendian=0, height=240, width=320, step=1280,
        data=np.float32(values).view(np.uint8).reshape(-1))
    reader = object.__new__(BagTruth)
    reader._kind, reader._given = DISPARITY_IMAGE, None
    found = reader._disparity(types.SimpleNamespace(image=image, min_disparity=0.0), None)
    expected = np.mean(values > 0) if known is None else known
    assert np.mean(np.isfinite(found)) == pytest.approx(expected)


def advised(issues: Iterable[Issue]) -> float:
    """The scale that a warning advises."""
    text, = (one.text for one in issues if one.code is IssueCode.TRUTH_VALUES)
    return float(text.rpartition('--truth-scale ')[2])


@pytest.mark.parametrize(('name', 'write', 'scale'), [
    ('disparity.png', lambda path, one: files.write_disparity_png(path, one / 4), 64),
    ('disparity.pfm', lambda path, one: files.write_pfm(path, -2 * one), -2),
    ('disparity.pfm', lambda path, one: files.write_pfm(path, one / 1.28), 0.7812)])
def test_the_scale_that_is_advised_for_a_file_mends_it(
        tmp_path: pathlib.Path, name: str, write: Callable[[pathlib.Path, np.ndarray], None],
        scale: float) -> None:
    for side, image in (('left', FRAME.left), ('right', FRAME.right)):
        files.write_image(tmp_path / f'{side}.png', image)
    write(tmp_path / name, FRAME.disparity)

    def examined(scale: float | None) -> list[Issue]:
        pair = open_dataset(tmp_path, truth_scale=scale)[0]
        return truth_checks.examine_truth(*pair.images, pair.truth, CONFIG, (), pair.truth_scale)

    assert advised(examined(None)) == pytest.approx(scale, rel=1e-3)
    assert examined(scale) == []


@pytest.mark.parametrize(('topic', 'encoding', 'numbers'), [
    ('/disparity', '16UC1', 8), ('/disparity', '32FC1', -1), ('/depth', '32FC1', 1000),
    ('/depth', '16UC1', 5000)])
def test_the_scale_that_is_advised_for_a_topic_mends_it(topic: str, encoding: str, numbers: int
                                                        ) -> None:
    calibration = Calibration(300.0, 0.2, 160.0, 160.0, 120.0)
    values = FRAME.disparity if topic == '/disparity' else 60 / FRAME.disparity
    kind = np.uint16 if encoding == '16UC1' else np.float32
    message = types.SimpleNamespace(
        encoding=encoding, is_bigendian=0, height=240, width=320, step=320 * kind().itemsize,
        data=(numbers * values).astype(kind).view(np.uint8).reshape(-1))

    def examined(given: float | None) -> list[Issue]:
        reader = object.__new__(BagTruth)
        reader._kind, reader._topic, reader._given = IMAGE, topic, given
        truth = reader._disparity(message, calibration)
        return truth_checks.examine_truth(*map(RawImage.from_array, (FRAME.left, FRAME.right)),
                                          truth, CONFIG, (), reader.scale)

    scale = advised(examined(None))
    assert scale == pytest.approx(numbers, rel=0.03)
    assert examined(scale) == []


def real_pairs(folder: pathlib.Path) -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
    for pair in open_dataset(folder):
        left, right = (to_8_bits(image, CONFIG.mono16_scale) for image in pair.images)
        assert pair.truth is not None
        yield pair.name, left, right, pair.truth


@pytest.mark.parametrize('folder', SETS)
def test_real_truths_are_believed_and_others_are_told(data: pathlib.Path, folder: str) -> None:
    if not (data / folder).is_dir():
        pytest.skip(f'no {folder} in {data}')
    for place, (name, left, right, truth) in enumerate(real_pairs(data / folder)):
        assert told(truth, left, right) == [], name
        kinds = list(WRONG)
        # All but half floats of unknown pixels, zeros, and whatever depends on the scene.
        for kind in kinds[place % 4:kinds.index('half floats'):4]:
            change, text = WRONG[kind]
            with np.errstate(all='ignore'):
                found = told(change(truth), left, right)
            assert [text in one.text for one in found] == [True], (name, kind, found)
