"""What changed: each release against the one before, and the data by which a script compares any two."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from canishard.catalogue.ids import slug
from canishard.facts.compare import CellChange, Change, changes, compare, counts
from canishard.launch.outcome import Outcome, Status
from canishard.record.environment import Environment
from canishard.report.changes import MEANINGS, WORDS, alike
from canishard.report.site.base import Site, render
from canishard.report.site.cells import Build, Cell, Place, places


@dataclass(frozen=True, kw_only=True)
class Moved:
    """A row that changed alike with several numbers of ranks."""

    id: str
    slug: str
    ranks: str
    old: Cell
    new: Cell
    other_check: bool
    """Whether the check itself changed between the two measurements."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """The rows that changed in one way."""

    change: Change
    rows: list[Moved]


@dataclass(frozen=True, kw_only=True)
class Step:
    """A build of a release against one of the release before."""

    old: Build
    new: Build
    counts: dict[Change, int]
    """In cells."""
    kinds: list[Kind]

    @property
    def anchor(self) -> str:
        """Return the step's anchor on the page."""
        return f"to-{self.new.name}-from-{self.old.name}"

    @property
    def same_build(self) -> bool:
        """Tell whether both are the same build, so that what changed is due to the release."""
        return self.old.record.environment.flavour == self.new.record.environment.flavour


def pages(site: Site) -> dict[str, bytes]:
    """Return the page of what changed, the one that compares two releases, and its data."""
    found = places(site)
    tables = [(place, [_step(*pair) for pair in pairs(place)]) for place in found]
    return {
        "changes.html": render(
            "changes.html",
            "changes.html",
            site=site,
            title="What changed from release to release",
            tables=tables,
            words={
                change: (WORDS[change], meaning)
                for change, meaning in MEANINGS.items()
                if change is not Change.SAME
            },
        ),
        "compare.html": render(
            "compare.html", "compare.html", site=site, title="Any two releases side by side"
        ),
        "compare-data.js": script(found),
    }


# ---- each release against the one before ---------------------------------------------------------


def pairs(place: Place) -> list[tuple[Build, Build]]:
    """Return what is compared, newest first: each stable release and the one before, others and the newest.

    Where several builds of a release were measured, each is compared with the same build, and only where
    there is none of it, another.
    """
    columns: dict[str, list[Build]] = {}
    for build in reversed(place.builds):
        columns.setdefault(build.channel, []).insert(0, build)
    stable = [builds for builds in columns.values() if builds[0].record.environment.is_stable]
    moving = [builds for builds in columns.values() if not builds[0].record.environment.is_stable]
    steps = [*pairwise(stable), *((stable[-1], builds) for builds in moving if stable)]
    return [pair for olds, news in reversed(steps) for pair in alike(olds, news, _environment)]


def _environment(build: Build) -> Environment:
    return build.record.environment


def _step(old: Build, new: Build) -> Step:
    found = changes(old.record, new.record)
    kinds = [Kind(change=change, rows=_rows(old, new, found, change)) for change in MEANINGS]
    return Step(old=old, new=new, counts=counts(found), kinds=[kind for kind in kinds if kind.rows])


def _rows(old: Build, new: Build, found: Sequence[CellChange], change: Change) -> list[Moved]:
    alike: dict[tuple[str, str, str], list[CellChange]] = {}
    for item in found:
        if item.change is change:
            words = (_cell(old, item, item.old).words, _cell(new, item, item.new).words)
            alike.setdefault((item.id, *words), []).append(item)
    return [
        Moved(
            id=row_id,
            slug=slug(row_id),
            ranks=", ".join(str(item.world_size) for item in items),
            old=_cell(old, items[0], items[0].old),
            new=_cell(new, items[0], items[0].new),
            other_check=any(item.old and item.new and item.old.digest != item.new.digest for item in items),
        )
        for (row_id, *_), items in alike.items()
    ]


def _cell(build: Build, item: CellChange, outcome: Outcome | None) -> Cell:
    return Cell(build=build, world_size=item.world_size, outcome=outcome)


# ---- any two -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Side:
    """What ``compare`` looks at."""

    status: Status
    deviation: str


def lookup() -> list[list[list[int]]]:
    """Return, by old and new status, which change it is where the deviations are equal, and where they are not.

    Statuses are numbers in the order of ``Status``, one more is for a row that is absent; changes are
    numbers in the order of ``MEANINGS``.
    """
    order = list(MEANINGS)
    sides: list[Status | None] = [*Status, None]

    def number(old: Status | None, new: Status | None, deviation: str) -> int:
        before = _Side(status=old, deviation="") if old else None
        after = _Side(status=new, deviation=deviation) if new else None
        return order.index(compare(before, after))

    return [[[number(old, new, deviation) for deviation in ("", "other")] for new in sides] for old in sides]


def script(found: Sequence[Place]) -> bytes:
    """Return the data of the page that compares two releases, as a script that sets one global name."""
    states: dict[tuple[Status, str], int] = {}
    tables = [_table(place, states) for place in found]
    data = {
        "changes": [[change.value, WORDS[change], meaning] for change, meaning in MEANINGS.items()],
        "statuses": [status.value for status in Status],
        "lookup": lookup(),
        "states": [[list(Status).index(status), deviation] for status, deviation in states],
        "groups": tables,
    }
    text = json.dumps(data, separators=(",", ":"))  # ASCII only, so no character can end a line of script.
    return f"globalThis.canishardCompare = {text};\n".encode()


def _table(place: Place, states: dict[tuple[Status, str], int]) -> dict[str, Any]:
    """Return a place's releases and cells; a cell is the number of its state, -1 where the row is absent."""
    outcomes = [{outcome.key: outcome for outcome in build.record.cells} for build in place.builds]
    keys = sorted({key for cells in outcomes for key in cells})

    def state(outcome: Outcome | None) -> int:
        if outcome is None:
            return -1
        return states.setdefault((outcome.status, outcome.deviation), len(states))

    return {
        "key": place.key,
        "title": place.group.title,
        "builds": [[_build_key(build, place), _build_title(build), _anchor(build)] for build in place.builds],
        "rows": [[row_id, slug(row_id), world_size] for row_id, world_size in keys],
        "cells": [[state(cells.get(key)) for key in keys] for cells in outcomes],
    }


def _anchor(build: Build) -> str:
    """Return a cell's anchor without the number of ranks."""
    return Cell(build=build, world_size=1, outcome=None).anchor.removesuffix("-1")


def _build_key(build: Build, place: Place) -> str:
    """Return what names a build in a link: the release, with the build where several were measured."""
    alone = sum(other.channel == build.channel for other in place.builds) == 1
    return build.channel if alone else f"{build.channel}-{build.label.replace(' ', '-')}"


def _build_title(build: Build) -> str:
    return f"{build.channel} ({build.words})"
