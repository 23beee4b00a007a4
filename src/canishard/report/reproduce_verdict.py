"""What a reproduction script makes of what its ranks did, by the rules of ``launch.judge``.

``reproduce`` puts the text of this module and a check's into one script; nothing here is used by canishard itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

# Regular expressions of errors; a script has those of matrix/refusals.toml.
REFUSALS: Sequence[str] = ()
LOST_PEERS: Sequence[str] = ()
MACHINE_FAULTS: Sequence[str] = ()


@dataclass
class Rank:
    """What is known of one rank."""

    rank: int
    phase: str = "start"
    report: dict[str, Any] = field(default_factory=dict)
    exit: str = ""
    """How it ended before it was released; empty while it lives."""
    stacks: str = ""

    @property
    def error(self) -> dict[str, Any]:
        """What it raised."""
        found: dict[str, Any] = self.report.get("error", {})
        return found

    @property
    def text(self) -> str:
        """What it raised, as ``Type: message``."""
        return str(self.error.get("text", ""))

    @property
    def failed(self) -> bool:
        """Whether it failed by itself: a lost peer is a symptom."""
        return bool(self.exit or (self.error and not says(LOST_PEERS, self.text)))


def says(patterns: Sequence[str], text: str) -> bool:
    """Tell whether a text holds one of some regular expressions."""
    return any(re.search(pattern, text) for pattern in patterns)


def verdict(ranks: Sequence[Rank]) -> tuple[str, str]:
    """Return a status and a few words: crash > error > hang > wrong > unsupported > pass."""
    failure = fault_of(ranks) or crash_of(ranks) or error_of(ranks) or hang_of(ranks)
    if failure:
        return failure
    deviations = [mismatch["deviations"] for rank in ranks for mismatch in rank.report["mismatches"]]
    return ("wrong", deviation_of(deviations)) if deviations else ("pass", "")


def fault_of(ranks: Sequence[Rank]) -> tuple[str, str] | None:
    """Return what says nothing about torch: the check compared nothing, or the machine is short of something."""
    if any(rank.report.get("compared") == 0 for rank in ranks):
        return "infra", "the check compared nothing"
    short = [
        rank.text for rank in ranks if rank.error and (rank.error["fault"] or says(MACHINE_FAULTS, rank.text))
    ]
    return ("infra", first_line(short[0])) if short else None


def crash_of(ranks: Sequence[Rank]) -> tuple[str, str] | None:
    """Return how a rank died."""
    dead = [rank for rank in ranks if rank.exit]
    return ("crash", f"{dead[0].exit} in phase {dead[0].phase}") if dead else None


def error_of(ranks: Sequence[Rank]) -> tuple[str, str] | None:
    """Return what was raised: one's own failure rather than that a peer is lost, a refusal only where all refuse."""
    raised = [rank for rank in ranks if rank.error]
    own = [rank for rank in raised if rank.failed]
    status = "error"
    if len(own) == len(ranks):
        if all(rank.error["rejected"] for rank in own):
            status = "missing"
        elif all(rank.error["refused"] or says(REFUSALS, first_line(rank.text)) for rank in own):
            status = "unsupported"
    if own or (raised and all(rank.report for rank in ranks)):
        return status, first_line((own or raised)[0].text)
    return None


def hang_of(ranks: Sequence[Rank]) -> tuple[str, str] | None:
    """Return where a rank was that had not reported in time."""
    phases = [rank.phase for rank in ranks if not rank.report]
    if not phases:
        return None
    status = "infra" if set(phases) == {"start"} else "hang"
    return status, f"no report by the deadline, in phase {', '.join(dict.fromkeys(phases))}"


def deviation_of(found: Sequence[Sequence[str]]) -> str:
    """Return the deviation that explains every mismatch, else the first of each."""
    shared = [name for name in found[0] if all(name in names for names in found)]
    return shared[0] if shared else "; ".join(sorted({(*names, "no known deviation")[0] for names in found}))


def first_line(text: str) -> str:
    """Return the first line of a text."""
    return text.strip().partition("\n")[0]
