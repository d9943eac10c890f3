"""Imports, ``package.xml``, ``setup.py`` and the quality declaration name the same packages."""

from __future__ import annotations

import ast
import pathlib
import re
import runpy
import shlex
import sys
from collections.abc import Callable, Iterable
from typing import Any
from xml.etree import ElementTree

import pytest

from stereo_bp_ros import __version__
from test.cases import every

#: Extras that nobody installs who only runs the package.
TOOLS = {'workspace', 'test', 'docs'}

#: Packages whose module has another name than they have.
MODULES = {'opencv-python-headless': 'cv2', 'PyYAML': 'yaml', 'cupy-cuda12x': 'cupy',
           'rerun-sdk': 'rerun', 'cupy-cuda13x': 'cupy'}

#: Nothing imports these: what builds, a library that is loaded by its file, and the middleware.
NOT_IMPORTED = {'setuptools', 'tbb', 'rmw_fastrtps_cpp'}

Row = dict[str, str]


@pytest.fixture(scope='module')
def tables(repository: pathlib.Path) -> tuple[list[Row], list[Row]]:
    """Rows of the declaration's tables of dependencies: on ROS, and on others."""
    text = (repository / 'QUALITY_DECLARATION.md').read_text(encoding='utf-8')
    found = []
    for table in re.findall(r'(?:^\|.*\n)+', text, re.MULTILINE):
        head, _, *lines = ([cell.strip() for cell in line.strip('|').split('|')]
                           for line in table.splitlines())
        if head[0] == 'package':
            found.append([dict(zip(head, line, strict=True)) for line in lines])
    ros, others = found
    assert every(all(row[cell] for cell in row if not cell.startswith('`'))
                 for row in [*ros, *others])
    return ros, others


def names(rows: Iterable[Row], column: str = 'package') -> set[str]:
    return {name for row in rows for name in re.findall('`([^`]+)`', row[column])}


@pytest.fixture(scope='module')
def manifest(repository: pathlib.Path) -> Callable[[str], set[str]]:
    """What ``package.xml`` names in elements of a kind."""
    root = ElementTree.parse(repository / 'package.xml').getroot()
    return lambda kind: {str(element.text) for element in root.iter(kind)}


@pytest.fixture
def setup(repository: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The arguments of ``setup`` in ``setup.py``."""
    given: dict[str, Any] = {}
    monkeypatch.chdir(repository)
    monkeypatch.setattr('setuptools.setup', given.update)
    runpy.run_path('setup.py')
    return given


def required(setup: dict[str, Any]) -> dict[str, set[str]]:
    """The packages that ``setup.py`` names, and the extras that each is in."""
    found: dict[str, set[str]] = {}
    for extra, requirements in {'required': setup['install_requires'],
                                **setup['extras_require']}.items():
        if extra not in TOOLS:
            for requirement in requirements:
                name = re.match(r'[\w.-]+', requirement)
                assert name
                found.setdefault(name[0], set()).add(extra)
    return found


def is_wheel_of_ros(name: str) -> bool:
    return name.startswith('ros-')


def imported(*folders: pathlib.Path) -> set[str]:
    """The modules of others that Python files import, by name or with ``import_module``."""
    found = set()
    for path in (path for folder in folders for path in folder.rglob('*.py')):
        for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module)
            elif (isinstance(node, ast.Call) and getattr(node.func, 'attr', '') == 'import_module'
                    and isinstance(node.args[0], ast.Constant)):
                found.add(str(node.args[0].value))
    roots = {name.partition('.')[0] for name in found}
    return {'cupy' if name == 'cupyx' else name for name in roots
            } - sys.stdlib_module_names - {'stereo_bp_ros', 'test'}


def test_the_declaration_names_the_ros_packages_of_the_manifest_and_of_the_wheels(
        tables: tuple[list[Row], list[Row]], manifest: Callable[[str], set[str]],
        setup: dict[str, Any]) -> None:
    wheels = {re.sub(r'ros-[a-z]+-', '', name).replace('-', '_')
              for name in required(setup) if is_wheel_of_ros(name)}
    assert wheels >= {'rclpy', 'rmw_fastrtps_cpp'}
    declared = {name for name in manifest('exec_depend') if not name.startswith('python3-')}
    assert names(tables[0]) == declared | wheels
    # The wheels bring other packages with them, but launch files are for ROS from apt.
    assert wheels - {'rmw_fastrtps_cpp'} <= declared


def test_the_declaration_names_the_other_packages_and_where_they_are_required(
        tables: tuple[list[Row], list[Row]], manifest: Callable[[str], set[str]],
        setup: dict[str, Any]) -> None:
    found = {name: extras for name, extras in required(setup).items()
             if not is_wheel_of_ros(name)}
    rows = [row for row in tables[1] if not row['`setup.py`'].startswith('with ')]
    assert names(rows) == set(found)
    for row in rows:
        extras = set(re.findall(r'[\w-]+', row['`setup.py`']))
        assert set.union(*(found[name] for name in names([row]))) == extras, row['package']
    # What others bring.
    for row in tables[1]:
        if row not in rows:
            assert names([row], '`setup.py`') <= set(found), row['package']
    assert names(tables[1], '`package.xml`') == {
        name for name in manifest('exec_depend') if name.startswith('python3-')}


def test_every_package_that_the_code_imports_is_declared_and_every_declared_one_is_imported(
        tables: tuple[list[Row], list[Row]], repository: pathlib.Path) -> None:
    declared = {MODULES.get(name, name) for name in names(tables[0]) | names(tables[1])}
    assert imported(repository / 'stereo_bp_ros', repository / 'launch') == \
        declared - NOT_IMPORTED


def test_what_only_tests_import_of_ros_is_in_the_manifest_for_them(
        repository: pathlib.Path, manifest: Callable[[str], set[str]]) -> None:
    known = manifest('exec_depend') | manifest('test_depend')
    messages = {name for name in imported(repository / 'test')
                if name.endswith(('_msgs', '_interfaces', '_srvs'))}
    assert messages <= known
    assert manifest('test_depend') & manifest('exec_depend') == set()
    assert {name for name in manifest('test_depend')
            if not name.startswith('python3-')} <= messages


def test_versions_agree(manifest: Callable[[str], set[str]], setup: dict[str, Any]) -> None:
    assert setup['version'] == __version__
    assert manifest('version') == {__version__}
    assert manifest('build_type') == {'ament_python'}


def test_the_command_that_keeps_another_opencv_installs_everything_else(
        setup: dict[str, Any], repository: pathlib.Path) -> None:
    line, = re.findall(r'^pip install --no-deps \. && pip install (.*)$',
                       (repository / 'README.md').read_text(encoding='utf-8'), re.MULTILINE)
    wanted = {requirement.partition(';')[0] for requirement in (
        *setup['install_requires'], *setup['extras_require']['cpu'])}
    assert {name for name in wanted if name.startswith('opencv')} == {
        'opencv-python-headless>=4.5'}
    assert set(shlex.split(line)) == {
        name for name in wanted if not name.startswith(('opencv', 'setuptools'))}
