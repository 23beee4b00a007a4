"""What people quote of a row: since which release it works, until which, where it does not, and how.

Only what was measured counts: where releases between two measured ones were not, a bound is a range,
``>2.6.0 <=2.8.0``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from itertools import groupby

import msgspec

from canishard.facts.quirks import NOT_MEASURED
from canishard.launch.outcome import Outcome, Status, words
from canishard.record import Record
from canishard.record.environment import Environment, channel_key


class Verdict(str, Enum):
    """Whether a row works on a release, over all that was measured of it there."""

    YES = "yes"
    PARTIAL = "partial"
    """Passes at some world sizes, builds or machines only, or is flaky; the note says which."""
    NO = "no"


class Span(msgspec.Struct, kw_only=True, frozen=True):
    """Successive measured releases with the same verdict and note."""

    verdict: Verdict
    first: str
    last: str
    since: str
    """``2.9.1``; ``>2.6.0 <=2.8.0`` where releases between were not measured; ``<=2.4.1`` for the oldest."""
    until: str
    """The last release: ``2.8.0``, or ``>=2.6.0 <2.8.0``; empty where nothing newer was measured."""
    note: str

    def __str__(self) -> str:
        """Return it in words: ``no since <=2.4.1 until 2.8.0 (wrong: sum instead of avg)``."""
        until = f" until {self.until}" if self.until else ""
        note = f" ({self.note})" if self.note else ""
        return f"{self.verdict.value} since {self.since}{until}{note}"


class Support(msgspec.Struct, kw_only=True, frozen=True):
    """One row's support on a backend and device, all world sizes and builds together, spans oldest first."""

    id: str
    backend: str
    device: str
    flavours: list[str]
    """The builds that were measured."""
    spans: list[Span]

    def __str__(self) -> str:
        """Return it in words, newest first."""
        return "; ".join(str(span) for span in reversed(self.spans))


_Seen = list[tuple[Record, Outcome]]


def support(records: Iterable[Record], releases: Sequence[str], flavour: str | None = None) -> list[Support]:
    """Return a statement per row, backend and device, stable releases only; of one build where asked for.

    ``releases`` are all that exist, measured or not: they tell what lies between two measured ones.
    """
    rows: dict[tuple[str, str, str], dict[str, _Seen]] = {}
    for record in records:
        place = record.environment
        if not place.is_stable or flavour not in {None, place.flavour}:
            continue
        for outcome in record.cells:
            if outcome.status not in NOT_MEASURED:
                row = rows.setdefault((outcome.id, place.backend, place.device), {})
                row.setdefault(place.channel, []).append((record, outcome))
    return [_statement(key, rows[key], releases) for key in sorted(rows)]


def _statement(key: tuple[str, str, str], row: dict[str, _Seen], releases: Sequence[str]) -> Support:
    measured = sorted(row, key=channel_key)
    known = sorted({*releases, *measured}, key=channel_key)
    judged = [(release, *_verdict(row[release])) for release in measured]
    runs = [list(run) for _, run in groupby(judged, key=lambda item: item[1:])]
    bounds = [(run[0][0], run[-1][0]) for run in runs]
    spans = [
        Span(
            verdict=run[0][1],
            first=first,
            last=last,
            since=_since(bounds[index - 1][1] if index else None, first, known),
            until=_until(last, bounds[index + 1][0] if index + 1 < len(bounds) else None, known),
            note=run[0][2],
        )
        for index, (run, (first, last)) in enumerate(zip(runs, bounds, strict=True))
    ]
    flavours = sorted({record.environment.flavour for seen in row.values() for record, _ in seen})
    return Support(id=key[0], backend=key[1], device=key[2], flavours=list(flavours), spans=spans)


def _since(before: str | None, first: str, known: Sequence[str]) -> str:
    if before is None:
        return f"<={first}"
    return first if known.index(first) == known.index(before) + 1 else f">{before} <={first}"


def _until(last: str, after: str | None, known: Sequence[str]) -> str:
    if after is None:
        return ""
    return last if known.index(after) == known.index(last) + 1 else f">={last} <{after}"


def _verdict(seen: _Seen) -> tuple[Verdict, str]:
    """Return the verdict on one release, with a note: what goes wrong, and where unless it is so everywhere."""
    statuses = {outcome.status for _, outcome in seen}
    if statuses == {Status.PASS}:
        names = sorted({name for _, outcome in seen for name in outcome.names})
        return Verdict.YES, f"as {', '.join(names)}" if names else ""
    verdict = Verdict.PARTIAL if statuses & {Status.PASS, Status.FLAKY} else Verdict.NO
    said: dict[Environment, set[str]] = {}
    for record, outcome in seen:
        said.setdefault(record.environment, set()).add(words(outcome))
    if verdict is Verdict.NO and len(set(map(frozenset, said.values()))) == 1:
        return verdict, "; ".join(sorted({words(outcome) for _, outcome in seen}))
    groups: dict[str, set[str]] = {}
    for record, outcome in seen:
        where = f"{outcome.world_size} rank{'s' if outcome.world_size != 1 else ''}"
        groups.setdefault(words(outcome), set()).add(where + _build(record, outcome, seen))
    return verdict, "; ".join(f"{words}: {', '.join(sorted(groups[words]))}" for words in sorted(groups))


def _build(record: Record, outcome: Outcome, seen: _Seen) -> str:
    """Return on which build this was, by what it has of its own; empty where all builds did the same there."""
    beside = [other for other, found in seen if found.world_size == outcome.world_size]
    if len({words(found) for _, found in seen if found.world_size == outcome.world_size}) == 1:
        return ""
    names = {"flavour": "the {} build", "python": "Python {}", "system": "{}", "machine": "{}"}
    differing = [
        text.format(getattr(record.environment, name))
        for name, text in names.items()
        if len({getattr(other.environment, name) for other in beside}) > 1
    ]
    return f" on {', '.join(differing)}" if differing else ""


def ranges(some: Iterable[str], measured: Sequence[str]) -> str:
    """Return some of the measured releases as ranges of successive ones: ``2.4.1, 2.6.0 to 2.8.0``."""
    wanted = set(some)
    runs = [list(run) for hit, run in groupby(measured, key=wanted.__contains__) if hit]
    return ", ".join(run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)
