"""Transitions, also under load: nothing is published after deactivate, everything is freed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from test.cases import every

pytest.importorskip('rclpy')
pytestmark = pytest.mark.ros

W, H = 160, 120
PARAMETERS: dict[str, Any] = {'max_input_age': 30.0}


@pytest.fixture(autouse=True)
def unconfigured(client: Any) -> None:
    """Every test begins with a node that is not configured."""
    client.set_state('unconfigured')


@pytest.fixture(scope='module')
def pair(textured_pair: Callable[..., Any]) -> tuple[np.ndarray, np.ndarray]:
    return textured_pair(W, H, 5)


@pytest.fixture
def active(client: Any, unconfigured: None) -> None:
    client.set_state('active')
    client.connect()


def test_the_whole_way_and_back_and_no_step_twice(client: Any, pair: Any) -> None:
    assert client.change_state('configure')
    assert client.state() == 'inactive'
    assert client.status('pairing').message == 'inactive'
    assert client.node.count_publishers('disparity') == 1
    assert client.image_publishers['left'].get_subscription_count() == 0
    assert client.change_state('activate')
    client.connect()
    client.match(*pair)
    assert not client.change_state('configure', 10)     # harms nothing
    client.match(*pair)
    assert client.change_state('deactivate')
    client.wait_until(
        lambda: client.image_publishers['left'].get_subscription_count() == 0, what='unsubscribe')
    assert client.change_state('cleanup')
    assert client.state() == 'unconfigured'
    client.wait_until(lambda: client.node.count_publishers('disparity') == 0)
    assert 'memory' not in client.status('device').values


def test_nothing_is_published_after_deactivate_returns(client: Any, pair: Any,
                                                       active: None) -> None:
    #: Topic and time of publication, which may be long before that of arrival.
    published: list[tuple[str, int]] = []
    for topic in client.TOPICS:
        client.node.create_subscription(
            client.kinds[topic], topic, lambda message, info, topic=topic: published.append(
                (topic, info['source_timestamp'])), 100)
    client.wait_until_known()
    client.match(*pair)
    stop = threading.Event()

    def load() -> None:
        while not stop.wait(0.005):
            client.send_frame(*pair)

    thread = threading.Thread(target=load)
    thread.start()
    try:
        for _ in range(2):
            published.clear()
            seen = len(client.received['disparity'])
            client.wait_until(lambda seen=seen: len(client.received['disparity']) > seen + 3)
            assert client.change_state('deactivate')
            returned = time.time_ns()
            time.sleep(0.5)         # for whatever comes nevertheless
            assert {topic for topic, _ in published} == set(client.TOPICS)
            assert [entry for entry in published if entry[1] > returned] == []
            assert client.change_state('activate')
        seen = len(client.received['disparity'])
        client.wait_until(lambda: len(client.received['disparity']) > seen)
    finally:
        stop.set()
        thread.join()
    assert client.change_state('deactivate')
    values = client.settled()           # they add up
    assert values['waiting left'] == values['waiting right'] == values['held'] == 0


def test_services_answer_while_a_frame_is_computed(
        client: Any, textured_pair: Callable[..., Any], pair: Any, active: None
        ) -> None:
    slow = {'stereo_algorithm': 'bp', 'disparity_range': 64, 'iterations': 200}
    assert every(result.successful for result in client.set_parameters(True, **slow))
    client.wait_for_algorithm('bp')
    large = textured_pair(400, 300, 5)
    client.match(*large)                                # the engine is there
    stamp_ns, answers = client.send_frame(*large), 0
    while stamp_ns not in client.stamps():
        assert client.set_parameters(speckle_size=answers)[0].successful
        assert client.state() == 'active'
        answers += stamp_ns not in client.stamps()
    # A frame takes 0.4 s where nothing else runs, and two answers less than 0.05 s: a busy machine
    # makes both of them slow. Answers that wait for the frame come after it.
    assert answers >= 3
    fast = {'stereo_algorithm': 'sad', 'disparity_range': 16, 'iterations': 7}
    assert every(result.successful for result in client.set_parameters(True, **fast))
    client.wait_for_algorithm('sad')
    client.match(*pair)


def test_repeated_activation_leaks_neither_threads_nor_memory(client: Any) -> None:
    def threads_and_memory_after(cycles: int) -> tuple[int, int]:
        for transition in cycles * ('configure', 'activate', 'deactivate', 'cleanup'):
            assert client.change_state(transition)
        with open(f'/proc/{client.node_process.process.pid}/status', encoding='ascii') as file:
            values = dict(line.split(':', 1) for line in file)
        return int(values['Threads']), int(values['VmRSS'].split()[0])

    threads, memory = threads_and_memory_after(2)
    threads_later, memory_later = threads_and_memory_after(5)
    assert threads_later <= threads + 1
    assert memory_later < memory + 8000
