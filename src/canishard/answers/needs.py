"""What a project needs of torch.distributed, and the releases of torch on which all of it works.

A need is a row's id, a pattern of ids (``*`` is
any text, ``?`` any one character), a family (``fsdp2``) or a subject (``fsdp2.train``: the row with any parameters).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import Enum

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from canishard.answers.dataset import Dataset
from canishard.answers.published import Answer, Verdict, answer, measured_releases, near, version_of
from canishard.catalogue import ids, renamed
from canishard.errors import ConfigurationError
from canishard.record.environment import channel_key
from canishard.releases import is_specifier

_COMMA = re.compile(r",(?![^\[]*\])")
"""A comma that is not within the brackets of an id."""


class Holding(str, Enum):
    """Whether all needs are met."""

    HOLDS = "holds"
    BLOCKED = "blocked"
    """At least one row does not work, or not everywhere."""
    UNKNOWN = "unknown"
    """No row is known not to work, and at least one was not measured."""


class Finding(msgspec.Struct, kw_only=True, frozen=True):
    """How needs stand on one torch."""

    torch: str
    """As it was asked for."""
    release: str
    """The measured release that was looked at; empty where there is none."""
    holding: Holding
    answers: list[Answer]
    """One a row, in the rows' order."""

    @property
    def blocked(self) -> list[Answer]:
        """Return the answers that say no, or not everywhere."""
        return [one for one in self.answers if one.verdict in {Verdict.NO, Verdict.PARTIAL}]

    @property
    def unknown(self) -> list[Answer]:
        """Return the answers that say that nothing is known."""
        return [one for one in self.answers if one.verdict is Verdict.UNKNOWN]


def split(text: str) -> list[str]:
    """Return the needs of a list with commas between them; those within brackets separate parameters."""
    return [part.strip() for part in _COMMA.split(text) if part.strip()]


def resolve(needs: Iterable[str], dataset: Dataset) -> list[str]:
    """Return the rows that needs stand for, each once, in the table's order.

    A family or a subject stands for its rows but those of workarounds. Raises ConfigurationError where a need
    stands for no row, with near matches.
    """
    wanted = {row for need in needs for row in _rows(need, dataset)}
    return [row.id for row in dataset.rows if row.id in wanted]


def _rows(need: str, dataset: Dataset) -> list[str]:
    need, _ = renamed.resolve(need, dataset.by_id)
    if need in dataset.by_id:
        return [need]
    if "*" in need or "?" in need:
        found = ids.matching([need], dataset.by_id)
    else:
        plain = [row for row in dataset.rows if not row.workaround]
        found = [row.id for row in plain if need in {row.family, _subject(row.id)}]
    if not found:
        known = {*dataset.by_id, *(row.family for row in dataset.rows), *map(_subject, dataset.by_id)}
        msg = (
            f"need {need}: stands for no row; {near(need, sorted(known))}"
            "allowed: an id, a pattern with * or ?, a family, or family.subject"
        )
        raise ConfigurationError(msg)
    return found


def _subject(row: str) -> str:
    """Return an id without its parameters and its workaround."""
    return re.split(r"[\[+]", row, maxsplit=1)[0]


def evaluate(
    dataset: Dataset,
    rows: Sequence[str],
    *,
    torch: str,
    backend: str = "gloo",
    device: str = "cpu",
    world_size: int | None = None,
) -> Finding:
    """Say whether all rows work on a torch; what works only at some world sizes or builds blocks too."""
    answers = [
        answer(dataset, row, torch=torch, backend=backend, device=device, world_size=world_size)
        for row in rows
    ]
    verdicts = {one.verdict for one in answers}
    holding = Holding.UNKNOWN if Verdict.UNKNOWN in verdicts else Holding.HOLDS
    if verdicts & {Verdict.NO, Verdict.PARTIAL}:
        holding = Holding.BLOCKED
    release = max((one.release for one in answers if one.release), key=Version, default="")
    return Finding(torch=torch, release=release, holding=holding, answers=answers)


# ---- which releases ------------------------------------------------------------------------------


def select(
    dataset: Dataset, torch: Sequence[str], *, backend: str, device: str, all_patches: bool = False
) -> list[str]:
    """Return the releases that are meant, newest first, each once; nothing said means all.

    Of what a specifier such as ``>=2.6`` matches, one patch a minor is taken, the newest that was measured and else
    the newest, or all patches if asked. A version (``2.8``, ``2.8.0``) is taken as it is, measured or not.
    """
    measured = measured_releases(dataset, backend, device)
    known = sorted({*dataset.releases, *measured}, key=channel_key)
    found: set[str] = set()
    for wanted in torch or [">=0"]:
        if not is_specifier(wanted):
            version_of(wanted)
            found.add(wanted)
            continue
        matching = _matching(wanted, known)
        found.update(matching if all_patches else _one_a_minor(matching, measured))
    return sorted(found, key=lambda one: (version_of(one), one), reverse=True)


def _matching(wanted: str, known: Sequence[str]) -> list[str]:
    try:
        specifier = SpecifierSet(wanted)
    except InvalidSpecifier:
        msg = (
            f"--torch {wanted}: expected a specifier such as '>=2.6', or a version. Known: {', '.join(known)}"
        )
        raise ConfigurationError(msg) from None
    matching = [release for release in known if specifier.contains(release)]
    if not matching:
        msg = f"--torch {wanted}: matches no release. Known: {', '.join(known)}"
        raise ConfigurationError(msg)
    return matching


def _one_a_minor(releases: Iterable[str], measured: Sequence[str]) -> list[str]:
    found: dict[tuple[int, ...], str] = {}
    for release in releases:
        minor = Version(release).release[:2]
        if release in measured or found.get(minor) not in measured:
            found[minor] = release
    return list(found.values())
