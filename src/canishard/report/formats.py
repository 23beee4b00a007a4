"""The table as the command line prints it, by symbol and word: Markdown for GitHub, HTML, or plain text.

What comes from records is hostile text: each format takes out or escapes what it would obey.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import tabulate

from canishard.catalogue import ids
from canishard.record import Record
from canishard.report import text
from canishard.report.table import SYMBOLS, Group, Shown, groups, rows

Format = Literal["plain", "github", "html"]
FORMATS: tuple[Format, ...] = get_args(Format)

_EMOJI = "\ufe0f"
"""Asks for the wide picture of a character; each symbol having it, all are two characters and two columns wide."""


def plain(words: str) -> str:
    """Return text on one line that a terminal shows and does not obey: no control characters, no escapes."""
    return " ".join("".join(char if char.isprintable() else " " for char in words).split())


@dataclass(frozen=True, kw_only=True)
class Writer:
    """How one format writes its parts; cells and heads are escaped by ``table`` or before it."""

    table: Callable[[Sequence[str], Sequence[Sequence[str]]], str]
    row: Callable[[str], str]
    words: Callable[[str], str]
    symbol: Callable[[str], str]
    mark: Callable[[int], str]
    heading: Callable[[str], str]
    notes: Callable[[Sequence[str]], str]


def _tabulate(kind: str) -> Callable[[Sequence[str], Sequence[Sequence[str]]], str]:
    def table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
        return str(tabulate.tabulate(lines, heads, tablefmt=kind, disable_numparse=True, stralign="left"))

    return table


WRITERS: dict[Format, Writer] = {
    "plain": Writer(
        table=_tabulate("simple"),
        row=plain,
        words=plain,
        symbol=lambda symbol: symbol.removesuffix(_EMOJI) + _EMOJI,
        mark=lambda number: f"[{number}]",
        heading=plain,
        notes=lambda notes: "\n".join(f"[{number}] {plain(note)}" for number, note in enumerate(notes, 1)),
    ),
    "github": Writer(
        table=text.table,
        row=text.code,
        words=text.escape,
        symbol=str,
        mark=lambda number: f"<sup>{number}</sup>",
        heading=lambda words: f"### {text.escape(words)}",
        notes=lambda notes: "\n".join(
            f"{number}. {text.escape(note)}" for number, note in enumerate(notes, 1)
        ),
    ),
    "html": Writer(
        table=_tabulate("html"),
        row=plain,
        words=plain,
        symbol=str,
        mark=lambda number: f"[{number}]",
        heading=lambda words: f"<h3>{html.escape(plain(words))}</h3>",
        notes=lambda notes: "\n".join(
            ["<ol>", *(f"<li>{html.escape(plain(note))}</li>" for note in notes), "</ol>"]
        ),
    ),
}


def tables(
    records: Iterable[Record],
    case_ids: Iterable[str],
    kind: Format,
    *,
    symbols: bool = True,
) -> str:
    """Return a table a family of the given rows, a column a release, newest first, with its notes below it.

    ``symbols`` is False where they cannot be written; the words say the same.
    """
    wanted = list(case_ids)
    writer = WRITERS[kind]
    parts = []
    for group in groups(records):
        for family in sorted({ids.family(row) for row in wanted}):
            own = [row for row in wanted if ids.family(row) == family]
            parts += _family(group, family, own, writer, symbols=symbols)
    return "\n\n".join(parts)


def _family(group: Group, family: str, own: Sequence[str], writer: Writer, *, symbols: bool) -> list[str]:
    numbers: dict[str, int] = {}
    lines = [
        [
            writer.row(row.id),
            ", ".join(str(size) for size in row.world_sizes),
            *(_cell(shown, numbers, writer, symbols=symbols) for shown in row.cells),
        ]
        for row in rows(group, own)
    ]
    if not lines:
        return []
    heads = ["row", "ranks", *(writer.words(column.channel) for column in group.columns)]
    notes = [writer.notes(list(numbers))] if numbers else []
    return [writer.heading(f"{family}: {group.title}"), writer.table(heads, lines), *notes]


def _cell(shown: Sequence[Shown], numbers: dict[str, int], writer: Writer, *, symbols: bool) -> str:
    """Return what the builds show; ``numbers`` holds the notes so far and takes the new ones."""
    parts = []
    for one in shown:
        marks = [writer.mark(numbers.setdefault(note, len(numbers) + 1)) for note in one.notes]
        symbol = [writer.symbol(SYMBOLS[one.status])] if symbols else []
        parts.append(" ".join([*symbol, one.status.value, *marks, *map(writer.words, one.labels)]))
    return "; ".join(parts)
