"""A page a quirk: what happens, where, how each row shows it, what mends it and where that was measured to work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from canishard.catalogue.ids import slug
from canishard.facts import quirks as quirks_file
from canishard.facts.quirks import Quirk
from canishard.facts.support import ranges
from canishard.launch.outcome import Status
from canishard.report.site.base import Site, render
from canishard.report.site.cells import BUILDS, Book, Cell, Place


@dataclass(frozen=True, kw_only=True)
class Mended:
    """What the workaround's row did on releases that show the quirk."""

    statuses: list[Status]
    releases: str
    """As ranges: ``2.4.1, 2.6.0 to 2.8.0``."""


@dataclass(frozen=True, kw_only=True)
class Where:
    """Where a quirk was looked for: a backend on a device; releases are ranges over the measured ones."""

    title: str
    shown: str
    """Empty where no release shows it."""
    builds: str
    """Which builds show it, where those of one release differ."""
    clean: str
    mended: list[Mended]


@dataclass(frozen=True, kw_only=True)
class Told:
    """A quirk with what the records say of it."""

    quirk: Quirk
    wheres: list[Where]


@dataclass(frozen=True, kw_only=True)
class Mark:
    """What cells of one row and release have in common."""

    status: Status
    shows: bool
    """Whether they show the quirk."""
    where: str
    """Which builds and numbers of ranks; empty where all of them are the same."""
    anchor: str
    """The first one's."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """A row beside the releases."""

    id: str
    slug: str
    marks: list[list[Mark]]


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The rows that can show a quirk, in one place."""

    place: Place
    lines: list[Line]
    others: list[str]
    """Rows that can show it and do not here."""


def pages(site: Site) -> dict[str, bytes]:
    """Return the list of quirks and a page for each."""
    book = Book(site)
    stories = [told(quirk, site) for quirk in site.quirks]
    made = {
        "quirks/index.html": render(
            "quirks.html",
            "quirks/index.html",
            site=site,
            title="Quirks: what is wrong, where, and what mends it",
            stories=sorted(stories, key=lambda story: Status.WRONG not in story.quirk.shows),
        )
    }
    for story in stories:
        path = f"quirks/{story.quirk.name}.html"
        made[path] = _page(story, path, book)
    return made


def _page(story: Told, path: str, book: Book) -> bytes:
    return render(
        "quirk.html",
        path,
        site=book.site,
        title=story.quirk.title,
        told=story,
        grids=_grids(story.quirk, book),
        workaround=slug(story.quirk.workaround) if story.quirk.workaround in book else "",
        rows=[
            book.site.catalogue[row_id]
            for row_id in book.shown_by(story.quirk)
            if row_id in book.site.catalogue
        ],
        slug=slug,
    )


def told(quirk: Quirk, site: Site) -> Told:
    """Return a quirk with where the records show it."""
    return Told(quirk=quirk, wheres=[_where(place) for place in quirks_file.places(quirk, site.records)])


def _where(place: quirks_file.Place) -> Where:
    flavours = {
        flavour for release in place.shown if release in place.absent for flavour in place.shown[release]
    }
    clean = [release for release in place.measured if release not in place.shown]
    return Where(
        title=f"{place.backend} on {place.device}",
        shown=ranges(place.shown, place.measured),
        builds=", ".join(BUILDS[flavour] for flavour in sorted(flavours)),
        clean=ranges(clean, place.measured),
        mended=_mended(place),
    )


def _mended(place: quirks_file.Place) -> list[Mended]:
    found: dict[tuple[Status, ...], list[str]] = {}
    for release in place.shown:
        statuses = place.workaround.get(release, [Status.UNKNOWN])
        found.setdefault(tuple(statuses), []).append(release)
    return [
        Mended(statuses=list(statuses), releases=ranges(found[statuses], place.measured))
        for statuses in sorted(found, key=lambda statuses: statuses != (Status.PASS,))
    ]


# ---- the rows beside the releases ----------------------------------------------------------------


def _grids(quirk: Quirk, book: Book) -> list[Grid]:
    covered = book.covered_by(quirk)
    grids = []
    for place in book.places:
        lines = [_line(quirk, row_id, book, place) for row_id in covered if book.world_sizes(row_id, place)]
        if lines:
            shown = [line for line in lines if any(mark.shows for marks in line.marks for mark in marks)]
            others = [line.id for line in lines if line not in shown]
            grids.append(Grid(place=place, lines=shown, others=others))
    return grids


def _line(quirk: Quirk, row_id: str, book: Book, place: Place) -> Line:
    by_build = book.cells(row_id, place)
    columns = [
        [cell for build in builds for cell in by_build[build.name]]
        for _, builds in groupby(place.builds, key=lambda build: build.channel)
    ]
    return Line(id=row_id, slug=slug(row_id), marks=[_marks(quirk, cells) for cells in columns])


def _marks(quirk: Quirk, cells: Sequence[Cell]) -> list[Mark]:
    found: dict[tuple[Status, bool], list[Cell]] = {}
    for cell in cells:
        shows = cell.outcome is not None and quirk.is_shown_by(cell.outcome)
        found.setdefault((cell.status, shows), []).append(cell)
    return [
        Mark(
            status=status,
            shows=shows,
            where=_apart(alike, cells) if len(found) > 1 else "",
            anchor=alike[0].anchor,
        )
        for (status, shows), alike in found.items()
    ]


def _apart(some: Sequence[Cell], cells: Sequence[Cell]) -> str:
    """Say what sets some cells of a row and release apart: the build, where there are several, and the ranks."""
    several = len({cell.build.name for cell in cells}) > 1
    parts = []
    for label, alike in groupby(some, key=lambda cell: cell.build.label):
        ranks = f"{', '.join(str(cell.world_size) for cell in alike)} ranks"
        parts.append(f"{label} {ranks}" if several else ranks)
    return "; ".join(parts)
