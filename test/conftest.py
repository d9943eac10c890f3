"""Shared by all tests: the data folder, private ROS domains, small synthetic pairs; GPU or not."""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import signal
import sys
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pytest

from test import cases, machine
from test.portable import pytest_collection_modifyitems
from test.time_limit import pytest_runtest_protocol

__all__ = ['pytest_collection_modifyitems', 'pytest_runtest_protocol']      # hooks of pytest's

#: Packages of this repository: a test that cannot import one of their modules is wrong.
OWN = 'stereo_bp_ros', 'test', 'benchmarks'

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent

# Before anything imports Numba: processes side by side share the cores, and threads of OpenMP,
# which Numba takes where TBB is missing, hold theirs while they wait.
os.environ.setdefault('OMP_WAIT_POLICY', 'passive')

# No test fails because a machine is slow.
with contextlib.suppress(ImportError):      # a machine with a GPU need not have it
    import hypothesis
    for profile, count in (('quick', 20), ('any machine', 100)):
        hypothesis.settings.register_profile(
            profile, deadline=None, max_examples=count,
            suppress_health_check=[hypothesis.HealthCheck.too_slow])
    hypothesis.settings.load_profile('any machine')

# A shell that starts the tests in the background has its children ignore the interruptions that
# tests send to theirs.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Before anything imports rclpy: tests never talk to the network or to each other.
os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'
_domain, _holder = machine.claim()
os.environ['ROS_DOMAIN_ID'] = str(_domain)


def pytest_configure(config: pytest.Config) -> None:
    """Tell the decorators of tests, which are yet to be imported, how many examples to take."""
    cases.is_quick = config.getoption('--hypothesis-profile', None) == 'quick'


@functools.cache
def _no_gpu() -> str | None:
    """Why tests marked ``gpu`` cannot run here."""
    from stereo_bp_ros.engines.cuda.runtime import device

    return device.unavailable(0)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a GPU where there is none or others use it, before fixtures are made."""
    if item.get_closest_marker('gpu') and _no_gpu() is not None:
        pytest.skip('needs an NVIDIA GPU')
    if item.get_closest_marker('alone') and 'PYTEST_XDIST_WORKER' in os.environ:
        pytest.skip('needs the memory of the GPU for itself: run it without -n')


class ModuleOfTests(pytest.Module):
    """Skips where a package is missing that a machine may lack: ROS, or what an extra brings."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        try:
            return super().collect()
        except self.CollectError as error:
            reason = missing_package(error.__cause__)
            if not reason:
                raise
        pytest.skip(reason, allow_module_level=True)


def missing_package(error: BaseException | None) -> str:
    """What a test lacks that could not be imported, in words; '' = that is a mistake of ours."""
    name = (getattr(error, 'name', None) or '').partition('.')[0]
    if not isinstance(error, ModuleNotFoundError) or name in {'', *OWN, *sys.stdlib_module_names}:
        return ''
    return f'needs the package {name}, which is not installed'


def pytest_pycollect_makemodule(module_path: pathlib.Path, parent: pytest.Collector
                                ) -> pytest.Module:
    """Have every module of tests be one that may skip."""
    return ModuleOfTests.from_parent(parent, path=module_path)


@pytest.fixture(scope='session')
def repository() -> pathlib.Path:
    """The root of the source tree."""
    return REPOSITORY


@pytest.fixture(scope='session')
def data() -> pathlib.Path:
    """The folder of real stereo data; tests that need it skip where it is not there."""
    folder = pathlib.Path(os.environ.get('STEREO_BP_DATA', REPOSITORY / '../shared/data'))
    if not (folder / 'middlebury' / 'sets.yaml').is_file():
        pytest.skip(f'no stereo data in {folder} (set STEREO_BP_DATA)')
    return folder.resolve()


@pytest.fixture
def ros_environment() -> Iterator[dict[str, str]]:
    """Environment for child processes that speak ROS: this machine only, a domain of their own."""
    with machine.domain() as number:
        yield {**os.environ, 'ROS_DOMAIN_ID': str(number)}


@pytest.fixture(scope='session')
def textured_pair() -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    """Makes ``textured_pair(width, height, disparity, seed=0)``."""
    return _textured_pair


def _textured_pair(width: int, height: int, disparity: int, seed: int = 0
                   ) -> tuple[np.ndarray, np.ndarray]:
    """A random uint8 pair of one constant disparity: left(x) = right(x - disparity)."""
    random_values = np.random.default_rng(seed).integers(
        0, 256, (height, width + abs(disparity)), dtype=np.uint8)
    start = max(0, -disparity)
    left = random_values[:, start:start + width]
    right = random_values[:, start + disparity:start + disparity + width]
    return np.ascontiguousarray(left), np.ascontiguousarray(right)
