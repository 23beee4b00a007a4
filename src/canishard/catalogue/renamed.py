"""Rows that were renamed, of ``matrix/renamed.toml``: an old id goes on answering."""

from __future__ import annotations

import functools
from collections.abc import Container, Mapping
from pathlib import Path

import msgspec

from canishard import files


class Renamed(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """An id that a row had, and the one that it has."""

    old: str
    new: str


@functools.cache
def load(path: Path | None = None) -> Mapping[str, str]:
    """Return the newest id by each old one; ConfigurationError lists every fault with the path to it."""
    path = path or files.matrix_dir() / "renamed.toml"
    raw = files.read_toml(path)
    faults = files.unknown_keys(raw, ["renamed"])
    entries = files.entries(raw, "renamed", Renamed, faults)
    found: dict[str, str] = {}
    for where, entry in entries.items():
        if entry.old in found:
            faults.append(f"{where}.old: {entry.old} is renamed already")
        found[entry.old] = entry.new
    faults += [
        f"{where}.new: {entry.new} is renamed itself: write {found[entry.new]}"
        for where, entry in entries.items()
        if entry.new in found
    ]
    files.raise_faults(path, faults)
    return found


def resolve(row: str, known: Container[str]) -> tuple[str, str]:
    """Return the id that a row has now, and a note where that is not the one that was asked for.

    An id that is known stands for itself, and so does one that nobody knows.
    """
    new = load().get(row)
    if row in known or new is None:
        return row, ""
    return new, f"{row} is called {new} now"
