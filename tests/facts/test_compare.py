"""What changed, over all pairs of statuses."""

from __future__ import annotations

import itertools

import pytest
from made_up import failed, outcome, record

from canishard.facts.compare import REGRESSIONS, CellChange, Change, changes, compare, counts
from canishard.launch.outcome import Kind, Outcome, Status

# Rows: the old status; columns: the new one. "wrong" stands for one and the same deviation on both sides.
HEAD = "pass wrong error unsupported missing hang crash flaky not_run infra unknown absent"
ORDER = HEAD.split(" ")
TABLE = """
pass         same   newly  regr   regr   regr   regr   regr   indet  lost   indet  indet  removed
wrong        fixed  same   kind   kind   kind   kind   kind   indet  lost   indet  indet  removed
error        fixed  newly  same   kind   kind   kind   kind   indet  lost   indet  indet  removed
unsupported  fixed  newly  kind   same   kind   kind   kind   indet  lost   indet  indet  removed
missing      fixed  newly  kind   kind   same   kind   kind   indet  lost   indet  indet  removed
hang         fixed  newly  kind   kind   kind   same   kind   indet  lost   indet  indet  removed
crash        fixed  newly  kind   kind   kind   kind   same   indet  lost   indet  indet  removed
flaky        indet  indet  indet  indet  indet  indet  indet  same   indet  indet  indet  removed
not_run      added  added  added  added  added  added  added  indet  same   indet  indet  removed
infra        indet  indet  indet  indet  indet  indet  indet  indet  indet  same   indet  removed
unknown      indet  indet  indet  indet  indet  indet  indet  indet  indet  indet  same   removed
absent       added  added  added  added  added  added  added  added  added  added  added  same
"""
WORDS = {
    "same": Change.SAME,
    "newly": Change.NEWLY_WRONG,
    "regr": Change.REGRESSED,
    "kind": Change.CHANGED_KIND,
    "indet": Change.INDETERMINATE,
    "lost": Change.LOST_COVERAGE,
    "fixed": Change.FIXED,
    "added": Change.ADDED,
    "removed": Change.REMOVED,
}
PAIRS = [
    (row.split()[0], new, WORDS[word])
    for row in TABLE.strip().splitlines()
    for new, word in zip(ORDER, row.split()[1:], strict=True)
]


def made(status: str) -> Outcome | None:
    return None if status == "absent" else outcome("a.x", status=status)


def test_the_table_is_whole() -> None:
    assert {*ORDER} == {status.value for status in Status} | {"absent"}
    assert [(old, new) for old, new, _ in PAIRS] == list(itertools.product(ORDER, ORDER))
    assert {change for _, _, change in PAIRS} == set(Change)


@pytest.mark.parametrize(("old", "new", "change"), PAIRS)
def test_kinds_are_compared_as_their_outcomes(old: str, new: str, change: Change) -> None:
    before, after = (None if status == "absent" else Kind(Status(status)) for status in (old, new))

    assert compare(before, after) is change


@pytest.mark.parametrize(("old", "new", "change"), PAIRS)
def test_compare(old: str, new: str, change: Change) -> None:
    assert compare(made(old), made(new)) is change


def test_another_deviation_is_another_kind() -> None:
    summed, halved = (outcome("a.x", status="wrong", deviation=text) for text in ("summed", "averaged twice"))
    assert compare(summed, halved) is Change.CHANGED_KIND
    assert compare(summed, summed) is Change.SAME


def test_another_message_is_the_same() -> None:
    assert compare(failed("a.x", message="one"), failed("a.x", message="another")) is Change.SAME


def test_added_and_removed_rows_are_no_regressions() -> None:
    assert {Change.REGRESSED, Change.NEWLY_WRONG} == REGRESSIONS


def test_changes_and_counts() -> None:
    old = record(outcome("a.x"), outcome("b.x"), outcome("c.x", 2), outcome("c.x", 4), outcome("e.x"))
    wrong = outcome("b.x", status="wrong", deviation="summed")
    new = record(
        outcome("a.x"), wrong, outcome("c.x", 4, "hang"), outcome("d.x", 1), outcome("e.x", status="crash")
    )
    found = changes(old, new)
    assert [str(change) for change in found] == [
        "newly_wrong: b.x (2 ranks): pass -> wrong (summed)",
        "removed: c.x (2 ranks): pass -> absent",
        "regressed: c.x (4 ranks): pass -> hang",
        "added: d.x (1 rank): absent -> pass",
        "regressed: e.x (2 ranks): pass -> crash",
    ]
    assert found[0] == CellChange(
        id="b.x", world_size=2, change=Change.NEWLY_WRONG, old=outcome("b.x"), new=wrong
    )
    assert list(counts(found).items()) == [
        (Change.REGRESSED, 2),
        (Change.NEWLY_WRONG, 1),
        (Change.ADDED, 1),
        (Change.REMOVED, 1),
    ]
    assert changes(new, new) == []
