"""What a table shows: columns, rows and cells of records, with their words and symbols."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from canishard.launch.outcome import Outcome, Status
from canishard.record import Record
from canishard.record.environment import Environment, channel_key
from canishard.record.unmeasured import Unmeasured

SYMBOLS = {
    Status.PASS: "✅",
    Status.WRONG: "❌",
    Status.ERROR: "⚠️",
    Status.UNSUPPORTED: "🚫",
    Status.MISSING: "➖",  # noqa: RUF001 - the emoji is meant
    Status.HANG: "⏳",
    Status.CRASH: "💥",
    Status.FLAKY: "🎲",
    Status.NOT_RUN: "⬜",
    Status.INFRA: "🔧",
    Status.UNKNOWN: "❔",
}

MEANINGS = {
    Status.PASS: "every rank agrees with the value computed without torch.distributed",
    Status.WRONG: "no error, and a value differs: silently wrong; the note says how",
    Status.ERROR: "a rank raised an error",
    Status.UNSUPPORTED: "refused clearly, on every rank",
    Status.MISSING: "the name or the argument does not exist in this release",
    Status.HANG: "no rank failed, and the deadline passed",
    Status.CRASH: "a rank died by a signal or an unexpected exit code",
    Status.FLAKY: "attempts in fresh processes disagree",
    Status.NOT_RUN: "cannot be run on the machine that measured; the note says why",
    Status.UNKNOWN: "not in the record: neither a pass nor a failure",
}
"""The legend; ``infra`` is never stored, so no table shows it."""

UNNAMED = "no known deviation"
"""What a deviation without a name is called; the cell's note then says what was got."""

FLAVOURS = {"cpu": "cpu", "cuda": "cuda", "cuda-nodriver": "nodrv", "rocm": "rocm"}
"""How a column's head names the build."""


class Column(msgspec.Struct, kw_only=True, frozen=True):
    """One channel on a backend, device and platform: the records of each build, by their label."""

    channel: str
    records: list[tuple[str, Record]]
    """Empty where it could not be measured."""
    reason: str = ""
    """Why not, and when that was seen; empty where there are records."""


class Group(msgspec.Struct, kw_only=True, frozen=True):
    """What one table can show: a backend on a device of a platform, columns newest first."""

    backend: str
    device: str
    system: str
    machine: str
    columns: list[Column]

    @property
    def measured(self) -> list[Column]:
        """Return the columns of which there are records."""
        return [column for column in self.columns if column.records]

    @property
    def title(self) -> str:
        """Return what is common to all columns, in words."""
        return f"{self.backend} on {self.device}, {self.system} {self.machine}"


class Shown(msgspec.Struct, kw_only=True, frozen=True):
    """What one build shows in a cell."""

    labels: list[str]
    """The builds that show the same; empty where all of the column do."""
    status: Status
    notes: list[str]


class Row(msgspec.Struct, kw_only=True, frozen=True):
    """A case at one or more world sizes that show the same in every column."""

    id: str
    world_sizes: list[int]
    cells: list[list[Shown]]


def _label(environment: Environment, others: Sequence[Environment]) -> str:
    """Return the build's name, with Python's version where the column has that build twice."""
    label = FLAVOURS[environment.flavour]
    alike = [other for other in others if other.flavour == environment.flavour]
    return f"{label} py{environment.python}" if len(alike) > 1 else label


def groups(records: Iterable[Record], unmeasured: Iterable[Unmeasured] = ()) -> list[Group]:
    """Sort records into tables, and their columns newest first; what is ``unmeasured`` is a column without records."""
    found: dict[tuple[str, str, str, str], dict[str, list[Record]]] = {}
    for record in sorted(records, key=lambda item: item.name):
        where = record.environment
        key = (where.backend, where.device, where.system, where.machine)
        found.setdefault(key, {}).setdefault(where.channel, []).append(record)
    entries = list(unmeasured)
    tables = []
    for key in sorted(found):
        backend, device, system, machine = key
        columns = [_column(channel, own) for channel, own in found[key].items()]
        reasons: dict[str, list[str]] = {}
        for entry in entries:
            if (entry.backend, entry.device) == (backend, device) and entry.release not in found[key]:
                reasons.setdefault(entry.release, []).append(
                    f"{entry.reason} (Python {entry.python}, {entry.day})"
                )
        columns += [Column(channel=one, records=[], reason="; ".join(said)) for one, said in reasons.items()]
        columns.sort(key=lambda column: channel_key(column.channel), reverse=True)
        tables.append(Group(backend=backend, device=device, system=system, machine=machine, columns=columns))
    return tables


def _column(channel: str, records: Sequence[Record]) -> Column:
    environments = [record.environment for record in records]
    return Column(
        channel=channel, records=[(_label(record.environment, environments), record) for record in records]
    )


def _note(outcome: Outcome | None) -> str:
    """Return what is said beneath the table about a cell; empty for a plain pass."""
    if outcome is None:
        return ""
    if outcome.status is Status.PASS:
        names = [f"as {', '.join(outcome.names)}"] if outcome.names else []
        return "; ".join([*names, *outcome.notes])
    if UNNAMED in outcome.deviation:
        return f"{outcome.deviation}: {outcome.message}"
    return outcome.deviation or outcome.message


def _cell(outcomes: Sequence[tuple[str, Outcome | None]]) -> list[Shown]:
    """Merge what the builds of a column show: one entry where they agree, one a status where they do not."""
    by_status: dict[Status, list[tuple[str, str]]] = {}
    for label, outcome in outcomes:
        status = outcome.status if outcome else Status.UNKNOWN
        by_status.setdefault(status, []).append((label, _note(outcome)))
    return [
        Shown(
            labels=[label for label, _ in said] if len(by_status) > 1 else [],
            status=status,
            notes=list(dict.fromkeys(note for _, note in said if note)),
        )
        for status, said in by_status.items()
    ]


def rows(group: Group, case_ids: Iterable[str] | None = None) -> list[Row]:
    """Return a group's rows by id; what is silently wrong somewhere first, what passes everywhere last."""
    wanted = None if case_ids is None else set(case_ids)
    cells = {
        record.name: {outcome.key: outcome for outcome in record.cells}
        for column in group.columns
        for _, record in column.records
    }
    keys = sorted({key for found in cells.values() for key in found if wanted is None or key[0] in wanted})
    made: list[Row] = []
    for case_id, world_size in keys:
        shown = [
            _cell(
                [(label, cells[record.name].get((case_id, world_size))) for label, record in column.records]
            )
            or [Shown(labels=[], status=Status.UNKNOWN, notes=[])]
            for column in group.columns
        ]
        if made and made[-1].id == case_id and made[-1].cells == shown:
            made[-1].world_sizes.append(world_size)
        else:
            made.append(Row(id=case_id, world_sizes=[world_size], cells=shown))
    measured = [bool(column.records) for column in group.columns]
    return sorted(made, key=lambda row: _severity(row, measured))


def _severity(row: Row, measured: Sequence[bool]) -> tuple[int, str, int]:
    """Return what a row is sorted by; ``measured`` tells of each column whether it says anything."""
    statuses = {
        shown.status for cell, counts in zip(row.cells, measured, strict=True) if counts for shown in cell
    }
    rank = 0 if Status.WRONG in statuses else 2 if statuses == {Status.PASS} else 1
    return rank, row.id, row.world_sizes[0]
