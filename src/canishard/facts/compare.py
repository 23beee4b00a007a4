"""What changed between two outcomes of a case: one pure, exhaustive function, and its use on two records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum
from typing import Protocol

import msgspec

from canishard.launch.outcome import Outcome, Status, words
from canishard.record import Record


class Change(str, Enum):
    """How a cell's new outcome stands to its old one."""

    SAME = "same"
    FIXED = "fixed"
    REGRESSED = "regressed"
    NEWLY_WRONG = "newly_wrong"
    CHANGED_KIND = "changed_kind"
    ADDED = "added"
    REMOVED = "removed"
    LOST_COVERAGE = "lost_coverage"
    INDETERMINATE = "indeterminate"


REGRESSIONS = frozenset({Change.REGRESSED, Change.NEWLY_WRONG})
"""The changes for the worse. Added and removed rows never are."""

UNDECIDED = frozenset({Status.FLAKY, Status.INFRA, Status.UNKNOWN})
"""Statuses from and to which nothing follows."""


class Cell(Protocol):
    """What is compared of an outcome."""

    @property
    def status(self) -> Status:
        """Return the status."""

    @property
    def deviation(self) -> str:
        """Return how the value is wrong, for ``wrong``."""


def compare(old: Cell | None, new: Cell | None) -> Change:  # noqa: PLR0911 - one return a line of its table
    """Say how a cell changed; None where the suite has no such row.

    The first line that fits decides:

    - absent on both sides: ``same``; on the old one: ``added``; on the new one: ``removed``;
    - the same status (for ``wrong`` with the same deviation): ``same``, flaky, infra and unknown included;
    - flaky, infra or unknown on either side: ``indeterminate``;
    - to ``not_run``: ``lost_coverage``; from ``not_run``: ``added``, since the cell says something for the
      first time;
    - to ``wrong``: ``newly_wrong`` from whatever was there, ``missing`` and ``unsupported`` included, since a
      wrong value without an error is the worst that a release can begin to do; from ``wrong`` with another
      deviation: ``changed_kind``;
    - to ``pass``: ``fixed``, where it works now and did not, an appeared name or a lifted refusal included;
    - from ``pass`` to anything else: ``regressed``, a removed name or a new refusal included;
    - one way of not working to another (``wrong`` to ``error``, ``error`` to ``missing``): ``changed_kind``.
    """
    if old is None or new is None:
        return _presence(is_old=old is not None, is_new=new is not None)
    before, after = old.status, new.status
    if before is after and (after is not Status.WRONG or old.deviation == new.deviation):
        return Change.SAME
    if before in UNDECIDED or after in UNDECIDED:
        return Change.INDETERMINATE
    if after is Status.NOT_RUN:
        return Change.LOST_COVERAGE
    if before is Status.NOT_RUN:
        return Change.ADDED
    if after is Status.WRONG:
        return Change.CHANGED_KIND if before is Status.WRONG else Change.NEWLY_WRONG
    if after is Status.PASS:
        return Change.FIXED
    return Change.REGRESSED if before is Status.PASS else Change.CHANGED_KIND


def _presence(*, is_old: bool, is_new: bool) -> Change:
    if is_old == is_new:
        return Change.SAME
    return Change.ADDED if is_new else Change.REMOVED


class CellChange(msgspec.Struct, kw_only=True, frozen=True):
    """A cell that is not the same, with both its outcomes."""

    id: str
    world_size: int
    change: Change
    old: Outcome | None
    new: Outcome | None

    def __str__(self) -> str:
        """Return it as one line: ``newly_wrong: fsdp2.train[...] (2 ranks): pass -> wrong (summed)``."""
        ranks = f"{self.world_size} rank{'s' if self.world_size != 1 else ''}"
        return f"{self.change.value}: {self.id} ({ranks}): {words(self.old)} -> {words(self.new)}"


def changes(old: Record, new: Record) -> list[CellChange]:
    """Return every cell that is not the same in two records, by id and world size."""
    before = {outcome.key: outcome for outcome in old.cells}
    after = {outcome.key: outcome for outcome in new.cells}
    found = []
    for key in sorted(before.keys() | after.keys()):
        change = compare(before.get(key), after.get(key))
        if change is not Change.SAME:
            found.append(
                CellChange(
                    id=key[0], world_size=key[1], change=change, old=before.get(key), new=after.get(key)
                )
            )
    return found


def counts(found: Iterable[CellChange]) -> dict[Change, int]:
    """Return how often each change occurs, in the order of ``Change``, without those that do not."""
    number = Counter(item.change for item in found)
    return {change: number[change] for change in Change if number[change]}
