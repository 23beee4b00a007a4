"""What is filed, updated, reopened and closed, night after night."""

from __future__ import annotations

import pytest
from nightly.nights import (
    GRADIENTS,
    OTHER,
    PIPE,
    PRIM,
    ROWS,
    TRAIN,
    Story,
    catalogue,
    expectation,
    kinds,
    row,
    without,
)

from canishard.catalogue import Entry
from canishard.errors import ConfigurationError
from canishard.nightly.actions import BLIND, FAULTS, GOOD_NIGHTS, NIGHTS, blindness, decide, followed
from canishard.nightly.causes import key_of
from canishard.nightly.state import REMEMBERED, Build, NightVerdict, RowState, TrackedRow
from canishard.nightly.verdict import without as without_verdict


def begun(cells: dict[str, str | None] | None = None, rows: dict[str, Entry] = ROWS) -> Story:
    story = Story(rows)
    story.night(cells)
    return story


def tracked(story: Story, root: str, case_id: str) -> TrackedRow:
    cause = next(cause for cause in story.state.causes if cause.root == root)
    return next(one for one in cause.rows if one.id == case_id)


# ---- the plain life of an issue ------------------------------------------------------------------


def test_an_issue_is_filed_kept_and_closed() -> None:
    story = begun()
    assert kinds(story.night({PIPE: "crash"})) == ["open pp.gpipe"]
    assert kinds(story.night({PIPE: "crash"})) == ["update pp.gpipe"]  # Its text alone: nobody is notified.
    assert kinds(story.night()) == ["close! pp.gpipe"]
    assert story.plan.actions[0].is_completed
    assert story.plan.actions[0].comment.startswith(
        "Confirmed fixed on `2.16.0.dev20260104+cpu` (2026-01-04)."
    )
    assert kinds(story.night()) == []
    assert story.state.causes[0].closed == "2026-01-04"


def test_what_was_broken_when_it_began_is_nobodys_news() -> None:
    story = begun({PIPE: "crash"})
    assert kinds(story.night({PIPE: "crash"})) == []
    assert kinds(story.night()) == []
    assert [str(one) for one in story.last.standing] == ["fixed: pp.gpipe (2 ranks): crash -> pass"]


def test_rows_under_one_cause_are_one_issue() -> None:
    story = begun()
    cells = dict.fromkeys((PRIM, OTHER, GRADIENTS, TRAIN), "wrong:summed")
    assert sorted(kinds(story.night({**cells, PIPE: "crash"}))) == ["open pp.gpipe", "open prim.scatter"]
    assert sorted(kinds(story.night({PIPE: "crash"}))) == ["close! prim.scatter", "update pp.gpipe"]


def test_it_is_reopened_under_its_number_when_it_recurs() -> None:
    story = begun()
    story.night({PIPE: "crash"})
    number = story.state.causes[0].issue
    story.night()
    assert kinds(story.night({PIPE: "hang"})) == ["reopen! pp.gpipe"]
    cause = story.state.causes[0]
    assert (cause.issue, cause.reopened, cause.closed) == (number, 1, None)
    assert cause.since.date == "2026-01-04"
    assert "It is back on `2.16.0.dev20260104+cpu`" in story.plan.actions[0].comment


def test_a_partial_fix_is_a_comment_and_no_end() -> None:
    story = begun()
    story.night({PRIM: "wrong:summed", GRADIENTS: "wrong:summed"})
    assert kinds(story.night({GRADIENTS: "wrong:summed"})) == ["update! prim.scatter"]
    assert "`prim.scatter[op=avg]` (2 ranks): works again (pass)" in story.plan.actions[0].comment
    assert [one.id for one in story.state.causes[0].open_rows] == [GRADIENTS]
    assert kinds(story.night({GRADIENTS: "wrong:summed"})) == ["update prim.scatter"]
    assert kinds(story.night()) == ["close! prim.scatter"]
    assert story.plan.actions[0].is_completed


def test_a_row_that_comes_back_under_an_open_cause_is_a_comment() -> None:
    story = begun()
    story.night({PRIM: "crash", GRADIENTS: "crash"})
    story.night({GRADIENTS: "crash"})
    assert kinds(story.night({PRIM: "crash", GRADIENTS: "crash"})) == ["update! prim.scatter"]
    assert "`prim.scatter[op=avg]` (2 ranks) is back: crash" in story.plan.actions[0].comment
    assert tracked(story, "prim.scatter", PRIM).since.date == "2026-01-04"
    assert tracked(story, "prim.scatter", GRADIENTS).since.date == "2026-01-02"


def test_a_sibling_that_breaks_later_joins_the_open_cause() -> None:
    story = begun()
    story.night({PRIM: "wrong:summed"})
    assert kinds(story.night({PRIM: "wrong:summed", OTHER: "wrong:summed"})) == ["update! prim.scatter"]
    assert "`prim.scatter[op=max]` (2 ranks) too: pass -> wrong (`summed`)" in story.plan.actions[0].comment


def test_another_way_of_failing_is_a_comment() -> None:
    story = begun()
    story.night({PIPE: "crash"})
    assert kinds(story.night({PIPE: "hang"})) == ["update! pp.gpipe"]
    assert "`pp.gpipe` (2 ranks): crash -> hang" in story.plan.actions[0].comment
    assert kinds(story.night({PIPE: "wrong:summed"})) == ["update! pp.gpipe"]
    assert tracked(story, "pp.gpipe", PIPE).since.date == "2026-01-02"
    assert kinds(story.night()) == ["close! pp.gpipe"]


def test_what_was_no_pass_before_need_not_become_one() -> None:
    story = begun({PIPE: "error"})
    assert kinds(story.night({PIPE: "wrong:summed"})) == ["open pp.gpipe"]
    assert kinds(story.night({PIPE: "error"})) == ["close! pp.gpipe"]
    assert "works again: error" in story.plan.actions[0].body


def test_a_fix_alone_files_nothing() -> None:
    story = begun({PRIM: "wrong:summed", GRADIENTS: "wrong:summed"})
    assert kinds(story.night()) == []
    assert story.last.verdict is NightVerdict.CHANGED


def test_another_kind_of_failure_that_nobody_follows_files_nothing() -> None:
    story = begun({PIPE: "error"})
    assert kinds(story.night({PIPE: "crash"})) == []


# ---- which cause ---------------------------------------------------------------------------------


def test_a_row_that_failed_before_is_not_explained_by_what_fails_later() -> None:
    story = begun()
    assert kinds(story.night({GRADIENTS: "crash"})) == ["open fsdp.gradients"]
    assert sorted(kinds(story.night({GRADIENTS: "crash", PRIM: "crash"}))) == [
        "open prim.scatter",
        "update fsdp.gradients",
    ]


def test_a_row_that_fails_later_is_not_explained_by_what_failed_before() -> None:
    story = begun()
    story.night({PRIM: "crash"})
    assert sorted(kinds(story.night({PRIM: "crash", GRADIENTS: "crash"}))) == [
        "open fsdp.gradients",
        "update prim.scatter",
    ]


def test_one_that_was_undecided_when_its_cause_broke_joins_it() -> None:
    story = begun()
    story.night({PRIM: "crash", GRADIENTS: "flaky"})
    assert kinds(story.night({PRIM: "crash", GRADIENTS: "crash"})) == ["update! prim.scatter"]
    found = tracked(story, "prim.scatter", GRADIENTS)
    assert (found.good.date, found.since.date) == ("2026-01-01", "2026-01-03")


def test_a_cause_that_was_undecided_when_its_rows_broke_takes_the_issue_over() -> None:
    story = begun()
    assert kinds(story.night({PRIM: "flaky", TRAIN: "crash", GRADIENTS: "crash"})) == ["open fsdp.gradients"]
    number = story.state.causes[0].issue
    assert kinds(story.night({PRIM: "crash", TRAIN: "crash", GRADIENTS: "crash"})) == ["update! prim.scatter"]
    assert story.plan.actions[0].title.startswith("prim.scatter: pass -> crash, and 2 more rows")
    story.night()
    assert kinds(story.night({PRIM: "crash"})) == ["reopen! prim.scatter"]  # By its root, whatever its key.
    assert [cause.issue for cause in story.state.causes] == [number]


def test_the_range_begins_where_the_cell_was_last_decided() -> None:
    story = begun()
    story.night({PIPE: None})
    story.night({PIPE: "flaky"})
    story.night({PIPE: "crash"})
    found = tracked(story, "pp.gpipe", PIPE)
    assert (found.good.torch, found.since.torch) == ("2.16.0.dev20260101+cpu", "2.16.0.dev20260104+cpu")


def test_a_row_that_was_under_an_open_cause_goes_back_there() -> None:
    story = begun()
    story.night({PRIM: "crash", GRADIENTS: "crash"})
    story.night({PRIM: "crash"})
    assert kinds(story.night({PRIM: "crash", GRADIENTS: "hang"})) == ["update! prim.scatter"]
    assert "`fsdp.gradients` (2 ranks) is back: hang" in story.plan.actions[0].comment


# ---- neither alarm nor silence -------------------------------------------------------------------


def test_a_flaky_night_moves_nothing() -> None:
    story = begun()
    assert kinds(story.night({PIPE: "crash"}, again={PIPE: ["crash", "pass", "crash"]})) == []
    assert story.last.verdict is NightVerdict.CLEAN
    story.night({PIPE: "crash"})
    assert kinds(story.night(again={PIPE: ["pass", "crash", "pass"]})) == ["update pp.gpipe"]
    body = story.plan.actions[0].body
    assert "**open**, not decided tonight" in body
    assert "new: 3 x crash; control: 2 x pass" in body
    assert "disagree" not in body


@pytest.mark.parametrize("words", ["flaky", "not_run", None])
def test_an_open_cause_is_not_closed_by_what_was_not_decided(words: str | None) -> None:
    story = begun()
    story.night({PIPE: "crash"})
    assert kinds(story.night({PIPE: words})) == ["update pp.gpipe"]
    assert story.state.causes[0].open_rows
    assert kinds(story.night()) == ["close! pp.gpipe"]


def test_a_night_without_a_verdict_touches_no_issue() -> None:
    story = begun()
    story.night({PIPE: "crash"})
    before = story.state
    assert kinds(story.fault()) == []
    assert (story.state.causes, story.state.confirmed) == (before.causes, before.confirmed)
    assert story.state.stale_since == "2026-01-02"
    assert kinds(story.same()) == []
    assert story.state.stale_since == "2026-01-02"
    assert kinds(story.night({PIPE: "crash"})) == ["update pp.gpipe"]


def test_three_faults_in_a_row_are_told_once_and_taken_back() -> None:
    story = begun()
    assert [kinds(story.fault()) for _ in range(FAULTS)] == [[], [], [f"open {BLIND}"]]
    assert kinds(story.fault()) == [f"update {BLIND}"]
    assert kinds(story.night()) == [f"close! {BLIND}"]
    assert story.plan.actions[0].is_completed
    assert story.state.blind is not None
    number = story.state.blind.issue
    assert number is not None
    assert kinds(story.night()) == []
    assert [kinds(story.fault()) for _ in range(FAULTS)] == [[], [], [f"reopen! {BLIND}"]]
    assert story.plan.state.blind is not None
    assert story.plan.state.blind.issue == number


def test_nights_with_the_same_build_are_no_faults_but_are_told_in_the_end() -> None:
    story = begun()
    assert [kinds(story.same()) for _ in range(NIGHTS)] == [[]] * (NIGHTS - 1) + [[f"open {BLIND}"]]
    assert kinds(story.night()) == [f"close! {BLIND}"]


def test_faults_with_the_same_build_between_them_are_counted() -> None:
    story = begun()
    story.fault()
    story.same()
    story.fault()
    assert kinds(story.fault()) == [f"open {BLIND}"]


def test_a_mass_is_told_at_once_by_one_notice() -> None:
    rows = catalogue(*(row(f"a.x{index}") for index in range(20)), row(PIPE))
    story = begun(rows=rows)
    story.night({PIPE: "crash"})
    assert kinds(story.night({f"a.x{index}": "crash" for index in range(20)})) == [f"open {BLIND}"]
    assert "20 of 21 comparable cells changed" in story.plan.actions[0].body
    assert story.status("a.x0") == "pass"
    assert sorted(kinds(story.night({PIPE: "crash"}))) == [f"close! {BLIND}", "update pp.gpipe"]


@pytest.mark.parametrize("words", ["flaky", "not_run", None])
def test_a_cell_that_is_never_decided_is_told_after_a_week(words: str | None) -> None:
    story = begun()
    assert [kinds(story.night({PIPE: words})) for _ in range(NIGHTS)] == [[]] * (NIGHTS - 1) + [
        [f"open {BLIND}"]
    ]
    assert "1 cell could not be decided for 7 nights in a row or more" in story.plan.actions[0].body
    assert kinds(story.night({PIPE: words})) == [f"update {BLIND}"]
    assert kinds(story.night()) == [f"close! {BLIND}"]


def test_another_one_is_a_comment() -> None:
    story = begun()
    story.night({PIPE: "flaky"})
    for _ in range(NIGHTS - 1):
        story.night({PIPE: "flaky", TRAIN: "flaky"})
    assert kinds(story.night({PIPE: "flaky", TRAIN: "flaky"})) == [f"update! {BLIND}"]
    assert "2 cells could not be decided" in story.plan.actions[0].comment


def test_one_that_is_decided_now_and_then_is_not_told() -> None:
    story = begun()
    for _ in range(2):
        for _ in range(NIGHTS - 1):
            assert kinds(story.night({PIPE: "flaky"})) == []
        assert kinds(story.night()) == []
    assert story.state.unsettled == []


def test_a_row_that_is_flaky_from_its_first_night_on_is_told() -> None:
    story = begun({PIPE: "flaky"})
    assert [kinds(story.night({PIPE: "flaky"})) for _ in range(NIGHTS - 1)][-1] == [f"open {BLIND}"]


def test_an_expected_difference_is_told_by_no_issue() -> None:
    story = begun()
    for _ in range(NIGHTS + 1):
        assert kinds(story.night({PIPE: "crash"}, expected=[expectation()])) == []
    assert story.state.unsettled == []
    assert kinds(story.night({PIPE: "crash"})) == ["open pp.gpipe"]


def test_a_cell_that_flaps_from_night_to_night_is_told_and_then_left_in_peace() -> None:
    story, bad = begun(), {PIPE: "crash"}
    assert [kinds(story.night(cells))[0] for cells in [bad, {}, bad, {}, bad]] == [
        "open pp.gpipe",
        "close! pp.gpipe",
        "reopen! pp.gpipe",
        "close! pp.gpipe",
        "reopen! pp.gpipe",
    ]
    for cells in [{}, bad] * 4:
        assert kinds(story.night(cells)) == ["update pp.gpipe"]
    nights = [kinds(story.night()) for _ in range(GOOD_NIGHTS)]
    assert nights == [["update pp.gpipe"]] * (GOOD_NIGHTS - 1) + [["close! pp.gpipe"]]


def test_a_night_on_which_it_was_not_decided_is_no_good_night() -> None:
    story, bad = begun(), {PIPE: "crash"}
    for cells in [bad, {}, bad, {}, bad]:
        story.night(cells)
    for _ in range(GOOD_NIGHTS - 1):
        story.night()
    assert kinds(story.night({PIPE: "flaky"})) == ["update pp.gpipe"]
    assert kinds(story.night()) == ["close! pp.gpipe"]


# ---- the suite changes ---------------------------------------------------------------------------


def test_a_row_that_leaves_the_suite_is_not_fixed() -> None:
    story = begun()
    story.night({PIPE: "crash"})
    story.rows = without(ROWS, PIPE)
    assert kinds(story.night()) == ["close! pp.gpipe"]
    action = story.plan.actions[0]
    assert not action.is_completed
    assert "this was not confirmed fixed" in action.comment
    assert "no longer measured: `pp.gpipe` (2 ranks)" in action.comment
    assert "Confirmed fixed" not in action.comment + action.body


def test_where_others_remain_it_goes_on() -> None:
    story = begun()
    story.night({PRIM: "crash", GRADIENTS: "crash"})
    story.rows = without(ROWS, PRIM)
    assert kinds(story.night({GRADIENTS: "crash"})) == ["update! prim.scatter"]
    assert "`prim.scatter[op=avg]` (2 ranks): no longer measured" in story.plan.actions[0].comment
    assert kinds(story.night()) == ["close! prim.scatter"]
    action = story.plan.actions[0]
    assert not action.is_completed
    assert "not every row was confirmed fixed" in action.comment


def test_one_that_was_fixed_before_it_left_is_fixed() -> None:
    story = begun()
    story.night({PRIM: "crash", GRADIENTS: "crash"})
    story.night({GRADIENTS: "crash"})
    story.rows = without(ROWS, PRIM)
    assert kinds(story.night({GRADIENTS: "crash"})) == ["update prim.scatter"]
    assert kinds(story.night()) == ["close! prim.scatter"]
    assert story.plan.actions[0].is_completed


def test_one_that_comes_back_failing_reopens_its_issue() -> None:
    story = begun()
    story.night({PIPE: "crash"})
    story.rows = without(ROWS, PIPE)
    story.night()
    story.rows = dict(ROWS)
    assert kinds(story.night({PIPE: "crash"})) == ["reopen! pp.gpipe"]
    assert kinds(story.night()) == ["close! pp.gpipe"]
    assert story.plan.actions[0].is_completed


def test_one_that_comes_back_working_does_nothing() -> None:
    story = begun()
    story.night({PIPE: "crash"})
    story.rows = without(ROWS, PIPE)
    story.night()
    story.rows = dict(ROWS)
    assert kinds(story.night()) == []
    assert tracked(story, "pp.gpipe", PIPE).state is RowState.FIXED


def test_a_changed_check_that_passes_is_not_called_fixed() -> None:
    story = begun()
    story.night({PIPE: "crash"})
    assert kinds(story.night(digests={PIPE: "another"})) == ["close! pp.gpipe"]
    action = story.plan.actions[0]
    assert not action.is_completed
    assert "passes since its check was changed: `pp.gpipe` (2 ranks)" in action.comment


def test_a_changed_check_that_still_fails_stays_open() -> None:
    story, digests = begun(), {PIPE: "another"}
    story.night({PIPE: "crash"})
    assert kinds(story.night({PIPE: "crash"}, digests=digests)) == ["update pp.gpipe"]
    assert tracked(story, "pp.gpipe", PIPE).digest == "another"
    assert kinds(story.night(digests=digests)) == ["close! pp.gpipe"]
    assert story.plan.actions[0].is_completed


def test_a_changed_check_that_did_not_run_says_nothing() -> None:
    story = begun()
    story.night({PIPE: "crash"})
    assert kinds(story.night({PIPE: "not_run"}, digests={PIPE: "another"})) == ["update pp.gpipe"]
    assert story.state.causes[0].open_rows


def test_a_changed_check_does_not_bring_a_fixed_row_back() -> None:
    story, digests = begun(), {PRIM: "another"}
    story.night({PRIM: "crash", GRADIENTS: "crash"})
    story.night({GRADIENTS: "crash"})
    assert kinds(story.night({PRIM: "crash", GRADIENTS: "crash"}, digests=digests)) == ["update prim.scatter"]
    assert kinds(story.night({PRIM: "crash", GRADIENTS: "crash"}, digests=digests)) == ["update prim.scatter"]
    assert [one.id for one in story.state.causes[0].open_rows] == [GRADIENTS]


def test_an_added_row_that_fails_is_no_regression() -> None:
    story = Story(without(ROWS, PIPE))
    story.night()
    story.rows = dict(ROWS)
    assert kinds(story.night({PIPE: "crash"})) == []
    assert story.last.verdict is NightVerdict.CLEAN


# ---- what is remembered --------------------------------------------------------------------------


def test_the_history_is_bounded_and_closed_causes_go_with_it() -> None:
    story = begun()
    story.night({PIPE: "crash"})
    story.night()
    assert [cause.closed for cause in story.state.causes] == ["2026-01-03"]
    for _ in range(REMEMBERED - 1):
        story.fault()
        story.number = min(story.number, 30)  # Days of one month.
    assert len(story.state.history) == REMEMBERED
    assert [cause.root for cause in story.state.causes] == ["pp.gpipe"]
    story.fault()
    assert [cause.root for cause in story.state.causes] == []
    assert len(story.state.history) == REMEMBERED


def test_the_history_says_what_each_night_came_to() -> None:
    story = begun({TRAIN: "flaky"})
    story.fault("no disk", Build(torch="2.16.0.dev20260102", git_version="abc"))
    first, second = story.state.history
    assert (first.date, first.verdict, first.indeterminate) == ("2026-01-01", NightVerdict.BASELINE, 1)
    assert (second.torch, second.git_version, second.reason) == ("2.16.0.dev20260102", "abc", "no disk")


def test_another_backend_has_a_state_of_its_own() -> None:
    story = begun()
    story.night({PIPE: "crash"})
    night = without_verdict("2026-01-03", NightVerdict.INFRA, "no driver", backend="nccl", device="cuda")
    with pytest.raises(ConfigurationError, match="follows gloo on cpu, and the night is of nccl on cuda"):
        decide(story.state, night, None, story.suite, story.rows)


def test_what_should_be_open() -> None:
    story = begun()
    assert followed(story.state) == set()
    story.night({PIPE: "crash", PRIM: "crash"})
    story.night({PIPE: "crash"})
    assert followed(story.state) == {key_of(PIPE, "gloo", "cpu")}
    for _ in range(FAULTS):
        story.fault()
    assert followed(story.state) == {key_of(PIPE, "gloo", "cpu"), key_of(BLIND, "gloo", "cpu")}
    story.night()
    assert followed(story.state) == set()


def test_where_it_can_judge_it_says_nothing() -> None:
    story = begun()
    assert blindness(story.state, story.last) == {}


def test_the_same_night_gives_the_same_plan() -> None:
    one, other = begun(), begun()
    cells = {PRIM: "crash", GRADIENTS: "crash", PIPE: "wrong:summed"}
    assert one.night(cells) == other.night(dict(reversed(cells.items())))
