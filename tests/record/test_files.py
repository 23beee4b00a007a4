"""The record's two files: round trip, size, faults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from made_up import B, canaries, failed, full, outcome, record, saved, written

from canishard import files
from canishard import record as record_files
from canishard.errors import RecordError
from canishard.launch.outcome import Attempt, RankEvidence, Status
from canishard.record import CANARY

# ---- reading and writing -------------------------------------------------------------------------


def test_round_trip(tmp_path: Path) -> None:
    value = full()
    assert record_files.load(saved(tmp_path, value)) == value


def test_devices_and_a_backends_package_are_kept(tmp_path: Path) -> None:
    value = record(*canaries(), devices={"NVIDIA H200": 2}, backend_module="theirs")
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
    assert (
        evidence.decode()
        == """\
{
  "attempts": {
    "eab395fc": {"message":"0f1551a6","ranks":[["4ce23197",[0]]],"status":"error"}
  },
  "cells": [
    {"attempts":[["fork",null,"eab395fc"],["fork",null,"eab395fc"]],"id":"pp.gpipe","world_size":2}
  ],
  "environment": "torch-2.8.0-cuda-nodriver-gloo-cpu-cp311-linux-x86_64",
  "frames": {},
  "ranks": {
    "4ce23197": {"error":"0f1551a6","output":"60f5795c","phase":"report","traceback":"1226cd1a"}
  },
  "schema": 2,
  "texts": {
    "0f1551a6": "RuntimeError: no",
    "1226cd1a": "Trace",
    "60f5795c": "said"
  }
}
"""
    )


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
)  # fmt: skip
def test_a_faulty_record(tmp_path: Path, keys: list[str | int], value: Any, sentence: str) -> None:
    path = saved(tmp_path, full())
    changed(path, *keys, value=value)
    assert fault(path) == f".json: {sentence}"


@pytest.mark.parametrize(
    ("keys", "value", "sentence"),
    [
        (["schema"], 1, "schema: is 1, this canishard reads 2 only"),
        (["environment"], "x", "environment: is x, the record's is torch-2.8.0-cuda-nodriver-gloo-cpu-cp311-linux-x86_64"),
        (["cells", 0, "id"], "a.x", "cells: a.x at world size 2 is not in the record"),
        (["cells", 0, "attempts"], [["fork", 0]], "cells[0].attempts[0]: expected `array` of at least length 3, got 2"),
        (["cells", 2, "attempts", 0, 2], "0000", "attempts: 0000, which pp.gpipe at world size 2 refers to, is missing"),
        (["texts"], {}, "texts: 0f1551a6, which pp.gpipe at world size 2 refers to, is missing"),
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


# ---- the published schemas -----------------------------------------------------------------------


@pytest.mark.parametrize("name", record_files.SCHEMA_FILES)
def test_the_published_schemas_are_up_to_date(name: str) -> None:
    assert (files.matrix_dir() / name).read_bytes() == record_files.schemas()[name]


def test_a_record_is_valid_by_the_published_schemas() -> None:
    for content, name in zip(record_files.encode(full()), record_files.SCHEMA_FILES, strict=True):
        schema = json.loads(record_files.schemas()[name])
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.validate(json.loads(content), schema)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**json.loads(content), "extra": 1}, schema)
