"""Claims, what torch's own documentation says (``matrix/claims.toml``), and where the records agree with it.

A page is quoted for the releases whose page was read and for no other: what nobody looked up is not
claimed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from canishard import files
from canishard.catalogue import ids
from canishard.facts.quirks import NOT_MEASURED
from canishard.facts.support import ranges
from canishard.launch.outcome import Outcome, Status, words
from canishard.record import Record
from canishard.record.environment import channel_key

MINOR = "{minor}"
"""Stands in a page's address for the release's first two numbers: the documentation has a page a minor release."""

_Text = Annotated[str, msgspec.Meta(min_length=1)]
_Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
_Address = Annotated[str, msgspec.Meta(pattern=r"^https://[^\s<>\"]+$")]
_Place = Annotated[str, msgspec.Meta(pattern=r"^([a-z0-9_]+|\*)/([a-z0-9_]+|\*)$")]
_Column = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9_]+/[a-z0-9_]+$")]
_ById = dict[str, list[tuple[Record, Outcome]]]
_Function = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9_]+$")]


class Stated(str, Enum):
    """What a page says of something."""

    WORKS = "works"
    UNSUPPORTED = "unsupported"
    """Not available, or not supported: how a call then fails is not said."""


MARKS = {"✓": Stated.WORKS, "✘": Stated.UNSUPPORTED, "?": None}
"""What a page's table has in a cell; a question mark claims nothing."""


class Finding(str, Enum):
    """What the measurement says of what the page says; the worst of several comes first."""

    CONTRADICTED = "contradicted"
    """Said to work, and does not; or said not to, and passes."""
    SILENT = "silently wrong"
    """Said not to be supported: it is not, but instead of an error there is a wrong value."""
    AGREES = "agrees"
    NOT_MEASURED = "not measured"


class _Quoted(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """What a claim and a table of claims have in common."""

    name: _Name
    page: _Address
    """Where it is said; ``{minor}`` stands for a release's first two numbers."""
    releases: _Text
    """A specifier of the releases whose page was read: ``>=2.4,<2.8``."""
    without: list[_Text] = []
    """Patterns of ids that the cases match, and of which nothing is said."""


class _Entry(_Quoted, kw_only=True, frozen=True):
    """A ``[[claim]]`` as it stands in the file."""

    says: _Text
    """What the page says, in our words."""
    on: Annotated[list[_Place], msgspec.Meta(min_length=1)]
    """``backend/device``, ``*`` for any: where it is said to hold."""
    claims: Stated
    cases: list[_Text] = []
    """Patterns of the ids that measure it; empty where no case does yet."""


class _Table(_Quoted, kw_only=True, frozen=True):
    """A table as the page has it: a row a function, a column a backend on a device."""

    columns: Annotated[list[_Column], msgspec.Meta(min_length=1)]
    rows: dict[_Function, str]
    """The marks of a function, one a column, blanks between them."""


@functools.cache
def _specifier(text: str) -> SpecifierSet:
    return SpecifierSet(text)


class Claim(_Entry, kw_only=True, frozen=True):
    """One statement of a page, for some releases, backends and devices."""

    function: str = ""
    """The row, where the claim is a cell of a table; its column is ``on``. Empty for a claim of its own."""

    def covers(self, case_id: str) -> bool:
        """Tell whether a case is one of those that measure it."""
        return any(ids.matches(pattern, case_id) for pattern in self.cases) and not any(
            ids.matches(pattern, case_id) for pattern in self.without
        )

    def speaks_of(self, release: str, backend: str, device: str) -> bool:
        """Tell whether the page of this release says it of this backend and device."""
        kind, version, _ = channel_key(release)
        place = f"{backend}/{device}"
        return (
            kind == 0
            and version in _specifier(self.releases)
            and any(ids.matches(pattern, place) for pattern in self.on)
        )

    def page_of(self, release: str) -> str:
        """Return the address of the page of one release."""
        return self.page.replace(MINOR, ".".join(release.split(".")[:2]))

    def finding(self, status: Status) -> Finding:
        """Return what one cell says of the claim."""
        if status in NOT_MEASURED:
            return Finding.NOT_MEASURED
        if self.claims is Stated.WORKS:
            return Finding.AGREES if status is Status.PASS else Finding.CONTRADICTED
        if status in {Status.PASS, Status.FLAKY}:
            return Finding.CONTRADICTED
        return Finding.SILENT if status is Status.WRONG else Finding.AGREES


class Seen(msgspec.Struct, kw_only=True, frozen=True):
    """A cell that measures a claim, and what it says."""

    finding: Finding
    record: Record
    outcome: Outcome


class Verdict(msgspec.Struct, kw_only=True, frozen=True):
    """One claim against the records of one release, backend and device."""

    claim: Claim
    release: str
    backend: str
    device: str
    cells: list[Seen]
    """Every measured cell of it, by id, world size and record; empty where there is none."""

    @property
    def finding(self) -> Finding:
        """Return the worst of what the cells say."""
        findings = {seen.finding for seen in self.cells}
        return next((finding for finding in Finding if finding in findings), Finding.NOT_MEASURED)


class Line(msgspec.Struct, kw_only=True, frozen=True):
    """Rows that say the same of a claim, by the same status, on the same releases."""

    finding: Finding
    status: Status
    how: list[str]
    """What was measured, in words: ``pass``, ``wrong (sum instead of avg)``."""
    rows: list[str]
    """Their ids."""
    releases: list[str]
    """Oldest first."""
    where: str
    """The same releases as ranges among the measured ones: ``2.4.1 to 2.8.0``."""


# ---- the file ------------------------------------------------------------------------------------


def load(path: Path | None = None) -> list[Claim]:
    """Read the file: its claims, then those of its tables; ConfigurationError lists every fault with its path."""
    path = path or files.matrix_dir() / "claims.toml"
    raw = files.read_toml(path)
    faults = files.unknown_keys(raw, ["claim", "table"])
    claims = files.entries(raw, "claim", _Entry, faults)
    tables = files.entries(raw, "table", _Table, faults)
    for where, entry in [*claims.items(), *tables.items()]:
        faults.extend(_specifier_faults(entry.releases, where))
    for where, table in tables.items():
        faults.extend(_mark_faults(table, where))
    files.raise_faults(path, faults)
    found = [(where, Claim(**msgspec.structs.asdict(entry))) for where, entry in claims.items()]
    found += [(where, claim) for where, table in tables.items() for claim in _of_table(table)]
    files.raise_faults(path, _name_faults(found))
    return [claim for _, claim in found]


def _name_faults(found: Iterable[tuple[str, Claim]]) -> list[str]:
    first: dict[str, str] = {}
    return [
        f"{where}.name: {claim.name} is one of {first[claim.name]} already"
        for where, claim in found
        if first.setdefault(claim.name, where) != where
    ]


def _specifier_faults(text: str, where: str) -> list[str]:
    try:
        _specifier(text)
    except InvalidSpecifier:
        return [f'{where}.releases: expected a specifier such as ">=2.4,<2.8", got "{text}"']
    return []


def _mark_faults(table: _Table, where: str) -> list[str]:
    return [
        f'{where}.rows.{function}: expected {len(table.columns)} of {" ".join(MARKS)}, got "{marks}"'
        for function, marks in table.rows.items()
        if len(marks.split()) != len(table.columns) or not MARKS.keys() >= set(marks.split())
    ]


def _of_table(table: _Table) -> list[Claim]:
    """Return the claim of every cell of a table that is not left open."""
    cells = [
        (function, column, MARKS[mark])
        for function, marks in table.rows.items()
        for column, mark in zip(table.columns, marks.split(), strict=True)
    ]
    return [_cell_claim(table, function, column, stated) for function, column, stated in cells if stated]


def _cell_claim(table: _Table, function: str, column: str, stated: Stated) -> Claim:
    backend, device = column.split("/")
    available = "available" if stated is Stated.WORKS else "not available"
    return Claim(
        name=f"{table.name}-{function}-{backend}-{device}".replace("_", "-"),
        says=f"{function} is {available} on {backend} for tensors on {device}.",
        page=table.page,
        releases=table.releases,
        on=[column],
        claims=stated,
        cases=[f"collectives.{function}", f"collectives.{function}[*"],
        without=table.without,
        function=function,
    )


def unmatched(claims: Iterable[Claim], case_ids: Sequence[str]) -> list[str]:
    """Return, as ``name: patterns``, the claims that have patterns and are measured by none of the cases."""
    return [
        f"{claim.name}: {', '.join(claim.cases)}"
        for claim in claims
        if claim.cases and not any(claim.covers(case_id) for case_id in case_ids)
    ]


# ---- against the records -------------------------------------------------------------------------


def verdicts(claims: Iterable[Claim], records: Iterable[Record]) -> list[Verdict]:
    """Return a verdict per claim and each release, backend and device that has a record and that it speaks of.

    In the order of the claims, then by backend, device and release. A claim without a verdict is about
    releases, backends or devices of which there is no record.
    """
    groups: dict[tuple[str, str, str], _ById] = {}
    for record in sorted(records, key=lambda item: item.name):
        place = record.environment
        group = groups.setdefault((place.backend, place.device, place.channel), {})
        for cell in record.cells:
            group.setdefault(cell.id, []).append((record, cell))
    keys = sorted(groups, key=lambda key: (*key[:2], channel_key(key[2])))
    case_ids = sorted(set().union(*groups.values()))
    found = []
    for claim in claims:
        covered = [case_id for case_id in case_ids if claim.covers(case_id)]
        for backend, device, release in keys:
            if claim.speaks_of(release, backend, device):
                cells = _cells(claim, covered, groups[backend, device, release])
                verdict = Verdict(claim=claim, backend=backend, device=device, release=release, cells=cells)
                found.append(verdict)
    return found


def _cells(claim: Claim, covered: Sequence[str], group: _ById) -> list[Seen]:
    """Return the measured cells of the cases that a claim covers."""
    cells = [
        Seen(finding=claim.finding(cell.status), record=record, outcome=cell)
        for case_id in covered
        for record, cell in group.get(case_id, [])
        if cell.status not in NOT_MEASURED
    ]
    return sorted(cells, key=lambda seen: (seen.outcome.key, seen.record.name))


def lines(found: Iterable[Verdict]) -> list[Line]:
    """Return what verdicts of one backend and device say, rows that say the same together, the worst first.

    They are one claim's, or those of a table's cell over the releases. Ranges are among the releases that
    have cells.
    """
    measured: list[str] = []
    rows: dict[tuple[Finding, Status, str], dict[str, set[str]]] = {}
    for verdict in sorted(found, key=lambda item: channel_key(item.release)):
        measured += [verdict.release] if verdict.cells else []
        for seen in verdict.cells:
            key = (seen.finding, seen.outcome.status, seen.outcome.id)
            rows.setdefault(key, {}).setdefault(verdict.release, set()).add(words(seen.outcome))
    alike: dict[tuple[Finding, Status, tuple[str, ...]], dict[str, set[str]]] = {}
    for (finding, status, row), said in rows.items():
        alike.setdefault((finding, status, tuple(said)), {})[row] = set().union(*said.values())
    together = [
        Line(
            finding=finding,
            status=status,
            how=sorted(set().union(*by_row.values())),
            rows=sorted(by_row),
            releases=list(releases),
            where=ranges(releases, measured),
        )
        for (finding, status, releases), by_row in alike.items()
    ]
    return sorted(together, key=lambda line: (list(Finding).index(line.finding), line.rows, line.status))
