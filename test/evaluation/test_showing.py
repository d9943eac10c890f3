"""Which frames a page shows, and where in the image errors are, in memory that does not grow."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from stereo_bp_ros import pictures
from stereo_bp_ros.evaluation.showing import MAX_BLOCKS, SPREAD, WORST, Showing, bad_pixels
from test.evaluation import pages

FRAMES = 60


@pytest.fixture
def wrong():
    """The share of wrong pixels of frames, some equally bad."""
    return np.random.default_rng(3).integers(0, 40, FRAMES) / 48


def collected(wrong, places=None, frames=FRAMES) -> Showing:
    shown = Showing(frames)
    for place in range(frames) if places is None else places:
        shown.add(place, pages.view(place, wrong[place], size=(12, 48)))
        assert len(shown.shots) <= WORST + SPREAD
    return shown


def shots(shown: Showing) -> list:
    return [shot._replace(uri='') for shot in shown.worst_first()]


def test_the_worst_frames_and_evenly_spread_ones_are_shown_and_no_others_kept(wrong, monkeypatch):
    drawn = []
    monkeypatch.setattr(pictures, 'data_uri', lambda picture: drawn.append(1) or '')
    places = [one.place for one in collected(wrong).worst_first()]
    worst = sorted(range(FRAMES), key=lambda place: (-wrong[place], place))[:WORST]
    spread = {round(place) for place in np.linspace(0, FRAMES - 1, SPREAD)}
    assert {0, FRAMES - 1} <= spread
    assert set(places) == set(worst) | spread
    assert [wrong[one] for one in places] == sorted((wrong[one] for one in places), reverse=True)
    # Only frames that may stay are drawn.
    drawn.clear()
    collected(np.linspace(0.9, 0, FRAMES))
    assert len(drawn) <= WORST + SPREAD + 1
    sizes = [len(pickle.dumps(collected(np.tile(wrong, 4), frames=frames)))
             for frames in (FRAMES, 4 * FRAMES)]
    assert sizes[1] < 1.1 * sizes[0]
    # A short sequence is shown whole.
    for frames in (0, 3, WORST + SPREAD):
        assert len(collected(np.arange(frames) / 99, frames=frames).shots) == frames


def test_the_order_and_the_parts_in_which_frames_come_make_no_difference(wrong):
    whole = collected(wrong)
    order = np.random.default_rng(0).permutation(FRAMES).tolist()
    parts = [collected(wrong, order[start:start + 15]) for start in range(0, FRAMES, 15)]
    both = parts[2] + parts[0] + parts[3] + parts[1]
    assert both.shots == whole.shots
    assert shots(collected(wrong, order)) == shots(whole)
    np.testing.assert_array_equal(both.errors[48, 12].bad, whole.errors[48, 12].bad)
    assert both.errors[48, 12].frames == FRAMES
    assert parts[0].errors[48, 12].frames == 15     # the parts stay as they are


def test_the_picture_of_a_frame_has_its_truth_and_confidence(monkeypatch):
    drawn = []
    monkeypatch.setattr(pictures, 'sheet', lambda panels, *_: drawn.append(
        [caption.partition(',')[0] for caption, _ in panels]) or np.zeros((1, 1, 3), np.uint8))
    shown = Showing(2)
    shown.add(0, pages.view(0, 0.5), lambda: np.ones((48, 96), np.float32))
    shown.add(1, pages.view(1, 0.5, has_truth=False))
    assert drawn == [['left image', 'disparity', 'ground truth', 'error', 'confidence'],
                     ['left image', 'disparity']]


def test_a_map_has_the_rate_of_each_block():
    truth = np.full((48, 96), 20, np.float32)
    truth[:, 92:] = np.nan
    disparity = truth.copy()
    disparity[:4, :4] = 30
    disparity[4:8, 4:6] = 30
    shown = Showing(2)
    for place, one in enumerate((disparity, truth)):
        shown.add(place, pages.View('', np.zeros((48, 96), np.uint8), one, np.ones((48, 96), bool),
                                    truth, 0, 63))
    sums = shown.errors[96, 48]
    assert (sums.block, sums.frames, sums.rate.shape) == (4, 2, (12, 24))
    assert (sums.rate[0, 0], sums.rate[1, 1], sums.rate[0, 1]) == (50, 25, 0)
    assert np.isnan(sums.rate[:, 23]).all()


@pytest.mark.parametrize('size', [(1, 1), (7, 5), (375, 1242), (3000, 100)])
def test_no_pixel_of_any_size_is_lost_from_a_map(size):
    valid = np.random.default_rng(1).random(size) < 0.3
    shown = Showing(1)
    shown.add(0, pages.View('', np.zeros(size, np.uint8), np.ones(size), valid, None, 0, 63))
    sums = shown.holes[size[::-1]]
    assert max(sums.bad.shape) <= MAX_BLOCKS
    assert (sums.bad.sum(), sums.looked_at.sum()) == (np.count_nonzero(~valid), valid.size)


def test_holes_and_large_errors_are_bad_where_there_is_truth():
    truth = np.array([[10, 10, 10, np.nan, 10]], np.float32)
    disparity = np.array([[10, 13.5, 12.9, 99, np.nan]], np.float32)
    bad, known = bad_pixels(disparity, np.ones((1, 5), bool), truth)
    assert bad.tolist() == [[False, True, False, False, True]]
    assert known.tolist() == [[True, True, True, False, True]]
    bad, known = bad_pixels(disparity, np.array([[True, False, True, True, True]]), None)
    assert bad.tolist() == [[False, True, False, False, True]]
    assert known.all()


def test_frames_with_truth_are_worse_than_frames_without():
    pytest.importorskip('matplotlib')
    unknown = pages.view(3, 0.5)
    unknown.truth[:] = np.inf
    shown = Showing(4)
    shown.add(0, pages.view(0, 0.9, has_truth=False))
    shown.add(1, pages.view(1, 0.25))
    shown.add(2, pages.view(2, 0.5))
    shown.add(3, unknown)
    assert [one.caption for one in shown.worst_first()] == [
        'frame 3, 50.00 % wrong by more than 3 px or without a disparity',
        'frame 2, 25.00 % wrong by more than 3 px or without a disparity',
        'frame 1, 0.00 % without a disparity', 'frame 4, 0.00 % without a disparity']
    assert (shown.errors[96, 48].frames, shown.holes[96, 48].frames) == (2, 2)
    assert 'of those with truth' in shown.maps()[0].note
    shown.errors.clear()
    assert 'Pixels without a disparity' in shown.maps()[0].note
