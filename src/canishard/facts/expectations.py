"""Expected differences, ``matrix/expectations.toml``: what the nightly knows of and need not tell again.

An entry is for a while: one that fits nothing, that nothing shows any more, or whose time is over is
reported, so that the file shrinks by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from canishard import files
from canishard.catalogue import ids
from canishard.facts.compare import UNDECIDED
from canishard.launch.outcome import Outcome, Status
from canishard.record import Record

NEVER_EXPECTED = frozenset({Status.PASS, Status.INFRA, Status.UNKNOWN})
"""What needs no entry: a pass is told once as fixed, and what was not measured is no difference of torch."""

_Text = Annotated[str, msgspec.Meta(min_length=1)]
_PLACES = ("backend", "device", "flavour", "system", "machine")


class Entry(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """One ``[[expected]]``: rows that are known to be so on some builds, and who says so."""

    cases: Annotated[list[_Text], msgspec.Meta(min_length=1)]
    """Patterns of the rows' ids."""
    torch: _Text
    """The versions on which it is so: ``>=2.16.0.dev0,<2.17``. A nightly counts by its own version, and
    ``2.16.0.dev20261130`` is before ``2.16.0``."""
    statuses: Annotated[list[Status], msgspec.Meta(min_length=1)]
    why: _Text
    link: Annotated[str, msgspec.Meta(pattern=r"^https://\S+$")]
    until: str = ""
    """The version from which on it is not expected any more; empty where nobody knows."""
    backend: str = ""
    device: str = ""
    flavour: str = ""
    system: str = ""
    machine: str = ""
    """Where it is so, as a record's environment has it; empty for anywhere."""

    def covers(self, case_id: str) -> bool:
        """Tell whether a row is one of the entry's."""
        return any(ids.matches(pattern, case_id) for pattern in self.cases)

    def holds_on(self, record: Record) -> bool:
        """Tell whether the entry is about the build and the place of a record, and not over."""
        place, version = record.environment, version_of(record)
        return (
            all(getattr(self, name) in {"", getattr(place, name)} for name in _PLACES)
            and SpecifierSet(self.torch).contains(version, prereleases=True)
            and not self.is_over(version)
        )

    def is_over(self, version: Version) -> bool:
        """Tell whether a version is past ``until``."""
        return bool(self.until) and version >= Version(self.until)

    def __str__(self) -> str:
        """Return it as ``pp.gpipe*: crash on torch >=2.16.0.dev0``."""
        statuses = ", ".join(status.value for status in self.statuses)
        return f"{', '.join(self.cases)}: {statuses} on torch {self.torch}"


class Reason(str, Enum):
    """Why an entry is not needed."""

    NO_ROW = "no row has such an id"
    NO_BUILD = "it fits no build that was measured, the nightly included"
    NO_CELL = "none of the cells that it is about has one of its statuses any more"
    OVER = "its `until` has passed"


class Unneeded(msgspec.Struct, kw_only=True, frozen=True):
    """An entry to remove, or a pattern of it."""

    entry: Entry
    reason: Reason
    pattern: str = ""
    """For ``NO_ROW``: which of its patterns."""

    def __str__(self) -> str:
        """Return it as one line."""
        pattern = f": {self.pattern}" if self.pattern else ""
        return f"{self.entry}: {self.reason.value}{pattern}"


def load(path: Path | None = None) -> list[Entry]:
    """Read the file, in its order; ConfigurationError lists every fault with the path to it."""
    path = path or files.matrix_dir() / "expectations.toml"
    raw = files.read_toml(path)
    faults = files.unknown_keys(raw, ["expected"])
    found = files.entries(raw, "expected", Entry, faults)
    for where, entry in found.items():
        faults += _version_faults(entry, where)
        if NEVER_EXPECTED & set(entry.statuses):
            allowed = [status.value for status in Status if status not in NEVER_EXPECTED]
            faults.append(f"{where}.statuses: allowed: {', '.join(allowed)}")
    files.raise_faults(path, faults)
    return list(found.values())


def _version_faults(entry: Entry, where: str) -> list[str]:
    faults = []
    try:
        SpecifierSet(entry.torch)
    except InvalidSpecifier:
        faults.append(
            f'{where}.torch: expected specifiers such as ">=2.16.0.dev0,<2.17", got "{entry.torch}"'
        )
    try:
        Version(entry.until or "0")
    except InvalidVersion:
        faults.append(f'{where}.until: expected a version such as "2.17.0", got "{entry.until}"')
    return faults


def version_of(record: Record) -> Version:
    """Return the version of the torch that was measured; specifiers look away from its local part."""
    return Version(record.variant.torch)


def expected(entries: Iterable[Entry], record: Record, outcome: Outcome) -> Entry | None:
    """Return the first entry by which a cell of a record is as it was expected to be."""
    for entry in entries:
        if outcome.status in entry.statuses and entry.covers(outcome.id) and entry.holds_on(record):
            return entry
    return None


def unneeded(entries: Iterable[Entry], records: Sequence[Record]) -> list[Unneeded]:
    """Return what can go: entries and patterns that fit nothing, that no cell shows any more, or that are over.

    Nothing is said where nothing was decided: of an entry whose cells are flaky or were not measured, and, where
    no record of a nightly is given, of one that fits none of the builds that are.
    """
    case_ids = sorted({cell.id for record in records for cell in record.cells})
    newest = max(map(version_of, records), default=Version("0"))
    has_nightly = any(not record.environment.is_stable for record in records)
    found = []
    for entry in entries:
        if entry.is_over(newest):
            found.append(Unneeded(entry=entry, reason=Reason.OVER))
            continue
        strays = [pattern for pattern in entry.cases if not ids.matching([pattern], case_ids)]
        found += [Unneeded(entry=entry, reason=Reason.NO_ROW, pattern=pattern) for pattern in strays]
        reason = _reason(entry, records, has_nightly=has_nightly) if len(strays) < len(entry.cases) else None
        if reason:
            found.append(Unneeded(entry=entry, reason=reason))
    return found


def _reason(entry: Entry, records: Iterable[Record], *, has_nightly: bool) -> Reason | None:
    """Return why an entry that has rows is not needed, None where it is or may be."""
    fitting = [record for record in records if entry.holds_on(record)]
    if not fitting:
        return Reason.NO_BUILD if has_nightly else None
    statuses = {cell.status for record in fitting for cell in record.cells if entry.covers(cell.id)}
    return (
        None if not statuses or statuses & {*entry.statuses, *UNDECIDED, Status.NOT_RUN} else Reason.NO_CELL
    )
