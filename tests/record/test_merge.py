"""When a measurement can be stored, and what it makes of the stored record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from made_up import (
    A,
    B,
    canaries,
    case,
    cases_of,
    environment,
    failed,
    full,
    outcome,
    record,
    saved,
    variant,
    written,
)

from canishard import record as record_files
from canishard.errors import ConfigurationError, InfraError, NothingSelectedError, RecordError
from canishard.launch.outcome import Status
from canishard.record import CANARY, Suite
from canishard.record import merge as merging

# ---- validity ------------------------------------------------------------------------------------


def test_a_valid_measurement() -> None:
    value = full()
    merging.validate(value, cases_of(value))


def test_infra_counts_as_present() -> None:
    value = record(*canaries(), outcome(A, status="infra"))
    merging.validate(value, cases_of(value))


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
        merging.validate(value, selected)
    assert str(raised.value) == f"{value.name}: {sentence}"


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PASS])
def test_without_the_canary_nothing_is_stored(status: Status) -> None:
    value = record(outcome(CANARY, 2), outcome(CANARY, 4, status, message="RuntimeError: no route"))
    with pytest.raises(InfraError) as raised:
        merging.validate(value, cases_of(value))
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
NEWER: dict[str, Any] = {**LATER, "variant": variant("2.8.0+cu128", nccl="2.28.0")}


def test_the_first_measurement_is_stored_normalised() -> None:
    measured = record(
        *canaries(), failed(A, message="RuntimeError: pid 4242 on builder7"), outcome(B, status="infra")
    )
    merged = merging.merge(None, measured, selected_only=False, known={"builder7": "<host>"})
    assert merged.changed
    assert (merged.kept, merged.absent) == ([], [(B, 2)])
    assert merged.record == record(*canaries(), failed(A, message="RuntimeError: pid <id> on <host>"))


def test_the_same_again_is_the_stored_record_as_it_was() -> None:
    stored = full()
    cells = [msgspec.structs.replace(cell, measurements={"seconds": 3.0}) for cell in stored.cells]
    for selected_only in (False, True):
        merged = merging.merge(stored, record(*cells, **LATER), selected_only=selected_only)
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
    merged = merging.merge(
        record(*canaries(), outcome(A)), record(*canaries(), cell, **LATER), selected_only=False
    )
    assert merged.changed
    assert merged.record == record(*canaries(), cell, **LATER)


def test_another_build_alone_changes_a_record() -> None:
    merged = merging.merge(full(), record(*full().cells, **NEWER), selected_only=False)
    assert merged.changed
    assert merged.record == record(*full().cells, **NEWER)


def test_a_whole_run_drops_what_the_suite_no_longer_has() -> None:
    merged = merging.merge(full(), record(*canaries(), **LATER), selected_only=False)
    assert merged.record == record(*canaries(), **LATER)


def test_a_selected_run_replaces_its_own_cells_only() -> None:
    measured = record(*canaries(), outcome(A, 2), start_method="spawn", **LATER)
    merged = merging.merge(full(), measured, selected_only=True)
    wanted = [outcome(A, 2) if cell.key == (A, 2) else cell for cell in full().cells]
    more = {**LATER, "started": "2026-01-31T12:00:00Z", "start_method": "fork+spawn"}
    assert merged.record == record(*wanted, **more)


def test_a_selected_run_on_another_build_is_refused() -> None:
    changed_build = {**LATER, "variant": variant("2.8.0+cu128", glibc="2.41", nccl=None, packages={})}
    with pytest.raises(ConfigurationError) as raised:
        merging.merge(full(), record(*canaries(), **changed_build), selected_only=True)
    assert str(raised.value) == (
        f"{full().name}: the stored record was measured under other conditions (nccl 2.27.3 there, none here; "
        "packages numpy 2.3.0 there, none here), so a selection cannot replace some of its cells; "
        "measure it as a whole"
    )


DETAILS: dict[str, Any] = {**LATER, "variant": variant(python="3.11.2", glibc="2.41")}
"""What cannot change a cell."""


@pytest.mark.parametrize("selected_only", [False, True])
def test_what_cannot_change_a_cell_leaves_a_record_as_it_is(*, selected_only: bool) -> None:
    stored = full()
    cells = stored.cells[:3] if selected_only else stored.cells
    merged = merging.merge(stored, record(*cells, **DETAILS), selected_only=selected_only)
    assert not merged.changed
    assert merged.record is stored


def test_a_selected_run_may_differ_in_what_cannot_change_a_cell() -> None:
    merged = merging.merge(full(), record(*canaries(), outcome(A, 2), **DETAILS), selected_only=True)
    assert merged.changed
    assert len(merged.record.cells) == len(full().cells)
    assert merged.record.variant == full().variant


OTHERS: dict[str, dict[str, Any]] = {
    "variables": {"variables": {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "eth7"}},
    "devices": {"devices": {"NVIDIA H200": 1}},
    "module": {"backend_module": "theirs"},
    "commit": {"variant": variant(git_version="d4e5f6")},
    "cuda": {"variant": variant(cuda="12.6")},
    "packages": {"variant": variant(packages={"numpy": "2.4.0"})},
}


@pytest.mark.parametrize("more", OTHERS.values(), ids=OTHERS)
def test_cells_of_two_sets_of_conditions_never_stand_in_one_record(more: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="was measured under other conditions") as raised:
        merging.merge(full(), record(*canaries(), outcome(A, 2), **more), selected_only=True)
    assert "\n" not in str(raised.value)

    whole = record(*canaries(), outcome(A, 2, "infra"), **more)
    merged = merging.merge(full(), whole, selected_only=False)
    assert merged.record == record(*canaries(), **more)
    assert merged.absent == [(A, 2)]


CLEAN, DIRTY = Suite(version="0.2.0", commit="beef"), Suite(version="0.2.0", commit="beef-dirty")


@pytest.mark.parametrize(
    ("stored", "measured", "changed"),
    [(CLEAN, CLEAN, False), (CLEAN, DIRTY, False), (DIRTY, DIRTY, False), (DIRTY, CLEAN, True)],
    ids=["clean", "dirty does not replace it", "dirty again", "clean replaces dirty"],
)
def test_the_same_cells_from_a_clean_tree_replace_those_of_a_dirty_one(
    stored: Suite, measured: Suite, changed: bool
) -> None:
    merged = merging.merge(
        record(*canaries(), suite=stored), record(*canaries(), suite=measured), selected_only=False
    )
    assert merged.changed is changed
    assert merged.record.suite == (measured if changed else stored)


@pytest.mark.parametrize(("stored", "measured"), [(CLEAN, DIRTY), (DIRTY, CLEAN)])
def test_a_record_with_a_cell_of_a_dirty_tree_is_marked(stored: Suite, measured: Suite) -> None:
    before = record(*canaries(), outcome(A), outcome(B), suite=stored)
    merged = merging.merge(
        before, record(*canaries(), outcome(A, status="error"), suite=measured), selected_only=True
    )
    assert merged.record.suite.is_dirty


def test_records_of_two_environments_do_not_merge() -> None:
    other = record(*canaries(), environment=environment(backend="mpi"))
    with pytest.raises(ConfigurationError) as raised:
        merging.merge(full(), other, selected_only=False)
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
    merged = merging.merge(full(), measured, selected_only=selected_only)
    assert (merged.kept, merged.absent) == ([(A, 2)], [("x.new", 2)])
    cells = {cell.key: cell for cell in merged.record.cells}
    assert cells[A, 2] == {cell.key: cell for cell in full().cells}[A, 2]
    assert ("x.new", 2) not in cells


def test_infra_does_not_keep_what_another_build_did() -> None:
    measured = record(*canaries(), outcome(A, 2, "infra"), **NEWER)
    merged = merging.merge(full(), measured, selected_only=False)
    assert (merged.kept, merged.absent) == ([], [(A, 2)])
    assert merged.record == record(*canaries(), **NEWER)


def test_store_writes_only_what_changed(tmp_path: Path) -> None:
    path = tmp_path / "results" / f"{full().name}.json"
    first = merging.store(path, full(), cases_of(full()), selected_only=False)
    before = written(path)
    assert first.changed

    again = merging.store(path, record(*full().cells, **LATER), cases_of(full()), selected_only=False)
    assert not again.changed
    assert written(path) == before

    part = record(*canaries(), outcome(A, 2), **LATER)
    third = merging.store(path, part, cases_of(part), selected_only=True)
    assert third.changed
    assert record_files.load(path) == third.record


def test_store_does_not_touch_a_record_where_the_measurement_is_invalid(tmp_path: Path) -> None:
    path = saved(tmp_path, full())
    before = written(path)
    with pytest.raises(RecordError):
        merging.store(path, record(*canaries()), cases_of(full()), selected_only=False)
    assert written(path) == before


# ---- what others measured ------------------------------------------------------------------------


def test_records_of_others_are_adopted(tmp_path: Path) -> None:
    jobs, results = tmp_path / "jobs", tmp_path / "results"
    changed = record(*canaries(), outcome(A, 2, "error"), channel="2.9.1", **LATER)
    for name, value in (("a", full()), ("b", changed)):
        record_files.save(value, jobs / name / f"{value.name}.json")
    record_files.save(full(), results / f"{full().name}.json")
    before = written(results / f"{full().name}.json")

    [(old, same), (none, new)] = merging.adopt(jobs, results)

    assert (old, same.changed, none, new.changed) == (full(), False, None, True)
    assert written(results / f"{full().name}.json") == before
    assert record_files.load(results / f"{changed.name}.json") == changed


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("canary", "canary.all_reduce at world size 2 is error"),
        ("name", "expected a record under its own name"),
        ("nightly", "environment.channel: is nightly; only a stable release's record is kept"),
        ("2.9.0rc1", "environment.channel: is 2.9.0rc1; only a stable release's record is kept"),
        ("dirty", "suite.commit: is beef-dirty; commit what changed in the checks or the launcher"),
        ("none", "no record below it"),
    ],
)
def test_what_cannot_be_adopted_changes_nothing(tmp_path: Path, fault: str, said: str) -> None:
    jobs, results = tmp_path / "jobs", tmp_path / "results"
    jobs.mkdir()
    value = {
        "canary": record(outcome(CANARY, 2, "error")),
        "name": full(),
        "nightly": record(*canaries(), channel="nightly"),
        "2.9.0rc1": record(*canaries(), channel="2.9.0rc1"),
        "dirty": record(*canaries(), suite=DIRTY),
    }.get(fault)
    if value:
        name = "torch-other" if fault == "name" else value.name
        record_files.save(value, jobs / f"{name}.json")
        record_files.save(
            record(*canaries(), channel="2.1.0"), jobs / "first" / f"{record(channel='2.1.0').name}.json"
        )

    with pytest.raises((RecordError, InfraError, NothingSelectedError)) as raised:
        merging.adopt(jobs, results)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not results.exists()
