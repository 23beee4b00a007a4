"""The published data set: every cell and what follows from it, in one file that is read strictly.

It holds no clock: its dates are those of the records. Cells are written one a line, below their
environment: a changed cell is one changed line.
"""

from __future__ import annotations

import csv
import functools
import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from canishard import files
from canishard import record as record_files
from canishard.catalogue import Entry, ids, workarounds
from canishard.facts import quirks as quirks_file
from canishard.facts.quirks import Place, Quirk
from canishard.facts.support import Support, support
from canishard.launch.outcome import Outcome, Status
from canishard.record import Record, Suite
from canishard.record.environment import Environment, Variant, channel_key
from canishard.record.evidence import CaseId, WorldSize
from canishard.record.files import Time

SCHEMA = 1
"""The number of the file's format; a reader refuses every other."""

JSON_FILE, CSV_FILE, SCHEMA_FILE = "canishard.json", "canishard.csv", "canishard.schema.json"

Seen = Sequence[tuple[Record, Outcome]]
"""Outcomes of one row on one release, at every world size and in every environment that measured it."""


class Row(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a row of the table is about; what its check says of it is empty where the check is gone."""

    id: CaseId
    family: str
    workaround: str = ""
    """The name of the workaround that this row measures; empty for a row that measures none."""
    feature: str = ""
    title: str = ""
    world_sizes: list[int] = []
    rests_on: list[str] = []
    """Patterns of the ids that explain a failure of this row."""
    workarounds: list[str] = []
    """The rows that measure the same with a workaround."""


class Cell(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What one row did at one world size, in the environment that it stands below."""

    id: CaseId
    world_size: WorldSize
    status: Status
    deviation: str = ""
    """How the value is wrong, for ``wrong``."""
    message: str = ""
    """The first line of what went wrong."""
    names: list[str] = []
    """Old names under which a needed name was found."""


class Measured(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """One environment: where, which build, when, and its cells by id and world size."""

    environment: Environment
    variant: Variant
    suite: Suite
    started: Time
    ended: Time
    start_method: str
    sha256: str
    """Of the record's file, ``matrix/results/<environment>.json``."""
    cells: list[Cell]

    def record(self) -> Record:
        """Return it as a record, without the evidence and the digests, which are not published."""
        return Record(
            environment=self.environment,
            variant=self.variant,
            suite=self.suite,
            started=self.started,
            ended=self.ended,
            start_method=self.start_method,
            cells=[Outcome(digest="", **msgspec.structs.asdict(cell)) for cell in self.cells],
        )


class QuirkPlace(Place, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Where a quirk was looked for, and where what mends it was measured to work."""

    mended_on: list[str]
    """Releases that show the quirk and on which the workaround passes everywhere."""


class SeenQuirk(Quirk, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A quirk, and where the records show it."""

    places: list[QuirkPlace]


class Dataset(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, dict=True):
    """All that is published."""

    schema: int
    releases: list[str]
    """Every release of torch that is known, oldest first; ``environments`` tell which were measured."""
    rows: list[Row]
    """In the order of their declaration."""
    quirks: list[SeenQuirk]
    support: list[Support]
    """What people quote of a row, a backend and a device, over all builds."""
    environments: list[Measured]
    """Oldest release first."""

    @functools.cached_property
    def by_id(self) -> dict[str, Row]:
        """Return the rows by id."""
        return {row.id: row for row in self.rows}

    @functools.cached_property
    def records(self) -> list[Record]:
        """Return the environments as records, for all that works on records."""
        return [measured.record() for measured in self.environments]

    @functools.cached_property
    def _seen(self) -> dict[tuple[str, str, str], dict[str, Seen]]:
        found: dict[tuple[str, str, str], dict[str, list[tuple[Record, Outcome]]]] = {}
        for record in self.records:
            place = record.environment
            for outcome in record.cells:
                row = found.setdefault((outcome.id, place.backend, place.device), {})
                row.setdefault(place.channel, []).append((record, outcome))
        return {key: dict(row) for key, row in found.items()}

    def seen(self, row: str, backend: str, device: str) -> Mapping[str, Seen]:
        """Return a row's outcomes by release, oldest first; empty where nothing was measured there."""
        return self._seen.get((row, backend, device), {})


# ---- from records --------------------------------------------------------------------------------


def build(
    records: Iterable[Record],
    releases: Iterable[str],
    quirks: Iterable[Quirk],
    catalogue: Mapping[str, Entry],
) -> Dataset:
    """Return the data set that follows from records; ``releases`` are all that exist, in any order."""
    known = sorted(set(releases), key=channel_key)
    ordered = sorted(records, key=lambda item: (channel_key(item.environment.channel), item.name))
    return Dataset(
        schema=SCHEMA,
        releases=known,
        rows=_rows(ordered, catalogue),
        quirks=[_seen_quirk(quirk, ordered) for quirk in quirks],
        support=support(ordered, known),
        environments=[_measured(record) for record in ordered],
    )


def _rows(records: Iterable[Record], catalogue: Mapping[str, Entry]) -> list[Row]:
    """Return a row an entry, measured or not, then those of checks that are gone."""
    measured = {outcome.id for record in records for outcome in record.cells}
    mending = workarounds(catalogue)
    declared = [
        Row(
            id=entry.id,
            family=entry.family,
            workaround=entry.workaround,
            feature=entry.feature,
            title=entry.title,
            world_sizes=list(entry.world_sizes),
            rests_on=list(entry.rests_on),
            workarounds=mending.get(entry.id, []),
        )
        for entry in catalogue.values()
    ]
    gone = sorted(measured - catalogue.keys())
    return [*declared, *(Row(id=row, family=ids.family(row), workaround=ids.workaround(row)) for row in gone)]


def _measured(record: Record) -> Measured:
    content, _ = record_files.encode(record)
    return Measured(
        environment=record.environment,
        variant=record.variant,
        suite=record.suite,
        started=record.started,
        ended=record.ended,
        start_method=record.start_method,
        sha256=hashlib.sha256(content).hexdigest(),
        cells=[_cell(outcome) for outcome in record.cells],
    )


def _cell(outcome: Outcome) -> Cell:
    return Cell(**{name: getattr(outcome, name) for name in Cell.__struct_fields__})


def _seen_quirk(quirk: Quirk, records: Sequence[Record]) -> SeenQuirk:
    places = [
        QuirkPlace(**msgspec.structs.asdict(place), mended_on=place.mended)
        for place in quirks_file.places(quirk, records)
    ]
    return SeenQuirk(**msgspec.structs.asdict(quirk), places=places)


# ---- the files -----------------------------------------------------------------------------------


def outputs(dataset: Dataset) -> dict[str, bytes]:
    """Return the published files by their name below ``reports/``."""
    return {JSON_FILE: encode(dataset), CSV_FILE: table(dataset), SCHEMA_FILE: schema()}


def encode(dataset: Dataset) -> bytes:
    """Return the data set as JSON, the same bytes for the same data: an item a line, a cell a line."""
    fields = (_field(name, getattr(dataset, name)) for name in Dataset.__struct_fields__)
    return b"{\n" + b",\n".join(fields) + b"\n}\n"


def _field(name: str, value: Any) -> bytes:
    if not isinstance(value, list) or not value:
        return b'"%s": %s' % (name.encode(), _json(value))
    lines = (_environment(item) if isinstance(item, Measured) else _json(item) for item in value)
    return b'"%s": [\n%s\n]' % (name.encode(), b",\n".join(lines))


def _environment(measured: Measured) -> bytes:
    head = _json(msgspec.structs.replace(measured, cells=[])).removesuffix(b"]}")
    return b"%s\n%s\n]}" % (head, b",\n".join(_json(cell) for cell in measured.cells))


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


def decode(content: bytes, name: str = JSON_FILE) -> Dataset:
    """Return the data set that a file holds; RecordError in one line that names the file and the fault."""
    newer, older = "install a newer canishard", "take a newer data set"
    return files.decode(content, Dataset, name, schema=SCHEMA, newer=newer, older=older)


def schema() -> bytes:
    """Return the JSON Schema of the data set."""
    found = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "canishard's data set",
        **msgspec.json.schema(Dataset),
    }
    return (json.dumps(found, indent=2, sort_keys=True) + "\n").encode()


# ---- for a spreadsheet ---------------------------------------------------------------------------

_COLUMNS = (
    *("channel", "flavour", "backend", "device", "python", "system", "machine", "torch", "measured"),
    *("family", "feature", "id", "world_size", "status", "deviation", "message", "names"),
)


def table(dataset: Dataset) -> bytes:
    """Return a line a cell, as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for line in _lines(dataset):
        writer.writerow([_inert(value) for value in line])
    return text.getvalue().encode()


def _lines(dataset: Dataset) -> Iterator[list[str]]:
    for measured in dataset.environments:
        where = [str(value) for value in msgspec.structs.astuple(measured.environment)]
        where += [measured.variant.torch, measured.ended[:10]]
        for cell in measured.cells:
            row = dataset.by_id[cell.id]
            yield [
                *(*where, row.family, row.feature, cell.id, str(cell.world_size), cell.status.value),
                *(cell.deviation, cell.message, " ".join(cell.names)),
            ]


def _inert(text: str) -> str:
    """Return text that a spreadsheet does not take for a formula: messages are whatever torch said."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
