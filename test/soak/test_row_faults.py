"""A right camera that moves: what it shows, and how strictly its correction is judged."""

from __future__ import annotations

import contextlib
import itertools
import types
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')
from stereo_bp_ros.alignment import row_points
from test.node.client import Status
from test.soak import row_faults
from test.soak.camera import Motion, corners, lowered
from test.soak.ledger import Found, Ledger, Shown
from test.soak.rig import Violation
from test.soak.row_faults import ADOPTED_S, BUMP_PX, CLOSE_PX

SECOND = 10**9
DRIFT, BUMPED = Motion(0, px_per_s=0.05), Motion(0, BUMP_PX)


def report(second: float, offset_px: str, remaining_px: str | None = '0.05') -> Status:
    values = {'vertical offset px': offset_px}
    if remaining_px is not None:
        values['row correction remaining px'] = remaining_px
    return Status(1, int(second * SECOND), 0, '', values)


def rig(reports: Sequence[Status]) -> Any:
    """A rig whose reports are these, one a second, and then the last one for ever."""
    left = itertools.chain(reports, itertools.repeat(reports[-1]))
    found: Any = types.SimpleNamespace(
        reports=0, waits=types.SimpleNamespace(since=lambda at: 0.0),
        status=lambda name, after=0: next(left))
    found.wait_for_status = lambda name, matches, limit: next(filter(matches, left))
    return found


def test_the_pairs_of_a_camera_that_has_moved_have_its_rows() -> None:
    assert [DRIFT.rows(second * SECOND) for second in (-1, 0, 60)] == pytest.approx([0, 0, 3])
    left, right = corners(8, 320, 240)
    points = row_points(left, lowered(right, 1.25), 0, 31)
    assert len(points) > 40
    assert np.median(points[:, 2]) == pytest.approx(1.25, abs=0.03)


def test_a_frame_whose_rows_may_miss_each_other_is_judged_by_all_but_its_pixels() -> None:
    ledger, found = Ledger(3.0), Found(20.0, 0.1, 0.0, 320, 240, 500.0)
    for stamp, disparity in ((1, None), (2, 7)):
        ledger.send(stamp, Shown(disparity, 320, 240, 500.0), 0.0)
        ledger.receive(stamp, found, 0.1)
    ledger.receive(1, found, 0.1)
    violations = ledger.take_violations()
    assert [text.split(':')[0] for text in violations] == ['frame 2', 'frame 1']
    assert 'after frame 2' in violations[1]


@pytest.mark.parametrize(('second', 'offset', 'remaining', 'is_followed'), [
    # A second report is of a pair that is up to 2.2 s old: 1.89 to 2 px.
    (40, '1.90', '0.15', True), (40, '1.75', '0.05', True), (40, '2.14', '0.05', True),
    (40, '1.73', '0.05', False), (40, '2.16', '0.05', False), (40, 'unknown', '0.05', False),
    (40, '1.90', '0.16', False), (40, '1.90', None, False),
    # Not significant yet, and nothing measured yet.
    (10, '0.40', None, True), (4, 'unknown', None, True)])
def test_reports_of_a_drift_are_close_to_it(
        second: float, offset: str, remaining: str | None, is_followed: bool) -> None:
    with (contextlib.nullcontext() if is_followed
          else pytest.raises(Violation, match='rows that drift are')):
        row_faults.follow(rig([report(second, offset, remaining)]), DRIFT, 0.01)


def test_a_bump_is_to_be_told_with_the_report_behind_its_two_seconds() -> None:
    text = f'{BUMP_PX + 0.9 * CLOSE_PX:.3f}'
    before = [report(0.5, '0.00'), report(1.5, text, '1.50')]
    row_faults.adopt(rig([*before, report(ADOPTED_S + 0.9, text)]), BUMPED)
    with pytest.raises(Violation, match=r'adopted after 3\.1 s'):
        row_faults.adopt(rig([*before, report(ADOPTED_S + 1.1, text)]), BUMPED)
