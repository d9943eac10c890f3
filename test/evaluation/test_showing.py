"""Which frames a page shows, and where in the image errors are, in memory that does not grow."""

from __future__ import annotations

import base64
import dataclasses
import pickle

import cv2
import numpy as np
import pytest

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.evaluation import plots
from stereo_bp_ros.evaluation.showing import MAX_BLOCKS, SPREAD, WORST, Showing, View, bad_pixels
from stereo_bp_ros.images import pictures
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
    return [shot._replace(uri='', values=None) for shot in shown.worst_first()]


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
    np.testing.assert_array_equal(both.errors['bp', 48, 12].bad, whole.errors['bp', 48, 12].bad)
    assert both.errors['bp', 48, 12].frames == FRAMES
    assert parts[0].errors['bp', 48, 12].frames == 15     # the parts stay as they are


def test_the_picture_of_a_frame_has_its_truth_and_confidence(monkeypatch):
    drawn = []
    monkeypatch.setattr(pictures, 'sheet', lambda panels, *_: drawn.append(
        [caption.partition(',')[0] for caption, _ in panels])
        or pictures.Sheet(np.zeros((1, 1, 3), np.uint8), []))
    shown = Showing(2)
    shown.add(0, pages.view(0, 0.5), lambda: {'bp': np.ones((48, 96), np.float32)})
    shown.add(1, pages.view(1, 0.5, has_truth=False))
    assert drawn == [['left image', 'ground truth', 'disparity', 'error', 'confidence'],
                     ['left image', 'disparity']]


def test_every_matcher_is_beside_the_others_in_the_same_colours(monkeypatch):
    drawn, ends = [], []
    monkeypatch.setattr(pictures, 'sheet', lambda panels, columns, legends: drawn.append(
        (columns, panels)) or pictures.Sheet(np.zeros((1, 1, 3), np.uint8), []))
    monkeypatch.setattr(plots, 'rate_map', lambda rate, block, high: ends.append(high))
    monkeypatch.setattr(plots, 'data_uri', lambda _: 'data:image/png;base64,AAAA')
    ours, theirs = (pages.view(0, wrong, matcher=name, size=(40, 160))
                    for name, wrong in (('road', 0.25), ('sgbm', 0.5)))
    shown = Showing(1)
    shown.add(0, dataclasses.replace(ours, maps=ours.maps | theirs.maps), lambda: {
        'road': np.full((40, 160), 0.5, np.float32)})
    columns, panels = drawn[0]
    # Wide pictures are stacked, a row a matcher.
    assert (columns, [caption for caption, _ in panels]) == (2, [
        'left image', 'ground truth', 'disparity of road', 'error of road', 'disparity of sgbm',
        'error of sgbm', 'confidence of road, blue = 0 to yellow = 1'])
    np.testing.assert_array_equal(panels[2][1][:, -40:], panels[4][1][:, -40:])
    assert shown.shots[0].caption == (
        'frame 1, road 25.00 %, sgbm 50.00 % wrong by more than 3 px or without a disparity')
    assert shown.shots[0].badness == 25         # the first matcher's
    assert [part.title for part in shown.maps()] == [
        'Images of 160 x 40 pixels, road', 'Images of 160 x 40 pixels, sgbm']
    assert len(set(ends)) == 1


@pytest.mark.parametrize('size', [(48, 96), (375, 1242), (1, 1), (900, 7)])
def test_the_values_of_a_place_are_those_of_the_arrays(size):
    random = np.random.default_rng(2)
    height, width = size
    road, sgbm, truth = random.uniform(-3, 300, (3, *size)).astype(np.float32)
    valid = random.random(size) < 0.8
    road[random.random(size) < 0.1] = np.nan
    truth[random.random(size) < 0.7] = np.nan
    truth[0, 0] = 299
    trust = random.random(size).astype(np.float32)
    shown = Showing(1)
    shown.add(0, View('a', np.zeros(size, np.uint8), {
        'road': (road, valid), 'sgbm': (sgbm, np.ones(size, bool))}, truth, 0, 300,
        Calibration(700, 0.5, 3, 1, 0)), lambda: {'road': trust})
    values = shown.shots[0].values
    assert (values.names, values.size) == (('road', 'sgbm', 'ground truth'), (width, height))
    assert (values.scale, values.shift) == (350, 2)
    assert len(values.boxes) == 7
    assert len(values.uri) <= len(shown.shots[0].uri) or values.block >= max(size)
    png = cv2.imdecode(np.frombuffer(base64.b64decode(values.uri.split(',')[1]), np.uint8), 1)
    block = values.block
    blocks = np.split(png.astype(int), 3)
    known = 0
    places = list(np.ndindex(blocks[0].shape[:2]))
    for place in [places[0], *map(tuple, random.choice(places, 200))]:
        rows, columns = (slice(block * one, block * one + block) for one in place)
        found = [values.low + (256 * one[place][2] + one[place][1] - 1) * values.step
                 if one[place][2] or one[place][1] else np.nan for one in blocks]
        arrays = [np.where(valid, road, np.nan), sgbm, truth]
        # One pixel of the block has all of them; it has a truth where one has.
        same = [np.isclose(found[i], arrays[i][rows, columns], atol=values.step / 2 + 1e-4,
                           equal_nan=True) for i in range(3)]
        assert (same[0] & same[1] & same[2]).any()
        assert np.isnan(found[2]) == (not np.isfinite(truth[rows, columns]).any())
        at = np.argmax(same[0] & same[1] & same[2])
        assert abs(blocks[0][place][0] / 255 - trust[rows, columns].flat[at]) < 1 / 500
        known += not np.isnan(found[0])
    assert known or size == (1, 1)
    assert not np.concatenate(blocks[1:])[..., 0].any()     # they have no confidence


def test_a_map_has_the_rate_of_each_block():
    truth = np.full((48, 96), 20, np.float32)
    truth[:, 92:] = np.nan
    disparity = truth.copy()
    disparity[:4, :4] = 30
    disparity[4:8, 4:6] = 30
    shown = Showing(2)
    for place, one in enumerate((disparity, truth)):
        shown.add(place, View('', np.zeros((48, 96), np.uint8), {
            'bp': (one, np.ones((48, 96), bool))}, truth, 0, 63))
    sums = shown.errors['bp', 96, 48]
    assert (sums.block, sums.frames, sums.rate.shape) == (4, 2, (12, 24))
    assert (sums.rate[0, 0], sums.rate[1, 1], sums.rate[0, 1]) == (50, 25, 0)
    assert np.isnan(sums.rate[:, 23]).all()


@pytest.mark.parametrize('size', [(1, 1), (7, 5), (375, 1242), (3000, 100)])
def test_no_pixel_of_any_size_is_lost_from_a_map(size):
    valid = np.random.default_rng(1).random(size) < 0.3
    shown = Showing(1)
    shown.add(0, View('', np.zeros(size, np.uint8), {'bp': (np.ones(size), valid)}, None, 0, 63))
    sums = shown.holes['bp', size[1], size[0]]
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
        'frame 3, bp 50.00 % wrong by more than 3 px or without a disparity',
        'frame 2, bp 25.00 % wrong by more than 3 px or without a disparity',
        'frame 1, bp 0.00 % without a disparity', 'frame 4, bp 0.00 % without a disparity']
    assert [sizes['bp', 96, 48].frames for sizes in (shown.errors, shown.holes)] == [2, 2]
    assert 'of those with truth' in shown.maps()[0].note
    shown.errors.clear()
    assert 'Pixels without a disparity' in shown.maps()[0].note
