"""Source files as text, syntax tree and top-level statements; nothing is imported or run."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from canishard.catalogue import scope
from canishard.catalogue.scope import Definition


class Unreadable(ValueError):
    """A file from which it cannot be told what a check reaches; the message is one line, with the place."""


@dataclass(frozen=True, eq=False)
class Statement:
    """A statement at the top level of a file; of an import that names several things there is one for each."""

    node: ast.stmt
    first: int
    """Its first line, decorators included, counted from 1."""
    last: int
    text: str
    """Its lines as they stand in the file."""

    @functools.cached_property
    def facts(self) -> scope.Facts:
        """What it does with names."""
        return scope.facts(self.node)

    @property
    def defined(self) -> frozenset[str]:
        """The names that it binds."""
        return frozenset(self.facts.binds)

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
    """Return a file's text, tree and statements; it is read once.

    Raises SyntaxError where it is not Python, Unreadable where it imports names without naming them.
    """
    text = path.read_text(encoding="utf-8")
    tree, lines = ast.parse(text, filename=str(path)), text.splitlines()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            msg = f"{path.name}:{node.lineno}: {ast.unparse(node)}: nobody can tell what that brings; name what is imported"
            raise Unreadable(msg)
    return Source(path, text, tree, tuple(_statements(tree, lines)))


def _statements(tree: ast.Module, lines: list[str]) -> Iterator[Statement]:
    for node in tree.body:
        decorators = node.decorator_list if isinstance(node, Definition) else []
        first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
        last = node.end_lineno or node.lineno
        if isinstance(node, ast.Import | ast.ImportFrom) and len(node.names) > 1:
            for alias in node.names:
                one = ast.Import([alias]) if isinstance(node, ast.Import) else _only(node, alias)
                yield Statement(ast.copy_location(one, node), first, last, ast.unparse(one))
        else:
            yield Statement(node, first, last, "\n".join(lines[first - 1 : last]))


def _only(node: ast.ImportFrom, alias: ast.alias) -> ast.ImportFrom:
    return ast.ImportFrom(node.module, [alias], node.level)
