"""The cache of CPU kernels belongs to the sources that its kernels were compiled from."""

from __future__ import annotations

import ast
import pathlib
import shutil
from collections.abc import Callable, Iterator

import pytest

pytest.importorskip('numba')
from stereo_bp_ros.engines.cpu.simd import runtime

MAKERS = {'kernel', 'parallel_kernel', 'intrinsic'}

#: Prints where the cache is, after a kernel was put into it.
USE = """
import numpy as np
from stereo_bp_ros import MatcherConfig
from stereo_bp_ros.engines.cpu.simd import runtime
from stereo_bp_ros.engines.cpu.outputs import enlarge
enlarge.disparities(np.zeros((4, 4), np.int16), 2, np.zeros((8, 8), np.int16))
print(runtime.cache_directory())
"""


@pytest.mark.parametrize(('file', 'constant'), [
    ('config/quantisation.py', 'JUMP'), ('config/quantisation.py', 'NO_SECOND'),
    ('engines/cpu/simd/bytes.py', 'SQUARE')])
def test_a_changed_constant_makes_another_cache_in_spite_of_a_warm_one(
        repository: pathlib.Path, tmp_path: pathlib.Path, child: Callable[..., str], file: str,
        constant: str) -> None:
    package = tmp_path / 'stereo_bp_ros'
    shutil.copytree(repository / 'stereo_bp_ros', package, symlinks=True,
                    ignore=shutil.ignore_patterns('__pycache__'))
    environment = {'PYTHONDONTWRITEBYTECODE': '1', 'XDG_CACHE_HOME': str(tmp_path / 'cache')}

    def used() -> pathlib.Path:
        return pathlib.Path(child(USE, tmp_path, **environment))
    first = used()
    assert list(first.iterdir())
    assert used() == first
    text = (package / file).read_text()
    assert f'\n{constant} = ' in text
    (package / file).write_text(text.replace(f'\n{constant} = ', f'\n{constant} = 1 * '))
    assert used() != first


def at_import(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports of a module that run with it, those for types alone left out."""
    for statement in body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            yield statement
        elif isinstance(statement, ast.If):
            if 'TYPE_CHECKING' not in ast.dump(statement.test):
                yield from at_import(statement.body + statement.orelse)
        elif isinstance(statement, (ast.Try, ast.With)):
            yield from at_import(statement.body)


def module_file(package: pathlib.Path, name: str) -> pathlib.Path | None:
    path = package.parent.joinpath(*name.split('.'))
    files = [file for file in (path.with_suffix('.py'), path / '__init__.py') if file.is_file()]
    return files[0] if files else None


def imported(package: pathlib.Path, source: pathlib.Path) -> set[pathlib.Path]:
    """The package's modules that one of them imports, by Python's own parser."""
    found = set()
    for statement in at_import(ast.parse(source.read_text()).body):
        if isinstance(statement, ast.Import):
            found |= {module_file(package, alias.name) for alias in statement.names}
            continue
        assert statement.level == 0, f'{source} imports relatively'
        for alias in statement.names:
            found.add(module_file(package, f'{statement.module}.{alias.name}')
                      or module_file(package, str(statement.module)))
    return {file for file in found if file is not None and package in file.parents}


def has_kernels(source: pathlib.Path) -> bool:
    """Whether a function of a file is decorated as one."""
    return any(isinstance(node, (ast.Name, ast.Attribute)) and
               getattr(node, 'id', getattr(node, 'attr', '')) in MAKERS
               for function in ast.walk(ast.parse(source.read_text()))
               if isinstance(function, ast.FunctionDef)
               for decorator in function.decorator_list for node in ast.walk(decorator))


def test_every_module_that_a_kernel_s_module_imports_counts(repository: pathlib.Path) -> None:
    package = repository / 'stereo_bp_ros'
    waiting = [source for source in package.rglob('*.py') if has_kernels(source)]
    assert len(waiting) > 20
    expected: set[pathlib.Path] = set()
    while waiting:
        source = waiting.pop()
        if source not in expected:
            expected.add(source)
            waiting += imported(package, source)
    found = set(runtime.kernel_sources(package))
    assert found >= expected
    assert package / 'config/quantisation.py' in found
    # Whatever runs kernels without having any leaves them as they are.
    assert not {'matcher.py', 'node/node.py', 'cli/main.py', 'papers/tables/bench.py'} & {
        file.relative_to(package).as_posix() for file in found}
