"""The ledger and the trend of the soak find what they are to find."""

from __future__ import annotations

import fcntl
import itertools
import pathlib

import numpy as np
import pytest

from test import machine
from test.cases import every
from test.node.client import unaccounted
from test.soak.camera import DISPARITIES, shown_at, textures
from test.soak.ledger import Found, Ledger, Shown, Totals, settled, transport_losses, trend

MS = 1_000_000
SHOWN = Shown(7, 96, 64, 500.0)
RIGHT = Found(7.2, 1.0, 0.8, 96, 64, 500.0)


@pytest.fixture
def ledger() -> Ledger:
    """Three frames were sent, at the seconds 0, 1 and 2."""
    ledger = Ledger(longest_age=3.0)
    for number in range(3):
        ledger.send((number + 1) * MS, SHOWN, float(number))
    return ledger


def test_results_in_order_are_right(ledger: Ledger) -> None:
    for number in range(3):
        ledger.receive((number + 1) * MS, RIGHT, number + 0.5)
    assert ledger.take_violations() == []
    assert (ledger.sent, ledger.delivered, ledger.last) == (3, 3, 3)
    assert ledger.images == {'left': 3, 'right': 3}
    assert ledger.delivered_between(2, 3) == 2


@pytest.mark.parametrize(('order', 'words'), [
    ([3, 2], 'frame 2: stale, published after frame 3'),
    ([2, 2], 'frame 2: published twice'),
    ([9], 'the stamp 9000000, which was not sent')])
def test_a_result_that_comes_again_or_out_of_order_is_found(ledger: Ledger, order: list[int],
                                                            words: str) -> None:
    for stamp in order:
        ledger.receive(stamp * MS, RIGHT, 2.5)
    found, = ledger.take_violations()
    assert words in found
    assert ledger.take_violations() == []


def test_a_result_that_comes_late_is_stale(ledger: Ledger) -> None:
    ledger.receive(1 * MS, RIGHT, 3.5)
    found, = ledger.take_violations()
    assert found == 'frame 1: stale, published 3.5 s after it was sent'


def test_a_result_that_is_forbidden_is_found_however_busy_the_machine_is() -> None:
    ledger = Ledger(longest_age=3.0, excused=lambda at: 1e3)
    for number in range(4):
        ledger.send((number + 1) * MS, SHOWN, float(number))
    assert ledger.forbid(1, 2.0, 'it was too old') == 2
    for number in range(4):
        ledger.receive((number + 1) * MS, RIGHT, 100.0)
    assert ledger.take_violations() == [
        f'frame {place}: stale, published although it was too old' for place in (2, 3)]


@pytest.mark.parametrize(('found', 'words'), [
    (Found(8.0, 1.0, 0.8, 96, 64, 500.0), 'mixed, its disparity is 8.0'),
    (Found(7.0, 0.5, 0.8, 96, 64, 500.0), 'in 50 % of the pixels'),
    (Found(7.0, 1.0, 0.1, 96, 64, 500.0), '10 % of its pixels are valid'),
    (Found(7.0, 1.0, 0.8, 96, 64, 620.0), 'mixed, f is 620'),
    (Found(7.0, 1.0, 0.8, 144, 80, 500.0), '144 x 80, sent were 96 x 64')])
def test_a_result_of_another_pair_is_found(ledger: Ledger, found: Found, words: str) -> None:
    ledger.receive(1 * MS, found, 0.5)
    violation, = ledger.take_violations()
    assert words in violation


def test_stamps_that_go_back_are_right_in_the_order_of_sending(ledger: Ledger) -> None:
    ledger.receive(3 * MS, RIGHT, 2.5)
    ledger.send(2 * MS + 1, SHOWN, 3.0)
    ledger.receive(2 * MS + 1, RIGHT, 3.5)
    assert ledger.take_violations() == []


COUNTERS = {'received left': 10, 'received right': 9, 'pairs': 8, 'published': 5, 'held': 1,
            'waiting left': 1, 'waiting right': 0, 'dropped left: unmatched': 1,
            'dropped right: duplicate stamp': 1, 'dropped pairs: stale': 2, 'clock jumps': 3}


@pytest.mark.parametrize(('key', 'words'), [
    ('published', ['8 pairs, but 9 published']), ('dropped pairs: stale', ['8 pairs, but 9']),
    ('received left', ['11 left images received, but 10']),
    ('waiting right', ['9 right images received, but 10']),
    ('pairs', ['9 pairs, but 8', '10 left images', '9 right images'])])
def test_a_counter_that_is_one_too_high_is_found(key: str, words: list[str]) -> None:
    assert unaccounted(COUNTERS) == []
    found = unaccounted({**COUNTERS, key: COUNTERS[key] + 1})
    assert len(found) == len(words)
    assert every(text in one for text, one in zip(words, found, strict=True))


def test_losses_on_the_way_are_counted_and_gains_are_impossible() -> None:
    before = Totals({'received left': 5, 'received right': 5, 'published': 4},
                    {'left': 105, 'right': 105}, 4)
    after = Totals({'received left': 9, 'received right': 16, 'published': 8},
                   {'left': 115, 'right': 115}, 7)
    impossible, lost = transport_losses(before, after)
    assert impossible == ['11 right images have arrived, but 10 were sent']
    assert lost == {'left images': 6, 'results': 1}


def test_frames_that_follow_each_other_show_other_disparities() -> None:
    for period in (5, 50, 150):        # milliseconds, of the rates of the camera
        shown = [shown_at(k * period * MS) for k in range(100)]
        assert every(a != b for a, b in itertools.pairwise(shown))
        assert set(shown) == set(DISPARITIES)


def test_pairs_show_their_disparity_and_halves_of_two_pairs_none() -> None:
    def share(left: np.ndarray, right: np.ndarray, disparity: int) -> float:
        return float(np.mean(left[:, disparity:] == right[:, :left.shape[1] - disparity]))

    (left, right), (_, other) = textures(5, 96, 64), textures(9, 96, 64)
    assert share(left, right, 5) == 1
    assert max(share(left, other, d) for d in range(32)) < 0.1


def line(slope: float, noise: float, *, level: float = 100.0, seed: int = 1
         ) -> list[tuple[float, float]]:
    """A value a minute for an hour."""
    random = np.random.default_rng(seed)
    return [(k / 60, level + slope * k / 60 + noise * random.standard_normal())
            for k in range(60)]


def test_growth_is_told_from_noise() -> None:
    grows, flat = trend([line(10, 1)], 2), trend([line(0, 1)], 2)
    assert grows is not None
    assert grows.grows
    assert grows.interval[0] < 10 < grows.interval[1]
    assert flat is not None
    assert not flat.grows


def test_levels_of_other_processes_are_no_growth() -> None:
    both = trend([line(0, 1, level=100), line(0, 1, level=200, seed=2)], 2)
    assert both is not None
    assert not both.grows
    assert abs(both.slope) < 1


def test_a_grain_is_no_growth_and_few_values_tell_nothing() -> None:
    grain = trend([line(1, 0.01)], 2)
    assert grain is not None
    assert grain.interval[0] > 0
    assert not grain.grows
    assert trend([line(10, 1)[:5]], 2) is None


def test_the_interval_holds_the_slope_about_as_often_as_it_says() -> None:
    held = 0
    for seed in range(40):
        found = trend([line(3, 5, seed=seed)], 2)
        assert found is not None
        held += found.interval[0] <= 3 <= found.interval[1]
    assert held >= 33


def test_the_beginning_of_a_life_is_left_out() -> None:
    assert settled([(1.0, 5.0), (1.1, 6.0), (1.2, 7.0)], 0.15) == [(1.2, 7.0)]
    assert settled([], 0.15) == []
    # One step in the first half is no growth.
    hour = [(minute / 60, 103.0 if minute > 24 else 95.0) for minute in range(61)]
    assert {value for _, value in settled(hour, 10 / 60)} == {103.0}


def test_only_segments_that_no_process_holds_are_removed(tmp_path: pathlib.Path) -> None:
    for name in ('fastrtps_held', 'fastrtps_dead', 'fastrtps_bare'):
        (tmp_path / name).touch()
    for name in ('fastrtps_held_el', 'fastrtps_dead_el'):
        (tmp_path / name).touch()
    with open(tmp_path / 'fastrtps_held_el', 'rb') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        machine.remove({'fastrtps_held', 'fastrtps_dead', 'fastrtps_bare'}, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        'fastrtps_bare', 'fastrtps_held', 'fastrtps_held_el']
