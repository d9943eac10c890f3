"""Two processes that evaluate, started once for all modules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from stereo_bp_ros.evaluation import scale


@pytest.fixture(scope='session')
def cluster() -> Iterator[scale.Cluster]:
    for module in ('numba', 'distributed', 'cryptography'):
        pytest.importorskip(module)
    from stereo_bp_ros.evaluation import scale

    with scale.Cluster(2) as found:
        yield found
