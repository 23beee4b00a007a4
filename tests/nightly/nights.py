"""Nights for tests, made up: a few rows, and a story that plays one night after another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from made_up import DIGEST, outcome, record, variant

from canishard.catalogue import Entry
from canishard.facts.expectations import Entry as Expectation
from canishard.launch.outcome import Outcome, Status
from canishard.nightly import actions, state, verdict
from canishard.nightly.actions import BLIND, Plan
from canishard.nightly.settle import settle
from canishard.nightly.state import Build, NightVerdict, State
from canishard.nightly.suspects import suspects
from canishard.nightly.verdict import Night
from canishard.record import Record

PRIM, OTHER, GRADIENTS, TRAIN = "prim.scatter[op=avg]", "prim.scatter[op=max]", "fsdp.gradients", "fsdp.train"
PIPE = "pp.gpipe"


def row(case_id: str, *rests_on: str, sizes: Sequence[int] = (2,)) -> Entry:
    family, _, subject = case_id.partition(".")
    return Entry(
        id=case_id,
        family=family,
        subject=subject.partition("[")[0],
        workaround="",
        feature="feature",
        title="It <holds>",
        module="module",
        function="function",
        params={},
        world_sizes=list(sizes),
        rests_on=list(rests_on),
        needs=[],
        packages=[],
        source="",
    )


def catalogue(*rows: Entry) -> dict[str, Entry]:
    return {entry.id: entry for entry in rows}


ROWS = catalogue(
    row(PRIM), row(OTHER), row(GRADIENTS, "prim.scatter[op=avg]"), row(TRAIN, "fsdp.gradients*"), row(PIPE)
)


def cell(case_id: str, words: str | Outcome, digest: str = DIGEST) -> Outcome:
    """Return an outcome: ``pass``, ``wrong:summed``, ``crash``."""
    if isinstance(words, Outcome):
        return words
    status, _, deviation = words.partition(":")
    message = f"{status} of {case_id}" if status not in {"pass", "wrong"} else ""
    return outcome(case_id, 2, status, deviation=deviation, message=message, digest=digest)


def measured(
    number: int, cells: Mapping[str, str | Outcome], digests: Mapping[str, str] | None = None
) -> Record:
    """Return the record of a night by its number, which is its day too."""
    version = f"2.16.0.dev202601{number:02d}"
    return record(
        *(cell(case_id, words, (digests or {}).get(case_id, DIGEST)) for case_id, words in cells.items()),
        channel="nightly",
        variant=variant(f"{version}+cpu", git_version=f"{number:040x}"),
        ended=f"2026-01-{number:02d}T12:00:00Z",
    )


def expectation(**more: object) -> Expectation:
    fields = {
        "cases": ["pp.*"],
        "torch": ">=2.16.0.dev0",
        "statuses": [Status.CRASH],
        "why": "it is known",
        "link": "https://example.org/1",
    }
    return msgspec.convert({**fields, **more}, Expectation)


class Story:
    """Nights in a row; what is not said of a cell is a pass, None is not measured."""

    def __init__(self, rows: Mapping[str, Entry] = ROWS) -> None:
        self.rows = dict(rows)
        self.state = State()
        self.confirmed: Record | None = None
        self.number = 0
        self.last: Night
        self.plan: Plan

    @property
    def date(self) -> str:
        return f"2026-01-{self.number:02d}"

    @property
    def suite(self) -> set[tuple[str, int]]:
        return {(entry.id, size) for entry in self.rows.values() for size in entry.world_sizes}

    def night(
        self,
        cells: Mapping[str, str | Outcome | None] | None = None,
        *,
        again: Mapping[str, Sequence[str]] | None = None,
        digests: Mapping[str, str] | None = None,
        expected: Sequence[Expectation] = (),
    ) -> Plan:
        """Play a night; ``again`` says how the three repeated runs end, the night's own way where it does not."""
        self.number += 1
        all_cells = {**dict.fromkeys(self.rows, "pass"), **(cells or {})}
        tonight = measured(self.number, {name: words for name, words in all_cells.items() if words}, digests)
        found = suspects(self.confirmed, tonight, expected, self.suite)
        settled = []
        for change in found.changed:
            assert change.new is not None
            runs = [cell(change.id, words) for words in (again or {}).get(change.id, ())] or [change.new] * 3
            settled.append(settle(change, runs, [cell(change.id, "pass")] * 2, Status.PASS))
        self.last = verdict.judged(self.date, self.confirmed, tonight, found, settled)
        if self.last.verdict.is_judged:
            self.confirmed = verdict.next_confirmed(self.confirmed, tonight, self.last)
        return self._decide()

    def fault(self, reason: str = "torch cannot be imported", build: Build | None = None) -> Plan:
        """Play a night without a verdict."""
        self.number += 1
        self.last = verdict.without(self.date, NightVerdict.INFRA, reason, build)
        return self._decide()

    def same(self) -> Plan:
        """Play a night whose build was judged already."""
        self.number += 1
        build = self.state.confirmed
        self.last = verdict.without(self.date, NightVerdict.SAME_BUILD, "it was judged already", build)
        return self._decide()

    def status(self, case_id: str) -> str:
        """Return what the confirmed record says of a row; empty where it does not have it."""
        assert self.confirmed is not None
        found = [one.status.value for one in self.confirmed.cells if one.id == case_id]
        return found[0] if found else ""

    def _decide(self) -> Plan:
        # What is handed from job to job, and from night to night, goes through its file.
        night = verdict.decode(verdict.encode(self.last))
        assert night == self.last
        self.plan = actions.decide(self.state, night, self.confirmed, self.suite, self.rows)
        known = {key: number for key, number in self.plan.state.issues.items() if number}
        new = [action.key for action in self.plan.actions if action.key not in known]
        numbers = {key: 100 * self.number + index for index, key in enumerate(new)}
        kept = actions.with_issues(self.plan.state, numbers)
        self.state = state.decode(state.encode(kept))
        assert self.state == kept
        return self.plan


def kinds(plan: Plan) -> list[str]:
    """Return what is done, in words: ``open pp.gpipe``; comments are told by a ``!``."""
    roots = {cause.key: cause.root for cause in plan.state.causes}
    roots |= {plan.state.blind.key: BLIND} if plan.state.blind else {}
    return [
        f"{action.kind.value}{'!' if action.comment else ''} {roots.get(action.key, action.key)}"
        for action in plan.actions
    ]


def without(rows: Mapping[str, Entry], *gone: str) -> dict[str, Entry]:
    return {case_id: entry for case_id, entry in rows.items() if case_id not in gone}


def ids(changes: Iterable[object]) -> list[str]:
    return [str(getattr(change, "id", "")) for change in changes]
