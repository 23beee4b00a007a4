"""What a night came to, on a job's page: the verdict first, then the reasons. Pure text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from canishard.catalogue import Entry
from canishard.facts.compare import CellChange, Change, counts
from canishard.launch.outcome import Outcome
from canishard.nightly.actions import NIGHTS, Action, Kind, Plan
from canishard.nightly.causes import Direction, trace
from canishard.nightly.notices import build, git_range, ranks, shown
from canishard.nightly.settle import Ruling, Settled
from canishard.nightly.state import NightVerdict, State, seen
from canishard.nightly.verdict import Night
from canishard.report.text import code, escape, table

LINES = 50
"""Lines of a list; how many more there are is said."""

LENGTH = 900_000
"""Characters; a job's page takes a megabyte."""

_SENTENCES = {
    NightVerdict.CLEAN: "nothing changed",
    NightVerdict.CHANGED: "changes were confirmed",
    NightVerdict.BASELINE: "a new baseline: nothing could be compared",
    NightVerdict.SAME_BUILD: "no verdict: this build was judged already",
    NightVerdict.MASS: "no verdict: too much changed at once",
    NightVerdict.INFRA: "no verdict about torch",
}
_DIRECTIONS = {
    Direction.WORSE: "Worse",
    Direction.BETTER: "Fixed",
    Direction.OTHERWISE: "Fails in another way",
}
_DONE = {Kind.OPEN: "filed", Kind.UPDATE: "updated", Kind.REOPEN: "reopened", Kind.CLOSE: "closed"}


def summary(night: Night, before: State, rows: Mapping[str, Entry], plan: Plan | None = None) -> str:
    """Return the page; ``before`` is what was remembered when the night began, ``rows`` the catalogue.

    ``plan`` is what follows from the night; without it nothing is said of issues.
    """
    parts = [
        f"# Nightly of {night.date}: {_SENTENCES[night.verdict]}",
        _build(night, before),
        *([escape(night.reason)] if night.reason else []),
        _counts(night),
        *_standing(night, rows),
        *([_blank(plan.state), _filed(plan.actions, plan.state)] if plan else []),
        *_not_judged(night),
        *_list("Expectations that can go (`matrix/expectations.toml`)", map(escape, night.unneeded)),
    ]
    return "\n\n".join(parts)[:LENGTH] + "\n"


def _build(night: Night, before: State) -> str:
    lines = [f"Build: {build(night.build)}."]
    last = before.last
    if (
        night.build
        and last
        and (last.torch, last.git_version) == (night.build.torch, night.build.git_version)
    ):
        lines.append(
            f"It is the build of the night before, {last.date} ({last.verdict.value.replace('_', ' ')})."
        )
    if not night.verdict.is_judged:
        stale = f"; the column is stale since {before.confirmed.date}" if before.confirmed else ""
        lines.append(f"Last build that was judged: {build(before.confirmed)}{stale}.")
    elif night.confirmed and night.build:
        commits = git_range(night.confirmed, night.build)
        lines.append(f"Compared with {build(night.confirmed)}{', ' + commits if commits else ''}.")
    return " ".join(lines)


def _counts(night: Night) -> str:
    """Return the table of counts; the cells that could not be decided are in it whatever their number."""
    found = night.suspects
    named = [(change.value.replace("_", " "), number) for change, number in counts(night.standing).items()]
    named += [(word, len(some)) for word, some in _lists(night) if some]
    undecided = len(night.undecided)
    heads = [*(name for name, _ in named), "indeterminate", "comparable", "measured"]
    numbers = [*(number for _, number in named), undecided, found.comparable, night.cells]
    return table(heads, [[str(number) for number in numbers]])


def _blank(state: State) -> str:
    nights, faults = state.without_verdict()
    return f"Nights since the last verdict: {nights}, of which {faults} at fault."


def _lists(night: Night) -> list[tuple[str, Sequence[object]]]:
    found = night.suspects
    changed = found.changed if night.verdict is NightVerdict.MASS else []
    return [
        ("changed, not run again", changed),
        ("flaky", [one for one in night.settled if one.ruling is Ruling.FLAKY]),
        ("expected", found.expected),
        ("lost coverage", found.lost_coverage),
        ("check changed", found.digest_changed),
        ("added", found.added),
        ("removed", found.removed),
    ]


def _standing(night: Night, rows: Mapping[str, Entry]) -> list[str]:
    """Return what stands, by direction, each change under its root."""
    undecided = {case_id for case_id, _ in night.undecided}
    causes = trace(night.standing, rows, backend=night.backend, device=night.device, undecided=undecided)
    parts = []
    for direction, head in _DIRECTIONS.items():
        own = [cause for cause in causes if cause.direction is direction]
        if not own:
            continue
        word = "cause" if len(own) == 1 else "causes"
        lines = [f"## {head}: {len(own)} root {word}"]
        for cause in own:
            lines += ["", f"**{code(cause.root)}**", "", *_some(_together(cause.changes))]
        parts.append("\n".join(lines))
    return parts


def _change(change: CellChange) -> str:
    name = f"{code(change.id)} ({ranks(change.world_size)})"
    if change.change in {Change.ADDED, Change.REMOVED}:
        return f"{name}: {_words(change.new or change.old)}"
    return f"{name}: {_words(change.old)} -> {_words(change.new)}"


def _together(changes: Iterable[CellChange]) -> list[str]:
    """Return a line a row, its world sizes together where they changed in the same way."""
    found: dict[tuple[str, str], list[int]] = {}
    for change in changes:
        found.setdefault((change.id, f"{_words(change.old)} -> {_words(change.new)}"), []).append(
            change.world_size
        )
    return [
        f"{code(row_id)} ({', '.join(map(str, sizes[:-1])) + ' and ' if sizes[1:] else ''}{ranks(sizes[-1])}): {words}"
        for (row_id, words), sizes in found.items()
    ]


def _words(outcome: Outcome | None) -> str:
    return shown(seen(outcome)) if outcome else "not measured"


def _some(lines: Sequence[str]) -> list[str]:
    more = [f"- and {len(lines) - LINES} more"] if len(lines) > LINES else []
    return [*(f"- {line}" for line in lines[:LINES]), *more]


def _list(head: str, lines: Iterable[str]) -> list[str]:
    found = list(lines)
    return ["\n".join([f"## {head}: {len(found)}", "", *_some(found)])] if found else []


def _filed(actions: Sequence[Action], state: State) -> str:
    """Return what becomes of the issues."""
    numbers = state.issues
    lines = []
    for action in actions:
        number = numbers.get(action.key)
        issue = f" #{number}" if number else ""
        said = ", with a comment" if action.comment and action.kind is Kind.UPDATE else ""
        lines.append(f"{_DONE[action.kind]}{issue}: {escape(action.title)}{said}")
    if not lines:
        return "Issues: nothing filed, updated or closed."
    return "\n".join(["## Issues", "", *_some(lines)])


def _not_judged(night: Night) -> list[str]:
    """Return what was not judged, and why; each list only where there is something in it."""
    found = night.suspects
    flaky = {one.key for one in night.settled if one.ruling is Ruling.FLAKY}
    others = {key: why for key, why in night.undecided.items() if key not in flaky}
    if night.verdict is NightVerdict.MASS:
        return _list("Changed or not decided, none of it run again", [_change(one) for one in found.changed])
    return [
        *_list(
            "Flaky: the confirmed cell stays", [_settled(one) for one in night.settled if one.key in flaky]
        ),
        *_list(
            f"Not decided (told after {NIGHTS} nights in a row)",
            (f"{code(key[0])} ({ranks(key[1])}): {code(why)}" for key, why in others.items()),
        ),
        *_list(
            "Expected to differ",
            (f"{_change(one.change)}: {escape(one.entry.why)}" for one in found.expected),
        ),
        *_list("The check was changed: not compared", [_change(one) for one in found.digest_changed]),
        *_list(
            "Added rows", [_change(one) for one in found.added if night.verdict is not NightVerdict.BASELINE]
        ),
        *_list("Removed rows", [_change(one) for one in found.removed]),
    ]


def _settled(one: Settled) -> str:
    return f"{_change(one.change)}: {escape(one.why)}"
