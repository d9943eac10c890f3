"""What a node says of its cameras: vertical disparity, and a yaw."""

from __future__ import annotations

from stereo_bp_ros.cameras.row_correction import TERMS
from stereo_bp_ros.cameras.row_estimator import RowState
from stereo_bp_ros.issues import IssueCode
from stereo_bp_ros.node.diagnostics.issue_log import IssueLog
from stereo_bp_ros.stream.observer import PairObserver

#: What is wrong with a pair over time.
OVER_TIME = IssueCode.PIXEL_BYTES, IssueCode.VERTICAL_OFFSET, IssueCode.RECTIFIED, IssueCode.YAW


def hold_issues(log: IssueLog, observer: PairObserver) -> None:
    """Hold the issues of the latest measurement."""
    found = observer.issues
    for code in OVER_TIME:
        log.hold(code, *(one.text for one in found if one.code is code))


def measure(observer: PairObserver, log: IssueLog) -> None:
    """Measure the pair that was left last, and hold its issues."""
    sequence = observer.sequence
    if observer.measure() and observer.sequence is sequence:    # not cleared in the meantime
        hold_issues(log, observer)


def camera_report(observer: PairObserver, mode: str = 'off') -> dict[str, str]:
    """Keys and values for people; empty where nothing was measured.

    :param mode: the setting ``row_correction``.
    """
    sequence = observer.sequence
    if sequence is None:
        return {}
    state, now, (width, height, *_) = sequence.rows.state, observer.rows.estimate, sequence.camera
    if now is None:
        values = {} if state == RowState() else {
            'vertical offset px': 'unknown', 'row correction': f'none: {state.reason}'}
        return values | sequence.yaw.history.report()
    middle = now.middle(width, height)
    values = {
        'vertical offset px': f'{middle:.2f}' if sequence.is_known else 'unknown',
        'vertical tilt px': f'{now.tilt(width):.2f}',
        'vertical error px': f'{state.max_px:.2f}',
        'vertical error sigma px': f'{state.sigma:.3f}',
        'vertical terms px': ', '.join(
            f'{name} {value:.2f} +- {sigma:.2f}' for name, value, sigma in zip(
                TERMS, now.terms, state.sigmas, strict=True) if value) or 'none',
        'vertical spread px': f'{state.residual:.2f}', 'vertical points': str(state.points)}
    if (then := sequence.reference) is not None:
        values |= {
            'vertical offset drift px': f'{middle - then.middle(width, height):.2f}',
            'vertical tilt drift px': f'{now.tilt(width) - then.tilt(width):.2f}'}
    target = sequence.rows.target
    if mode == 'correct' and target is not None:
        values |= {'row correction': f'up to {target.max_offset(width, height):.2f} px'
                   + (f' ({state.reason})' if state.reason else ''),
                   'row correction since s': f'{state.corrected_s:.3f}',
                   'row correction remaining px': f'{state.remaining_px:.2f}'}
    elif mode != 'off':
        values['row correction'] = 'none: ' + (state.reason or 'row_correction is measure')
    return values | sequence.yaw.history.report()
