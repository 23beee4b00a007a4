"""The first page: what is silently wrong and what mends it, how much passes on each release, and the way to the rest."""

from __future__ import annotations

from dataclasses import dataclass

from canishard.launch.outcome import Status
from canishard.report.site.base import Site, render
from canishard.report.site.quirk_pages import Told, told
from canishard.report.site.table import Head, Tally, by_family, heads, tally
from canishard.report.table import Group, rows

PATH = "index.html"


@dataclass(frozen=True, kw_only=True)
class Summary:
    """How much passes in a group, by family and release."""

    group: Group
    tables: list[tuple[int, str]]
    """Its tables: the number of ranks, and the page."""
    heads: list[Head]
    families: list[tuple[str, list[Tally]]]
    """All numbers of ranks together."""


def pages(site: Site) -> dict[str, bytes]:
    """Return the first page."""
    stories = [told(quirk, site) for quirk in site.quirks]
    silent = [story for story in stories if is_silent(story)]
    page = render(
        "index.html",
        PATH,
        site=site,
        title="What works in torch.distributed",
        # What can be mended comes first: it is what people can act on.
        silent=sorted(silent, key=lambda story: not story.quirk.workaround),
        loud=[story for story in stories if story not in silent],
        summaries=[_summary(site, group) for group in site.groups],
    )
    return {PATH: page}


def is_silent(story: Told) -> bool:
    """Tell whether a quirk gives wrong values without an error."""
    return Status.WRONG in story.quirk.shows


def _summary(site: Site, group: Group) -> Summary:
    columns = range(len(group.columns))
    return Summary(
        group=group,
        tables=[(size, path) for other, size, path in site.tables if other is group],
        heads=heads(site, group),
        families=[
            (name, [tally(row.cells[index] for row in own for _ in row.world_sizes) for index in columns])
            for name, own in by_family(rows(group)).items()
        ],
    )
