"""What the nightly remembers from one night to the next: ``state.json``, read strictly and written at once.

It lies beside the confirmed record, on a branch of its own. Dates are
given, never asked of a clock.
"""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import Annotated

import msgspec
from packaging.version import InvalidVersion, Version

from canishard import files
from canishard.catalogue import ids
from canishard.errors import RecordError
from canishard.launch.normalise import MESSAGE_LENGTH
from canishard.launch.outcome import Outcome, Status

SCHEMA = 1
"""The number of the file's format; a newer one is refused, since what it says would be lost."""

FILE = "state.json"
REMEMBERED = 60
"""Nights that are kept: the history, and causes that were closed since the oldest of them."""

Date = Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\d$")]
_CaseId = Annotated[str, msgspec.Meta(pattern=ids.SAFE)]
_Size = Annotated[int, msgspec.Meta(ge=1)]


class NightVerdict(str, Enum):
    """What a night came to."""

    CLEAN = "clean"
    """Judged, and no change stands."""
    CHANGED = "changed"
    """Judged, and at least one change stands."""
    BASELINE = "baseline"
    """Nothing could be compared: the first night, or every check was changed. What was seen is the new baseline."""
    SAME_BUILD = "same_build"
    """The build that was judged already: nothing was measured."""
    MASS = "mass"
    """So much changed at once that the environment is at fault until shown otherwise: no verdict."""
    INFRA = "infra"
    """No verdict about torch: it could not be installed or imported, the control failed, the machine was short."""

    @property
    def is_judged(self) -> bool:
        """Tell whether the night says something about its build, so that its record counts from then on."""
        return self in {NightVerdict.CLEAN, NightVerdict.CHANGED, NightVerdict.BASELINE}


class Build(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A build of torch, and the night on which it was looked at."""

    torch: str
    git_version: str = ""
    date: Date | None = None

    def is_same_as(self, other: Build | None) -> bool:
        """Tell whether two builds are the same one, whenever they were looked at."""
        return other is not None and (self.torch, self.git_version) == (other.torch, other.git_version)


class Seen(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a cell did, as far as it is told."""

    status: Status
    deviation: str = ""
    message: str = ""

    def __str__(self) -> str:
        """Return it as ``wrong (summed instead of averaged)``."""
        return f"{self.status.value} ({self.deviation})" if self.deviation else self.status.value

    def is_same_as(self, other: Seen) -> bool:
        """Tell whether two cells did the same: status, and how the value is wrong."""
        return (self.status, self.deviation) == (other.status, other.deviation)


def seen(outcome: Outcome) -> Seen:
    """Return what is told of an outcome."""
    return Seen(
        status=outcome.status,
        deviation=outcome.deviation[:MESSAGE_LENGTH],
        message=outcome.message[:MESSAGE_LENGTH],
    )


class RowState(str, Enum):
    """Where a row of a cause stands."""

    OPEN = "open"
    FIXED = "fixed"
    """Confirmed to work again, or to do what it did before."""
    REPLACED = "replaced"
    """Passes since its check was changed: torch may be fixed, or the check was wrong."""
    GONE = "gone"
    """The suite has no such row any more: nobody can tell."""


class TrackedRow(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A cell under a cause: what it was, what it is, and how that was confirmed."""

    id: _CaseId
    world_size: _Size
    digest: str
    before: Seen
    failed: Seen
    """What it was when it last did not work."""
    now: Seen
    good: Build
    """The last build on which it was ``before``."""
    since: Build
    """The first build on which it was seen to be otherwise."""
    how: str
    """How that was confirmed, in words."""
    mended: str = ""
    """How it was confirmed that it works again."""
    state: RowState = RowState.OPEN

    @property
    def key(self) -> tuple[str, int]:
        """Return what is unique: id and world size."""
        return self.id, self.world_size


class TrackedCause(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A cause that has, or had, an issue: open until ``closed`` says when it ended."""

    key: str
    root: str
    """The row, without parameters, that the others are traced to."""
    backend: str
    device: str
    since: Build
    rows: list[TrackedRow]
    issue: int | None = None
    body: str = ""
    """The digest of the title and body that were last written."""
    closed: Date | None = None
    reopened: int = 0
    """How often it came back; from the second time on it has to be good for several nights."""
    good_nights: int = 0
    """Judged nights in a row on which none of its rows was open."""

    @property
    def open_rows(self) -> list[TrackedRow]:
        """Return the rows that do not work."""
        return [row for row in self.rows if row.state is RowState.OPEN]


class Unsettled(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A cell that could not be decided for some nights in a row."""

    id: _CaseId
    world_size: _Size
    since: Date
    nights: int
    good: Build | None = None
    """The build that its confirmed outcome is of; None where it has none."""
    why: str = ""

    @property
    def key(self) -> tuple[str, int]:
        """Return what is unique: id and world size."""
        return self.id, self.world_size


class Blind(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The one issue that says that the nightly cannot judge."""

    key: str
    since: Date
    issue: int | None = None
    body: str = ""
    closed: Date | None = None


class PastNight(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A night of the history."""

    date: Date
    torch: str
    """Empty where no build was found."""
    git_version: str = ""
    verdict: NightVerdict
    reason: str = ""
    """Why there was no verdict."""
    indeterminate: int = 0
    """Cells that could not be decided."""


class State(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """All that is remembered of one channel on one backend and device."""

    schema: int = SCHEMA
    channel: str = "nightly"
    confirmed: Build | None = None
    """The last build that was judged: the one that the confirmed record is of."""
    causes: list[TrackedCause] = []
    """By key; closed ones too, so that what comes back finds its issue."""
    unsettled: list[Unsettled] = []
    blind: Blind | None = None
    history: list[PastNight] = []
    """Oldest first."""

    @property
    def last(self) -> PastNight | None:
        """Return the last night, None before the first."""
        return self.history[-1] if self.history else None

    @property
    def open_causes(self) -> list[TrackedCause]:
        """Return the causes that are not closed."""
        return [cause for cause in self.causes if cause.closed is None]

    @property
    def issues(self) -> dict[str, int | None]:
        """Return the number of each issue by its key, open or not; None where it is not known."""
        found = {cause.key: cause.issue for cause in self.causes}
        return found if self.blind is None else {**found, self.blind.key: self.blind.issue}

    @property
    def stale_since(self) -> str:
        """Return the date of the confirmed build where the last night gave no verdict of its own, else nothing."""
        if self.last is None or self.last.verdict.is_judged or self.confirmed is None:
            return ""
        return self.confirmed.date or ""

    def without_verdict(self) -> tuple[int, int]:
        """Return how many nights there were since the last verdict, and how many of them were at fault themselves.

        A night with the build of the night before is no fault, and no verdict either.
        """
        nights = []
        for night in reversed(self.history):
            if night.verdict.is_judged:
                break
            nights.append(night.verdict)
        return len(nights), sum(verdict is not NightVerdict.SAME_BUILD for verdict in nights)


class Standing(str, Enum):
    """How a build stands to the last one that was judged."""

    NEW = "new"
    SAME = "same"
    OLDER = "older"


def standing(state: State, build: Build) -> Standing:
    """Tell whether a build is to be judged; one whose night gave no verdict is, since the fault may have been ours.

    Before it is installed nobody knows a build's git version: then the version alone counts, without its local part.
    """
    confirmed = state.confirmed
    if confirmed is None:
        return Standing.NEW
    known, found = _version(confirmed.torch), _version(build.torch)
    is_known = bool(build.git_version and confirmed.git_version)
    if build.is_same_as(confirmed) or (not is_known and found == known):
        return Standing.SAME
    return Standing.OLDER if found < known else Standing.NEW


def _version(text: str) -> Version:
    try:
        return Version(Version(text).public)
    except InvalidVersion:
        return Version("0")


def load(folder: Path) -> State:
    """Read the state of a folder; where there is no file, nothing is remembered. RecordError says what is wrong."""
    path = folder / FILE
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return State()
    except OSError as error:
        msg = f"{path}: cannot be read: {error.strerror}"
        raise RecordError(msg) from None
    return decode(content, str(path))


def decode(content: bytes, name: str = FILE) -> State:
    """Return the state that a file holds; RecordError names the file and the path to the fault."""
    newer, older = "a newer canishard wrote it", "no canishard ever wrote it"
    return files.decode(content, State, name, schema=SCHEMA, newer=newer, older=older)


def encode(state: State) -> bytes:
    """Return the file: sorted keys, two blanks of indent, a newline at the end."""
    plain = msgspec.to_builtins(state, order="sorted")
    return (
        json.dumps({**plain, "schema": SCHEMA}, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    ).encode()


def save(state: State, folder: Path) -> None:
    """Write the state under a temporary name and rename it."""
    files.replace(folder / FILE, encode(state))
