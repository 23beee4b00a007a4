"""The small table in the README, between two markers, from the same records as the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from canishard.catalogue import ids
from canishard.errors import ConfigurationError
from canishard.facts.quirks import Quirk
from canishard.launch.outcome import Status
from canishard.record import Record
from canishard.report.markdown import cell, head
from canishard.report.table import MEANINGS, SYMBOLS, Shown, groups, rows
from canishard.report.text import code, table

BEGIN = "<!-- excerpt:begin -->"
END = "<!-- excerpt:end -->"


def excerpt(records: Sequence[Record], quirks: Iterable[Quirk]) -> str:
    """Return a table of what each quirk shows in the first group: one row a quirk, and its workaround's."""
    tables = groups(records)
    if not tables:
        return "Nothing has been measured yet."
    group = tables[0]
    own = [record for column in group.columns for _, record in column.records]
    wanted = _cases(own, quirks)
    by_id = {row.id: row for row in reversed(rows(group, wanted))}
    used: set[Status] = {shown.status for row in by_id.values() for column in row.cells for shown in column}
    lines = [
        [
            code(case_id),
            ", ".join(str(size) for size in by_id[case_id].world_sizes),
            *(cell([_without_notes(one) for one in shown], {}) for shown in by_id[case_id].cells),
        ]
        for case_id in wanted
    ]
    legend = ", ".join(f"{SYMBOLS[status]} {status.value}" for status in MEANINGS if status in used)
    heads = ["case", "ranks", *(head(column) for column in group.columns)]
    return "\n".join([f"{group.title}:", "", table(heads, lines), "", legend])


def _cases(records: Sequence[Record], quirks: Iterable[Quirk]) -> list[str]:
    """Return the first case that shows each quirk, and the case of its workaround, in the quirks' order."""
    there = sorted({outcome.id for record in records for outcome in record.cells})
    found: list[str] = []
    for quirk in quirks:
        shown = {cell.id for record in records for cell in record.cells if quirk.is_shown_by(cell)}
        case_ids = [case_id for case_id in there if case_id in shown] or there
        by_pattern = [case_id for pattern in quirk.cases for case_id in ids.matching([pattern], case_ids)]
        found += [*by_pattern[:1], *(case_id for case_id in there if case_id == quirk.workaround)]
    return list(dict.fromkeys(found))


def _without_notes(shown: Shown) -> Shown:
    return msgspec.structs.replace(shown, notes=[])


def filled(readme: str, content: str) -> str:
    """Return a README with the text between the two markers replaced."""
    if readme.count(BEGIN) != 1 or readme.count(END) != 1 or readme.index(BEGIN) > readme.index(END):
        msg = f"README.md: needs one {BEGIN} and one {END} after it, each once"
        raise ConfigurationError(msg)
    before, _, rest = readme.partition(BEGIN)
    return f"{before}{BEGIN}\n{content}\n{END}{rest.partition(END)[2]}"
