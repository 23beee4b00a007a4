"""Six nights, played through: what each was, what was filed, updated and closed.

Stable releases stand in for nightly builds: 2.8.0 is what was confirmed, the first night is 2.9.1, the second
2.10.0. ``nox -s nightly-rehearsal`` plays these two on real torch, the tests all of them from the committed
records. A local ``gh`` that keeps issues in a file stands in for GitHub.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from nightly.fake import Fake

from canishard import record
from canishard.catalogue import ids
from canishard.launch.outcome import Outcome, Status
from canishard.nightly import github, night, publish, state
from canishard.nightly.github import Done
from canishard.nightly.state import Build, State
from canishard.nightly.suspects import Key
from canishard.record import Record
from canishard.walk.child import run_child
from canishard.walk.measure import Runner

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "matrix" / "results"
FLAVOUR = "cuda-nodriver"
CONFIRMED, CONTROL = "2.8.0", "2.8.0"
ADDED, REMOVED = ("canary.added", 2), ("ddp.accumulation", 4)
FLAPPING = ("tp.mlp[style=colwise_rowwise]", 2)

Change = Callable[[Record, int], Record | None]
"""What becomes of a recorded night's record in the n-th measurement of the night; None leaves no record."""


def committed(release: str) -> Record:
    """Return the committed record that stands in for a build."""
    return record.load(RESULTS / f"torch-{release}-{FLAVOUR}-gloo-cpu-cp311-linux-x86_64.json")


def as_nightly(found: Record) -> Record:
    """Return a record as one of the nightly channel."""
    return msgspec.structs.replace(
        found, environment=msgspec.structs.replace(found.environment, channel="nightly")
    )


class Recorded:
    """Stands in for nox: leaves what the committed record of the release holds, of the cells that were asked for."""

    def __init__(self, change: Change | None = None) -> None:
        """``change`` is applied to the measurements of the night's build, which are counted from 0."""
        self.change = change
        self.number = 0

    def __call__(self, command: Sequence[str], _environ: Mapping[str, str], log: Path) -> int:
        """Write the record where nox would have written it."""
        release = command[command.index("-s") + 1].removeprefix("checks(").removesuffix(")")
        found: Record | None = committed(release)
        if "--release=nightly" in command:
            assert found is not None
            found = as_nightly(found)
            if self.change:
                found = self.change(found, self.number)
            self.number += 1
        if found is None:
            return 1
        wanted = [option.removeprefix("--case=") for option in command if option.startswith("--case=")]
        kept = [cell for cell in found.cells if not wanted or ids.matching([*wanted, "canary.*"], [cell.id])]
        found = msgspec.structs.replace(found, cells=kept)
        record.save(found, log.parent / f"{found.name}.json")
        return 0


def replaced(found: Record, key: Key, **fields: object) -> Record:
    """Return a record with one cell changed."""
    cells = [msgspec.structs.replace(cell, **fields) if cell.key == key else cell for cell in found.cells]
    return msgspec.structs.replace(found, cells=cells)


def with_another_suite(found: Record, _number: int) -> Record:
    """Return a record of a suite that has one check more, and one less."""
    cells = [cell for cell in found.cells if cell.key != REMOVED]
    added = Outcome(
        id=ADDED[0], world_size=ADDED[1], digest="0" * 16, status=Status.ERROR, message="new: fails"
    )
    return msgspec.structs.replace(found, cells=[*cells, added])


def with_a_flaky_cell(found: Record, number: int) -> Record:
    """Return a record in which one cell fails on every second measurement of the night, the first one included."""
    found = with_another_suite(found, number)
    if number % 2:
        return found
    return replaced(found, FLAPPING, status=Status.ERROR, message="RuntimeError: now and then")


@dataclass(frozen=True)
class Planned:
    """A night of the rehearsal."""

    date: str
    torch: str
    title: str
    change: Change | None = None
    is_real: bool = False
    """Whether the rehearsal plays it on real torch."""
    suite: Callable[[set[Key]], set[Key]] = field(default=lambda suite: suite)


NIGHTS = (
    Planned("2026-01-01", "2.9.1", "GPipe crashes, reduce_scatter is mended", is_real=True),
    Planned("2026-01-02", "2.10.0", "GPipe is mended", is_real=True),
    Planned("2026-01-03", "2.11.0", "torch cannot be imported", lambda *_: None),
    Planned("2026-01-04", "2.11.0", "the same build as the night before", lambda *_: None),
    Planned(
        "2026-01-05",
        "2.12.1",
        "a check more and a check less",
        with_another_suite,
        suite=lambda suite: (suite | {ADDED}) - {REMOVED},
    ),
    Planned(
        "2026-01-06", "2.14.1", "a check that fails now and then", with_a_flaky_cell,
        suite=lambda suite: (suite | {ADDED}) - {REMOVED},
    ),
)  # fmt: skip


def begin(folder: Path) -> None:
    """Lay the confirmed state of before the first night."""
    found = as_nightly(committed(CONFIRMED))
    record.save(found, folder / night.CONFIRMED / f"{found.name}.json")
    build = Build(torch=found.variant.torch, git_version=found.variant.git_version, date="2025-12-31")
    state.save(State(confirmed=build), folder)


@dataclass(frozen=True)
class Played:
    """What came of a night."""

    plan: Planned
    code: int
    done: list[Done]
    state: State


def play(plan: Planned, folder: Path, runner: Runner) -> Played:
    """Measure a night, and tell what it came to."""
    remembered, out = folder / "state", folder / plan.date
    arguments = ["--state", str(remembered), "--out", str(out), "--torch", plan.torch, "--control", CONTROL]
    said = night.parse([*arguments, "--date", plan.date])
    measurement = night.Measurement(said, ROOT, runner)
    measurement.suite = plan.suite(measurement.suite)
    tonight, confirmed = measurement.run()
    night.write(out, tonight, confirmed)
    done = publish.tell(
        remembered, out, publish.read_night(out, "gloo", "cpu"), github.apply, measurement.suite
    )
    return Played(plan=plan, code=night.exit_code(tonight), done=done, state=state.load(remembered))


def main() -> int:
    """Play the nights, those that can be on real torch where ``--real`` is given; print what came of each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--real", action="store_true", help="the first two nights install and run torch")
    parser.add_argument("--folder", type=Path, default=ROOT / ".canishard" / "rehearsal")
    said = parser.parse_args()
    folder = said.folder.absolute()
    if folder.exists():
        shutil.rmtree(folder)
    os.environ.pop("PYTHONPATH", None)  # It led here; what measures is to see none of it.
    os.environ.update(Fake(folder / "github").variables)
    begin(folder / "state")
    for plan in NIGHTS:
        print(f"\n==== {plan.date} · torch {plan.torch} · {plan.title}", flush=True)
        played = play(plan, folder, run_child if said.real and plan.is_real else Recorded(plan.change))
        print(
            f"==== exit code {played.code}; {', '.join(map(str, played.done)) or 'nothing filed, updated or closed'}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
