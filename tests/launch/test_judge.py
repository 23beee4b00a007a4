"""The verdict is a pure function of what the ranks did."""

from __future__ import annotations

from typing import Any

import pytest

from canishard.launch.judge import RankState, Rules, Run, judge, teardown_notes
from canishard.launch.outcome import Status

RULES = Rules(
    is_refusal=lambda text: "refused" in text,
    is_lost_peer=lambda text: "by peer" in text,
    is_machine_fault=lambda text: "No space" in text,
)
ABORT, KILLED = 6, 9


def ok(rank: int, **other: Any) -> RankState:
    report = {"result": "ok", "mismatches": [], "measurements": {}, "notes": []}
    return RankState(rank, phase="teardown", report=report, exit_status=0, **other)


def wrong(rank: int, *deviations: str) -> RankState:
    mismatch = {"label": "x", "got": "2", "wanted": "1", "deviations": list(deviations)}
    return RankState(
        rank, phase="teardown", report={"result": "wrong", "mismatches": [mismatch]}, exit_status=0
    )


def raised(rank: int, message: str, at: float = 1.0, **flags: bool) -> RankState:
    error = {"type": "RuntimeError", "message": message, "call_rejected": False, "refused": False, **flags}
    report = {"result": "error", "error": error}
    return RankState(rank, phase="body", report=report, exit_status=0, failed_at=at)


def fault(rank: int) -> RankState:
    error = {"type": "CheckFault", "message": "the check compared nothing"}
    return RankState(rank, phase="report", report={"result": "fault", "error": error}, exit_status=0)


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
        ([ok(0), fault(1)], Status.INFRA, "CheckFault: the check compared nothing"),
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
    ],
)
def test_the_deviation_that_explains_every_rank_is_named(ranks: list[RankState], deviation: str) -> None:
    assert judge(Run(ranks), RULES, "fork").deviation == deviation


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
