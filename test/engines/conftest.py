"""Fixtures of the engines' tests: a fresh interpreter, and frames that may not allocate."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest


@pytest.fixture
def child(repository: pathlib.Path) -> Callable[..., str]:
    """Runs ``child(source, **environment)`` in a fresh interpreter; returns what it prints."""
    def run(source: str, package_parent: pathlib.Path = repository, **environment: str) -> str:
        variables = {**os.environ, 'PYTHONPATH': str(package_parent), **environment}
        done = subprocess.run([sys.executable, '-c', source], env=variables, text=True,
                              cwd=package_parent, capture_output=True, timeout=900, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()
    return run


@pytest.fixture
def refuse_to_allocate(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes every further allocation and compilation of the CUDA engine fail the test."""
    def install() -> None:
        from cupy.cuda import memory, nvrtc, pinned_memory

        from stereo_bp_ros.engines.cuda.runtime import arena

        def refuse(*_: object, **__: object) -> None:
            raise AssertionError('allocated or compiled during a frame')

        for owner, name in ((memory, 'Memory'), (pinned_memory, 'PinnedMemory'),
                            (nvrtc, 'createProgram'), (arena, 'Arena')):
            monkeypatch.setattr(owner, name, refuse)
    return install
