"""What leaves the executor: told with its traceback, survived once, and no endless loop."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip('rclpy')
from rclpy.exceptions import InvalidHandle
from rclpy.executors import ExternalShutdownException

from stereo_bp_ros.node import main
from stereo_bp_ros.node.main import Spinner
from test.node.processes import LIMIT

pytestmark = pytest.mark.ros


class Executor:
    """Stands for one: ``spin`` does what the next of ``rounds`` does."""

    def __init__(self, rounds: Iterator[Callable[[], None]]) -> None:
        self.context = self
        self.rounds = rounds
        self.is_up = True

    def ok(self) -> bool:
        return self.is_up

    def try_shutdown(self) -> None:
        self.is_up = False

    def spin(self) -> None:
        for step in self.rounds:
            step()
        while self.is_up:
            time.sleep(0.001)
        raise ExternalShutdownException


class Told:
    """A spinner over rounds, and what it has told."""

    def __init__(self, *rounds: Callable[[], None]) -> None:
        self.errors: list[BaseException] = []
        self.ends: list[str] = []
        self.over = threading.Event()
        self.executor: Any = Executor(itertools.chain(rounds, [self.over.set]))
        self.spinner = Spinner(self.executor, on_error=self.errors.append,
                               on_endless=self._end)

    def _end(self, text: str) -> None:
        self.ends.append(text)
        self.over.set()


def fail() -> None:
    raise RuntimeError('a bug in a callback')


def destroyed() -> None:
    raise InvalidHandle('destruction was requested')


def test_a_callback_that_raises_is_told_and_the_executor_goes_on() -> None:
    told = Told(fail, lambda: None, fail)
    assert told.over.wait(LIMIT)
    assert [str(error) for error in told.errors] == ['a bug in a callback'] * 2
    assert told.ends == []
    assert told.spinner.end(LIMIT)


def test_a_subscription_destroyed_while_it_is_waited_for_and_an_exception_of_the_end_are_no_news(
        ) -> None:
    told = Told(destroyed, destroyed)
    assert told.over.wait(LIMIT)
    executor = told.executor

    def end() -> None:
        executor.try_shutdown()
        fail()
    executor.rounds = iter([end])
    spinner = Spinner(executor, on_error=told.errors.append, on_endless=told.ends.append)
    spinner._thread.join(LIMIT)
    assert not spinner._thread.is_alive()
    assert told.spinner.end(LIMIT)
    assert (told.errors, told.ends) == ([], [])


@pytest.mark.parametrize('step', [fail, destroyed])
def test_exceptions_without_end_end_the_node(step: Callable[[], None]) -> None:
    told = Told(*[step] * (main.MAX_ERRORS + 50))
    assert told.over.wait(LIMIT)
    (text,) = told.ends
    assert f'{main.MAX_ERRORS} exceptions' in text
    assert 'a bug' in text or 'destruction was requested' in text
    assert len(told.errors) == (main.MAX_ERRORS if step is fail else 0)
    assert told.spinner.end(LIMIT)


def test_exceptions_that_messages_bring_do_not_end_the_node(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """As many, but spread over more time."""
    monkeypatch.setattr(main, 'MAX_ERRORS', 20)
    monkeypatch.setattr(main, 'ERROR_WINDOW', 0.05)

    def seldom() -> None:
        time.sleep(0.01)
        fail()
    told = Told(*[seldom] * 60)
    assert told.over.wait(LIMIT)
    assert (len(told.errors), told.ends) == (60, [])
    assert told.spinner.end(LIMIT)


#: A node whose executor raises whatever happens, from the word on.
BROKEN_NODE = """
import sys
from rclpy.executors import SingleThreadedExecutor
from stereo_bp_ros.node.main import main
def spin_once(self, timeout_sec=None):
    raise LookupError('nothing can be waited for')
SingleThreadedExecutor.spin_once = spin_once
sys.exit(main())
"""

#: A node with a timer that raises five times a second.
FAILING_NODE = """
import sys
from stereo_bp_ros.node import main, node
def fail():
    raise LookupError('a bug in a callback')
class Failing(node.StereoBpNode):
    def __init__(self, **options):
        super().__init__(**options)
        self.create_timer(0.2, fail)
node.StereoBpNode = Failing
sys.exit(main.main())
"""

PARAMETERS = {'stereo_algorithm': 'sad', 'disparity_range': 16, 'autostart': False}


def test_a_node_whose_executor_only_fails_ends_with_a_status_and_says_why(start_node: Any
                                                                          ) -> None:
    node = start_node(PARAMETERS, wait='', code=BROKEN_NODE)
    assert node.process.wait(LIMIT) == main.EXIT_SPINNING
    assert 'Traceback' in node.log
    assert "a callback failed: LookupError('nothing can be waited for')" in node.log
    assert f'the executor fails without end: {main.MAX_ERRORS} exceptions' in node.log
    assert node.log.count('Traceback') <= 5         # told with its count from then on


def test_a_callback_that_fails_is_told_and_a_node_without_autostart_waits_up_to_shutdown(
        start: Any) -> None:
    client = start(PARAMETERS, wait='a callback failed', code=FAILING_NODE,
                   client={'topics': ()})
    assert "a callback failed: LookupError('a bug in a callback')" in client.log()
    assert 'Traceback' in client.log()
    status = client.wait_for_status('device', lambda s: 'a callback failed' in s.message)
    assert status.level == 2
    assert client.state() == 'unconfigured'
    assert not client.change_state('activate', 10)
    assert client.change_state('shutdown')
    assert client.state() == 'finalized'
    assert client.node_process.end() == 0
