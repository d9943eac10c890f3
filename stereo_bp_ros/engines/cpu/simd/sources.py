"""The files that a kernel is compiled from: those of whatever its code can reach.

Numba compiles functions and constants of other modules into a kernel. What a module imports for
other functions, or for annotations, does not count.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

_PACKAGE = pathlib.Path(__file__).parents[3]

#: Counts as a whole, without its imports: they cache files and report progress.
_END = pathlib.Path(__file__).with_name('runtime.py')

#: In place of a name: all that a module defines.
EVERYTHING = '*'


class _Place(NamedTuple):
    """A name that a file defines or imports."""

    file: pathlib.Path
    name: str


class _Use(NamedTuple):
    """A name in code, and the attribute that is taken of it ('' = of itself)."""

    name: str
    attribute: str


@functools.cache
def digest(file: str, name: str) -> str | None:
    """Of every file that the code of a function can reach; None = one cannot be read.

    :param file: that of the function; name: what it is called at the top of that file.
    """
    try:
        parts = [f'{_relative(source)} {_digest(source)}'
                 for source in files(pathlib.Path(file), name)]
    except (OSError, SyntaxError, ValueError):
        return None
    return hashlib.sha256('\n'.join(parts).encode()).hexdigest()


def files(file: pathlib.Path, name: str, package: pathlib.Path = _PACKAGE) -> list[pathlib.Path]:
    """The files that the code of a function can reach: its own, and others of the package.

    :param file, name: as for ``digest``.
    :raises OSError, SyntaxError, ValueError: one of them cannot be read.
    """
    waiting, reached = [_Place(file, name)], set()
    while waiting:
        place = waiting.pop()
        if place not in reached:
            reached.add(place)
            if place.file != _END:
                waiting += _module(place.file).reached(place.name, package)
    return sorted({place.file for place in reached})


class _Module:
    """What a file defines and imports.

    uses: of each name that it defines, the names in that code; effects: those in statements that
    define nothing, which may change any value; imports: of each name, module and name in it ('' =
    the module itself).
    """

    def __init__(self, file: pathlib.Path) -> None:
        self._file = file
        self._uses: dict[str, set[_Use]] = {}
        self._effects: set[_Use] = set()
        self._imports: dict[str, set[tuple[str, str]]] = {}
        for statement in ast.parse(file.read_bytes()).body:
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                self._add_import(statement)
                continue
            code = _Code()
            code.visit(statement)
            for found in code.imports:
                self._add_import(found)
            for name in code.bound:
                self._uses.setdefault(name, set()).update(code.uses)
            if not code.bound:
                self._effects |= code.uses

    def _add_import(self, found: ast.Import | ast.ImportFrom) -> None:
        for each in found.names:
            if isinstance(found, ast.Import):
                # Without ``as`` the name is that of the outermost package.
                bound, target = each.asname or each.name.partition('.')[0], (each.name, '')
            else:
                bound, target = each.asname or each.name, (found.module or '', each.name)
            self._imports.setdefault(bound, set()).add(target)

    def reached(self, name: str, package: pathlib.Path) -> Iterator[_Place]:
        """Where the code of a name leads, in one step."""
        if name == EVERYTHING:
            uses = set(self._effects).union(*self._uses.values())
            uses |= {_Use(bound, '') for bound in self._imports}
        else:
            uses = self._effects | self._uses.get(name, set()) | {_Use(name, '')}
        for use in uses:
            if use.name in self._uses:
                yield _Place(self._file, use.name)
            for module, imported in self._imports.get(use.name, ()):
                if imported and (submodule := _find(f'{module}.{imported}', package)):
                    yield _Place(submodule, use.attribute or EVERYTHING)
                elif file := _find(module, package):
                    yield _Place(file, imported or EVERYTHING)


class _Code(ast.NodeVisitor):
    """The names that a scope binds, uses and imports, annotations aside.

    What its functions use counts, except for their own variables.
    """

    def __init__(self) -> None:
        self.bound: set[str] = set()
        self.uses: set[_Use] = set()
        self.imports: list[ast.Import | ast.ImportFrom] = []
        self._declared_global: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.uses.add(_Use(node.id, ''))
        elif node.id not in self._declared_global:
            self.bound.add(node.id)

    def visit_Global(self, node: ast.Global) -> None:
        self._declared_global.update(node.names)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.value, ast.Name):
            self.uses.add(_Use(node.value.id, node.attr))
        else:
            self.visit(node.value)

    def visit_Import(self, node: ast.Import) -> None:
        self.imports.append(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.imports.append(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.target)
        if node.value:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.bound.add(node.name)
        self._visit_all(node.decorator_list)
        self._visit_function(node.args, node.body)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_function(node.args, [node.body])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.bound.add(node.name)
        self._visit_all([*node.decorator_list, *node.bases, *node.keywords])
        self._visit_inside(node.body)

    def visit_comprehension_of_any_kind(self, node: ast.AST) -> None:
        self._visit_inside(ast.iter_child_nodes(node))

    visit_ListComp = visit_SetComp = visit_comprehension_of_any_kind
    visit_DictComp = visit_GeneratorExp = visit_comprehension_of_any_kind

    def _visit_function(self, arguments: ast.arguments, body: Sequence[ast.AST]) -> None:
        self._visit_all([*arguments.defaults, *filter(None, arguments.kw_defaults)])
        own = {argument.arg for argument in (
            *arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs,
            *filter(None, (arguments.vararg, arguments.kwarg)))}
        self._visit_inside(body, own)

    def _visit_inside(self, nodes: Iterable[ast.AST], own: set[str] | None = None) -> None:
        """Visit another scope; ``own``: parameters of a function, which hides what it binds."""
        inside = _Code()
        inside._visit_all(nodes)
        self.imports += inside.imports
        hidden = set() if own is None else own | inside.bound
        self.uses |= {use for use in inside.uses if use.name not in hidden}

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)


@functools.cache
def _module(file: pathlib.Path) -> _Module:
    return _Module(file)


@functools.cache
def _find(module: str, package: pathlib.Path) -> pathlib.Path | None:
    """The file of a module of the package; None = it is none of the package."""
    root, *names = module.split('.')
    if root != package.name:
        return None
    place = package.joinpath(*names)
    return next((file for file in (place / '__init__.py', place.with_suffix('.py'))
                 if file.is_file()), None)


@functools.cache
def _digest(file: pathlib.Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _relative(file: pathlib.Path) -> str:
    """The name of a file wherever the package is installed."""
    return (file.relative_to(_PACKAGE).as_posix() if file.is_relative_to(_PACKAGE)
            else file.name)
