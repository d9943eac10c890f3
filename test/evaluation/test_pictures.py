"""Pictures for people: stable colours, distinct kinds of pixels, and sheets without overlap."""

import numpy as np
import pytest

from stereo_bp_ros.images import pictures
from test.cases import every

SIZES = [(240, 320)]


def ramp(height=8, width=64, high=63.0):
    return np.broadcast_to(np.linspace(0, high, width, dtype=np.float32), (height, width)).copy()


def inked(picture):
    """Where something is drawn on the paper."""
    return (np.abs(picture.astype(int) - np.array(pictures.PAPER)) > 24).any(axis=2)


def test_a_disparity_has_one_colour_in_every_frame_from_far_blue_to_near_red():
    picture = pictures.disparity_picture(np.array([[-5.0, 0.0, 10.0, 99.0]]), low=0, high=10)
    np.testing.assert_array_equal(picture[0, 0], picture[0, 1])
    np.testing.assert_array_equal(picture[0, 3], picture[0, 2])
    (blue, _, red), (blue_near, _, red_near) = picture[0, 1:3].astype(int)
    assert blue > red
    assert red_near > blue_near
    frame = ramp()
    alone = pictures.disparity_picture(frame[:1, 20:21], high=63)
    np.testing.assert_array_equal(pictures.disparity_picture(frame, high=63)[0, 20], alone[0, 0])
    with pytest.raises(ValueError, match='5 to 5'):
        pictures.disparity_picture(frame, low=5, high=5)


def test_the_range_of_colours_is_of_the_valid_values_but_for_a_few_outliers():
    disparity = np.linspace(15.2, 42.7, 1000, dtype=np.float32).reshape(20, 50)
    valid = np.ones(disparity.shape, bool)
    disparity[0, :2] = (900, -900)
    disparity[1, :3] = (np.nan, 500, 500)
    valid[1, 1:3] = False
    assert pictures.color_range((disparity, valid)) == (15, 43)
    assert pictures.color_range((disparity, valid), (disparity + 10, None))[1] > 43
    assert pictures.color_range((np.full((2, 3), 7.0), None)) == (7, 8)
    assert pictures.color_range((disparity, np.zeros_like(valid))) == (0, 1)


def test_the_ticks_of_the_colour_bar_are_round_numbers(monkeypatch):
    written = []
    monkeypatch.setattr(pictures, 'write_text', lambda bar, text, *_: written.append(text))
    pictures.disparity_bar(240, 13.0, 43.0)
    assert written[1:] == ['40', '30', '20']


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


def test_the_error_picture_tells_good_bad_missing_and_unknown_pixels():
    truth = np.array([[10.0, 10.0, 10.0, np.nan, np.inf, 0.0, 0.0]], np.float32)
    disparity = np.array([[10.1, 40.0, -1.0, 10.0, -1.0, 1.0, 1.01]], np.float32)
    picture = pictures.error_picture(disparity, truth, disparity >= 0)
    # A pixel at the limit of a step belongs to it.
    steps = [colour for limit, colour in pictures.ERROR_STEPS if limit in (1.0, 2.0)]
    assert picture[0].tolist() == [list(colour) for colour in (
        pictures.ERROR_STEPS[0][1], pictures.ERROR_STEPS[-1][1], pictures.MISSING,
        pictures.UNKNOWN, pictures.UNKNOWN, *steps)]
    legend = {tuple(map(int, colour)) for colour in pictures.error_bar(240)[:, 1]}
    assert {colour for _, colour in pictures.ERROR_STEPS} <= legend


def test_a_comparison_has_two_panels_without_truth_and_four_with_at_any_size():
    height, width = SIZES[0]
    left = np.full((height, width), 128, np.uint8)
    disparity = ramp(height, width, 60)
    maps = {'bp': (disparity, None)}
    without = pictures.comparison(left, maps, high=60).picture
    full = pictures.comparison(left, maps, truth=disparity, high=60).picture
    assert 2 * width < without.shape[1] < 3 * width
    assert full.shape[0] > 2 * height
    wide, boxes = pictures.comparison(np.zeros((370, 1226), np.uint8), {
        'bp': (np.zeros((370, 1226)), None)})
    assert wide.shape[0] > 2 * 370
    assert wide.shape[1] < 1.5 * 1226
    # Where the panels are: the left image is black, the disparities have one colour.
    for number, (left, top, right, bottom) in enumerate(
            (x, y, x + across, y + down) for x, y, across, down in boxes):
        panel = wide[round(top * wide.shape[0]):round(bottom * wide.shape[0]),
                     round(left * wide.shape[1]):round(right * wide.shape[1])]
        assert panel.shape == (370, 1226, 3)
        assert (panel == panel[0, 0]).all()
        assert panel.any() == bool(number)
    good = (full == pictures.ERROR_STEPS[0][1]).all(axis=2).sum()
    assert good >= height * width
    for size in ((1, 1), (2, 40), (23, 30)):
        image, disparity = np.zeros(size, np.uint8), np.full(size, 3.0, np.float32)
        drawn, _ = pictures.comparison(image, {'bp': (disparity, np.ones(size, bool))}, high=7.0)
        assert min(drawn.shape[0] - size[0], drawn.shape[1] - size[1]) > 0
    with pytest.raises(ValueError, match='0 panels'):
        pictures.sheet([])


def test_inputs_of_all_kinds_become_bgr():
    assert pictures.grey_picture(np.full((2, 3), 7, np.uint8))[0, 0].tolist() == [7, 7, 7]
    wide = np.array([[0, 2000], [4000, 1000]], np.uint16)
    assert pictures.grey_picture(wide)[1, 0].tolist() == [255, 255, 255]
    colour = np.full((2, 3, 3), (1, 2, 3), np.uint8)
    assert pictures.grey_picture(colour)[0, 0].tolist() == [3, 2, 1]


@pytest.mark.parametrize(('height', 'width'), SIZES)
def test_captions_are_legible_and_stay_between_the_panels(height, width):
    picture = np.full((height, width, 3), 200, np.uint8)
    long = 'a caption that is much longer than its panel is wide ' * 2
    plain, _ = pictures.sheet([('', picture), ('', picture)])
    captioned, _ = pictures.sheet([('disparity', picture), (long, picture)])
    assert captioned.shape == plain.shape
    changed = (captioned != plain).any(axis=2)
    assert not changed[inked(plain)].any()
    rows = np.flatnonzero(changed.any(axis=1))
    assert rows[-1] - rows[0] + 1 >= 9
    assert captioned[changed].max() > 180
    cols = np.flatnonzero(changed.any(axis=0))
    assert cols[-1] < plain.shape[1] - 4


@pytest.mark.parametrize(('height', 'width'), SIZES)
@pytest.mark.parametrize('high', [15.0, 255.5, 0.3])
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
