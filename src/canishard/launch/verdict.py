"""The rules of the verdict: what one stage of a case did, from what is known of all its ranks. Pure.

Standard library only. The launcher decides by it, and a reproduction script has its text, so that there is one verdict.
Order over ranks: what says nothing about torch, then crash > error > hang > wrong > unsupported > pass. A lost peer is a
symptom and never outranks another rank's own failure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

UNNAMED = "no known deviation"
"""What a deviation without a name is called."""
OUR_EXIT_CODE = 70
"""How a process ends in which code of ours has failed, and no check has."""


@dataclass(frozen=True)
class Rules:
    """What the text of an error means: regular expressions, searched for in ``Type: message``."""

    refusals: Sequence[str] = ()
    lost_peers: Sequence[str] = ()
    machine_faults: Sequence[str] = ()

    def is_refusal(self, text: str) -> bool:
        """Tell whether an error is a clear refusal, by its first line."""
        line = first_line(text)
        return line.startswith("NotImplementedError") or says(self.refusals, line)

    def is_lost_peer(self, text: str) -> bool:
        """Tell whether an error says that another rank is gone, or did not come."""
        return says(self.lost_peers, text)

    def is_machine_fault(self, text: str) -> bool:
        """Tell whether an error says that memory or disk is short."""
        return says(self.machine_faults, text)


@dataclass
class Rank:
    """What is known of one rank of a stage that is over."""

    rank: int
    phase: str = "start"
    """The last phase that began: start, init, body, report."""
    report: dict[str, Any] = field(default_factory=dict)
    """What it said, by ``accounts.report_of``; empty where it said nothing."""
    died: str = ""
    """How it ended before it was released, where that was its own doing; else empty."""
    failed_at: float | None = None
    stacks: str = ""
    output: str = ""

    @property
    def error(self) -> dict[str, Any]:
        """What it raised; empty where it raised nothing."""
        return self.report.get("error") or {}

    @property
    def text(self) -> str:
        """What it raised, as ``Type: message``."""
        return str(self.error.get("text", ""))

    @property
    def mismatches(self) -> list[dict[str, Any]]:
        """The values that differed, noted before whatever it raised."""
        return list(self.report.get("mismatches", ()))

    def has_failed(self, rules: Rules) -> bool:
        """Tell whether it failed by itself, so that its peers wait in vain: a lost peer is a symptom."""
        return bool(self.died or (self.error and not rules.is_lost_peer(self.text)))

    def has_refused(self, rules: Rules) -> bool:
        """Tell whether what it raised is a clear refusal."""
        return bool(self.error) and (self.error["refused"] or rules.is_refusal(self.text))


class Verdict(NamedTuple):
    """What a stage did: a status, by the words of ``outcome.Status``, and why."""

    status: str
    message: str = ""
    deviation: str = ""
    rank: int | None = None
    """The rank that failed first."""


def decide(ranks: Sequence[Rank], rules: Rules) -> Verdict:
    """Decide what a stage did."""
    return (
        fault_of(ranks, rules)
        or crash_of(ranks)
        or error_of(ranks, rules)
        or hang_of(ranks)
        or wrong_of(ranks)
        or Verdict("pass")
    )


def fault_of(ranks: Sequence[Rank], rules: Rules) -> Verdict | None:
    """Return what says nothing about torch: our own fault, or a machine that is short of something."""
    for rank in ranks:
        if rank.error and (rank.error["fault"] or rules.is_machine_fault(rank.text)):
            return Verdict("infra", rank.text, rank=rank.rank)
        if rank.died and (rank.phase == "start" or rank.died == f"code {OUR_EXIT_CODE}"):
            last = (rank.output.strip().splitlines() or ["no output"])[-1]
            words = f"{rank.died} in phase {rank.phase}, not of the check's doing: {last}"
            return Verdict("infra", words, rank=rank.rank)
        if rank.report and not rank.error and not rank.report["compared"]:
            return Verdict("infra", "the check compared nothing", rank=rank.rank)
    return None


def crash_of(ranks: Sequence[Rank]) -> Verdict | None:
    """Return how a rank died."""
    dead = [rank for rank in ranks if rank.died]
    if not dead:
        return None
    first = first_of(dead)
    # Which rank it was may differ from run to run, and is in the evidence: the text is the same in all of them.
    words = f"{first.died} in phase {first.phase}{last_words(first.output)}"
    return Verdict("crash", words, rank=first.rank)


def error_of(ranks: Sequence[Rank], rules: Rules) -> Verdict | None:
    """Return what was raised: a rank's own failure rather than that a peer is lost.

    Where a value had differed before, it is an error however all ranks put it: they did not refuse before data moved.
    """
    raised = [rank for rank in ranks if rank.error]
    own = [rank for rank in raised if rank.has_failed(rules)]
    if not own and not (raised and all(rank.report for rank in ranks)):
        return None
    status = "error"
    if len(own) == len(ranks) and not any(rank.mismatches for rank in ranks):
        if all(rank.error["call_rejected"] for rank in own):
            status = "missing"
        elif all(rank.has_refused(rules) for rank in own):
            status = "unsupported"
    # The text is the lowest rank's, the same in every run; which was first in time is evidence.
    failed = own or raised
    return Verdict(status, failed[0].text, rank=first_of(failed).rank)


def hang_of(ranks: Sequence[Rank]) -> Verdict | None:
    """Return where a rank was that had not reported in time; that no rank met another says nothing about torch."""
    stuck = [rank for rank in ranks if not rank.report]
    if not stuck:
        return None
    late = [rank for rank in stuck if rank.phase == "start"]
    if late:
        return Verdict("infra", f"rank {late[0].rank} never started", rank=late[0].rank)
    where = innermost(stuck[0].stacks)
    place = f", in {where}" if where else ""
    if all(rank.phase == "init" for rank in ranks):
        return Verdict("infra", f"no rank got through init_process_group{place}", rank=stuck[0].rank)
    phases = ", ".join(dict.fromkeys(rank.phase for rank in stuck))
    return Verdict("hang", f"no report by the deadline, in phase {phases}{place}", rank=stuck[0].rank)


def wrong_of(ranks: Sequence[Rank]) -> Verdict | None:
    """Return which value differed, and how."""
    wrong = [rank for rank in ranks if rank.mismatches]
    if not wrong:
        return None
    deviation = deviation_of([mismatch["deviations"] for rank in wrong for mismatch in rank.mismatches])
    return Verdict("wrong", difference(wrong[0].mismatches[0]), deviation, wrong[0].rank)


def difference(mismatch: dict[str, Any]) -> str:
    """Return a value that differs in words."""
    return f"{mismatch['label']}: got {mismatch['got']}, wanted {mismatch['wanted']}"


def deviation_of(found: Sequence[Sequence[str]]) -> str:
    """Return the first deviation that explains every mismatch, else the first of each, else that none is known."""
    shared = [name for name in found[0] if all(name in names for names in found)]
    return shared[0] if shared else "; ".join(sorted({(*names, UNNAMED)[0] for names in found}))


def first_of(ranks: Sequence[Rank]) -> Rank:
    """Return the rank that failed first."""
    return min(ranks, key=lambda rank: (rank.failed_at is None, rank.failed_at or 0.0, rank.rank))


def innermost(stacks: str) -> str:
    """Return where a rank's main thread was, by a dump of its stacks: ``all_gather (distributed_c10d.py, line 7)``."""
    found = re.search(r'Current thread .*\n\s+File "(?:.*/)?([^"/]+)", line (\d+) in (\S+)', stacks)
    return f"{found[3]} ({found[1]}, line {found[2]})" if found else ""


def last_words(output: str) -> str:
    """Return what C++ said of the exception that ended a process, if that is what ended it."""
    said = re.search(r"what\(\):\s*(.+)", output)
    return f": {said[1]}" if said else ""


def says(patterns: Sequence[str], text: str) -> bool:
    """Tell whether a text holds one of some regular expressions."""
    return any(re.search(pattern, text) for pattern in patterns)


def first_line(text: str) -> str:
    """Return the first line of a text."""
    return text.strip().partition("\n")[0]
