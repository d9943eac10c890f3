"""Many changes of parameters from another process: all are answered, fast, and the last holds."""

from __future__ import annotations

import statistics
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip('rclpy')

from rclpy.parameter import Parameter

from test.cases import every
from test.node.processes import LIMIT, START_LIMIT

pytestmark = pytest.mark.ros

#: A node with one parameter and nothing else: what ROS itself takes for a request.
BARE = """
import rclpy
rclpy.init()
node = rclpy.create_node('stereo_bp')
node.declare_parameter('uniqueness_ratio', 0.0)
node.get_logger().info('active: waiting')
rclpy.spin(node)
"""


PARAMETERS = {'max_input_age': 30.0}

#: Seconds between pairs.
PERIOD = 0.02


class Setter:
    """Sets parameters of a node again and again through one client."""

    def __init__(self, client: Any) -> None:
        from rcl_interfaces.srv import SetParameters
        from rclpy.qos import qos_profile_parameters

        self._kind = SetParameters
        # The default of a client keeps ten answers, and loses others of many that come at once.
        self._client = client.node.create_client(
            SetParameters, f'{client.target}/set_parameters', qos_profile=qos_profile_parameters)
        assert self._client.wait_for_service(LIMIT)
        client.get_parameters('uniqueness_ratio')       # the node knows this client by now

    def send(self, done: Callable[[Any], object], **values: Any) -> None:
        """Send a request; ``done`` is told the future of its response."""
        self._client.call_async(self._kind.Request(parameters=[
            Parameter(name, value=value).to_parameter_msg() for name, value in values.items()
        ])).add_done_callback(done)

    def seconds(self, **values: Any) -> float:
        """Set parameters and return how long the answer took."""
        answered = threading.Event()
        start = time.perf_counter()
        self.send(lambda future: answered.set(), **values)
        assert answered.wait(LIMIT)
        return time.perf_counter() - start

    def send_all(self, requests: list[dict[str, Any]], limit: float) -> list[Any]:
        """Send requests all at once; returns the results that are there after ``limit``
        seconds, or when all are."""
        results: list[Any] = []
        for values in requests:
            self.send(lambda future: results.extend(future.result().results), **values)
        end = time.monotonic() + limit
        while len(results) < len(requests) and time.monotonic() < end:
            time.sleep(0.01)
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


def test_a_live_parameter_is_set_nearly_as_fast_as_in_a_bare_node(
        matching: types.SimpleNamespace, start: Any) -> None:
    bare = start({}, code=BARE, wait='active: waiting', client={'topics': ()})
    setters = Setter(bare), Setter(matching.client)
    # In turn, so that both see the machine equally busy.
    times = [[setter.seconds(uniqueness_ratio=i / 10) for setter in setters]
             for i in range(150)]
    of_bare, of_node = (statistics.median(column) for column in zip(*times, strict=True))
    print(f'a live parameter: {1e3 * of_node:.2f} ms, of a bare node {1e3 * of_bare:.2f} ms')
    assert of_node < 7 * of_bare        # 8 to 30 times, when all was declared anew for each
    assert matching.client.get_parameters('uniqueness_ratio') == {'uniqueness_ratio': 14.9}


def test_every_one_of_many_requests_is_answered_while_pairs_are_matched(
        matching: types.SimpleNamespace) -> None:
    setter = Setter(matching.client)
    before = matching.client.counts()
    published, sent, began = len(matching.client.stamps()), matching.sent, time.monotonic()
    results = setter.send_all([{'uniqueness_ratio': i / 10} for i in range(1000)],
                              limit=START_LIMIT)
    assert len(results) == 1000
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
    results = Setter(matching.client).send_all(
        [{'disparity_range': 17 + i} for i in range(100)], limit=START_LIMIT)
    assert [result.successful for result in results] == [True] * 100
    before = len(matching.client.received['disparity'])
    matching.client.wait_until(lambda: any(
        message.max_disparity == 115.0
        for message in matching.client.received['disparity'][before:]), what='the last one')
    assert 'a new engine is in use' in matching.client.log()
