"""A right camera that moves in its mounting: the node corrects rows while it publishes."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from test.node.client import Status
from test.node.processes import LIMIT
from test.soak.camera import Motion
from test.soak.faults import Fault, lasting, parameters, results
from test.soak.rig import Rig, Violation

#: Pixels and pixels a second: rows by which the right camera drifts and jumps. Both together stay
#: within ``row_correction_limit``.
DRIFT_S, DRIFT_PX_S, BUMP_PX = 60.0, 0.05, -1.5

#: Pixels by which the estimate may differ from the rows of the cameras, and the correction from
#: the estimate.
CLOSE_PX = 0.15

#: Seconds: what a report is measured from is so old; the estimate begins; a bump is adopted.
REPORTED_S, BEGUN_S, ADOPTED_S = 2.2, 5.0, 2.0

WIDTH, HEIGHT = 320, 240


def error_of(status: Status, motion: Motion, excused_s: float = 0.0) -> float:
    """By how many rows a report misses those that the camera has had lately, pixels.

    :param excused_s: seconds that the report may be late by.
    """
    text = status.values.get('vertical offset px', 'unknown')
    if text == 'unknown':
        return float('inf')
    then, now = sorted((motion.rows(status.stamp_ns - int((REPORTED_S + excused_s) * 1e9)),
                        motion.rows(status.stamp_ns)))
    return max(then - float(text), float(text) - now, 0.0)


def is_corrected(status: Status) -> bool:
    """Whether the correction is close to the estimate."""
    remaining = status.values.get('row correction remaining px')
    return remaining is not None and float(remaining) <= CLOSE_PX


@lasting
def moving(rig: Rig, draw: random.Random, drift_s: float = DRIFT_S) -> Iterator[None]:
    """The right camera drifts, and is bumped; corrected, every frame has its disparity."""
    with parameters(('row_correction', 'correct'))(rig, draw):
        motion = Motion(rig.camera.now_ns(), px_per_s=DRIFT_PX_S)
        rig.camera.set(width=WIDTH, height=HEIGHT, motion=motion)
        follow(rig, motion, drift_s)
        now_ns = rig.camera.now_ns()
        motion = Motion(now_ns, motion.rows(now_ns) + BUMP_PX)
        rig.camera.set(width=WIDTH, height=HEIGHT, motion=motion, misses=True)
        adopt(rig, motion)
        rig.camera.set(width=WIDTH, height=HEIGHT, motion=motion)
        yield


def follow(rig: Rig, motion: Motion, seconds: float) -> None:
    """:raises Violation: a report of the drift is not close to it."""
    since, begun = time.monotonic(), rig.reports
    while time.monotonic() - since < seconds:
        status = rig.status('input', after=begun)
        begun = status.number
        if status.stamp_ns - motion.since_ns < BEGUN_S * 1e9:
            continue
        error = error_of(status, motion, rig.waits.since(time.monotonic() - REPORTED_S))
        if error > CLOSE_PX or (
                motion.rows(status.stamp_ns) > 1 and not is_corrected(status)):
            raise Violation(
                f'rows that drift are {motion.rows(status.stamp_ns):.2f} px lower, and the report '
                f'says {status.values.get("vertical offset px")} px, corrected: '
                f'{status.values.get("row correction")}')


def adopt(rig: Rig, motion: Motion) -> None:
    """:raises Violation: a bump is not adopted within two seconds, and told in the next report."""
    since = time.monotonic()
    status = rig.wait_for_status('input', lambda status: (
        error_of(status, motion) <= CLOSE_PX and is_corrected(status)), LIMIT)
    took = 1e-9 * (status.stamp_ns - motion.since_ns)
    if took > ADOPTED_S + 1 + rig.waits.since(since):
        raise Violation(f'a bump of {BUMP_PX:g} px was adopted after {took:.1f} s')
    rig.status('input')             # it is undone step by step


ROW_FAULTS = (
    Fault('the right camera drifts and is bumped', 'Rows are corrected: results go on, and are '
          'right except for two seconds after the bump.', moving(), alone=True,
          shown=results(width=WIDTH)),
)
