"""Cases as pytest items: collected from a child that has torch loaded, and run by the launcher."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from canishard import catalogue, checks
from canishard.catalogue import ids
from canishard.facts.compare import Change, compare
from canishard.launch import explain, normalise
from canishard.launch.outcome import Case, Outcome, Status
from canishard.record import CANARY
from canishard.session.state import MEASURED, SessionState, known_texts

CHECKS_DIRECTORY = Path(checks.__file__).parent
BAD = frozenset({Status.WRONG, Status.ERROR, Status.HANG, Status.CRASH, Status.FLAKY, Status.INFRA})
"""Statuses that fail a test run which compares with no record."""


class Runner:
    """Collects the cases as items and runs them."""

    def __init__(self, state: SessionState) -> None:
        self.state = state

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Look at what is installed before anything is collected: here a run can still be ended in one line."""
        self.state.enter()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        """Stand in for pytest's own collection of the folder of check modules."""
        if path != CHECKS_DIRECTORY:
            return None
        collector: Checks = Checks.from_parent(parent, path=path)
        collector.state = self.state
        return collector

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep a canary in whatever was selected for a record: without it nothing would mean anything."""
        chosen = [item for item in items if isinstance(item, CaseItem)]
        if not self.state.is_recording or not chosen or any(item.case.id == CANARY for item in chosen):
            return
        parent: Any = chosen[0].parent
        sizes = {item.case.world_size for item in chosen}
        canaries = [case for case in self.state.cases if case.id == CANARY]
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
        self.state.leave()


class Checks(pytest.Directory):
    """All cases, in the order in which they are declared, the canary first."""

    state: SessionState

    def collect(self) -> Iterator[pytest.Item]:
        """Yield an item a case that the options select."""
        self.state.enter()
        cases = sorted(self.state.cases, key=lambda case: case.id != CANARY)
        for case in cases:
            if self._selects(case):
                yield self.item(case)

    def item(self, case: Case) -> pytest.Item:
        """Return the item of a case."""
        # It ends in a bracket as a parametrized test's does, which is all that pytest can take apart and put together.
        name = f"{case.id}[ranks={case.world_size}]"
        item: CaseItem = CaseItem.from_parent(self, name=name, nodeid=f"{checks.__name__}::{name}", case=case)
        return item

    @functools.cached_property
    def _patterns(self) -> list[str]:
        """What ``--case`` says, an old id as the one that its row has now."""
        known = {case.id for case in self.state.cases}
        resolved = [catalogue.resolve(pattern, known) for pattern in self.state.option.case]
        terminal: Any = self.config.pluginmanager.get_plugin("terminalreporter")
        for note in filter(None, (note for _, note in resolved)) if terminal else ():
            terminal.write_line(f"canishard: --case: {note}")
        return [pattern for pattern, _ in resolved]

    def _selects(self, case: Case) -> bool:
        option = self.state.option
        if option.world_size and case.world_size not in option.world_size:
            return False
        return not option.case or any(ids.matches(pattern, case.id) for pattern in self._patterns)


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
    def state(self) -> SessionState:
        """Return what the run works with."""
        parent: Any = self.parent
        found: SessionState = parent.state
        return found

    def runtest(self) -> None:
        """Measure the case, or take what is known."""
        launcher = self.state.enter()
        known, self.source = self.state.known(self.case)
        self.outcome = known or normalise.outcome(launcher.run(self.case), known_texts())
        self.spent = launcher.take_spent()
        if self.verdict() == "failed":
            raise CaseFailed

    def verdict(self) -> Any:
        """Return what pytest is to think of the outcome: passed, failed or skipped.

        With a record the question is whether the cell differs from it; without one, whether it works.
        """
        assert self.outcome is not None
        status = self.outcome.status
        baseline = self.state.baseline
        if status is Status.INFRA:
            return "failed"
        if self.state.is_recording:
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
        return explain(self.outcome)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return where pytest says the case is: nothing beyond the node id, which holds points."""
        return self.path, None, ""
