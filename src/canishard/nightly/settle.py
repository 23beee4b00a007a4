"""Whether a change stands: it is run again in fresh processes, in turn with the control release. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

import msgspec

from canishard.facts.compare import REGRESSIONS, UNDECIDED, CellChange, Change, compare
from canishard.launch.outcome import Outcome, Status
from canishard.nightly.suspects import Key
from canishard.record import Record
from canishard.record.environment import Environment
from canishard.releases import Release

NEW_RUNS, OLD_RUNS = 3, 2
"""What a change needs on either side, interleaved: new, old, new, old, new."""

NEW_HANGS, OLD_HANGS = 2, 1
"""What a hang needs: each of its runs costs the whole deadline."""


class Ruling(str, Enum):
    """What the repeated runs say of a change."""

    STANDS = "stands"
    FLAKY = "flaky"
    """The new side does not agree with itself: the confirmed cell stays."""
    INFRA = "infra"
    """The control did not do what its record says, or runs are missing: the confirmed cell stays."""


class Settled(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A change, run again beside the control release."""

    change: CellChange
    """With the outcome that is taken on as ``new``."""
    ruling: Ruling
    why: str
    """In words: how often each side did what."""

    @property
    def key(self) -> Key:
        """Return which cell it is."""
        return self.change.id, self.change.world_size


def needed(suspect: CellChange) -> tuple[int, int]:
    """Return how many runs a change needs on the new side and on the old one."""
    is_hang = suspect.new is not None and suspect.new.status is Status.HANG
    return (NEW_HANGS, OLD_HANGS) if is_hang else (NEW_RUNS, OLD_RUNS)


def control_statuses(
    control: Release, place: Environment, records: Iterable[Record], digests: Mapping[str, str]
) -> dict[Key, Status]:
    """Return what the control's committed record says of cells, by key; nothing where there is none of such a build.

    ``place`` is the night's, ``digests`` are those of the checks as they are now: what an older check did, no
    run of today's can be held against.
    """
    wanted = (control.version, control.python, place.backend, place.device, place.flavour)
    for record in records:
        there = record.environment
        if (there.channel, there.python, there.backend, there.device, there.flavour) == wanted:
            return {cell.key: cell.status for cell in record.cells if digests.get(cell.id) == cell.digest}
    return {}


def settle(
    suspect: CellChange, new: Sequence[Outcome], old: Sequence[Outcome], control_expected: Status
) -> Settled:
    """Decide from interleaved runs in fresh processes: new, old, new, old, new; two and one for a hang.

    A change stands where every run of the new side changed in the same direction against the confirmed cell, and
    every run of the control release is what the control's own record shows. Where that record does not say
    (``unknown``, ``flaky``, ``infra``), the control's runs have to agree, and must not show tonight's failure: a machine
    that fails both proves nothing. How a row fails may differ from run to run where it passed before; the most
    frequent way is taken on.
    """
    ways = f"new: {_counted(new)}; control: {_counted(old)}"
    at_fault = _control_fault(suspect, old, control_expected)
    if len(new) < needed(suspect)[0] or any(run.status in {Status.INFRA, Status.UNKNOWN} for run in new):
        ruling, why = Ruling.INFRA, f"too few runs of the new build ({ways})"
    elif at_fault:
        ruling, why = Ruling.INFRA, f"{at_fault} ({ways})"
    elif not all(_is_alike(suspect, run) for run in new):
        ruling, why = Ruling.FLAKY, f"the runs disagree ({ways})"
    else:
        taken = _most_frequent([*(run for run in [suspect.new] if run is not None), *new])
        change = msgspec.structs.replace(suspect, new=taken, change=compare(suspect.old, taken))
        return Settled(change=change, ruling=Ruling.STANDS, why=f"each in fresh processes ({ways})")
    return Settled(change=suspect, ruling=ruling, why=why)


def _control_fault(suspect: CellChange, old: Sequence[Outcome], control_expected: Status) -> str:
    """Return why the control's runs vouch for nothing; empty where they do."""
    if len(old) < needed(suspect)[1]:
        return "too few runs of the control"
    statuses = {run.status for run in old}
    if control_expected not in UNDECIDED:
        return "" if statuses == {control_expected} else f"the control should be {control_expected.value}"
    if len(statuses) > 1 or statuses & UNDECIDED:
        return "the control does not agree with itself, and its record does not say"
    failed = suspect.new is not None and suspect.change is not Change.FIXED and suspect.new.status in statuses
    return "the control does the same, and its record does not say" if failed else ""


def _is_alike(suspect: CellChange, run: Outcome) -> bool:
    """Tell whether a run changed as the suspect did."""
    change = compare(suspect.old, run)
    if suspect.old is not None and suspect.old.status is Status.PASS:
        return change in REGRESSIONS
    if suspect.change is Change.CHANGED_KIND:
        return compare(suspect.new, run) is Change.SAME
    return change is suspect.change


def _most_frequent(runs: Sequence[Outcome]) -> Outcome:
    """Return the first outcome of the most frequent kind, of the earliest one where two are equally frequent."""
    number = Counter(run.kind for run in runs)
    return max(runs, key=lambda run: number[run.kind])


def _counted(runs: Iterable[Outcome]) -> str:
    number = Counter(run.kind for run in runs)
    return ", ".join(f"{count} x {kind}" for kind, count in number.items()) or "no run"
