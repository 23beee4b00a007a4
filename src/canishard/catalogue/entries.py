"""The rows as their sources declare them, read without importing torch: what each is called, and its text.

A check's decorator is evaluated by itself, from constants alone: a few kinds of expressions, no attribute, no call
but of ``tuple``, ``list`` and ``dict``.
"""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

import canishard
from canishard.catalogue import digest, sources
from canishard.errors import ConfigurationError

CHECKS = Path(canishard.__file__).with_name("checks")
"""The folder of our own checks, a module a family."""

_DECORATOR = "check"
_ALLOWED = (
    ast.expr_context, ast.Constant, ast.Name, ast.JoinedStr, ast.FormattedValue, ast.List, ast.Tuple, ast.Dict,
    ast.Starred, ast.UnaryOp, ast.unaryop, ast.BinOp, ast.operator, ast.Call, ast.keyword, ast.Lambda,
)  # fmt: skip
_CALLABLE: Mapping[str, Any] = {"tuple": tuple, "list": list, "dict": dict}
_Scalar = str | int | float | bool


class Entry(msgspec.Struct, kw_only=True, frozen=True):
    """A row, as its check's source declares it."""

    id: str
    family: str
    subject: str
    workaround: str
    """The name after the id's ``+``, such as ``force_sum``; empty for none."""
    feature: str
    title: str
    module: str
    function: str
    params: dict[str, _Scalar]
    world_sizes: list[int]
    rests_on: list[str]
    needs: list[list[str]]
    packages: list[str]
    source: str
    """The check's own text: decorator, signature, docstring and body."""


class _Declared(msgspec.Struct, kw_only=True):
    """What a row takes from the decorator's arguments; the others are for whoever runs the check."""

    feature: str
    subject: str | None = None
    params: dict[str, list[_Scalar]] | None = None
    world_sizes: list[int] = msgspec.field(default_factory=lambda: [2, 4])
    needs: list[str | list[str]] = []
    rests_on: list[str] = []
    workaround: str | None = None
    packages: list[str] = []


def load(folder: Path | None = None) -> dict[str, Entry]:
    """Return every row by its id, file by file in the order of declaration; ConfigurationError says what is wrong."""
    return _load(folder or CHECKS)


@functools.cache
def _load(folder: Path) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for path in sorted(folder.glob("[!_]*.py")):
        for line, entry in _entries(_read(path)):
            if entry.id in found:
                msg = f"{path.name}:{line}: {entry.id} is declared twice"
                raise ConfigurationError(msg)
            found[entry.id] = entry
    return found


def _read(path: Path) -> sources.Source:
    try:
        return sources.read(path)
    except SyntaxError as error:
        msg = f"{path.name}:{error.lineno}: not Python: {error.msg}"
        raise ConfigurationError(msg) from None


def _entries(source: sources.Source) -> Iterator[tuple[int, Entry]]:
    """Yield the rows of each check of a file, with the line where it is declared."""
    for statement in source.statements:
        node = statement.node
        for decorator in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == _DECORATOR:
                for entry in _rows(source, statement, _declared(source, decorator)):
                    yield decorator.lineno, entry


def _declared(source: sources.Source, decorator: ast.Call) -> _Declared:
    where = f"{source.path.name}:{decorator.lineno}"
    if decorator.args or not all(item.arg for item in decorator.keywords):
        msg = f"{where}: {_DECORATOR} takes its arguments by name, each written out"
        raise ConfigurationError(msg)
    wanted = _Declared.__struct_fields__
    given = {item.arg: _evaluate(source, item.value) for item in decorator.keywords if item.arg in wanted}
    try:
        return msgspec.convert(given, _Declared)
    except msgspec.ValidationError as error:
        msg = f"{where}: {error}"
        raise ConfigurationError(msg) from None


def _rows(source: sources.Source, statement: sources.Statement, declared: _Declared) -> Iterator[Entry]:
    node, family, params = statement.node, source.path.stem, declared.params or {}
    assert isinstance(node, ast.FunctionDef)
    subject, workaround = declared.subject or node.name, declared.workaround or ""
    for values in itertools.product(*params.values()):
        chosen = dict(zip(params, values, strict=True))
        yield Entry(
            id=_id(f"{family}.{subject}", chosen, workaround),
            family=family,
            subject=subject,
            workaround=workaround,
            feature=declared.feature,
            title=_title(node),
            module=f"canishard.checks.{family}" if source.path.parent == CHECKS else family,
            function=node.name,
            params=chosen,
            world_sizes=declared.world_sizes,
            rests_on=declared.rests_on,
            needs=[[need] if isinstance(need, str) else need for need in declared.needs],
            packages=declared.packages,
            source=statement.text,
        )


def _id(name: str, params: Mapping[str, Any], workaround: str) -> str:
    bracket = ",".join(f"{key}={value}" for key, value in params.items())
    return name + (f"[{bracket}]" if bracket else "") + (f"+{workaround}" if workaround else "")


def _title(node: ast.FunctionDef) -> str:
    lines = (ast.get_docstring(node) or "").strip().splitlines()
    return lines[0].rstrip(".") if lines else ""


def _evaluate(source: sources.Source, expression: ast.expr) -> Any:
    """Return an expression's value, from constants of its file alone."""
    where = f"{source.path.name}:{expression.lineno}: {ast.unparse(expression)}"
    nodes = list(_evaluated(expression))
    if not all(isinstance(node, _ALLOWED) for node in nodes):
        msg = f"{where}: not a constant, which a decorator's arguments must be"
        raise ConfigurationError(msg)
    wanted = {node.id for node in nodes if isinstance(node, ast.Name)}
    names = {name: _constant(source, name, expression.lineno) for name in sorted(wanted - set(_CALLABLE))}
    try:
        # Nothing in it runs code: see _ALLOWED, and _CALLABLE for all that can be called.
        return eval(  # noqa: S307
            compile(ast.Expression(expression), source.path.name, "eval"),
            {"__builtins__": {}, **_CALLABLE, **names},
        )
    except (TypeError, ValueError, ArithmeticError) as error:
        msg = f"{where}: {error}"
        raise ConfigurationError(msg) from None


def _constant(source: sources.Source, name: str, line: int) -> Any:
    """Return what a name stands for on a line: what the last assignment before it binds it to."""
    before = [found for found in source.statements if found.last < line and name in found.defined]
    node = before[-1].node if before else None
    if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        target = node.targets[-1] if isinstance(node, ast.Assign) else node.target
        bound = _bound(target, _evaluate(source, node.value))
        if name in bound:
            return bound[name]
    msg = f"{source.path.name}:{line}: {name}: not a constant of the file, which a decorator's arguments must be"
    raise ConfigurationError(msg)


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


def digest_of(entry: Entry) -> str:
    """Return the digest of a row of our own checks, as its source is now."""
    return digest.digest(CHECKS / f"{entry.family}.py", entry.function)


def workarounds(entries: Mapping[str, Entry]) -> dict[str, list[str]]:
    """Return of each row without one the rows of its subject that have a workaround, and no parameter that it has not."""
    mending: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries.values():
        if entry.workaround:
            mending.setdefault((entry.family, entry.subject), []).append(entry)
    return {
        entry.id: [
            other.id
            for other in mending.get((entry.family, entry.subject), [])
            if other.params.items() <= entry.params.items()
        ]
        for entry in entries.values()
        if not entry.workaround
    }
