"""The site: static pages that need no network, and no script to be read.

All of it follows from the values of ``Site`` alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from canishard.catalogue.ids import slug
from canishard.launch.outcome import Outcome
from canishard.record import Record
from canishard.report import reproduce
from canishard.report.site import (
    changes,
    claims_page,
    index,
    method,
    quirk_pages,
    rows,
    search,
    table,
)
from canishard.report.site.base import FOLDER, Site

__all__ = ["Site", "files"]


def files(site: Site) -> dict[str, bytes]:
    """Return every file of the site, by its path below it."""
    modules = (index, table, search, rows, quirk_pages, changes, claims_page, method)
    pages = {path: content for module in modules for path, content in module.pages(site).items()}
    return pages | _scripts(site) | _static()


def _scripts(site: Site) -> dict[str, bytes]:
    """Return the script of each row that shows by itself what was observed."""
    seen: dict[str, list[tuple[str, Outcome]]] = {}
    for place, record in _places(site):
        for outcome in record.cells:
            seen.setdefault(outcome.id, []).append((place, outcome))
    return {
        f"reproduce/{slug(row_id)}.py": reproduce.script(entry, seen.get(row_id, [])).encode()
        for row_id, entry in site.catalogue.items()
    }


def _places(site: Site) -> Iterator[tuple[str, Record]]:
    """Yield every record with where it was measured: the release, and the build and the table where it takes them."""
    for group in site.groups:
        where = f" ({group.title})" if len(site.groups) > 1 else ""
        for column in group.columns:
            for label, record in column.records:
                build = f" {label}" if len(column.records) > 1 else ""
                yield f"{column.channel}{build}{where}", record


def _static() -> dict[str, bytes]:
    return {f"static/{path.name}": path.read_bytes() for path in sorted((FOLDER / "static").iterdir())}
