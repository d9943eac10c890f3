"""The rules of the house: who may import whom, and what importing costs."""

from __future__ import annotations

import ast
import functools
import itertools
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterable

from stereo_bp_ros.papers.programs import PROGRAMS
from test.cases import every

PACKAGE = 'stereo_bp_ros'
CONTRIBUTING = (pathlib.Path(__file__).parents[2] / 'CONTRIBUTING.md').read_text(encoding='utf-8')


#: What nearer rules allow a room, and what they forbid it.
ALLOWED = {
    'papers/programs': {'config/settings'},
    'engines/cuda/runtime': {'errors', 'system/resources', 'engines/geometry', 'engines/cache',
                             'engines/compiling', 'engines/cuda/runtime'},
    'engines/cpu/simd': {'errors', 'engines/cache', 'engines/compiling', 'engines/cpu/simd'}}
FORBIDDEN = {'node': {'papers', 'sources', 'evaluation'}}

#: Lines of a file, and characters of a line; tables and addresses of pages aside.
MAX_FILE, MAX_LINE = 450, 99

OWNERS = {'numba': {'engines/cpu', 'papers'}, 'llvmlite': {'engines/cpu'},
          'cupy': {'engines/cuda', 'papers'},
          'rerun': {'replay/viewing'},
          'rclpy': {'node', 'replay', 'cli/replay', 'cli/demo'}}


def modules(repository: pathlib.Path) -> list[pathlib.Path]:
    return sorted((repository / PACKAGE).rglob('*.py'))


def pages(repository: pathlib.Path) -> list[pathlib.Path]:
    found = {page for folder in ('', 'docs', 'kernels')
             for page in (repository / folder).glob('**/*.md' if folder else '*.md')}
    return sorted(found | {repository / 'CHANGELOG.rst'})


@functools.cache
def nodes(path: pathlib.Path) -> list[ast.AST]:
    """All of a module, parsed once."""
    return list(ast.walk(ast.parse(path.read_text(encoding='utf-8'))))


@functools.cache
def imports(path: pathlib.Path) -> set[str]:
    found = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f'{node.module}.{alias.name}' for alias in node.names}
    return found


def is_in(place: str, rooms: Iterable[str]) -> bool:
    return any(place == room or place.startswith(f'{room}/') for room in rooms)


def place_of(name: str, repository: pathlib.Path) -> str:
    """The file or room of the package that an import names; '' for a name of the package."""
    parts = name.split('.')[1:]
    while parts and not ((repository / PACKAGE).joinpath(*parts).is_dir()
                         or (repository / PACKAGE).joinpath(*parts).with_suffix('.py').is_file()):
        parts.pop()
    return '/'.join(parts)


def drawn() -> list[str]:
    """Folders, and modules at the top, in the drawing of CONTRIBUTING.md, from above."""
    drawing = CONTRIBUTING.partition('```\nkernels/')[2].partition('```')[0]
    found, above = ['kernels'], ['']
    for line in drawing.splitlines()[1:]:
        names = re.match(r'((?:    )*)((?:[a-z_]+(?:/|\.py)(?: +|$))+)', line)
        if names and len(line) - len(line.lstrip()) < 20:
            depth = len(names[1]) // 4
            here = [above[depth] + name for name in names[2].split()]
            found += [name.rstrip('/') for name in here]
            above[depth + 1:] = [here[-1]]
    return found


def rooms() -> list[str]:
    """Those of the package, in their order."""
    return [name.removeprefix(f'{PACKAGE}/').removesuffix('.py') for name in drawn()
            if name.startswith(f'{PACKAGE}/') and name.count('/') == 1]


def test_the_drawing_of_the_house_shows_its_folders(repository):
    package = repository / PACKAGE
    in_package = {path.parent.relative_to(repository).as_posix() for path in package.rglob('*.py')}
    at_the_top = {f'{PACKAGE}/{path.name}' for path in package.glob('[a-z]*.py')}
    shown = set(drawn())
    assert {name for name in shown if name.startswith(PACKAGE)} == in_package | at_the_top
    assert every((repository / name).exists() for name in shown)


def may_import(here: str, place: str) -> bool:
    """Whether a module of the package may import a file or room of it ('' = the package)."""
    order = rooms()
    near = max((room for room in ALLOWED if is_in(here, [room])), key=len, default='')
    if near:
        return is_in(place, ALLOWED[near])
    room, other = here.partition('/')[0], place.partition('/')[0]
    if not other:
        return room == order[-1]
    if place == 'papers/programs' and room in ('config', 'engines'):
        return True
    return order.index(other) <= order.index(room) and other not in FORBIDDEN.get(room, ())


def test_every_room_imports_only_those_before_it(repository):
    violations = []
    for path in modules(repository):
        here = path.relative_to(repository / PACKAGE).with_suffix('').as_posix()
        if here == '__init__':
            continue
        for name in imports(path):
            if name.split('.')[0] == PACKAGE and not may_import(here, place_of(name, repository)):
                violations.append(f'{path.relative_to(repository)} imports {name}')
    assert not violations


def test_a_room_itself_imports_nothing(repository):
    """So that a name has one place that it is imported from."""
    inits = [path for path in modules(repository)
             if path.name == '__init__.py' and path.parent.name != PACKAGE]
    assert len(inits) > 20
    assert not [str(path) for path in inits if imports(path)]


def test_only_papers_name_the_programs_that_repeat_them(repository):
    name = re.compile('|'.join(PROGRAMS))
    paths = [path for path in modules(repository)
             if is_in(path.relative_to(repository / PACKAGE).with_suffix('').as_posix(),
                      set(rooms()[:rooms().index('sources')]) - {'papers'})]
    assert len(paths) > 100
    assert not [str(path.relative_to(repository)) for path in paths
                if name.search(path.read_text(encoding='utf-8'))]


#: What measures a camera over time, and its place.
ESTIMATORS = {'alignment.row_points', 'row_estimator.RowEstimator', 'yaw_tracker.YawTracker',
              'checks.check_exchanged', 'checks.FrozenCameras', 'checks.check_vertical_offset',
              'frame_checks.FrameChecks'}


def test_the_estimators_have_one_caller(repository):
    """So that node, evaluation, command line and Python find the same."""
    callers = {path.stem for path in modules(repository) for node in nodes(path)
               if isinstance(node, (ast.Name, ast.Attribute))
               and (node.id if isinstance(node, ast.Name) else node.attr) in {
                   name.partition('.')[2] for name in ESTIMATORS}}
    places = {name.partition('.')[0] for name in ESTIMATORS}
    assert callers - places == {'observer'}


def test_no_modules_import_each_other(repository):
    """Not in functions and for types either: what comes first in the house knows nothing of what
    comes after it.
    """
    files = {path.relative_to(repository).with_suffix('').as_posix().replace('/', '.'
             ).removesuffix('.__init__'): path for path in modules(repository)}
    imported = {name: {found if found in files else found.rpartition('.')[0]
                       for found in imports(path)} & files.keys() - {name}
                for name, path in files.items()}
    while done := [name for name, others in imported.items() if not others & imported.keys()]:
        for name in done:
            del imported[name]
    assert len(files) > 240
    assert not imported, 'in or above a circle: ' + ', '.join(sorted(imported))


def test_numba_cupy_and_rclpy_are_imported_only_by_their_rooms(repository):
    violations = []
    for path in modules(repository):
        where = path.relative_to(repository / PACKAGE).with_suffix('').as_posix()
        for name in {n.split('.')[0] for n in imports(path)} & OWNERS.keys():
            if not is_in(where, OWNERS[name]):
                violations.append(f'{where} imports {name}')
    assert not violations


def test_importing_the_package_loads_neither_numba_nor_cupy_nor_rclpy():
    script = ('import sys, stereo_bp_ros; '
              'print(sorted({"numba", "cupy", "rclpy"} & set(sys.modules)))')
    output = subprocess.run([sys.executable, '-c', script], check=True, capture_output=True,
                            text=True).stdout
    assert output.strip() == '[]'


def kernels(repository: pathlib.Path) -> list[pathlib.Path]:
    """Everything that is C++: kernels, and the headers with which tests run them."""
    return sorted(path for folder in ('kernels', 'test')
                  for path in (repository / folder).rglob('*')
                  if path.suffix in ('.cu', '.cuh', '.h'))


def test_no_file_needs_a_table_of_contents(repository):
    long = {str(path.relative_to(repository)): lines
            for path in [*modules(repository), *kernels(repository), *pages(repository),
                         *(repository / 'test').rglob('*.py'),
                         *(repository / 'benchmarks').rglob('*.py')]
            if (lines := len(path.read_text(encoding='utf-8').splitlines())) > MAX_FILE}
    assert not long


def settings_and_builds(repository: pathlib.Path) -> list[pathlib.Path]:
    """What is neither Python nor C++ nor a page, and written by hand."""
    names = ('Makefile', 'setup.cfg', 'pyproject.toml', 'package.xml', 'docker/Dockerfile')
    return [*(repository / name for name in names),
            *sorted((repository / 'config').rglob('*.yaml')),
            *sorted((repository / 'benchmarks').rglob('*.yaml'))]


def test_lines_of_other_files_are_as_short_as_those_of_python(repository):
    read = [kernels(repository), pages(repository), settings_and_builds(repository)]
    assert every(read)
    long = [f'{path.relative_to(repository)}:{number}' for path in itertools.chain(*read)
            for number, line in enumerate(path.read_text(encoding='utf-8').splitlines(), 1)
            if len(line) > MAX_LINE
            and not (path.suffix == '.md' and line.lstrip().startswith('|'))
            and '://' not in line]
    assert not long


def test_nothing_is_left_for_later(repository):
    pattern = re.compile(r'\b(TODO|FIXME|XXX)\b|NotImplementedError')
    assert not [path for path in modules(repository) if pattern.search(path.read_text())]


def test_no_test_holds_of_nothing(repository):
    """``assert all(...)`` passes where there is nothing to judge; ``cases.every`` does not."""
    assert not [path for path in (repository / 'test').rglob('*.py') if re.search(
        r'^ *assert all\(', path.read_text(encoding='utf-8'), re.MULTILINE)]
