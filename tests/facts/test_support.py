"""What people quote of a row."""

from __future__ import annotations

import msgspec
import pytest
from made_up import outcome, record

from canishard.facts.support import Span, Support, Verdict, ranges, support
from canishard.launch.outcome import Outcome
from canishard.record import Record

RELEASES = ["2.4.0", "2.4.1", "2.5.1", "2.6.0", "2.7.1", "2.8.0", "2.9.1", "2.10.0"]
ID = "fsdp2.gradients[reduce=default]"


def row(**statuses: str) -> list[Record]:
    """Return a record per release: ``_2_8_0="wrong"``."""
    channels = {name[1:].replace("_", "."): status for name, status in statuses.items()}
    return [record(outcome(ID, status=status), channel=channel) for channel, status in channels.items()]


def one(records: list[Record], flavour: str | None = None) -> Support:
    (found,) = support(records, RELEASES, flavour)
    return found


def test_a_row_from_a_gap_to_the_newest() -> None:
    records = row(_2_4_1="missing", _2_6_0="error", _2_8_0="wrong", _2_9_1="pass", _2_10_0="pass")
    assert one(records).spans == [
        Span(
            verdict=Verdict.NO,
            first="2.4.1",
            last="2.4.1",
            since="<=2.4.1",
            until=">=2.4.1 <2.6.0",
            note="missing",
        ),
        Span(
            verdict=Verdict.NO,
            first="2.6.0",
            last="2.6.0",
            since=">2.4.1 <=2.6.0",
            until=">=2.6.0 <2.8.0",
            note="error",
        ),
        Span(
            verdict=Verdict.NO,
            first="2.8.0",
            last="2.8.0",
            since=">2.6.0 <=2.8.0",
            until="2.8.0",
            note="wrong",
        ),
        Span(verdict=Verdict.YES, first="2.9.1", last="2.10.0", since="2.9.1", until="", note=""),
    ]
    assert str(one(records)) == (
        "yes since 2.9.1; no since >2.6.0 <=2.8.0 until 2.8.0 (wrong); "
        "no since >2.4.1 <=2.6.0 until >=2.6.0 <2.8.0 (error); no since <=2.4.1 until >=2.4.1 <2.6.0 (missing)"
    )


@pytest.mark.parametrize(
    ("records", "wanted"),
    [
        (row(_2_9_1="pass"), "yes since <=2.9.1"),
        (row(_2_8_0="pass", _2_9_1="crash"), "no since 2.9.1 (crash); yes since <=2.8.0 until 2.8.0"),
        (row(_2_8_0="pass", _2_9_1="not_run", _2_10_0="pass"), "yes since <=2.8.0"),
        (row(_2_8_0="flaky"), "partial since <=2.8.0 (flaky: 2 ranks)"),
        (row(_2_8_0="pass", _2_99_0="pass"), "yes since <=2.8.0"),
        ([record(outcome(ID, names=["torch._old"]))], "yes since <=2.8.0 (as torch._old)"),
        (
            [record(outcome(ID, 1), outcome(ID, 2, "wrong", deviation="summed"), outcome(ID, 4, "wrong", deviation="summed"))],
            "partial since <=2.8.0 (pass: 1 rank; wrong (summed): 2 ranks, 4 ranks)",
        ),
        (
            [record(outcome(ID)), record(outcome(ID, status="error"), flavour="cpu")],
            (
                "partial since <=2.8.0 (error: 2 ranks on the cpu build; "
                "pass: 2 ranks on the cuda-nodriver build)"
            ),
        ),
        (
            [record(outcome(ID, 2, "error"), outcome(ID, 4, "hang"))],
            "no since <=2.8.0 (error; hang)",
        ),
        (
            [record(outcome(ID, status="hang")), record(outcome(ID, status="hang"), python="3.12")],
            "no since <=2.8.0 (hang)",
        ),
        (
            [record(outcome(ID, names=["old"])), record(outcome(ID, names=["old"]), python="3.12")],
            "yes since <=2.8.0 (as old)",
        ),
        (
            [record(outcome(ID, status="hang")), record(outcome(ID, status="error"), python="3.12")],
            "no since <=2.8.0 (error: 2 ranks on Python 3.12; hang: 2 ranks on Python 3.11)",
        ),
        (
            [record(outcome(ID)), record(outcome(ID, status="error"), python="3.12")],
            "partial since <=2.8.0 (error: 2 ranks on Python 3.12; pass: 2 ranks on Python 3.11)",
        ),
    ],
    ids=["oldest", "until", "not run", "flaky", "unlisted", "old name", "world size", "build", "two ways",
         "two Pythons that agree", "two Pythons that pass", "two Pythons, two ways", "two Pythons that differ"],
)  # fmt: skip
def test_in_words(records: list[Record], wanted: str) -> None:
    assert str(one(records)) == wanted


def builds(channel: str, *cells: Outcome, **more: str) -> list[Record]:
    """Return the records of two builds of a release that did the same; notes are the first one's own."""
    first = [msgspec.structs.replace(cell, notes=["torn down late"]) for cell in cells]
    return [record(*first, channel=channel), record(*cells, channel=channel, **{"flavour": "cpu", **more})]


def test_builds_that_did_the_same_are_one_statement_and_releases_one_span() -> None:
    cells = [outcome(ID, 2), outcome(ID, 4, "wrong", deviation="summed")]

    found = one([*builds("2.7.1", *cells), *builds("2.8.0", *cells)])

    assert str(found) == "partial since <=2.7.1 (pass: 2 ranks; wrong (summed): 4 ranks)"
    assert str(one(builds("2.8.0", outcome(ID)))) == "yes since <=2.8.0"


def test_builds_that_differ_are_named_alike_on_every_release() -> None:
    def differing(channel: str) -> list[Record]:
        first = record(outcome(ID), outcome(ID, 4), channel=channel)
        other = record(outcome(ID), outcome(ID, 4, "hang"), channel=channel, flavour="cpu", python="3.12")
        return [first, other]

    assert str(one([*differing("2.7.1"), *differing("2.8.0")])) == (
        "partial since <=2.7.1 (hang: 4 ranks on the cpu build, Python 3.12; "
        "pass: 2 ranks, 4 ranks on the cuda-nodriver build, Python 3.11)"
    )


def test_one_build_only() -> None:
    records = [record(outcome(ID)), record(outcome(ID, status="error"), flavour="cpu")]
    assert str(one(records, "cpu")) == "no since <=2.8.0 (error)"
    assert one(records).flavours == ["cpu", "cuda-nodriver"]
    assert one(records, "cpu").flavours == ["cpu"]


def test_one_statement_a_row_backend_and_device() -> None:
    def cells(*ids: str) -> list[Outcome]:
        return [outcome(case_id) for case_id in ids]

    records = [
        record(*cells("b.x", "a.x")),
        record(*cells("a.x"), backend="mpi"),
        record(*cells("c.x"), channel="nightly"),
        record(outcome("d.x", status="not_run")),
    ]
    found = [(item.id, item.backend, item.device) for item in support(records, RELEASES)]
    assert found == [("a.x", "gloo", "cpu"), ("a.x", "mpi", "cpu"), ("b.x", "gloo", "cpu")]


@pytest.mark.parametrize(
    ("some", "wanted"),
    [
        (["2.4.1"], "2.4.1"),
        (["2.6.0", "2.5.1"], "2.5.1 to 2.6.0"),
        (["2.4.1", "2.6.0", "2.7.1", "2.8.0"], "2.4.1, 2.6.0 to 2.8.0"),
        ([], ""),
    ],
)
def test_ranges(some: list[str], wanted: str) -> None:
    assert ranges(some, ["2.4.1", "2.5.1", "2.6.0", "2.7.1", "2.8.0"]) == wanted
