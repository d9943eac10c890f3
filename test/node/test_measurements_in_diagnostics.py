"""What /diagnostics says of frames, of the cameras' mounting and of the GPU, beside words."""

from __future__ import annotations

import math

import pytest

pytest.importorskip('rclpy')

from stereo_bp_ros.node.diagnostics.conditions import Condition, Level
from stereo_bp_ros.node.diagnostics.quality import VERTICAL_OFFSET, FrameQuality
from test.node.reports import make_report, status

pytestmark = pytest.mark.ros

QUALITY = FrameQuality(valid=0.873, last_label=0.00123, nearest=0.66, farthest=1344.0)
VERTICAL = {'vertical offset px': '-0.12', 'vertical points': '104'}


def test_the_status_input_has_what_was_measured_in_the_last_frame() -> None:
    values = status(make_report(quality=QUALITY, vertical=VERTICAL), 'input').values
    assert values.items() >= {
        'valid %': '87.3', 'at the last label %': '0.12', 'nearest m': '0.660',
        'farthest m': '1344.0', **VERTICAL}.items()


def test_where_no_pixel_can_have_a_disparity_there_are_no_shares_of_pixels() -> None:
    empty = FrameQuality(valid=None, last_label=0.0, nearest=math.inf, farthest=84.0)
    values = status(make_report(quality=empty), 'input').values
    assert 'valid %' not in values
    assert values['nearest m'] == 'inf'


@pytest.mark.parametrize('fields', [{'idle': True}, {'state': 'inactive'}])
def test_a_node_that_matches_nothing_shows_no_old_measurements(fields: dict[str, object]) -> None:
    values = status(make_report(quality=QUALITY, vertical=VERTICAL, **fields), 'input').values
    assert not values.keys() & {'valid %', 'nearest m', 'vertical offset px'}


def test_rows_that_miss_each_other_are_a_warning_of_the_status_input() -> None:
    condition = Condition(VERTICAL_OFFSET, Level.WARN, 'rows')
    found = status(make_report(conditions=[condition]), 'input')
    assert (found.level, found.message) == (1, 'rows')


def test_a_gpu_that_is_slowed_down_is_a_warning_of_the_status_device() -> None:
    found = status(make_report(conditions=[Condition('gpu', Level.WARN, 'hot')]), 'device')
    assert (found.level, found.message) == (1, 'hot')
