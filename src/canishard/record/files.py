"""The record of one environment: its two files, read strictly and written byte for byte the same.

``<environment>.json`` holds what is compared, ``<environment>.evidence.json`` the rest of what is not a plain
pass. In memory a ``Record`` has both. Cells are written one a line: a changed cell is one changed line.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import msgspec

from canishard import files
from canishard.catalogue import ids
from canishard.errors import RecordError
from canishard.launch.outcome import Outcome, Status
from canishard.record import evidence
from canishard.record.environment import Environment, Variant

SCHEMA = 1
"""The number of the record's format; a reader refuses every other."""

CANARY = "canary.all_reduce"
"""Where this does not pass, a record says nothing about torch."""

NEVER_STORED = frozenset({Status.INFRA, Status.UNKNOWN})
EVIDENCE_SUFFIX = ".evidence.json"
SCHEMA_FILES = ("record.schema.json", "evidence.schema.json")

CaseId = Annotated[str, msgspec.Meta(pattern=ids.SAFE)]
WorldSize = Annotated[int, msgspec.Meta(ge=1)]
Time = Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
_File = TypeVar("_File", bound=msgspec.Struct)


class Suite(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Which canishard measured."""

    version: str
    commit: str
    """Empty where it is not known."""


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


class Record(msgspec.Struct, kw_only=True):
    """All outcomes of one environment, sorted by id and world size, with their evidence."""

    environment: Environment
    variant: Variant
    suite: Suite
    started: str
    """ISO 8601, UTC, whole seconds: ``2026-01-31T12:00:00Z``."""
    ended: str
    start_method: str
    cells: list[Outcome]
    variables: dict[str, str] = {}
    """The environment variables of the ranks that can change what torch does."""

    def __post_init__(self) -> None:
        """Sort the cells."""
        self.cells = sorted(self.cells, key=lambda outcome: outcome.key)

    @property
    def name(self) -> str:
        """Return the stem of the record's files."""
        return self.environment.name

    @property
    def counts(self) -> dict[Status, int]:
        """Return how many cells have each status, without those that none has."""
        number = Counter(outcome.status for outcome in self.cells)
        return {status: number[status] for status in Status if number[status]}


class RecordFile(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What one environment's cases did: the file that is compared."""

    schema: int
    environment: Environment
    variant: Variant
    suite: Suite
    started: Time
    ended: Time
    start_method: str
    """How ranks were started: ``fork`` (from a server with torch loaded), ``spawn``, or both in turn."""
    variables: dict[str, str]
    """The environment variables of the ranks that can change what torch does."""
    counts: dict[Status, int]
    cells: list[Cell]


class EvidenceCell(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is known beyond the cell."""

    id: CaseId
    world_size: WorldSize
    notes: list[str] = []
    """Remarks that do not change the status."""
    measurements: dict[str, float | str | None] = {}
    attempts: list[evidence.Try] = []
    """In order."""


class EvidenceFile(evidence.Pools, kw_only=True, forbid_unknown_fields=True):
    """The evidence for one environment's cases: the file beside the record's."""

    schema: int
    environment: str
    """The name of the record that this belongs to."""
    cells: list[EvidenceCell]


# ---- reading and writing -------------------------------------------------------------------------


def evidence_path(path: Path) -> Path:
    """Return where the evidence of a record's file is."""
    return path.with_name(path.name.removesuffix(".json") + EVIDENCE_SUFFIX)


def encode(record: Record) -> tuple[bytes, bytes]:
    """Return the two files of a record: what is compared, and the evidence."""
    main = RecordFile(
        schema=SCHEMA,
        environment=record.environment,
        variant=record.variant,
        suite=record.suite,
        started=record.started,
        ended=record.ended,
        start_method=record.start_method,
        variables=record.variables,
        counts=record.counts,
        cells=[cell(outcome) for outcome in record.cells],
    )
    rest = EvidenceFile(schema=evidence.SCHEMA, environment=record.name, cells=[])
    rest.cells = [_stored(outcome, rest) for outcome in record.cells if _has_evidence(outcome)]
    return _render(main), _render(rest, separators=(",", ":"))


def decode(main: bytes, beside: bytes, name: str = "record") -> Record:
    """Return the record that two files hold; ``name`` is the first one's, for errors.

    Raises RecordError with one line that names the file, and the path to the fault where there is one.
    """
    file = _decode(main, RecordFile, name, SCHEMA)
    rest_name = evidence_path(Path(name)).name
    rest = _decode(beside, EvidenceFile, rest_name, evidence.SCHEMA)
    _check_cells(file, name)
    if rest.environment != file.environment.name:
        fail(rest_name, "environment", f"is {rest.environment}, the record's is {file.environment.name}")
    by_key = {(item.id, item.world_size): item for item in rest.cells}
    stray = sorted(by_key.keys() - {(item.id, item.world_size) for item in file.cells})
    if stray:
        fail(rest_name, "cells", f"{stray[0][0]} at world size {stray[0][1]} is not in the record")
    return Record(
        environment=file.environment,
        variant=file.variant,
        suite=file.suite,
        started=file.started,
        ended=file.ended,
        start_method=file.start_method,
        variables=file.variables,
        cells=[
            _outcome(item, by_key.get((item.id, item.world_size)), rest, rest_name) for item in file.cells
        ],
    )


def load(path: Path) -> Record:
    """Read a record with its evidence; RecordError names the file and the path to the fault."""
    return decode(_read(path), _read(evidence_path(path)), path.name)


def load_all(folder: Path) -> list[Record]:
    """Read every record of a folder, sorted by name; an empty list where there is no folder."""
    paths = sorted(path for path in folder.glob("*.json") if not path.name.endswith(EVIDENCE_SUFFIX))
    records = [load(path) for path in paths]
    for path, record in zip(paths, records, strict=True):
        if path.stem != record.name:
            fail(path.name, "environment", f"is that of {record.name}.json; the file has the wrong name")
    return records


def save(record: Record, path: Path) -> None:
    """Write both files of a record, the evidence first, each to a temporary name that is then renamed."""
    main, beside = encode(record)
    files.replace(evidence_path(path), beside)
    files.replace(path, main)


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


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        msg = f"{path.name}: cannot be read: {error.strerror}"
        raise RecordError(msg) from None


def _render(file: msgspec.Struct, separators: tuple[str, str] = (", ", ": ")) -> bytes:
    """Return JSON with sorted keys and two blanks of indent, a list's and a pool's items one a line."""
    plain = msgspec.to_builtins(file, order="sorted")
    fields = [f"  {_json(key, separators)}: {_field(plain[key], separators)}" for key in sorted(plain)]
    return ("{\n" + ",\n".join(fields) + "\n}\n").encode()


def _field(value: Any, separators: tuple[str, str]) -> str:
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(f"    {_json(item, separators)}" for item in value) + "\n  ]"
    if isinstance(value, dict) and value:
        lines = (f"    {_json(key, separators)}: {_json(value[key], separators)}" for key in sorted(value))
        return "{\n" + ",\n".join(lines) + "\n  }"
    return _json(value, separators)


def _json(value: Any, separators: tuple[str, str]) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=separators)


def fail(name: str, where: str, what: str) -> NoReturn:
    """Raise RecordError in one line: the record's name, the path to the fault, and what it is."""
    msg = f"{name}: {where}: {what}"
    raise RecordError(msg)


class _SchemaOnly(msgspec.Struct):
    schema: int


def _decode(content: bytes, kind: type[_File], name: str, number: int) -> _File:
    try:
        schema = msgspec.json.decode(content, type=_SchemaOnly).schema
        if schema == number:
            return msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError as error:
        text, _, at = str(error).partition(" - at `$")
        msg = f"{name}: {at.strip('`.') or 'top'}: {text[:1].lower()}{text[1:]}"
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        msg = f"{name}: not JSON, or cut off: {error}"
    else:
        msg = f"{name}: schema: is {schema}, this canishard reads {number} only"
    raise RecordError(msg)


def _check_cells(file: RecordFile, name: str) -> None:
    keys = [(item.id, item.world_size) for item in file.cells]
    for index, (item, key) in enumerate(zip(file.cells, keys, strict=True)):
        if item.status in NEVER_STORED:
            fail(name, f"cells[{index}].status", f"{item.status.value} is never stored")
        if index and keys[index - 1] >= key:
            what = "is there twice" if keys[index - 1] == key else "is not in order of id and world size"
            fail(name, f"cells[{index}]", f"{key[0]} at world size {key[1]} {what}")
    counted = Counter(item.status for item in file.cells)
    if file.counts != dict(counted):
        fail(name, "counts", "do not agree with the cells")


# ---- evidence ------------------------------------------------------------------------------------


def _has_evidence(outcome: Outcome) -> bool:
    return outcome.status is not Status.PASS or bool(outcome.notes or outcome.measurements)


def _stored(outcome: Outcome, pools: evidence.Pools) -> EvidenceCell:
    """Return an outcome's evidence, the most of it moved to the pools; a pass keeps notes and numbers only."""
    attempts = [] if outcome.status is Status.PASS else outcome.attempts
    return EvidenceCell(
        id=outcome.id,
        world_size=outcome.world_size,
        notes=outcome.notes,
        measurements=outcome.measurements,
        attempts=[evidence.put(attempt, pools) for attempt in attempts],
    )


def _outcome(stored: Cell, beside: EvidenceCell | None, pools: evidence.Pools, name: str) -> Outcome:
    beside = beside or EvidenceCell(id=stored.id, world_size=stored.world_size)
    try:
        attempts = [evidence.attempt_of(tried, pools) for tried in beside.attempts]
    except evidence.DanglingError as error:
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
        notes=beside.notes,
        measurements=beside.measurements,
        attempts=attempts,
    )


# ---- the published schemas -----------------------------------------------------------------------


def schemas() -> dict[str, bytes]:
    """Return the JSON Schema of each of the two files, by the name under which it is published."""
    kinds: Iterable[type[msgspec.Struct]] = (RecordFile, EvidenceFile)
    found = {}
    for name, kind in zip(SCHEMA_FILES, kinds, strict=True):
        schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(kind)}
        found[name] = (json.dumps(schema, indent=2, sort_keys=True) + "\n").encode()
    return found
