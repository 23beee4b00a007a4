"""What torch's documentation says beside what was measured: where they disagree, both ways, first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from canishard.facts.claims import Claim, Finding, Line, Stated, Verdict, lines, verdicts
from canishard.facts.support import ranges
from canishard.launch.outcome import Status
from canishard.record.environment import channel_key
from canishard.report.site.base import Site, cell_link, render

PATH = "claims.html"
SHOWN = 3
"""So many deviations of a line are named; rows differ in little else than the name of an operation."""


@dataclass(frozen=True, kw_only=True)
class Page:
    """What a page says, on the releases that were measured."""

    says: str
    releases: str
    """As ranges."""
    minor: str
    """The newest of them whose page says so: ``2.15``; empty where no release is known that it speaks of."""
    address: str


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A line of what was measured."""

    finding: Finding
    status: Status
    deviations: str
    releases: str
    rows: list[tuple[str, str]]
    """Each row, with the link to a cell that says this."""


@dataclass(frozen=True, kw_only=True)
class Story:
    """A statement on one backend and device, or a function's cells in the tables of several pages."""

    title: str
    place: str
    verdicts: list[Verdict]
    pages: list[Page]
    measured: list[Measured]

    def has(self, finding: Finding, stated: Stated | None = None) -> bool:
        """Tell whether a release has this finding, where the page says this."""
        return any(
            verdict.finding is finding and stated in {None, verdict.claim.claims} for verdict in self.verdicts
        )


@dataclass(frozen=True, kw_only=True)
class Unmeasured:
    """What pages say of a place of which there is no record, functions that share it together."""

    place: str
    says: str
    page: Page


def pages(site: Site) -> dict[str, bytes]:
    """Return the page."""
    found = verdicts(site.claims, site.records)
    stories = [_story(group) for group in _groups(found)]
    spoken = {verdict.claim.name for verdict in found}
    sections = _sections(stories)
    page = render(
        "claims.html",
        PATH,
        site=site,
        title="What the documentation says, and what was measured",
        sections=[(head, some) for head, some in sections if some],
        counts=[(head, len(some)) for head, some in sections],
        open=[story for story in stories if not story.measured],
        unmeasured=_unmeasured([claim for claim in site.claims if claim.name not in spoken], site),
    )
    return {PATH: page}


def _sections(stories: Iterable[Story]) -> list[tuple[str, list[Story]]]:
    """Return stories under their heads, each under the first that fits, the worst first."""
    sections: dict[str, list[Story]] = {
        "Said to work, and does not": [],
        "Said not to be supported, and works": [],
        "Said not to be supported: no error, but a wrong value": [],
        "Agree": [],
    }
    works, supported, silent, agree = sections
    for story in stories:
        if story.has(Finding.CONTRADICTED, Stated.WORKS):
            sections[works].append(story)
        elif story.has(Finding.CONTRADICTED):
            sections[supported].append(story)
        elif story.has(Finding.SILENT):
            sections[silent].append(story)
        elif story.measured:
            sections[agree].append(story)
    return list(sections.items())


def _groups(found: Iterable[Verdict]) -> Iterator[list[Verdict]]:
    """Return the verdicts that are one story, in the order of the claims."""
    groups: dict[tuple[str, str, str], list[Verdict]] = {}
    for verdict in found:
        claim = verdict.claim
        key = (claim.function or f"claim {claim.name}", verdict.backend, verdict.device)
        groups.setdefault(key, []).append(verdict)
    yield from groups.values()


def _story(group: Sequence[Verdict]) -> Story:
    claim = group[0].claim
    place = f"{group[0].backend} on {group[0].device}"
    links = {
        (seen.outcome.id, seen.outcome.status, verdict.release): cell_link(
            seen.record.environment, seen.outcome.id, seen.outcome.world_size
        )
        for verdict in group
        for seen in reversed(verdict.cells)
    }
    return Story(
        title=f"The table of backends: {claim.function}" if claim.function else claim.says,
        place=place,
        verdicts=list(group),
        pages=_pages(group),
        measured=[_measured(line, links) for line in lines(group)],
    )


def _pages(group: Sequence[Verdict]) -> list[Page]:
    """Return what the pages say over the releases, those that say the same together."""
    ordered = sorted(group, key=lambda verdict: channel_key(verdict.release))
    measured = [verdict.release for verdict in ordered]
    said: dict[str, list[Verdict]] = {}
    for verdict in ordered:
        said.setdefault(verdict.claim.says, []).append(verdict)
    return [
        _page(some[-1].claim, some[-1].release, ranges([verdict.release for verdict in some], measured))
        for some in said.values()
    ]


def _page(claim: Claim, release: str, releases: str) -> Page:
    minor = ".".join(release.split(".")[:2])
    return Page(says=claim.says, releases=releases, minor=minor, address=claim.page_of(release))


def _measured(line: Line, links: dict[tuple[str, Status, str], str]) -> Measured:
    named = [words.partition(" (")[2].removesuffix(")") for words in line.how]
    deviations = [words for words in named if words]
    more = f", and {len(deviations) - SHOWN} more" if len(deviations) > SHOWN else ""
    return Measured(
        finding=line.finding,
        status=line.status,
        deviations=", ".join(deviations[:SHOWN]) + more,
        releases=line.where,
        rows=[(row, links[row, line.status, line.releases[-1]]) for row in line.rows],
    )


# ---- what no record is about ---------------------------------------------------------------------


def _unmeasured(claims: Iterable[Claim], site: Site) -> list[Unmeasured]:
    known = sorted((release.version for release in site.releases), key=channel_key)
    groups: dict[tuple[str, str, str, Stated], list[Claim]] = {}
    for claim in claims:
        says = "" if claim.function else claim.says
        groups.setdefault((", ".join(claim.on), claim.releases, says, claim.claims), []).append(claim)
    made = []
    for (place, specifier, _, stated), some in groups.items():
        claim = some[0]
        backend, _, device = claim.on[0].partition("/")
        newest = next(
            (version for version in reversed(known) if claim.speaks_of(version, backend, device)), ""
        )
        functions = ", ".join(one.function for one in some)
        available = "available" if stated is Stated.WORKS else "not available"
        made.append(
            Unmeasured(
                place=place,
                says=f"{available}: {functions}" if claim.function else claim.says,
                page=_page(claim, newest, specifier),
            )
        )
    return sorted(made, key=lambda item: item.place)
