"""The words for what a case did: statuses, outcomes, and the evidence behind them.

Plain data, read and written as JSON; imports nothing of canishard. The closed set of statuses and their
order are the project's contract: see ARCHITECTURE.md.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import msgspec


class Status(str, Enum):
    """What a case did in one environment, decided by the parent process from all ranks."""

    PASS = "pass"  # noqa: S105 - no password
    WRONG = "wrong"
    ERROR = "error"
    UNSUPPORTED = "unsupported"
    MISSING = "missing"
    HANG = "hang"
    CRASH = "crash"
    FLAKY = "flaky"
    NOT_RUN = "not_run"
    INFRA = "infra"
    UNKNOWN = "unknown"
    """Absent from the record: shown as a cell, never stored."""


class Kind(NamedTuple):
    """What is compared of an outcome or an attempt: two are alike where both parts are."""

    status: Status
    deviation: str = ""
    """How a value is wrong, for ``wrong``."""

    def __str__(self) -> str:
        """Return it in words: ``wrong (summed instead of averaged)``."""
        return f"{self.status.value} ({self.deviation})" if self.deviation else self.status.value


GRAVE = frozenset({Status.CRASH, Status.HANG})
"""Statuses that real ``spawn`` confirms, since a fork server could have caused them."""

NOT_RETRIED = frozenset({Status.PASS, Status.MISSING, Status.NOT_RUN})
"""Statuses that one attempt settles."""


class RankEvidence(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What one rank said and how it ended; texts are normalised before they are stored."""

    rank: int
    phase: str
    """The last phase reached: start, init, body, report, released, teardown."""
    exit: str = ""
    """Empty for exit code 0; else ``signal SIGABRT``, ``code 3`` or ``killed by the watchdog``."""
    state: str = ""
    """What the kernel said at the deadline of a rank that had not reported (``S (sleeping)``)."""
    stage: str = ""
    error: str = ""
    """``Type: message`` of what the check raised."""
    refused: bool = False
    """What it raised is a NotImplementedError, or of a class derived from it."""
    traceback: str = ""
    stacks: str = ""
    output: str = ""
    """The tail of stdout and stderr, descriptor level."""
    mismatches: list[dict[str, str | int | float | list[str] | None]] = []
    measurements: dict[str, float | str | None] = {}
    notes: list[str] = []


class Attempt(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One run of a case in fresh processes."""

    status: Status
    start_method: str
    """``fork`` (from a server with torch loaded) or ``spawn``."""
    message: str = ""
    deviation: str = ""
    first_failing_rank: int | None = None
    notes: list[str] = []
    ranks: list[RankEvidence] = []

    @property
    def kind(self) -> Kind:
        """Return what of it is compared."""
        return Kind(self.status, self.deviation)


class Outcome(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A case's result in one environment: the fold of its attempts."""

    id: str
    world_size: int
    digest: str
    status: Status
    deviation: str = ""
    """How a value is wrong, for ``wrong``."""
    message: str = ""
    """The first line of what went wrong, normalised, at most 300 characters."""
    names: list[str] = []
    """Old names under which a needed name was found, where it was not the first one asked for."""
    notes: list[str] = []
    """Remarks that do not change the status: a failure in teardown, an argument this release requires."""
    measurements: dict[str, float | str | None] = {}
    attempts: list[Attempt] = []

    @property
    def kind(self) -> Kind:
        """Return what of it is compared."""
        return Kind(self.status, self.deviation)

    @property
    def key(self) -> tuple[str, int]:
        """Return what is unique: id and world size."""
        return self.id, self.world_size


def words(outcome: Outcome | None) -> str:
    """Return what a cell did, in words: ``wrong (summed instead of averaged)``; ``absent`` for none."""
    return "absent" if outcome is None else str(outcome.kind)


class Case(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A check with its parameters and world size: a row of the table, as the parent knows it."""

    id: str
    world_size: int
    digest: str
    family: str
    feature: str
    title: str
    module: str
    function: str
    params: dict[str, str | int | float | bool] = {}
    workaround: str = ""
    needs: list[list[str]] = []
    missing: str = ""
    """Why no rank is started: the names that this release does not have, in words."""
    names: list[str] = []
    rests_on: list[str] = []
    packages: list[str] = []
    absent_packages: list[str] = []
    stages: list[tuple[str, int, bool]] = []
    """``(name, world size, joins a process group)`` of each part, in order."""
    slow: bool = False
    deadline_s: float = 30.0

    @property
    def key(self) -> tuple[str, int]:
        """Return what is unique: id and world size."""
        return self.id, self.world_size
