"""The verdict on one attempt: a pure function of what all ranks did.

Order over ranks: crash > error > hang > wrong > unsupported > pass. A lost peer is a symptom and never
outranks another rank's own failure. See ARCHITECTURE.md for the statuses.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from canishard.launch.outcome import Attempt, RankEvidence, Status

UNNAMED = "no known deviation"
"""What a deviation without a name is called."""


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
    def raised(self) -> dict[str, Any] | None:
        """Return the error that the check raised on this rank."""
        return self.report["error"] if self.report and self.report["result"] == "error" else None

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


@dataclass(frozen=True)
class Rules:
    """What decides the meaning of an error's text: predicates on ``Type: message``."""

    is_refusal: Callable[[str], bool]
    is_lost_peer: Callable[[str], bool]
    is_machine_fault: Callable[[str], bool] = lambda _: False


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


def error_text(error: dict[str, Any]) -> str:
    """Return ``Type: message`` of a reported error."""
    return f"{error['type']}: {error['message']}"


def _first(ranks: Sequence[RankState]) -> RankState:
    return min(ranks, key=lambda state: (state.failed_at is None, state.failed_at or 0.0, state.rank))


def _crash(run: Run, rules: Rules) -> Attempt | None:  # noqa: ARG001 - one shape for all of them
    dead = [state for state in run.ranks if state.died]
    if not dead:
        return None
    first = _first(dead)
    killed_for_memory = run.out_of_memory and any(state.died == "signal SIGKILL" for state in dead)
    # Which rank it was may differ from run to run, and is in the evidence: the text is the same in all of them.
    message = f"{first.died} in phase {first.phase or 'start'}{_last_words(first.output)}"
    if killed_for_memory:
        return _attempt(Status.INFRA, f"{message}; the kernel killed a process for memory", first)
    return _attempt(Status.CRASH, message, first)


def _last_words(output: str) -> str:
    """Return what C++ said of the exception that ended a process, if that is what ended it."""
    said = re.search(r"what\(\):\s*(.+)", output)
    return f": {said[1]}" if said else ""


def _error(run: Run, rules: Rules) -> Attempt | None:
    raised = [state for state in run.ranks if state.raised]
    own = [state for state in raised if not rules.is_lost_peer(error_text(state.raised or {}))]
    if len(raised) == len(run.ranks) and len(own) == len(run.ranks):
        texts = [error_text(state.raised or {}) for state in raised]
        if all(state.raised and state.raised["call_rejected"] for state in raised):
            return _attempt(Status.MISSING, texts[0], _first(raised))
        if all(
            (state.raised or {}).get("refused") or rules.is_refusal(text)
            for state, text in zip(raised, texts, strict=True)
        ):
            return _attempt(Status.UNSUPPORTED, texts[0], _first(raised))
    stuck = [state for state in run.ranks if not state.is_over or (state.killed and state.report is None)]
    if own or (raised and not stuck):
        # The text is the lowest rank's, the same in every run; which was first in time is evidence.
        text = error_text((own or raised)[0].raised or {})
        return _attempt(Status.ERROR, text, _first(own or raised))
    return None


def _hang(run: Run, rules: Rules) -> Attempt | None:  # noqa: ARG001 - one shape for all of them
    stuck = [state for state in run.ranks if state.report is None]
    if not stuck:
        return None
    first = stuck[0]
    if all(state.phase in {"", "start"} for state in stuck):
        return _attempt(Status.INFRA, f"rank {first.rank} never started", first)
    phases = ", ".join(dict.fromkeys(state.phase or "start" for state in stuck))
    where = innermost(first.stacks)
    text = f"no report by the deadline, in phase {phases}" + (f", in {where}" if where else "")
    return _attempt(Status.HANG, text, first)


def innermost(stacks: str) -> str:
    """Return where a rank's main thread was, by a dump of its stacks: ``all_gather (distributed_c10d.py, line 7)``."""
    found = re.search(r'Current thread .*\n\s+File "(?:.*/)?([^"/]+)", line (\d+) in (\S+)', stacks)
    return f"{found[3]} ({found[1]}, line {found[2]})" if found else ""


def _wrong(run: Run, rules: Rules) -> Attempt | None:  # noqa: ARG001 - one shape for all of them
    wrong = [state for state in run.ranks if state.report and state.report["result"] == "wrong"]
    if not wrong:
        return None
    mismatches = [mismatch for state in wrong for mismatch in (state.report or {})["mismatches"]]
    worst = mismatches[0]
    message = f"{worst['label']}: got {worst['got']}, wanted {worst['wanted']}"
    attempt = _attempt(Status.WRONG, message, wrong[0])
    attempt.deviation = _deviation([mismatch["deviations"] for mismatch in mismatches])
    return attempt


def _deviation(found: list[list[str]]) -> str:
    """Return the first deviation that explains every mismatch, else the first of each, else that none is known."""
    shared = [name for name in found[0] if all(name in names for names in found)]
    if shared:
        return shared[0]
    return "; ".join(sorted({names[0] if names else UNNAMED for names in found}))


def _fault(run: Run, rules: Rules) -> Attempt | None:
    """Return what is no verdict about torch: our own fault, or a machine that is short of something."""
    if run.fault:
        return Attempt(status=Status.INFRA, start_method="", message=run.fault)
    short = [
        state for state in run.ranks if state.raised and rules.is_machine_fault(error_text(state.raised))
    ]
    if short:
        return _attempt(Status.INFRA, error_text(short[0].raised or {}), _first(short))
    faulty = [state for state in run.ranks if state.report and state.report["result"] == "fault"]
    if not faulty:
        return None
    return _attempt(Status.INFRA, error_text((faulty[0].report or {})["error"]), faulty[0])


def _attempt(status: Status, message: str, first: RankState) -> Attempt:
    return Attempt(status=status, start_method="", message=message, first_failing_rank=first.rank)


def judge(run: Run, rules: Rules, start_method: str) -> Attempt:
    """Decide the status of a run from all its ranks, and keep the evidence of each."""
    verdict = (
        _fault(run, rules)
        or _crash(run, rules)
        or _error(run, rules)
        or _hang(run, rules)
        or _wrong(run, rules)
        or Attempt(status=Status.PASS, start_method="")
    )
    verdict.start_method = start_method
    verdict.ranks = [evidence(state) for state in run.ranks]
    return verdict


def teardown_notes(run: Run) -> list[str]:
    """Return what went wrong after a right result, in words."""
    late = [state for state in run.ranks if state.phase in {"released", "teardown"} and state.exit_text]
    return [f"rank {state.rank} in teardown: {state.exit_text}" for state in late]


def evidence(state: RankState) -> RankEvidence:
    """Return what is kept of a rank."""
    report = state.report or {}
    error = report.get("error")
    return RankEvidence(
        rank=state.rank,
        phase=state.phase,
        exit=state.exit_text,
        state=state.state,
        stage=state.stage,
        error=error_text(error) if error else "",
        traceback=(error or {}).get("traceback", ""),
        stacks=state.stacks,
        output=state.output,
        mismatches=report.get("mismatches", []),
        measurements=report.get("measurements", {}),
        notes=report.get("notes", []),
    )
