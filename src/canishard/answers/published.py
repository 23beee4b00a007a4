"""The data set that the package ships, and what it answers: whether a row works on a torch.

What was not measured is unknown, and said to be: nothing is guessed from the releases beside it, they are
named.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec
from packaging.version import InvalidVersion, Version

from canishard import files
from canishard.answers import dataset
from canishard.answers.dataset import Dataset, Row, Seen
from canishard.catalogue import resolve
from canishard.errors import ConfigurationError, RecordError
from canishard.facts.quirks import NOT_MEASURED
from canishard.facts.support import Span, support
from canishard.launch import refusals
from canishard.launch.outcome import Outcome, Status
from canishard.record import Record
from canishard.record.environment import MOVING_CHANNELS, channel_key

PATCH_NUMBERS = 3
"""How many numbers name one release; fewer name the newest that was measured of several."""


class Verdict(str, Enum):
    """Whether a row works: a support statement's verdict, or that nothing is known."""

    YES = "yes"
    PARTIAL = "partial"
    """Passes at some world sizes, builds or machines only, or is flaky; the reason says which."""
    NO = "no"
    UNKNOWN = "unknown"
    """Not measured: neither a yes nor a no."""


class Answer(msgspec.Struct, kw_only=True, frozen=True):
    """What the data set says of a row on one torch. It is no boolean, since unknown is neither: see ``verdict``."""

    row: str
    torch: str
    """As it was asked for."""
    backend: str
    device: str
    world_size: int | None
    """As it was asked for; None for every measured one."""
    verdict: Verdict
    reason: str
    """In words: status and deviation, or why nothing is known and what lies near."""
    release: str = ""
    """The measured release that this is about; empty for unknown."""
    workaround: str = ""
    """The row that measures what mends it and passes there; empty where none does."""
    mends: str = ""
    """What to do about it, in words."""
    quirks: list[str] = []
    """The names of the quirks that show there."""

    def __bool__(self) -> bool:
        """Refuse: ``if supports(...)`` would take every answer for a yes."""
        msg = f"an answer is yes, partial, no or unknown, and no boolean: look at .verdict (here: {self.verdict.value})"
        raise TypeError(msg)

    def __str__(self) -> str:
        """Return it as one line."""
        mended = f"; {self.workaround} passes there" if self.workaround else ""
        return f"{self.row} with {self.backend} on {self.device}: {self.verdict.value}: {self.reason}{mended}"


# ---- the file ------------------------------------------------------------------------------------


def path_of(package: Path = files.PACKAGE) -> Path:
    """Return the data set's file: the package's own copy, else the checkout's ``reports/canishard.json``."""
    places = [folder / dataset.JSON_FILE for folder in (package / "_reports", package.parents[1] / "reports")]
    for path in places:
        if path.is_file():
            return path
    msg = "canishard's data set is missing: neither canishard/_reports nor a checkout's reports folder has it"
    raise ConfigurationError(msg)


def load(path: Path | None = None) -> Dataset:
    """Return a published data set, by default the one that the package ships; each file is read once."""
    return _load(path or path_of())


@functools.cache
def _load(path: Path) -> Dataset:
    try:
        content = path.read_bytes()
    except OSError as error:
        msg = f"{path.name}: cannot be read: {error.strerror}"
        raise RecordError(msg) from None
    return dataset.decode(content, path.name)


# ---- answers -------------------------------------------------------------------------------------


def supports(
    row: str, *, torch: str, backend: str = "gloo", device: str = "cpu", world_size: int | None = None
) -> Answer:
    """Say whether a row works on a torch, by what was measured and ships with this package.

    ``torch`` is a release (``2.8.0``), a minor (``2.8``: its newest measured patch) or a ``torch.__version__``
    (``2.8.0+cpu``). Raises ConfigurationError for a row that there is not, with those that are spelled alike.
    """
    return answer(load(), row, torch=torch, backend=backend, device=device, world_size=world_size)


def answer(
    dataset: Dataset,
    row: str,
    *,
    torch: str,
    backend: str = "gloo",
    device: str = "cpu",
    world_size: int | None = None,
) -> Answer:
    """Say what ``supports`` says, by another data set."""
    row, called = resolve(row, dataset.by_id)
    asked = _Question(
        dataset=dataset,
        row=require(dataset, row),
        note=called,
        torch=str(torch),
        version=version_of(torch),
        backend=backend,
        device=device,
        world_size=world_size,
    )
    seen = asked.measured(row)
    release = release_of(asked.version, list(seen))
    if not release:
        return asked.answer(Verdict.UNKNOWN, asked.why_unknown(list(seen)))
    verdict, words = asked.judged(row, release)
    outcomes = [outcome for _, outcome in asked.of_build(seen[release])]
    reason = f"{_reason(verdict, words, release, outcomes)}{asked.other_build(seen[release])}"
    if verdict is Verdict.YES:
        return asked.answer(verdict, reason, release=release)
    if asked.other_build(seen[release]) and any(_OF_THE_BUILD.search(one.message) for one in outcomes):
        return asked.answer(Verdict.UNKNOWN, f"this build of {release} was not measured; {reason}")
    if verdict is Verdict.UNKNOWN:
        return asked.answer(verdict, f"{release} was measured without a CUDA driver only; {reason}")
    shown = [quirk for quirk in dataset.quirks if any(map(quirk.is_shown_by, outcomes))]
    candidates = [*asked.row.workarounds, *(quirk.workaround for quirk in shown if quirk.workaround)]
    passing = (other for other in candidates if asked.judged(other, release)[0] is Verdict.YES)
    return asked.answer(
        verdict,
        reason,
        release=release,
        workaround=next(passing, ""),
        mends=" ".join(" ".join(quirk.mends.split()) for quirk in shown if quirk.mends),
        quirks=[quirk.name for quirk in shown],
    )


def require(dataset: Dataset, row: str) -> Row:
    """Return a row by its id; ConfigurationError with near matches where there is none."""
    if row in dataset.by_id:
        return dataset.by_id[row]
    msg = f"{row}: no such row; {near(row, dataset.by_id)}`canishard table` lists them"
    raise ConfigurationError(msg)


def near(text: str, known: Iterable[str]) -> str:
    """Return what may have been meant, as a part of a message; empty where nothing is spelled alike."""
    known = list(known)
    longer = [one for one in known if text and one.startswith(text)]
    found = longer[:3] or difflib.get_close_matches(text, known, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(found)}? " if found else ""


def history(dataset: Dataset, asked: Answer) -> list[Span]:
    """Return what was measured of an answer's row over the stable releases, oldest first, over all builds."""
    seen = dataset.seen(asked.row, asked.backend, asked.device).values()
    pairs = [pair for found in seen for pair in found if asked.world_size in {None, pair[1].world_size}]
    return _spans(pairs, dataset.releases)


def same_question(dataset: Dataset, asked: Answer, row: str) -> Answer:
    """Ask of another row what was asked of an answer's."""
    return answer(
        dataset,
        row,
        torch=asked.torch,
        backend=asked.backend,
        device=asked.device,
        world_size=asked.world_size,
    )


def measured_releases(dataset: Dataset, backend: str, device: str) -> list[str]:
    """Return the stable releases that were measured with a backend on a device, oldest first."""
    places = [measured.environment for measured in dataset.environments]
    own = [place for place in places if (place.backend, place.device) == (backend, device)]
    return sorted({place.channel for place in own if place.is_stable}, key=channel_key)


_OF_THE_BUILD = re.compile(r"\bCUDA\b|\bNVIDIA\b|\bHIP\b")
"""What fails with these words on one build says nothing of another one."""


@dataclass(frozen=True, kw_only=True)
class _Question:
    """What was asked, and what of the data set bears on it."""

    dataset: Dataset
    row: Row
    note: str
    """Which id the row has now, where another one was asked for."""
    torch: str
    version: Version
    backend: str
    device: str
    world_size: int | None

    def answer(self, verdict: Verdict, reason: str, **more: Any) -> Answer:
        """Return an answer to it."""
        return Answer(
            row=self.row.id,
            torch=self.torch,
            backend=self.backend,
            device=self.device,
            world_size=self.world_size,
            verdict=verdict,
            reason="; ".join(filter(None, [self.note, reason])),
            **more,
        )

    def measured(self, row: str) -> dict[str, Seen]:
        """Return what was measured of a row by stable release, at the world size asked for."""
        found: dict[str, Seen] = {}
        for channel, pairs in self.dataset.seen(row, self.backend, self.device).items():
            own = [pair for pair in pairs if self._counts(pair[1])]
            if own and channel not in MOVING_CHANNELS:
                found[channel] = own
        return found

    def _counts(self, outcome: Outcome) -> bool:
        return outcome.status not in NOT_MEASURED and self.world_size in {None, outcome.world_size}

    def judged(self, row: str, release: str) -> tuple[Verdict, str]:
        """Return the verdict on a row on a release, with the note of a support statement.

        Unknown where every cell failed for want of a CUDA driver: whether the asker's machine has one, nobody says.
        """
        pairs = self.of_build(self.measured(row).get(release, ()))
        spans = _spans(pairs, ())
        if not spans:
            return Verdict.UNKNOWN, ""
        is_told = any(not lacks_driver(outcome) for _, outcome in pairs)
        return Verdict(spans[0].verdict.value) if is_told else Verdict.UNKNOWN, spans[0].note

    def of_build(self, pairs: Seen) -> Seen:
        """Return what was measured on the build that the version names, or all where there is none of it."""
        flavours = _flavours(self.version)
        return [pair for pair in pairs if pair[0].environment.flavour in flavours] or pairs

    def other_build(self, pairs: Seen) -> str:
        """Say where the answer is that of another build than the version names."""
        flavours = sorted({record.environment.flavour for record, _ in pairs})
        named = _flavours(self.version)
        return (
            f"; measured on another build: {', '.join(flavours)}" if named and not named & {*flavours} else ""
        )

    def why_unknown(self, measured: Sequence[str]) -> str:
        """Say why there is no answer, and what was found on the releases beside it."""
        seen = self.dataset.seen(self.row.id, self.backend, self.device)
        if not seen:
            return f"was not measured with {self.backend} on {self.device}{self._elsewhere()}"
        if not measured and self.world_size is not None:
            sizes = {outcome.world_size for pairs in seen.values() for _, outcome in pairs}
            return f"was not measured with {ranks([self.world_size])}, only with {ranks(sizes)}"
        before = [release for release in measured if Version(release) < self.version][-1:]
        after = [release for release in measured if Version(release) > self.version][:1]
        beside = [f"{near}: {self.judged(self.row.id, near)[0].value}" for near in [*before, *after]]
        return f"{self._not_measured(seen)}; {', '.join(beside) or 'no release was'}"

    def _elsewhere(self) -> str:
        places = {
            f"{record.environment.backend} on {record.environment.device}"
            for record in self.dataset.records
            if any(outcome.id == self.row.id for outcome in record.cells)
        }
        return f", only with {', '.join(sorted(places))}" if places else ", nor with anything else"

    def _not_measured(self, seen: Mapping[str, Seen]) -> str:
        public = self.version.public
        unrun = [outcome for _, outcome in seen.get(public, ()) if outcome.status is Status.NOT_RUN]
        if unrun:
            return f"could not be run on {public}: {unrun[0].message or 'no reason was given'}"
        if self.version.is_prerelease:
            return f"{self.torch} is a pre-release, and only stable releases are answered for"
        if len(self.version.release) < PATCH_NUMBERS:
            return f"no patch of {public} was measured"
        return f"{public} was not measured"


# ---- versions and words --------------------------------------------------------------------------


def version_of(torch: str) -> Version:
    """Return a version of torch; ConfigurationError where the text is none."""
    try:
        return Version(torch)
    except InvalidVersion:
        msg = f"torch {torch}: no version; allowed: 2.8, 2.8.0, or what torch.__version__ says, such as 2.8.0+cpu"
        raise ConfigurationError(msg) from None


def release_of(version: Version, measured: Sequence[str]) -> str:
    """Return the measured release that a version stands for; empty for none."""
    if version.is_prerelease:
        return ""
    numbers = version.release
    if len(numbers) >= PATCH_NUMBERS:
        return next((one for one in measured if Version(one) == Version(version.public)), "")
    return next((one for one in reversed(measured) if Version(one).release[: len(numbers)] == numbers), "")


def _flavours(version: Version) -> set[str]:
    """Return the builds that a version's local part, such as ``+cpu`` or ``+cu128``, can be."""
    local = version.local or ""
    if local.startswith("rocm"):
        return {"rocm"}
    if local.startswith("cu"):
        return {"cuda", "cuda-nodriver"}
    return {"cpu"} if local == "cpu" else set()


def lacks_driver(outcome: Outcome) -> bool:
    """Tell whether a cell says no more than that the machine which measured it had no CUDA driver."""
    return outcome.status is not Status.PASS and refusals.load().lacks_driver(outcome.message)


def _spans(pairs: Iterable[tuple[Record, Outcome]], releases: Sequence[str]) -> list[Span]:
    records = [msgspec.structs.replace(record, cells=[outcome]) for record, outcome in pairs]
    return [span for item in support(records, releases) for span in item.spans]


def _reason(verdict: Verdict, note: str, release: str, outcomes: Sequence[Outcome]) -> str:
    where = f"on {release} with {ranks(outcome.world_size for outcome in outcomes)}"
    if verdict is Verdict.YES:
        return f"passes {where}{f' ({note})' if note else ''}"
    if verdict is Verdict.PARTIAL:
        return f"on {release}: {note}"
    said = [outcome.message for outcome in outcomes if outcome.message and not outcome.deviation]
    return f"{note} {where}{f': {said[0]}' if said else ''}"


def ranks(sizes: Iterable[int]) -> str:
    """Return numbers of ranks in words: ``2 and 4 ranks``."""
    numbers = sorted(set(sizes))
    text = " and ".join(", ".join(str(number) for number in numbers).rsplit(", ", 1))
    return f"{text} rank{'s' if numbers != [1] else ''}"
