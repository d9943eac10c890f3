"""The key of a compiled kernel: the files that its code comes from, and no others."""

from __future__ import annotations

import ast
import importlib
import pathlib
import shutil
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

pytest.importorskip('numba')
from stereo_bp_ros.engines.cpu.simd import runtime, sources

Child = Callable[..., str]

#: Of a package ``probes``: what ``run`` in kernels.py reaches there, and the modules.
CASES: dict[str, tuple[set[str], Mapping[str, str]]] = {
    'a constant under another name': ({'values'}, {
        'kernels': 'from probes.values import WIDTH as W\ndef run(x): return x + W',
        'values': 'WIDTH = 3'}),
    'a constant of a module': ({'values'}, {
        'kernels': 'from probes import values\ndef run(x): return x + values.WIDTH',
        'values': 'from probes import other\nWIDTH = 3\ndef make(): return other.make()',
        'other': 'def make(): return 1'}),
    'a function of a function': ({'near', 'far'}, {
        'kernels': 'from probes.near import near\ndef run(x): return near(x)',
        'near': 'from probes.far import far\ndef near(x): return far(x)',
        'far': 'def far(x): return x'}),
    'a function in a table': ({'near', 'far'}, {
        'kernels': 'from probes.near import TABLE\ndef run(x): return TABLE[0](x)',
        'near': 'from probes import far\nTABLE = [far.far]',
        'far': 'def far(x): return x'}),
    'what a package hands on': ({'__init__', 'values'}, {
        'kernels': 'from probes import WIDTH\ndef run(x): return WIDTH',
        '__init__': 'from probes.values import WIDTH',
        'values': 'WIDTH = 3'}),
    'a function in a function': ({'values'}, {
        'kernels': 'from probes.values import WIDTH\n'
                   'def run(x):\n    def inner(y): return y + WIDTH\n    return inner',
        'values': 'WIDTH = 3'}),
    'a lambda and a default': ({'values', 'other'}, {
        'kernels': 'from probes.values import WIDTH\nfrom probes.other import HEIGHT\n'
                   'def run(x=WIDTH): return lambda y=HEIGHT: y',
        'values': 'WIDTH = 3', 'other': 'HEIGHT = 3'}),
    'a decorator': ({'near'}, {
        'kernels': 'from probes.near import near\n@near\ndef run(x): return x',
        'near': 'def near(f): return f'}),
    'a class and what it derives from': ({'near', 'far'}, {
        'kernels': 'from probes.near import Near\ndef run(x): return Near(x).y',
        'near': 'from probes.far import Far\nclass Near(Far):\n    pass',
        'far': 'class Far:\n    y = 1'}),
    'an import where it is used': ({'values'}, {
        'kernels': 'def run(x):\n    from probes.values import WIDTH\n    return WIDTH',
        'values': 'WIDTH = 3'}),
    'a statement that defines nothing': ({'near', 'far'}, {
        'kernels': 'from probes.near import TABLE\ndef run(x): return TABLE[0]',
        'near': 'from probes.far import fill\nTABLE = []\nfill(TABLE)',
        'far': 'def fill(table): table.append(1)'}),
    'a definition by a condition': ({'values', 'other'}, {
        'kernels': 'from probes import other, values\n'
                   'if other.IS_WIDE:\n    WIDTH = values.WIDTH\nelse:\n    WIDTH = 1\n'
                   'def run(x): return WIDTH',
        'values': 'WIDTH = 3', 'other': 'IS_WIDE = True'}),
    'a module as a whole': ({'values', 'other'}, {
        'kernels': 'from probes import values\ndef run(x): return vars(values)[x]',
        'values': 'from probes.other import HEIGHT', 'other': 'HEIGHT = 3'}),
    'a name in a comprehension and outside': ({'values'}, {
        'kernels': 'from probes import values\n'
                   'def run(x): return [values for values in x], values.WIDTH',
        'values': 'WIDTH = 3'}),
    'a variable of the file that a function sets': ({'values'}, {
        'kernels': 'from probes import values\n'
                   'def run(x):\n    global values\n    values = values.WIDTH',
        'values': 'WIDTH = 3'}),
    'no annotation': (set(), {
        'kernels': 'from probes.values import Width\nfrom probes import other\n'
                   'def run(x: Width, *y: Width) -> other.Height:\n    z: Width = x\n    return z',
        'values': 'class Width: pass', 'other': 'class Height: pass'}),
    'no other function of the file': (set(), {
        'kernels': 'from probes.values import WIDTH\ndef run(x): return x\n'
                   'def other(x): return WIDTH',
        'values': 'WIDTH = 3'}),
    'no module that a variable is called like': (set(), {
        'kernels': 'from probes import values\n'
                   'def run(values):\n    return values.WIDTH\n'
                   'def other(x): return values.WIDTH',
        'values': 'WIDTH = 3'})}


@pytest.mark.parametrize('case', CASES)
def test_a_kernel_reaches(case: str, tmp_path: pathlib.Path) -> None:
    expected, modules = CASES[case]
    package = tmp_path / 'probes'
    package.mkdir()
    (package / '__init__.py').touch()
    for name, source in modules.items():
        (package / f'{name}.py').write_text(source)
    found = sources.files(package / 'kernels.py', 'run', package)
    assert {file.stem for file in found} == {'kernels', *expected}


def test_a_kernel_is_compiled_anew_where_what_it_is_made_of_has_changed_and_only_there(
        repository: pathlib.Path, tmp_path: pathlib.Path, child: Child) -> None:
    package = tmp_path / 'stereo_bp_ros'
    shutil.copytree(repository / 'stereo_bp_ros', package, symlinks=True,
                    ignore=shutil.ignore_patterns('__pycache__'))
    folder = package / 'engines' / 'cpu'

    def write(name: str, *lines: str) -> None:
        (folder / f'{name}.py').write_text('\n'.join(lines) + '\n')

    def run() -> str:
        # Python's own cache sees neither of two changes within a second.
        return child('from stereo_bp_ros.engines.cpu.probe import probe\n'
                     'from stereo_bp_ros.engines.cpu.simd import runtime\n'
                     'found = probe()\n'
                     'print(found, *(runtime.origins()[name] for name in ("compiled", "disk")))',
                     tmp_path, PYTHONDONTWRITEBYTECODE='1',
                     XDG_CACHE_HOME=str(tmp_path / 'cache'))

    imports = ('from stereo_bp_ros.engines.cpu.simd.runtime import python_kernel',)
    write('probe', *imports, 'from stereo_bp_ros.engines.cpu.probe_helper import helper',
          '@python_kernel', 'def probe():', '    return helper()')
    write('probe_helper', *imports, 'from stereo_bp_ros.engines.cpu.probe_values import VALUE',
          '@python_kernel', 'def helper():', '    return 10 * VALUE')
    write('probe_values', 'VALUE = 1')
    assert run() == '10 2 0'
    for other in ('engines/cpu/plan.py', 'engines/cpu/tiled.py', 'papers/programs.py',
                  'engines/cache.py', 'config/quantisation.py'):
        with (package / other).open('a') as file:
            file.write('\nOF_NO_KERNEL = 1\n')
    assert run() == '10 0 1'
    write('probe_values', 'VALUE = 2')
    assert run() == '20 2 0'
    write('probe_helper', *imports, 'from stereo_bp_ros.engines.cpu.probe_values import VALUE',
          '@python_kernel', 'def helper():', '    return 100 * VALUE')
    assert run() == '200 2 0'
    with (package / 'engines/cpu/simd/runtime.py').open('a') as file:
        file.write('\n# What makes kernels of functions counts for all.\n')
    assert run() == '200 2 0'


@pytest.fixture(scope='module')
def kernels() -> list[Any]:
    """All kernels of the package."""
    package = pathlib.Path(runtime.__file__).parents[3]
    for file in package.rglob('*.py'):
        if 'simd.runtime import' in file.read_text(encoding='utf-8'):
            importlib.import_module('.'.join(
                (package.name, *file.relative_to(package).with_suffix('').parts)))
    return [one for one in runtime._kernels if one.py_func.__module__.startswith('stereo_bp_ros.')]


def key_of(kernel: Any) -> list[pathlib.Path]:
    function = kernel.py_func
    return sources.files(pathlib.Path(function.__code__.co_filename),
                         function.__qualname__.partition('.')[0])


def names_of(code: types.CodeType) -> Iterator[str]:
    """Globals and attributes that the bytecode of a function and of those in it names."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from names_of(constant)


def imported_by(function: types.FunctionType) -> dict[str, pathlib.Path]:
    """Names that the file of a function imports from the package, and the files they are from."""
    found = {}
    for node in ast.walk(ast.parse(pathlib.Path(function.__code__.co_filename).read_text())):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith('stereo_bp_ros'):
            module = importlib.import_module(str(node.module))
            for alias in node.names:
                value = getattr(module, alias.name, None)
                origin = value if isinstance(value, types.ModuleType) else module
                found[alias.asname or alias.name] = pathlib.Path(str(origin.__file__))
    return found


def test_whatever_the_bytecode_of_a_kernel_names_is_in_its_key(kernels: list[Any]) -> None:
    """As Python has it: names in the bytecode, and the objects that they are."""
    assert len(kernels) > 100
    for kernel in kernels:
        known = set(key_of(kernel))
        waiting, seen = [kernel.py_func], set()
        while waiting:
            function = waiting.pop()
            file = pathlib.Path(function.__code__.co_filename)
            if function in seen or file == sources._END:
                continue
            seen.add(function)
            assert file in known, (kernel, function)
            imported = imported_by(function)
            for name in names_of(function.__code__):
                if name in imported and name in function.__globals__:
                    assert imported[name] in known, (kernel, name)
                values = [function.__globals__.get(name), *(
                    getattr(module, name, None) for module in function.__globals__.values()
                    if isinstance(module, types.ModuleType)
                    and module.__name__.startswith('stereo_bp_ros.'))]
                waiting += [called for value in values
                            if isinstance(called := getattr(value, 'py_func', value),
                                          types.FunctionType)
                            and called.__module__.startswith('stereo_bp_ros.')]


def test_no_kernel_depends_on_plans_settings_or_back_ends(kernels: list[Any]) -> None:
    keys = {file.relative_to(sources._PACKAGE).as_posix()
            for kernel in kernels for file in key_of(kernel)}
    assert {'engines/cpu/simd/vectors.py', 'config/quantisation.py'} <= keys
    assert not keys & {'engines/cpu/plan.py', 'engines/cpu/backend.py', 'config/matcher.py',
                       'config/settings.py', 'papers/programs.py', 'geometry.py'}
