"""Measures one release again and again, and tells every cell that did not stay the same.

``nox -s repeat -- -n 10 --torch VERSION`` shows how steady the suite is; with ``--start-methods fork,spawn``
it shows that both ways of starting ranks agree. Each run has a state folder of its own, so nothing is
known from another one. Runs that were cut go on where the same is asked for again; once they are made they are
made anew. Runs in nox's own process, so it imports no torch.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from canishard import files, releases
from canishard.errors import CanishardError, ChangedError
from canishard.facts import steadiness
from canishard.facts.compare import changes
from canishard.facts.steadiness import Steadiness
from canishard.record import Record
from canishard.walk.child import run_child
from canishard.walk.measure import Runner, environment, measure
from canishard.walk.stamps import Asked

FOLDER = Path(".canishard") / "repeat"
UNFINISHED = "unfinished"
"""The file that says what runs were asked for, beside their folders, until all are made."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One run of the whole suite on a release."""

    release: str
    number: int
    start_method: str

    @property
    def folder(self) -> Path:
        """Return where its state and record lie, below the checkout."""
        return FOLDER / self.release / f"{self.start_method}-{self.number}"


def parse(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Read the command line; what is not ours goes to pytest. argparse exits with 2 where it is wrong."""
    parser = argparse.ArgumentParser(
        prog="nox -s repeat --",
        description="Measure a release several times and compare the runs.",
        epilog="Every other option is handed to pytest: -k, --case, --world-size, --backend ...",
        allow_abbrev=False,
    )
    parser.add_argument("-n", type=int, default=10, dest="times", metavar="N", help="how often (default: 10)")
    parser.add_argument("--torch", metavar="VERSION", help="a release (default: the row marked ci)")
    parser.add_argument(
        "--start-methods",
        default="auto",
        metavar="LIST",
        help="comma-separated: auto, fork, spawn; each run is made with each (default: auto)",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write what came of it to this file, as JSON"
    )
    return parser.parse_known_args(arguments)


def main(arguments: Sequence[str], root: Path, runner: Runner = run_child) -> int:
    """Run, compare with the first run, print what differs; return 0, 10 where a cell differs, or an error's code."""
    said, rest = parse(arguments)
    try:
        rows = releases.load()
        release = releases.select(rows, [said.torch])[0] if said.torch else releases.ci_release(rows)
        methods = said.start_methods.split(",")
        runs = [
            Run(release=release.version, number=number, start_method=method)
            for number in range(1, said.times + 1)
            for method in methods
        ]
        asked = Asked(root, [*methods, *rest], environment()).digest(release)
        with going_on(root / FOLDER / release.version, asked):
            records = [
                make(run, f"{index} of {len(runs)}", root, rest=rest, runner=runner)
                for index, run in enumerate(runs, 1)
            ]
    except CanishardError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    differing = list(compare(runs, records))
    if said.out and len(runs) > 1:
        steadiness.save(_steadiness(records, differing), said.out)
    for line in differing:
        print(line)
    cells = len(records[0].cells)
    print(
        f"{len(runs)} runs of {cells} cells on {release.version}: {len(differing)} cells differ from the first run"
    )
    return ChangedError.exit_code if differing else 0


@contextmanager
def going_on(folder: Path, asked: str) -> Iterator[None]:
    """Have a folder hold the runs of one campaign only: those of a cut one that asked for the same, or none."""
    unfinished = folder / UNFINISHED
    if not unfinished.exists() or unfinished.read_text(encoding="utf-8") != asked:
        shutil.rmtree(folder, ignore_errors=True)
        files.replace(unfinished, asked.encode())
    yield
    unfinished.unlink()


def _steadiness(records: Sequence[Record], differing: list[str]) -> Steadiness:
    return Steadiness(
        torch=records[0].variant.torch,
        date=records[-1].ended[:10],
        runs=len(records),
        cells=len(records[0].cells),
        differing=differing,
    )


def make(run: Run, place: str, root: Path, *, rest: Sequence[str], runner: Runner) -> Record:
    """Make one run, unless this campaign has made it; raise InfraError where it leaves no record."""
    print(f"\nrun {place} · {run.release} · {run.start_method}", flush=True)
    options = ["--start-method", run.start_method, *rest]
    return measure(f"checks({run.release})", root / run.folder, root, runner, options=options, resume=True)


def compare(runs: Sequence[Run], records: Sequence[Record]) -> Iterator[str]:
    """Yield a line for every cell of a run that is not what it was in the first one."""
    for run, found in zip(runs[1:], records[1:], strict=True):
        for change in changes(records[0], found):
            yield f"run {run.number} ({run.start_method}): {change}"
