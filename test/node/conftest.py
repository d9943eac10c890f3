"""Fixtures of the node's tests: real nodes in processes, and clients beside them."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from test.machine import ros_context
from test.node.client import Client
from test.node.processes import NodeProcess, running_node

#: Parameters of the node that modules share, as far as they name no others.
SHARED = {'stereo_algorithm': 'sad', 'disparity_range': 16, 'backend': 'cpu'}


@pytest.fixture(scope='module')
def context() -> Iterator[Any]:
    """A context of rclpy in a domain of its own."""
    pytest.importorskip('rclpy')
    with ros_context() as made:
        yield made


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


@pytest.fixture
def make(context: Any) -> Iterator[Callable[..., Any]]:
    """``make(**parameters)``: a ``bench.Bench``; without a preset but with ``preset=None``."""
    from test.node.bench import Bench

    with contextlib.ExitStack() as stack:
        def make(**parameters: Any) -> Bench:
            bench = Bench(context, {
                name: value for name, value in {'preset': 'none', **parameters}.items()
                if value is not None})
            stack.callback(bench.node.destroy_node)
            stack.callback(bench.node.stop, 1.0)
            return bench
        yield make
