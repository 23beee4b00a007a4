"""A check as one self-contained script, which shows with torch and the standard library alone what was measured.

The script is put together from source text: the check and what it reaches of the checks' files, what that and the
runner reach of ``canishard.check``, and the ``reproduce_*`` modules beside this one. Which of the check's rows is run
is an option of the script.
"""

from __future__ import annotations

import ast
import functools
import re
import shlex
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from canishard import catalogue, launch
from canishard.catalogue import Entry, sources
from canishard.catalogue.entries import place as file_of
from canishard.catalogue.program import DECLARING, SHARED
from canishard.catalogue.reach import closure
from canishard.catalogue.scope import Definition
from canishard.catalogue.sources import Source, Statement
from canishard.errors import ConfigurationError
from canishard.launch import refusals
from canishard.launch.outcome import Outcome
from canishard.report import reproduce_head
from canishard.report.table import Group

_TEMPLATES = [
    Path(launch.__file__).with_name("accounts.py"),
    Path(__file__).with_name("reproduce_rank.py"),
    Path(launch.__file__).with_name("verdict.py"),
    Path(__file__).with_name("reproduce_runner.py"),
]
_DECORATOR = "check"
"""The decorator: the script has its own, the first template's, which needs nothing of ``canishard.check``."""
_ROWS, _NEEDS = "SCRIPT_ROWS", "SCRIPT_NEEDS"
"""The names of a script's table of rows, and of what all of them need where that is the same."""
_WIDTH = 100


def name(entry: Entry) -> str:
    """Return the name of the script of a row's check, the same for all its rows: ``collectives.all_reduce.py``."""
    return f"{entry.module.removeprefix('canishard.checks.')}.{entry.function}.py"


def command(entry: Entry, script: str) -> str:
    """Return what to type to run a row by its check's script."""
    return shlex.join(["python", script, "--row", entry.id, "--ranks", str(min(entry.world_sizes))])


def rows_of(entry: Entry, entries: Mapping[str, Entry]) -> list[Entry]:
    """Return all rows of a row's check, that row first."""
    others = [other for other in entries.values() if name(other) == name(entry) and other.id != entry.id]
    return [entry, *others]


def observed(groups: Sequence[Group]) -> dict[str, list[tuple[str, Outcome]]]:
    """Return each row's cells with where they were measured: the release, the build and the table where it takes them."""
    seen: dict[str, list[tuple[str, Outcome]]] = {}
    for group in groups:
        for column in group.columns:
            for label, record in column.records:
                build = f" {label}" if len(column.records) > 1 else ""
                place = f"{column.channel}{build}{f' ({group.title})' if len(groups) > 1 else ''}"
                for cell in record.cells:
                    seen.setdefault(cell.id, []).append((place, cell))
    return seen


def script(
    rows: Sequence[Entry], seen: Sequence[tuple[str, Outcome]], folder: Path = catalogue.CHECKS
) -> str:
    """Return a script that reproduces the rows of a check, the first where none is asked for.

    ``seen`` holds the first row's cells, each with where it was measured; ``folder`` is the one that the catalogue
    was read from. Raises ConfigurationError where two parts of the script have the same name for different things.
    """
    first = rows[0]
    pieces = _pieces(file_of(first, folder), first.function)
    imports = _imports(pieces)
    _raise_collisions(first, pieces, imports)
    sections = {
        "": [*pieces.decorator, *pieces.shared_first, *pieces.first],
        "the check": [pieces.check],
        "what it calls": pieces.rest,
        "comparison": pieces.shared_rest,
        "running it": pieces.runner,
    }
    texts = [reproduce_head.docstring(rows, pieces.check, seen), "\n".join(_import_lines(imports))]
    for title, statements in sections.items():
        heading = f"# -- {title} ".ljust(_WIDTH, "-") + "\n\n" if title else ""
        texts.append(heading + _joined(statements) if statements else "")
    texts.append(_rows(rows))
    texts.append(f'if __name__ == "__main__":\n    sys.exit(main({first.function}, {_ROWS}))')
    return "\n\n\n".join(text.rstrip() for text in texts if text) + "\n"


def _rows(rows: Sequence[Entry]) -> str:
    """Return the rows as a constant: the numbers of ranks, the parameters and the needed names of each, by its id."""
    lines = [f"    {row.id!r}: ({row.world_sizes!r}, {row.params!r}, {row.needs!r})," for row in rows]
    if all(row.needs == rows[0].needs for row in rows):
        needs = f"{_NEEDS} = {rows[0].needs!r}\n"
        lines = [f"    {row.id!r}: ({row.world_sizes!r}, {row.params!r}, {_NEEDS})," for row in rows]
        return needs + "\n".join([f"{_ROWS} = {{", *lines, "}"])
    return "\n".join([f"{_ROWS} = {{", *lines, "}"])


# -- which statements -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Pieces:
    """The statements of a script; ``first`` are those that have to stand before the check."""

    check: Statement
    first: list[Statement]
    rest: list[Statement]
    shared_first: list[Statement]
    shared_rest: list[Statement]
    decorator: list[Statement]
    runner: list[Statement]
    own: list[tuple[Source, list[Statement]]]
    """What the check reaches of the checks' files, itself included, file by file in the order in which it is run."""

    @functools.cached_property
    def parts(self) -> dict[str, tuple[list[Source], list[Statement]]]:
        """The sources, and of each the statements that the script has."""
        shared = [sources.read(DECLARING), sources.read(SHARED)]
        own: dict[str, tuple[list[Source], list[Statement]]] = {}
        for source, code in self.own:
            path = source.path
            own[f"{path.parent.name}/{path.name}" if path.name in own else path.name] = ([source], code)
        runner = [sources.read(path) for path in _TEMPLATES]
        return {
            **own,
            SHARED.name: (shared, [*self.shared_first, *self.shared_rest]),
            "the runner": (runner, [*self.decorator, *self.runner]),
        }


@functools.cache
def _pieces(path: Path, function: str) -> _Pieces:
    """Return a check's statements, all entries of its table among them: its rows differ in parameters alone."""
    shared = [sources.read(DECLARING), sources.read(SHARED)]
    own = [
        (source, [one for one in statements if _is_code(one)])
        for source, statements in closure(path, function)
        if source not in shared
    ]
    code = [one for _, statements in own for one in statements]
    check = next(one for one in own[-1][1] if function in one.defined)
    first = _before(check, code)
    runner = [one for path in _TEMPLATES for one in sources.read(path).statements if _is_code(one)]
    at_import = frozenset[str]().union(*(_at_import(one.node) for one in code))
    if _has_table(check.node):  # The decorator looks into it, when the check is declared.
        at_import |= frozenset().union(*(one.used for one in runner if _DECORATOR in one.defined))
    borrowed = _borrowed([*(source for source, _ in own), *map(sources.read, _TEMPLATES)])
    needed = [one for file in shared for one in _reached(file, borrowed) if _is_code(one)]
    shared_before = {one for file in shared for one in _reached(file, at_import & borrowed)}
    return _Pieces(
        check=check,
        first=first,
        rest=[one for one in code if one is not check and one not in first],
        shared_first=[one for one in needed if one in shared_before],
        shared_rest=[one for one in needed if one not in shared_before],
        decorator=[one for one in runner if _DECORATOR in one.defined],
        runner=[one for one in runner if _DECORATOR not in one.defined],
        own=own,
    )


def _before(check: Statement, code: Sequence[Statement]) -> list[Statement]:
    """Return what has to stand before a check of the statements that it reaches, which are in the order of a run.

    That is all that ran before it but functions and classes that nothing of ours makes use of until they are called.
    """
    before = code[: code.index(check)]
    ours = frozenset[str]().union(*(one.defined for one in before))
    fixed = [
        one
        for one in before
        if not isinstance(one.node, Definition) or ours & _at_import(one.node) - one.defined
    ]
    queue = [name for one in [*fixed, check] for name in _at_import(one.node)]
    needed = set(fixed)
    while queue:
        name = queue.pop()
        for one in before:
            if name in one.defined and one not in needed:
                needed.add(one)
                queue.extend(one.used)
    return [one for one in before if one in needed]


def _reached(source: Source, wanted: Iterable[str]) -> list[Statement]:
    """Return the statements of one file that some names reach."""
    queue, seen = list(wanted), set[str]()
    while queue:
        name = queue.pop()
        if name not in seen:
            seen.add(name)
            queue.extend(used for one in source.statements if name in one.defined for used in one.used)
    return [one for one in source.statements if one.defined & seen]


def _has_table(node: ast.stmt) -> bool:
    """Tell whether a check is one over a table of rows."""
    calls = [one for one in getattr(node, "decorator_list", []) if isinstance(one, ast.Call)]
    return any(keyword.arg == "rows" for call in calls for keyword in call.keywords)


def _is_code(statement: Statement) -> bool:
    """Tell whether a script takes a statement over: no import, no text, nothing for type checkers alone."""
    node = statement.node
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant)
    if isinstance(node, ast.If):
        return ast.unparse(node.test) != "TYPE_CHECKING"
    return not isinstance(node, ast.Import | ast.ImportFrom)


def _at_import(node: ast.AST) -> frozenset[str]:
    """Return the names that have to be known when a statement is executed: all but those in functions' bodies."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
        return frozenset().union(*(sources.names(part) for part in [*node.decorator_list, *defaults]))
    if isinstance(node, ast.ClassDef):
        return frozenset().union(*(_at_import(part) for part in ast.iter_child_nodes(node)))
    return sources.names(node)


def _borrowed(files: Iterable[Source]) -> frozenset[str]:
    """Return the names that files take from ``canishard.check``, the decorator left out."""
    return frozenset(
        alias.name
        for file in files
        for module, alias in _aliases(file)
        if module in {f"canishard.{SHARED.stem}", f"canishard.{DECLARING.stem}"} and alias.name != _DECORATOR
    )


# -- imports --------------------------------------------------------------------------------------------------


def _aliases(file: Source) -> Iterator[tuple[str, ast.alias]]:
    """Yield all that a file imports, for type checkers too, with the module, which is empty for ``import x``.

    What is imported inside a statement that a script takes over is imported there.
    """
    for statement in file.statements:
        for node in ast.walk(statement.node) if not _is_code(statement) else ():
            if isinstance(node, ast.Import | ast.ImportFrom):
                for alias in node.names:
                    yield (node.module or "" if isinstance(node, ast.ImportFrom) else ""), alias


@functools.cache
def _imports(pieces: _Pieces) -> dict[str, set[tuple[str, str]]]:
    """Return what each name has to be imported as: the module, empty for ``import x``, and the name there."""
    found: dict[str, set[tuple[str, str]]] = {"sys": {("", "sys")}}
    for files, statements in pieces.parts.values():
        used = frozenset[str]().union(*(statement.used for statement in statements))
        for file in files:
            for module, alias in _aliases(file):
                name = alias.asname or alias.name.partition(".")[0]
                if name in used and (module or alias.name).partition(".")[0] not in {
                    "canishard",
                    "__future__",
                }:
                    found.setdefault(name, set()).add((module, alias.name))
    return found


def _import_lines(imports: dict[str, set[tuple[str, str]]]) -> Iterator[str]:
    """Yield the lines of the imports, the standard library's first."""
    yield "from __future__ import annotations\n"
    plain: dict[str, list[str]] = {}
    for name, targets in sorted(imports.items()):
        for module, target in targets:
            alias = (
                target if name == (target if module else target.partition(".")[0]) else f"{target} as {name}"
            )
            plain.setdefault(module or target, []).append(alias if module else f"import {alias}")
    for is_ours in (True, False):
        lines = [
            line
            for module, names in sorted(plain.items())
            if (module.partition(".")[0] in sys.stdlib_module_names) is is_ours
            for line in _lines_of(module, names)
        ]
        yield "\n".join(sorted(lines, key=lambda line: line.startswith("from"))) + ("\n" if is_ours else "")


def _lines_of(module: str, names: list[str]) -> list[str]:
    plain = [name for name in names if name.startswith("import ")]
    taken = ", ".join(sorted(name for name in names if not name.startswith("import ")))
    if taken:
        line = f"from {module} import {taken}"
        wrapped = textwrap.wrap(taken, _WIDTH - 4, break_long_words=False)
        long = "\n".join([f"from {module} import (", *(f"    {part}" for part in wrapped), ")"])
        plain.append(line if len(line) <= _WIDTH else long)
    return plain


def _bound(module: str, name: str) -> str:
    """Return what an import binds: ``import a.b`` binds ``a``."""
    return f"import of {module}.{name}" if module else f"import of {name.partition('.')[0]}"


def _raise_collisions(entry: Entry, pieces: _Pieces, imports: dict[str, set[tuple[str, str]]]) -> None:
    """Raise ConfigurationError where a name would stand for two things."""
    owners = {name: {_bound(*target) for target in targets} for name, targets in imports.items()}
    owners |= {name: {"the table of rows"} for name in (_ROWS, _NEEDS)}
    for part, (_, statements) in pieces.parts.items():
        for statement in statements:
            for name in statement.defined:
                owners.setdefault(name, set()).add(part)
    twice = [
        f"{name} ({' and '.join(sorted(parts))})" for name, parts in sorted(owners.items()) if len(parts) > 1
    ]
    if twice:
        msg = f"{entry.id}: no reproduction script: a name of its module is taken there: {', '.join(twice)}"
        raise ConfigurationError(msg)


# -- text -----------------------------------------------------------------------------------------------------


def _joined(statements: Sequence[Statement]) -> str:
    """Return the text of statements, constants one under the other, functions and classes two lines apart."""
    text = ""
    for before, statement in zip([None, *statements], statements, strict=False):
        if before is not None:
            apart = any(isinstance(one.node, Definition) for one in (before, statement))
            text += "\n\n\n" if apart else "\n"
        text += _filled(statement)
    return text


def _filled(statement: Statement) -> str:
    """Return a statement's text, with the wordings where it is one of their lists, without remarks to linters."""
    patterns = {
        "REFUSALS": [item.pattern for item in refusals.load().refusals],
        "LOST_PEERS": [item.pattern for item in refusals.load().lost_peers],
        "MACHINE_FAULTS": [item.pattern for item in refusals.load().machine_faults],
    }
    name = (
        next(iter(statement.defined & patterns.keys()), "")
        if isinstance(statement.node, ast.AnnAssign)
        else ""
    )
    if name:
        return "\n".join([f"{name} = (", *(f"    {pattern!r}," for pattern in patterns[name]), ")"])
    return re.sub(r"""  # (?:noqa|fmt): ?[^"'\n]*$""", "", statement.text, flags=re.MULTILINE)
