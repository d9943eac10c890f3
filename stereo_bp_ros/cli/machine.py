"""Versions and the machine, which figures are quoted with."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import time
from typing import Any

from stereo_bp_ros import __version__
from stereo_bp_ros.engines import host_memory

PACKAGES = ('numpy', 'opencv-python-headless', 'opencv-python', 'numba', 'llvmlite', 'tbb',
            'cupy-cuda12x', 'cupy-cuda13x', 'rosbags', 'mcap', 'rclpy')


def origin() -> dict[str, Any]:
    """For JSON: the date, ``versions`` and ``machine`` of figures."""
    return {'date': time.strftime('%Y-%m-%dT%H:%M:%S%z'), 'versions': versions(),
            'machine': machine()}


def versions() -> dict[str, str]:
    """Of this package, Python, and those of ``PACKAGES`` that are installed."""
    found = {'stereo_bp_ros': __version__, 'python': platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, Any]:
    """System, processor, cores that this process may use, and free memory."""
    return {'system': platform.platform(), 'processor': processor(),
            'cores': len(os.sched_getaffinity(0)),
            'available memory MiB': round(host_memory.available() / 2**20)}


def processor() -> str:
    """The processor by the name that its maker gave it."""
    with open('/proc/cpuinfo', encoding='ascii', errors='replace') as file:
        for line in file:
            if line.startswith('model name'):
                return line.split(':', 1)[1].strip()
    return platform.processor() or platform.machine()
