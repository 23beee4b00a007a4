"""What the table's search looks through beyond the page itself: a script that hands over the texts of each row.

It is a script and no JSON, since a page below ``file://`` can load
the one and not the other; it is ASCII, so that nothing in it can end a line or the script.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from canishard.facts.quirks import Quirk
from canishard.launch.outcome import Outcome, Status
from canishard.report.site.base import Site, short_link

PATH = "search.js"


def pages(site: Site) -> dict[str, bytes]:
    """Return the script."""
    found = json.dumps(texts(site), sort_keys=True, separators=(",\n", ":"))
    return {PATH: f"canishardTexts({found});\n".encode("ascii")}


def texts(site: Site) -> dict[str, str]:
    """Return what is said of each row: deviations, messages, and the quirks it shows with the numbers of issues."""
    outcomes: dict[str, list[Outcome]] = {}
    for record in site.records:
        for outcome in record.cells:
            outcomes.setdefault(outcome.id, []).append(outcome)
    found = {row_id: _row(own, site.quirks) for row_id, own in outcomes.items()}
    return {row_id: text for row_id, text in found.items() if text}


def _row(outcomes: Iterable[Outcome], quirks: Iterable[Quirk]) -> str:
    failing = [outcome for outcome in outcomes if outcome.status is not Status.PASS]
    said = {text for outcome in failing for text in (outcome.deviation, outcome.message) if text}
    shown = [quirk for quirk in quirks if any(quirk.is_shown_by(outcome) for outcome in failing)]
    return " ".join([*sorted(said), *(_quirk(quirk) for quirk in shown)])


def _quirk(quirk: Quirk) -> str:
    links = [short_link(link) for link in quirk.links]
    return " ".join([quirk.name, quirk.title, *links])
