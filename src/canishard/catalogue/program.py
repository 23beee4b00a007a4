"""The files that a check is run with: its own, those below ``canishard.checks`` that it shares, and what declares it.

Each with what its names stand for, and what running a statement of it may change.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import canishard
from canishard.catalogue import sources
from canishard.catalogue.scope import LOOKED, PASSED, STORED, Reference
from canishard.catalogue.sources import Source, Statement

if TYPE_CHECKING:
    from canishard.catalogue.declarations import TableEntry

PACKAGE = Path(canishard.__file__).parent
SHARED = PACKAGE / "check.py"
"""What every check is handed its context by."""
DECLARING = PACKAGE / "declare.py"
"""What a check is declared by."""

Key = tuple[Path, str]
"""A name of a file; ``*`` stands for all of them."""
FOREIGN: Key = (Path(), "")
"""Something of torch, or of the standard library, which whoever runs afterwards has as it was left."""


@functools.cache
def read(path: Path) -> Program:
    """Return the files that a check's file imports, itself included."""
    files: dict[Path, File] = {}
    _collect(SHARED, files)
    _collect(path, files)
    return Program(files)


def _collect(path: Path, files: dict[Path, File], around: tuple[Path, ...] = ()) -> None:
    if path in files or path in around:
        return
    file = File(sources.read(path))
    for inner in file.imported():
        _collect(inner, files, (*around, path))
    files[path] = file


def _module(name: str) -> Path | None:
    """Return the file of a module that checks share; None for every other module."""
    parts = name.split(".")
    if parts[0] != "canishard" or parts[1:2] not in (["check"], ["checks"], ["declare"]):
        return None
    base = PACKAGE.joinpath(*parts[1:])
    return next((file for file in (base.with_suffix(".py"), base / "__init__.py") if file.is_file()), None)


class File:
    """A source file, with what its names stand for."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.binders: dict[str, list[Statement]] = {}
        for statement in source.statements:
            for name in statement.facts.binds:
                self.binders.setdefault(name, []).append(statement)
        self.read = {name for statement in source.statements for name, _ in statement.facts.reads}

    @functools.cached_property
    def ours(self) -> dict[str, set[Key]]:
        """What names at the top level are imported from files that checks share."""
        found: dict[str, set[Key]] = {}
        for statement in self.source.statements:
            for node in statement.facts.imports:
                for name, key in self.origins(node):
                    if name in statement.facts.binds:
                        found.setdefault(name, set()).add(key)
        return found

    def imported(self) -> Iterator[Path]:
        """Yield the files that it imports, in order."""
        for statement in self.source.statements:
            for node in statement.facts.imports:
                for _, (path, _) in self.origins(node):
                    yield path

    def origins(self, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Key]]:
        """Yield each name that an import binds to something of ours, with what it is."""
        for alias in node.names:
            if isinstance(node, ast.Import):
                path = _module(alias.name)
                if path and not alias.asname:
                    where = f"{self.source.path.name}:{node.lineno}"
                    msg = f"{where}: import {alias.name}: write `from ... import`, or `import ... as`"
                    raise sources.Unreadable(msg)
                if path:
                    yield alias.asname or "", (path, "*")
                continue
            base = self._absolute(node)
            inner = _module(f"{base}.{alias.name}")
            outer = inner or _module(base)
            if outer:
                yield alias.asname or alias.name, (outer, "*" if inner else alias.name)

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        folders = self.source.path.parents[node.level - 1]
        inside = folders.relative_to(PACKAGE).parts if folders.is_relative_to(PACKAGE) else ("",)
        return ".".join(["canishard", *inside, *filter(None, [node.module])])

    def is_always(self, statement: Statement) -> bool:
        """Tell whether a statement counts whatever is reached: it is run for what it does besides binding names."""
        facts = statement.facts
        is_import = isinstance(statement.node, ast.Import | ast.ImportFrom)
        is_for_effect = is_import and not facts.binds & (self.read | self.ours.keys())
        return facts.is_bare or is_for_effect or (facts.is_opaque and facts.calls)

    def kinds(self, name: str) -> set[str]:
        """Return what a name may be: ``import``, ``function``, ``constant``, ``literal`` or ``other``."""
        return {_kind(statement.node) for statement in self.binders.get(name, ())}


def _is_told(called: tuple[File, Statement]) -> bool:
    """Tell whether a class is told of its subclasses."""
    return any(getattr(node, "name", "") == "__init_subclass__" for node in ast.walk(called[1].node))


def _kind(node: ast.stmt) -> str:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return "import"
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return "function"
    value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
    if value is None:
        return "literal" if isinstance(node, ast.ClassDef) else "other"
    inside = list(ast.walk(value))
    plain = (ast.Constant, ast.Tuple, ast.expr_context, ast.UnaryOp, ast.unaryop, ast.BinOp, ast.operator)
    if all(isinstance(one, (*plain, ast.JoinedStr)) for one in inside):
        return "constant"
    displays = (ast.Dict, ast.List, ast.Set, ast.Tuple, ast.ListComp, ast.SetComp, ast.DictComp)
    return "literal" if isinstance(value, displays) else "other"


class Program:
    """The files that a check is run with, in the order in which they are run."""

    def __init__(self, files: dict[Path, File]) -> None:
        self.files = files
        self.tables: dict[Key, Mapping[str, TableEntry]] = {}
        """Of each check that was asked for, the entries of its table."""
        self._effects: dict[Statement, frozenset[Key]] = {}
        self.statements = [
            (file, statement) for file in files.values() for statement in file.source.statements
        ]

    def keys(self, file: File, reference: Reference) -> set[Key]:
        """Return what a reference stands for: the name of its file, and what that was imported as."""
        name, attribute = reference
        found: set[Key] = {(file.source.path, name)}
        for path, inner in file.ours.get(name, ()):
            if inner != "*":
                found |= self.keys(self.files[path], (inner, ""))
            elif attribute:
                found |= self.keys(self.files[path], (attribute, ""))
            else:
                found.add((path, "*"))
        return found

    def effects(self, file: File, statement: Statement) -> frozenset[Key]:
        """Return what running a statement may change, besides what it binds."""
        if statement not in self._effects:
            facts = statement.facts
            found = self._changed(file, facts.effects)
            called = self._called(file, facts.read_at_import)
            if facts.calls or (isinstance(statement.node, ast.ClassDef) and any(map(_is_told, called))):
                found |= self._changed(file, facts.effects_when_called)
                for inner_file, inner in called:
                    # A function may change what it reads under names of its own.
                    taken = {(PASSED, *reference) for reference in inner.facts.reads}
                    found |= self._changed(inner_file, inner.facts.effects_when_called | taken)
            self._effects[statement] = frozenset(found)
        return self._effects[statement]

    def _changed(self, file: File, effects: Iterable[tuple[str, str, str]]) -> set[Key]:
        found: set[Key] = set()
        for kind, name, attribute in effects:
            for path, own in self.keys(file, (name, attribute)):
                inner = self.files[path]
                if self._may_change(inner, own, kind, attribute):
                    is_foreign = inner.kinds(own) == {"import"} and own not in inner.ours
                    found.add(FOREIGN if is_foreign else (path, own))
        return found

    def _may_change(self, file: File, name: str, kind: str, attribute: str) -> bool:
        kinds = file.kinds(name)
        if kind == STORED or not kinds:
            return kind == STORED
        if kinds == {"import"}:  # A method of torch's does not change torch; what is given torch itself may.
            return kind == PASSED and not attribute
        safe = {"constant"} | ({"function"} if kind in {PASSED, LOOKED} else set())
        return not kinds <= (safe | {"literal"} if kind == LOOKED else safe)

    def _called(self, file: File, references: Iterable[Reference]) -> list[tuple[File, Statement]]:
        """Return the statements of ours that calling any of some references may run, one through the other."""
        queue = [key for reference in references for key in self.keys(file, reference)]
        seen, found = set[Key](), dict[Statement, File]()
        while queue:
            key = queue.pop()
            if key in seen or key[0] in {SHARED, DECLARING}:
                continue
            seen.add(key)
            inner = self.files[key[0]]
            for statement in inner.binders.get(key[1], ()) if key[1] != "*" else inner.source.statements:
                found[statement] = inner
                for reference in statement.facts.reads:
                    queue.extend(self.keys(inner, reference))
        return [(inner, statement) for statement, inner in found.items()]
