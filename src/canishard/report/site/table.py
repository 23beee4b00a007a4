"""The tables: a page for each backend, device and number of ranks, rows by family and feature, newest release first.

A table of 1,000 rows and 20 releases is to stay below 2 MB: a plain pass carries no link of its own, a
script adds it; its row's head leads to the same page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from packaging.version import Version

from canishard.catalogue import ids
from canishard.catalogue.ids import slug
from canishard.facts.quirks import NOT_MEASURED, Quirk
from canishard.launch.outcome import Outcome, Status
from canishard.record import Record
from canishard.record.environment import MOVING_CHANNELS
from canishard.report.site.base import Site, cell_anchor, render
from canishard.report.site.cells import BUILDS
from canishard.report.table import MEANINGS, Column, Group, Row, Shown, rows


@dataclass(frozen=True, kw_only=True)
class Head:
    """A column's head."""

    channel: str
    minor: str
    builds: list[tuple[str, str]]
    """Each build's short name, and the same in words with the exact version."""
    measured: str
    """The day, of the newest record; empty where it could not be measured."""
    reason: str
    """Why it could not be measured; empty where it was."""
    stale: str
    """The day since which a nightly column is as it is, for want of a verdict; empty for every other."""
    anchor: str
    """Of the first build's cells on a row's page."""
    is_supported: bool
    is_folded: bool
    """Whether a newer patch of the same minor stands before it."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What one or all builds of a column show."""

    status: Status
    labels: str
    href: str
    """Empty for a pass of all builds, and for what no record has."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """A row of the table."""

    id: str
    title: str
    href: str
    quirks: list[Quirk]
    cells: list[list[Cell]]


@dataclass(frozen=True, kw_only=True)
class Feature:
    """The rows of a feature."""

    name: str
    lines: list[Line]
    has_head: bool
    """Whether a line of its own names it."""

    @property
    def title(self) -> str:
        """Return what all its rows say, where that is more than one; empty where they differ."""
        titles = {line.title for line in self.lines}
        return self.lines[0].title if self.has_head and len(titles) == 1 and len(self.lines) > 1 else ""


@dataclass(frozen=True, kw_only=True)
class Tally:
    """How many cells there are of some rows in a column."""

    passed: int
    wrong: int
    measured: int

    @property
    def heat(self) -> str:
        """Return the class that colours it: what share of the measured does not pass."""
        if not self.measured:
            return "h-none"
        failing = 1 - self.passed / self.measured
        steps = ((0, "h-0"), (0.25, "h-1"), (0.5, "h-2"))
        return next((name for limit, name in steps if failing <= limit), "h-3")


@dataclass(frozen=True, kw_only=True)
class Family:
    """The rows of a family, by feature, with how many pass in each column."""

    name: str
    tallies: list[Tally]
    features: list[Feature]

    @property
    def size(self) -> int:
        """Return the number of rows."""
        return sum(len(feature.lines) for feature in self.features)


def pages(site: Site) -> dict[str, bytes]:
    """Return every table's page, by its path."""
    found = {id(group): rows(group) for group in site.groups}
    return {path: _page(site, group, size, path, found[id(group)]) for group, size, path in site.tables}


def _page(site: Site, group: Group, world_size: int, path: str, found: Iterable[Row]) -> bytes:
    own = [row for row in found if world_size in row.world_sizes]
    statuses = {shown.status for row in own for cell in row.cells for shown in cell}
    ranks = f"{world_size} rank{'s' if world_size != 1 else ''}"
    return render(
        "table.html",
        path,
        site=site,
        title=f"{group.title}, {ranks}",
        group=group,
        world_size=world_size,
        heads=heads(site, group),
        families=_families(site, group, world_size, own),
        statuses=[status for status in MEANINGS if status in statuses],
    )


# ---- columns -------------------------------------------------------------------------------------


def heads(site: Site, group: Group) -> list[Head]:
    """Return the heads of a group's columns."""
    minors = [_minor(column.channel) for column in group.columns]
    return [
        Head(
            channel=column.channel,
            minor=minor,
            builds=[(label, _build(record)) for label, record in column.records],
            measured=max((record.ended for _, record in column.records), default="")[:10],
            reason=column.reason,
            stale=max((site.stale.get(record.name, "") for _, record in column.records), default=""),
            anchor=_anchors(column, 0)[""].removesuffix("0"),
            is_supported=column.channel in site.supported or column.channel in MOVING_CHANNELS,
            is_folded=minor in minors[:number],
        )
        for number, (minor, column) in enumerate(zip(minors, group.columns, strict=True))
    ]


def _minor(channel: str) -> str:
    """Return ``2.8`` for ``2.8.0``, and a channel that is no release as it is."""
    return ".".join(str(part) for part in Version(channel).release[:2]) if channel[:1].isdigit() else channel


def _build(record: Record) -> str:
    return (
        f"torch {record.variant.torch}, {BUILDS[record.environment.flavour]}, Python {record.variant.python}"
    )


# ---- rows ----------------------------------------------------------------------------------------


def tally(cells: Iterable[Sequence[Shown]]) -> Tally:
    """Count cells; one of several builds passes where all of them do, and is wrong where one of them is."""
    passed = wrong = measured = 0
    for cell in cells:
        statuses = {shown.status for shown in cell} - NOT_MEASURED
        measured += bool(statuses)
        passed += statuses == {Status.PASS}
        wrong += Status.WRONG in statuses
    return Tally(passed=passed, wrong=wrong, measured=measured)


def by_family(found: Iterable[Row]) -> dict[str, list[Row]]:
    """Return rows by family, in the order of their first row: what is silently wrong somewhere comes first."""
    families: dict[str, list[Row]] = {}
    for row in found:
        families.setdefault(ids.family(row.id), []).append(row)
    return families


def _families(site: Site, group: Group, world_size: int, found: Iterable[Row]) -> list[Family]:
    shows = _quirks(site.quirks, group, world_size)
    anchors = [_anchors(column, world_size) for column in group.columns]
    made = []
    for name, own in by_family(found).items():
        features: dict[str, list[Line]] = {}
        for row in own:
            entry = site.catalogue.get(row.id)
            href = f"../rows/{slug(row.id)}.html"
            line = Line(
                id=row.id,
                title=entry.title if entry else "",
                href=href,
                quirks=shows.get(row.id, []),
                cells=[_cell(cell, href, at) for cell, at in zip(row.cells, anchors, strict=True)],
            )
            features.setdefault(entry.feature if entry else "", []).append(line)
        tallies = [tally(row.cells[index] for row in own) for index in range(len(anchors))]
        parts = [
            Feature(name=feature, lines=lines, has_head=bool(feature) and len(own) > 1)
            for feature, lines in features.items()
        ]
        made.append(Family(name=name, tallies=tallies, features=parts))
    return made


def _anchors(column: Column, world_size: int) -> dict[str, str]:
    """Return the anchors of a column's cells on a row's page, by the build's label; "" is all builds'."""
    found = {label: cell_anchor(record.environment, world_size) for label, record in column.records}
    return {"": next(iter(found.values()), ""), **found}


def _cell(cell: Iterable[Shown], href: str, anchors: Mapping[str, str]) -> list[Cell]:
    made = []
    for shown in cell:
        plain = shown.status is Status.UNKNOWN or (shown.status is Status.PASS and not shown.labels)
        anchor = anchors[shown.labels[0] if shown.labels else ""]
        made.append(
            Cell(
                status=shown.status,
                labels=" ".join(shown.labels),
                href="" if plain else f"{href}#{anchor}",
            )
        )
    return made


def _quirks(quirks: Iterable[Quirk], group: Group, world_size: int) -> dict[str, list[Quirk]]:
    """Return the quirks that a row's cells show, by the row's id."""
    outcomes: dict[str, list[Outcome]] = {}
    for outcome in (
        cell for column in group.columns for _, record in column.records for cell in record.cells
    ):
        if outcome.world_size == world_size:
            outcomes.setdefault(outcome.id, []).append(outcome)
    found: dict[str, list[Quirk]] = {}
    for quirk in quirks:
        for row_id, own in outcomes.items():
            if quirk.covers(row_id) and any(quirk.is_shown_by(outcome) for outcome in own):
                found.setdefault(row_id, []).append(quirk)
    return found
