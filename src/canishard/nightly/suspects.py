"""Which cells of a night are not what was confirmed, and whether they are so many that nobody can tell. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from canishard.errors import ConfigurationError
from canishard.facts.compare import REGRESSIONS, UNDECIDED, CellChange, Change, compare
from canishard.facts.expectations import Entry, expected
from canishard.launch.outcome import Outcome
from canishard.record import Record

Key = tuple[str, int]
"""A cell: id and world size."""

MASS = 0.3
"""The share of the comparable cells above which the environment is at fault until shown otherwise."""

MASS_AT_LEAST = 10
"""Fewer cells are never a mass: in a small suite each of them is confirmed by itself."""

RETRIED = frozenset({*REGRESSIONS, Change.FIXED, Change.CHANGED_KIND})
"""The changes that are run again before anything is told of them."""


class ExpectedChange(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A change that ``matrix/expectations.toml`` knows of."""

    change: CellChange
    entry: Entry


class Suspects(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """How a night's cells stand to the confirmed ones, equal digests only; each cell is in one list at most."""

    changed: list[CellChange] = []
    """To be run again: regressed, newly wrong, fixed, changed kind."""
    expected: list[ExpectedChange] = []
    indeterminate: list[CellChange] = []
    """Flaky, or not measured tonight (``new`` is None) although the suite has the row; ``old`` is None where it
    was never decided before."""
    lost_coverage: list[CellChange] = []
    digest_changed: list[CellChange] = []
    """The check itself was changed; ``same`` where its cell is what it was."""
    added: list[CellChange] = []
    removed: list[CellChange] = []
    comparable: int = 0
    """Cells that have a confirmed outcome, are in the suite, and whose check is the same."""

    @property
    def doubtful(self) -> int:
        """Return how many cells changed as a broken environment could have changed them: all but the fixed ones."""
        changed = [*self.changed, *self.indeterminate, *self.lost_coverage]
        return sum(change.old is not None and change.change is not Change.FIXED for change in changed)


def suspects(
    confirmed: Record | None, tonight: Record, expectations: Sequence[Entry], suite: Collection[Key]
) -> Suspects:
    """Compare a night with the last confirmed state.

    ``suite`` holds the cells that the checks declare now: a confirmed one that is not among them was removed, one
    that is and has no outcome could not be measured. Raises ConfigurationError where the two records are not of the
    same series; the channel may differ, so that releases can stand in for nightlies.
    """
    if confirmed is not None:
        _require_series(confirmed, tonight)
    before, after = {} if confirmed is None else _by_key(confirmed), _by_key(tonight)
    found = Suspects()
    comparable = 0
    for key in sorted({*before, *after, *suite}):
        old, new = before.get(key), after.get(key)
        comparable += _is_comparable(old, new, key in suite)
        _sort_in(found, _change(key, old, new), tonight, expectations, is_in_suite=key in suite)
    return msgspec.structs.replace(found, comparable=comparable)


def _by_key(record: Record) -> dict[Key, Outcome]:
    return {outcome.key: outcome for outcome in record.cells}


def _change(key: Key, old: Outcome | None, new: Outcome | None) -> CellChange:
    return CellChange(id=key[0], world_size=key[1], change=compare(old, new), old=old, new=new)


def _require_series(confirmed: Record, tonight: Record) -> None:
    series = [msgspec.structs.replace(record.environment, channel="") for record in (confirmed, tonight)]
    if series[0] != series[1]:
        msg = (
            f"{tonight.name}: cannot be compared with the confirmed {confirmed.name}, which is another series; "
            "take its files out of the state's folder to begin a new baseline"
        )
        raise ConfigurationError(msg)


def _is_comparable(old: Outcome | None, new: Outcome | None, is_in_suite: bool) -> bool:
    """Tell whether a cell could have been compared, had it been decided tonight."""
    if old is None or old.status in UNDECIDED:
        return False
    return is_in_suite if new is None else new.digest == old.digest


def _sort_in(
    found: Suspects,
    change: CellChange,
    tonight: Record,
    expectations: Sequence[Entry],
    *,
    is_in_suite: bool,
) -> None:
    """Put a cell into its list; one that is the same goes into none."""
    old, new = change.old, change.new
    if new is None:
        unmeasured = msgspec.structs.replace(change, change=Change.INDETERMINATE)
        (found.indeterminate if is_in_suite else found.removed).append(unmeasured if is_in_suite else change)
    elif old is None or old.status in UNDECIDED:
        # A confirmed record has no undecided cell; one that is handed in may have.
        found.added.append(change)
    elif old.digest != new.digest:
        found.digest_changed.append(change)
    elif change.change is not Change.SAME:
        entry = expected(expectations, tonight, new)
        if entry:
            found.expected.append(ExpectedChange(change=change, entry=entry))
        else:
            _list_of(found, change.change).append(change)


def _list_of(found: Suspects, change: Change) -> list[CellChange]:
    if change in RETRIED:
        return found.changed
    return {
        Change.LOST_COVERAGE: found.lost_coverage,
        Change.INDETERMINATE: found.indeterminate,
        Change.ADDED: found.added,
    }[change]


def is_mass(found: Suspects) -> bool:
    """Tell whether so much changed that nothing is run again and nothing is told of single cells.

    Fixed cells do not count: no broken environment makes a wrong value right. Cells that could not be decided do.
    """
    return found.doubtful >= MASS_AT_LEAST and found.doubtful > MASS * found.comparable
