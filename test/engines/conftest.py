"""Makes the plain reference implementations beside the tests importable."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest

sys.path.append(str(pathlib.Path(__file__).parent))


@pytest.fixture
def child(repository: pathlib.Path) -> Callable[..., str]:
    """Runs ``child(source, **environment)`` in a fresh interpreter; returns what it prints."""
    def run(source: str, package_parent: pathlib.Path = repository, **environment: str) -> str:
        variables = {**os.environ, 'PYTHONPATH': str(package_parent), **environment}
        done = subprocess.run([sys.executable, '-c', source], env=variables, text=True,
                              cwd=package_parent, capture_output=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()
    return run
