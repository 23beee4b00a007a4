"""Which rows changed because another one did: each change under the row that it is traced to. Pure.

A row says itself what it rests on. Rows that differ in their
parameters alone are one subject, ``collectives.reduce_scatter_tensor``: what breaks several operations of it in one
night is one cause.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from enum import Enum

import msgspec

from canishard.catalogue import Entry, ids
from canishard.facts.compare import REGRESSIONS, CellChange, Change


class Direction(str, Enum):
    """Which way a row changed."""

    WORSE = "worse"
    BETTER = "better"
    OTHERWISE = "otherwise"
    """From one way of not working to another."""


class Cause(msgspec.Struct, kw_only=True, frozen=True):
    """A subject that changed, and every change that is traced to it, its own first."""

    key: str
    root: str
    """A subject: an id without its parameters."""
    direction: Direction
    changes: list[CellChange]


def direction(change: CellChange) -> Direction | None:
    """Return which way a cell changed; None where that is not a change of torch."""
    if change.change in REGRESSIONS:
        return Direction.WORSE
    return {Change.FIXED: Direction.BETTER, Change.CHANGED_KIND: Direction.OTHERWISE}.get(change.change)


def subject(case_id: str) -> str:
    """Return an id without its parameters: ``fsdp2.train+force_sum`` of ``fsdp2.train[optimizer=sgd]+force_sum``."""
    return re.sub(r"\[.*\]", "", case_id)


def key_of(root: str, backend: str, device: str) -> str:
    """Return what finds a cause's issue again, whether it broke or was mended."""
    digest = hashlib.sha256(f"{subject(root)}\n{backend}\n{device}".encode()).hexdigest()[:16]
    return lane(backend, device) + digest


def lane(backend: str, device: str) -> str:
    """Return how the keys of a backend and device begin: each has a state of its own, which knows its own issues."""
    return re.sub(r"[^0-9a-z]+", "-", f"{backend}-{device}-".lower())


def trace(
    changes: Sequence[CellChange],
    rows: Mapping[str, Entry],
    *,
    backend: str,
    device: str,
    undecided: Collection[str] = (),
) -> list[Cause]:
    """Return the causes of the changes that stand, by direction and root; every change is under one of them.

    ``rows`` is the catalogue. ``undecided`` are the ids of which nothing is known tonight: where a row rests on one
    of them, which rests on a changed one, that explains the first.
    """
    found: dict[tuple[Direction, str], list[CellChange]] = {}
    for way in Direction:
        own = [change for change in changes if direction(change) is way]
        origin = roots({change.id for change in own}, rows, undecided)
        for change in own:
            found.setdefault((way, origin[change.id]), []).append(change)
    return [
        Cause(
            key=key_of(root, backend, device),
            root=root,
            direction=way,
            changes=sorted(
                own, key=lambda change: (subject(change.id) != root, change.id, change.world_size)
            ),
        )
        for (way, root), own in sorted(found.items(), key=lambda item: (_ORDER[item[0][0]], item[0][1]))
    ]


_ORDER = {way: number for number, way in enumerate(Direction)}


def roots(
    changed: Collection[str], rows: Mapping[str, Entry], undecided: Collection[str] = ()
) -> dict[str, str]:
    """Return the subject that each changed id is traced to: its own, where nothing that it rests on changed.

    Of several that would explain it the one that takes the fewest steps is taken, then the one it names first.
    Subjects that rest on each other are one cause, named by the first of them.
    """
    graph = {case_id: _explaining(case_id, changed, rows, undecided) for case_id in sorted(changed)}
    explaining: dict[str, list[str]] = {}
    for case_id, others in graph.items():
        own = explaining.setdefault(subject(case_id), [])
        own += [other for other in map(subject, others) if other not in {*own, subject(case_id)}]
    reached = {name: _reached(name, explaining) for name in explaining}
    ends = {name for name in explaining if all(name in reached[other] for other in reached[name])}
    origin = {
        name: min(reached[next(other for other in reached[name] if other in ends)]) for name in explaining
    }
    return {case_id: origin[subject(case_id)] for case_id in graph}


def _explaining(
    case_id: str, changed: Collection[str], rows: Mapping[str, Entry], undecided: Collection[str]
) -> list[str]:
    """Return the changed rows that a row rests on, directly or through undecided ones."""
    found: list[str] = []
    looked, left = {case_id}, [case_id]
    while left:
        entry = rows.get(left.pop(0))
        for pattern in entry.rests_on if entry else ():
            for other in ids.matching([pattern], sorted({*changed, *undecided})):
                if other in looked:
                    continue
                looked.add(other)
                (found if other in changed else left).append(other)
    return found


def _reached(name: str, explaining: Mapping[str, list[str]]) -> list[str]:
    """Return all that a subject leads to, itself first, by the number of steps."""
    found = [name]
    for one in found:
        found += [other for other in explaining[one] if other not in found]
    return found
