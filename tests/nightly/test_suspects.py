"""Which cells of a night are suspects, and which are not."""

from __future__ import annotations

import pytest
from made_up import outcome, record
from nightly.nights import GRADIENTS, OTHER, PIPE, PRIM, TRAIN, cell, expectation, ids, measured

from canishard.errors import ConfigurationError
from canishard.facts.compare import Change
from canishard.nightly.suspects import MASS_AT_LEAST, is_mass, suspects
from canishard.record import Record

SUITE = {(case_id, 2) for case_id in (PRIM, OTHER, GRADIENTS, TRAIN, PIPE)}
BEFORE = {PRIM: "wrong:summed", OTHER: "pass", GRADIENTS: "error", TRAIN: "pass", PIPE: "pass"}


def test_changes_of_torch_are_run_again() -> None:
    tonight = {PRIM: "pass", OTHER: "crash", GRADIENTS: "hang", TRAIN: "wrong:summed", PIPE: "pass"}
    found = suspects(measured(1, BEFORE), measured(2, tonight), [], SUITE)
    assert {change.id: change.change for change in found.changed} == {
        PRIM: Change.FIXED,
        OTHER: Change.REGRESSED,
        GRADIENTS: Change.CHANGED_KIND,
        TRAIN: Change.NEWLY_WRONG,
    }
    assert found.comparable == 5


def test_what_was_not_measured_is_not_removed() -> None:
    tonight = measured(2, {case_id: BEFORE[case_id] for case_id in (PRIM, OTHER)})
    found = suspects(measured(1, BEFORE), tonight, [], SUITE - {(PIPE, 2)})
    assert (ids(found.removed), ids(found.indeterminate), found.changed) == ([PIPE], [GRADIENTS, TRAIN], [])
    assert {one.change for one in found.indeterminate} == {Change.INDETERMINATE}
    assert found.removed[0].change is Change.REMOVED
    assert found.comparable == 4


def test_a_row_that_was_never_decided_is_indeterminate() -> None:
    both = {case_id: words for case_id, words in BEFORE.items() if case_id != PIPE}
    found = suspects(measured(1, both), measured(2, both), [], SUITE)
    assert ids(found.indeterminate) == [PIPE]
    assert found.doubtful == 0


def test_a_changed_check_is_not_compared() -> None:
    tonight = measured(2, {**BEFORE, PIPE: "crash"}, {PIPE: "another", TRAIN: "another"})
    found = suspects(measured(1, BEFORE), tonight, [], SUITE)
    assert ids(found.digest_changed) == [TRAIN, PIPE]
    assert (found.changed, found.comparable) == ([], 3)


def test_flaky_not_run_and_added() -> None:
    tonight = measured(2, {**BEFORE, TRAIN: "flaky", PIPE: "not_run", "new.row": "crash"})
    found = suspects(measured(1, BEFORE), tonight, [], SUITE)
    assert (ids(found.indeterminate), ids(found.lost_coverage), ids(found.added)) == (
        [TRAIN],
        [PIPE],
        ["new.row"],
    )
    assert found.changed == []


def test_a_baseline_that_was_handed_in_may_hold_a_flaky_cell() -> None:
    found = suspects(measured(1, {**BEFORE, PIPE: "flaky"}), measured(2, BEFORE), [], SUITE)
    assert (ids(found.added), found.changed, found.comparable) == ([PIPE], [], 4)


def test_the_first_night_adds_everything() -> None:
    found = suspects(None, measured(1, BEFORE), [], SUITE)
    assert (sorted(ids(found.added)), found.comparable) == (sorted(BEFORE), 0)


def test_an_expected_change_is_apart() -> None:
    tonight = measured(2, {**BEFORE, PIPE: "crash"})
    found = suspects(measured(1, BEFORE), tonight, [expectation()], SUITE)
    assert (found.changed, [one.change.id for one in found.expected]) == ([], [PIPE])
    other = suspects(measured(1, BEFORE), measured(2, {**BEFORE, PIPE: "hang"}), [expectation()], SUITE)
    assert (ids(other.changed), other.expected) == ([PIPE], [])


def test_a_row_can_be_expected_to_be_flaky_or_not_to_run() -> None:
    entry = expectation(statuses=["flaky", "not_run"])
    for words in ("flaky", "not_run"):
        found = suspects(measured(1, BEFORE), measured(2, {**BEFORE, PIPE: words}), [entry], SUITE)
        assert [one.change.id for one in found.expected] == [PIPE]
        assert (found.indeterminate, found.lost_coverage) == ([], [])


@pytest.mark.parametrize("field", ["flavour", "backend", "device", "python", "machine"])
def test_another_series_is_refused(field: str) -> None:
    more = {"flavour": "cpu", "backend": "mpi", "device": "xpu", "python": "3.12", "machine": "arm64"}
    with pytest.raises(ConfigurationError, match="another series"):
        suspects(record(cell(PIPE, "pass")), record(cell(PIPE, "pass"), **{field: more[field]}), [], SUITE)


def test_releases_stand_in_for_nightlies() -> None:
    found = suspects(record(channel="2.8.0"), record(channel="2.9.1"), [], set())
    assert found.comparable == 0


# ---- too much at once ----------------------------------------------------------------------------


def many(number: int, words: str, count: int = 100) -> Record:
    return measured(2, {f"a.x{index}": words if index < number else "pass" for index in range(count)})


def mass(number: int, words: str, count: int = 100, before: str = "pass") -> bool:
    suite = {(f"a.x{index}", 2) for index in range(count)}
    return is_mass(suspects(many(count, before, count), many(number, words, count), [], suite))


@pytest.mark.parametrize("words", ["crash", "wrong:summed", "flaky", "not_run"])
def test_more_than_three_in_ten_is_a_mass(words: str) -> None:
    assert not mass(30, words)
    assert mass(31, words)


def test_a_broken_environment_mends_nothing() -> None:
    before = {f"a.x{index}": "wrong:summed" for index in range(100)}
    tonight = dict.fromkeys(before, "pass")
    assert not is_mass(
        suspects(measured(1, before), measured(2, tonight), [], {(name, 2) for name in before})
    )


def test_cells_that_were_not_measured_count() -> None:
    suite = {(f"a.x{index}", 2) for index in range(100)}
    tonight = measured(2, {f"a.x{index}": "pass" for index in range(69)})
    assert is_mass(suspects(many(0, "pass"), tonight, [], suite))


def test_expected_ones_do_not() -> None:
    suite = {(f"a.x{index}", 2) for index in range(100)}
    entry = expectation(cases=["a.*"])
    assert not is_mass(suspects(many(0, "pass"), many(40, "crash"), [entry], suite))


def test_a_few_cells_are_no_mass() -> None:
    assert not mass(MASS_AT_LEAST - 1, "crash", count=MASS_AT_LEAST)
    assert mass(MASS_AT_LEAST, "crash", count=MASS_AT_LEAST)


def test_a_cell_is_in_one_list_at_most() -> None:
    tonight = {PRIM: "pass", OTHER: "flaky", GRADIENTS: "not_run", TRAIN: "crash", "new.row": "pass"}
    found = suspects(measured(1, BEFORE), measured(2, tonight), [], SUITE - {(PIPE, 2)})
    lists = [found.changed, found.indeterminate, found.lost_coverage, found.digest_changed, found.added]
    everything = [change.id for one in lists for change in one] + ids(found.removed)
    assert sorted(everything) == sorted({*BEFORE, "new.row"})


def test_world_sizes_are_cells_of_their_own() -> None:
    before, tonight = (
        record(outcome(PIPE, 2), outcome(PIPE, 4)),
        record(outcome(PIPE, 2), outcome(PIPE, 4, "hang")),
    )
    found = suspects(before, tonight, [], {(PIPE, 2), (PIPE, 4)})
    assert [(change.id, change.world_size) for change in found.changed] == [(PIPE, 4)]
