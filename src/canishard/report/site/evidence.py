"""What lies behind the cells of a row, said once: cells with the same evidence together, ranks with equal texts too.

Everything here is text of records: templates escape it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import msgspec

from canishard.launch.outcome import Attempt, Outcome, RankEvidence, Status
from canishard.report.site.cells import Cell

TEXTS = {
    "traceback": "Traceback",
    "stacks": "Stacks at the deadline",
    "output": "End of what was printed",
}
"""The long texts of a rank, with their heads."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A value that differed, with the ranks that saw exactly this."""

    ranks: str
    label: str
    got: str
    wanted: str
    largest: str
    """The largest difference of two elements; empty where there is no such number."""
    number: str
    """How many values differed: ``18 of 18``."""
    deviations: str


@dataclass(frozen=True, kw_only=True)
class Text:
    """A long text, with the ranks of which it is."""

    head: str
    ranks: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Tried:
    """Attempts with the same evidence."""

    numbers: str
    ways: str
    """How their ranks were started."""
    status: Status
    message: str
    deviation: str
    first: str
    """The rank that failed first, in each attempt where they differ; empty where none did."""
    ranks: list[RankEvidence]
    differences: list[Difference]
    texts: list[Text]


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Cells with the same evidence, and what it is."""

    cells: list[Cell]
    outcome: Outcome
    """One of the cells' outcomes; they differ in the number of ranks at most."""
    tried: list[Tried]

    @property
    def status(self) -> Status:
        """Return the cells' status."""
        return self.outcome.status

    @property
    def message(self) -> str:
        """Return the message, where the table of differences does not say the same."""
        return "" if self.tried and self.tried[0].differences else self.outcome.message

    @property
    def numbers(self) -> list[tuple[str, str]]:
        """Return the measurements as text."""
        return [(name, shown(value)) for name, value in sorted(self.outcome.measurements.items())]


def shown(value: Any) -> str:
    """Return a number to six digits, and anything else as it is; None and an empty list as nothing."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    return "" if value is None else str(value)


def is_plain(outcome: Outcome) -> bool:
    """Tell whether nothing is to be said of an outcome but that it passed."""
    return outcome.status is Status.PASS and not (outcome.names or outcome.notes or outcome.measurements)


def collect(cells: Iterable[Cell]) -> list[Evidence]:
    """Return the evidence of all cells that are not a plain pass, what passed last, else in the cells' order."""
    found: dict[bytes, list[Cell]] = {}
    for cell in cells:
        if cell.outcome is not None and not is_plain(cell.outcome):
            same = msgspec.structs.replace(cell.outcome, world_size=0, digest="")
            found.setdefault(msgspec.json.encode(same), []).append(cell)
    made = [
        Evidence(cells=alike, outcome=outcome, tried=_tried(outcome.attempts))
        for alike in found.values()
        if (outcome := alike[0].outcome) is not None
    ]
    return sorted(made, key=lambda item: item.status is Status.PASS)


def _tried(attempts: Sequence[Attempt]) -> list[Tried]:
    """Return attempts, together where nothing differs but how ranks were started and which was first to fail."""
    found: dict[bytes, list[tuple[int, Attempt]]] = {}
    for number, attempt in enumerate(attempts, 1):
        same = msgspec.structs.replace(attempt, start_method="", first_failing_rank=None)
        found.setdefault(msgspec.json.encode(same), []).append((number, attempt))
    return [
        Tried(
            numbers=_joined(str(number) for number, _ in alike),
            ways=_joined(attempt.start_method for _, attempt in alike),
            status=attempt.status,
            message=attempt.message,
            deviation=attempt.deviation,
            first=_joined(shown(attempt.first_failing_rank) for _, attempt in alike),
            ranks=attempt.ranks,
            differences=_differences(attempt.ranks),
            texts=_texts(attempt.ranks),
        )
        for alike in found.values()
        for attempt in [alike[0][1]]
    ]


def _differences(ranks: Sequence[RankEvidence]) -> list[Difference]:
    found: dict[tuple[str, ...], list[RankEvidence]] = {}
    for rank in ranks:
        for mismatch in rank.mismatches:
            number = f"{shown(mismatch.get('differing'))} of {shown(mismatch.get('of'))}"
            keys = ("label", "got", "wanted", "max_abs_diff")
            key = (*(shown(mismatch.get(key)) for key in keys), number, shown(mismatch.get("deviations")))
            found.setdefault(key, []).append(rank)
    return [
        Difference(
            ranks=_named(alike),
            label=key[0],
            got=key[1],
            wanted=key[2],
            largest=key[3],
            number=key[4],
            deviations=key[5],
        )
        for key, alike in found.items()
    ]


def _texts(ranks: Sequence[RankEvidence]) -> list[Text]:
    made = []
    for field, head in TEXTS.items():
        found: dict[str, list[RankEvidence]] = {}
        for rank in ranks:
            if text := getattr(rank, field):
                found.setdefault(text, []).append(rank)
        made += [Text(head=head, ranks=_named(alike), text=text) for text, alike in found.items()]
    return made


def _named(ranks: Sequence[RankEvidence]) -> str:
    """Return ranks in words, with the stage where it is not the only one: ``ranks 0, 1``, ``rank 0 in save``."""
    parts = []
    for stage, some in groupby(ranks, key=lambda rank: rank.stage):
        numbers = [str(rank.rank) for rank in some]
        word = "rank" if len(numbers) == 1 else "ranks"
        where = f" in {stage}" if stage not in {"", "run"} else ""
        parts.append(f"{word} {', '.join(numbers)}{where}")
    return "; ".join(parts)


def _joined(parts: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(part for part in parts if part))
