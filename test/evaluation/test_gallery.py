"""Which frames a page shows, and where in the image errors are, in memory that does not grow."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from stereo_bp_ros.evaluation.error_map import BLOCKS, ErrorMap, bad_pixels
from stereo_bp_ros.evaluation.gallery import SPREAD, WORST, Gallery, Shot
from stereo_bp_ros.evaluation.showing import Showing
from test.evaluation import pages


def shot(place, badness):
    return Shot(place, str(place), badness, '', (), 1.0)


def filled(badness, places=None):
    gallery = Gallery(len(badness))
    for place in range(len(badness)) if places is None else places:
        gallery.offer(place, badness[place], lambda place=place: shot(place, badness[place]))
    return gallery


@pytest.fixture
def badness():
    """Of 500 frames, some equally bad."""
    return np.random.default_rng(3).integers(0, 60, 500).astype(float).tolist()


def test_a_gallery_keeps_the_worst_frames_and_evenly_spread_ones(badness):
    shots = filled(badness).shots()
    places = [one.place for one in shots]
    worst = sorted(range(500), key=lambda place: (-badness[place], place))[:WORST]
    spread = {round(place) for place in np.linspace(0, 499, SPREAD)}
    assert {0, 499} <= spread
    assert set(places) == set(worst) | spread
    assert [one.badness for one in shots] == sorted((badness[one] for one in places),
                                                    reverse=True)


def test_the_order_and_the_parts_in_which_frames_come_make_no_difference(badness):
    whole = filled(badness).shots()
    order = np.random.default_rng(0).permutation(500).tolist()
    assert filled(badness, order).shots() == whole
    parts = [filled(badness, order[start:start + 125]) for start in range(0, 500, 125)]
    assert (parts[2] + parts[0] + parts[3] + parts[1]).shots() == whole


def test_a_short_sequence_is_kept_whole():
    assert len(filled([float(k) for k in range(WORST + SPREAD)]).shots()) == WORST + SPREAD
    assert len(filled([float(k) for k in range(WORST + SPREAD + 1)]).shots()) < WORST + SPREAD
    assert [one.place for one in filled([1.0, 3.0, 2.0]).shots()] == [1, 2, 0]
    assert filled([]).shots() == []


def test_only_frames_that_may_stay_are_drawn_and_never_more_are_kept():
    drawn = []
    gallery = Gallery(10_000)
    for place in range(10_000):
        gallery.offer(place, -float(place), lambda place=place: drawn.append(place)
                      or shot(place, -float(place)))
        assert len(gallery._shots) <= WORST + SPREAD
    assert len(drawn) == WORST + SPREAD - 1     # the first frame is both


def test_an_error_map_has_the_rate_of_each_block():
    bad = np.zeros((48, 96), bool)
    bad[:4, :4] = True
    bad[4:8, 4:6] = True
    looked_at = np.ones((48, 96), bool)
    looked_at[:, 92:] = False
    errors = ErrorMap()
    errors.add(bad, looked_at)
    errors.add(np.zeros_like(bad), looked_at)
    sums = errors.sizes[96, 48]
    assert (sums.block, sums.frames) == (4, 2)
    rate = sums.rate()
    assert rate.shape == (12, 24)
    assert (rate[0, 0], rate[1, 1], rate[0, 1]) == (50, 25, 0)
    assert np.isnan(rate[:, 23]).all()


@pytest.mark.parametrize('size', [(1, 1), (7, 5), (375, 1242), (1080, 1920), (3000, 100)])
def test_no_pixel_of_any_size_is_lost_from_a_map(size):
    random = np.random.default_rng(1)
    bad, looked_at = random.random(size) < 0.3, random.random(size) < 0.8
    errors = ErrorMap()
    errors.add(bad, looked_at)
    sums = errors.sizes[size[::-1]]
    assert max(sums.bad.shape) <= BLOCKS
    assert sums.bad.sum() == np.count_nonzero(bad & looked_at)
    assert sums.looked_at.sum() == np.count_nonzero(looked_at)


def test_maps_of_parts_add_up_by_size():
    masks = [(np.random.default_rng(k).random(size) < 0.5, np.ones(size, bool))
             for k, size in enumerate([(20, 30), (20, 30), (40, 30), (20, 30)])]
    whole, first, second = ErrorMap(), ErrorMap(), ErrorMap()
    for number, mask in enumerate(masks):
        whole.add(*mask)
        (first if number < 2 else second).add(*mask)
    both = second + first
    assert list(both.by_frames()) == [(30, 20), (30, 40)]
    for size, sums in whole.sizes.items():
        np.testing.assert_array_equal(both.sizes[size].bad, sums.bad)
        assert both.sizes[size].frames == sums.frames
    assert first.sizes[30, 20].frames == 2      # the parts stay as they are


def test_holes_and_large_errors_are_bad_where_there_is_truth():
    truth = np.array([[10, 10, 10, np.nan, 10]], np.float32)
    disparity = np.array([[10, 13.5, 12.9, 99, np.nan]], np.float32)
    bad, known = bad_pixels(disparity, np.ones((1, 5), bool), truth, 3.0)
    assert bad.tolist() == [[False, True, False, False, True]]
    assert known.tolist() == [[True, True, True, False, True]]
    bad, known = bad_pixels(disparity, np.array([[True, False, True, True, True]]), None, 3.0)
    assert bad.tolist() == [[False, True, False, False, True]]
    assert known.all()


def test_frames_with_truth_are_worse_than_frames_without():
    shown = Showing(3)
    shown.add(0, pages.view(0, 0.9, has_truth=False))
    shown.add(1, pages.view(1, 0.25))
    shown.add(2, pages.view(2, 0.5))
    assert [one.place for one in shown.gallery.shots()] == [2, 1, 0]
    assert [one.caption for one in shown.gallery.shots()] == [
        'frame 3, 50.00 % wrong by more than 3 px or without a disparity',
        'frame 2, 25.00 % wrong by more than 3 px or without a disparity',
        'frame 1, 0.00 % without a disparity']
    assert shown.errors.sizes[96, 48].frames == 2
    assert shown.holes.sizes[96, 48].frames == 1
    assert 'of those with truth' in shown.maps()[0].to_html()


def test_a_frame_whose_truth_is_unknown_everywhere_has_none():
    one = pages.view(0, 0.5)
    one.truth[:] = np.inf
    shown = Showing(1)
    shown.add(0, one)
    assert not shown.errors.sizes
    assert 'Pixels without a disparity' in shown.maps()[0].to_html()
    assert [caption for caption, _ in shown.gallery.shots()[0].panels] == [
        'image', 'disparity, 0 to 63 px']


def test_what_is_collected_does_not_grow_with_the_sequence():
    sizes = []
    for frames in (100, 400):
        shown = Showing(frames)
        for place in range(frames):
            shown.add(place, pages.view(place, (place * 7919 % frames) / frames))
        sizes.append(len(pickle.dumps(shown)))
    assert sizes[1] < 1.1 * sizes[0]


def test_parts_of_a_sequence_show_what_the_whole_does():
    parts = [Showing(6), Showing(6)]
    whole = Showing(6)
    for place in range(6):
        for shown in (parts[place % 2], whole):
            shown.add(place, pages.view(place, place / 10))
    both = parts[0] + parts[1]
    assert both.gallery.shots() == whole.gallery.shots()
    assert [one.to_html() for one in both.maps()] == [one.to_html() for one in whole.maps()]
