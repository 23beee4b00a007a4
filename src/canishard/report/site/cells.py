"""Where each row was measured and what it did there: looked up in all records once, for the pages that show cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from canishard.catalogue import ids
from canishard.catalogue.ids import slug
from canishard.facts.quirks import NOT_MEASURED, Quirk
from canishard.facts.support import ranges
from canishard.launch.outcome import Outcome, Status
from canishard.record import Record
from canishard.report.site.base import Site, cell_anchor
from canishard.report.table import Group

BUILDS = {
    "cpu": "CPU build",
    "cuda": "CUDA build",
    "cuda-nodriver": "CUDA build, no driver",
    "rocm": "ROCm build",
}
"""A build in words, by its flavour."""


@dataclass(frozen=True, kw_only=True)
class Build:
    """A record as a table's column knows it."""

    channel: str
    label: str
    """The build's short name, as in the column's head."""
    name: str
    """The record's name; asked for often, and not cheap to make."""
    record: Record

    @property
    def words(self) -> str:
        """Return the build in words: ``CUDA build, no driver, Python 3.11``."""
        environment = self.record.environment
        return f"{BUILDS[environment.flavour]}, Python {environment.python}"

    @property
    def anchor(self) -> str:
        """Return the anchor of the exact build on the page of the method."""
        return f"build-{self.name}"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What a row did on one build with so many ranks; without an outcome it is ``unknown``."""

    build: Build
    world_size: int
    outcome: Outcome | None

    @property
    def status(self) -> Status:
        """Return the status."""
        return self.outcome.status if self.outcome else Status.UNKNOWN

    @property
    def anchor(self) -> str:
        """Return the anchor on the row's page."""
        return cell_anchor(self.build.record.environment, self.world_size)

    @property
    def words(self) -> str:
        """Return status and deviation in words."""
        if self.outcome and self.outcome.deviation:
            return f"{self.status.value} ({self.outcome.deviation})"
        return self.status.value

    @property
    def ranks(self) -> str:
        """Return the number of ranks in words."""
        return f"{self.world_size} rank{'s' if self.world_size != 1 else ''}"


@dataclass(frozen=True, kw_only=True)
class Place:
    """A table's place and its builds, newest first."""

    group: Group
    builds: list[Build]

    @property
    def key(self) -> str:
        """Return what names it in a link: ``gloo-cpu``, with the platform where that is not the usual one."""
        group = self.group
        usual = (group.system, group.machine) == ("linux", "x86_64")
        return "-".join([group.backend, group.device, *([] if usual else [group.system, group.machine])])

    @property
    def channels(self) -> list[str]:
        """Return the measured releases, oldest first, as ranges are written."""
        return [column.channel for column in reversed(self.group.measured)]


class Book:
    """All records, by row."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.places = places(site)
        self._outcomes: dict[str, dict[str, dict[int, Outcome]]] = {}
        for build in (build for place in self.places for build in place.builds):
            for outcome in build.record.cells:
                by_build = self._outcomes.setdefault(outcome.id, {})
                by_build.setdefault(build.name, {})[outcome.world_size] = outcome
        self.shows: dict[str, list[Quirk]] = {}
        """The quirks that at least one cell of a row shows."""
        for quirk in site.quirks:
            for row_id in self.shown_by(quirk):
                self.shows.setdefault(row_id, []).append(quirk)

    def __contains__(self, row_id: object) -> bool:
        """Tell whether a row has a page."""
        return row_id in self._outcomes or row_id in self.site.catalogue

    @property
    def row_ids(self) -> list[str]:
        """Return every row that was measured, or that a check declares."""
        return sorted({*self._outcomes, *self.site.catalogue})

    def covered_by(self, quirk: Quirk) -> list[str]:
        """Return the measured rows that can show a quirk."""
        return [row_id for row_id in sorted(self._outcomes) if quirk.covers(row_id)]

    def shown_by(self, quirk: Quirk) -> list[str]:
        """Return the rows of which a cell shows a quirk."""
        return [
            row_id
            for row_id in self.covered_by(quirk)
            if any(quirk.is_shown_by(outcome) for _, outcome in self.measured(row_id))
        ]

    def measured(self, row_id: str) -> Iterable[tuple[str, Outcome]]:
        """Return what a row did anywhere, with the record's name."""
        for name, outcomes in self._outcomes.get(row_id, {}).items():
            for outcome in outcomes.values():
                yield name, outcome

    def world_sizes(self, row_id: str, place: Place) -> list[int]:
        """Return the numbers of ranks with which a row was measured somewhere in a place."""
        by_build = self._outcomes.get(row_id, {})
        return sorted({size for build in place.builds for size in by_build.get(build.name, {})})

    def cells(self, row_id: str, place: Place) -> dict[str, list[Cell]]:
        """Return a row's cells by the name of the record, newest first, and the number of ranks."""
        by_build: Mapping[str, Mapping[int, Outcome]] = self._outcomes.get(row_id, {})
        sizes = self.world_sizes(row_id, place)
        return {
            build.name: [
                Cell(build=build, world_size=size, outcome=by_build.get(build.name, {}).get(size))
                for size in sizes
            ]
            for build in place.builds
        }


def places(site: Site) -> list[Place]:
    """Return every table's place, with its builds."""
    return [_place(group) for group in site.groups]


def _place(group: Group) -> Place:
    builds = [
        Build(channel=column.channel, label=label, name=record.name, record=record)
        for column in group.columns
        for label, record in column.records
    ]
    return Place(group=group, builds=builds)


@dataclass(frozen=True, kw_only=True)
class Said:
    """Releases on which cells say the same."""

    status: Status
    words: str
    releases: str
    """As ranges: ``2.4.1, 2.6.0 to 2.8.0``."""


def by_words(cells: Iterable[Cell], channels: Sequence[str]) -> list[Said]:
    """Return what cells say, newest first, each with the releases on which it was said, as ranges."""
    found: dict[tuple[Status, str], set[str]] = {}
    for cell in cells:
        if cell.status not in NOT_MEASURED:
            found.setdefault((cell.status, cell.words), set()).add(cell.build.channel)
    return [
        Said(status=status, words=words, releases=ranges(said, channels))
        for (status, words), said in found.items()
    ]


def reference(pattern: str, row_ids: Sequence[str]) -> list[tuple[str, str]]:
    """Return the rows that a pattern stands for, each with its page's stem; the pattern itself where none fits."""
    return [(row_id, slug(row_id)) for row_id in ids.matching([pattern], row_ids)] or [(pattern, "")]
