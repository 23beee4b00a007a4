"""The record's two files: round trip, size, faults, validity, merging."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from made_up import canaries, case, cases_of, environment, failed, outcome, record, variant

from canishard import data
from canishard import record as record_files
from canishard.errors import ConfigurationError, InfraError, RecordError
from canishard.outcome import Attempt, RankEvidence, Status
from canishard.record import CANARY, Record, Suite

A, B = "fsdp2.gradients[reduce=default]", "pp.gpipe"


def written(path: Path) -> tuple[bytes, bytes]:
    return path.read_bytes(), record_files.evidence_path(path).read_bytes()


def saved(tmp_path: Path, value: Record) -> Path:
    path = tmp_path / f"{value.name}.json"
    record_files.save(value, path)
    return path


def full() -> Record:
    return record(
        *canaries(),
        outcome(A, 2, "wrong", deviation="summed", message="got 2", measurements={"ratio": 2.0}),
        outcome(A, 4, names=["torch.distributed._old"], notes=["a note"]),
        failed(B),
    )


# ---- reading and writing -------------------------------------------------------------------------


def test_round_trip(tmp_path: Path) -> None:
    value = full()
    assert record_files.load(saved(tmp_path, value)) == value


def test_cells_are_sorted_by_id_and_world_size() -> None:
    value = record(outcome("b.x", 2), outcome("a.x", 10), outcome("a.x", 2))
    assert [cell.key for cell in value.cells] == [("a.x", 2), ("a.x", 10), ("b.x", 2)]


def test_counts_leave_out_what_does_not_occur() -> None:
    assert full().counts == {Status.PASS: 3, Status.WRONG: 1, Status.ERROR: 1}


def test_the_files_are_as_people_read_them() -> None:
    main, evidence = record_files.encode(record(outcome(CANARY, 2), failed(B)))
    assert (
        main.decode()
        == """\
{
  "cells": [
    {"digest": "0123456789abcdef", "id": "canary.all_reduce", "status": "pass", "world_size": 2},
    {"digest": "0123456789abcdef", "id": "pp.gpipe", "message": "RuntimeError: no", "status": "error", "world_size": 2}
  ],
  "counts": {
    "error": 1,
    "pass": 1
  },
  "ended": "2026-01-31T12:00:30Z",
  "environment": {
    "backend": "gloo",
    "channel": "2.8.0",
    "device": "cpu",
    "flavour": "cuda-nodriver",
    "machine": "x86_64",
    "python": "3.11",
    "system": "linux"
  },
  "schema": 1,
  "start_method": "fork",
  "started": "2026-01-31T12:00:00Z",
  "suite": {
    "commit": "c0ffee",
    "version": "0.1.0"
  },
  "variables": {
    "OMP_NUM_THREADS": "1"
  },
  "variant": {
    "cuda": "12.8",
    "git_version": "a1b2c3",
    "glibc": "2.36",
    "hip": null,
    "nccl": "2.27.3",
    "packages": {"numpy": "2.3.0"},
    "python": "3.11.9",
    "torch": "2.8.0+cu128"
  }
}
"""
    )
    found = json.loads(evidence)
    assert sorted(found["texts"].values()) == ["RuntimeError: no", "Trace", "said"]
    ranks = [rank for attempt in found["cells"][0]["attempts"] for rank in attempt["ranks"]]
    assert len(ranks) == 2
    assert ranks[0] == ranks[1]
    assert found["texts"][ranks[0]["traceback"]] == "Trace"
    assert evidence.endswith(b"}\n")


def test_order_of_cells_does_not_matter() -> None:
    assert record_files.encode(record(*reversed(full().cells))) == record_files.encode(full())


def test_a_plain_pass_leaves_no_evidence_and_a_pass_keeps_notes_and_numbers_only() -> None:
    rank = RankEvidence(rank=0, phase="teardown", output="chatter")
    attempts = [Attempt(status=Status.PASS, start_method="fork", ranks=[rank])]
    plain = outcome("a.x", attempts=attempts)
    noted = outcome("b.x", attempts=attempts, measurements={"ratio": 1.0})
    _, evidence = record_files.encode(record(plain, noted))
    assert json.loads(evidence)["cells"] == [{"id": "b.x", "measurements": {"ratio": 1.0}, "world_size": 2}]
    assert json.loads(evidence)["texts"] == {}


def test_the_main_file_stays_small_in_the_worst_case() -> None:
    """1,200 cases, half of which fail, each with another message of full length."""
    cells = []
    for number in range(1200):
        case_id = f"collectives.reduce_scatter_tensor[op=bxor,dtype=float32,number={number:04}]"
        message = f"RuntimeError: {number} ".ljust(300, "x")
        cells.append(failed(case_id, message=message) if number % 2 else outcome(case_id))
    main, _ = record_files.encode(record(*cells))
    assert len(main) < 400_000


def test_a_failed_write_leaves_the_old_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path, full())
    before = written(path)

    def full_disk(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match="No space"):
        record_files.save(record(*canaries()), path)
    assert written(path) == before
    assert len(list(tmp_path.iterdir())) == 2


def test_load_all_sorts_by_name_and_reads_no_evidence_as_a_record(tmp_path: Path) -> None:
    for channel in ("2.9.1", "2.8.0"):
        saved(tmp_path, record(*canaries(), channel=channel))
    assert [found.environment.channel for found in record_files.load_all(tmp_path)] == ["2.8.0", "2.9.1"]
    assert record_files.load_all(tmp_path / "nowhere") == []


def test_a_file_under_another_name_is_refused(tmp_path: Path) -> None:
    value = record(*canaries())
    saved(tmp_path, value).rename(tmp_path / "copy.json")
    (tmp_path / f"{value.name}.evidence.json").rename(tmp_path / "copy.evidence.json")
    with pytest.raises(RecordError) as raised:
        record_files.load_all(tmp_path)
    assert (
        str(raised.value)
        == f"copy.json: environment: is that of {value.name}.json; the file has the wrong name"
    )


TIME = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$"


# ---- faults --------------------------------------------------------------------------------------


def fault(path: Path) -> str:
    with pytest.raises(RecordError) as raised:
        record_files.load(path)
    sentence = str(raised.value)
    assert "\n" not in sentence
    return sentence.removeprefix(path.stem)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_file_cut_off(tmp_path: Path, share: float) -> None:
    path = saved(tmp_path, full())
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    assert fault(path) == ".json: not JSON, or cut off: Input data was truncated"


def test_evidence_cut_off(tmp_path: Path) -> None:
    path = saved(tmp_path, full())
    beside = record_files.evidence_path(path)
    beside.write_bytes(beside.read_bytes()[:100])
    assert fault(path) == ".evidence.json: not JSON, or cut off: Input data was truncated"


def test_files_that_are_not_there(tmp_path: Path) -> None:
    path = saved(tmp_path, full())
    record_files.evidence_path(path).unlink()
    assert fault(path) == ".evidence.json: cannot be read: No such file or directory"
    path.unlink()
    assert fault(path) == ".json: cannot be read: No such file or directory"


def changed(path: Path, *keys: str | int, value: Any) -> None:
    content = json.loads(path.read_bytes())
    at = content
    for key in keys[:-1]:
        at = at[key]
    at[keys[-1]] = value
    path.write_text(json.dumps(content), encoding="utf-8")


@pytest.mark.parametrize(
    ("keys", "value", "sentence"),
    [
        (["schema"], 2, "schema: is 2, this canishard reads 1 only"),
        (["schema"], "1", "schema: expected `int`, got `str`"),
        (["variant", "cuda"], 12, "variant.cuda: expected `str | null`, got `int`"),
        (["extra"], 1, "top: object contains unknown field `extra`"),
        (["cells", 1, "status"], "fail", "cells[1].status: invalid enum value 'fail'"),
        (["cells", 1, "status"], "infra", "cells[1].status: infra is never stored"),
        (["cells", 1, "status"], "unknown", "cells[1].status: unknown is never stored"),
        (["cells", 1, "world_size"], 0, "cells[1].world_size: expected `int` >= 1"),
        (["cells", 1, "world_size"], 2, "cells[1]: canary.all_reduce at world size 2 is there twice"),
        (["cells", 1, "id"], "a.x", "cells[1]: a.x at world size 4 is not in order of id and world size"),
        (["cells", 1, "id"], "a|b", "cells[1].id: expected `str` matching regex '^[^\\\\s`|<>\\\\\\\\]+$'"),
        (["cells", 1, "status"], "hang", "counts: do not agree with the cells"),
        (["started"], "yesterday", f"started: expected `str` matching regex {TIME!r}"),
    ],
    ids=str,
)  # fmt: skip
def test_a_faulty_record(tmp_path: Path, keys: list[str | int], value: Any, sentence: str) -> None:
    path = saved(tmp_path, full())
    changed(path, *keys, value=value)
    assert fault(path) == f".json: {sentence}"


@pytest.mark.parametrize(
    ("keys", "value", "sentence"),
    [
        (["schema"], 0, "schema: is 0, this canishard reads 1 only"),
        (["environment"], "x", "environment: is x, the record's is torch-2.8.0-cuda-nodriver-gloo-cpu-cp311-linux-x86_64"),
        (["cells", 0, "id"], "a.x", "cells: a.x at world size 2 is not in the record"),
        (["cells", 0, "attempts"], [{}], "cells[0].attempts[0]: object missing required field `status`"),
        (["cells", 2, "attempts", 0, "message"], "0000", "texts: 0000, which pp.gpipe at world size 2 refers to, is missing"),
    ],
    ids=str,
)  # fmt: skip
def test_faulty_evidence(tmp_path: Path, keys: list[str | int], value: Any, sentence: str) -> None:
    path = saved(tmp_path, full())
    changed(record_files.evidence_path(path), *keys, value=value)
    assert fault(path) == f".evidence.json: {sentence}"


def test_a_record_that_is_not_utf8(tmp_path: Path) -> None:
    path = saved(tmp_path, full())
    path.write_bytes(path.read_bytes().replace(b"got 2", b"got \xff"))
    assert fault(path).startswith(".json: ")


# ---- validity ------------------------------------------------------------------------------------


def test_a_valid_measurement() -> None:
    value = full()
    record_files.validate(value, cases_of(value))


def test_infra_counts_as_present() -> None:
    value = record(*canaries(), outcome(A, status="infra"))
    record_files.validate(value, cases_of(value))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("absent", f"{B} at world size 2: was selected and has no outcome"),
        ("extra", f"{B} at world size 2: has an outcome and was not selected"),
        ("twice", f"{A} at world size 2: has 2 outcomes"),
        ("canary", "canary.all_reduce: was not measured; without it a record proves nothing"),
    ],
)
def test_an_invalid_measurement(change: str, sentence: str) -> None:
    cells = {
        "absent": [*canaries(), outcome(A)],
        "extra": [*canaries(), outcome(A), outcome(B)],
        "twice": [*canaries(), outcome(A), outcome(A)],
        "canary": [outcome(A)],
    }[change]
    selected = {
        "absent": [case(CANARY, 2), case(CANARY, 4), case(A), case(B)],
        "extra": [case(CANARY, 2), case(CANARY, 4), case(A)],
        "twice": [case(CANARY, 2), case(CANARY, 4), case(A)],
        "canary": [case(A)],
    }[change]
    value = record(*cells)
    with pytest.raises(RecordError) as raised:
        record_files.validate(value, selected)
    assert str(raised.value) == f"{value.name}: {sentence}"


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PASS])
def test_without_the_canary_nothing_is_stored(status: Status) -> None:
    value = record(outcome(CANARY, 2), outcome(CANARY, 4, status, message="RuntimeError: no route"))
    with pytest.raises(InfraError) as raised:
        record_files.validate(value, cases_of(value))
    assert str(raised.value) == (
        f"{value.name}: canary.all_reduce at world size 4 is {status.value}, so nothing was stored: "
        "RuntimeError: no route"
    )


# ---- merging -------------------------------------------------------------------------------------

LATER: dict[str, Any] = {
    "started": "2026-02-28T12:00:00Z",
    "ended": "2026-02-28T12:00:30Z",
    "suite": Suite(version="0.2.0", commit="beef"),
}
NEWER: dict[str, Any] = {**LATER, "variant": variant("2.8.0+cu128", glibc="2.41")}


def test_the_first_measurement_is_stored_normalised() -> None:
    measured = record(
        *canaries(), failed(A, message="RuntimeError: pid 4242 on builder7"), outcome(B, status="infra")
    )
    merged = record_files.merge(None, measured, selected_only=False, known={"builder7": "<host>"})
    assert merged.changed
    assert (merged.kept, merged.absent) == ([], [(B, 2)])
    assert merged.record == record(*canaries(), failed(A, message="RuntimeError: pid <id> on <host>"))


def test_the_same_again_is_the_stored_record_as_it_was() -> None:
    stored = full()
    cells = [msgspec.structs.replace(cell, measurements={"seconds": 3.0}) for cell in stored.cells]
    for selected_only in (False, True):
        merged = record_files.merge(stored, record(*cells, **LATER), selected_only=selected_only)
        assert not merged.changed
        assert merged.record is stored


@pytest.mark.parametrize(
    "cell",
    [
        outcome(A, digest="other"),
        outcome(A, status="hang"),
        outcome(A, names=["old"]),
        outcome(A, status="error", message="another"),
        outcome(A, status="wrong", deviation="another"),
    ],
    ids=["digest", "status", "names", "message", "deviation"],
)
def test_what_makes_a_cell_another(cell: Any) -> None:
    merged = record_files.merge(
        record(*canaries(), outcome(A)), record(*canaries(), cell, **LATER), selected_only=False
    )
    assert merged.changed
    assert merged.record == record(*canaries(), cell, **LATER)


def test_another_build_alone_changes_a_record() -> None:
    merged = record_files.merge(full(), record(*full().cells, **NEWER), selected_only=False)
    assert merged.changed
    assert merged.record == record(*full().cells, **NEWER)


def test_a_whole_run_drops_what_the_suite_no_longer_has() -> None:
    merged = record_files.merge(full(), record(*canaries(), **LATER), selected_only=False)
    assert merged.record == record(*canaries(), **LATER)


def test_a_selected_run_replaces_its_own_cells_only() -> None:
    measured = record(*canaries(), outcome(A, 2), start_method="spawn", **LATER)
    merged = record_files.merge(full(), measured, selected_only=True)
    wanted = [outcome(A, 2) if cell.key == (A, 2) else cell for cell in full().cells]
    more = {**LATER, "started": "2026-01-31T12:00:00Z", "start_method": "fork+spawn"}
    assert merged.record == record(*wanted, **more)


def test_a_selected_run_on_another_build_is_refused() -> None:
    changed_build = {**LATER, "variant": variant("2.8.0+cu128", glibc="2.41", nccl=None, packages={})}
    with pytest.raises(ConfigurationError) as raised:
        record_files.merge(full(), record(*canaries(), **changed_build), selected_only=True)
    assert str(raised.value) == (
        f"{full().name}: the stored record is of another build (nccl 2.27.3 there, none here; glibc 2.36 there, "
        "2.41 here; packages numpy 2.3.0 there, none here), so a selection cannot replace some of its cells; "
        "measure it as a whole"
    )


def test_records_of_two_environments_do_not_merge() -> None:
    other = record(*canaries(), environment=environment(backend="mpi"))
    with pytest.raises(ConfigurationError) as raised:
        record_files.merge(full(), other, selected_only=False)
    assert str(raised.value) == (
        "torch-2.8.0-cuda-nodriver-mpi-cpu-cp311-linux-x86_64: cannot be merged into "
        "torch-2.8.0-cuda-nodriver-gloo-cpu-cp311-linux-x86_64, the record of another environment"
    )


@pytest.mark.parametrize("selected_only", [False, True])
def test_infra_never_enters(*, selected_only: bool) -> None:
    measured = record(
        *canaries(),
        outcome(A, 2, "infra"),
        outcome(A, 4),
        failed(B),
        outcome("x.new", status="unknown"),
        **LATER,
    )
    merged = record_files.merge(full(), measured, selected_only=selected_only)
    assert (merged.kept, merged.absent) == ([(A, 2)], [("x.new", 2)])
    cells = {cell.key: cell for cell in merged.record.cells}
    assert cells[A, 2] == {cell.key: cell for cell in full().cells}[A, 2]
    assert ("x.new", 2) not in cells


def test_infra_does_not_keep_what_another_build_did() -> None:
    measured = record(*canaries(), outcome(A, 2, "infra"), **NEWER)
    merged = record_files.merge(full(), measured, selected_only=False)
    assert (merged.kept, merged.absent) == ([], [(A, 2)])
    assert merged.record == record(*canaries(), **NEWER)


def test_store_writes_only_what_changed(tmp_path: Path) -> None:
    path = tmp_path / "results" / f"{full().name}.json"
    first = record_files.store(path, full(), cases_of(full()), selected_only=False)
    before = written(path)
    assert first.changed

    again = record_files.store(path, record(*full().cells, **LATER), cases_of(full()), selected_only=False)
    assert not again.changed
    assert written(path) == before

    part = record(*canaries(), outcome(A, 2), **LATER)
    third = record_files.store(path, part, cases_of(part), selected_only=True)
    assert third.changed
    assert record_files.load(path) == third.record


def test_store_does_not_touch_a_record_where_the_measurement_is_invalid(tmp_path: Path) -> None:
    path = saved(tmp_path, full())
    before = written(path)
    with pytest.raises(RecordError):
        record_files.store(path, record(*canaries()), cases_of(full()), selected_only=False)
    assert written(path) == before


# ---- the published schemas -----------------------------------------------------------------------


@pytest.mark.parametrize("name", record_files.SCHEMA_FILES)
def test_the_published_schemas_are_up_to_date(name: str) -> None:
    assert (data.matrix_dir() / name).read_bytes() == record_files.schemas()[name]


def test_a_record_is_valid_by_the_published_schemas() -> None:
    for content, name in zip(record_files.encode(full()), record_files.SCHEMA_FILES, strict=True):
        schema = json.loads(record_files.schemas()[name])
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.validate(json.loads(content), schema)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**json.loads(content), "extra": 1}, schema)
