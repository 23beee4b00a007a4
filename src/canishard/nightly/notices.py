"""What people read in an issue: title, body, comments. Pure text.

What comes from torch or from a record is hostile: it stands in code, where GitHub links no name, mentions
nobody, and shows it as it is.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

from packaging.version import InvalidVersion, Version

from canishard.catalogue import Entry
from canishard.launch.outcome import Status
from canishard.nightly.causes import subject
from canishard.nightly.state import Blind, Build, RowState, Seen, State, TrackedCause, TrackedRow
from canishard.nightly.tracking import Event
from canishard.nightly.verdict import Night
from canishard.report.text import code, escape, table
from canishard.walk import nightlies

COMPARE_URL = "https://github.com/pytorch/pytorch/compare"
ROWS = 60
"""Rows that an issue shows; how many more there are is said."""

MESSAGES = 5
LENGTH = 60_000
"""Characters of a body; GitHub takes 65,536."""

TITLE_LENGTH = 200

_STATES = {
    RowState.OPEN: "**open**",
    RowState.FIXED: "works again",
    RowState.REPLACED: "passes since its check was changed",
    RowState.GONE: "no longer measured",
}
_ABOUT = "_Kept up to date by the nightly run: this text is written anew after each. Comments come when something changes._"


def marker(key: str) -> str:
    """Return the hidden line by which a cause's issue is found again."""
    return f"<!-- canishard-cause: {key} -->"


# ---- small parts ---------------------------------------------------------------------------------


def ranks(number: int) -> str:
    """Return a number of ranks in words."""
    return f"{number} rank{'' if number == 1 else 's'}"


def shown(cell: Seen) -> str:
    """Return a status, with how the value is wrong."""
    return f"{cell.status.value} ({code(cell.deviation)})" if cell.deviation else cell.status.value


def build(value: Build | None) -> str:
    """Return a build as people name it: version, and the night on which it was looked at."""
    if value is None:
        return "no build"
    return f"{code(value.torch)} ({value.date})" if value.date else code(value.torch)


def git_range(good: Build, bad: Build) -> str:
    """Return the commits between two builds, as a link where both are known; empty where they are not."""
    commits = [one.git_version for one in (good, bad)]
    if not all(re.fullmatch(r"[0-9a-f]{7,40}", commit) for commit in commits):
        return ""
    return f"[{commits[0][:10]}...{commits[1][:10]}]({COMPARE_URL}/{commits[0]}...{commits[1]})"


def _rows_of(cause: TrackedCause) -> list[TrackedRow]:
    """Return the rows, open ones first, the root's own before the others."""

    def key(row: TrackedRow) -> tuple[bool, bool, str, int]:
        return row.state is not RowState.OPEN, not _is_own(row, cause), row.id, row.world_size

    return sorted(cause.rows, key=key)


def _is_own(row: TrackedRow, cause: TrackedCause) -> bool:
    return subject(row.id) == cause.root


# ---- the issue -----------------------------------------------------------------------------------


def title(cause: TrackedCause) -> str:
    """Return an issue's title: ``pp.gpipe: pass -> crash, and 1 more row (gloo, cpu)``."""
    first = _rows_of(cause)[0]
    others = len({row.id for row in cause.rows if row.state is first.state}) - 1
    more = f", and {others} more row{'' if others == 1 else 's'}" if others else ""
    text = f"{cause.root}: {first.before} -> {first.failed}{more} ({cause.backend}, {cause.device})"
    plain = " ".join(re.sub(r"[^ -~]", " ", text).split())
    return plain if len(plain) <= TITLE_LENGTH else f"{plain[: TITLE_LENGTH - 3]}..."


def body(cause: TrackedCause, night: Night, rows: Mapping[str, Entry], *, needed: int) -> str:
    """Return an issue's text; ``needed`` is how many good nights an unsteady cause takes."""
    ordered = _rows_of(cause)
    first = ordered[0]
    entry = rows.get(first.id)
    parts = [
        marker(cause.key),
        _ABOUT,
        f"**What.** {code(first.id)}{': ' + escape(entry.title) if entry else ''}. {_standing(cause, needed)}",
        f"**Where.** backend {code(cause.backend)}, device {code(cause.device)}",
        f"**Since.** {_since(first)}",
        "### Rows\n\n" + _explained(cause, ordered) + _table(ordered, night),
        *_messages(ordered),
        "### How it was confirmed\n\n" + _confirmed(ordered),
        "### How to reproduce it\n\n" + _reproduction(first, cause),
        f"Last looked at: {build(night.build)}.",
    ]
    text = "\n\n".join(parts) + "\n"
    return text if len(text) <= LENGTH else f"{text[:LENGTH]}\n\n(cut)\n"


def _standing(cause: TrackedCause, needed: int) -> str:
    if cause.open_rows:
        back = f" It came back {_times(cause.reopened)}." if cause.reopened else ""
        return f"{len(cause.open_rows)} of {len(cause.rows)} cells are open.{back}"
    if cause.closed is None:
        return (
            f"No cell is open for {cause.good_nights} of the {needed} nights in a row that it takes to close this, "
            f"since it came back {_times(cause.reopened)}."
        )
    return "No cell is open."


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _since(row: TrackedRow) -> str:
    commits = git_range(row.good, row.since)
    upstream = f"; commits between: {commits}" if commits else ""
    return f"first seen on {build(row.since)}; {shown(row.before)} on {build(row.good)}{upstream}"


def _explained(cause: TrackedCause, ordered: Sequence[TrackedRow]) -> str:
    others = {row.id for row in ordered if not _is_own(row, cause)}
    if not others:
        return ""
    return f"{len(others)} of these rest on {code(cause.root)}, and are no causes of their own.\n\n"


def _table(ordered: Sequence[TrackedRow], night: Night) -> str:
    lines = [
        [
            code(row.id),
            str(row.world_size),
            shown(row.before),
            shown(row.failed),
            _state(row, night),
        ]
        for row in ordered[:ROWS]
    ]
    more = f"\n\n... and {len(ordered) - ROWS} more" if len(ordered) > ROWS else ""
    return table(["row", "ranks", "was", "became", ""], lines) + more


def _state(row: TrackedRow, night: Night) -> str:
    undecided = ", not decided tonight" if row.key in night.undecided else ""
    other = f": {shown(row.now)}" if row.state is RowState.FIXED and row.now.status is not Status.PASS else ""
    return _STATES[row.state] + other + undecided


def _messages(ordered: Iterable[TrackedRow]) -> list[str]:
    """Return the first lines of what went wrong, equal ones once."""
    texts = list(
        dict.fromkeys(row.now.message for row in ordered if row.state is RowState.OPEN and row.now.message)
    )
    if not texts:
        return []
    return ["### First lines\n\n" + "\n".join(f"- {code(text)}" for text in texts[:MESSAGES])]


def _confirmed(ordered: Sequence[TrackedRow]) -> str:
    ways: dict[str, list[str]] = {}
    for row in ordered[:ROWS]:
        name = f"{code(row.id)} ({ranks(row.world_size)})"
        ways.setdefault(row.how, []).append(name)
        if row.mended:
            ways.setdefault(f"works again: {row.mended}", []).append(name)
    lines = [f"- {code(how)}: {_few(cells)}" for how, cells in ways.items()]
    return "Run again, new build and control release in turn.\n\n" + "\n".join(lines)


def _few(cells: Sequence[str], number: int = 4) -> str:
    more = f" and {len(cells) - number} more" if len(cells) > number else ""
    return ", ".join(cells[:number]) + more


def _reproduction(row: TrackedRow, cause: TrackedCause) -> str:
    place = ["--backend", cause.backend, "--device", cause.device, "--world-size", str(row.world_size)]
    lines = [
        f"{_checks(row.since)} -- --case {shlex.quote(row.id)} {shlex.join(place)} --fresh",
        f"nox -s bisect -- {shlex.quote(row.id)} --good {_named(row.good)} --bad {_named(row.since)} {shlex.join(place)}",
    ]
    script = code(f"canishard reproduce {shlex.quote(row.id)}")
    alone = f"Without canishard: what {script} writes, one file that needs torch alone."
    return "\n".join(["```sh", *lines, "```", "", alone])


def _public(value: Build) -> str:
    """Return a version without its local part, safe in a shell; empty where it is no version."""
    try:
        return Version(value.torch).public
    except InvalidVersion:
        return ""


def _named(value: Build) -> str:
    """Return a build as ``bisect`` takes it: a release, or a nightly's day."""
    version = _public(value)
    return nightlies.date_of(version) or version or "VERSION"


def _checks(value: Build) -> str:
    version = _public(value) or "VERSION"
    variables = (f"{name}={shlex.quote(text)} " for name, text in nightlies.environment(version, {}).items())
    return f'{"".join(variables)}nox -s "checks({version})"'


# ---- comments ------------------------------------------------------------------------------------


def comment(events: Sequence[Event], night: Night) -> str:
    """Return what changed tonight; empty where nothing did."""
    if not events:
        return ""
    return "\n".join([f"On {build(night.build)}:", "", *_lines(events)])


def _lines(events: Sequence[Event]) -> list[str]:
    lines = [f"- {_event(event)}" for event in events[:ROWS]]
    return [*lines, *([f"- and {len(events) - ROWS} more"] if len(events) > ROWS else [])]


def _event(event: Event) -> str:
    row, before = event.row, event.before
    name = f"{code(row.id)} ({ranks(row.world_size)})"
    if row.state is not RowState.OPEN:
        now = f" ({shown(row.now)})" if row.state is RowState.FIXED else ""
        return f"{name}: {_STATES[row.state]}{now}"
    if before is None:
        return f"{name} too: {shown(row.before)} -> {shown(row.now)}"
    if before.state is not RowState.OPEN:
        return f"{name} is back: {shown(row.now)}"
    return f"{name}: {shown(before.now)} -> {shown(row.now)}"


def reopening(cause: TrackedCause, night: Night) -> str:
    """Return what is said where a cause comes back."""
    lines = [
        f"- {code(row.id)} ({ranks(row.world_size)}): {shown(row.now)}" for row in cause.open_rows[:ROWS]
    ]
    return "\n".join([f"It is back on {build(night.build)}:", "", *lines])


def closing(cause: TrackedCause, night: Night) -> str:
    """Return what is said where no row is open any more: fixed only where every row was confirmed to be."""
    by_state: dict[RowState, list[str]] = {}
    for row in _rows_of(cause):
        by_state.setdefault(row.state, []).append(f"{code(row.id)} ({ranks(row.world_size)})")
    if set(by_state) == {RowState.FIXED}:
        head = f"Confirmed fixed on {build(night.build)}."
    elif RowState.FIXED in by_state:
        head = f"Nothing is left to track as of {build(night.build)}; not every row was confirmed fixed."
    else:
        head = f"Nothing is left to track as of {build(night.build)}; this was not confirmed fixed."
    return "\n".join(
        [head, "", *(f"- {_STATES[state]}: {_few(cells, ROWS)}" for state, cells in by_state.items())]
    )


# ---- the issue that says that nobody can tell ----------------------------------------------------


def blind(state: State, known: Blind, night: Night, why: Sequence[str]) -> tuple[str, str]:
    """Return title and text of the one issue that says that the nightly cannot judge."""
    parts = [marker(known.key), _ABOUT]
    if why:
        parts.append(f"As of {night.date}, and since {known.since}:")
        parts.append(reasons(why))
    else:
        parts.append(f"The night of {night.date} gave a verdict: {build(night.build)} was judged.")
    parts.append(f"Last build that was judged: {build(state.confirmed)}.")
    past = [
        [
            one.date,
            code(one.torch or "none"),
            one.verdict.value.replace("_", " "),
            code(one.reason) if one.reason else "",
        ]
        for one in state.history[-10:]
    ]
    parts.append(table(["night", "build", "verdict", "why"], past))
    cells = [
        [code(one.id), str(one.world_size), str(one.nights), code(one.why)]
        for one in sorted(state.unsettled, key=lambda one: (-one.nights, one.key))[:ROWS]
    ]
    if cells:
        parts.append(
            "Cells that could not be decided:\n\n" + table(["row", "ranks", "nights", "last time"], cells)
        )
    return f"The nightly cannot judge ({night.backend}, {night.device})", "\n\n".join(parts)[:LENGTH] + "\n"


def reasons(why: Iterable[str]) -> str:
    """Return reasons as a list."""
    return "\n".join(f"- {code(one)}" for one in why)


def seeing(night: Night) -> str:
    """Return what is said when the nightly can judge again."""
    return f"The night of {night.date} judged {build(night.build)}."
