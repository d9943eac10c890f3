"""ROS domains that tests have to themselves."""

from __future__ import annotations

import contextlib
import socket

from test import domains


def test_a_domain_that_somebody_is_in_is_left_out() -> None:
    with domains.domain() as free, contextlib.closing(
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as participant:
        busy = domains.DOMAINS[free % len(domains.DOMAINS)]
        participant.bind(('127.0.0.1', 7400 + 250 * busy + 10))
        assert domains.ports_in_use(busy) == {7400 + 250 * busy + 10}
        with domains.domain() as following:
            assert following not in (free, busy)


def test_a_domain_is_one_test_s_alone() -> None:
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(domains.domain()) for _ in range(5)]
        assert len(set(held)) == len(held)
