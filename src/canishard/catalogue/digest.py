"""The digest of what decides a row's meaning: what its check reaches (see ``reach``), as a syntax tree.

Comments, formatting and docstrings are not in the tree; labels, such as a feature's name, and the other entries of the
check's table are left out. Wording a title anew, or adding an operator, measures nothing again.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from canishard.catalogue.reach import closure
from canishard.catalogue.sources import Statement


def digest(path: Path, function: str, params: Mapping[str, Any] | None = None, entry: str = "") -> str:
    """Return 16 hex digits for a row: a check's function in a source file, its parameters, its entry of a table."""
    files = [
        "\n".join(normal_form(statement) for statement in statements)
        for _, statements in closure(path, function, entry, is_deciding=True)
    ]
    given = [f"{name}={type(value).__name__}:{value!r}" for name, value in sorted((params or {}).items())]
    return hashlib.sha256("\0".join([*files, *given]).encode()).hexdigest()[:16]


@functools.cache
def normal_form(statement: Statement) -> str:
    """Return a statement as text that depends on what it does alone, the same on every Python."""
    return _form(statement.node)


def _form(node: Any) -> str:
    if isinstance(node, list):
        return f"[{','.join(_form(item) for item in node if not _is_text_alone(item))}]"
    if isinstance(node, ast.Constant):
        return f"{type(node.value).__name__}:{_text(node.value)}"
    if not isinstance(node, ast.AST):
        return _text(node)
    # What is absent or empty is left out: later releases of Python have fields that earlier ones do not.
    fields = (
        f"{name}={_form(value)}"
        for name, value in ast.iter_fields(node)
        if value is not None and value != [] and name not in {"ctx", "kind", "type_comment"}
    )
    return f"{type(node).__name__}({','.join(fields)})"


def _text(value: object) -> str:
    if isinstance(value, frozenset):  # Whose order is another one in every process.
        return str(sorted(map(repr, value)))
    return repr(value)


def _is_text_alone(node: object) -> bool:
    """Tell whether a statement is a text, such as a docstring: it does nothing."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
