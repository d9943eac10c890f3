"""A run between processes may take longer to end where other tests run beside it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope='package', autouse=True)
def patience() -> Iterator[None]:
    pytest.importorskip('rclpy')
    session = pytest.importorskip('stereo_bp_ros.replay.session')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, 'STOP_LIMIT_S', 60.0)
        yield
