"""Source files as text and syntax tree, and what a function in one reaches by name: nothing is imported or run.

Imports nothing of canishard.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, eq=False)
class Statement:
    """A statement at the top level of a file."""

    node: ast.stmt
    first: int
    """Its first line, decorators included, counted from 1."""
    last: int
    text: str
    """Its lines as they stand in the file."""

    @functools.cached_property
    def defined(self) -> frozenset[str]:
        """The names that it binds."""
        if isinstance(self.node, Definition):
            return frozenset({self.node.name})
        if isinstance(self.node, ast.Import | ast.ImportFrom):
            return frozenset((alias.asname or alias.name).partition(".")[0] for alias in self.node.names)
        return frozenset(
            name.id
            for name in ast.walk(self.node)
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
        )

    @functools.cached_property
    def used(self) -> frozenset[str]:
        """The names in it, wherever they stand."""
        return names(self.node)


@dataclass(frozen=True, eq=False)
class Source:
    """A file that was read."""

    path: Path
    text: str
    tree: ast.Module
    statements: tuple[Statement, ...] = field(default=())


def names(node: ast.AST) -> frozenset[str]:
    """Return the names in a piece of syntax."""
    return frozenset(name.id for name in ast.walk(node) if isinstance(name, ast.Name))


@functools.cache
def read(path: Path) -> Source:
    """Return a file's text, tree and statements; it is read once."""
    text = path.read_text(encoding="utf-8")
    tree, lines = ast.parse(text, filename=str(path)), text.splitlines()
    statements = []
    for node in tree.body:
        decorators = node.decorator_list if isinstance(node, Definition) else []
        first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
        last = node.end_lineno or node.lineno
        statements.append(Statement(node, first, last, "\n".join(lines[first - 1 : last])))
    return Source(path, text, tree, tuple(statements))


def reached(source: Source, wanted: Iterable[str]) -> list[Statement]:
    """Return the top-level statements that some names reach, those that bind them included, in file order."""
    queue, seen = list(wanted), set[str]()
    found: set[int] = set()
    while queue:
        name = queue.pop()
        if name in seen:
            continue
        seen.add(name)
        for index, statement in enumerate(source.statements):
            if name in statement.defined:
                found.add(index)
                queue.extend(statement.used)
    return [source.statements[index] for index in sorted(found)]


def closure(path: Path, function: str) -> list[Statement]:
    """Return the top-level statements that a function of a file reaches, itself included, in file order."""
    return reached(read(path), [function])


@functools.cache
def docstring_lines(source: Source) -> frozenset[int]:
    """Return the lines that docstrings take, of the module, a class or function, or after an assignment."""
    lines: set[int] = set()
    for node in ast.walk(source.tree):
        body = getattr(node, "body", ())  # A lambda's and a conditional expression's is no list.
        for child in body if isinstance(body, list) else ():
            constant = child.value if isinstance(child, ast.Expr) else None
            if isinstance(constant, ast.Constant) and isinstance(constant.value, str):
                lines.update(range(child.lineno, (child.end_lineno or child.lineno) + 1))
    return frozenset(lines)


def code(source: Source, first: int, last: int) -> str:
    """Return the lines of a range that are code: no docstring, no comment line, no blank line."""
    skip = docstring_lines(source)
    lines = source.text.splitlines()
    kept = (lines[number - 1].rstrip() for number in range(first, last + 1) if number not in skip)
    return "\n".join(line for line in kept if line and not line.lstrip().startswith("#"))
