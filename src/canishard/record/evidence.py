"""A cell and what is known beyond it: an outcome taken apart for the two files of a record, and put together again.

Equal texts, the same stack on every rank, are stored once, by their hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import msgspec

from canishard.catalogue import ids
from canishard.launch.outcome import Attempt, Outcome, RankEvidence, Status
from canishard.record.contents import fail

EVIDENCE_SUFFIX = ".evidence.json"

CaseId = Annotated[str, msgspec.Meta(pattern=ids.SAFE)]
WorldSize = Annotated[int, msgspec.Meta(ge=1)]
Texts = dict[str, str]
"""Texts by their hash."""


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
    """What is known beyond the cell; every text of an attempt is a key of ``texts``."""

    id: CaseId
    world_size: WorldSize
    notes: list[str] = []
    """Remarks that do not change the status."""
    measurements: dict[str, float | str | None] = {}
    attempts: list[Attempt] = []
    """In order. ``message``, ``error``, ``traceback``, ``stacks`` and ``output`` are keys of ``texts``."""


class EvidenceFile(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The evidence for one environment's cases: the file beside the record's."""

    schema: int
    environment: str
    """The name of the record that this belongs to."""
    texts: Texts
    """Every text once, by its hash."""
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


def evidence_of(outcome: Outcome, texts: Texts) -> EvidenceCell:
    """Return an outcome's evidence with its texts moved to the table; a pass keeps notes and numbers only."""
    attempts = [] if outcome.status is Status.PASS else outcome.attempts
    return EvidenceCell(
        id=outcome.id,
        world_size=outcome.world_size,
        notes=outcome.notes,
        measurements=outcome.measurements,
        attempts=[_with_texts(attempt, lambda text: _refer(text, texts)) for attempt in attempts],
    )


def _refer(text: str, texts: Texts) -> str:
    if not text:
        return ""
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    texts[key] = text
    return key


def _with_texts(attempt: Attempt, change: Callable[[str], str]) -> Attempt:
    def changed(rank: RankEvidence) -> RankEvidence:
        return msgspec.structs.replace(
            rank,
            error=change(rank.error),
            traceback=change(rank.traceback),
            stacks=change(rank.stacks),
            output=change(rank.output),
        )

    return msgspec.structs.replace(
        attempt, message=change(attempt.message), ranks=[changed(rank) for rank in attempt.ranks]
    )


def outcome_of(stored: Cell, found: EvidenceCell | None, texts: Texts, name: str) -> Outcome:
    """Put an outcome together again from its cell and its evidence; ``name`` is that of the evidence's file."""

    def text(key: str) -> str:
        if key and key not in texts:
            fail(
                name,
                "texts",
                f"{key}, which {stored.id} at world size {stored.world_size} refers to, is missing",
            )
        return texts[key] if key else ""

    found = found or EvidenceCell(id=stored.id, world_size=stored.world_size)
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
        attempts=[_with_texts(attempt, text) for attempt in found.attempts],
    )
