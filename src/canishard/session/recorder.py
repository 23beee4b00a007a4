"""What becomes of the outcomes of a run: journal, record, exit code, and what is said at the end."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import msgspec
import pytest

from canishard.errors import CanishardError, ChangedError, InfraError
from canishard.facts.compare import CellChange, Change, changes
from canishard.launch import stretches
from canishard.launch.outcome import Outcome, Status
from canishard.record import CANARY, Record, merge
from canishard.session.items import BAD, CaseItem
from canishard.session.state import MEASURED, SessionState, known_texts, now

UNREMARKABLE = frozenset({Change.SAME, Change.ADDED, Change.REMOVED})
"""Changes of the suite rather than of torch: they leave the exit code 0."""

_LETTERS = {
    Status.PASS: ".",
    Status.WRONG: "W",
    Status.ERROR: "E",
    Status.UNSUPPORTED: "u",
    Status.MISSING: "m",
    Status.HANG: "H",
    Status.CRASH: "C",
    Status.FLAKY: "K",
    Status.NOT_RUN: "s",
    Status.INFRA: "I",
}


class Recorder:
    """Keeps every outcome as it comes, and writes the record at the end."""

    def __init__(self, state: SessionState, *, is_distributed: bool) -> None:
        self.state = state
        self.is_distributed = is_distributed
        self.session: pytest.Session
        self.outcomes: dict[tuple[str, int], Outcome] = {}
        self.sources: dict[tuple[str, int], str] = {}
        self.spent: dict[str, float] = {}
        self.selected: set[tuple[str, int]] = set()
        self.lines: list[str] = []
        self.changes: list[CellChange] = []
        self.began = time.monotonic()
        self.infra = ""

    @property
    def option(self) -> Any:
        """Return the command line options."""
        return self.state.option

    @property
    def measured(self) -> int:
        """Return how many cases this run measured."""
        return sum(source == MEASURED for source in self.sources.values())

    @property
    def reused(self) -> int:
        """Return how many cases were known already."""
        return len(self.sources) - self.measured

    # -- what pytest tells ----------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> None:
        """Under xdist the controller runs nothing, yet needs to know where it is."""
        self.session = session
        if self.is_distributed:
            self.state.enter()
            self.state.leave()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Remember what was selected."""
        self.selected = {item.case.key for item in session.items if isinstance(item, CaseItem)}

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Remember what was selected, from what a worker collected."""
        for node_id in ids:
            name, _, world_size = node_id.partition("::")[2].rpartition("[ranks=")
            self.selected.add((name, int(world_size.removesuffix("]"))))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep an outcome: in the journal at once, for the record at the end."""
        text = getattr(report, "canishard", "")
        if not text:
            return
        extra = msgspec.json.decode(text)
        outcome = msgspec.convert(extra["outcome"], Outcome)
        self.outcomes[outcome.key] = outcome
        self.sources[outcome.key] = extra["source"]
        stretches.add(self.spent, extra["spent"])
        is_new = extra["source"] == MEASURED and outcome.status is not Status.INFRA
        if is_new and self.state.journal and self.state.is_repeatable:
            self.state.journal.append(outcome)
        if outcome.id == CANARY and outcome.status is not Status.PASS and self.state.is_recording:
            self.infra = f"{CANARY} is {outcome.status.value}: {outcome.message}"
            self.session.shouldstop = "the canary did not pass: nothing measured here would mean anything"

    def pytest_report_teststatus(self, report: Any) -> tuple[str, str, Any] | None:
        """Show statuses in our own words."""
        text = getattr(report, "canishard", "")
        if not text or report.outcome == "failed":
            return None
        status = Status(msgspec.json.decode(text)["outcome"]["status"])
        colour = "yellow" if status in BAD else "green"
        # "error" is a word of pytest's own, with a section of tracebacks.
        category = "errors" if status is Status.ERROR else status.value
        return category, _LETTERS[status], (status.value.upper(), {colour: True})

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the record and settle the exit code."""
        if not self.state.is_recording or self.option.collectonly:
            return
        if self.state.failure:
            self.infra = self.state.failure
            self.write_summary(exitstatus)
            return
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            self.lines.append("canishard: nothing selected: -k, --case and --world-size leave no case")
        elif exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED}:
            session.exitstatus = self.finish()
            self.write_summary(session.exitstatus)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say what was measured, what changed and where it is."""
        for fault in self.state.journal.faults if self.state.journal else ():
            terminalreporter.write_line(f"canishard: {fault}")
        for line in self.lines:
            terminalreporter.write_line(line)
        if self.option.durations is not None and self.spent:
            terminalreporter.section("where time went")
            terminalreporter.write_line(stretches.table(self.spent))

    # -- the record -----------------------------------------------------------------------------------------

    def finish(self) -> int:
        """Write the record of what was measured; return the exit code of the run."""
        if self.infra:
            self.lines.append(f"canishard: no record was written: {self.infra}")
            return InfraError.exit_code
        if not self.outcomes or self.selected - self.outcomes.keys():
            again = "; run again to go on from what was measured" if self.state.is_repeatable else ""
            self.lines.append(f"canishard: cut: no record was written{again}")
            return int(pytest.ExitCode.INTERRUPTED)
        try:
            return self.store()
        except CanishardError as error:
            self.infra = str(error)
            self.lines.append(f"canishard: no record was written: {error}")
            return error.exit_code

    def store(self) -> int:
        """Merge the outcomes into the record, note what changed; return the exit code."""
        state = self.state
        assert state.environment is not None
        measured = Record(
            environment=state.environment,
            variant=state.variant,
            suite=state.suite,
            started=state.started,
            ended=now(),
            start_method=state.start_method,
            variables=state.conditions.variables,
            devices=state.conditions.devices,
            backend_module=state.conditions.backend_module,
            cells=list(self.outcomes.values()),
        )
        if state.option.reuse_committed and state.baseline:
            differing = state.baseline.conditions.differing(state.conditions)
            if differing:
                self.lines.append(
                    f"canishard: nothing was taken from the record, measured under other conditions: {'; '.join(differing)}"
                )
        cases = [case for case in state.cases if case.key in self.selected]
        merged = merge.store(
            state.record_path,
            measured,
            cases,
            selected_only=len(cases) < len(state.cases),
            known=known_texts(),
        )
        if state.baseline:
            self.changes = changes(state.baseline, merged.record)
        self.say(merged)
        if merged.kept or merged.absent:
            self.infra = f"{len(merged.kept) + len(merged.absent)} cases could not be measured"
            return InfraError.exit_code
        remarkable = [change for change in self.changes if change.change not in UNREMARKABLE]
        return ChangedError.exit_code if remarkable else 0

    def say(self, merged: merge.Merged) -> None:
        """Put into words what was measured, what was not, what changed and where the record is."""
        nothing = " (nothing changed since)" if not self.measured else ""
        self.lines.append(f"canishard: {self.measured} cases measured, {self.reused} known already{nothing}")
        if self.state.fallback:
            self.lines.append(f"canishard: ranks were spawned: {self.state.fallback}")
        for key in [*merged.kept, *merged.absent]:
            self.lines.append(f"canishard: infra: {key[0]} ({key[1]} ranks): {self.outcomes[key].message}")
        self.lines.extend(f"canishard: {change}" for change in self.changes)
        what = "written" if merged.changed else "unchanged"
        self.lines.append(f"canishard: {what}: {self.state.record_path}")
        if merged.record.suite.is_dirty:
            self.lines.append(
                f"canishard: the record is marked {merged.record.suite.commit}: it is not for matrix/results/ "
                "until what changed is committed and measured again"
            )

    def write_summary(self, exit_code: int) -> None:
        """Write what happened as JSON, for whoever walks through the releases."""
        if self.option.summary is None:
            return
        counts = Counter(outcome.status.value for outcome in self.outcomes.values())
        summary = {
            "release": self.option.release,
            "environment": self.state.environment.name if self.state.environment else None,
            "record": str(self.state.record_path) if self.state.environment else None,
            "selected": len(self.selected),
            "measured": self.measured,
            "reused": self.reused,
            "counts": dict(sorted(counts.items())),
            "changes": [
                {
                    "id": change.id,
                    "world_size": change.world_size,
                    "change": change.change.value,
                    "old": change.old.status.value if change.old else None,
                    "new": change.new.status.value if change.new else None,
                }
                for change in self.changes
            ],
            "infra": self.infra or None,
            "exit_code": exit_code,
            "seconds": round(time.monotonic() - self.began, 1),
        }
        self.option.summary.parent.mkdir(parents=True, exist_ok=True)
        self.option.summary.write_bytes(msgspec.json.format(msgspec.json.encode(summary)) + b"\n")
