"""The two files of a record, read strictly and written byte for byte the same.

``<environment>.json`` holds what is compared, ``<environment>.evidence.json`` the rest of what is not a plain
pass. In memory a ``Record`` has both. Cells are written one a line: a changed cell is one changed line.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import msgspec

from canishard import files
from canishard.errors import RecordError
from canishard.launch.outcome import Status
from canishard.record import evidence
from canishard.record.contents import NEVER_STORED, Record, fail
from canishard.record.environment import Environment, Variant
from canishard.record.evidence import (
    EVIDENCE_SUFFIX,
    Cell,
    EvidenceFile,
    cell,
    evidence_of,
    evidence_path,
    has_evidence,
    outcome_of,
)
from canishard.record.suite import Suite

SCHEMA = 1
"""The number of the record's format; a reader refuses every other."""

SCHEMA_FILES = ("record.schema.json", "evidence.schema.json")

Time = Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]


class RecordFile(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
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
    devices: dict[str, int] = {}
    """How many accelerators of which kind the ranks could use; left out on CPU."""
    backend_module: str = ""
    """The package that registers the backend, where torch does not have it."""


# ---- reading and writing -------------------------------------------------------------------------


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
        devices=record.devices,
        backend_module=record.backend_module,
    )
    rest = EvidenceFile(schema=evidence.SCHEMA, environment=record.name, cells=[])
    rest.cells = [evidence_of(outcome, rest) for outcome in record.cells if has_evidence(outcome)]
    return _render(main), _render(rest, separators=(",", ":"))


def decode(main: bytes, beside: bytes, name: str = "record") -> Record:
    """Return the record that two files hold; ``name`` is the first one's, for errors.

    Raises RecordError with one line that names the file, and the path to the fault where there is one.
    """
    file = files.decode(main, RecordFile, name, schema=SCHEMA)
    rest_name = evidence_path(Path(name)).name
    rest = files.decode(beside, EvidenceFile, rest_name, schema=evidence.SCHEMA)
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
        devices=file.devices,
        backend_module=file.backend_module,
        cells=[
            outcome_of(item, by_key.get((item.id, item.world_size)), rest, rest_name) for item in file.cells
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


# ---- the published schemas -----------------------------------------------------------------------


def schemas() -> dict[str, bytes]:
    """Return the JSON Schema of each of the two files, by the name under which it is published."""
    kinds: Iterable[type[msgspec.Struct]] = (RecordFile, EvidenceFile)
    found = {}
    for name, kind in zip(SCHEMA_FILES, kinds, strict=True):
        schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(kind)}
        found[name] = (json.dumps(schema, indent=2, sort_keys=True) + "\n").encode()
    return found
