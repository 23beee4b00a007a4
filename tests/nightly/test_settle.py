"""What stands, and what does not, from interleaved runs."""

from __future__ import annotations

import pytest
from made_up import environment, outcome, record
from nightly.nights import PIPE, cell

from canishard.facts.compare import CellChange, Change, compare
from canishard.launch.outcome import Status
from canishard.nightly.settle import Ruling, control_statuses, needed, settle
from canishard.releases import Release


def change(old: str, new: str) -> CellChange:
    before, after = cell(PIPE, old), cell(PIPE, new)
    return CellChange(id=PIPE, world_size=2, change=compare(before, after), old=before, new=after)


def ruling(old: str, new: str, runs: str, control: str = "pass pass", expected: str = "pass") -> Ruling:
    suspect = change(old, new)
    sides = [[cell(PIPE, words) for words in some.split()] for some in (runs, control)]
    return settle(suspect, sides[0], sides[1], Status(expected)).ruling


@pytest.mark.parametrize(
    ("old", "new", "runs"),
    [
        ("pass", "crash", "crash crash crash"),
        ("pass", "wrong:summed", "wrong:summed wrong:summed wrong:summed"),
        ("wrong:summed", "pass", "pass pass pass"),
        ("error", "hang", "hang hang"),
        ("wrong:summed", "wrong:twice", "wrong:twice wrong:twice wrong:twice"),
        ("crash", "wrong:summed", "wrong:summed wrong:summed wrong:summed"),
        ("pass", "missing", "missing missing missing"),
    ],
)
def test_it_stands(old: str, new: str, runs: str) -> None:
    assert ruling(old, new, runs) is Ruling.STANDS


@pytest.mark.parametrize(
    ("old", "new", "runs"),
    [
        ("pass", "crash", "crash pass crash"),
        ("pass", "crash", "pass pass pass"),
        ("pass", "crash", "crash crash flaky"),
        ("wrong:summed", "pass", "pass wrong:summed pass"),
        ("wrong:summed", "wrong:twice", "wrong:twice wrong:twice wrong:thrice"),
        ("error", "hang", "hang error"),
        ("pass", "hang", "hang pass"),
        ("crash", "wrong:summed", "wrong:summed crash wrong:summed"),
    ],
)
def test_mixed_is_flaky(old: str, new: str, runs: str) -> None:
    assert ruling(old, new, runs) is Ruling.FLAKY


@pytest.mark.parametrize(
    ("runs", "control", "expected"),
    [
        ("crash crash crash", "crash pass", "pass"),
        ("crash crash crash", "crash crash", "pass"),
        ("crash crash crash", "pass pass", "error"),
        ("crash crash crash", "pass", "pass"),
        ("crash crash", "pass pass", "pass"),
        ("crash infra crash", "pass pass", "pass"),
        ("crash crash crash", "infra pass", "pass"),
        ("crash pass crash", "error pass", "pass"),
    ],
    ids=[
        "the control fails once",
        "the control fails",
        "the control passes and should not",
        "too few runs of the control",
        "too few runs",
        "a fault on the new side",
        "a fault on the control's side",
        "mixed, and the control fails",
    ],
)
def test_a_fault_settles_nothing(runs: str, control: str, expected: str) -> None:
    assert ruling("pass", "crash", runs, control, expected) is Ruling.INFRA


def test_a_control_that_fails_as_its_record_says_vouches_for_the_machine() -> None:
    assert ruling("pass", "crash", "crash crash crash", "crash crash", "crash") is Ruling.STANDS
    assert ruling("pass", "crash", "crash crash crash", "missing missing", "missing") is Ruling.STANDS


@pytest.mark.parametrize("expected", ["unknown", "flaky"])
def test_without_a_record_the_control_must_not_show_the_same(expected: str) -> None:
    assert ruling("pass", "crash", "crash crash crash", "pass pass", expected) is Ruling.STANDS
    assert ruling("pass", "crash", "crash crash crash", "crash crash", expected) is Ruling.INFRA
    assert ruling("pass", "crash", "crash crash crash", "crash pass", expected) is Ruling.INFRA
    assert ruling("crash", "pass", "pass pass pass", "pass pass", expected) is Ruling.STANDS


def test_two_runs_and_one_of_the_control_are_enough_for_a_hang() -> None:
    assert needed(change("pass", "hang")) == (2, 1)
    assert needed(change("hang", "pass")) == (3, 2)
    assert ruling("pass", "hang", "hang hang", "pass") is Ruling.STANDS
    assert ruling("pass", "hang", "hang", "pass") is Ruling.INFRA


def test_what_fails_each_time_stands_however_it_fails() -> None:
    suspect = change("pass", "error")
    runs = [cell(PIPE, words) for words in ("crash", "crash", "wrong:summed")]
    found = settle(suspect, runs, [cell(PIPE, "pass")] * 2, Status.PASS)
    assert found.ruling is Ruling.STANDS
    assert found.change.new is not None
    assert (found.change.new.status, found.change.change) == (Status.CRASH, Change.REGRESSED)
    assert found.why == "each in fresh processes (new: 2 x crash, 1 x wrong (summed); control: 2 x pass)"


def test_of_two_frequent_ways_the_nights_own_is_taken() -> None:
    found = settle(
        change("pass", "error"),
        [cell(PIPE, words) for words in ("crash", "error", "crash")],
        [cell(PIPE, "pass")] * 2,
        Status.PASS,
    )
    assert found.change.new is not None
    assert found.change.new.status is Status.ERROR


CONTROL = Release(version="2.9.1", python="3.11")
DIGESTS = {"a.x": "a" * 16, "a.y": "b" * 16}


def test_what_the_control_is_expected_to_do_is_what_its_record_says() -> None:
    cells = [
        outcome("a.x", 2, "crash", digest="a" * 16),
        outcome("a.x", 4, digest="a" * 16),
        outcome("a.y", 2, digest="0" * 16),
        outcome("a.gone", 2),
    ]
    expected = control_statuses(CONTROL, environment("nightly"), [record(*cells, channel="2.9.1")], DIGESTS)
    assert expected == {("a.x", 2): Status.CRASH, ("a.x", 4): Status.PASS}


@pytest.mark.parametrize(
    "place",
    [
        {"channel": "2.9.0"},
        {"backend": "mpi"},
        {"device": "cuda"},
        {"flavour": "cpu"},
        {"python": "3.12"},
    ],
    ids=lambda place: next(iter(place)),
)
def test_a_record_of_elsewhere_expects_nothing_of_the_control(place: dict[str, str]) -> None:
    other = record(outcome("a.x", 2, "crash", digest="a" * 16), **{"channel": "2.9.1", **place})
    own = record(outcome("a.x", 2, "hang", digest="a" * 16), channel="2.9.1")
    night = environment("nightly")
    assert control_statuses(CONTROL, night, [other], DIGESTS) == {}
    assert control_statuses(CONTROL, night, [other, own], DIGESTS) == {("a.x", 2): Status.HANG}


@pytest.mark.parametrize("control", ["error pass", "flaky flaky", "hang error"])
def test_without_a_record_the_control_has_to_agree_with_itself(control: str) -> None:
    assert ruling("pass", "crash", "crash crash crash", control, "unknown") is Ruling.INFRA


def test_a_row_that_is_new_or_gone_is_settled_as_any_other() -> None:
    crash = cell(PIPE, "crash")
    new = CellChange(id=PIPE, world_size=2, change=Change.ADDED, old=None, new=crash)
    gone = CellChange(id=PIPE, world_size=2, change=Change.LOST_COVERAGE, old=crash, new=None)
    passes = [cell(PIPE, "pass")] * 2

    assert needed(gone) == (3, 2)
    assert settle(new, [crash] * 3, passes, Status.UNKNOWN).ruling is Ruling.STANDS
    found = settle(gone, [cell(PIPE, "not_run")] * 3, passes, Status.UNKNOWN)
    assert found.ruling is Ruling.STANDS
    assert found.change.new == cell(PIPE, "not_run")


def test_a_side_that_never_ran_is_told() -> None:
    found = settle(change("pass", "crash"), [], [], Status.PASS)
    assert found.why == "too few runs of the new build (new: no run; control: no run)"
