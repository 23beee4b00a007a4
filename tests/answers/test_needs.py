"""What a project needs: which rows it means, and the releases on which they all work."""

from __future__ import annotations

import pytest
from answers.test_dataset import CATALOGUE, MENDED, ROW, entry
from made_up import failed, outcome, quirk, record

from canishard.answers import dataset, needs
from canishard.answers.dataset import Dataset
from canishard.answers.needs import Holding
from canishard.errors import ConfigurationError
from canishard.record import Record

SGD, ADAMW = "fsdp2.train[optimizer=sgd]", "fsdp2.train[optimizer=adamw]"
PLACED = "dtensor.redistribute[from=partial,to=replicate]"
ROWS = {**CATALOGUE, **{row: entry(row) for row in (SGD, ADAMW, PLACED, "pp.gpipe", "pp.gpipe[scale=True]")}}
KNOWN = ["2.6.0", "2.7.0", "2.7.1", "2.8.0", "2.9.0", "2.9.1", "2.10.0"]


def made_up() -> Dataset:
    def column(channel: str, *failing: str) -> Record:
        return record(*(failed(row) if row in failing else outcome(row) for row in ROWS), channel=channel)

    records = [column("2.7.1", ROW, PLACED), column("2.8.0", ROW), column("2.9.0"), column("2.9.1")]
    return dataset.build(records, KNOWN, [quirk()], ROWS)


# ---- which rows ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("need", "rows"),
    [
        (ROW, [ROW]),
        (MENDED, [MENDED]),
        ("pp.gpipe", ["pp.gpipe"]),
        ("fsdp2", [ROW, SGD, ADAMW]),
        ("fsdp2.train", [SGD, ADAMW]),
        ("fsdp2.gradients", [ROW]),
        ("fsdp2.gradients*", [ROW, MENDED]),
        ("*.train[optimizer=???]", [SGD]),
    ],
)
def test_a_need_stands_for_rows(need: str, rows: list[str]) -> None:
    assert needs.resolve([need], made_up()) == rows


def test_rows_are_named_once_in_the_tables_order() -> None:
    assert needs.resolve(["pp", SGD, "fsdp2", "pp.gpipe"], made_up()) == [
        ROW, SGD, ADAMW, "pp.gpipe", "pp.gpipe[scale=True]",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("need", "hint"),
    [("fsdp", "did you mean fsdp2"), ("fsdp2.trian", "did you mean fsdp2.train"), ("zzz*", "")],
)
def test_a_need_that_stands_for_nothing_is_told(need: str, hint: str) -> None:
    with pytest.raises(ConfigurationError, match=r"stands for no row") as raised:
        needs.resolve([need], made_up())
    assert hint in str(raised.value)
    assert "allowed: an id, a pattern with * or ?, a family, or family.subject" in str(raised.value)


def test_commas_within_brackets_separate_parameters() -> None:
    assert needs.split(f"fsdp2, {PLACED},,pp.gpipe ") == ["fsdp2", PLACED, "pp.gpipe"]


# ---- whether they work ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("torch", "holding", "blocked", "unknown"),
    [
        ("2.9.1", Holding.HOLDS, [], []),
        ("2.9.1+cpu", Holding.HOLDS, [], []),
        ("2.8", Holding.BLOCKED, [ROW], []),
        ("2.10.0", Holding.UNKNOWN, [], [ROW, SGD]),
    ],
)
def test_needs_on_a_torch(torch: str, holding: Holding, blocked: list[str], unknown: list[str]) -> None:
    found = needs.evaluate(made_up(), [ROW, SGD], torch=torch)
    assert found.holding is holding
    assert [answer.row for answer in found.blocked] == blocked
    assert [answer.row for answer in found.unknown] == unknown


def test_one_row_that_does_not_work_outweighs_one_that_is_unknown() -> None:
    found = needs.evaluate(dataset.build([record(failed(ROW))], KNOWN, [], ROWS), [ROW, SGD], torch="2.8.0")
    assert (found.holding, found.release) == (Holding.BLOCKED, "2.8.0")
    assert [answer.row for answer in found.unknown] == [SGD]


def test_what_works_with_some_numbers_of_ranks_blocks_unless_one_is_named() -> None:
    data = dataset.build([record(outcome(ROW, 2), failed(ROW, 4))], KNOWN, [], ROWS)
    assert needs.evaluate(data, [ROW], torch="2.8.0").holding is Holding.BLOCKED
    assert needs.evaluate(data, [ROW], torch="2.8.0", world_size=2).holding is Holding.HOLDS


# ---- which releases ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("torch", "wanted"),
    [
        ([], ["2.10.0", "2.9.1", "2.8.0", "2.7.1", "2.6.0"]),
        ([">=2.8"], ["2.10.0", "2.9.1", "2.8.0"]),
        ([">=2.9,<2.9.1"], ["2.9.0"]),
        (["~=2.7.0"], ["2.7.1"]),
        (["2.8", "2.6.1", "<2.7"], ["2.8", "2.6.1", "2.6.0"]),
    ],
)
def test_one_patch_a_minor_is_taken_the_newest_measured_one(torch: list[str], wanted: list[str]) -> None:
    assert needs.select(made_up(), torch, backend="gloo", device="cpu") == wanted


def test_a_patch_that_was_measured_comes_before_a_newer_one_that_was_not() -> None:
    data = dataset.build([record(outcome(ROW), channel="2.9.0")], KNOWN, [], ROWS)
    assert needs.select(data, [">=2.9"], backend="gloo", device="cpu") == ["2.10.0", "2.9.0"]


def test_all_patches() -> None:
    assert needs.select(made_up(), ["<2.8"], backend="gloo", device="cpu", all_patches=True) == [
        "2.7.1", "2.7.0", "2.6.0",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("torch", "wanted"),
    [(">=x", "expected a specifier"), (">=3", "matches no release. Known: 2.6.0, "), ("new", "no version")],
)
def test_releases_that_there_are_not_are_told(torch: str, wanted: str) -> None:
    with pytest.raises(ConfigurationError, match=wanted):
        needs.select(made_up(), [torch], backend="gloo", device="cpu")


def test_a_missing_driver_where_it_was_measured_blocks_nobody() -> None:
    message = "RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version"
    cells = [failed(SGD, message=message), outcome(ADAMW)]
    found = dataset.build([record(*cells, channel="2.6.0")], KNOWN, [quirk()], ROWS)
    finding = needs.evaluate(found, [SGD, ADAMW], torch="2.6.0+cu124")
    assert (finding.holding, finding.blocked, finding.release) == (Holding.UNKNOWN, [], "2.6.0")
