"""An installation of the package that launch files are tried in."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import yaml

from test.other_nodes import folders

#: What ``ros2 launch`` does, without ros2cli.
RUN = """
import sys
from launch import LaunchDescription, LaunchService
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
path, *arguments = sys.argv[1:]
service = LaunchService(argv=arguments)
service.include_launch_description(LaunchDescription([IncludeLaunchDescription(
    PythonLaunchDescriptionSource(path),
    launch_arguments=[tuple(a.split(':=', 1)) for a in arguments])]))
sys.exit(service.run())
"""

#: An executable that tells how it was called.
TELL = """#!{python}
import json, os, sys, time
with open({path!r} + str(os.getpid()), 'w') as file:
    json.dump({{'arguments': sys.argv[1:], 'environment': dict(os.environ)}}, file)
os.rename(file.name, file.name + '.json')
time.sleep({seconds})
sys.exit({status})
"""

REAL = """#!/bin/sh
exec {python} -m {module} "$@"
"""


class Bench:
    """An installation of the package in a temporary prefix, with the launch files as they are."""

    def __init__(self, directory: pathlib.Path, repository: pathlib.Path, domain: int) -> None:
        self.directory = directory
        self.repository = repository
        self.prefix = directory / 'prefix'
        self.told = directory / 'told'
        self.told.mkdir()
        self.domain = domain

    def install(self, name: str, text: str, package: str) -> None:
        index = self.prefix / 'share/ament_index/resource_index/packages' / package
        index.parent.mkdir(parents=True, exist_ok=True)
        index.touch()
        path = self.prefix / 'lib' / package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def install_telling(self, name: str, seconds: float = 60.0, status: int = 0,
                        package: str = 'stereo_bp_ros') -> None:
        self.install(name, TELL.format(python=sys.executable, seconds=seconds, status=status,
                                       path=str(self.told / f'{name}.')), package)

    def install_real(self, name: str, module: str) -> None:
        self.install(name, REAL.format(python=sys.executable, module=module), 'stereo_bp_ros')

    @contextlib.contextmanager
    def running(self, file: str, *arguments: str, **environment: str
                ) -> Iterator[subprocess.Popen[str]]:
        """The launch file in a process group of its own, killed at the end."""
        command = [sys.executable, '-c', RUN, str(self.repository / 'launch' / file), *arguments]
        paths = [*os.environ.get('PYTHONPATH', '').split(os.pathsep), *folders()]
        environment = {
            **{k: v for k, v in os.environ.items() if 'PROFILES_FILE' not in k},
            'PYTHONPATH': os.pathsep.join(filter(None, paths)),
            'AMENT_PREFIX_PATH': str(self.prefix), 'ROS_DOMAIN_ID': str(self.domain),
            'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST', 'ROS_LOG_DIR': str(self.directory),
            **environment}
        with open(self.directory / 'log', 'w') as log:
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, text=True,
                                       start_new_session=True, env=environment)
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)

    @property
    def log(self) -> str:
        return (self.directory / 'log').read_text()

    def wait_for(self, text: str, limit: float = 240.0, count: int = 1) -> None:
        end = time.monotonic() + limit
        while self.log.count(text) < count:
            assert time.monotonic() < end, f'{text!r} was not logged:\n{self.log}'
            time.sleep(0.05)

    def call(self, name: str, limit: float = 20.0) -> tuple[list[str], dict[str, str]]:
        """How an executable was called: its arguments and its environment."""
        return self.calls(name, 1, limit)[0]

    def calls(self, name: str, count: int, limit: float = 20.0
              ) -> list[tuple[list[str], dict[str, str]]]:
        """How an executable was called, at least so often."""
        end = time.monotonic() + limit
        while len(found := sorted(self.told.glob(f'{name}.*.json'))) < count:
            assert time.monotonic() < end, f'{name} was not started:\n{self.log}'
            time.sleep(0.05)
        told = [json.loads(file.read_text()) for file in found]
        return [(call['arguments'], call['environment']) for call in told]


def parameter_files(arguments: list[str]) -> list[dict[str, Any]]:
    """Contents of the parameter files, in their order."""
    paths = [arguments[i + 1] for i, a in enumerate(arguments) if a == '--params-file']
    # launch_ros writes lists as tuples of Python.
    return [next(iter(yaml.full_load(pathlib.Path(p).read_text()).values()))['ros__parameters']
            for p in paths]


def remappings(arguments: list[str]) -> dict[str, str]:
    pairs = [arguments[i + 1] for i, a in enumerate(arguments) if a == '-r']
    return dict(pair.split(':=') for pair in pairs)
