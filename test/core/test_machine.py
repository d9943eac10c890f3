"""ROS domains that tests have to themselves."""

from __future__ import annotations

import contextlib
import socket

from test import machine


def test_a_domain_that_somebody_is_in_is_left_out() -> None:
    with machine.domain() as free, contextlib.closing(
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as participant:
        busy = machine.DOMAINS[free % len(machine.DOMAINS)]
        participant.bind(('127.0.0.1', 7400 + 250 * busy + 10))
        assert machine.ports_in_use(busy) == {7400 + 250 * busy + 10}
        with machine.domain() as following:
            assert following not in (free, busy)


def test_a_domain_is_one_test_s_alone() -> None:
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(machine.domain()) for _ in range(5)]
        assert len(set(held)) == len(held)
