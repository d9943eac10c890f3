"""Two processes that evaluate, started once for all modules."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from stereo_bp_ros.evaluation import scale


@pytest.fixture(scope='session')
def processes() -> Iterator[scale.Cluster]:
    for module in ('numba', 'distributed', 'cryptography'):
        pytest.importorskip(module)
    from stereo_bp_ros.evaluation import scale

    levels = {handler: handler.level for handler in logging.root.handlers}
    with scale.Cluster(2) as found:
        for handler, level in levels.items():       # of pytest, which Dask silences
            handler.setLevel(level)
        yield found


@pytest.fixture
def cluster(processes: scale.Cluster) -> scale.Cluster:
    """Those processes; one that a test has ended is replaced."""
    processes._client.wait_for_workers(2, timeout=60)
    return processes
