"""What a run takes as known: from its journal, and from the committed record where that is asked for."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from made_up import A, canaries, case, outcome, record, variant

from canishard.launch import OwnChecks
from canishard.launch.outcome import Case, Status
from canishard.record import Record, Suite
from canishard.record.journal import Journal
from canishard.session.state import COMMITTED, JOURNAL, MEASURED, SessionState

HERE = record()
CLEAN, DIRTY = Suite(version="0.1.0", commit="c0ffee"), Suite(version="0.1.0", commit="c0ffee-dirty")


def state(baseline: Record | None = None, suite: Suite = CLEAN, **more: Any) -> SessionState:
    """Return what a run on the made-up build works with."""
    option = {"backend": "gloo", "device": "cpu", "backend_module": "", "fresh": False, "release": "2.8.0"}
    config: Any = SimpleNamespace(option=SimpleNamespace(**{**option, "reuse_committed": True, **more}))
    found = SessionState(config, OwnChecks())
    found.conditions, found.start_method, found.suite, found.baseline = (
        HERE.conditions, "fork", suite, baseline
    )  # fmt: skip
    return found


def source(found: SessionState, wanted: Case | None = None) -> str:
    known, where = found.known(wanted or case(A))
    assert (known is None) is (where == MEASURED)
    return where


def committed(**more: Any) -> Record:
    return record(*canaries(), outcome(A), **more)


@pytest.mark.parametrize(
    "baseline",
    [
        committed(),
        committed(variant=variant(python="3.11.2", glibc="2.41")),
        committed(start_method="fork+spawn"),
    ],
    ids=["the same", "what cannot change a cell", "both ways of starting ranks"],
)
def test_a_committed_cell_is_known(baseline: Record) -> None:
    assert source(state(baseline)) == COMMITTED


@pytest.mark.parametrize(
    "more",
    [
        {"variant": variant(torch="2.8.0+cu126")},
        {"variant": variant(git_version="d4e5f6")},
        {"variant": variant(cuda="12.6")},
        {"variant": variant(hip="6.4")},
        {"variant": variant(nccl="2.26.0")},
        {"variant": variant(packages={"numpy": "2.4.0"})},
        {"variables": {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "0"}},
        {"devices": {"NVIDIA H200": 1}},
        {"backend_module": "theirs"},
        {"suite": DIRTY},
        {"start_method": "spawn"},
    ],
    ids=lambda more: next(iter(more)),
)
def test_a_cell_of_another_measurement_is_not(more: dict[str, Any]) -> None:
    assert source(state(committed(**more))) == MEASURED


@pytest.mark.parametrize("status", Status)
def test_a_cell_that_settles_nothing_is_measured(status: Status) -> None:
    found = source(state(record(*canaries(), outcome(A, status=status))))
    assert found == (MEASURED if status in {Status.INFRA, Status.FLAKY, Status.NOT_RUN} else COMMITTED)


def test_a_cell_of_another_check_is_measured() -> None:
    assert source(state(record(*canaries(), outcome(A, digest="f" * 16)))) == MEASURED


@pytest.mark.parametrize(
    "more",
    [{"reuse_committed": False}, {"fresh": True}, {"release": ""}, {"backend_module": "theirs"}],
    ids=lambda more: next(iter(more)),
)
def test_nothing_committed_is_known_where_it_is_not_asked_for_or_cannot_be(more: dict[str, Any]) -> None:
    assert source(state(committed(), **more)) == MEASURED


def test_a_projects_own_check_is_measured() -> None:
    own = msgspec.structs.replace(case(A), module="tests.own_checks")
    assert source(state(committed()), own) == MEASURED


def test_a_dirty_tree_takes_what_a_clean_one_measured() -> None:
    assert source(state(committed(), DIRTY)) == COMMITTED
    assert source(state(committed(suite=DIRTY), DIRTY)) == COMMITTED


def test_the_journal_comes_before_the_record(tmp_path: Path) -> None:
    found = state(committed())
    found.journal = Journal(tmp_path, found.conditions, "fork")
    found.journal.append(outcome(A, status="wrong", deviation="summed"))

    known, where = found.known(case(A))

    assert (known and known.status, where) == (Status.WRONG, JOURNAL)
