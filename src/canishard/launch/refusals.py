"""Which error texts are a clear refusal, and which only say that a peer is gone: ``matrix/refusals.toml``.

The texts are ``Type: message``, as a rank reported them.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

import msgspec

from canishard import files
from canishard.launch.outcome import Attempt, Outcome, Status
from canishard.launch.verdict import Rank, Rules, error_of


class Refusal(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A wording that says plainly: this is not supported."""

    pattern: str
    """A regular expression, searched for in the first line of ``Type: message``."""
    example: str
    """A line that was seen, and that the pattern matches."""
    backend: str
    seen_on: str = ""
    """The torch release on which we saw it."""
    link: str = ""


class LostPeer(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A wording that says that another rank is gone, or did not come: a symptom."""

    pattern: str
    """A regular expression, searched for in the whole of ``Type: message``."""
    example: str
    backend: str
    seen_on: str = ""
    link: str = ""


class NoDriver(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A wording that says that a build with CUDA met no driver: nothing follows for a machine that has one."""

    pattern: str
    """A regular expression, searched for in the whole of ``Type: message``."""
    example: str
    seen_on: str = ""
    link: str = ""


class MachineFault(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A wording that says that the machine is short of something: no verdict about torch."""

    pattern: str
    """A regular expression, searched for in the whole of ``Type: message``."""
    example: str
    link: str
    """Where the wording is from: a manual, or a report of it."""


class Wordings(msgspec.Struct, kw_only=True, frozen=True):
    """All lists."""

    refusals: list[Refusal]
    lost_peers: list[LostPeer]
    machine_faults: list[MachineFault]
    no_drivers: list[NoDriver] = []

    @property
    def rules(self) -> Rules:
        """Return them as the verdict looks at them."""
        return Rules(
            refusals=[item.pattern for item in self.refusals],
            lost_peers=[item.pattern for item in self.lost_peers],
            machine_faults=[item.pattern for item in self.machine_faults],
        )

    def lacks_driver(self, text: str) -> bool:
        """Tell whether ``Type: message`` says that a build with CUDA met no driver."""
        return any(re.search(item.pattern, text) for item in self.no_drivers)

    def still_says(self, outcome: Outcome) -> bool:
        """Tell whether each attempt of an earlier outcome would be an error, or a refusal, by today's wordings too."""
        if outcome.status not in {Status.ERROR, Status.UNSUPPORTED}:
            return True
        return all(self._verdict(attempt) is outcome.status for attempt in outcome.attempts)

    def _verdict(self, attempt: Attempt) -> Status:
        """Return whether an attempt that failed was a refusal, by the stage that ended it."""
        ranks = [
            Rank(
                rank=kept.rank,
                phase=kept.phase,
                report={
                    "mismatches": kept.mismatches,
                    "error": {"text": kept.error, "refused": kept.refused, "call_rejected": False},
                }
                if kept.error
                else {},
            )
            for kept in attempt.ranks
            if kept.stage == attempt.ranks[-1].stage
        ]
        found = error_of(ranks, self.rules)
        return Status(found.status) if found else Status.ERROR


@functools.cache
def load(path: Path | None = None) -> Wordings:
    """Read the file; ConfigurationError lists every fault, a pattern that misses its example included."""
    path = path or files.matrix_dir() / "refusals.toml"
    raw = files.read_toml(path)
    faults = files.unknown_keys(raw, ["refusal", "lost_peer", "machine_fault", "no_driver"])
    refused = files.entries(raw, "refusal", Refusal, faults)
    lost = files.entries(raw, "lost_peer", LostPeer, faults)
    machine = files.entries(raw, "machine_fault", MachineFault, faults)
    driver = files.entries(raw, "no_driver", NoDriver, faults)
    rows: dict[str, Refusal | LostPeer | MachineFault | NoDriver] = {**refused, **lost, **machine, **driver}
    for where, row in rows.items():
        if not row.link and not getattr(row, "seen_on", ""):
            faults.append(f"{where}: needs seen_on, a torch release, or link, where it was reported")
        broken = files.pattern_faults(row.pattern, f"{where}.pattern")
        faults.extend(broken)
        if not broken and not re.search(row.pattern, row.example):
            faults.append(f"{where}.pattern: does not match its own example")
    files.raise_faults(path, faults)
    return Wordings(
        refusals=list(refused.values()),
        lost_peers=list(lost.values()),
        machine_faults=list(machine.values()),
        no_drivers=list(driver.values()),
    )
