"""The digest of what decides a case's meaning: the source of its check, and what that uses of ours.

Works on source text alone: the function, every name of its own module that it reaches, and the whole of
``canishard.check``. Comments, blank lines and docstrings do not count, so that wording a title anew does not
measure anything again.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path

import canishard

SHARED = Path(canishard.__file__).with_name("check.py")
"""The one module of ours that a check uses."""

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@functools.cache
def _docstring_lines(tree: ast.AST) -> set[int]:
    """Return the line numbers that docstrings take, of a module, class or function, or after an assignment."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", ())  # A lambda's and a conditional expression's is no list.
        for child in body if isinstance(body, list) else ():
            constant = child.value if isinstance(child, ast.Expr) else None
            if isinstance(constant, ast.Constant) and isinstance(constant.value, str):
                lines.update(range(child.lineno, (child.end_lineno or child.lineno) + 1))
    return lines


def _code(source: str, tree: ast.AST, first: int, last: int) -> str:
    """Return the lines of a range that are code: no docstring, no comment line, no blank line."""
    skip = _docstring_lines(tree)
    lines = source.splitlines()
    kept = (lines[number - 1].rstrip() for number in range(first, last + 1) if number not in skip)
    return "\n".join(line for line in kept if line and not line.lstrip().startswith("#"))


def _first_line(node: ast.stmt) -> int:
    decorators = node.decorator_list if isinstance(node, _Definition) else []
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


@functools.cache
def _defined(node: ast.stmt) -> set[str]:
    """Return the names that a top-level statement binds."""
    if isinstance(node, _Definition):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return {
        name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    }


def _used(node: ast.stmt) -> set[str]:
    return {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}


def _closure(tree: ast.Module, function: str) -> list[ast.stmt]:
    """Return the top-level statements that a function reaches by name, itself included, in file order."""
    wanted, seen = [function], set[str]()
    reached: set[int] = set()
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        for index, node in enumerate(tree.body):
            if name in _defined(node):
                reached.add(index)
                wanted.extend(_used(node))
    return [tree.body[index] for index in sorted(reached)]


@functools.cache
def _shared_code() -> str:
    source = SHARED.read_text(encoding="utf-8")
    return _code(source, ast.parse(source), 1, len(source.splitlines()))


@functools.cache
def _parsed(path: Path) -> tuple[str, ast.Module]:
    source = path.read_text(encoding="utf-8")
    return source, ast.parse(source)


def digest(path: Path, function: str, extra: Iterable[str] = ()) -> str:
    """Return 16 hex digits for a check's function in a source file; ``extra`` texts count too."""
    source, tree = _parsed(path)
    parts = [
        _code(source, tree, _first_line(node), node.end_lineno or node.lineno)
        for node in _closure(tree, function)
    ]
    text = "\0".join([_shared_code(), *parts, *extra])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
