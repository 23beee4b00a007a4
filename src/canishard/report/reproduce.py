"""A row as one self-contained script, which shows with torch and the standard library alone what was measured.

The script is put together from source text: the check and what it reaches of its module, what that and the runner
reach of ``canishard.check``, and the ``reproduce_*`` modules beside this one.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from canishard import catalogue
from canishard.catalogue import Entry, sources
from canishard.catalogue.entries import place
from canishard.catalogue.program import DECLARING, SHARED
from canishard.catalogue.reach import closure
from canishard.catalogue.scope import Definition
from canishard.catalogue.sources import Source, Statement
from canishard.errors import ConfigurationError
from canishard.launch import refusals
from canishard.launch.outcome import Outcome
from canishard.report import reproduce_head

_TEMPLATES = [Path(__file__).with_name(f"reproduce_{part}.py") for part in ("rank", "verdict", "runner")]
_DECORATOR = "check"
"""The decorator: the script has its own, the first template's, which needs nothing of ``canishard.check``."""
_WIDTH = 100


def script(entry: Entry, seen: Sequence[tuple[str, Outcome]], folder: Path = catalogue.CHECKS) -> str:
    """Return a script that reproduces a row; ``seen`` holds its cells, each with where it was measured.

    ``folder`` is the one that the catalogue was read from. Raises ConfigurationError where two parts of the
    script have the same name for different things.
    """
    pieces = _pieces(place(entry, folder), entry.function)
    imports = _imports(pieces)
    _raise_collisions(entry, pieces, imports)
    sections = {
        "": [*pieces.decorator, *pieces.shared_first, *pieces.first],
        entry.id: [pieces.check],
        "what it calls": pieces.rest,
        "comparison": pieces.shared_rest,
        "running it": pieces.runner,
    }
    texts = [reproduce_head.docstring(entry, pieces.check, seen), "\n".join(_import_lines(imports))]
    for title, statements in sections.items():
        heading = f"# -- {title} ".ljust(_WIDTH, "-") + "\n\n" if title else ""
        texts.append(heading + _joined(statements) if statements else "")
    texts.append(f'if __name__ == "__main__":\n    sys.exit(main({entry.function}, {entry.params!r}))')
    return "\n\n\n".join(text.rstrip() for text in texts if text) + "\n"


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
    modules: list[Source]

    @functools.cached_property
    def parts(self) -> dict[str, tuple[list[Source], list[Statement]]]:
        """The sources, and of each the statements that the script has."""
        own = [*self.first, self.check, *self.rest]
        runner = [*self.decorator, *self.runner]
        return {
            self.modules[-1].path.name: (self.modules, own),
            SHARED.name: (
                [sources.read(SHARED), sources.read(DECLARING)],
                [*self.shared_first, *self.shared_rest],
            ),
            "the runner": ([sources.read(path) for path in _TEMPLATES], runner),
        }


@functools.cache
def _pieces(path: Path, function: str) -> _Pieces:
    """Return a check's statements; its rows differ in parameters alone."""
    shared = [sources.read(DECLARING), sources.read(SHARED)]
    found = [(source, own) for source, own in closure(path, function) if source not in shared]
    own = [one for _, statements in found for one in statements if _is_code(one)]
    check = next(one for one in own if function in one.defined and isinstance(one.node, ast.FunctionDef))
    place_of_check = own.index(check)
    runner = [one for path in _TEMPLATES for one in sources.read(path).statements if _is_code(one)]
    at_import = frozenset[str]().union(*(_at_import(one.node) for one in own))
    borrowed = _borrowed([*(source for source, _ in found), *map(sources.read, _TEMPLATES)])
    needed = [one for file in shared for one in _reached(file, borrowed) if _is_code(one)]
    shared_before = {one for file in shared for one in _reached(file, at_import & borrowed)}
    return _Pieces(
        check=check,
        first=own[:place_of_check],
        rest=own[place_of_check + 1 :],
        shared_first=[one for one in needed if one in shared_before],
        shared_rest=[one for one in needed if one not in shared_before],
        decorator=[one for one in runner if _DECORATOR in one.defined],
        runner=[one for one in runner if _DECORATOR not in one.defined],
        modules=[source for source, _ in found],
    )


def _reached(source: Source, wanted: Iterable[str]) -> list[Statement]:
    """Return the statements of one file that some names reach."""
    queue, seen = list(wanted), set[str]()
    while queue:
        name = queue.pop()
        if name not in seen:
            seen.add(name)
            queue.extend(used for one in source.statements if name in one.defined for used in one.used)
    return [one for one in source.statements if one.defined & seen]


def _is_code(statement: Statement) -> bool:
    """Tell whether a script takes a statement over: no import, no docstring, nothing for type checkers alone."""
    return not isinstance(statement.node, ast.Import | ast.ImportFrom | ast.Expr | ast.If)


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
    """Yield all that a file imports, for type checkers too, with the module, which is empty for ``import x``."""
    for statement in file.statements:
        for node in ast.walk(statement.node) if not isinstance(statement.node, Definition) else ():
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
