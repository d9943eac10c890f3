"""Figures without a truth, on maps whose faults are known."""

import dataclasses
import re

import numpy as np
import pytest

from stereo_bp_ros.evaluation import consistency
from stereo_bp_ros.evaluation.consistency import Consistency, View, judge_consistency

HEIGHT, WIDTH, SHIFT = 40, 60, 4


def textured(seed=0, noise=0.0):
    """A pair of one disparity, ``SHIFT``, of random texels 3 pixels wide."""
    random = np.random.default_rng(seed)
    texture = np.kron(random.integers(40, 200, (HEIGHT // 4, WIDTH // 3 + 4)), np.ones((4, 3)))
    left, right = texture[:, :WIDTH], texture[:, SHIFT:WIDTH + SHIFT]
    return tuple((image + random.normal(0, noise, image.shape)).astype(np.uint8)
                 for image in (left, right))


def view(disparity=SHIFT, images=None):
    left, right = images or textured()
    return View(left, right, np.full(left.shape, disparity, np.float32),
                np.ones(left.shape, bool))


def mirrored(disparity=SHIFT):
    return (np.full((HEIGHT, WIDTH), disparity, np.float32), np.ones((HEIGHT, WIDTH), bool))


def figures(*arguments):
    return judge_consistency(*arguments).as_dict()


def test_a_match_that_the_mirrored_one_repeats_within_a_pixel_is_confirmed():
    for disparity, agrees in ((4, 100), (5, 100), (3, 100), (5.1, 0)):
        found = judge_consistency(view(), mirrored(disparity))
        assert found.partners == HEIGHT * (WIDTH - SHIFT)       # the others' are outside
        shares = found.as_dict()
        assert (shares['confirmed'], shares['contradicted']) == (agrees, 100 - agrees)


def test_the_partner_is_looked_up_in_the_mirrored_image():
    # Columns of the right image, from the left: 10 to 19 have another disparity, 20 to 24 none.
    other, is_known = (part.copy() for part in mirrored())
    columns = np.arange(WIDTH)[::-1]
    other[:, (columns >= 10) & (columns < 20)] = 30
    is_known[:, (columns >= 20) & (columns < 25)] = False
    other[0, columns == 20] = np.nan
    found = judge_consistency(view(), (other, is_known))
    assert found.contradicted == HEIGHT * 10
    assert found.confirmed == HEIGHT * (WIDTH - SHIFT - 15)


def test_the_partner_of_a_fraction_is_the_nearest_column():
    # Of columns x the partners are x - 4.4 = ... .6: the next larger column.
    other, is_known = (part.copy() for part in mirrored(4.4))
    is_known[:, WIDTH - 1 - 30] = False                     # column 30 of the right image
    one = view(4.4)
    one.valid[:, :34] = one.valid[:, 35:] = False           # leaves column 34
    assert judge_consistency(one, (other, is_known)).confirmed == 0
    one.valid[:, 34:36] = [[False, True]]                   # 35: its partner is 31
    assert judge_consistency(one, (other, is_known)).confirmed == HEIGHT


def test_the_right_match_has_no_photometric_error_and_a_wrong_one_has():
    right, wrong = figures(view(), mirrored()), figures(view(SHIFT + 3), mirrored())
    assert right['grey_mean'] == pytest.approx(0, abs=1e-6)
    assert wrong['grey_mean'] > 20
    left, right = textured()
    left = left.copy()
    left[:, 44:] -= 8                       # 16 of the 56 columns with a partner
    found = figures(view(images=(left, right)), mirrored())
    assert found['grey_mean'] == pytest.approx(8 * 16 / 56, abs=0.01)


def test_grey_values_are_interpolated_between_pixels():
    _, right = textured()
    right = right & 0xfe
    # At a disparity of 2.5 a pixel shows the mean of the pixels 3 and 2 to the left.
    left = (np.roll(right, 3, axis=1) // 2 + np.roll(right, 2, axis=1) // 2).astype(np.uint8)
    assert figures(view(2.5, (left, right)), mirrored(2.5))['grey_mean'] == pytest.approx(
        0, abs=1e-6)
    assert figures(view(2, (left, right)), mirrored(2))['grey_mean'] > 5


def test_gain_and_offset_are_taken_away_whatever_a_quarter_of_the_pixels_says():
    random = np.random.default_rng(3)
    right = random.uniform(20, 180, 5000)
    left = 1.2 * right - 7 + random.normal(0, 1, right.size)
    left[::4] = random.uniform(0, 255, left[::4].size)
    gain, offset = consistency.exposure(left, right)
    assert gain == pytest.approx(1.2, abs=0.01)
    assert offset == pytest.approx(-7, abs=1)
    # Plain images have no gain.
    assert consistency.exposure(np.full(9, 90.0), np.full(9, 80.0)) == (1, 10)
    assert consistency.exposure(np.empty(0), np.empty(0)) == (1, 0)


def test_static_pixels_that_change_their_disparity_flicker():
    before, after = view(), view()
    after.disparity[:, 30:36] += 1.5
    after.disparity[:, 50:] += 1            # no more than a pixel
    found = judge_consistency(after, mirrored(), before)
    assert found.followed == HEIGHT * WIDTH
    assert found.static == HEIGHT * (WIDTH - SHIFT)         # with a partner
    assert found.flickering == HEIGHT * 6
    assert found.as_dict()['flicker'] == pytest.approx(100 * 6 / 56)
    before.valid[:5] = False
    after.valid[:, :20] = False
    assert judge_consistency(after, mirrored(), before).followed == (HEIGHT - 5) * (WIDTH - 20)
    alone = figures(view(), mirrored())
    assert (alone['static'], alone['flicker']) == (None, None)
    after.valid[:] = False
    assert set(figures(after, mirrored(), before).values()) == {None}


def test_pixels_that_move_in_either_image_do_not_flicker():
    before = view()
    for side, column in (('left', 30), ('right', 30 - SHIFT)):
        changed = getattr(before, side).copy()
        changed[10, column] += 50
        after = dataclasses.replace(before, disparity=before.disparity + 9, **{side: changed})
        found = judge_consistency(after, mirrored(), before)
        # The pixel and its eight neighbours.
        assert found.static == HEIGHT * (WIDTH - SHIFT) - 9
        assert found.flickering == found.static


def test_noise_is_measured_and_static_pixels_stay_within_it():
    random = np.random.default_rng(4)
    plain = np.full((200, 200), 128.0)
    plain[:, 100:] = 30                     # an edge is no noise
    frames = [np.rint(plain + random.normal(0, 4, plain.shape)).astype(np.uint8)
              for _ in range(2)]
    assert consistency.noise(frames[0]) == pytest.approx(4, rel=0.05)
    assert consistency.still(*frames).mean() > 0.95
    moved = np.rint(plain + 30 + random.normal(0, 4, plain.shape)).astype(np.uint8)
    assert consistency.still(frames[0], moved).mean() < 0.05
    # Without noise they may differ by a grey level.
    clean = plain.astype(np.uint8)
    assert consistency.still(clean, clean + 1).all()
    assert not consistency.still(clean, clean + 2).any()


def test_frames_add_up():
    first = judge_consistency(view(), mirrored(), view())
    second = judge_consistency(view(SHIFT + 3), mirrored(30), view())
    both = first + second
    assert both.partners == first.partners + second.partners
    assert both.grey == first.grey + second.grey
    assert both.as_dict()['confirmed'] == pytest.approx(100 * 56 / (56 + 53))
    assert first + Consistency() == first


def test_the_page_of_metrics_has_every_key_and_limit(repository):
    page = (repository / 'docs/reference/metrics.md').read_text()
    assert consistency.MEANINGS.keys() == Consistency().as_dict().keys()
    assert [key for key in consistency.MEANINGS if f'`{key}`' not in page] == []
    assert re.search(r'disparity has changed by more than 1 px', page)
    assert consistency.AGREEMENT_PX == 1
