"""What an expression of a source file is worth, from constants alone, wherever they are imported from; without torch.

A few kinds of expressions, no attribute, no call but of ``tuple``, ``list`` and ``dict``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from canishard.catalogue.program import File, Program
from canishard.catalogue.sources import Unreadable

_ALLOWED = (
    ast.expr_context, ast.Constant, ast.Name, ast.JoinedStr, ast.FormattedValue, ast.List, ast.Tuple, ast.Dict,
    ast.Starred, ast.UnaryOp, ast.unaryop, ast.BinOp, ast.operator, ast.Call, ast.keyword, ast.Lambda,
)  # fmt: skip
_CALLABLE: Mapping[str, Any] = {"tuple": tuple, "list": list, "dict": dict}


def evaluate(program: Program, file: File, expression: ast.expr, line: int) -> Any:
    """Return an expression's value, where it stands on a line of a file; Unreadable says what is no constant."""
    where = f"{file.source.path.name}:{expression.lineno}: {ast.unparse(expression)}"
    nodes = list(_evaluated(expression))
    if not all(isinstance(node, _ALLOWED) for node in nodes):
        msg = f"{where}: not a constant, which a decorator's arguments must be"
        raise Unreadable(msg)
    wanted = {node.id for node in nodes if isinstance(node, ast.Name)}
    names = {name: _constant(program, file, name, line) for name in sorted(wanted - set(_CALLABLE))}
    try:
        # Nothing in it runs code: see _ALLOWED, and _CALLABLE for all that can be called.
        return eval(  # noqa: S307
            compile(ast.Expression(expression), file.source.path.name, "eval"),
            {"__builtins__": {}, **_CALLABLE, **names},
        )
    except (TypeError, ValueError, ArithmeticError) as error:
        msg = f"{where}: {error}"
        raise Unreadable(msg) from None


def _constant(program: Program, file: File, name: str, line: int) -> Any:
    """Return what a name stands for on a line: what the last assignment before it binds it to, or what is imported."""
    before = [found for found in file.binders.get(name, ()) if found.last < line]
    if before and isinstance(before[-1].node, ast.ImportFrom):
        for origin, (path, inner) in file.origins(before[-1].node):
            if origin == name and inner != "*":
                other = program.files[path]
                return _constant(program, other, inner, len(other.source.text.splitlines()) + 1)
    node = before[-1].node if before else None
    if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        target = node.targets[-1] if isinstance(node, ast.Assign) else node.target
        bound = _bound(target, evaluate(program, file, node.value, before[-1].first))
        if name in bound:
            return bound[name]
    msg = f"{file.source.path.name}:{line}: {name}: not a constant of the file, which a decorator's arguments must be"
    raise Unreadable(msg)


def _bound(target: ast.expr, value: Any) -> dict[str, Any]:
    """Return what an assignment binds, of names and of tuples of names."""
    if isinstance(target, ast.Name):
        return {target.id: value}
    if isinstance(target, ast.Tuple) and isinstance(value, tuple):
        return {
            part.id: item
            for part, item in zip(target.elts, value, strict=False)
            if isinstance(part, ast.Name)
        }
    return {}


def _evaluated(expression: ast.AST) -> Iterator[ast.AST]:
    """Yield every node that is evaluated with the expression: a lambda's body is not, since none is called."""
    yield expression
    if isinstance(expression, ast.Lambda):
        return
    for child in ast.iter_child_nodes(expression):
        yield from _evaluated(child)
