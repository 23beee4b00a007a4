"""canishard's launcher, forked or spawned; this process never imports torch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harnesses import WORLD_SIZE
from canishard.launch import Launcher, Where, refusals
from canishard.launch.outcome import Case, Status


class Running:
    """A launcher and the case that it runs."""

    def __init__(self, launcher: Launcher, case: Case) -> None:
        self.launcher = launcher
        self.case_ = case

    def case(self, directory: Path) -> list[float]:  # noqa: ARG002 - the launcher has directories of its own
        """Run the case; one attempt and no more."""
        self.launcher.take_spent()
        outcome = self.launcher.run(self.case_)
        if outcome.status is not Status.PASS or len(outcome.attempts) != 1:
            msg = f"{outcome.status.value} in {len(outcome.attempts)} attempts: {outcome.message}"
            raise RuntimeError(msg)
        return [float(rank.measurements["seconds"] or 0.0) for rank in outcome.attempts[0].ranks]

    def spent(self) -> dict[str, float]:
        """Return what the launcher says of the last case."""
        return self.launcher.take_spent()


@contextlib.contextmanager
def opened(body: str, start_method: str) -> Iterator[Running]:
    """Yield a launcher that has looked at what is installed, as in a run of the checks."""
    rules = refusals.load().rules
    modules = ["benchmarks.declared", f"benchmarks.bodies.{body}"]
    with Launcher(Where(), rules, start_method=start_method, modules=modules) as launcher:
        launcher.describe()
        [case] = [case for case in launcher.cases() if case.id == f"declared.{body}"]
        assert case.world_size == WORLD_SIZE
        yield Running(launcher, case)
