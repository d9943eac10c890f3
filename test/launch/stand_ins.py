"""Modules in place of launch, launch_ros and ament_index_python: they only keep what they get."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
import types
from typing import Any

import pytest

MODULES = ('ament_index_python', 'ament_index_python.packages', 'launch', 'launch.actions',
           'launch.event_handlers', 'launch.events', 'launch.events.process',
           'launch.launch_description_sources', 'launch.logging', 'launch_ros',
           'launch_ros.actions')


class Entity:
    """Whatever a launch file makes: the arguments that it was made with, by position and name."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self.given = given
        self.__dict__.update(named)


class DeclareLaunchArgument(Entity):
    choices = None

    def __init__(self, name: str, **named: Any) -> None:
        super().__init__(name=name, **named)


class Node(Entity):
    @property
    def node_package(self) -> str:
        return str(self.package)

    @property
    def node_executable(self) -> str:
        return str(self.executable)


class PythonLaunchDescriptionSource(Entity):
    """The launch file at a path; its arguments are those that it has declared."""

    def get_launch_description(self, context: Any) -> Any:
        module = load(pathlib.Path(self.given[0]))
        return types.SimpleNamespace(get_launch_arguments=lambda: module.ARGUMENTS)


class Module(types.ModuleType):
    """Has a class for every name that is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith('__'):
            raise AttributeError(name)
        made = globals().get(name) or type(name, (Entity,), {})
        setattr(self, name, made)
        return made


class Logger:
    """Keeps what is logged, in ``said``."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.info = self.warning = self.error = self.said.append


def load(path: pathlib.Path) -> Any:
    """A launch file as a module. Its ``logger`` keeps what it logs."""
    logger = Logger()
    with pytest.MonkeyPatch.context() as patch:
        for name in MODULES:
            patch.setitem(sys.modules, name, Module(name))
        patch.setattr(sys.modules['launch.logging'], 'get_logger', lambda name: logger)
        spec = importlib.util.spec_from_file_location('launch_file', path)
        assert spec is not None
        assert spec.loader is not None
        module: Any = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    module.logger = logger
    return module


def context(given: dict[str, str], **more: Any) -> Any:
    """A LaunchContext in which these configurations are set."""
    return types.SimpleNamespace(**{
        'launch_configurations': given, 'argv': [], 'is_shutdown': False, **more})


def of(kind: str, entities: list[Any]) -> list[Any]:
    """Those of the entities whose class has this name."""
    return [entity for entity in entities if type(entity).__name__ == kind]
