"""The verdict on one attempt, from what the parent knows of all its ranks: pure. The rules are in ``verdict``."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from typing import Any

from canishard.launch.outcome import Attempt, RankEvidence, Status
from canishard.launch.verdict import Rank, Rules, Verdict, decide, difference


@dataclass
class RankState:
    """What the parent knows of one rank."""

    rank: int
    pid: int = 0
    phase: str = ""
    began: dict[str, float] = field(default_factory=dict)
    """When each phase began, by the machine's monotonic clock."""
    report: dict[str, Any] | None = None
    exit_status: int | None = None
    """As from waitpid; None while it lives."""
    killed: bool = False
    """Killed by us, so the signal in ``exit_status`` says nothing."""
    state: str = ""
    stacks: str = ""
    output: str = ""
    failed_at: float | None = None
    stage: str = ""

    @property
    def is_over(self) -> bool:
        """Tell whether nothing more is to be waited for before the release."""
        return self.report is not None or self.exit_status is not None

    @property
    def exit_text(self) -> str:
        """Return how the rank ended, in words; empty for exit code 0."""
        if self.killed:
            return "killed by the watchdog"
        if not self.exit_status:
            return ""
        if self.exit_status & 0x7F:
            number = self.exit_status & 0x7F
            names = {int(item): item.name for item in signal.Signals}
            return f"signal {names.get(number, number)}"
        return f"code {self.exit_status >> 8}"

    @property
    def died(self) -> str:
        """Return how the rank ended without having been released, where that was not our doing; else empty."""
        if self.exit_status is None or self.killed or self.phase in {"released", "teardown"}:
            return ""
        if self.exit_text:
            return self.exit_text
        return "" if self.report else "code 0 without a report"

    def seen(self) -> Rank:
        """Return what the verdict looks at."""
        return Rank(
            rank=self.rank,
            phase=self.phase or "start",
            report=self.report or {},
            died=self.died,
            failed_at=self.failed_at,
            stacks=self.stacks,
            output=self.output,
        )


@dataclass
class Run:
    """One stage of a case, over."""

    ranks: list[RankState]
    deadline_passed: bool = False
    out_of_memory: bool = False
    fault: str = ""
    """What of ours or the machine's went wrong, in words."""
    notes: list[str] = field(default_factory=list)
    spent: dict[str, float] = field(default_factory=dict)
    """Seconds by stretch: see ``stretches``."""


def judge(run: Run, rules: Rules, start_method: str) -> Attempt:
    """Decide the status of a run from all its ranks, and keep the evidence of each."""
    seen = [state.seen() for state in run.ranks]
    found = Verdict("infra", run.fault) if run.fault else decide(seen, rules)
    if found.status == "crash" and run.out_of_memory and any(rank.died == "signal SIGKILL" for rank in seen):
        words = f"{found.message}; the kernel killed a process for memory"
        found = found._replace(status="infra", message=words)
    return Attempt(
        status=Status(found.status),
        start_method=start_method,
        message=found.message,
        deviation=found.deviation,
        first_failing_rank=found.rank,
        notes=_noted_before(found, seen),
        ranks=[evidence(state) for state in run.ranks],
    )


def _noted_before(found: Verdict, seen: list[Rank]) -> list[str]:
    """Return the first value that differed where the status does not tell of it, in words."""
    wrong = [rank for rank in seen if rank.mismatches]
    if not wrong or found.status == "wrong":
        return []
    return [f"before that a value differed: {difference(wrong[0].mismatches[0])}"]


def teardown_notes(run: Run) -> list[str]:
    """Return what went wrong after a right result, in words."""
    late = [state for state in run.ranks if state.phase in {"released", "teardown"} and state.exit_text]
    return [f"rank {state.rank} in teardown: {state.exit_text}" for state in late]


def evidence(state: RankState) -> RankEvidence:
    """Return what is kept of a rank."""
    report = state.report or {}
    seen = state.seen()
    return RankEvidence(
        rank=state.rank,
        phase=state.phase,
        exit=state.exit_text,
        state=state.state,
        stage=state.stage,
        error=seen.text,
        refused=bool(seen.error.get("refused")),
        traceback=seen.error.get("traceback", ""),
        stacks=state.stacks,
        output=state.output,
        mismatches=seen.mismatches,
        measurements=report.get("measurements", {}),
        notes=report.get("notes", []),
    )
