"""What every page of the site is made from: the data, the template engine, and where pages lie.

Links are relative, so that the site works from a file and under any prefix. What comes from records is hostile
text: templates escape everything, and nothing here marks text as safe.
"""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2

from canishard import releases
from canishard.catalogue import Entry
from canishard.catalogue.ids import slug
from canishard.facts.claims import Claim
from canishard.facts.quirks import Quirk
from canishard.facts.steadiness import Steadiness
from canishard.facts.support import Support
from canishard.launch.outcome import Status
from canishard.record import Record
from canishard.record.environment import Environment
from canishard.record.unmeasured import Unmeasured
from canishard.releases import Release
from canishard.report import reproduce
from canishard.report.table import MEANINGS, Group, groups

FOLDER = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class Site:
    """All that the pages show."""

    records: Sequence[Record]
    releases: Sequence[Release]
    quirks: Sequence[Quirk]
    catalogue: Mapping[str, Entry]
    """By row id; a row of a record may have none, where its check is gone or is a user's own."""
    claims: Sequence[Claim]
    supports: Sequence[Support]
    unmeasured: Sequence[Unmeasured] = ()
    """What could not be measured, and why."""
    stale: Mapping[str, str] = field(default_factory=dict)
    """By a nightly record's name, the day since which no night gave a verdict."""
    steadiness: Steadiness | None = None
    """What the last runs of one build again came to, where that is known."""

    @functools.cached_property
    def groups(self) -> list[Group]:
        """The tables: a backend on a device of a platform each, columns newest first."""
        return groups(self.records, self.unmeasured)

    @functools.cached_property
    def tables(self) -> list[tuple[Group, int, str]]:
        """Every table's page: group, number of ranks and path, the group with most releases first."""
        return [
            (group, size, f"table/{group_name(group, size)}.html")
            for group in sorted(self.groups, key=lambda group: -len(group.columns))
            for size in world_sizes(group)
        ]

    @functools.cached_property
    def supported(self) -> set[str]:
        """The releases that were not yet two years old when the newest one came."""
        return {release.version for release in releases.supported(self.releases)}

    @property
    def table(self) -> str:
        """The table that the navigation leads to; empty where nothing was measured."""
        return self.tables[0][2] if self.tables else ""


def short_link(url: str) -> str:
    """Return how a link is shown: ``pytorch/pytorch#162338``, else the address without its scheme."""
    found = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+)/(?:issues|pull)/(\d+)", url)
    return f"{found[1]}#{found[2]}" if found else url.partition("://")[2] or url


WORDS = {status: status.value.replace("_", " ") for status in Status}
"""How a status is written."""

_ENGINE = jinja2.Environment(
    loader=jinja2.FileSystemLoader(FOLDER / "templates"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_ENGINE.filters["short_link"] = short_link
_ENGINE.filters["shell"] = shlex.quote
_ENGINE.globals.update(script_name=reproduce.name, run_command=reproduce.command)
_ENGINE.globals.update(MEANINGS=MEANINGS, WORDS=WORDS, Status=Status)


def render(template: str, path: str, *, site: Site, title: str, **values: Any) -> bytes:
    """Return a page from a template; ``path`` is where it lies below the site, for relative links.

    Templates have ``root``, the way from the page to the site's top (``""`` or ``"../"``), for every link, and
    ``site``, for the navigation.
    """
    root = "../" * path.count("/")
    page = _ENGINE.get_template(template)
    return page.render(site=site, root=root, path=path, title=title, **values).encode()


def world_sizes(group: Group) -> list[int]:
    """Return the numbers of ranks with which something of a group was measured."""
    return sorted(
        {cell.world_size for column in group.columns for _, record in column.records for cell in record.cells}
    )


def group_name(group: Group, world_size: int) -> str:
    """Return the stem of a table's page: ``gloo-cpu-2``; the platform is added where it is not the usual one."""
    parts = [group.backend, group.device, str(world_size)]
    if (group.system, group.machine) != ("linux", "x86_64"):
        parts += [group.system, group.machine]
    return "-".join(re.sub(r"[^A-Za-z0-9._]", "_", part) for part in parts)


@functools.cache
def _series(environment: Environment) -> str:
    """Return a record's series without what is usual, another for every other series."""
    name = environment.name.removeprefix("torch-")
    return name.removesuffix("-cp311-linux-x86_64").removesuffix("-gloo-cpu")


def cell_anchor(environment: Environment, world_size: int) -> str:
    """Return the anchor of a cell on its row's page: ``2.8.0-cuda-nodriver-2``, the series and the ranks.

    Backend and device, and Python with the platform, are left out where they are the usual ones. What is usual
    stands here once and for all and is not computed: a permalink stays.
    """
    return f"{_series(environment)}-{world_size}"


def cell_link(environment: Environment, row_id: str, world_size: int) -> str:
    """Return the permalink of a cell, from the site's top."""
    return f"rows/{slug(row_id)}.html#{cell_anchor(environment, world_size)}"
