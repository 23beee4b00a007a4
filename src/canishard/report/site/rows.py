"""A page a row: where it works, what went wrong in each cell, and how to see it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from canishard.catalogue import ids, workarounds
from canishard.catalogue.ids import slug
from canishard.facts.quirks import Quirk
from canishard.facts.support import Span, ranges
from canishard.launch.outcome import Status
from canishard.report.site.base import Site, render
from canishard.report.site.cells import Book, Build, Cell, Place, Said, by_words, reference
from canishard.report.site.evidence import Evidence, collect, is_plain


@dataclass(frozen=True, kw_only=True)
class Line:
    """What a row did on one build, by the number of ranks."""

    build: Build
    cells: list[Cell]


@dataclass(frozen=True, kw_only=True)
class Mend:
    """A row that measures what mends this one."""

    id: str
    slug: str
    said: list[Said]
    """What it did on the releases on which this row does not pass; empty where it was not measured there."""


@dataclass(frozen=True, kw_only=True)
class Shows:
    """A quirk that a row shows, with the releases on which this row does."""

    quirk: Quirk
    where: list[tuple[str, str]]
    """Backend and device in words, and ranges of releases."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """All that a page says of its row on one backend and device of a platform."""

    place: Place
    spans: list[Span]
    """What people quote, newest first."""
    world_sizes: list[int]
    history: list[Line]
    mends: list[Mend]
    evidence: list[Evidence]
    observed: list[Said]
    worst: Build | None
    """The newest build on which the row does not pass."""


def pages(site: Site) -> dict[str, bytes]:
    """Return a page for every row that was measured or that a check declares."""
    writer = _Writer(site)
    return {f"rows/{slug(row_id)}.html": writer.page(row_id) for row_id in writer.row_ids}


class _Writer:
    """Writes the pages; holds what all of them look up."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.book = Book(site)
        self.catalogue = site.catalogue
        self.quirks = site.quirks
        self.row_ids = self.book.row_ids
        self.supports = {(item.id, item.backend, item.device): item for item in site.supports}
        self.workarounds = workarounds(site.catalogue)

    def page(self, row_id: str) -> bytes:
        """Return a row's page."""
        entry = self.catalogue.get(row_id)
        patterns = entry.rests_on if entry else []
        return render(
            "row.html",
            f"rows/{slug(row_id)}.html",
            site=self.site,
            title=row_id,
            row_id=row_id,
            slug=slug(row_id),
            family=ids.family(row_id),
            entry=entry,
            ranks=min(entry.world_sizes, default=2) if entry else 2,
            quirks=[self._shows(row_id, quirk) for quirk in self.book.shows.get(row_id, [])],
            mended=[quirk for quirk in self.quirks if quirk.workaround == row_id],
            rests_on=[found for pattern in patterns for found in reference(pattern, self.row_ids)],
            parts=self._parts(row_id),
            requirements=requirements,
            is_plain=is_plain,
        )

    def _shows(self, row_id: str, quirk: Quirk) -> Shows:
        where = []
        for place in self.book.places:
            cells = [cell for found in self.book.cells(row_id, place).values() for cell in found]
            shown = {cell.build.channel for cell in cells if cell.outcome and quirk.is_shown_by(cell.outcome)}
            if shown:
                where.append((place.group.title, ranges(shown, place.channels)))
        return Shows(quirk=quirk, where=where)

    def _parts(self, row_id: str) -> list[Part]:
        mending = self._mending(row_id)
        return [
            self._part(row_id, place, mending)
            for place in self.book.places
            if self.book.world_sizes(row_id, place)
        ]

    def _part(self, row_id: str, place: Place, mending: Sequence[str]) -> Part:
        by_build = self.book.cells(row_id, place)
        cells = [cell for found in by_build.values() for cell in found]
        support = self.supports.get((row_id, place.group.backend, place.group.device))
        return Part(
            place=place,
            spans=list(reversed(support.spans)) if support else [],
            world_sizes=self.book.world_sizes(row_id, place),
            history=[Line(build=build, cells=by_build[build.name]) for build in place.builds],
            mends=self._mends(place, cells, mending),
            evidence=collect(cells),
            observed=by_words(cells, place.channels),
            worst=next((cell.build for cell in cells if _fails(cell)), None),
        )

    def _mending(self, row_id: str) -> list[str]:
        """Return the rows that measure what mends a row: of the same check, and of the quirks that it shows."""
        same = self.workarounds.get(row_id, [])
        quirks = [quirk.workaround for quirk in self.book.shows.get(row_id, []) if quirk.workaround]
        return [other for other in dict.fromkeys([*same, *quirks]) if other in self.book]

    def _mends(self, place: Place, cells: Sequence[Cell], mending: Sequence[str]) -> list[Mend]:
        failing = {cell.build.channel for cell in cells if _fails(cell)}
        if not failing:
            return []
        return [
            Mend(
                id=other, slug=slug(other), said=by_words(self._there(other, place, failing), place.channels)
            )
            for other in mending
        ]

    def _there(self, row_id: str, place: Place, channels: set[str]) -> list[Cell]:
        by_build = self.book.cells(row_id, place)
        return [cell for found in by_build.values() for cell in found if cell.build.channel in channels]


def _fails(cell: Cell) -> bool:
    return cell.status not in {Status.PASS, Status.NOT_RUN, Status.UNKNOWN}


def requirements(build: Build | None) -> str:
    """Return what to install to have a release as it was measured; without one, whatever torch there is."""
    if build is None:
        return "torch"
    variant = build.record.variant
    torch = f"torch=={build.channel}" if build.record.environment.is_stable else f"torch=={variant.torch}"
    return " ".join([torch, *(f"{name}=={version}" for name, version in sorted(variant.packages.items()))])
