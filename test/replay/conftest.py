"""A recording, a domain, and a player without a machine; patience where other tests run."""

from __future__ import annotations

import pathlib
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

#: Topic, bytes, and when they were published, seconds.
Sent = tuple[str, bytes, float]


@pytest.fixture(scope='package', autouse=True)
def patience() -> Iterator[None]:
    """A run between processes may take longer to end where other tests run beside it."""
    pytest.importorskip('rclpy')
    session = pytest.importorskip('stereo_bp_ros.replay.session')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, 'STOP_LIMIT_S', 60.0)
        yield


@pytest.fixture(scope='session')
def recording(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Six frames of a street of 160 x 120 pixels at 10 Hz, with truth."""
    from stereo_bp_ros.sources import bags
    from stereo_bp_ros.sources.scenes.sequence import RoadSequence
    path = tmp_path_factory.mktemp('street') / 'bag'
    drive = RoadSequence(width=160, height=120, max_disparity=14, frames=6)
    bags.write_bag(path, drive.calibration, (
        (frame.stamp_ns, frame.left, frame.right, frame.disparity) for frame in drive))
    return path


@pytest.fixture
def alone(ros_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """This process and its children are in a domain of their own."""
    for name in ('ROS_DOMAIN_ID', 'ROS_AUTOMATIC_DISCOVERY_RANGE'):
        monkeypatch.setenv(name, ros_environment[name])


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Any, list[Sent], float]]:
    """Plays a source on a clock that only sleeping moves: report, what was sent, seconds taken.

    ``silent``: from when on and until when, in seconds, a subscriber acknowledges nothing.
    """
    import rclpy

    from stereo_bp_ros.replay import player

    def play(source: Any, loops: int = 1, *, now: float = 0.0,
             silent: tuple[float, float] = (0.0, 0.0), **options: Any
             ) -> tuple[Any, list[Sent], float]:
        clock, sent = [now], []

        def sleep(seconds: float) -> None:
            clock[0] += seconds

        def acknowledged(timeout: Any) -> bool:
            if not silent[0] <= clock[0] < silent[1]:
                return True
            sleep(1e-6 + timeout.nanoseconds / 1e9)
            return False

        def publisher(_: Any, topic: str, qos: Any) -> Any:
            return types.SimpleNamespace(
                publish=lambda data: sent.append((topic, bytes(data), clock[0])),
                topic_name=topic, wait_for_all_acked=acknowledged)

        monkeypatch.setattr(player, 'time', types.SimpleNamespace(
            perf_counter=lambda: clock[0], time_ns=lambda: round(clock[0] * 1e9), sleep=sleep))
        rclpy.init()
        try:
            node: Any = types.SimpleNamespace(create_publisher=publisher)
            report = player.Player(node, source, **options).play(loops)
        finally:
            rclpy.try_shutdown()
        return report, sent, clock[0] - now

    return play
