"""What a night came to, and the record that the next one is compared with."""

from __future__ import annotations

import msgspec
import pytest
from made_up import outcome, record
from nightly.nights import (
    GRADIENTS,
    OTHER,
    PIPE,
    PRIM,
    ROWS,
    TRAIN,
    Story,
    cell,
    expectation,
    measured,
    without,
)

from canishard.errors import ConfigurationError, RecordError
from canishard.launch.outcome import Status
from canishard.nightly import verdict
from canishard.nightly.settle import settle
from canishard.nightly.state import Build, NightVerdict
from canishard.nightly.suspects import Suspects, suspects


def played(*nights: dict[str, str | None]) -> Story:
    story = Story()
    for cells in nights:
        story.night(cells)
    return story


# ---- the verdict ---------------------------------------------------------------------------------


def test_the_first_night_is_a_baseline() -> None:
    story = played({PIPE: "crash", TRAIN: "flaky", PRIM: None})
    assert story.last.verdict is NightVerdict.BASELINE
    assert [story.status(case_id) for case_id in (PIPE, GRADIENTS, TRAIN, PRIM)] == ["crash", "pass", "", ""]


def test_clean_and_changed() -> None:
    assert played({}, {}).last.verdict is NightVerdict.CLEAN
    story = played({}, {PIPE: "crash"})
    assert story.last.verdict is NightVerdict.CHANGED
    assert [str(change) for change in story.last.standing] == ["regressed: pp.gpipe (2 ranks): pass -> crash"]
    assert story.last.build == Build(
        torch="2.16.0.dev20260102+cpu", git_version=f"{2:040x}", date="2026-01-02"
    )
    assert story.last.confirmed == Build(
        torch="2.16.0.dev20260101+cpu", git_version=f"{1:040x}", date="2026-01-01"
    )


def test_a_suite_that_was_changed_as_a_whole_is_a_new_baseline() -> None:
    story = played({})
    story.night({PIPE: "crash"}, digests=dict.fromkeys(ROWS, "another"))
    assert story.last.verdict is NightVerdict.BASELINE
    assert story.status(PIPE) == "crash"


def test_a_mass_is_no_verdict_and_settles_nothing() -> None:
    names = [f"a.x{index}" for index in range(20)]
    before, tonight = measured(1, dict.fromkeys(names, "pass")), measured(2, dict.fromkeys(names, "crash"))
    found = suspects(before, tonight, [], {(name, 2) for name in names})
    settled = [
        settle(one, [cell(one.id, "crash")] * 3, [cell(one.id, "pass")] * 2, Status.PASS)
        for one in found.changed
    ]
    night = verdict.judged("2026-01-02", before, tonight, found, settled)
    assert (night.verdict, night.settled) == (NightVerdict.MASS, [])
    assert night.reason.startswith("20 of 20 comparable cells changed")
    assert verdict.next_confirmed(before, tonight, night) is before


def test_a_night_without_a_verdict_says_so_and_keeps_the_record() -> None:
    night = verdict.without("2026-01-02", NightVerdict.INFRA, "no disk")
    before = measured(1, {PIPE: "pass"})
    assert verdict.next_confirmed(before, measured(2, {PIPE: "crash"}), night) is before
    with pytest.raises(ConfigurationError, match="is no baseline"):
        verdict.next_confirmed(None, before, night)
    with pytest.raises(ConfigurationError, match="needs a record"):
        verdict.without("2026-01-02", NightVerdict.CLEAN, "")


# ---- what is confirmed next ----------------------------------------------------------------------


def test_a_change_that_stands_enters_with_tonights_build() -> None:
    story = played({PRIM: "wrong:summed"}, {PIPE: "crash", PRIM: "pass"})
    assert (story.status(PIPE), story.status(PRIM)) == ("crash", "pass")
    assert story.confirmed is not None
    assert story.confirmed.variant.torch == "2.16.0.dev20260102+cpu"


@pytest.mark.parametrize("again", [["pass", "crash", "crash"], ["infra", "crash", "crash"], ["crash"]])
def test_one_that_does_not_stand_leaves_the_cell_as_it_was(again: list[str]) -> None:
    story = played({})
    story.night({PIPE: "crash"}, again={PIPE: again})
    assert story.status(PIPE) == "pass"
    assert story.last.verdict is NightVerdict.CLEAN
    assert list(story.last.undecided) == [(PIPE, 2)]


def test_one_that_was_not_run_again_does_not_enter() -> None:
    before, tonight = measured(1, {PIPE: "pass"}), measured(2, {PIPE: "crash"})
    found = suspects(before, tonight, [], {(PIPE, 2)})
    night = verdict.judged("2026-01-02", before, tonight, found, [])
    assert verdict.next_confirmed(before, tonight, night).cells == before.cells
    assert night.undecided == {(PIPE, 2): "changed, and was not run again"}


@pytest.mark.parametrize("words", ["flaky", "not_run", None])
def test_a_cell_that_was_not_decided_keeps_its_outcome(words: str | None) -> None:
    story = played({}, {PIPE: words})
    assert story.status(PIPE) == "pass"
    story.night({PIPE: "crash"})
    assert [change.id for change in story.last.standing] == [PIPE]


def test_how_a_row_fails_most_often_is_what_enters() -> None:
    story = played({})
    story.night({PIPE: "error"}, again={PIPE: ["crash", "crash", "crash"]})
    assert story.status(PIPE) == "crash"


def test_an_expected_difference_never_enters() -> None:
    story = played({})
    story.night({PIPE: "crash"}, expected=[expectation()])
    assert (story.status(PIPE), story.last.verdict, story.last.undecided) == ("pass", NightVerdict.CLEAN, {})
    story.night({PIPE: "crash"})
    assert [change.id for change in story.last.standing] == [PIPE]


def test_added_rows_enter_and_removed_ones_leave() -> None:
    story = Story(without(ROWS, PIPE))
    story.night({OTHER: "crash"})
    story.rows = without(ROWS, OTHER)
    story.night({PIPE: "crash"})
    assert (story.status(PIPE), story.status(OTHER), story.last.standing) == ("crash", "", [])


def test_a_changed_check_enters_as_it_is_but_never_undecided() -> None:
    story = played({})
    story.night({PIPE: "crash", TRAIN: "flaky"}, digests={PIPE: "another", TRAIN: "another"})
    assert (story.status(PIPE), story.status(TRAIN), story.last.standing) == ("crash", "pass", [])
    assert list(story.last.undecided) == [(TRAIN, 2)]


def test_nothing_that_is_undecided_is_ever_confirmed() -> None:
    tonight = measured(1, {PIPE: "flaky", TRAIN: "pass", OTHER: "infra"})
    found = suspects(None, tonight, [], set())
    night = verdict.judged("2026-01-01", None, tonight, found, [])
    assert [one.id for one in verdict.next_confirmed(None, tonight, night).cells] == [TRAIN]


def test_not_even_where_the_baseline_that_was_handed_in_had_it() -> None:
    before, tonight = measured(1, {PIPE: "flaky", TRAIN: "pass"}), measured(2, {PIPE: "flaky", TRAIN: "pass"})
    found = suspects(before, tonight, [], {(PIPE, 2), (TRAIN, 2)})
    night = verdict.judged("2026-01-02", before, tonight, found, [])
    assert [one.id for one in verdict.next_confirmed(before, tonight, night).cells] == [TRAIN]
    assert list(night.undecided) == [(PIPE, 2)]


def test_why_nothing_is_known_of_a_cell() -> None:
    before = measured(1, dict.fromkeys((PIPE, TRAIN, OTHER, PRIM), "pass"))
    flaky = [outcome(PIPE, status="flaky"), outcome(TRAIN, status="flaky", message="pass, then crash")]
    cells = [*flaky, outcome(OTHER, status="not_run")]
    tonight = msgspec.structs.replace(before, cells=cells)
    found = suspects(before, tonight, [], {cell.key for cell in before.cells})
    assert verdict.judged("2026-01-02", before, tonight, found, []).undecided == {
        (PIPE, 2): "flaky",
        (TRAIN, 2): "flaky: pass, then crash",
        (OTHER, 2): "could not be run there",
        (PRIM, 2): "not measured: the machine's or our fault",
    }


# ---- the file ------------------------------------------------------------------------------------


def test_a_night_survives_its_file() -> None:
    story = played({PRIM: "wrong:summed"}, {PIPE: "crash", PRIM: "pass", TRAIN: "flaky", GRADIENTS: None})
    assert verdict.decode(verdict.encode(story.last)) == story.last


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "is no night of this canishard"),
        (b'{"date": "today", "verdict": "clean"}', r"Expected `str` matching regex .* at `\$.date`"),
        (b'{"date": "2026-01-01", "verdict": "clean", "more": 1}', "unknown field `more`"),
        (b"\xff", "is no night"),
    ],
)
def test_a_broken_night_is_one_line(content: bytes, words: str) -> None:
    with pytest.raises(RecordError, match=words) as raised:
        verdict.decode(content)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("case_id", ["a b", "a`b", "a|b", "<a>", "a\nb"])
def test_a_night_says_nothing_of_what_is_no_row(case_id: str) -> None:
    before, tonight = record(cell(case_id, "pass")), record(cell(case_id, "crash"))
    found = suspects(before, tonight, [], {(case_id, 2)})
    night = verdict.judged("2026-01-01", before, tonight, found, [])
    with pytest.raises(RecordError, match="is no cell"):
        verdict.decode(verdict.encode(night))


@pytest.mark.parametrize(("size", "is_cell"), [(1, True), (0, False), (-1, False)])
def test_a_night_says_nothing_of_no_ranks(size: int, *, is_cell: bool) -> None:
    before, tonight = record(outcome(PIPE, size)), record(outcome(PIPE, size, "crash"))
    night = verdict.judged("2026-01-01", before, tonight, suspects(before, tonight, [], {(PIPE, size)}), [])
    content = verdict.encode(night)
    if is_cell:
        assert verdict.decode(content) == night
        return
    with pytest.raises(RecordError, match="is no cell"):
        verdict.decode(content)


def test_every_change_is_every_list() -> None:
    fields = {field.name for field in msgspec.structs.fields(Suspects)} - {"comparable"}
    story = played({})
    story.night({PIPE: "crash", TRAIN: "flaky"})
    found = story.last.every_change
    assert {change.id for change in found} == {PIPE, TRAIN}
    assert fields == {
        "changed", "expected", "indeterminate", "lost_coverage", "digest_changed", "added", "removed"
    }  # fmt: skip
