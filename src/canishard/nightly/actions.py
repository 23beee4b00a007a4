"""From what is remembered and a night: what to do about issues, and what is remembered next. Pure.

One issue a cause; its text is written anew each night, and people are notified by a comment only where
something changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from enum import Enum

import msgspec

from canishard.catalogue import Entry
from canishard.errors import ConfigurationError
from canishard.nightly import notices
from canishard.nightly.causes import key_of
from canishard.nightly.state import REMEMBERED, Blind, NightVerdict, PastNight, RowState, State, TrackedCause
from canishard.nightly.suspects import Key
from canishard.nightly.tracking import Event, follow, unsettled
from canishard.nightly.verdict import Night
from canishard.record import Record

FAULTS = 3
"""Nights in a row without a verdict, by a fault, after which that is told."""

NIGHTS = 7
"""Nights in a row without a verdict for whatever reason, or without an answer for a cell, after which it is told."""

UNSTEADY = 2
"""How often a cause comes back until it counts as unsteady."""

GOOD_NIGHTS = 5
"""Good nights in a row that an unsteady cause needs before it is closed; one is enough for any other."""

BLIND = "cannot-judge"
"""What the key of the one issue is made of that says that the nightly cannot judge."""


class Kind(str, Enum):
    """What is done about an issue."""

    OPEN = "open"
    UPDATE = "update"
    REOPEN = "reopen"
    CLOSE = "close"


class Action(msgspec.Struct, kw_only=True, frozen=True):
    """What is to be done about one cause's issue; title and body are always written."""

    kind: Kind
    key: str
    title: str
    body: str
    comment: str = ""
    """Only where the state changed; empty for no comment."""
    is_completed: bool = False
    """For ``close``: every row was confirmed to work; else nobody can tell, and the issue says so."""


class Plan(msgspec.Struct, kw_only=True, frozen=True):
    """What follows from a night."""

    actions: list[Action]
    state: State
    """To be saved when the actions are done, with the numbers of the issues (``with_issues``)."""


def decide(
    state: State,
    night: Night,
    confirmed: Record | None,
    suite: Collection[Key],
    rows: Mapping[str, Entry],
) -> Plan:
    """Return what to do, and what to remember.

    ``confirmed`` is the record after the night (``verdict.next_confirmed``), ``suite`` the cells that the checks declare
    now, ``rows`` the catalogue. A night without a verdict changes no cause: all that it can do is to say so.
    Raises ConfigurationError where the state follows another backend or device: each has a state of its own.
    """
    others = {(cause.backend, cause.device) for cause in state.causes} - {(night.backend, night.device)}
    for backend, device in sorted(others):
        msg = (
            f"the nightly's state follows {backend} on {device}, and the night is of {night.backend} on {night.device}: "
            "give each a folder of its own"
        )
        raise ConfigurationError(msg)
    actions: list[Action] = []
    if night.verdict.is_judged:
        assert confirmed is not None, "a night with a verdict leaves a record"
        actions, state = _judged(state, night, confirmed, suite, rows)
    state = _with_history(state, night)
    blind, state = _blind(state, night)
    return Plan(actions=[*actions, *blind], state=state)


def with_issues(state: State, numbers: Mapping[str, int]) -> State:
    """Return the state with the numbers of its causes' issues, by key."""
    causes = [_replace(cause, issue=numbers.get(cause.key, cause.issue)) for cause in state.causes]
    blind = state.blind and _replace(state.blind, issue=numbers.get(state.blind.key, state.blind.issue))
    return _replace(state, causes=causes, blind=blind)


def followed(state: State) -> set[str]:
    """Return the keys of the issues that should be open."""
    blind = {state.blind.key} if state.blind and state.blind.closed is None else set()
    return {cause.key for cause in state.open_causes} | blind


_replace = msgspec.structs.replace


# ---- a night with a verdict ----------------------------------------------------------------------


def _judged(
    state: State, night: Night, confirmed: Record, suite: Collection[Key], rows: Mapping[str, Entry]
) -> tuple[list[Action], State]:
    causes, events = follow(state, night, confirmed, suite, rows)
    actions = []
    for key in sorted(causes):
        action, causes[key] = _action(causes[key], state, night, rows, events[key])
        actions += [action] if action else []
    followed = [causes[key] for key in sorted(causes)]
    return actions, _replace(state, confirmed=night.build, causes=followed, unsettled=unsettled(state, night))


def _action(
    cause: TrackedCause, state: State, night: Night, rows: Mapping[str, Entry], events: Sequence[Event]
) -> tuple[Action | None, TrackedCause]:
    """Return what to do about a cause's issue, None for nothing, and the cause as it is then."""
    former = next((one for one in state.causes if one.key == cause.key), None)
    if cause.closed is not None:
        if not cause.open_rows:
            return None, cause
        # A row that was gone is there again, and fails.
        cause = _replace(cause, closed=None, reopened=cause.reopened + 1)
    good = _good_nights(cause, night)
    is_over = good >= (GOOD_NIGHTS if cause.reopened >= UNSTEADY else 1)
    cause = _replace(cause, good_nights=good, closed=night.date if is_over else None)
    title, body = notices.title(cause), notices.body(cause, night, rows, needed=GOOD_NIGHTS)
    kind, comment = Kind.UPDATE, "" if cause.reopened >= UNSTEADY else notices.comment(events, night)
    if former is None:
        kind, comment = Kind.OPEN, ""
    elif former.closed is not None:
        kind, comment = Kind.REOPEN, notices.reopening(cause, night)
    elif is_over:
        kind, comment = Kind.CLOSE, notices.closing(cause, night)
    digest = _digest(title, body)
    written = _replace(cause, body=digest)
    if kind is Kind.UPDATE and not comment and digest == cause.body:
        return None, written
    is_completed = all(row.state is RowState.FIXED for row in cause.rows)
    action = Action(
        kind=kind,
        key=cause.key,
        title=title,
        body=body,
        comment=comment,
        is_completed=is_over and is_completed,
    )
    return action, written


def _good_nights(cause: TrackedCause, night: Night) -> int:
    """Return how many nights in a row were good; one on which a row was not decided neither counts nor breaks them."""
    if cause.open_rows:
        return 0
    return cause.good_nights + (not any(row.key in night.undecided for row in cause.rows))


def _digest(title: str, body: str) -> str:
    return hashlib.sha256(f"{title}\n{body}".encode()).hexdigest()[:16]


# ---- every night ---------------------------------------------------------------------------------


def _with_history(state: State, night: Night) -> State:
    """Return the state with the night in its history, without what is older than that reaches."""
    past = PastNight(
        date=night.date,
        torch=night.build.torch if night.build else "",
        git_version=night.build.git_version if night.build else "",
        verdict=night.verdict,
        reason=night.reason,
        indeterminate=len(night.undecided),
    )
    history = [*state.history, past][-REMEMBERED:]
    oldest = history[0].date if len(history) == REMEMBERED else ""
    causes = [cause for cause in state.causes if cause.closed is None or cause.closed >= oldest]
    return _replace(state, history=history, causes=causes)


def blindness(state: State, night: Night) -> dict[str, bool]:
    """Return, in words, why the nightly cannot judge, or cannot judge some cells, and whether that is new tonight."""
    nights, faults = state.without_verdict()
    found = {}
    if night.verdict is NightVerdict.MASS:
        found[night.reason] = True
    if faults >= FAULTS:
        is_new = faults == FAULTS and night.verdict is not NightVerdict.SAME_BUILD
        found[
            f"{faults} nights since the last verdict gave none, by a fault of the build, the machine or ours"
        ] = is_new
    elif nights >= NIGHTS:
        found[f"there has been no verdict for {nights} nights"] = nights == NIGHTS
    long = [one.nights for one in state.unsettled if one.nights >= NIGHTS]
    if long:
        cells = "cell" if len(long) == 1 else "cells"
        is_new = night.verdict.is_judged and NIGHTS in long
        found[f"{len(long)} {cells} could not be decided for {NIGHTS} nights in a row or more"] = is_new
    return found


def _blind(state: State, night: Night) -> tuple[list[Action], State]:
    """Return what to do about the one issue that says that the nightly cannot judge, and the state after it."""
    reasons, former = blindness(state, night), state.blind
    is_open = former is not None and former.closed is None
    if not reasons and not is_open:
        return [], state
    before = former or Blind(since=night.date, key=key_of(BLIND, night.backend, night.device))
    blind = before if is_open else _replace(before, since=night.date, closed=None, body="")
    title, body = notices.blind(state, blind, night, list(reasons))
    new = [reason for reason, is_new in reasons.items() if is_new]
    kind = Kind.UPDATE if is_open else Kind.REOPEN if former else Kind.OPEN
    comment = notices.reasons(new or list(reasons)) if kind is Kind.REOPEN or (is_open and new) else ""
    if not reasons:
        kind, comment = Kind.CLOSE, notices.seeing(night)
    written = _replace(blind, body=_digest(title, body), closed=night.date if kind is Kind.CLOSE else None)
    if kind is Kind.UPDATE and not comment and written.body == blind.body:
        return [], state
    action = Action(
        kind=kind, key=blind.key, title=title, body=body, comment=comment, is_completed=kind is Kind.CLOSE
    )
    return [action], _replace(state, blind=written)
