"""The causes that are followed from night to night: which rows are under each, and where each row stands. Pure.

A row's cause is settled when its change is first confirmed and stays: a row that failed before another one
did was not made to fail by it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from canishard.catalogue import Entry
from canishard.facts.compare import REGRESSIONS, CellChange, compare
from canishard.facts.quirks import NOT_MEASURED
from canishard.launch.outcome import Outcome
from canishard.nightly.causes import Cause, Direction, roots, trace
from canishard.nightly.state import Build, RowState, State, TrackedCause, TrackedRow, Unsettled, seen
from canishard.nightly.suspects import Key
from canishard.nightly.verdict import Night
from canishard.record import Record

_replace = msgspec.structs.replace


class Event(msgspec.Struct, kw_only=True, frozen=True):
    """A row of a cause that changed tonight."""

    row: TrackedRow
    before: TrackedRow | None
    """As it was under the cause; None where it is new there."""


def follow(
    state: State, night: Night, confirmed: Record, suite: Collection[Key], rows: Mapping[str, Entry]
) -> tuple[dict[str, TrackedCause], dict[str, list[Event]]]:
    """Return the causes by key as they are after a night with a verdict, and what happened to the rows of each.

    New ones are among them; none is opened or closed here but one that comes back with a change that stands.
    """
    cells = {cell.key: cell for cell in confirmed.cells}
    how = {one.key: one.why for one in night.settled}
    causes = {cause.key: cause for cause in state.causes}
    events: dict[str, list[Event]] = {key: [] for key in causes}
    for key, cause in causes.items():
        causes[key] = _looked_at(cause, night, cells, suite, events[key])
    for (key, root), changes in _placed(list(causes.values()), state, night, rows).items():
        earlier = causes.get(key) or _new(key, root, night)
        added = [_row(change, night, state, cells, how) for change in changes]
        causes[key] = _with_rows(_replace(earlier, root=root), added, events.setdefault(key, []))
    return causes, events


# ---- rows that are known -------------------------------------------------------------------------


def _looked_at(
    cause: TrackedCause,
    night: Night,
    cells: Mapping[Key, Outcome],
    suite: Collection[Key],
    events: list[Event],
) -> TrackedCause:
    """Return a cause with its rows as they are now; of one that is closed, those that were gone may come back."""
    found = []
    for row in cause.rows:
        now = row
        if cause.closed is None or row.state is RowState.GONE:
            now = _row_now(row, night, cells.get(row.key), is_in_suite=row.key in suite)
        if now.state is not row.state or not now.now.is_same_as(row.now):
            events.append(Event(row=now, before=row))
        found.append(now)
    return _replace(cause, rows=found)


def _row_now(row: TrackedRow, night: Night, cell: Outcome | None, *, is_in_suite: bool) -> TrackedRow:
    """Return a row as the confirmed record has it.

    One that works again is fixed only while its check is what it was. One that worked comes back by a change that
    stands, and never by the record alone: its check may be another one by now.
    """
    if not is_in_suite:
        return _replace(row, state=RowState.GONE) if row.state is RowState.OPEN else row
    if row.state in {RowState.FIXED, RowState.REPLACED}:
        return row
    if cell is None or cell.status in NOT_MEASURED or row.key in night.undecided:
        return row
    now = seen(cell)
    why = next((one.why for one in night.settled if one.key == row.key), "")
    if compare(row.before, now) in REGRESSIONS:
        return _replace(row, now=now, failed=now, digest=cell.digest, how=why or row.how, state=RowState.OPEN)
    state = RowState.FIXED if cell.digest == row.digest else RowState.REPLACED
    return _replace(row, now=now, digest=cell.digest, mended=why, state=state)


# ---- changes for the worse -----------------------------------------------------------------------


def _placed(
    causes: Sequence[TrackedCause], state: State, night: Night, rows: Mapping[str, Entry]
) -> dict[tuple[str, str], list[CellChange]]:
    """Return tonight's changes for the worse by the key and the root of the cause that each is put under."""
    undecided = {case_id for case_id, _ in night.undecided}
    traced = trace(night.standing, rows, backend=night.backend, device=night.device, undecided=undecided)
    late = {one.key: one.since for one in state.unsettled}
    groups: dict[tuple[str, str], list[CellChange]] = {}
    for cause in traced:
        for change in cause.changes if cause.direction is Direction.WORSE else ():
            since = late.get((change.id, change.world_size))
            home = _home(change, cause, causes, since=since, rows=rows, night=night)
            groups.setdefault(home, []).append(change)
    return dict(sorted(groups.items()))


def _home(
    change: CellChange,
    cause: Cause,
    causes: Sequence[TrackedCause],
    *,
    since: str | None,
    rows: Mapping[str, Entry],
    night: Night,
) -> tuple[str, str]:
    """Return the key and the root of the cause that a change belongs to.

    The open cause that it was under before. Else, for a cell of which nothing was known ``since`` some night, an open
    cause that began after that, and that one of them rests on the other by. Else one of tonight's root, an open one
    first. Else tonight's own.
    """
    is_open = [one for one in causes if one.closed is None]
    for one in is_open:
        if (change.id, change.world_size) in {row.key for row in one.rows}:
            return one.key, one.root
    for one in is_open:
        if since is not None and since <= (one.since.date or ""):
            own = {row.id for row in one.open_rows}
            origin = roots({change.id, *own}, rows)
            if origin[change.id] in {origin[row_id] for row_id in own}:
                return one.key, origin[change.id]
    place = (cause.root, night.backend, night.device)
    same = [one for one in causes if one.key == cause.key or (one.root, one.backend, one.device) == place]
    same.sort(key=lambda one: (one.closed is not None, one.key != cause.key))
    return (same[0].key if same else cause.key), cause.root


def _new(key: str, root: str, night: Night) -> TrackedCause:
    return TrackedCause(
        key=key, root=root, backend=night.backend, device=night.device, since=_build(night), rows=[]
    )


def _build(night: Night) -> Build:
    assert night.build is not None, "a night with a verdict has a build"
    return night.build


def _row(
    change: CellChange,
    night: Night,
    state: State,
    cells: Mapping[Key, Outcome],
    how: Mapping[Key, str],
) -> TrackedRow:
    """Return a row for a change; it was good on the last build on which it was decided, not on the last one at all."""
    key = change.id, change.world_size
    assert change.old is not None, "what was not there before is no change for the worse"
    good = next((one.good for one in state.unsettled if one.key == key and one.good), None)
    now = seen(cells[key])
    return TrackedRow(
        id=change.id,
        world_size=change.world_size,
        digest=cells[key].digest,
        before=seen(change.old),
        failed=now,
        now=now,
        good=good or night.confirmed or _build(night),
        since=_build(night),
        how=how[key],
    )


def _with_rows(cause: TrackedCause, added: Sequence[TrackedRow], events: list[Event]) -> TrackedCause:
    """Return a cause with new rows, or with rows that came back; one that was closed begins anew."""
    if cause.closed is not None:
        cause = _replace(
            cause, closed=None, since=added[0].since, reopened=cause.reopened + 1, rows=[], good_nights=0
        )
    by_key = {row.key: row for row in cause.rows}
    for row in added:
        known = by_key.get(row.key)
        if known and known.state is RowState.OPEN:  # It fails in a worse way: it is followed already.
            continue
        events.append(Event(row=row, before=known))
        by_key[row.key] = row
    return _replace(cause, rows=[by_key[key] for key in sorted(by_key)])


# ---- cells that nobody can decide ----------------------------------------------------------------


def unsettled(state: State, night: Night) -> list[Unsettled]:
    """Return the cells that are undecided, with the nights in a row; one that was decided tonight is off the list."""
    before = {one.key: one for one in state.unsettled}
    return [_undecided_again(before.get(key), key, why, night) for key, why in night.undecided.items()]


def _undecided_again(known: Unsettled | None, key: Key, why: str, night: Night) -> Unsettled:
    if known is not None:
        return _replace(known, nights=known.nights + 1, why=why)
    is_confirmed = any(
        (change.id, change.world_size) == key and change.old is not None for change in night.every_change
    )
    good = night.confirmed if is_confirmed else None
    return Unsettled(id=key[0], world_size=key[1], since=night.date, nights=1, good=good, why=why)
