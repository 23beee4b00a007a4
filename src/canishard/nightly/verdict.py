"""What a night came to, and the confirmed record that follows from it. Pure.

Two rules hold throughout: nothing is told that was not confirmed, and nothing that could not be decided is
forgotten.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from canishard.catalogue import ids
from canishard.errors import ConfigurationError, RecordError
from canishard.facts.compare import UNDECIDED, CellChange
from canishard.launch.outcome import Outcome
from canishard.nightly.settle import Ruling, Settled
from canishard.nightly.state import Build, Date, NightVerdict
from canishard.nightly.suspects import MASS, Key, Suspects, is_mass
from canishard.record import Record


class Night(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A night as it is handed from the job that measures to the one that tells."""

    date: Date
    verdict: NightVerdict
    reason: str = ""
    """Why there is no verdict, or what is to be said of it."""
    build: Build | None = None
    """None where none could be found or installed."""
    confirmed: Build | None = None
    """The build that it was compared with."""
    backend: str = "gloo"
    device: str = "cpu"
    cells: int = 0
    """Outcomes that were measured."""
    suspects: Suspects = msgspec.field(default_factory=Suspects)
    settled: list[Settled] = []
    unneeded: list[str] = []
    """Entries of ``matrix/expectations.toml`` that can go, in words."""

    @property
    def standing(self) -> list[CellChange]:
        """Return the changes that stand."""
        return [one.change for one in self.settled if one.ruling is Ruling.STANDS]

    @property
    def every_change(self) -> list[CellChange]:
        """Return all that is said of single cells."""
        found = self.suspects
        lists = (found.changed, found.indeterminate, found.lost_coverage, found.digest_changed, found.added)
        singles = [*(one.change for one in found.expected), *(one.change for one in self.settled)]
        return [*(change for one in lists for change in one), *found.removed, *singles]

    @property
    def undecided(self) -> dict[Key, str]:
        """Return the cells of which nothing is known tonight, with why."""
        settled = {one.key: one for one in self.settled}
        found = {(one.id, one.world_size): _why(one) for one in self.suspects.indeterminate}
        found |= {(one.id, one.world_size): "could not be run there" for one in self.suspects.lost_coverage}
        for change in (*self.suspects.added, *self.suspects.digest_changed):
            if change.new is not None and change.new.status in UNDECIDED:
                found[change.id, change.world_size] = _why(change)
        for change in self.suspects.changed:
            one = settled.get((change.id, change.world_size))
            if one is None:
                found[change.id, change.world_size] = "changed, and was not run again"
            elif one.ruling is not Ruling.STANDS:
                found[one.key] = f"{one.ruling.value}: {one.why}"
        return dict(sorted(found.items()))


def _why(change: CellChange) -> str:
    if change.new is None:
        return "not measured: the machine's or our fault"
    return (
        f"{change.new.status.value}: {change.new.message}" if change.new.message else change.new.status.value
    )


def without(
    date: str,
    verdict: NightVerdict,
    reason: str,
    build: Build | None = None,
    *,
    backend: str = "gloo",
    device: str = "cpu",
) -> Night:
    """Return a night that judged nothing: ``infra``, or the same build as before."""
    if verdict.is_judged:
        msg = f"{verdict.value}: a night with a verdict needs a record; use judged()"
        raise ConfigurationError(msg)
    return Night(date=date, verdict=verdict, reason=reason, build=build, backend=backend, device=device)


def judged(
    date: str,
    confirmed: Record | None,
    tonight: Record,
    found: Suspects,
    settled: Sequence[Settled],
    *,
    unneeded: Iterable[object] = (),
) -> Night:
    """Return a night whose suite ran, with the verdict that follows."""
    place = tonight.environment
    verdict, reason = _verdict(found, settled)
    return Night(
        date=date,
        verdict=verdict,
        reason=reason,
        build=build_of(tonight, date),
        confirmed=build_of(confirmed, confirmed.ended[:10]) if confirmed else None,
        backend=place.backend,
        device=place.device,
        cells=len(tonight.cells),
        suspects=found,
        settled=list(settled) if verdict is not NightVerdict.MASS else [],
        unneeded=[str(one) for one in unneeded],
    )


def build_of(record: Record, date: str) -> Build:
    """Return the build that a record is of."""
    return Build(torch=record.variant.torch, git_version=record.variant.git_version, date=date)


def _by_key(record: Record) -> dict[Key, Outcome]:
    return {outcome.key: outcome for outcome in record.cells}


def _verdict(found: Suspects, settled: Iterable[Settled]) -> tuple[NightVerdict, str]:
    if is_mass(found):
        share = f"{found.doubtful} of {found.comparable} comparable cells changed or could not be decided"
        return NightVerdict.MASS, f"{share}, more than {MASS:.0%}: taken for a fault of the environment"
    if not found.comparable:
        return NightVerdict.BASELINE, "nothing could be compared: what was seen is the new baseline"
    if any(one.ruling is Ruling.STANDS for one in settled):
        return NightVerdict.CHANGED, ""
    return NightVerdict.CLEAN, ""


def next_confirmed(confirmed: Record | None, tonight: Record, night: Night) -> Record:
    """Return the record that the next night is compared with.

    It is tonight's, but: a cell that was not decided, that was expected to differ, or whose change does not stand
    keeps its confirmed outcome, or is left out where it has none. Added rows enter, removed ones leave. A night
    without a verdict changes nothing.
    """
    before = _by_key(confirmed) if confirmed else {}
    if not night.verdict.is_judged:
        if confirmed is None:
            msg = f"{tonight.name}: a night without a verdict ({night.verdict.value}) is no baseline"
            raise ConfigurationError(msg)
        return confirmed
    cells = _by_key(tonight)
    for one in night.settled:
        if one.ruling is Ruling.STANDS and one.change.new is not None:
            cells[one.key] = one.change.new
    expected_keys = {(one.change.id, one.change.world_size) for one in night.suspects.expected}
    for key in {*night.undecided, *expected_keys}:
        cells.pop(key, None)
        if key in before:
            cells[key] = before[key]
    kept = [cell for cell in cells.values() if cell.status not in UNDECIDED]
    return msgspec.structs.replace(tonight, cells=kept)


def encode(night: Night) -> bytes:
    """Return a night as JSON, for the job that tells."""
    return msgspec.json.format(msgspec.json.encode(night)) + b"\n"


def decode(content: bytes, name: str = "night.json") -> Night:
    """Read a night strictly, since the job that wrote it ran code that nobody vouches for; RecordError says why not."""
    try:
        night = msgspec.json.decode(content, type=Night)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        msg = f"{name}: is no night of this canishard: {error}"
        raise RecordError(msg) from None
    for change in night.every_change:
        if not re.fullmatch(ids.SAFE, change.id) or change.world_size < 1:
            msg = f"{name}: {change.id!r} at world size {change.world_size} is no cell"
            raise RecordError(msg)
    return night
