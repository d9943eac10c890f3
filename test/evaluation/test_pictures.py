"""Pictures for people: stable colours, distinct kinds of pixels, and sheets without overlap."""

import numpy as np
import pytest

from stereo_bp_ros.evaluation import pictures
from test.cases import every

SIZES = [(240, 320), (480, 640)]


def ramp(height=8, width=64, high=63.0):
    return np.broadcast_to(np.linspace(0, high, width, dtype=np.float32), (height, width)).copy()


def inked(picture):
    """Where something is drawn on the paper."""
    return (np.abs(picture.astype(int) - np.array(pictures.PAPER)) > 24).any(axis=2)


def test_a_disparity_has_the_same_colour_in_every_frame():
    frame = ramp()
    other = np.full_like(frame, 30.0)
    column = int(np.argmin(np.abs(frame[0] - 30.0)))
    other[0, 0] = frame[0, column]
    np.testing.assert_array_equal(pictures.disparity_picture(frame, high=63)[0, column],
                                  pictures.disparity_picture(other, high=63)[0, 0])


def test_near_is_red_and_far_is_blue():
    picture = pictures.disparity_picture(ramp(), low=0, high=63)
    blue, _, red = picture[0, 0].astype(int)
    assert blue > red
    blue, _, red = picture[0, -1].astype(int)
    assert red > blue


def test_values_outside_the_range_take_the_colour_of_its_end():
    picture = pictures.disparity_picture(np.array([[-5.0, 0.0, 10.0, 99.0]]), low=0, high=10)
    np.testing.assert_array_equal(picture[0, 0], picture[0, 1])
    np.testing.assert_array_equal(picture[0, 3], picture[0, 2])


def test_invalid_pixels_are_darker_than_every_disparity():
    disparity = ramp()
    valid = np.ones(disparity.shape, bool)
    valid[0] = False
    disparity[1, :3] = (np.nan, np.inf, -np.inf)
    picture = pictures.disparity_picture(disparity, valid, high=63)
    invalid = ~valid
    invalid[1, :3] = True
    assert (picture[invalid] == pictures.INVALID).all()
    assert picture[~invalid].max(axis=1).min() > 2 * max(pictures.INVALID)


def test_a_range_that_does_not_rise_is_refused():
    with pytest.raises(ValueError, match='5 to 5'):
        pictures.disparity_picture(ramp(), low=5, high=5)


def test_the_error_picture_tells_good_bad_missing_and_unknown_pixels():
    truth = np.array([[10.0, 10.0, 10.0, np.nan, np.inf]], np.float32)
    disparity = np.array([[10.1, 40.0, -1.0, 10.0, -1.0]], np.float32)
    picture = pictures.error_picture(disparity, truth, disparity >= 0)
    assert picture[0].tolist() == [
        list(pictures.ERROR_STEPS[0][1]), list(pictures.ERROR_STEPS[-1][1]),
        list(pictures.MISSING), list(pictures.UNKNOWN), list(pictures.UNKNOWN)]


def test_a_pixel_at_the_limit_of_a_step_belongs_to_it():
    truth = np.zeros((1, 2), np.float32)
    picture = pictures.error_picture(np.array([[1.0, 1.01]], np.float32), truth)
    colours = [list(colour) for limit, colour in pictures.ERROR_STEPS if limit in (1.0, 2.0)]
    assert picture[0].tolist() == colours


def test_inputs_of_all_kinds_become_bgr():
    assert pictures.grey_picture(np.full((2, 3), 7, np.uint8))[0, 0].tolist() == [7, 7, 7]
    wide = np.array([[0, 2000], [4000, 1000]], np.uint16)
    assert pictures.grey_picture(wide)[1, 0].tolist() == [255, 255, 255]
    colour = np.full((2, 3, 3), (1, 2, 3), np.uint8)
    assert pictures.grey_picture(colour)[0, 0].tolist() == [3, 2, 1]


@pytest.mark.parametrize(('height', 'width'), SIZES)
def test_panels_appear_unchanged_on_the_sheet_with_paper_around_them(height, width):
    panels = [(f'panel {n}', np.full((height, width, 3), 60 * n + 60, np.uint8))
              for n in range(3)]
    sheet = pictures.sheet(panels, columns=2, title='a title')
    assert sheet.dtype == np.uint8
    for _, picture in panels:
        rows, cols = np.nonzero((sheet == picture[0, 0]).all(axis=2))
        # Anti-aliased text may hit the grey of a panel here and there; the panel is a full box.
        box = (slice(int(np.median(rows)) - height // 4, int(np.median(rows)) + height // 4),
               slice(int(np.median(cols)) - width // 4, int(np.median(cols)) + width // 4))
        assert (sheet[box] == picture[0, 0]).all()
        assert len(rows) >= height * width
    assert not inked(sheet)[:, :8].any()
    assert not inked(sheet)[-8:].any()


@pytest.mark.parametrize(('height', 'width'), SIZES)
def test_captions_are_legible_and_stay_between_the_panels(height, width):
    picture = np.full((height, width, 3), 200, np.uint8)
    long = 'a caption that is much longer than its panel is wide ' * 2
    plain = pictures.sheet([('', picture), ('', picture)])
    captioned = pictures.sheet([('disparity', picture), (long, picture)])
    assert captioned.shape == plain.shape
    changed = (captioned != plain).any(axis=2)
    assert not changed[inked(plain)].any()
    rows = np.flatnonzero(changed.any(axis=1))
    assert rows[-1] - rows[0] + 1 >= 9
    assert captioned[changed].max() > 180
    cols = np.flatnonzero(changed.any(axis=0))
    assert cols[-1] < plain.shape[1] - 4


@pytest.mark.parametrize(('height', 'width'), SIZES)
@pytest.mark.parametrize('high', [15.0, 60.0, 127.0, 255.5, 0.3])
def test_labels_of_the_colour_bar_do_not_touch(height, width, high):
    bar = pictures.disparity_bar(height, 0.0, high)
    assert bar.shape[0] == height
    unit = pictures._unit(height)
    text = inked(bar)[2 * unit:, unit + unit // 2 + unit // 3 + 1:].any(axis=1)
    starts = np.flatnonzero(np.diff(text.astype(int)) == 1)
    assert len(starts) >= 2
    blocks = np.split(text, starts + 1)
    assert every(0 < block.sum() <= 2 * unit for block in blocks[1:])


def test_the_colour_bar_shows_the_colours_of_the_picture():
    bar = pictures.disparity_bar(240, 0.0, 63.0)
    top = pictures.disparity_picture(np.array([[63.0]]), high=63)[0, 0]
    bottom = pictures.disparity_picture(np.array([[0.0]]), high=63)[0, 0]
    colours = bar[inked(bar[:, :4]).all(axis=1)][:, 1]
    np.testing.assert_array_equal(colours[0], top)
    np.testing.assert_array_equal(colours[-1], bottom)


def test_the_legend_of_errors_has_all_their_colours():
    colours = {tuple(int(part) for part in colour)
               for colour in pictures.error_bar(240)[:, 1]}
    assert {colour for _, colour in pictures.ERROR_STEPS} <= colours


@pytest.mark.parametrize(('height', 'width'), SIZES)
def test_a_comparison_has_two_panels_without_truth_and_four_with(height, width):
    left = np.full((height, width), 128, np.uint8)
    disparity = ramp(height, width, 60)
    without = pictures.comparison(left, disparity, high=60)
    full = pictures.comparison(left, disparity, truth=disparity, high=60, columns=2)
    assert 2 * width < without.shape[1] < 3 * width
    assert full.shape[0] > 2 * height
    good = (full == pictures.ERROR_STEPS[0][1]).all(axis=2).sum()
    assert good >= height * width


def test_a_sheet_without_panels_is_refused():
    with pytest.raises(ValueError, match='0 panels'):
        pictures.sheet([])


@pytest.mark.parametrize('size', [(1, 1), (2, 40), (12, 16), (23, 30), (24, 30)])
def test_a_picture_of_any_size_is_compared(size):
    image, disparity = np.zeros(size, np.uint8), np.full(size, 3.0, np.float32)
    drawn = pictures.comparison(image, disparity, np.ones(size, bool), low=0.0, high=7.0)
    assert min(drawn.shape[0] - size[0], drawn.shape[1] - size[1]) > 0
