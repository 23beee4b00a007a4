"""A cell and what is known beyond it: an outcome taken apart for the two files of a record, and put together again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from canishard.catalogue import ids
from canishard.launch.outcome import Outcome, Status
from canishard.record import pools
from canishard.record.contents import fail
from canishard.record.pools import Pools, Try

EVIDENCE_SUFFIX = ".evidence.json"

CaseId = Annotated[str, msgspec.Meta(pattern=ids.SAFE)]
WorldSize = Annotated[int, msgspec.Meta(ge=1)]
SCHEMA = 2
"""The number of the evidence's format; a reader refuses every other."""


class Cell(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is compared of one case."""

    id: CaseId
    world_size: WorldSize
    digest: str
    """Of what decides the cell's meaning: the check's source and what it uses of canishard."""
    status: Status
    deviation: str = ""
    """How the value is wrong, for ``wrong``."""
    message: str = ""
    """The first line of what went wrong, normalised, at most 300 characters."""
    names: list[str] = []
    """Old names under which a needed name was found."""


class EvidenceCell(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is known beyond the cell."""

    id: CaseId
    world_size: WorldSize
    notes: list[str] = []
    """Remarks that do not change the status."""
    measurements: dict[str, float | str | None] = {}
    attempts: list[Try] = []
    """In order."""


class EvidenceFile(Pools, kw_only=True, forbid_unknown_fields=True):
    """The evidence for one environment's cases: the file beside the record's."""

    schema: int
    environment: str
    """The name of the record that this belongs to."""
    cells: list[EvidenceCell]


def cell(outcome: Outcome) -> Cell:
    """Return what is compared of an outcome."""
    return Cell(
        id=outcome.id,
        world_size=outcome.world_size,
        digest=outcome.digest,
        status=outcome.status,
        deviation=outcome.deviation,
        message=outcome.message,
        names=outcome.names,
    )


def evidence_path(path: Path) -> Path:
    """Return where the evidence of a record's file is."""
    return path.with_name(path.name.removesuffix(".json") + EVIDENCE_SUFFIX)


def has_evidence(outcome: Outcome) -> bool:
    """Tell whether more is known of an outcome than its cell says."""
    return outcome.status is not Status.PASS or bool(outcome.notes or outcome.measurements)


def evidence_of(outcome: Outcome, into: Pools) -> EvidenceCell:
    """Return an outcome's evidence, the most of it moved into the pools; a pass keeps notes and numbers only."""
    attempts = [] if outcome.status is Status.PASS else outcome.attempts
    return EvidenceCell(
        id=outcome.id,
        world_size=outcome.world_size,
        notes=outcome.notes,
        measurements=outcome.measurements,
        attempts=[pools.put(attempt, into) for attempt in attempts],
    )


def outcome_of(stored: Cell, found: EvidenceCell | None, rest: Pools, name: str) -> Outcome:
    """Put an outcome together again from its cell and its evidence; ``name`` is that of the evidence's file."""
    found = found or EvidenceCell(id=stored.id, world_size=stored.world_size)
    try:
        attempts = [pools.attempt_of(tried, rest) for tried in found.attempts]
    except pools.DanglingError as error:
        who = f"{stored.id} at world size {stored.world_size}"
        fail(name, error.pool, f"{error.key}, which {who} refers to, is missing")
    return Outcome(
        id=stored.id,
        world_size=stored.world_size,
        digest=stored.digest,
        status=stored.status,
        deviation=stored.deviation,
        message=stored.message,
        names=stored.names,
        notes=found.notes,
        measurements=found.measurements,
        attempts=attempts,
    )
