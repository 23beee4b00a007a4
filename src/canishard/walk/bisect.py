"""Finds the release, or the nightly, in which a row changed: what ``nox -s bisect`` does.

What the committed records know with the same digest is not measured; the rest takes as few installations as
binary search needs. Only one kind of build is compared: a build with CUDA and one without differ in places. Runs in
nox's own process, so it imports no torch.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from canishard import catalogue, record
from canishard.catalogue import ids
from canishard.errors import CanishardError, ConfigurationError, InfraError
from canishard.facts.quirks import NOT_MEASURED
from canishard.launch.outcome import Outcome, Status, words
from canishard.record import Record
from canishard.record.conditions import NEVER_REUSED
from canishard.record.environment import Environment
from canishard.releases import Release
from canishard.walk import candidates, nightlies
from canishard.walk.child import run_child
from canishard.walk.install import TORCH_VARIABLE
from canishard.walk.measure import Runner, environment, measure
from canishard.walk.stamps import Asked

FOLDER = Path(".canishard") / "bisect"
COMPARE_URL = "https://github.com/pytorch/pytorch/compare"
UNJUDGED = NOT_MEASURED | {Status.FLAKY}
"""Statuses from which no change can be located."""

Kind = tuple[str, str, str]
"""What must be the same for two builds to be compared: flavour, system and machine."""


def kind_of(place: Environment) -> Kind:
    """Return which kind of build an environment has."""
    return place.flavour, place.system, place.machine


class OtherKindError(InfraError):
    """A build of another kind than those that it is to be compared with."""

    def __init__(self, seen: Seen, wanted: Kind) -> None:
        """Say what came, and what was wanted."""
        self.kind = seen.kind
        super().__init__(f"{seen.version} is a {' '.join(seen.kind)} build here, and not {' '.join(wanted)}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """What a row did on one build of torch."""

    version: str
    git_version: str
    kind: Kind
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
        what = "a release, a pre-release, a wheel's path, or a nightly's date: 2026-11-30"
        add(f"--{side}", required=True, metavar="WHAT", help=what)
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
        said.row, note = catalogue.resolve(said.row, catalogue.load())
        if note:
            print(note)
        self.entry = catalogue.load().get(said.row)
        if self.entry is None:
            near = ids.matching([f"*{ids.name(said.row)}*"], catalogue.load())
            hint = f"; near it: {', '.join(near[:5])}" if near else ""
            msg = f"{said.row}: no check declares this row{hint}"
            raise ConfigurationError(msg)
        self.world_size = said.world_size or min(self.entry.world_sizes)
        self.digest = catalogue.digest_of(self.entry)
        self.releases = {release.version: release for release in candidates.candidates(said.good, said.bad)}
        self.versions = list(self.releases)
        self.records = record.load_all(root / "matrix" / "results")
        self.kind = self._known_kind()
        self.seen: dict[str, Seen] = {}
        self.measured: dict[str, Seen] = {}

    def run(self) -> list[str]:
        """Return the answer as lines."""
        try:
            low, high = self._search()
        except OtherKindError as error:
            # What this machine installs decides: what is committed of another kind is no measure for it.
            print(f"{error}: only builds as this one are compared from here on", flush=True)
            self.kind, self.seen = error.kind, {}
            low, high = self._search()
        return list(self._told(low, high))

    def _search(self) -> tuple[int, int]:
        first, last = self.look(self.versions[0]), self.look(self.versions[-1])
        for end in (first, last):
            if end.outcome.status in UNJUDGED:
                msg = f"{end}: from this no change can be located: {end.outcome.message}"
                raise InfraError(msg)
        if same(first.outcome, last.outcome):
            msg = f"{self.said.row} ({self.world_size} ranks) did not change: {first}; {last}"
            raise ConfigurationError(msg)
        return locate(len(self.versions), lambda index: self._is_as(first.outcome, self.versions[index]))

    def _is_as(self, first: Outcome, version: str) -> bool | None:
        try:
            seen = self.look(version)
        except InfraError as error:
            # Once a build of the kind that is compared was measured here, another is the odd one.
            if isinstance(error, OtherKindError) and all(seen.is_known for seen in self.seen.values()):
                raise
            print(f"{version}: not judged: {error}")
            return None
        return None if seen.outcome.status in UNJUDGED else same(first, seen.outcome)

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
            lines.insert(1, f"could not be judged (flaky, not run, or not installed): {', '.join(between)}")
        measured = sum(not seen.is_known for seen in self.seen.values())
        return [
            *lines,
            f"{measured} of {len(self.versions)} builds measured; all are {' '.join(before.kind)}",
        ]

    def look(self, version: str) -> Seen:
        """Return what the row does on a build: as committed, else measured now.

        Raises OtherKindError where what was measured is no build to compare with the others.
        """
        if version not in self.seen:
            seen = self._committed(version) or self._measured(version)
            self.kind = self.kind or seen.kind
            if seen.kind != self.kind:
                raise OtherKindError(seen, self.kind)
            self.seen[version] = seen
            print(seen, flush=True)
        return self.seen[version]

    def _known_kind(self) -> Kind | None:
        """Return the kind of build of which most is committed, of both ends where it can be; None for none at all."""
        kinds = [{seen.kind for seen in self._all_committed(version)} for version in self.versions]
        ends = kinds[0] & kinds[-1] or kinds[0] | kinds[-1]
        return max(sorted(ends), key=lambda kind: sum(kind in some for some in kinds), default=None)

    def _committed(self, version: str) -> Seen | None:
        return next((seen for seen in self._all_committed(version) if seen.kind == self.kind), None)

    def _all_committed(self, version: str) -> list[Seen]:
        """Return what the records know of the row on a release, on the Python that it would be measured on."""
        release = self.releases[version]
        wanted = (version, self.said.backend, self.said.device, release.python)
        found = [
            self._cell(record, version, is_known=True)
            for record in self.records
            for place in [record.environment]
            if release.stable and (place.channel, place.backend, place.device, place.python) == wanted
        ]
        return [seen for seen in found if seen and self._is_usable(seen.outcome)]

    def _is_usable(self, cell: Outcome) -> bool:
        return cell.digest == self.digest and cell.status not in NOT_MEASURED

    def _measured(self, version: str) -> Seen:
        """Return what the row does on a build, installed and measured once in a search."""
        if version not in self.measured:
            self.measured[version] = self._measure(version)
        return self.measured[version]

    def _measure(self, version: str) -> Seen:
        said = self.said
        options = [f"--backend={said.backend}", f"--device={said.device}", f"--case={said.row}"]
        options.append(f"--world-size={self.world_size}")
        release = self.releases[version]
        variables = self._variables(release)
        # What was asked once is not asked again; a row that did not come to a verdict is.
        asked = Asked(self.root, options, environment(variables)).digest(release)
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

    def _variables(self, release: Release) -> dict[str, str]:
        """Return the variables by which the nox inside has a session for a torch that is no row."""
        if release.stable:
            return {}
        named = {TORCH_VARIABLE: str(release.wheel or release.version)}
        return named if release.wheel else {**named, **nightlies.environment(release.version, os.environ)}

    def _is_settled(self, folder: Path) -> bool:
        key = (self.said.row, self.world_size)
        cells = [cell for found in record.load_all(folder) for cell in found.cells if cell.key == key]
        return any(cell.digest == self.digest and cell.status not in NEVER_REUSED for cell in cells)

    def _cell(self, found: Record, version: str, *, is_known: bool) -> Seen | None:
        key = (self.said.row, self.world_size)
        cell = next((cell for cell in found.cells if cell.key == key), None)
        if cell is None:
            return None
        return Seen(
            version=version,
            git_version=found.variant.git_version,
            kind=kind_of(found.environment),
            outcome=cell,
            is_known=is_known,
        )
