"""From points of pairs to a correction: each term, how sure it is, and when it is used."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.cameras.rectification import RightWarp
from stereo_bp_ros.cameras.row_correction import TERMS, RowCorrection, places
from stereo_bp_ros.cameras.row_estimator import (
    MAX_RATE_PX_S,
    MIN_CORRECTION_PX,
    MIN_POINTS,
    RowEstimator,
)

WIDTH, HEIGHT, FOCAL = 1242, 375, 720.0
CX, CY = (WIDTH - 1) / 2, (HEIGHT - 1) / 2
#: By which two ways to add the same numbers differ at most, and more.
ROUNDING_PX = 1e-9
#: Terms of errors that cameras have, pixels.
ERRORS = {'offset': (1.5, 0, 0, 0, 0), 'pitch': (1.9, 0, 0, 0, 1.9), 'roll': (0, 3.8, 0, 0, 0),
          'focal length': (0, 0, 7.2, 0, 0), 'keystone': (0, 0, 0, 6, 0),
          'all': (1, -2, 3, 2, 1)}


class Pairs:
    """Points of pairs, a pair a second, and the estimator that is told of them."""

    def __init__(self, seed: int = 0, **settings: float) -> None:
        self.random = np.random.default_rng(seed)
        self.estimator = RowEstimator(WIDTH, HEIGHT, focal_px=FOCAL, **settings)
        self.time_s = 0.0

    def points(self, terms: Sequence[float], count: int = 200, sigma: float = 0.15,
               outliers: float = 0.1, width: float = WIDTH) -> np.ndarray:
        x, y = self.random.uniform(0, (width, HEIGHT), (count, 2)).T
        u, v = (x - CX) / FOCAL, (y - CY) / FOCAL
        dy = np.asarray(terms) @ (u**0, u, v, u * v, v * v) + self.random.normal(0, sigma, count)
        wrong = self.random.random(count) < outliers
        dy[wrong] = self.random.uniform(-6, 6, np.count_nonzero(wrong))
        return np.stack([x, y, dy], axis=1)

    def see(self, terms: Sequence[float], pairs: int = 1, step_s: float = 1.0, **points: float
            ) -> None:
        for _ in range(pairs):
            self.estimator.add(self.points(terms, **points), self.time_s)
            self.time_s += step_s

    def rows(self, time_s: float | None = None) -> np.ndarray:
        """What is corrected at places all over the image, rows."""
        found = self.estimator.correction(self.time_s if time_s is None else time_s)
        return grid(found) if found else np.zeros(25)


def correction(terms: Sequence[float]) -> RowCorrection:
    return RowCorrection(tuple(map(float, terms)), FOCAL, CX, CY)


def grid(found: RowCorrection) -> np.ndarray:
    x, y = np.meshgrid(np.linspace(0, WIDTH - 1, 5), np.linspace(0, HEIGHT - 1, 5))
    return found.rows(x.reshape(-1), y.reshape(-1))


@pytest.mark.parametrize('terms', ERRORS.values(), ids=ERRORS)
def test_each_error_is_corrected_everywhere_after_a_few_pairs(terms: Sequence[float]) -> None:
    pairs = Pairs()
    pairs.see(terms, 4)
    np.testing.assert_allclose(pairs.rows(pairs.time_s + 10), grid(correction(terms)), atol=0.12)
    assert pairs.estimator.state.reason == ''
    assert pairs.estimator.state.residual == pytest.approx(0.15, rel=0.3)


def test_the_largest_rows_of_an_estimate_and_of_its_correction_are_at_the_same_places() -> None:
    pairs = Pairs()
    pairs.see(ERRORS['all'], 5)
    state, target = pairs.estimator.state, pairs.estimator.target
    assert target is not None
    assert abs(target.max_offset(WIDTH, HEIGHT) - state.max_px) <= state.remaining_px + ROUNDING_PX
    x, y = places(WIDTH, HEIGHT)
    assert {(0, 0), (WIDTH - 1, HEIGHT - 1), (CX, CY)} <= set(zip(x, y, strict=True))


def test_rows_that_half_of_the_points_miss_are_those_of_points_and_not_of_far_corners() -> None:
    for terms, width, typical in (((1.5, 0, 0, 0, 0), WIDTH, 1.5), ((0, 0, 0, 9, 0), WIDTH, 0.4),
                                  ((0, 2, 0, 0, 0), 60.0, 1.65)):
        pairs = Pairs()
        assert pairs.estimator.state.typical() == 0
        pairs.see(terms, 3, width=width)
        state = pairs.estimator.state
        assert state.places.shape == (2, state.points)
        assert state.typical() == pytest.approx(typical, abs=0.12)
        assert state.typical(pairs.estimator.target) < 0.1


@pytest.mark.parametrize('name', ['offset', 'roll', 'focal length', 'keystone'])
def test_terms_that_the_points_do_not_need_are_left_out(name: str) -> None:
    pairs = Pairs()
    pairs.see(ERRORS[name], 4)
    estimate = pairs.estimator.state.estimate
    assert estimate is not None
    assert [bool(term) for term in estimate.terms] == [bool(term) for term in ERRORS[name]]


def test_points_that_are_not_spread_hold_few_terms() -> None:
    pairs = Pairs()
    pairs.see(ERRORS['all'], 4, width=60)
    estimate = pairs.estimator.state.estimate
    assert estimate is not None
    assert np.count_nonzero(estimate.terms) <= 2


def test_the_covariance_is_that_of_the_errors() -> None:
    squares = []
    for seed in range(40):
        pairs = Pairs(seed)
        pairs.see(ERRORS['roll'], 3)
        state = pairs.estimator.state
        assert state.estimate is not None
        squares.append((state.estimate.terms[1] - ERRORS['roll'][1]) / state.sigmas[1])
    # What no term explains is not in these points, so that it may be less than 1.
    assert 0.25 < np.mean(np.square(squares)) < 1.3


def test_the_homography_moves_places_by_the_rows_that_the_terms_say() -> None:
    for name, terms in ERRORS.items():
        h = np.reshape(correction(terms).homography(), (3, 3))
        for x, y in ((0.0, 0.0), (900.0, 50.0), (1241.0, 374.0)):
            place = h @ (x, y, 1)
            place = place[:2] / place[2]
            without = (*terms[:3], 0, terms[4])
            rows = correction(without).rows(np.array([x]), np.array([y]))[0]
            assert place[1] - y == pytest.approx(rows, abs=0.03), name
            if name == 'roll':
                assert place[0] - x == pytest.approx(-3.8 * (y - CY) / FOCAL)
    assert correction(ERRORS['all']) == correction(ERRORS['all'])
    assert len({correction(ERRORS['all']), correction(ERRORS['all'])}) == 1


def test_a_focal_length_is_undone_in_columns_where_rows_show_it_clearly() -> None:
    for scale, columns in ((7.2, 7.2), (-7.2, -7.2), (1.2, 0)):
        pairs = Pairs()
        pairs.see((0, 0, scale, 0, 0), 4)
        found = pairs.estimator.correction(pairs.time_s + 10)
        assert found is not None
        assert found.columns == pytest.approx(columns, abs=0.3)
        x = np.array([100.0, 200.0, 1])
        place = np.reshape(found.homography(), (3, 3)) @ x
        assert place[0] / place[2] - x[0] == pytest.approx(found.columns * (100 - CX) / FOCAL)


def test_a_keystone_is_undone_in_rows_alone() -> None:
    pairs = Pairs()
    pairs.see((0, 0, 0, 6, 0), 5)
    found = pairs.estimator.correction(pairs.time_s)
    assert found is not None
    assert found.terms == pytest.approx((0, 0, 0, 6, 0), abs=0.5)
    np.testing.assert_allclose(found.homography(), np.eye(3).reshape(-1), atol=1e-12)
    warp = RightWarp(found.warp())
    warp.prepare(None, WIDTH, HEIGHT)
    whole, part = warp.maps
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    np.testing.assert_array_equal(whole[..., 0] + part % 32 / 32, x)
    rows = found.rows(x.reshape(-1), y.reshape(-1)).reshape(HEIGHT, WIDTH)
    np.testing.assert_allclose(whole[..., 1] + part // 32 / 32 - y, rows, atol=1 / 60)


@pytest.mark.parametrize('terms', [(0, 0, 0, 0, 0), (0.1, 0, 0, 0, 0), (0, 0.1, 0, 0, 0)])
def test_a_harmless_pair_is_not_corrected(terms: Sequence[float]) -> None:
    for seed in range(4):
        pairs = Pairs(seed)
        for _ in range(30):
            pairs.see(terms)
            assert pairs.estimator.correction(pairs.time_s) is None
        assert pairs.estimator.state.reason == 'not significant'
    assert np.abs(grid(correction(terms))).max() < MIN_CORRECTION_PX


def test_nothing_is_corrected_beyond_the_limit_and_the_last_value_stays() -> None:
    pairs = Pairs(limit=2.0)
    pairs.see((3, 0, 0, 0, 0), 5)
    assert pairs.estimator.correction(pairs.time_s) is None
    assert pairs.estimator.state.reason == 'beyond the limit of 2 px'
    pairs = Pairs(limit=2.0)
    pairs.see((1, 0, 0, 0, 0), 5)
    pairs.see((3, 0, 0, 0, 0), 5)
    np.testing.assert_allclose(pairs.rows(), 1, atol=0.1)
    assert 'limit' in pairs.estimator.state.reason
    pairs.see((1.8, 0, 0, 0, 0), 5)
    np.testing.assert_allclose(pairs.rows(), 1.8, atol=0.1)


def test_a_bump_is_adopted_within_two_seconds_and_one_pair_alone_is_none() -> None:
    pairs = Pairs()
    pairs.see((0.5, 0, 0, 0, 0), 10)
    pairs.see((2, 0, 0, 0, 0))
    assert pairs.estimator.wants_pair
    np.testing.assert_allclose(pairs.rows(), 0.5, atol=0.1)
    pairs.see((0.5, 0, 0, 0, 0), 3)
    assert not pairs.estimator.wants_pair
    np.testing.assert_allclose(pairs.rows(), 0.5, atol=0.1)
    bumped = pairs.time_s
    pairs.see((2, 0, 0, 0, 0), 2)           # at once, and after a second
    assert not pairs.estimator.wants_pair
    np.testing.assert_allclose(pairs.rows(bumped + 2), 2, atol=0.1)


def test_pairs_that_go_on_contradicting_each_other_are_not_asked_for_at_once() -> None:
    pairs = Pairs()
    pairs.see((0, 0, 0, 0, 0))
    assert pairs.estimator.wants_pair
    pairs.estimator.add(np.zeros((0, 3)), pairs.time_s)
    assert not pairs.estimator.wants_pair
    pairs.see((0, 0, 0, 0, 0), 5)
    for number, offset in enumerate((2.0, -2.0, 3.0, -3.0, 2.0)):
        pairs.see((offset, 0, 0, 0, 0))
        assert pairs.estimator.wants_pair is (number == 0)
        assert pairs.estimator.correction(pairs.time_s) is None
        assert pairs.estimator.state.reason == 'a pair contradicts those before it'


def test_a_correction_moves_by_small_steps() -> None:
    pairs = Pairs()
    pairs.see((3, 1, 0, 0, 0), 3)
    times = np.arange(1.0, 5, 1 / 30)
    rows = np.array([pairs.rows(time) for time in times])
    assert np.abs(np.diff(rows, axis=0)).max() < MAX_RATE_PX_S / 30 + 0.11
    np.testing.assert_allclose(rows[-1], grid(correction((3, 1, 0, 0, 0))), atol=0.1)
    # Of few values: each is another map for the engines.
    assert len(np.unique(rows[:, 0])) < 60


def test_a_drift_is_followed_within_a_tenth_of_a_pixel() -> None:
    pairs = Pairs()
    worst = 0.0
    for second in range(60):
        drift = (0.05 * second, 0, 0, 0, 0)
        pairs.see(drift)
        if second > 10:
            worst = max(worst, float(np.abs(pairs.rows() - grid(correction(drift))).max()))
    assert worst < 0.12


def test_an_unmoved_correction_does_not_change() -> None:
    pairs = Pairs()
    pairs.see((1, 0, 0, 0, 0), 5)
    values = []
    for _ in range(100):
        pairs.see((1, 0, 0, 0, 0))
        values.append(pairs.estimator.correction(pairs.time_s))
    assert len(set(values)) <= 4
    assert pairs.estimator.state.corrected_s is not None


@pytest.mark.parametrize('terms', [(1, 0, 0, 0.5, 0), (1, 0, 0, 0, 1.2)])
def test_a_term_that_is_about_as_large_as_needed_does_not_come_and_go(
        terms: Sequence[float]) -> None:
    pairs = Pairs()
    targets = []
    for _ in range(70):
        pairs.see(terms)
        targets.append(pairs.estimator.target)
    assert sum(one != other for one, other in itertools.pairwise(targets[10:])) <= 3


CONTRADICTORY: dict[str, Callable[[Pairs], np.ndarray]] = {
    'too little texture': lambda pairs: pairs.points((3, 0, 0, 0, 0), MIN_POINTS - 1),
    'the points of a pair contradict each other': lambda pairs: pairs.points(
        (3, 0, 0, 0, 0), outliers=0.9)}


@pytest.mark.parametrize('reason', CONTRADICTORY)
def test_pairs_that_show_nothing_keep_the_last_value_and_say_so(reason: str) -> None:
    pairs = Pairs()
    for terms in ((0, 0, 0, 0, 0), (1, 0, 0, 0, 0)):
        pairs.see(terms, 5)
        known = pairs.estimator.state
        before = pairs.estimator.correction(pairs.time_s)
        for _ in range(30):
            pairs.estimator.add(CONTRADICTORY[reason](pairs), pairs.time_s)
            pairs.time_s += 1
        assert pairs.estimator.state.reason == reason
        assert pairs.estimator.state.estimate == known.estimate
        assert pairs.estimator.correction(pairs.time_s) == before


def test_a_calibration_without_a_principal_point_has_it_in_the_middle() -> None:
    known = Calibration(FOCAL, 0.5, 600.0, 610.0, 180.0)
    for calibration, focal, middle in (
            (known, FOCAL, (610.0, 180.0)), (None, WIDTH, (CX, CY)),
            (Calibration(FOCAL, 0.5, 0, 0, 0), FOCAL, (CX, CY))):
        estimator = RowEstimator.of_camera(WIDTH, HEIGHT, calibration, limit=2.0)
        estimator.add(Pairs().points((1, 0, 0, 0, 0)), 0)
        estimate = estimator.state.estimate
        assert estimate is not None
        assert (estimate.focal_px, estimate.cx, estimate.cy) == (focal, *middle)
        assert estimator.limit == 2


def test_everything_is_forgotten_when_asked() -> None:
    pairs = Pairs()
    assert pairs.estimator.add(np.zeros((0, 3)), 0).reason == 'too little texture'
    pairs.see((1, 0, 0, 0, 0), 5)
    pairs.estimator.clear()
    assert pairs.estimator.correction(pairs.time_s) is None
    assert pairs.estimator.state.estimate is None
    assert len(pairs.estimator.state.sigmas) == len(TERMS)
