"""What needs the launch of ROS 2 skips without it: PyPI has other things by that name."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from test.launch.bench import Bench
from test.machine import domain
from test.other_nodes import package


@pytest.fixture(scope='session')
def launch_of_ros() -> None:
    """The real launch and launch_ros."""
    package('launch_ros.actions')
    if not hasattr(package('launch'), 'LaunchService'):
        pytest.skip('the launch that is installed is not the one of ROS 2')


@pytest.fixture
def bench(tmp_path: pathlib.Path, repository: pathlib.Path, launch_of_ros: None
          ) -> Iterator[Bench]:
    with domain() as number:
        yield Bench(tmp_path, repository, number)
