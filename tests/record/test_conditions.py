"""What decides that two measurements say the same of torch, and what does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_up import DIGEST, A, case, environment, outcome, record, variant

from canishard.catalogue.digest import digest
from canishard.launch.outcome import Attempt, RankEvidence, Status
from canishard.record import Suite
from canishard.record.conditions import NEVER_REUSED, answers

BUILDS: dict[str, Any] = {
    "torch": "2.8.0+cu126",
    "git_version": "d4e5f6",
    "cuda": "12.6",
    "hip": "6.4",
    "nccl": "2.26.0",
    "packages": {"numpy": "2.4.0"},
    "glibc": "",
}
DECIDE: dict[str, dict[str, Any]] = {
    **{
        f"environment.{name}": {name: other}
        for name, other in {
            "channel": "2.9.0",
            "flavour": "cpu",
            "backend": "nccl",
            "device": "cuda",
            "python": "3.12",
            "system": "darwin",
            "machine": "arm64",
        }.items()
    },
    **{f"variant.{name}": {"variant": variant(**{name: other})} for name, other in BUILDS.items()},
    "no package": {"variant": variant(packages={})},
    "a variable": {"variables": {"OMP_NUM_THREADS": "2"}},
    "one more variable": {"variables": {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "0"}},
    "a device": {"devices": {"NVIDIA H200": 1}},
    "backend's module": {"backend_module": "theirs"},
}


@pytest.mark.parametrize("more", DECIDE.values(), ids=DECIDE)
def test_what_decides(more: dict[str, Any]) -> None:
    assert record(**more).conditions != record().conditions
    assert record(**more).conditions.key != record().conditions.key


def test_the_number_and_the_kind_of_devices_decide() -> None:
    keys = {
        record(devices=devices).conditions.key
        for devices in ({"NVIDIA H200": 1}, {"NVIDIA H200": 2}, {"NVIDIA L4": 1})
    }
    assert len(keys) == 3


@pytest.mark.parametrize(
    "more",
    [
        {"variant": variant(python="3.11.2")},
        {"variant": variant(glibc="2.41")},
        {"suite": Suite(version="9", commit="beef")},
        {"started": "2025-01-31T12:00:00Z", "ended": "2025-01-31T12:00:30Z"},
        {"start_method": "spawn"},
    ],
    ids=["patch of Python", "glibc", "suite", "time", "start method"],
)
def test_what_does_not_decide(more: dict[str, Any]) -> None:
    assert record(**more).conditions == record().conditions
    assert record(**more).conditions.key == record().conditions.key


def test_nothing_is_nothing_however_it_is_written() -> None:
    empty, none = (variant(cuda=nothing, hip=nothing, nccl=nothing) for nothing in ("", None))
    assert record(variant=empty).conditions == record(variant=none).conditions


ENVIRONMENTS = (
    "environment torch-2.8.0-cuda-nodriver-gloo-cpu-cp311-linux-x86_64 there, "
    "torch-2.8.0-cuda-nodriver-gloo-cpu-cp312-linux-x86_64 here"
)


def test_what_differs_in_words() -> None:
    there = record(variables={"A": "1", "OMP_NUM_THREADS": "1"}).conditions
    here = record(
        variant=variant(nccl=None), environment=environment(python="3.12"), devices={"NVIDIA L4": 2}
    ).conditions
    assert there.differing(there) == []
    assert there.differing(here) == [
        ENVIRONMENTS,
        "nccl 2.27.3 there, none here",
        "devices none there, NVIDIA L4 2 here",
        "variables A 1 there, none here",
    ]


# ---- the case ------------------------------------------------------------------------------------


def test_the_same_check_is_answered() -> None:
    assert answers(outcome(A), case(A))
    assert not answers(outcome(A, digest="f" * len(DIGEST)), case(A))


@pytest.mark.parametrize("status", Status)
def test_what_settles_nothing_answers_nothing(status: Status) -> None:
    assert answers(outcome(A, status=status), case(A)) is (status not in NEVER_REUSED)


def test_what_could_not_be_run_is_never_known() -> None:
    assert Status.NOT_RUN in NEVER_REUSED


def test_what_todays_wordings_call_otherwise_answers_nothing() -> None:
    rank = RankEvidence(rank=0, phase="report", error="NotImplementedError: no")
    attempts = [Attempt(status=Status.ERROR, start_method="fork", ranks=[rank])]
    assert not answers(outcome(A, status="error", attempts=attempts), case(A))
    assert answers(outcome(A, status="unsupported", attempts=attempts), case(A))


def test_the_deadline_is_in_the_digest(tmp_path: Path) -> None:
    """A hang within one time says nothing of another."""
    found = set()
    for seconds in (30, 60):
        path = tmp_path / f"within_{seconds}.py"
        path.write_text(f"@check(deadline_s={seconds})\ndef hangs(context):\n    pass\n")
        found.add(digest(path, "hangs"))
    assert len(found) == 2
