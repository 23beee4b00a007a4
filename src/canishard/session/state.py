"""What one process of a run under pytest works with: the launcher, where it is, and what is known already."""

from __future__ import annotations

import functools
import os
import platform
from datetime import datetime, timezone
from pathlib import Path
from typing import NoReturn

import pytest

from canishard import checks, record
from canishard.errors import CanishardError, InfraError
from canishard.launch import Launcher, OwnChecks, ServerLost, Where, recorded_environment, refusals
from canishard.launch.outcome import Case, Outcome
from canishard.record import Conditions, Record, Suite, suite
from canishard.record.conditions import answers
from canishard.record.environment import Environment, Variant, devices, from_description
from canishard.record.journal import Journal

MEASURED, JOURNAL, COMMITTED = "measured", "journal", "committed"
"""Where an outcome is from: this run, this machine's journal, or the committed record."""


class SessionState:
    """What one process of a run works with; torch is looked at when it is first needed."""

    def __init__(self, config: pytest.Config, own: OwnChecks) -> None:
        self.config = config
        self.own = own
        self.option = config.option
        self.where = Where(self.option.backend, self.option.device, self.option.backend_module)
        self.started = now()
        self._launcher: Launcher | None = None
        self._entered = False
        self.environment: Environment | None = None
        self.variant: Variant
        self.conditions: Conditions
        self.suite: Suite
        self.baseline: Record | None = None
        self.journal: Journal | None = None
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
        rules = refusals.load().rules
        launcher = Launcher(self.where, rules, start_method=self.option.start_method, own=self.own)
        self._launcher = launcher.__enter__()
        self.start_method, self.fallback = launcher.start_method, launcher.fallback
        description = launcher.describe()
        self.environment, self.variant = from_description(
            description, self.where.backend, self.where.device, self.option.release or "local"
        )
        self.conditions = Conditions.of(
            self.environment,
            self.variant,
            variables=recorded_environment(os.environ),
            devices=devices(description, self.where.device),
            backend_module=self.option.backend_module,
        )
        self.suite = suite.current()
        self.baseline = self.read_baseline()
        launcher.baseline = {cell.key: cell.kind for cell in self.baseline.cells} if self.baseline else {}
        self.journal = Journal(
            self.option.state, self.conditions, launcher.start_method, is_dirty=self.suite.is_dirty
        )
        self.cases = launcher.cases()
        launcher.choose_sample(filter(is_ours, self.cases), self.option.spawn_sample)

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
        if self.option.fresh or not self.is_repeatable or not is_ours(case):
            return None, MEASURED
        if self.journal and (found := self.journal.known(case)):
            return found, JOURNAL
        found = self.committed.get(case.key)
        return (found, COMMITTED) if found and answers(found, case) else (None, MEASURED)

    @functools.cached_property
    def committed(self) -> dict[tuple[str, int], Outcome]:
        """The cells of the record that may stand for a measurement here, where that is asked for."""
        found = self.baseline
        if not self.option.reuse_committed or found is None or found.conditions != self.conditions:
            return {}
        if found.suite.is_dirty and not self.suite.is_dirty:
            return {}
        if self.start_method not in found.start_method.split("+"):
            return {}
        return {cell.key: cell for cell in found.cells}

    @property
    def is_repeatable(self) -> bool:
        """Tell whether the same run gives the same: a stable release does not change.

        What is installed from source, and the package of a third-party backend, may change without a trace.
        """
        return bool(self.option.release) and not self.option.backend_module

    def leave(self) -> None:
        """End the launcher and all its processes."""
        if self._launcher:
            self._launcher.close()
            self._launcher = None


def is_ours(case: Case) -> bool:
    """Tell whether a case is of our own checks: what those of a project test may change without a trace."""
    return case.module.startswith(f"{checks.__name__}.")


def now() -> str:
    """Return the time as records have it: ISO 8601, UTC, whole seconds."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def known_texts() -> dict[str, str]:
    """Return this machine's own words that are replaced before a text is stored."""
    return {platform.node(): "<host>"} if len(platform.node()) > 3 else {}  # noqa: PLR2004 - else too common
