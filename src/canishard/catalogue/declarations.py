"""How a check is declared in its source: its decorator, and the entry of its table that a row is made of."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from canishard.catalogue.scope import DECORATOR
from canishard.catalogue.sources import Statement, Unreadable

if TYPE_CHECKING:
    from canishard.catalogue.program import File, Program

_DECIDING = frozenset({"needs", "stages", "deadline_s"})
"""What of a decorator's arguments can change what a row does; all else is a label, or stands in the row's id."""
_DECIDING_ENTRY = frozenset({"recipe", "needs"})


def decorator(node: ast.AST) -> ast.Call | None:
    """Return the decorator that declares a function as a check."""
    for one in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id == DECORATOR:
            return one
    return None


@functools.cache
def deciding(statement: Statement) -> Statement:
    """Return what stands for a statement in a digest: a check without what only labels its rows."""
    declared, node = decorator(statement.node), statement.node
    if declared is None or not isinstance(node, ast.FunctionDef):
        return statement
    kept = [keyword for keyword in declared.keywords if keyword.arg in _DECIDING]
    bare = ast.Call(declared.func, declared.args, kept)
    copy = ast.FunctionDef(
        **{name: getattr(node, name) for name in node._fields if name != "decorator_list"},
        decorator_list=[bare if one is declared else one for one in node.decorator_list],
    )
    return Statement(copy, statement.first, statement.last, statement.text)


@dataclass(frozen=True)
class TableEntry:
    """One entry of a table of rows."""

    file: File
    statement: Statement
    """The statement that holds it."""
    key: ast.expr
    value: ast.expr
    names: tuple[str, ...]
    """What the table is called in that file."""

    def narrowed(self, *, is_deciding: bool) -> Statement:
        """Return a table of this entry alone."""
        value = self.value
        if is_deciding and (arguments := row_arguments(value)) is not None:
            kept = [ast.keyword(name, part) for name, part in arguments.items() if name in _DECIDING_ENTRY]
            value = ast.Dict([ast.Constant(one.arg) for one in kept], [one.value for one in kept])
        table = ast.Dict([self.key], [value])
        target = ast.Name(self.names[0], ast.Store())
        node = ast.fix_missing_locations(
            ast.Assign([target], table, lineno=self.statement.first, col_offset=0)
        )
        return Statement(node, self.statement.first, self.statement.last, ast.unparse(node))


def row_arguments(value: ast.expr) -> dict[str, ast.expr] | None:
    """Return the arguments of an entry that is a ``Row``; None for one that is the recipe itself."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name) or value.func.id != "Row":
        return None
    if value.args or not all(keyword.arg for keyword in value.keywords):
        msg = f"line {value.lineno}: Row takes its arguments by name, each written out"
        raise Unreadable(msg)
    return {keyword.arg or "": keyword.value for keyword in value.keywords}


def table_of(program: Program, file: File, function: str) -> Mapping[str, TableEntry]:
    """Return the entries of the table of a check; none where it has no table."""
    key = (file.source.path, function)
    if key not in program.tables:
        declared = [decorator(statement.node) for statement in file.binders.get(function, ())]
        rows = [one.value for call in declared if call for one in call.keywords if one.arg == "rows"]
        program.tables[key] = table(program, file, rows[0])[1] if rows else {}
    return program.tables[key]


def table(program: Program, file: File, rows: ast.expr) -> tuple[str, dict[str, TableEntry]]:
    """Return the parameter that ``rows`` names, and the entries of its table.

    Raises Unreadable unless it is ``{"parameter": NAME}``, and the name's table a dict literal.
    """
    where = f"{file.source.path.name}:{rows.lineno}"
    if isinstance(rows, ast.Dict) and len(rows.keys) == 1 and isinstance(rows.keys[0], ast.Constant):
        found = dict(_entries(program, file, rows.values[0], where))
        return str(rows.keys[0].value), found
    msg = f'{where}: rows={ast.unparse(rows)}: expected {{"parameter": TABLE}}, written out'
    raise Unreadable(msg)


def _entries(program: Program, file: File, name: ast.expr, where: str) -> Iterator[tuple[str, TableEntry]]:
    holder, statement, node = _literal(program, file, name, where)
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            yield from _entries(program, holder, value, where)
        elif isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value, TableEntry(holder, statement, key, value, tuple(sorted(statement.facts.binds)))
        else:
            msg = f"{where}: {ast.unparse(key)}: the key of a table of rows is a text, written out"
            raise Unreadable(msg)


def _literal(program: Program, file: File, name: ast.expr, where: str) -> tuple[File, Statement, ast.Dict]:
    """Return the one assignment of a dict literal that a table's name stands for."""
    reference = ("", "")
    if isinstance(name, ast.Name):
        reference = (name.id, "")
    elif isinstance(name, ast.Attribute) and isinstance(name.value, ast.Name):
        reference = (name.value.id, name.attr)
    bound = [
        (program.files[path], statement)
        for path, own in program.keys(file, reference)
        for statement in program.files[path].binders.get(own, ())
        if not isinstance(statement.node, ast.Import | ast.ImportFrom)
    ]
    node = bound[0][1].node if len(bound) == 1 else None
    value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
    if isinstance(value, ast.Dict):
        return *bound[0], value
    msg = f"{where}: {ast.unparse(name)}: a table of rows is a dict literal that has a name, bound once"
    raise Unreadable(msg)
