"""Finds the release, or the nightly, in which a row changed: what ``nox -s bisect`` does.

What the committed records know with the same digest is not measured; the rest takes as few installations as
binary search needs. Runs in nox's own process, so it imports no torch.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from canishard import catalogue, record, releases
from canishard.catalogue import ids
from canishard.errors import CanishardError, ConfigurationError, InfraError
from canishard.launch.outcome import Outcome, Status, words
from canishard.record import Record
from canishard.record.conditions import NEVER_REUSED
from canishard.releases import Release
from canishard.walk import nightlies
from canishard.walk.child import run_child
from canishard.walk.measure import Runner, environment, measure
from canishard.walk.stamps import Asked

FOLDER = Path(".canishard") / "bisect"
COMPARE_URL = "https://github.com/pytorch/pytorch/compare"


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """What a row did on one build of torch."""

    version: str
    git_version: str
    outcome: Outcome
    is_known: bool
    """Whether a committed record said so, without a measurement."""

    def __str__(self) -> str:
        """Return it as ``2.8.0: wrong (summed instead of averaged), known``."""
        return f"{self.version}: {words(self.outcome)}, {'known' if self.is_known else 'measured'}"


def same(one: Outcome, other: Outcome) -> bool:
    """Tell whether two outcomes are the same: status, and how the value is wrong."""
    return (one.status, one.deviation) == (other.status, other.deviation)


def locate(number: int, is_as_first: Callable[[int], bool | None]) -> tuple[int, int]:
    """Return the last candidate that is as the first one, and the first that is not, of ``number`` in order.

    ``is_as_first`` tells it of a candidate between the first and the last, None where nobody can know; where
    the two returned are not neighbours, what lies between could not be judged. The first and the last differ.
    """
    low, high = 0, number - 1
    unknown: set[int] = set()
    while left := [index for index in range(low + 1, high) if index not in unknown]:
        middle = min(left, key=lambda index: abs(2 * index - low - high))
        found = is_as_first(middle)
        if found is None:
            unknown.add(middle)
        elif found:
            low = middle
        else:
            high = middle
    return low, high


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line; argparse exits with 2 where it is wrong."""
    parser = argparse.ArgumentParser(
        prog="nox -s bisect --",
        description="Find the release, or the nightly, in which a row changed.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("row", metavar="ROW", help="the id of a case, such as pp.gpipe")
    for side in ("good", "bad"):
        add(f"--{side}", required=True, metavar="WHAT", help="a release, or a nightly's date: 2026-11-30")
    add("--world-size", type=int, metavar="N", help="a number of ranks (default: the check's smallest)")
    add("--backend", default="gloo", help="as init_process_group takes it (default: gloo)")
    add("--device", default="cpu", help="a device type (default: cpu)")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str], root: Path, runner: Runner = run_child) -> int:
    """Search, and print where the row changed; return 0, or an error's code."""
    try:
        print("\n".join(Bisection(parse(arguments), root, runner).run()))
    except CanishardError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


class Bisection:
    """One search for the build in which a row changed."""

    def __init__(self, said: argparse.Namespace, root: Path, runner: Runner) -> None:
        """Look the row and the candidates up; nothing is installed yet."""
        self.said, self.root, self.runner = said, root, runner
        self.entry = catalogue.load().get(said.row)
        if self.entry is None:
            near = ids.matching([f"*{ids.name(said.row)}*"], catalogue.load())
            hint = f"; near it: {', '.join(near[:5])}" if near else ""
            msg = f"{said.row}: no check declares this row{hint}"
            raise ConfigurationError(msg)
        self.world_size = said.world_size or min(self.entry.world_sizes)
        self.digest = catalogue.digest_of(self.entry)
        self.versions = candidates(said.good, said.bad)
        self.seen: dict[str, Seen] = {}
        self.records = record.load_all(root / "matrix" / "results")

    def run(self) -> list[str]:
        """Return the answer as lines."""
        first, last = self.look(self.versions[0]), self.look(self.versions[-1])
        for end in (first, last):
            if end.outcome.status in {Status.FLAKY, Status.NOT_RUN}:
                msg = f"{end}: from this no change can be located: {end.outcome.message}"
                raise InfraError(msg)
        if same(first.outcome, last.outcome):
            msg = f"{self.said.row} ({self.world_size} ranks) did not change: {first}; {last}"
            raise ConfigurationError(msg)
        low, high = locate(len(self.versions), lambda index: self._is_as(first.outcome, self.versions[index]))
        return list(self._told(low, high))

    def _is_as(self, first: Outcome, version: str) -> bool | None:
        try:
            seen = self.look(version)
        except InfraError as error:
            print(f"{version}: not judged: {error}")
            return None
        return None if seen.outcome.status is Status.FLAKY else same(first, seen.outcome)

    def _told(self, low: int, high: int) -> list[str]:
        before, after = self.seen[self.versions[low]], self.seen[self.versions[high]]
        change = f"{words(before.outcome)} -> {words(after.outcome)}; before it: {before.version}"
        lines = [
            f"{self.said.row} ({self.world_size} ranks) changed in {after.version}: {change}",
            f"upstream: {COMPARE_URL}/{before.git_version}...{after.git_version}",
            *(f"  {self.seen[version]}" for version in self.versions if version in self.seen),
        ]
        between = self.versions[low + 1 : high]
        if between:
            lines.insert(1, f"could not be judged (flaky, or not installed): {', '.join(between)}")
        measured = sum(not seen.is_known for seen in self.seen.values())
        return [*lines, f"{measured} of {len(self.versions)} builds measured"]

    def look(self, version: str) -> Seen:
        """Return what the row does on a build: as committed, else measured now."""
        if version not in self.seen:
            self.seen[version] = self._committed(version) or self._measured(version)
            print(self.seen[version], flush=True)
        return self.seen[version]

    def _committed(self, version: str) -> Seen | None:
        wanted = (version, self.said.backend, self.said.device)
        for found in self.records:
            place = found.environment
            if (place.channel, place.backend, place.device) == wanted:
                seen = self._cell(found, version, is_known=True)
                if seen and seen.outcome.digest == self.digest:
                    return seen
        return None

    def _measured(self, version: str) -> Seen:
        said = self.said
        options = [f"--backend={said.backend}", f"--device={said.device}", f"--case={said.row}"]
        options.append(f"--world-size={self.world_size}")
        variables = nightlies.environment(version, os.environ)
        row = next((row for row in releases.load() if row.version == version), Release(version=version))
        # What was asked once is not asked again; a row that did not come to a verdict is.
        asked = Asked(self.root, options, environment(variables)).digest(row)
        folder = self.root / FOLDER / version / f"{ids.slug(said.row)}-{asked[:12]}"
        session, resume = f"checks({version})", self._is_settled(folder)
        found = measure(
            session, folder, self.root, self.runner, options=options, variables=variables, resume=resume
        )
        seen = self._cell(found, version, is_known=False)
        if seen is None:
            msg = f"{said.row} ({self.world_size} ranks) could not be measured on {version}; see {folder / 'log'}"
            raise InfraError(msg)
        return seen

    def _is_settled(self, folder: Path) -> bool:
        key = (self.said.row, self.world_size)
        cells = [cell for found in record.load_all(folder) for cell in found.cells if cell.key == key]
        return any(cell.digest == self.digest and cell.status not in NEVER_REUSED for cell in cells)

    def _cell(self, found: Record, version: str, *, is_known: bool) -> Seen | None:
        key = (self.said.row, self.world_size)
        cell = next((cell for cell in found.cells if cell.key == key), None)
        if cell is None:
            return None
        return Seen(version=version, git_version=found.variant.git_version, outcome=cell, is_known=is_known)


def candidates(good: str, bad: str) -> list[str]:
    """Return the builds from one to the other, oldest first, both included: releases, or nightlies by date."""
    dates = [nightlies.is_date(side) for side in (good, bad)]
    if all(dates):
        return nightlies.between(min(good, bad), max(good, bad), nightlies.listed(os.environ))
    if any(dates):
        msg = f"--good {good} --bad {bad}: expected two releases, or two nightlies' dates"
        raise ConfigurationError(msg)
    rows = releases.load()
    ends = sorted((releases.select(rows, [side])[0].version for side in (good, bad)), key=Version)
    return [row.version for row in rows if Version(ends[0]) <= Version(row.version) <= Version(ends[1])]
