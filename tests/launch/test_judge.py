"""The verdict is a pure function of what the ranks did."""

from __future__ import annotations

from typing import Any

import pytest

from canishard.launch.judge import RankState, Run, judge, teardown_notes
from canishard.launch.outcome import RankEvidence, Status
from canishard.launch.verdict import OUR_EXIT_CODE, Rules

RULES = Rules(refusals=["refused"], lost_peers=["by peer"], machine_faults=["No space"])
ABORT, KILLED = 6, 9
OURS = OUR_EXIT_CODE << 8


def account(
    *mismatches: dict[str, Any], compared: int = 1, error: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "compared": compared,
        "mismatches": list(mismatches),
        "measurements": {},
        "notes": [],
        "error": error,
    }


def mismatch(*deviations: str) -> dict[str, Any]:
    return {"label": "x", "got": "2", "wanted": "1", "deviations": list(deviations)}


def ok(rank: int, **other: Any) -> RankState:
    return RankState(rank, phase="teardown", report=account(), exit_status=0, **other)


def wrong(rank: int, *deviations: str) -> RankState:
    return RankState(rank, phase="teardown", report=account(mismatch(*deviations)), exit_status=0)


def raised(
    rank: int, message: str, at: float = 1.0, *, noted: bool = False, phase: str = "body", **flags: bool
) -> RankState:
    error = {
        "text": f"RuntimeError: {message}",
        "call_rejected": False,
        "refused": False,
        "fault": False,
        **flags,
    }
    report = account(*([mismatch("summed")] if noted else []), error=error)
    return RankState(rank, phase=phase, report=report, exit_status=0, failed_at=at)


def idle(rank: int) -> RankState:
    return RankState(rank, phase="report", report=account(compared=0), exit_status=0)


def died(rank: int, status: int, phase: str = "body") -> RankState:
    return RankState(rank, phase=phase, exit_status=status, failed_at=2.0)


def stuck(rank: int, phase: str = "body") -> RankState:
    return RankState(rank, phase=phase, exit_status=KILLED, killed=True)


@pytest.mark.parametrize(
    ("ranks", "status", "message"),
    [
        ([ok(0), ok(1)], Status.PASS, ""),
        ([ok(0), wrong(1, "summed")], Status.WRONG, "x: got 2, wanted 1"),
        ([wrong(0), stuck(1)], Status.HANG, "no report by the deadline, in phase body"),
        ([stuck(0), stuck(1, "init")], Status.HANG, "no report by the deadline, in phase body, init"),
        ([stuck(0, "start"), stuck(1, "")], Status.INFRA, "rank 0 never started"),
        ([raised(0, "bad"), stuck(1)], Status.ERROR, "RuntimeError: bad"),
        ([raised(0, "closed by peer"), stuck(1)], Status.HANG, "no report by the deadline, in phase body"),
        ([raised(0, "closed by peer"), raised(1, "bad", 2.0)], Status.ERROR, "RuntimeError: bad"),
        (
            [raised(0, "closed by peer"), raised(1, "reset by peer")],
            Status.ERROR,
            "RuntimeError: closed by peer",
        ),
        ([raised(0, "refused"), raised(1, "refused")], Status.UNSUPPORTED, "RuntimeError: refused"),
        ([raised(0, "bad", refused=True), raised(1, "refused")], Status.UNSUPPORTED, "RuntimeError: bad"),
        ([raised(0, "refused"), ok(1)], Status.ERROR, "RuntimeError: refused"),
        ([raised(0, "refused"), raised(1, "bad")], Status.ERROR, "RuntimeError: refused"),
        (
            [raised(0, "no x", call_rejected=True), raised(1, "no x", call_rejected=True)],
            Status.MISSING,
            "RuntimeError: no x",
        ),
        ([raised(0, "no x", call_rejected=True), ok(1)], Status.ERROR, "RuntimeError: no x"),
        ([raised(0, "bad"), died(1, ABORT)], Status.CRASH, "signal SIGABRT in phase body"),
        ([ok(0), died(1, 3 << 8)], Status.CRASH, "code 3 in phase body"),
        ([ok(0), died(1, 0)], Status.CRASH, "code 0 without a report in phase body"),
        ([ok(0), died(1, KILLED)], Status.CRASH, "signal SIGKILL in phase body"),
        (
            [raised(0, "closed by peer"), raised(1, "No space left")],
            Status.INFRA,
            "RuntimeError: No space left",
        ),
        ([died(0, ABORT), raised(1, "No space left")], Status.INFRA, "RuntimeError: No space left"),
        ([ok(0), idle(1)], Status.INFRA, "the check compared nothing"),
        (
            [ok(0), raised(1, "equals the right one", fault=True)],
            Status.INFRA,
            "RuntimeError: equals the right one",
        ),
        # What was noted before a rank raised: no rank refused before data moved.
        ([raised(0, "refused", noted=True), raised(1, "refused")], Status.ERROR, "RuntimeError: refused"),
        (
            [raised(0, "refused"), raised(1, "no", noted=True, refused=True)],
            Status.ERROR,
            "RuntimeError: refused",
        ),
        (
            [raised(0, "no x", call_rejected=True), raised(1, "no x", noted=True, call_rejected=True)],
            Status.ERROR,
            "RuntimeError: no x",
        ),
        ([wrong(0, "summed"), raised(1, "refused")], Status.ERROR, "RuntimeError: refused"),
        # Each rank has to say it.
        ([raised(0, "no x", call_rejected=True), raised(1, "bad")], Status.ERROR, "RuntimeError: no x"),
        ([raised(0, "bad"), raised(1, "no x", call_rejected=True)], Status.ERROR, "RuntimeError: bad"),
        ([raised(0, "bad"), raised(1, "refused")], Status.ERROR, "RuntimeError: bad"),
        ([raised(0, "bad"), raised(1, "no", refused=True)], Status.ERROR, "RuntimeError: bad"),
        ([raised(0, "refused"), raised(1, "closed by peer")], Status.ERROR, "RuntimeError: refused"),
        ([raised(0, "refused"), stuck(1)], Status.ERROR, "RuntimeError: refused"),
        ([raised(0, "x\nrefused"), raised(1, "x\nrefused")], Status.ERROR, "RuntimeError: x\nrefused"),
        ([ok(0), raised(1, "closed by peer")], Status.ERROR, "RuntimeError: closed by peer"),
        # No rank met another: a place where nothing can be measured.
        ([stuck(0, "init"), stuck(1, "init")], Status.INFRA, "no rank got through init_process_group"),
        (
            [raised(0, "closed by peer", phase="init"), stuck(1, "init")],
            Status.INFRA,
            "no rank got through init_process_group",
        ),
        ([stuck(0, "init"), stuck(1, "start")], Status.INFRA, "rank 1 never started"),
        ([stuck(0, ""), stuck(1, "init")], Status.INFRA, "rank 0 never started"),
        ([ok(0), stuck(1, "init")], Status.HANG, "no report by the deadline, in phase init"),
        ([raised(0, "bad", phase="init"), stuck(1, "init")], Status.ERROR, "RuntimeError: bad"),
        # Code of ours that fails.
        ([ok(0), died(1, OURS)], Status.INFRA, "code 70 in phase body, not of the check's doing: no output"),
        (
            [died(0, ABORT), died(1, OURS)],
            Status.INFRA,
            "code 70 in phase body, not of the check's doing: no output",
        ),
        (
            [stuck(0, "init"), died(1, 1 << 8, "")],
            Status.INFRA,
            "code 1 in phase start, not of the check's doing: no output",
        ),
        (
            [stuck(0, "init"), died(1, ABORT, "start")],
            Status.INFRA,
            "signal SIGABRT in phase start, not of the check's doing: no output",
        ),
        ([stuck(0, "init"), died(1, ABORT, "init")], Status.CRASH, "signal SIGABRT in phase init"),
    ],
)
def test_verdict(ranks: list[RankState], status: Status, message: str) -> None:
    verdict = judge(Run(ranks), RULES, "fork")

    assert (verdict.status, verdict.message) == (status, message)
    assert [rank.rank for rank in verdict.ranks] == [0, 1]


def test_a_kill_for_memory_is_the_machines_fault() -> None:
    verdict = judge(Run([ok(0), died(1, KILLED)], out_of_memory=True), RULES, "fork")

    assert verdict.status is Status.INFRA
    assert verdict.message.endswith("signal SIGKILL in phase body; the kernel killed a process for memory")


def test_memory_short_elsewhere_does_not_excuse_another_signal() -> None:
    assert judge(Run([ok(0), died(1, ABORT)], out_of_memory=True), RULES, "fork").status is Status.CRASH


def test_a_fault_of_ours_comes_before_everything() -> None:
    assert judge(Run([died(0, ABORT), ok(1)], fault="disk full"), RULES, "fork").status is Status.INFRA


@pytest.mark.parametrize(
    ("ranks", "deviation"),
    [
        ([wrong(0, "summed"), wrong(1)], "no known deviation; summed"),
        ([wrong(0, "summed"), wrong(1, "averaged")], "averaged; summed"),
        ([wrong(0, "rank 0's value", "unchanged"), wrong(1, "unchanged")], "unchanged"),
        ([ok(0), wrong(1)], "no known deviation"),
        ([wrong(0, "unchanged", "summed"), wrong(1, "averaged", "unchanged")], "unchanged"),
        ([wrong(0, "a", "b"), wrong(1, "b"), wrong(2, "a")], "a; b"),
    ],
)
def test_the_deviation_that_explains_every_rank_is_named(ranks: list[RankState], deviation: str) -> None:
    assert judge(Run(ranks), RULES, "fork").deviation == deviation


def test_a_value_that_differed_before_a_rank_raised_is_kept() -> None:
    verdict = judge(Run([raised(0, "refused"), raised(1, "refused", noted=True)]), RULES, "fork")

    assert [rank.mismatches for rank in verdict.ranks] == [[], [mismatch("summed")]]
    assert verdict.notes == ["before that a value differed: x: got 2, wanted 1"]
    assert verdict.deviation == ""


def test_a_status_that_tells_of_the_value_needs_no_note() -> None:
    assert judge(Run([ok(0), wrong(1, "summed")]), RULES, "fork").notes == []


def test_the_evidence_says_which_rank_refused() -> None:
    verdict = judge(Run([raised(0, "bad", refused=True), raised(1, "refused")]), RULES, "fork")

    assert [rank.refused for rank in verdict.ranks] == [True, False]


def test_what_failed_of_ours_is_said_by_its_last_line() -> None:
    late = died(1, OURS)
    late.output = "Traceback\n  File\nImportError: no module named canishard.check\n"

    message = judge(Run([ok(0), late]), RULES, "fork").message

    assert message.endswith("not of the check's doing: ImportError: no module named canishard.check")


def test_the_first_failing_rank_is_the_first_in_time_and_the_text_the_lowest_ranks() -> None:
    verdict = judge(Run([raised(0, "second", 9.0), raised(1, "first", 3.0)]), RULES, "fork")

    assert (verdict.first_failing_rank, verdict.message) == (1, "RuntimeError: second")


def test_a_failure_in_teardown_is_a_note() -> None:
    late = ok(1)
    late.exit_status = ABORT

    assert judge(Run([ok(0), late]), RULES, "fork").status is Status.PASS
    assert teardown_notes(Run([ok(0), late])) == ["rank 1 in teardown: signal SIGABRT"]


def test_a_crash_carries_what_cpp_said() -> None:
    dead = died(1, ABORT)
    dead.output = "noise\nterminate called after throwing\n  what():  sizes do not match. 8 vs 4\nAborted"

    assert (
        judge(Run([ok(0), dead]), RULES, "fork").message
        == "signal SIGABRT in phase body: sizes do not match. 8 vs 4"
    )


DUMP = """Thread 0x00007f2d (most recent call first):
  File "/usr/lib/python3/threading.py", line 1 in wait

Current thread 0x00007f2e (most recent call first):
  File "/site-packages/torch/distributed/distributed_c10d.py", line 77 in all_gather
  File "/checks/dcp.py", line 5 in save
"""


def test_a_hang_says_where_the_main_thread_was() -> None:
    late = stuck(1)
    late.stacks = DUMP

    message = judge(Run([ok(0), late]), RULES, "fork").message

    assert message == "no report by the deadline, in phase body, in all_gather (distributed_c10d.py, line 77)"


def test_all_that_is_known_of_a_rank_is_its_evidence() -> None:
    error = {"text": "E: no", "traceback": "Trace", "call_rejected": False, "refused": True, "fault": False}
    report = {**account(mismatch("summed"), error=error), "measurements": {"ratio": 2.0}, "notes": ["slow"]}
    state = RankState(
        3,
        phase="body",
        report=report,
        exit_status=ABORT,
        state="S",
        stage="save",
        stacks="in wait",
        output="said",
    )

    assert judge(Run([state]), RULES, "spawn").ranks == [
        RankEvidence(
            rank=3,
            phase="body",
            exit="signal SIGABRT",
            state="S",
            stage="save",
            error="E: no",
            refused=True,
            traceback="Trace",
            stacks="in wait",
            output="said",
            mismatches=[mismatch("summed")],
            measurements={"ratio": 2.0},
            notes=["slow"],
        )
    ]


def test_a_rank_that_said_nothing_leaves_empty_evidence() -> None:
    assert judge(Run([RankState(0, phase="body", killed=True)]), RULES, "fork").ranks == [
        RankEvidence(rank=0, phase="body", exit="killed by the watchdog")
    ]


@pytest.mark.parametrize("ranks", [[ok(0)], [wrong(0)], [stuck(0)], [died(0, ABORT)], [raised(0, "bad")]])
def test_the_start_method_is_kept_whatever_the_verdict(ranks: list[RankState]) -> None:
    assert judge(Run(ranks), RULES, "spawn").start_method == "spawn"


def test_a_fault_of_ours_is_told_as_it_was() -> None:
    verdict = judge(Run([ok(0)], fault="disk full"), RULES, "fork")

    assert (verdict.message, verdict.start_method, verdict.first_failing_rank) == ("disk full", "fork", None)


@pytest.mark.parametrize(
    ("ranks", "first"),
    [
        ([died(0, ABORT), RankState(1, phase="body", exit_status=ABORT)], 0),
        ([RankState(0, phase="body", exit_status=ABORT), died(1, ABORT)], 1),
        ([raised(0, "bad", 0.5), raised(1, "bad", 0.25)], 1),
        ([raised(0, "bad"), raised(1, "bad")], 0),
    ],
    ids=["a time before none", "none after a time", "the earlier", "the lowest"],
)
def test_who_failed_first(ranks: list[RankState], first: int) -> None:
    assert judge(Run(ranks), RULES, "fork").first_failing_rank == first


@pytest.mark.parametrize("phase", ["released", "teardown"])
def test_after_the_release_nothing_is_a_crash(phase: str) -> None:
    late = ok(0)
    late.phase, late.exit_status = phase, 3 << 8

    assert judge(Run([late]), RULES, "fork").status is Status.PASS
    assert teardown_notes(Run([late, ok(1)])) == ["rank 0 in teardown: code 3"]


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("NotImplementedError: sends\nof two lines", Status.UNSUPPORTED),
        ("ValueError: NotImplementedError", Status.ERROR),
        ("\n  E: refused", Status.UNSUPPORTED),
    ],
)
def test_what_is_a_refusal_by_its_text(text: str, status: Status) -> None:
    state = raised(0, "")
    assert state.report
    state.report["error"]["text"] = text

    assert judge(Run([state]), RULES, "fork").status is status
