"""What a record is: the outcomes of one environment, and under which conditions they came about."""

from __future__ import annotations

from collections import Counter
from typing import NoReturn

import msgspec

from canishard.errors import RecordError
from canishard.launch.outcome import Outcome, Status
from canishard.record.conditions import Conditions
from canishard.record.environment import Environment, Variant
from canishard.record.suite import Suite

CANARY = "canary.all_reduce"
"""Where this does not pass, a record says nothing about torch."""

NEVER_STORED = frozenset({Status.INFRA, Status.UNKNOWN})


class Record(msgspec.Struct, kw_only=True):
    """All outcomes of one environment, sorted by id and world size, with their evidence."""

    environment: Environment
    variant: Variant
    suite: Suite
    started: str
    """ISO 8601, UTC, whole seconds: ``2026-01-31T12:00:00Z``."""
    ended: str
    start_method: str
    cells: list[Outcome]
    variables: dict[str, str] = {}
    """The environment variables of the ranks that can change what torch does."""
    devices: dict[str, int] = {}
    """How many accelerators of which kind the ranks could use; empty on CPU."""
    backend_module: str = ""
    """The package that registers the backend, where torch does not have it."""

    def __post_init__(self) -> None:
        """Sort the cells."""
        self.cells = sorted(self.cells, key=lambda outcome: outcome.key)

    @property
    def name(self) -> str:
        """Return the stem of the record's files."""
        return self.environment.name

    @property
    def conditions(self) -> Conditions:
        """Return the conditions that all its cells were measured under."""
        return Conditions.of(
            self.environment,
            self.variant,
            variables=self.variables,
            devices=self.devices,
            backend_module=self.backend_module,
        )

    @property
    def counts(self) -> dict[Status, int]:
        """Return how many cells have each status, without those that none has."""
        number = Counter(outcome.status for outcome in self.cells)
        return {status: number[status] for status in Status if number[status]}


def fail(name: str, where: str, what: str) -> NoReturn:
    """Raise RecordError in one line: the record's name, the path to the fault, and what it is."""
    msg = f"{name}: {where}: {what}"
    raise RecordError(msg)


def require_clean(record: Record) -> None:
    """Raise RecordError where nobody can look up what measured a record: it is not for ``matrix/results/``."""
    if record.suite.is_dirty:
        what = (
            f"is {record.suite.commit}; commit what changed in the checks or the launcher, and measure again"
        )
        fail(f"{record.name}.json", "suite.commit", what)
