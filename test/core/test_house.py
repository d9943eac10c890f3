"""The rules of the house: who may import whom, and what importing costs."""

from __future__ import annotations

import ast
import pathlib
import re
import subprocess
import sys

import pytest

PACKAGE = 'stereo_bp_ros'
CORE = {'config', 'parameter_files', 'settings', 'errors', 'types', 'images', 'camera', 'geometry',
        'partitions'}
ALLOWED = {
    'engines': CORE | {'engines'},
    'matcher': CORE | {'engines'},
    'node': CORE | {'matcher', 'engines', 'node', ''},
    'evaluation': CORE | {'matcher', 'evaluation'},
    'replay': CORE | {'matcher', 'evaluation', 'replay'},
    'cli': CORE | {'matcher', 'engines', 'evaluation', 'replay', 'cli', ''},
    **dict.fromkeys(CORE, CORE),
}
OWNERS = {'numba': {'engines/cpu'}, 'llvmlite': {'engines/cpu'}, 'cupy': {'engines/cuda'},
          'rclpy': {'node', 'replay', 'cli/replay.py', 'cli/demo.py'}}


def modules(repository: pathlib.Path) -> list[pathlib.Path]:
    return sorted((repository / PACKAGE).rglob('*.py'))


def imports(path: pathlib.Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f'{node.module}.{alias.name}' for alias in node.names}
    return found


def room(path: pathlib.Path, repository: pathlib.Path) -> str:
    return path.relative_to(repository / PACKAGE).with_suffix('').parts[0]


def test_every_room_imports_only_the_rooms_that_it_may(repository):
    violations = []
    for path in modules(repository):
        here = room(path, repository)
        if here == '__init__':
            continue
        for name in imports(path):
            parts = name.split('.')
            if parts[0] != PACKAGE:
                continue
            target = parts[1] if len(parts) > 1 else ''
            if not (repository / PACKAGE / target).is_dir() and \
                    not (repository / PACKAGE / f'{target}.py').is_file():
                target = ''         # a name of the package itself, such as __version__
            if target not in ALLOWED[here]:
                violations.append(f'{path.relative_to(repository)} imports {name}')
    assert not violations


def test_numba_cupy_and_rclpy_are_imported_only_by_their_rooms(repository):
    violations = []
    for path in modules(repository):
        where = path.relative_to(repository / PACKAGE).as_posix()
        for name in {n.split('.')[0] for n in imports(path)} & OWNERS.keys():
            if not any(where == owner or where.startswith(f'{owner}/')
                       for owner in OWNERS[name]):
                violations.append(f'{where} imports {name}')
    assert not violations


def test_importing_the_package_loads_neither_numba_nor_cupy_nor_rclpy():
    script = ('import sys, stereo_bp_ros; '
              'print(sorted({"numba", "cupy", "rclpy"} & set(sys.modules)))')
    output = subprocess.run([sys.executable, '-c', script], check=True, capture_output=True,
                            text=True, timeout=60).stdout
    assert output.strip() == '[]'


def test_no_file_needs_a_table_of_contents(repository):
    long = {str(path.relative_to(repository)): lines for path in modules(repository)
            if (lines := len(path.read_text().splitlines())) > 450}
    assert not long


@pytest.mark.parametrize('pattern', [r'\bTODO\b', r'\bFIXME\b', r'\bXXX\b', 'NotImplementedError'])
def test_nothing_is_left_for_later(repository, pattern):
    marked = [str(path.relative_to(repository)) for path in modules(repository)
              if re.search(pattern, path.read_text())]
    assert not marked
