"""``canishard doctor``: the checks on the torch that is installed here, and where it differs from the published table.

It measures as ``canishard run`` does, into a record
that is thrown away, and compares that with the published column of the same release, backend and device.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import msgspec

from canishard import record
from canishard.answers import published, suite
from canishard.answers.dataset import Dataset
from canishard.errors import ChangedError, ConfigurationError, InfraError, NothingSelectedError
from canishard.facts import compare
from canishard.launch.outcome import Outcome, Status
from canishard.record import Record
from canishard.record.environment import Environment

TAKEN = ("--record", "--release", "--reuse-committed")
"""Options of a run that have no meaning here: the record is thrown away, and the release is the one that is found."""
GOOD_ENDS = frozenset({0, ChangedError.exit_code, InfraError.exit_code})
"""Exit codes of a run that may have left a record."""


def main(*, backend: str = "gloo", device: str = "cpu", arguments: Sequence[str] = ()) -> int:
    """Measure, compare and tell; return 0 where all that was compared is the same, and 10 where something is not.

    5 where no such column, or none of the cells, is published; the codes of ``canishard run`` where nothing was
    measured, or not all.
    """
    taken = [argument for argument in arguments if argument.partition("=")[0] in TAKEN]
    if taken:
        msg = f"{taken[0]}: not with doctor, whose record is thrown away; use `canishard run`"
        raise ConfigurationError(msg)
    with tempfile.TemporaryDirectory(prefix="canishard-doctor-") as folder:
        path = Path(folder) / "measured.json"
        # As one argument each: pytest would look for its settings where a path that stands alone is.
        where = [f"--backend={backend}", f"--device={device}", f"--record={path}", f"--state={folder}"]
        code = suite.run([*where, *arguments])
        if code not in GOOD_ENDS or not path.exists():
            return code
        measured = record.load(path)
    dataset = published.load()
    column = published_column(dataset, measured)
    told = beside(measured, column) if column else alone(measured, dataset)
    sys.stdout.write("".join(f"{line}\n" for line in [*_head(measured), *told]))
    if code == InfraError.exit_code:
        return code
    before, after = common(column, measured) if column else (measured, None)
    if after is None or not after.cells:
        return NothingSelectedError.exit_code
    return ChangedError.exit_code if compare.changes(before, after) else 0


# ---- the published column ------------------------------------------------------------------------


def published_column(dataset: Dataset, measured: Record) -> Record | None:
    """Return what was published of the same release, backend and device; None where nothing was.

    Of several the one whose build, system, machine and Python are the same, in this order.
    """
    here = measured.environment
    releases = published.measured_releases(dataset, here.backend, here.device)
    release = published.release_of(published.version_of(measured.variant.torch), releases)
    wanted = (release, here.backend, here.device)
    found = [
        one
        for one in dataset.records
        if (one.environment.channel, one.environment.backend, one.environment.device) == wanted
    ]
    return min(found, key=lambda one: (_unlike(here, one.environment), one.name), default=None)


def _unlike(here: Environment, there: Environment) -> list[bool]:
    return [
        getattr(here, name) != getattr(there, name) for name in ("flavour", "system", "machine", "python")
    ]


def common(column: Record, measured: Record) -> tuple[Record, Record]:
    """Return both with those cells only that were run on both sides.

    Of another build, one that failed for want of a CUDA driver counts as not run: it tells of its machine.
    """
    is_other = column.environment.flavour != measured.environment.flavour
    run = [
        {
            cell.key
            for cell in one.cells
            if cell.status is not Status.NOT_RUN and not (is_other and published.lacks_driver(cell))
        }
        for one in (column, measured)
    ]
    keys = run[0] & run[1]
    return _only(column, keys), _only(measured, keys)


def _only(record: Record, keys: Collection[tuple[str, int]]) -> Record:
    return msgspec.structs.replace(record, cells=[cell for cell in record.cells if cell.key in keys])


# ---- what is told --------------------------------------------------------------------------------


def _head(measured: Record) -> Iterator[str]:
    yield f"canishard doctor: torch {measured.variant.torch} ({_place(measured.environment)})"
    reasons = Counter(cell.message for cell in measured.cells if cell.status is Status.NOT_RUN)
    for reason, number in reasons.most_common():
        yield f"  {_cells(number)} not run: {reason or 'no reason was given'}"


def beside(measured: Record, column: Record) -> Iterator[str]:
    """Yield, a line each, what is to be told of a measurement beside the published column."""
    here, there = measured.environment, column.environment
    yield f"  the published column: {there.channel} ({_place(there)}), measured on {column.ended[:10]}"
    if there.flavour != here.flavour:
        yield f"  it is of another build, {there.flavour} where this one is {here.flavour}: they differ in places"
    before, after = common(column, measured)
    new = {cell.key for cell in measured.cells if cell.status is not Status.NOT_RUN} - {
        cell.key for cell in before.cells
    }
    if new:
        yield f"  {_cells(len(new))} not in it: {_some(sorted({case_id for case_id, _ in new}))}"
    if not after.cells:
        yield "canishard doctor: nothing to compare, no cell is on both sides"
        return
    found = compare.changes(before, after)
    for change in found:
        yield f"  {change}"
        if change.new and change.new.message:
            yield f"    {change.new.message}"
    number = len(after.cells)
    yield f"canishard doctor: {number - len(found)} of {_cells(number)} the same{_counts(after.cells)}"


def alone(measured: Record, dataset: Dataset) -> Iterator[str]:
    """Yield, a line each, what is to be told where there is no column to compare with."""
    here = measured.environment
    releases = published.measured_releases(dataset, here.backend, here.device)
    others = f"there is one of {', '.join(releases)}" if releases else "nor of any other"
    yield f"  no column of this torch is published with {here.backend} on {here.device}; {others}"
    yield f"canishard doctor: nothing to compare with{_counts(measured.cells)}"


def _counts(cells: Sequence[Outcome]) -> str:
    """Return how many cells have which status, in the statuses' own order."""
    number = Counter(cell.status for cell in cells)
    return "".join(f", {number[status]} {status.value}" for status in Status if number[status])


def _cells(number: int) -> str:
    return f"{number} cell{'s' if number != 1 else ''}"


def _some(names: Sequence[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _place(environment: Environment) -> str:
    where = f"{environment.backend} on {environment.device}, {environment.flavour} build"
    return f"{where}, {environment.system} {environment.machine}, Python {environment.python}"
