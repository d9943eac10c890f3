"""Sparsification curves against their definition, which sorts and averages."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stereo_bp_ros.evaluation.sparsification import SHARES, sparsify

pixels = st.lists(st.tuples(st.floats(0, 50), st.sampled_from([0.0, 0.25, 0.5, 1.0])),
                  min_size=1, max_size=5)


def test_the_oracle_of_wrong_pixels_has_the_known_area():
    # Hu and Mordohai, 2012: e + (1 - e) ln(1 - e), in the limit of many pixels.
    error = np.where(np.arange(20000) < 5000, 100.0, 0.0)
    found = sparsify(error, np.zeros(error.size))
    assert found.oracle_area == pytest.approx(100 * (0.25 + 0.75 * np.log(0.75)), abs=0.02)


def test_no_pixel_has_no_curve_and_other_shapes_are_refused():
    assert sparsify(np.empty(0), np.empty(0)) is None
    for error, confidence in ((np.zeros(3), np.zeros(2)), (np.zeros((2, 2)), np.zeros((2, 2)))):
        with pytest.raises(ValueError, match='cannot be sorted'):
            sparsify(error, confidence)


@given(pixels)
def test_equal_confidences_stand_for_all_their_orders(values):
    def area(order):
        errors = [error for error, _ in order]
        return np.mean([np.mean(errors[:k]) for k in range(1, len(errors) + 1)])
    orders = [order for order in itertools.permutations(values)
              if all(a[1] >= b[1] for a, b in itertools.pairwise(order))]
    error, confidence = np.array(values).T
    found = sparsify(error, confidence)
    assert found.area == pytest.approx(np.mean([area(order) for order in orders]))
    assert found.oracle_area == pytest.approx(area(sorted(values)))
    assert found.ause >= -1e-9


def test_areas_are_means_of_the_running_means_and_curves_end_with_the_mean_error():
    # By confidence: 4, 0, 2, of which the first k have the means 4, 2, 2. By error: 0, 1, 2.
    found = sparsify(np.array([2.0, 4.0, 0.0]), np.array([0.1, 0.9, 0.5]))
    assert found.area == pytest.approx(8 / 3)
    assert found.oracle_area == pytest.approx(1)
    assert found.ause == pytest.approx(5 / 3)
    assert SHARES[-1] == 1
    assert (found.curve[-1], found.oracle[-1]) == (pytest.approx(2), pytest.approx(2))
    found = sparsify(np.array([0.0, 100.0, 0.0, 100.0]), np.full(4, 0.5))
    assert found.curve == pytest.approx([50] * len(SHARES))
