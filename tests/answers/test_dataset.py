"""The published data set: what it holds, its files, and what its reader refuses."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from made_up import failed, full, outcome, quirk, record, saved

from canishard import catalogue, files, releases
from canishard import record as record_files
from canishard.answers import dataset
from canishard.answers.dataset import Dataset
from canishard.catalogue import Entry
from canishard.errors import RecordError
from canishard.facts import quirks
from canishard.launch.outcome import Outcome, Status
from canishard.record import Record

ROW, MENDED = "fsdp2.gradients[reduce=default]", "fsdp2.gradients+force_sum"
KNOWN = ["2.10.0", "2.8.0", "2.9.1"]


def entry(row: str, **more: Any) -> Entry:
    fields: dict[str, Any] = {
        "id": row,
        "family": row.partition(".")[0],
        "subject": row.partition(".")[2],
        "workaround": "",
        "feature": "fully_shard",
        "title": "Gradients are right",
        "module": "canishard.checks.fsdp2",
        "function": "gradients",
        "params": {},
        "world_sizes": [2, 4],
        "rests_on": ["canary.*"],
        "needs": [],
        "packages": [],
        "source": "",
    }
    return Entry(**{**fields, **more})


CATALOGUE = {
    ROW: entry(ROW, subject="gradients", params={"reduce": "default"}),
    MENDED: entry(MENDED, subject="gradients", workaround="force_sum"),
}


def made_up() -> Dataset:
    records = [
        record(outcome(ROW), outcome(MENDED), channel="2.10.0"),
        record(
            outcome(ROW, 2, "wrong", deviation="summed", message="got 2"),
            outcome(ROW, 4, names=["torch._old", "torch._older"]),
            outcome(MENDED),
            failed("gone.row[a=1+1]+other", message="=SUM(A1)"),
        ),
    ]
    return dataset.build(records, KNOWN, [quirk(workaround=MENDED)], CATALOGUE)


# ---- what it holds -------------------------------------------------------------------------------


def test_rows_are_those_of_the_catalogue_then_those_whose_check_is_gone() -> None:
    found = made_up()
    assert [row.id for row in found.rows] == [ROW, MENDED, "gone.row[a=1+1]+other"]
    assert found.by_id[ROW].workarounds == [MENDED]
    assert (found.by_id[ROW].title, found.by_id[ROW].rests_on) == ("Gradients are right", ["canary.*"])
    gone = found.by_id["gone.row[a=1+1]+other"]
    assert (gone.family, gone.workaround, gone.title) == ("gone", "other", "")


def test_a_workaround_with_a_parameter_is_that_of_the_rows_that_have_it() -> None:
    one, two = (
        entry(f"a.b[p={value},q=1]", subject="b", params={"p": value, "q": "1"}) for value in ("x", "y")
    )
    mended = entry("a.b[p=x]+w", subject="b", workaround="w", params={"p": "x"})
    found = dataset.build([], KNOWN, [], {item.id: item for item in (one, two, mended)})
    assert [row.workarounds for row in found.rows] == [["a.b[p=x]+w"], [], []]


def test_environments_are_oldest_first_with_the_digest_of_their_record(tmp_path: Path) -> None:
    found = made_up()
    assert [measured.environment.channel for measured in found.environments] == ["2.8.0", "2.10.0"]
    assert found.releases == ["2.8.0", "2.9.1", "2.10.0"]
    one = full()
    path = saved(tmp_path, one)
    (measured,) = dataset.build([one], KNOWN, [], {}).environments
    assert measured.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_quirks_say_where_they_show_and_where_they_are_mended() -> None:
    (found,) = made_up().quirks
    (place,) = found.places
    assert (found.name, place.backend, place.device) == ("sums", "gloo", "cpu")
    assert place.measured == ["2.8.0", "2.10.0"]
    assert place.shown == {"2.8.0": ["cuda-nodriver"]}
    assert place.absent == {"2.10.0": ["cuda-nodriver"]}
    assert place.workaround == {"2.8.0": [Status.PASS], "2.10.0": [Status.PASS]}
    assert place.mended_on == ["2.8.0"]


def test_a_workaround_that_does_not_pass_everywhere_mends_nothing() -> None:
    wrong = outcome(ROW, status="wrong")
    records = [
        record(wrong, outcome(MENDED), outcome(MENDED, 4, "hang"), channel="2.8.0"),
        record(wrong, outcome(MENDED), channel="2.9.1"),
        record(wrong, channel="2.10.0"),
    ]
    (found,) = dataset.build(records, KNOWN, [quirk(workaround=MENDED)], CATALOGUE).quirks
    (place,) = found.places
    assert (list(place.shown), place.mended_on) == (["2.8.0", "2.9.1", "2.10.0"], ["2.9.1"])


def test_support_statements_say_what_a_verdict_does_not() -> None:
    statements = {item.id: str(item) for item in made_up().support}
    assert statements[ROW] == (
        "yes since >2.8.0 <=2.10.0; partial since <=2.8.0 until >=2.8.0 <2.10.0 (pass: 4 ranks; wrong (summed): 2 ranks)"
    )


def test_the_records_come_back_without_evidence() -> None:
    found = made_up().records[0]
    assert found.name == "torch-2.8.0-cuda-nodriver-gloo-cpu-cp311-linux-x86_64"
    assert found.cells[1] == outcome(ROW, 2, "wrong", deviation="summed", message="got 2", digest="")


def test_outcomes_by_release() -> None:
    seen = made_up().seen(ROW, "gloo", "cpu")
    assert {release: [cell.world_size for _, cell in pairs] for release, pairs in seen.items()} == {
        "2.8.0": [2, 4],
        "2.10.0": [2],
    }
    assert made_up().seen(ROW, "nccl", "cuda") == {}


# ---- the files -----------------------------------------------------------------------------------


def test_it_is_written_the_same_whatever_the_order_and_a_cell_is_a_line() -> None:
    records = [record(outcome(ROW), channel=channel) for channel in KNOWN]
    content = dataset.encode(dataset.build(records, KNOWN, [], CATALOGUE))
    again = dataset.encode(dataset.build(reversed(records), reversed(KNOWN), [], CATALOGUE))
    assert content == again
    line = json.dumps({"id": ROW, "world_size": 2, "status": "pass"}, separators=(",", ":"))
    assert content.decode().splitlines().count(line) == 3


@pytest.mark.parametrize("found", [made_up(), dataset.build([], [], [], {})], ids=["full", "empty"])
def test_what_is_written_is_read(found: Dataset) -> None:
    content = dataset.encode(found)
    assert content.endswith(b"\n")
    assert dataset.decode(content) == found
    jsonschema.validate(json.loads(content), json.loads(dataset.schema()))


def test_a_text_that_json_must_escape_comes_back() -> None:
    hostile = 'quote " line\nend \u2028 ]} </script> \x1b[31m'
    found = dataset.build([record(outcome(ROW, status="error", message=hostile))], KNOWN, [], {})
    assert dataset.decode(dataset.encode(found)).environments[0].cells[0].message == hostile


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        (
            '"schema": 1',
            '"schema": 2',
            "d.json: schema: is 2, this canishard reads 1 only; install a newer canishard",
        ),
        (
            '"schema": 1',
            '"schema": 0',
            "d.json: schema: is 0, this canishard reads 1 only; take a newer data set",
        ),
        ('"schema": 1', '"schema": "1"', "d.json: schema: expected `int`, got `str`"),
        ('"schema": 1,', "", "d.json: top: object missing required field `schema`"),
        (
            '"status":"wrong"',
            '"status":"fail"',
            "d.json: environments[0].cells[1].status: invalid enum value 'fail'",
        ),
        (
            '"world_size":2',
            '"ranks":2',
            "d.json: environments[0].cells[0]: object contains unknown field `ranks`",
        ),
        ('"rows": [', '"rows": [[', "d.json: not JSON, or cut off: JSON is malformed"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_in_one_line(old: str, new: str, wanted: str) -> None:
    content = dataset.encode(made_up()).decode()
    assert old in content
    with pytest.raises(RecordError) as raised:
        dataset.decode(content.replace(old, new).encode(), "d.json")
    assert str(raised.value).startswith(wanted)
    assert "\n" not in str(raised.value)


def test_a_file_that_was_cut_off() -> None:
    with pytest.raises(RecordError, match="not JSON, or cut off"):
        dataset.decode(dataset.encode(made_up())[:-100])


def test_the_spreadsheet_has_a_line_a_cell_and_no_formula() -> None:
    lines = list(csv.DictReader(io.StringIO(dataset.table(made_up()).decode())))
    assert len(lines) == 6
    assert lines[1] == {
        "channel": "2.8.0",
        "flavour": "cuda-nodriver",
        "backend": "gloo",
        "device": "cpu",
        "python": "3.11",
        "system": "linux",
        "machine": "x86_64",
        "torch": "2.8.0+cu128",
        "measured": "2026-01-31",
        "family": "fsdp2",
        "feature": "fully_shard",
        "id": ROW,
        "world_size": "2",
        "status": "wrong",
        "deviation": "summed",
        "message": "got 2",
        "names": "",
    }
    by_key = {(line["channel"], line["id"], line["world_size"]): line for line in lines}
    assert by_key["2.8.0", ROW, "4"]["names"] == "torch._old torch._older"
    assert by_key["2.8.0", "gone.row[a=1+1]+other", "2"]["message"] == "'=SUM(A1)"
    assert by_key["2.8.0", "gone.row[a=1+1]+other", "2"]["feature"] == ""


def half_failing(channel: str, number: int) -> Record:
    text = "RuntimeError: a message of the usual length, which says what went wrong and where it did so, in words"

    def cell(index: int) -> Outcome:
        row = f"family{index % 9}.subject[first=value{index},second=other]"
        status = Status.PASS if index % 2 else Status.ERROR
        return outcome(row, 2, status, message="" if index % 2 else text)

    return record(*map(cell, range(number)), channel=channel)


def test_twenty_releases_of_a_thousand_cases_stay_below_five_megabytes() -> None:
    records = [half_failing(f"2.{minor}.0", 1000) for minor in range(20)]
    assert len(dataset.encode(dataset.build(records, [], [], {}))) < 5_000_000


def test_the_committed_records_give_a_data_set_that_is_read() -> None:
    records = record_files.load_all(files.matrix_dir() / "results")
    known = [release.version for release in releases.load()]
    found = dataset.outputs(dataset.build(records, known, quirks.load(), catalogue.load()))
    assert list(found) == ["canishard.json", "canishard.csv", "canishard.schema.json"]
    read = dataset.decode(found["canishard.json"])
    assert [measured.environment.name for measured in read.environments] == [
        item.name
        for item in sorted(records, key=lambda item: [int(n) for n in item.environment.channel.split(".")])
    ]
    jsonschema.validate(json.loads(found["canishard.json"]), json.loads(found["canishard.schema.json"]))
    assert not re.search(rb"/home/|/tmp/", found["canishard.json"])
    assert msgspec.json.decode(found["canishard.schema.json"])["title"] == "canishard's data set"
