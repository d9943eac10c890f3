"""Many changes of parameters from another process: all are answered, fast, and the last holds."""

from __future__ import annotations

import threading
import time
import types
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip('rclpy')

from rclpy.parameter import Parameter

from test.cases import every
from test.node.processes import LIMIT, START_LIMIT

pytestmark = pytest.mark.ros

PARAMETERS = {'max_input_age': 30.0}

#: Seconds between pairs.
PERIOD = 0.02


def set_all(client: Any, requests: list[dict[str, Any]]) -> list[Any]:
    """The results of requests that are sent all at once."""
    from rcl_interfaces.srv import SetParameters
    from rclpy.qos import qos_profile_parameters

    # The default of a client keeps ten answers, and loses others of many that come at once.
    service = client.node.create_client(SetParameters, f'{client.target}/set_parameters',
                                        qos_profile=qos_profile_parameters)
    assert service.wait_for_service(LIMIT)
    client.wait_until_known()
    results: list[Any] = []
    for values in requests:
        service.call_async(SetParameters.Request(parameters=[
            Parameter(name, value=value).to_parameter_msg() for name, value in values.items()
        ])).add_done_callback(lambda future: results.extend(future.result().results))
    client.wait_until(lambda: len(results) >= len(requests), START_LIMIT, 'all answers')
    client.node.destroy_client(service)
    return results


@pytest.fixture
def matching(client: Any, textured_pair: Any) -> Iterator[types.SimpleNamespace]:
    """A node that matches small pairs at 50 Hz: its client, and how many were ``sent``."""
    pair = textured_pair(96, 64, 5)
    client.match(*pair)
    left, right = map(client.image, pair)
    bench = types.SimpleNamespace(client=client, sent=1)
    ended = threading.Event()

    def publish() -> None:
        while not ended.wait(PERIOD):
            client.send_pair(left, right)
            bench.sent += 1

    camera = threading.Thread(target=publish, daemon=True)
    camera.start()
    yield bench
    ended.set()
    camera.join(5)


def test_every_one_of_many_requests_is_answered_while_pairs_are_matched(
        matching: types.SimpleNamespace) -> None:
    before = matching.client.counts()
    published, sent, began = len(matching.client.stamps()), matching.sent, time.monotonic()
    results = set_all(matching.client, [{'uniqueness_ratio': i / 10} for i in range(300)])
    assert len(results) == 300
    assert every(result.successful for result in results)
    more, sent = len(matching.client.stamps()) - published, matching.sent - sent
    is_busy = sent * PERIOD < (time.monotonic() - began) / 2    # a camera that is late itself
    assert more > sent / 2 or is_busy
    pairs, matched, superseded = (
        after - before[name] for name, after in matching.client.counts().items()
        if name in ('pairs', 'published', 'dropped pairs: superseded'))
    assert matched > (pairs - superseded) / 2
    assert 'a new engine' not in matching.client.log()


def test_a_burst_of_changes_that_need_another_engine_ends_with_the_last(
        matching: types.SimpleNamespace) -> None:
    results = set_all(matching.client, [{'disparity_range': 17 + i} for i in range(100)])
    assert [result.successful for result in results] == [True] * 100
    before = len(matching.client.received['disparity'])
    matching.client.wait_until(lambda: any(
        message.max_disparity == 115.0
        for message in matching.client.received['disparity'][before:]), what='the last one')
    assert 'a new engine is in use' in matching.client.log()
