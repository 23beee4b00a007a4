"""Badges: what passes on the newest measured release, a backend and a family each; as JSON and as SVG.

The JSON is what an endpoint badge of a badge
service reads. No clock: a badge changes when the records do.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from canishard.answers.dataset import Dataset
from canishard.facts.quirks import NOT_MEASURED
from canishard.launch.outcome import Outcome, Status
from canishard.report.table import Group, groups

FOLDER = "badges"

# Each has a contrast of 4.5 or more with the white text.
GREEN, ORANGE, RED = "#2c7a33", "#a35200", "#b3261e"

_ADVANCE = 6.1
"""Width of a character at 11 px in the fonts that are asked for; ``textLength`` makes the rest fit."""

_SVG = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{said}">
<title>{said}</title>
<clipPath id="r"><rect width="{width}" height="20" rx="3"/></clipPath>
<g clip-path="url(#r)">
<rect width="{left}" height="20" fill="#444"/>
<rect x="{left}" width="{right}" height="20" fill="{color}"/>
</g>
<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="{left_middle}" y="14" textLength="{left_text}">{label}</text>
<text x="{right_middle}" y="14" textLength="{right_text}">{message}</text>
</g>
</svg>
"""


@dataclass(frozen=True, kw_only=True)
class Badge:
    """A badge's two texts and its colour."""

    label: str
    message: str
    color: str

    def endpoint(self) -> bytes:
        """Return it as a badge service reads it."""
        fields = {"schemaVersion": 1, "label": self.label, "message": self.message, "color": self.color}
        return (json.dumps(fields, indent=2) + "\n").encode()

    def svg(self) -> bytes:
        """Return it as an image that a screen reader can read out."""
        left_text, right_text = (round(len(text) * _ADVANCE) for text in (self.label, self.message))
        left, right = left_text + 10, right_text + 10
        return _SVG.format(
            width=left + right,
            left=left,
            right=right,
            left_text=left_text,
            right_text=right_text,
            left_middle=left / 2,
            right_middle=left + right / 2,
            color=self.color,
            label=html.escape(self.label),
            message=html.escape(self.message),
            said=html.escape(f"{self.label}: {self.message}"),
        ).encode()


def outputs(dataset: Dataset) -> dict[str, bytes]:
    """Return the badges' files by their path below ``reports/``: ``badges/gloo-cpu/fsdp2.svg``, and ``.json``."""
    found = {}
    for group in groups(dataset.records):
        for family, badge in _badges(group, dataset):
            path = f"{FOLDER}/{_folder(group)}/{_safe(family)}"
            found[f"{path}.json"], found[f"{path}.svg"] = badge.endpoint(), badge.svg()
    return found


def _badges(group: Group, dataset: Dataset) -> Iterator[tuple[str, Badge]]:
    """Yield a family's badge each, of the newest stable release that was measured."""
    column = next((one for one in group.columns if one.records[0][1].environment.is_stable), None)
    if column is None:
        return
    rows: dict[str, dict[str, list[Outcome]]] = {}
    for _, record in column.records:
        for outcome in record.cells:
            row = dataset.by_id[outcome.id]
            if not row.workaround and outcome.status not in NOT_MEASURED:
                rows.setdefault(row.family, {}).setdefault(row.id, []).append(outcome)
    for family in sorted(rows):
        yield (
            family,
            _badge(
                f"{family} on {group.backend}/{group.device}", column.channel, list(rows[family].values())
            ),
        )


def _badge(label: str, release: str, rows: Sequence[Sequence[Outcome]]) -> Badge:
    """Return the badge of a family's rows; a row passes where all its cells do."""
    passing = sum(all(outcome.status is Status.PASS for outcome in row) for row in rows)
    wrong = sum(any(outcome.status is Status.WRONG for outcome in row) for row in rows)
    message = f"torch {release}: {passing} of {len(rows)} pass{f', {wrong} silently wrong' if wrong else ''}"
    color = GREEN if passing == len(rows) else RED if wrong or not passing else ORANGE
    return Badge(label=label, message=message, color=color)


def _folder(group: Group) -> str:
    parts = [group.backend, group.device]
    if (group.system, group.machine) != ("linux", "x86_64"):
        parts += [group.system, group.machine]
    return "-".join(_safe(part) for part in parts)


def _safe(text: str) -> str:
    """Return text that needs no escape in a path or a link, and another for every other text."""
    return re.sub(r"[^A-Za-z0-9._]", lambda found: f"~{ord(found[0]):02x}", text)
