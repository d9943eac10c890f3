"""Fixtures of the node's tests: stand-ins, a real node in a process, and a client beside it."""

from __future__ import annotations

import contextlib
import pathlib
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from test.node.client import Client
from test.node.frame_bench import Bench
from test.node.processes import NodeProcess, running_node
from test.node.stand_ins import FakeMatcher, make_image, make_info, make_stamped

#: Parameters of the node that modules share, as far as they name no others.
SHARED = {'stereo_algorithm': 'sad', 'disparity_range': 16, 'backend': 'cpu'}


@pytest.fixture(scope='session')
def messages() -> types.SimpleNamespace:
    """``messages.stamped``, ``messages.info`` and ``messages.image``."""
    return types.SimpleNamespace(stamped=make_stamped, info=make_info, image=make_image)


@pytest.fixture(scope='session')
def fake_matcher() -> type[FakeMatcher]:
    """The class, to be used as a matcher factory."""
    return FakeMatcher


@pytest.fixture
def make(messages: types.SimpleNamespace, fake_matcher: Callable[..., FakeMatcher]
         ) -> Callable[..., Bench]:
    """``make(**options)``: a bench for the worker's part of the node."""
    return lambda **options: Bench(messages, fake_matcher, **options)


@pytest.fixture
def start_node(tmp_path: pathlib.Path) -> Iterator[Callable[..., NodeProcess]]:
    """``start_node(parameters, *ros_arguments, **options)``: a node, killed with the test."""
    with contextlib.ExitStack() as stack:
        yield lambda *arguments, **options: stack.enter_context(
            running_node(tmp_path, *arguments, **options))


@pytest.fixture
def start(start_node: Callable[..., NodeProcess]) -> Iterator[Callable[..., Client]]:
    """``start(parameters, *ros_arguments, **options)``: the client of a node of its own.

    ``client`` are options of the client. It is connected to a node that is waited for.
    """
    with contextlib.ExitStack() as stack:
        def start(*arguments: Any, client: Mapping[str, Any] | None = None,
                  **options: Any) -> Client:
            node = start_node(*arguments, **options)
            found = stack.enter_context(contextlib.closing(
                Client(node.domain, **(client or {}))))
            found.node_process = node
            if 'wait' not in options:
                found.connect()
            return found
        yield start


@pytest.fixture(scope='session')
def shared_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """One node for the modules of this process; ``client`` gives it the parameters of each."""
    with running_node(tmp_path_factory.mktemp('node'), SHARED) as node:
        yield node


@pytest.fixture(scope='module')
def client(request: pytest.FixtureRequest, shared_node: NodeProcess) -> Iterator[Client]:
    """Connected to the shared node, which begins with the module's ``PARAMETERS``."""
    with contextlib.closing(Client(shared_node.domain)) as client:
        client.node_process = shared_node
        client.start_over({**SHARED, **request.module.PARAMETERS})
        yield client
