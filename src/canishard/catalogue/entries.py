"""The rows as their sources declare them, read without importing torch: what each is called, and its text."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

import canishard
from canishard.catalogue import constants, declarations, digest, expansion, sources
from canishard.catalogue import program as programs
from canishard.catalogue.expansion import Declared
from canishard.catalogue.program import Program
from canishard.catalogue.scope import DECORATOR
from canishard.errors import ConfigurationError

CHECKS = Path(canishard.__file__).with_name("checks")
"""The folder of our own checks: in it a folder a family, in that a file a topic."""


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
    """As it is imported: ``canishard.checks.collectives.reduce``."""
    function: str
    params: dict[str, str | int | float | bool]
    entry: str = ""
    """The key in the check's table; empty where it has none."""
    world_sizes: list[int]
    rests_on: list[str]
    needs: list[list[str]]
    packages: list[str]
    source: str
    """The check's own text: decorator, signature, docstring and body."""


def load(folder: Path | None = None) -> dict[str, Entry]:
    """Return every row by its id, file by file in the order of declaration; ConfigurationError says what is wrong."""
    return _load(folder or CHECKS)


@functools.cache
def _load(folder: Path) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for path in files(folder):
        for line, entry in _entries(folder, path):
            if entry.id in found:
                msg = f"{path.name}:{line}: {entry.id} is declared twice"
                raise ConfigurationError(msg)
            found[entry.id] = entry
    return found


def files(folder: Path) -> list[Path]:
    """Return the files of a folder of checks in the order in which they are imported, module by module."""
    return sorted(folder.rglob("[!_]*.py"), key=lambda path: path.relative_to(folder).with_suffix("").parts)


def place(entry: Entry, folder: Path | None = None) -> Path:
    """Return the file that declares a row, below the folder that the catalogue was read from."""
    return (
        (folder or CHECKS)
        .joinpath(*entry.module.removeprefix("canishard.checks.").split("."))
        .with_suffix(".py")
    )


def _entries(folder: Path, path: Path) -> Iterator[tuple[int, Entry]]:
    """Yield the rows of each check of a file, with the line where it is declared."""
    try:
        program = programs.read(path)
        for statement in program.files[path].source.statements:
            decorator = declarations.decorator(statement.node)
            if decorator:
                for entry in _rows(program, folder, path, statement, decorator):
                    yield decorator.lineno, entry
    except SyntaxError as error:
        msg = f"{Path(error.filename or path).name}:{error.lineno}: not Python: {error.msg}"
        raise ConfigurationError(msg) from None
    except sources.Unreadable as error:
        raise ConfigurationError(str(error)) from None


def _rows(
    program: Program, folder: Path, path: Path, statement: sources.Statement, decorator: ast.Call
) -> Iterator[Entry]:
    node, inner = statement.node, path.relative_to(folder).with_suffix("").parts
    assert isinstance(node, ast.FunctionDef)
    where = f"{path.name}:{decorator.lineno}"
    declared = _declared(program, path, node, decorator, {"family": inner[0], "title": _title(node)})
    try:
        expanded = expansion.expand(declared)
    except ValueError as error:
        msg = f"{where}: {error}"
        raise ConfigurationError(msg) from None
    for row in expanded:
        yield Entry(
            **msgspec.structs.asdict(row),
            family=inner[0],
            subject=declared.subject or node.name,
            workaround=declared.workaround or "",
            module=".".join(["canishard.checks", *inner] if folder == CHECKS else inner),
            function=node.name,
            source=statement.text,
        )


def _declared(
    program: Program, path: Path, node: ast.FunctionDef, decorator: ast.Call, known: dict[str, Any]
) -> Declared:
    where = f"{path.name}:{decorator.lineno}"
    if decorator.args or not all(item.arg for item in decorator.keywords):
        msg = f"{where}: {DECORATOR} takes its arguments by name, each written out"
        raise ConfigurationError(msg)
    file = program.files[path]
    given: dict[str, Any] = {**known, "function": node.name}
    for item in decorator.keywords:
        if item.arg == "rows":
            name, table = declarations.table(program, file, item.value)
            given["rows"] = {name: {key: _labels(program, entry) for key, entry in table.items()}}
        elif item.arg in Declared.__struct_fields__:
            given[item.arg] = constants.evaluate(program, file, item.value, decorator.lineno)
    try:
        return msgspec.convert(given, Declared)
    except msgspec.ValidationError as error:
        msg = f"{where}: {error}"
        raise ConfigurationError(msg) from None


def _labels(program: Program, entry: declarations.TableEntry) -> dict[str, Any]:
    """Return what an entry of a table says of itself; its recipe is not evaluated."""
    arguments = declarations.row_arguments(entry.value) or {}
    line = entry.statement.first
    return {
        name: constants.evaluate(program, entry.file, value, line)
        for name, value in arguments.items()
        if name != "recipe"
    }


def _title(node: ast.FunctionDef) -> str:
    lines = (ast.get_docstring(node) or "").strip().splitlines()
    return lines[0].rstrip(".") if lines else ""


def digest_of(entry: Entry) -> str:
    """Return the digest of a row of our own checks, as its source is now."""
    return digest.digest(place(entry), entry.function, entry.params, entry.entry)


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
