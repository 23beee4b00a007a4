"""What a check reaches: of its own file, of those below ``canishard.checks`` that it shares, and of ``check.py``.

A top-level statement is reached where it binds a name that is reached, where it may change what such a name stands for
(an item or attribute is set, a method called, it is passed to a call, a function that does so is called), or where it
is run for its effect alone. In doubt it is reached.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import Path

from canishard.catalogue import declarations, program, sources
from canishard.catalogue.program import FOREIGN, File, Key, Program
from canishard.catalogue.scope import DECORATOR, Definition
from canishard.catalogue.sources import Source, Statement


def closure(
    path: Path, function: str, entry: str = "", *, is_deciding: bool = False
) -> list[tuple[Source, list[Statement]]]:
    """Return what a function of a file reaches: the files as they are run, of each its statements as they are run.

    With the ``entry`` of a table of rows, that entry stands for the table, unless the table is reached besides.
    ``is_deciding`` leaves out of declarations what only labels a row.
    """
    search = _Search(program.read(path), is_deciding=is_deciding)
    search.start(path, function, entry)
    return search.found()


@dataclass
class _Search:
    """One search for what is reached."""

    program: Program
    is_deciding: bool
    reached: set[Key] = field(default_factory=lambda: {FOREIGN})
    watched: set[Key] = field(default_factory=set)
    """What something reached is held by under another name."""
    included: dict[Statement, Statement] = field(default_factory=dict)
    """Statements of files, each with what stands for it."""
    entries: dict[Statement, Statement] = field(default_factory=dict)
    """Statements that are tables, each with the one entry that was asked for."""
    queue: list[Key] = field(default_factory=list)

    def start(self, path: Path, function: str, entry: str) -> None:
        """Search from a check."""
        if entry:
            self._enter(path, function, entry)
        self.queue += [(path, function), (program.SHARED, "Context")]
        for file, statement in self.program.statements:
            if file.is_always(statement):
                self._include(file, statement)
        self._follow()
        while self._widen():
            self._follow()

    def found(self) -> list[tuple[Source, list[Statement]]]:
        """Return what was found, in the order in which it is run."""
        answer = []
        for file in self.program.files.values():
            chosen = [
                self.included.get(statement) or self.entries[statement]
                for statement in file.source.statements
                if statement in self.included or statement in self.entries
            ]
            if chosen:
                answer.append((file.source, chosen))
        return answer

    def _enter(self, path: Path, function: str, entry: str) -> None:
        """Take one entry for the whole of a check's table."""
        table = declarations.table_of(self.program, self.program.files[path], function)
        found = table.get(entry)
        if found is None:
            msg = f"{path.name}: {function}: {entry!r} is no entry of its table"
            raise sources.Unreadable(msg)
        for name in found.names:
            self.watched.add((found.file.source.path, name))
        self.entries[found.statement] = narrowed = found.narrowed(is_deciding=self.is_deciding)
        self._read(found.file, narrowed)

    def _include(self, file: File, statement: Statement) -> None:
        if statement in self.included:
            return
        if not isinstance(statement.node, Definition | ast.Import | ast.ImportFrom):
            # What it binds may be one thing with several names: a = b = {}.
            self.watched.update((file.source.path, name) for name in statement.facts.binds)
        stands = self.included[statement] = (
            declarations.deciding(statement) if self.is_deciding else statement
        )
        self._read(file, stands)

    def _read(self, file: File, statement: Statement) -> None:
        for reference in statement.facts.reads:
            self.queue.extend(self.program.keys(file, reference))
        is_top = isinstance(statement.node, ast.Import | ast.ImportFrom)
        for node in statement.facts.imports if not is_top else ():
            self.queue.extend(key for _, key in file.origins(node))
        if statement.facts.is_opaque:
            self.queue.append((file.source.path, "*"))

    def _follow(self) -> None:
        while self.queue:
            key = path, name = self.queue.pop()
            if key in self.reached or key == (program.DECLARING, DECORATOR):
                continue
            self.reached.add(key)
            file = self.program.files[path]
            for statement in file.source.statements if name == "*" else file.binders.get(name, ()):
                self._include(file, statement)

    def _widen(self) -> bool:
        """Add what changes something reached; tell whether anything was."""
        size = len(self.included), len(self.watched)
        for file, statement in self.program.statements:
            if statement in self.included:
                continue
            facts = statement.facts
            held = self.reached | self.watched
            if statement not in self.entries and not held.isdisjoint(
                hit := self.program.effects(file, statement)
            ):
                self._include(file, statement)
                self.queue.extend(key for key in hit & held)
            elif self._holds(file, statement, held):
                self.watched.update((file.source.path, name) for name in facts.binds)
        return (len(self.included), len(self.watched)) != size

    def _holds(self, file: File, statement: Statement, held: set[Key]) -> bool:
        """Tell whether a statement may put something that is held under another name, as an assignment or a loop does."""
        if isinstance(statement.node, Definition | ast.Import | ast.ImportFrom):
            return False
        keys = {key for one in statement.facts.read_at_import for key in self.program.keys(file, one)}
        hit = keys & held
        return any(
            not self.program.files[path].kinds(name) <= {"constant", "function", "import"}
            for path, name in hit
        )
