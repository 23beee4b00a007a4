"""What became of each release of a campaign: the runs, their table, and the exit code.

Pure, but for reading what a run left. Imports ``errors`` and ``outcome`` of ours.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tabulate import tabulate

from canishard.errors import ChangedError, InfraError
from canishard.launch.outcome import Status


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """What became of one release."""

    release: str
    summary: Mapping[str, Any] = field(default_factory=dict)
    """What the pytest plugin said; empty where it never spoke."""
    infra: str = ""
    """Why it could not be measured, where that was so."""
    install_s: float = 0.0
    unchanged: bool = False
    """Nothing that decides its results has changed since this machine measured it: it was not run."""

    @classmethod
    def from_known(cls, release: str, summary: Mapping[str, Any]) -> Run:
        """Return the run of a release that was not run, from the summary of the time it was."""
        again = {"measured": 0, "reused": summary["selected"], "changes": [], "exit_code": 0, "seconds": 0.0}
        return cls(release=release, summary={**summary, **again}, unchanged=True)

    @property
    def check_s(self) -> float:
        """Return the seconds that the checks took."""
        return float(self.summary.get("seconds", 0.0))

    @property
    def is_changed(self) -> bool:
        """Tell whether a cell differs from the baseline in a way that counts."""
        return self.summary.get("exit_code") == ChangedError.exit_code

    def count(self, name: str) -> int:
        """Return a number of the summary: selected, measured or reused."""
        return int(self.summary.get(name, 0))


def read_run(release: str, summary_file: Path, log: Path, code: int, seconds: float) -> Run:
    """Tell what became of a release from the summary that its pytest left, else from its output."""
    try:
        summary = json.loads(summary_file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        reason = failing_step(log.read_text(encoding="utf-8", errors="replace") if log.exists() else "")
        return Run(release=release, infra=reason or f"no summary, exit code {code}", install_s=seconds)
    infra = str(summary.get("infra") or "")
    if code not in {0, ChangedError.exit_code} and not infra:
        infra = f"not complete, exit code {code}"
    return Run(
        release=release, summary=summary, infra=infra, install_s=max(0.0, seconds - summary["seconds"])
    )


def failing_step(output: str, keep: int = 3) -> str:
    """Return the last lines of the step that failed, from what nox printed; of a Python that is absent, that alone."""
    if absent := re.search(r"Python interpreter \S+ not found", output):
        return absent[0]
    lines = [re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line).strip() for line in output.splitlines()]
    failed = max((n for n, line in enumerate(lines) if "failed with exit code" in line), default=-1)
    said = [line for line in lines[failed + 1 :] if line and not line.startswith("nox >")]
    if failed >= 0 and not said:
        # A step whose output was shown as it came: it stands before nox's word.
        said = [line for line in lines[:failed] if line and not line.startswith("nox >")]
    said = said or [line.removeprefix("nox >").strip() for line in lines if line]
    return " / ".join(said[-keep:])


def totals(runs: Sequence[Run]) -> Counter[str]:
    """Return how many cells have which status, over all releases."""
    counts: Counter[str] = Counter()
    for run in runs:
        counts.update(run.summary.get("counts", {}))
    return counts


def exit_code(runs: Sequence[Run]) -> int:
    """Return the walk's exit code; a changed cell, which was measured, comes before what could not be."""
    if any(run.is_changed for run in runs):
        return ChangedError.exit_code
    return InfraError.exit_code if any(run.infra for run in runs) else 0


def describe(runs: Sequence[Run]) -> str:
    """Return what came of the walk: a table, what could not be measured, what changed, what to open."""
    if not runs:
        return ""
    present = totals(runs)
    statuses = [status.value for status in Status if present[status.value]]
    heads = ["torch", *statuses, "measured", "reused", "changed", "install s", "checks s"]
    rows = [_table_row(run, statuses) for run in runs]
    measured, reused = (sum(run.count(name) for run in runs) for name in ("measured", "reused"))
    parts = ["", tabulate(rows, heads, tablefmt="simple", stralign="right"), ""]
    parts += [f"{run.release}: infra: {run.infra}" for run in runs if run.infra]
    parts += [_change_line(run.release, change) for run in runs for change in run.summary.get("changes", [])]
    nothing = "Nothing changed: " if not measured and not any(run.infra for run in runs) else ""
    parts.append(
        f"{nothing}{measured} cells measured, {reused} taken from what this machine measured before."
    )
    return "\n".join([*parts, "Open reports/COMPATIBILITY.md for the table."])


def _table_row(run: Run, statuses: Sequence[str]) -> list[str | int]:
    counts = run.summary.get("counts", {})
    if not run.summary:
        return [run.release, *("" for _ in statuses), "infra", "", "", round(run.install_s), ""]
    cells = [counts.get(status, 0) or "" for status in statuses]
    numbers = [run.count("measured"), run.count("reused"), len(run.summary.get("changes", [])) or ""]
    return [run.release, *cells, *numbers, round(run.install_s), round(run.check_s)]


def _change_line(release: str, change: Mapping[str, Any]) -> str:
    case = f"{change['id']} on {change['world_size']} ranks"
    return f"{release}: {change['change']}: {case}: {change['old']} -> {change['new']}"
