"""Quirks, the named wrong behaviours of ``matrix/quirks.toml``, and where the records show them.

On which releases a quirk is seen is never written down: it is computed from the records.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from canishard import files
from canishard.catalogue import ids
from canishard.launch.outcome import Outcome, Status
from canishard.record import Record
from canishard.record.environment import channel_key

NOT_MEASURED = frozenset({Status.NOT_RUN, Status.INFRA, Status.UNKNOWN})
"""Statuses that say nothing about torch."""

_Text = Annotated[str, msgspec.Meta(min_length=1)]


class Quirk(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A documented wrong behaviour: which cells show it, and what mends it."""

    name: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
    title: _Text
    what: _Text
    """What happens, and how one notices."""
    cases: Annotated[list[_Text], msgspec.Meta(min_length=1)]
    """Patterns of the ids whose cells show it."""
    shows: Annotated[list[Status], msgspec.Meta(min_length=1)]
    """The statuses by which a cell shows it."""
    deviation: str = ""
    """A regular expression that the cell's deviation must hold; empty for any."""
    message: str = ""
    """A regular expression that the cell's message must hold; empty for any."""
    workaround: str = ""
    """The id of the case that measures what mends it; empty where there is none."""
    mends: str = ""
    """What to do about it, in words."""
    links: list[_Text] = []

    def covers(self, case_id: str) -> bool:
        """Tell whether a case is one of those that can show the quirk."""
        return any(ids.matches(pattern, case_id) for pattern in self.cases)

    def is_shown_by(self, outcome: Outcome) -> bool:
        """Tell whether a cell shows the quirk."""
        return (
            self.covers(outcome.id)
            and outcome.status in self.shows
            and re.search(self.deviation, outcome.deviation) is not None
            and re.search(self.message, outcome.message) is not None
        )


class Place(msgspec.Struct, kw_only=True, frozen=True):
    """Where a quirk was looked for: one backend on one device, releases oldest first."""

    backend: str
    device: str
    measured: list[str]
    """Releases on which a case that can show the quirk was measured."""
    shown: dict[str, list[str]]
    """Releases on which a cell shows it, with the flavours of the build where it does."""
    absent: dict[str, list[str]]
    """Releases on which it was measured and not shown, with the flavours where it is not."""
    workaround: dict[str, list[Status]]
    """Releases on which the workaround's case was measured, with its statuses."""

    @property
    def mended(self) -> list[str]:
        """Return the releases that show the quirk and on which the workaround passes everywhere."""
        return [release for release in self.shown if self.workaround.get(release) == [Status.PASS]]


def load(path: Path | None = None) -> list[Quirk]:
    """Read the file, in its order; ConfigurationError lists every fault with the path to it."""
    path = path or files.matrix_dir() / "quirks.toml"
    raw = files.read_toml(path)
    faults = files.unknown_keys(raw, ["quirk"])
    quirks = files.entries(raw, "quirk", Quirk, faults)
    first: dict[str, str] = {}
    for where, quirk in quirks.items():
        if first.setdefault(quirk.name, where) != where:
            faults.append(f"{where}.name: {quirk.name} is {first[quirk.name]} already")
        if Status.PASS in quirk.shows or NOT_MEASURED & set(quirk.shows):
            allowed = [status.value for status in Status if status not in {Status.PASS, *NOT_MEASURED}]
            faults.append(f"{where}.shows: allowed: {', '.join(allowed)}")
        faults.extend(files.pattern_faults(quirk.deviation, f"{where}.deviation"))
        faults.extend(files.pattern_faults(quirk.message, f"{where}.message"))
    files.raise_faults(path, faults)
    return list(quirks.values())


def unmatched(quirks: Iterable[Quirk], case_ids: Sequence[str]) -> list[str]:
    """Return, as ``name: pattern``, every pattern and workaround that stands for none of the cases."""
    return [
        f"{quirk.name}: {pattern}"
        for quirk in quirks
        for pattern in [*quirk.cases, *([quirk.workaround] if quirk.workaround else [])]
        if not ids.matching([pattern], case_ids)
    ]


def places(quirk: Quirk, records: Iterable[Record]) -> list[Place]:
    """Return where a quirk was looked for, by backend and device."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in sorted(records, key=lambda item: (channel_key(item.environment.channel), item.name)):
        groups.setdefault((record.environment.backend, record.environment.device), []).append(record)
    found = (_place(quirk, key, groups[key]) for key in sorted(groups))
    return [place for place in found if place.measured]


def _place(quirk: Quirk, key: tuple[str, str], records: Sequence[Record]) -> Place:
    measured: list[str] = []
    shown: dict[str, list[str]] = {}
    absent: dict[str, list[str]] = {}
    workaround: dict[str, list[Status]] = {}
    for record in records:
        release, flavour = record.environment.channel, record.environment.flavour
        cells = [cell for cell in record.cells if quirk.covers(cell.id) and cell.status not in NOT_MEASURED]
        if not cells:
            continue
        if release not in measured:
            measured.append(release)
        side = shown if any(quirk.is_shown_by(cell) for cell in cells) else absent
        side.setdefault(release, [])
        if flavour not in side[release]:
            side[release].append(flavour)
        statuses = {cell.status for cell in record.cells if cell.id == quirk.workaround} - NOT_MEASURED
        if statuses:
            workaround[release] = sorted({*statuses, *workaround.get(release, [])})
    return Place(
        backend=key[0], device=key[1], measured=measured, shown=shown, absent=absent, workaround=workaround
    )
