"""The site: static pages that need no network, and no script to be read.

All of it follows from the values of ``Site`` alone.
"""

from __future__ import annotations

from canishard.catalogue import Entry
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
    """Return the script of each check that shows by itself what was observed of its rows."""
    seen = reproduce.observed(site.groups)
    checks: dict[str, list[Entry]] = {}
    for entry in site.catalogue.values():
        checks.setdefault(reproduce.name(entry), []).append(entry)
    return {
        f"reproduce/{name}": reproduce.script(rows, seen.get(rows[0].id, [])).encode()
        for name, rows in checks.items()
    }


def _static() -> dict[str, bytes]:
    return {f"static/{path.name}": path.read_bytes() for path in sorted((FOLDER / "static").iterdir())}
