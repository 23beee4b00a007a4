"""A run of the checks under pytest: cases are collected from a child, run by the launcher, and recorded.

Two plugins, each with one job. ``Runner`` lives where items run (an xdist worker, or the only process): it
owns the launcher, collects the cases and runs them. ``Recorder`` lives in the controlling process: it sees
every outcome as it comes, appends it to the journal, writes the record and decides the exit code.
"""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import pytest

from canishard import __version__, checks, ids, normalise, record, refusals
from canishard.compare import CellChange, Change, changes, compare
from canishard.environment import Environment, Variant, from_description
from canishard.errors import CanishardError, ChangedError, ConfigurationError, InfraError
from canishard.journal import Journal
from canishard.launch import (
    START_METHODS,
    Launcher,
    Rules,
    ServerLost,
    Where,
    processes,
    recorded_environment,
    stretches,
)
from canishard.launch.launcher import SPAWN_SAMPLE
from canishard.outcome import Case, Outcome, Status
from canishard.record import CANARY, Record, Suite

DIE_WITH_PARENT = "CANISHARD_DIE_WITH_PARENT"
"""Environment variable that the noxfile sets: a run whose nox is killed ends too."""
CHECKS_DIRECTORY = Path(checks.__file__).parent
MEASURED, JOURNAL, COMMITTED = "measured", "journal", "committed"
"""Where an outcome is from: this run, this machine's journal, or the committed record."""
UNREMARKABLE = frozenset({Change.SAME, Change.ADDED, Change.REMOVED})
"""Changes of the suite rather than of torch: they leave the exit code 0."""
BAD = frozenset({Status.WRONG, Status.ERROR, Status.HANG, Status.CRASH, Status.FLAKY, Status.INFRA})
"""Statuses that fail a test run which compares with no record."""

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


def add_options(group: Any) -> None:
    """Declare the command line options."""
    group.addoption(
        "--backend", default="gloo", help="as init_process_group takes it: gloo, cpu:gloo,cuda:nccl"
    )
    group.addoption(
        "--backend-module", default="", metavar="PKG", help="package whose import registers the backend"
    )
    group.addoption("--device", default="cpu", help="device type of the tensors: cpu, cuda, xpu")
    group.addoption("--world-size", type=int, action="append", metavar="N", help="only these world sizes")
    group.addoption("--case", action="append", metavar="ID", help="only cases of this id; * and ? are wild")
    group.addoption(
        "--record", type=Path, metavar="PATH", help="write the record to this file, or into this folder"
    )
    group.addoption("--release", default="", metavar="VERSION", help="the torch that must be installed here")
    group.addoption("--start-method", choices=START_METHODS, default="auto", help="how ranks are started")
    group.addoption(
        "--spawn-sample", type=int, default=SPAWN_SAMPLE, metavar="N", help="cases confirmed by spawn"
    )
    group.addoption(
        "--state", type=Path, default=Path(".canishard"), metavar="DIR", help="this machine's journal"
    )
    group.addoption("--fresh", action="store_true", help="measure everything, whatever is known")
    group.addoption("--reuse-committed", action="store_true", help="take cells of the record as known")
    group.addoption("--summary", type=Path, metavar="FILE", help="write what happened to this file, as JSON")


def register(config: pytest.Config) -> None:
    """Register the plugins that this process needs."""
    if os.environ.get(DIE_WITH_PARENT):
        processes.die_with_parent(os.getppid())
    is_worker = hasattr(config, "workerinput")
    is_distributed = not is_worker and bool(
        config.getoption("numprocesses", None) or config.getoption("tx", None)
    )
    setup = Setup(config)
    if not is_distributed:
        config.pluginmanager.register(Runner(setup), "canishard-runner")
    if not is_worker:
        config.pluginmanager.register(Recorder(setup, is_distributed=is_distributed), "canishard-recorder")


class Setup:
    """What one process of a run works with; torch is looked at when it is first needed."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.option = config.option
        self.where = Where(self.option.backend, self.option.device, self.option.backend_module)
        self.started = _now()
        self._launcher: Launcher | None = None
        self._entered = False
        self.environment: Environment | None = None
        self.variant: Variant
        self.baseline: Record | None = None
        self.journal: Journal
        self.failure = ""
        """Why nothing can be run, in words."""
        self.start_method = ""
        self.fallback = ""
        self.cases: list[Case] = []

    @property
    def is_recording(self) -> bool:
        """Tell whether a record is to be written."""
        return self.option.record is not None

    def enter(self) -> Launcher:
        """Start the launcher, look at what is installed, read what is known; once.

        Ends the run with exit code 11 when torch cannot be imported or is not the one asked for.
        """
        if self._entered and self._launcher:
            return self._launcher
        self._entered = True
        try:
            self._enter()
        except ServerLost as error:
            self._stop(InfraError(str(error)))
        except CanishardError as error:
            self._stop(error)
        assert self._launcher is not None
        return self._launcher

    def _stop(self, error: CanishardError) -> NoReturn:
        self.failure = str(error)
        pytest.exit(f"canishard: {error}", returncode=error.exit_code)

    def _enter(self) -> None:
        wordings = refusals.load()
        rules = Rules(wordings.is_refusal, wordings.is_lost_peer, wordings.is_machine_fault)
        launcher = Launcher(self.where, rules, start_method=self.option.start_method)
        self._launcher = launcher.__enter__()
        self.start_method, self.fallback = launcher.start_method, launcher.fallback
        channel = self.option.release or "local"
        self.environment, self.variant = from_description(
            launcher.describe(), self.where.backend, self.where.device, channel
        )
        self.baseline = self.read_baseline()
        launcher.baseline = {cell.key: cell.status for cell in self.baseline.cells} if self.baseline else {}
        self.journal = Journal(self.option.state, self.environment, self.variant, launcher.start_method)
        self.cases = launcher.cases()
        launcher.choose_sample(self.cases, self.option.spawn_sample)

    @property
    def record_path(self) -> Path:
        """Return the file of the record; known once the environment is."""
        path: Path = self.option.record
        assert self.environment is not None
        return path / f"{self.environment.name}.json" if path.suffix != ".json" else path

    def read_baseline(self) -> Record | None:
        """Return the record that this run is compared with, if there is one."""
        if not self.is_recording or not self.record_path.exists():
            return None
        return record.load(self.record_path)

    def known(self, case: Case) -> tuple[Outcome | None, str]:
        """Return what need not be measured again of a case, and where it is from."""
        if self.option.fresh or not self.is_repeatable:
            return None, MEASURED
        found, source = self.journal.known(case), JOURNAL
        if found is None and self.option.reuse_committed and self.baseline and self.is_same_torch:
            found, source = {cell.key: cell for cell in self.baseline.cells}.get(case.key), COMMITTED
        if found is None or found.digest != case.digest or found.status is Status.FLAKY:
            return None, MEASURED
        return (found, source) if refusals.load().still_says(found) else (None, MEASURED)

    @property
    def is_repeatable(self) -> bool:
        """Tell whether the same run gives the same: a stable release does not change.

        What is installed from source, and the package of a third-party backend, may change without a trace.
        """
        return bool(self.option.release) and not self.option.backend_module

    @property
    def is_same_torch(self) -> bool:
        """Tell whether the record is of this build of torch, whatever else differs in its variant."""
        assert self.baseline is not None
        return all(
            getattr(self.baseline.variant, name) == getattr(self.variant, name)
            for name in ("torch", "git_version", "cuda", "hip")
        )

    def leave(self) -> None:
        """End the launcher and all its processes."""
        if self._launcher:
            self._launcher.close()
            self._launcher = None


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _suite() -> Suite:
    """Return which canishard this is; the commit is empty outside a checkout."""
    command = ["git", "-C", str(CHECKS_DIRECTORY), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return Suite(version=__version__, commit="")
    return Suite(version=__version__, commit=found.stdout.strip() if found.returncode == 0 else "")


def _known_texts() -> dict[str, str]:
    """Return this machine's own words that are replaced before a text is stored."""
    return {platform.node(): "<host>"} if len(platform.node()) > 3 else {}  # noqa: PLR2004 - else too common


class Runner:
    """Collects the cases as items and runs them."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Look at what is installed before anything is collected: here a run can still be ended in one line."""
        self.setup.enter()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        """Stand in for pytest's own collection of the folder of check modules."""
        if path != CHECKS_DIRECTORY:
            return None
        collector: Checks = Checks.from_parent(parent, path=path)
        collector.setup_ = self.setup
        return collector

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep a canary in whatever was selected for a record: without it nothing would mean anything."""
        chosen = [item for item in items if isinstance(item, CaseItem)]
        if not self.setup.is_recording or not chosen or any(item.case.id == CANARY for item in chosen):
            return
        parent: Any = chosen[0].parent
        sizes = {item.case.world_size for item in chosen}
        canaries = [case for case in self.setup.cases if case.id == CANARY]
        best = min(canaries, key=lambda case: (case.world_size not in sizes, case.world_size))
        items.insert(0, parent.item(best))

    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> pytest.TestReport | None:
        """Attach the outcome to the report, as text that travels between processes."""
        if not isinstance(item, CaseItem) or call.when != "call" or item.outcome is None:
            return None
        report = pytest.TestReport.from_item_and_call(item, call)
        report.outcome = item.verdict()
        if report.outcome == "skipped":
            report.longrepr = (str(CHECKS_DIRECTORY), 0, item.outcome.message)
        extra = {"outcome": item.outcome, "source": item.source, "spent": item.spent}
        if report.outcome == "failed":
            report.location = (*report.location[:2], item.name)  # The head of its section.
        report.canishard = msgspec.json.encode(extra).decode()  # type: ignore[attr-defined]
        return report

    def pytest_unconfigure(self) -> None:
        """Leave no process behind."""
        self.setup.leave()


class Checks(pytest.Directory):
    """All cases, in the order in which they are declared, the canary first."""

    setup_: Setup

    def collect(self) -> Iterator[pytest.Item]:
        """Yield an item a case that the options select."""
        self.setup_.enter()
        cases = sorted(self.setup_.cases, key=lambda case: case.id != CANARY)
        for case in cases:
            if self._selects(case):
                yield self.item(case)

    def item(self, case: Case) -> pytest.Item:
        """Return the item of a case."""
        # It ends in a bracket as a parametrized test's does, which is all that pytest can take apart and put together.
        name = f"{case.id}[ranks={case.world_size}]"
        item: CaseItem = CaseItem.from_parent(self, name=name, nodeid=f"{checks.__name__}::{name}", case=case)
        return item

    def _selects(self, case: Case) -> bool:
        option = self.setup_.option
        if option.world_size and case.world_size not in option.world_size:
            return False
        return not option.case or any(ids.matches(pattern, case.id) for pattern in option.case)


class CaseFailed(Exception):
    """A case that is not as it should be; carries nothing, since the item holds the outcome."""


class CaseItem(pytest.Item):
    """One case."""

    def __init__(self, *, case: Case, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.case = case
        self.outcome: Outcome | None = None
        self.source = MEASURED
        self.spent: dict[str, float] = {}
        if case.slow:
            self.add_marker("slow")

    @property
    def setup_(self) -> Setup:
        """Return what the run works with."""
        parent: Any = self.parent
        found: Setup = parent.setup_
        return found

    def runtest(self) -> None:
        """Measure the case, or take what is known."""
        launcher = self.setup_.enter()
        known, self.source = self.setup_.known(self.case)
        self.outcome = known or normalise.outcome(launcher.run(self.case), _known_texts())
        self.spent = launcher.take_spent()
        if self.verdict() == "failed":
            raise CaseFailed

    def verdict(self) -> Any:
        """Return what pytest is to think of the outcome: passed, failed or skipped.

        With a record the question is whether the cell differs from it; without one, whether it works.
        """
        assert self.outcome is not None
        status = self.outcome.status
        baseline = self.setup_.baseline
        if status is Status.INFRA:
            return "failed"
        if self.setup_.is_recording:
            before = {cell.key: cell for cell in baseline.cells}.get(self.outcome.key) if baseline else None
            is_changed = before is not None and compare(before, self.outcome) is not Change.SAME
            return "failed" if is_changed else "passed"
        if status in BAD:
            return "failed"
        return "passed" if status is Status.PASS else "skipped"

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show the outcome with its evidence instead of our own stack."""
        if not isinstance(excinfo.value, CaseFailed) or self.outcome is None:
            return super().repr_failure(excinfo, style)
        return "\n".join(_explain(self.outcome))

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return where pytest says the case is: nothing beyond the node id, which holds points."""
        return self.path, None, ""


def _explain(outcome: Outcome) -> Iterator[str]:
    """Yield an outcome and its evidence as lines for a terminal."""
    deviation = f" ({outcome.deviation})" if outcome.deviation else ""
    yield f"{outcome.status.value}{deviation}: {outcome.message}"
    tried = ", ".join(f"{attempt.start_method}: {attempt.status.value}" for attempt in outcome.attempts)
    yield f"attempts: {tried or 'none'}"
    for rank in outcome.attempts[0].ranks if outcome.attempts else []:
        yield f"rank {rank.rank}: phase {rank.phase}{f', {rank.exit}' if rank.exit else ''}"
        for mismatch in rank.mismatches:
            yield f"  {mismatch['label']}: got {mismatch['got']}, wanted {mismatch['wanted']}"
        for text in (rank.traceback, rank.stacks, rank.output):
            yield from (f"  {line}" for line in text.splitlines())


class Recorder:
    """Keeps every outcome as it comes, and writes the record at the end."""

    def __init__(self, setup: Setup, *, is_distributed: bool) -> None:
        self.setup = setup
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
        return self.setup.option

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
            self.setup.enter()
            self.setup.leave()

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
        if extra["source"] == MEASURED and outcome.status is not Status.INFRA:
            self.setup.journal.append(outcome)
        if outcome.id == CANARY and outcome.status is not Status.PASS and self.setup.is_recording:
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
        if not self.setup.is_recording or self.option.collectonly:
            return
        if self.setup.failure:
            self.infra = self.setup.failure
            self.write_summary(exitstatus)
            return
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            self.lines.append("canishard: nothing selected: -k, --case and --world-size leave no case")
        elif exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED}:
            session.exitstatus = self.finish()
            self.write_summary(session.exitstatus)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say what was measured, what changed and where it is."""
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
            self.lines.append(
                "canishard: cut: no record was written; run again to go on from what was measured"
            )
            return int(pytest.ExitCode.INTERRUPTED)
        try:
            return self.store()
        except CanishardError as error:
            self.infra = str(error)
            self.lines.append(f"canishard: no record was written: {error}")
            return error.exit_code

    def store(self) -> int:
        """Merge the outcomes into the record, note what changed; return the exit code."""
        setup = self.setup
        assert setup.environment is not None
        measured = Record(
            environment=setup.environment,
            variant=setup.variant,
            suite=_suite(),
            started=setup.started,
            ended=_now(),
            start_method=setup.start_method,
            variables=recorded_environment(os.environ),
            cells=list(self.outcomes.values()),
        )
        if COMMITTED in self.sources.values() and not self.is_of_one_build():
            return 0
        cases = [case for case in setup.cases if case.key in self.selected]
        merged = record.store(
            setup.record_path,
            measured,
            cases,
            selected_only=len(cases) < len(setup.cases),
            known=_known_texts(),
        )
        if setup.baseline:
            self.changes = changes(setup.baseline, merged.record)
        self.say(merged)
        if merged.kept or merged.absent:
            self.infra = f"{len(merged.kept) + len(merged.absent)} cases could not be measured"
            return InfraError.exit_code
        remarkable = [change for change in self.changes if change.change not in UNREMARKABLE]
        return ChangedError.exit_code if remarkable else 0

    def is_of_one_build(self) -> bool:
        """Tell whether committed cells may stand beside measured ones; False where all are committed already.

        Raises ConfigurationError where they would be of two variants in one record.
        """
        baseline, variant = self.setup.baseline, self.setup.variant
        assert baseline is not None
        if baseline.variant == variant:
            return True
        if self.measured:
            msg = (
                f"{baseline.name}: {self.measured} cases were measured on another variant than the {self.reused} "
                "that --reuse-committed took from the record; measure all of them, with --fresh"
            )
            raise ConfigurationError(msg)
        self.lines.append(
            f"canishard: 0 cases measured, {self.reused} known from the record, of another variant"
        )
        return False

    def say(self, merged: record.Merged) -> None:
        """Put into words what was measured, what was not, what changed and where the record is."""
        nothing = " (nothing changed since)" if not self.measured else ""
        self.lines.append(f"canishard: {self.measured} cases measured, {self.reused} known already{nothing}")
        if self.setup.fallback:
            self.lines.append(f"canishard: ranks were spawned: {self.setup.fallback}")
        for key in [*merged.kept, *merged.absent]:
            self.lines.append(f"canishard: infra: {key[0]} ({key[1]} ranks): {self.outcomes[key].message}")
        self.lines.extend(f"canishard: {change}" for change in self.changes)
        what = "written" if merged.changed else "unchanged"
        self.lines.append(f"canishard: {what}: {self.setup.record_path}")

    def write_summary(self, exit_code: int) -> None:
        """Write what happened as JSON, for whoever walks through the releases."""
        if self.option.summary is None:
            return
        counts = Counter(outcome.status.value for outcome in self.outcomes.values())
        summary = {
            "release": self.option.release,
            "environment": self.setup.environment.name if self.setup.environment else None,
            "record": str(self.setup.record_path) if self.setup.environment else None,
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
