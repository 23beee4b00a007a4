"""What the command line prints of the data set: an explanation, what changed, and what blocks a project's needs.

What comes from records is hostile text: what a terminal would obey is taken out of it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence

from canishard.answers import published
from canishard.answers.dataset import Dataset
from canishard.answers.needs import Finding, Holding
from canishard.answers.published import Answer, Verdict, ranks
from canishard.catalogue import ids
from canishard.facts.compare import CellChange, changes
from canishard.facts.support import Span, ranges
from canishard.launch.outcome import words
from canishard.record import Record
from canishard.record.environment import channel_key
from canishard.report.changes import MEANINGS, WORDS, alike
from canishard.report.formats import plain

# ---- explain -------------------------------------------------------------------------------------


def explain(dataset: Dataset, answer: Answer) -> str:
    """Return in under ten lines what a row does on a torch: since when, until when, and what mends it."""
    row, release = dataset.by_id[answer.row], answer.release
    spans = published.history(dataset, answer)
    asked = f"{answer.torch} ({release})" if release not in {"", answer.torch} else answer.torch
    lines = [f"{row.id}: {row.title}" if row.title else row.id]
    lines.append(
        f"torch {asked}, {answer.backend} on {answer.device}: {answer.verdict.value}: {answer.reason}"
    )
    if release:
        lines.append(_when(spans, release, dataset.releases))
    if answer.verdict is not Verdict.YES:
        works = [_range(span) for span in spans if span.verdict.value == Verdict.YES.value]
        lines.append(f"Works on: {', '.join(works) or 'no measured release'}")
        lines.extend(_mending(dataset, answer))
    if release:
        lines.append(_measured(dataset, answer))
    else:
        how = ["run", "--backend", answer.backend, "--device", answer.device, "--case", row.id]
        lines.append(f"To measure it where that torch is installed: canishard {shlex.join(how)}")
    return "\n".join(plain(line) for line in lines)


def _range(span: Span) -> str:
    return span.first if span.first == span.last else f"{span.first} to {span.last}"


def _when(spans: Sequence[Span], release: str, known: Sequence[str]) -> str:
    """Say from when to when a row does what it does on a release, and what it did before and does after."""
    key = channel_key(release)
    index = next(number for number, span in enumerate(spans) if key <= channel_key(span.last))
    span, before, after = spans[index], spans[:index][-1:], spans[index + 1 :][:1]
    sides = [f"before, {_other(one, one.last, _between(one.last, span.first, known))}" for one in before]
    sides += [f"after, {_other(one, one.first, _between(span.last, one.first, known))}" for one in after]
    first = span.first if before else f"{span.first} (the oldest measured)"
    last = span.last if after else f"{span.last} (the newest measured)"
    when = f"Only on {span.first}" if span.first == span.last else f"Since {first}, until {last}"
    return "; ".join([when, *sides])


def _other(span: Span, release: str, between: Sequence[str]) -> str:
    note = f", {span.note}" if span.note else ""
    unmeasured = f" ({', '.join(between)} not measured)" if between else ""
    return f"{release}: {span.verdict.value}{note}{unmeasured}"


def _between(older: str, newer: str, known: Sequence[str]) -> list[str]:
    return [one for one in known if channel_key(older) < channel_key(one) < channel_key(newer)]


def _mending(dataset: Dataset, answer: Answer) -> Iterator[str]:
    """Yield what it is called, what to do about it, whether that was measured there, and where to read on."""
    shown = [quirk for quirk in dataset.quirks if quirk.name in answer.quirks]
    if shown:
        yield f"Known as: {'; '.join(f'{quirk.title} ({quirk.name})' for quirk in shown)}"
    if answer.mends:
        yield f"What to do: {answer.mends}"
    rows = [*dataset.by_id[answer.row].workarounds, *(quirk.workaround for quirk in shown)]
    names = [answer.workaround] if answer.workaround else [name for name in dict.fromkeys(rows) if name]
    tried = [published.same_question(dataset, answer, name) for name in names if answer.release]
    if tried:
        yield f"Measured there: {'; '.join(f'{one.row}: {one.verdict.value}, {one.reason}' for one in tried)}"
    elif answer.mends:
        yield "Measured there: nothing; no row tries what to do"
    links = [link for quirk in shown for link in quirk.links]
    if links:
        yield f"See: {' '.join(dict.fromkeys(links))}"


def _measured(dataset: Dataset, answer: Answer) -> str:
    seen = dataset.seen(answer.row, answer.backend, answer.device)[answer.release]
    records = {record.name: record for record, _ in seen}.values()
    return "Measured: " + "; ".join(
        f"{record.ended[:10]} on torch {record.variant.torch} ({record.environment.flavour}), "
        f"Python {record.variant.python}, {record.environment.system} {record.environment.machine}"
        for record in records
    )


# ---- diff ----------------------------------------------------------------------------------------


def diff(dataset: Dataset, old: str, new: str, *, backend: str, device: str, families: Sequence[str]) -> str:
    """Return what changed from one release to another, the worst first, a line a row.

    Where several builds were measured, each is compared with the same build, and only where there is none of
    it, another.
    """
    own = [
        record
        for record in dataset.records
        if (record.environment.backend, record.environment.device) == (backend, device)
    ]
    olds = [record for record in own if record.environment.channel == old]
    news = [record for record in own if record.environment.channel == new]
    parts = [
        _step(before, after, families) for before, after in alike(olds, news, lambda one: one.environment)
    ]
    return "\n\n".join(parts)


def _step(old: Record, new: Record, families: Sequence[str]) -> str:
    """Return what changed from one record to another."""
    found = [item for item in changes(old, new) if not families or ids.family(item.id) in families]
    before, after = old.environment, new.environment
    where = f"{after.backend} on {after.device}"
    changed = f"{len(found)} cell{'s' if len(found) != 1 else ''} changed"
    lines = [f"torch {before.channel} -> {after.channel}, {where}: {changed}"]
    if before.flavour != after.flavour:
        lines.append(f"Another build ({before.flavour} -> {after.flavour}): a change may be due to that.")
    for change, meaning in MEANINGS.items():
        own = [item for item in found if item.change is change]
        if own:
            lines += ["", f"{WORDS[change]} ({len(own)}): {meaning}"]
            lines += [f"  {plain(line)}" for line in _lines(own)]
    return "\n".join(lines)


def _lines(found: Iterable[CellChange]) -> list[str]:
    """Return a line a row that changed alike with several numbers of ranks."""
    sizes: dict[tuple[str, str, str], list[int]] = {}
    for item in found:
        sizes.setdefault((item.id, words(item.old), words(item.new)), []).append(item.world_size)
    return [f"{row} ({ranks(own)}): {old} -> {new}" for (row, old, new), own in sizes.items()]


# ---- check ---------------------------------------------------------------------------------------


def check(findings: Sequence[Finding], rows: Sequence[str]) -> str:
    """Return how needs stand on each release, and what stands against them, rows with the same reason together."""
    width = max(len(finding.torch) for finding in findings)
    lines = []
    for finding in findings:
        against = [*finding.blocked, *finding.unknown]
        by = f" ({len(against)} of {len(rows)} rows)" if against else ""
        lines.append(f"{finding.torch.ljust(width)}  {finding.holding.value}{by}")
        lines += [f"{' ' * width}  - {plain(line)}" for line in _reasons(against)]
    good = [finding.torch for finding in reversed(findings) if finding.holding is Holding.HOLDS]
    order = [finding.torch for finding in reversed(findings)]
    return "\n".join([*lines, f"holds on: {ranges(good, order) or 'none of these'}"])


def _reasons(answers: Iterable[Answer]) -> list[str]:
    found: dict[str, list[str]] = {}
    for answer in answers:
        mended = f"; {answer.workaround} passes there" if answer.workaround else ""
        found.setdefault(f"{answer.verdict.value}: {answer.reason}{mended}", []).append(answer.row)
    return [f"{', '.join(rows)}: {reason}" for reason, rows in found.items()]
