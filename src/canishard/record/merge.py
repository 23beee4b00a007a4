"""When a measurement can be stored, and what it makes of the record that is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from canishard.errors import ConfigurationError, InfraError, NothingSelectedError
from canishard.launch import normalise
from canishard.launch.outcome import Case, Outcome, Status
from canishard.record.contents import CANARY, NEVER_STORED, Record, fail, require_clean
from canishard.record.evidence import EVIDENCE_SUFFIX, Cell, cell
from canishard.record.files import load, save


def validate(measured: Record, selected: Sequence[Case]) -> None:
    """Raise unless a measurement can be stored: each selected case once, no other, and the canary passed.

    Cases that are ``infra`` count as present: ``merge`` leaves them out and says so.
    """
    number = Counter(outcome.key for outcome in measured.cells)
    wanted = {case.key for case in selected}
    for key in sorted(wanted | number.keys()):
        where = f"{key[0]} at world size {key[1]}"
        if key not in number:
            fail(measured.name, where, "was selected and has no outcome")
        if key not in wanted:
            fail(measured.name, where, "has an outcome and was not selected")
        if number[key] > 1:
            fail(measured.name, where, f"has {number[key]} outcomes")
    check_canary(measured)


def check_canary(measured: Record) -> None:
    """Raise unless the canary was measured and passed: without it a record proves nothing."""
    canaries = [outcome for outcome in measured.cells if outcome.id == CANARY]
    if not canaries:
        fail(measured.name, CANARY, "was not measured; without it a record proves nothing")
    for outcome in canaries:
        if outcome.status is not Status.PASS:
            msg = (
                f"{measured.name}: {CANARY} at world size {outcome.world_size} is {outcome.status.value}, "
                f"so nothing was stored: {outcome.message or 'no message'}"
            )
            raise InfraError(msg)


class Merged(msgspec.Struct, kw_only=True, frozen=True):
    """What a new measurement makes of a stored record."""

    record: Record
    changed: bool
    """False where cells and conditions equal the stored ones; then ``record`` is the stored one."""
    kept: list[tuple[str, int]]
    """Cases that were ``infra`` this time and keep the value they had."""
    absent: list[tuple[str, int]]
    """Cases that were ``infra`` this time and had no value to keep."""


def merge(
    stored: Record | None,
    measured: Record,
    *,
    selected_only: bool,
    known: Mapping[str, str] | None = None,
) -> Merged:
    """Return the record that follows from the stored one and a new measurement, normalised.

    A selected run replaces its own cells only; a whole run drops the cells that the suite no longer has.
    An ``infra`` cell never enters: what was measured before stays, unless it was under other conditions.
    Where no cell differs the stored record stays as it is, whatever else does, unless only the new one is clean.
    ``known`` maps texts of this machine to what stands for them, as ``normalise.text`` takes it.

    Raises ConfigurationError when a selected run was made under other conditions, or the two records are of
    different environments.
    """
    former = _former(stored, measured, selected_only=selected_only)
    cells = {outcome.key: normalise.outcome(outcome, known) for outcome in measured.cells}
    faulty = sorted(key for key, outcome in cells.items() if outcome.status in NEVER_STORED)
    for key in faulty:
        del cells[key]
    kept = [key for key in faulty if key in former]
    others = former.keys() - cells.keys() if selected_only else kept
    cells.update({key: former[key] for key in others})
    record = msgspec.structs.replace(measured, cells=list(cells.values()))
    if stored is not None and former and others:
        record = _beside(stored, record)
    same = stored is not None and _is_same(stored, record)
    return Merged(
        record=stored if same and stored is not None else record,
        changed=not same,
        kept=kept,
        absent=[key for key in faulty if key not in former],
    )


def _former(
    stored: Record | None, measured: Record, *, selected_only: bool
) -> dict[tuple[str, int], Outcome]:
    """Return the stored outcomes that may stand beside the new ones: those of the same conditions."""
    if stored is None:
        return {}
    if stored.environment != measured.environment:
        msg = f"{measured.name}: cannot be merged into {stored.name}, the record of another environment"
        raise ConfigurationError(msg)
    if stored.conditions == measured.conditions:
        return {outcome.key: outcome for outcome in stored.cells}
    if selected_only:
        differing = stored.conditions.differing(measured.conditions)
        msg = (
            f"{measured.name}: the stored record was measured under other conditions ({'; '.join(differing)}), "
            "so a selection cannot replace some of its cells; measure it as a whole"
        )
        raise ConfigurationError(msg)
    return {}


def _beside(stored: Record, record: Record) -> Record:
    """Return a record that holds cells of the stored one too: what is said of all is true of both."""
    return msgspec.structs.replace(
        record,
        variant=stored.variant,
        suite=stored.suite if stored.suite.is_dirty else record.suite,
        started=min(stored.started, record.started),
        start_method=_joined(stored.start_method, record.start_method),
    )


def _is_same(stored: Record, record: Record) -> bool:
    return (
        stored.conditions == record.conditions
        and _compared(stored) == _compared(record)
        and (record.suite.is_dirty or not stored.suite.is_dirty)
    )


def _compared(record: Record) -> list[Cell]:
    """Return what makes two measurements of one build the same: all of a cell but the wording of its message.

    A number in a message may differ in its last digit from machine to machine; status and deviation may not.
    """
    return [msgspec.structs.replace(cell(outcome), message="") for outcome in record.cells]


def _joined(one: str, other: str) -> str:
    return one if one == other else "+".join(sorted({*one.split("+"), *other.split("+")}))


def store(
    path: Path,
    measured: Record,
    selected: Sequence[Case],
    *,
    selected_only: bool,
    known: Mapping[str, str] | None = None,
) -> Merged:
    """Validate a measurement, merge it into the record at ``path``, and write both files where it changed."""
    validate(measured, selected)
    stored = load(path) if path.exists() else None
    merged = merge(stored, measured, selected_only=selected_only, known=known)
    if merged.changed:
        save(merged.record, path)
    return merged


def adopt(folder: Path, results: Path) -> list[tuple[Record | None, Merged]]:
    """Merge whole records that others measured, wherever below ``folder``, into those of ``results``.

    Returns what was there of each, and what became of it. All are read and checked before anything is written.

    Raises RecordError or InfraError for a record that cannot be stored, NothingSelectedError where there is none.
    """
    paths = sorted(path for path in folder.rglob("torch-*.json") if not path.name.endswith(EVIDENCE_SUFFIX))
    if not paths:
        msg = f"{folder}: no record below it (torch-*.json)"
        raise NothingSelectedError(msg)
    adopted = []
    for path in paths:
        measured = load(path)
        check_canary(measured)
        if path.stem != measured.name:
            fail(path.name, "environment", f"is {measured.name}; expected a record under its own name")
        if not measured.environment.is_stable:
            channel = measured.environment.channel
            fail(path.name, "environment.channel", f"is {channel}; only a stable release's record is kept")
        require_clean(measured)
        there = results / path.name
        stored = load(there) if there.exists() else None
        adopted.append((stored, merge(stored, measured, selected_only=False)))
    for _, merged in adopted:
        if merged.changed:
            save(merged.record, results / f"{merged.record.name}.json")
    return adopted
