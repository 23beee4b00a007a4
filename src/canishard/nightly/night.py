"""One night: install, prove the machine, measure, run again what changed, and hand over what it came to.

This half runs untrusted builds of torch and holds no right to write anywhere but into its own folder; ``publish``
is the other half. Runs in nox's own process, so it imports no torch.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

from canishard import catalogue, files, record, releases
from canishard.errors import CanishardError, ChangedError, InfraError
from canishard.facts import expectations
from canishard.facts.compare import REGRESSIONS
from canishard.launch.outcome import Outcome, Status
from canishard.nightly import settle, state, suspects, verdict
from canishard.nightly.settle import Settled
from canishard.nightly.state import Build, NightVerdict, Standing
from canishard.nightly.summary import summary
from canishard.nightly.suspects import Key, Suspects
from canishard.nightly.verdict import Night
from canishard.record import Record
from canishard.walk import nightlies
from canishard.walk.child import run_child
from canishard.walk.measure import Runner, measure

STATE = Path(".canishard") / "nightly" / "state"
OUT = Path(".canishard") / "nightly" / "tonight"
NIGHT_FILE, SUMMARY_FILE, CONFIRMED = "night.json", "summary.md", "confirmed"
"""What a night leaves in its folder, and the state's folder of the confirmed record."""

SIDES = ("new", "old", "new", "old", "new")
CANARY_PATTERN = "canary.*"


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line; argparse exits with 2 where it is wrong."""
    parser = argparse.ArgumentParser(
        prog="nox -s nightly --",
        description="Measure the newest nightly build of torch, and say what changed since the confirmed state.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--state", type=Path, default=STATE, metavar="DIR", help=f"what is remembered (default: {STATE})")
    add("--out", type=Path, default=OUT, metavar="DIR", help=f"what the night leaves (default: {OUT})")
    add("--torch", metavar="VERSION", help="the build to judge (default: the newest of the nightly index)")
    add(
        "--control",
        metavar="VERSION",
        help="the release that vouches for the machine (default: the newest row)",
    )
    add("--date", metavar="DAY", help="the night's date (default: today, UTC)")
    add("--backend", default="gloo", help="as init_process_group takes it (default: gloo)")
    add("--device", default="cpu", help="a device type (default: cpu)")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str], root: Path, runner: Runner = run_child) -> int:
    """Measure, write what the night came to, print its summary; return ``exit_code``'s, or an error's."""
    try:
        said = parse(arguments)
        night, confirmed = Measurement(said, root, runner).run()
        write(said.out, night, confirmed)
        print(summary(night, state.load(said.state), catalogue.load()))
    except CanishardError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return exit_code(night)


def exit_code(night: Night) -> int:
    """Return 0, 10 where a change for the worse stands, 11 where there is no verdict."""
    if night.verdict in {NightVerdict.MASS, NightVerdict.INFRA}:
        return InfraError.exit_code
    return ChangedError.exit_code if any(one.change in REGRESSIONS for one in night.standing) else 0


def write(folder: Path, night: Night, confirmed: Record | None) -> None:
    """Leave the record that the next night is compared with, and last what the night came to."""
    if confirmed is not None:
        record.save(confirmed, folder / CONFIRMED / f"{confirmed.name}.json")
    files.replace(folder / NIGHT_FILE, verdict.encode(night))


def confirmed_record(folder: Path, backend: str, device: str) -> Record | None:
    """Return the confirmed record of a state's folder for a backend and device, None before the first night."""
    found = record.load_all(folder / CONFIRMED)
    return next(
        (one for one in found if (one.environment.backend, one.environment.device) == (backend, device)), None
    )


class Measurement:
    """A night's measurements, each nox session in a folder of its own below the night's."""

    def __init__(self, said: argparse.Namespace, root: Path, runner: Runner) -> None:
        """Read what is remembered; nothing is installed yet."""
        self.said, self.root, self.runner = said, root, runner
        self.date: str = said.date or datetime.now(timezone.utc).strftime("%Y-%m-%d")
        self.state = state.load(said.state)
        self.confirmed = confirmed_record(said.state, said.backend, said.device)
        rows = releases.load(root / "matrix" / "releases.toml")
        self.control = (
            releases.select(rows, [said.control], option="--control")[0] if said.control else rows[-1]
        )
        self.version = ""
        self.suite = suite()
        self.records = record.load_all(root / "matrix" / "results")

    def run(self) -> tuple[Night, Record | None]:
        """Return what the night came to, and the record that the next one is compared with."""
        try:
            self.version = self.said.torch or self._newest()
            standing = state.standing(self.state, Build(torch=self.version))
            if standing is Standing.SAME:
                return self._without(NightVerdict.SAME_BUILD, f"{self.version} was judged already")
            if standing is Standing.OLDER and not self.said.torch:
                return self._without(
                    NightVerdict.INFRA,
                    f"the index's newest build, {self.version}, is older than the last judged",
                )
            self._measure(self.control.version, "control", [f"--case={CANARY_PATTERN}"])
            tonight = self._measure(self.version, "tonight", ["--release=nightly"])
        except InfraError as error:
            return self._without(NightVerdict.INFRA, str(error))
        return self._judge(tonight)

    def _without(self, found: NightVerdict, reason: str) -> tuple[Night, Record | None]:
        build = Build(torch=self.version) if self.version else None
        place = {"backend": self.said.backend, "device": self.said.device}
        return verdict.without(self.date, found, reason, build, **place), self.confirmed

    def _newest(self) -> str:
        listed = nightlies.listed(os.environ)
        if not listed:
            msg = f"{nightlies.index(os.environ)}: the index has no nightly build of torch for this machine"
            raise InfraError(msg)
        return nightlies.newest(listed)

    def _judge(self, tonight: Record) -> tuple[Night, Record | None]:
        build = Build(torch=tonight.variant.torch, git_version=tonight.variant.git_version)
        if state.standing(self.state, build) is Standing.SAME:
            return self._without(
                NightVerdict.SAME_BUILD, f"{build.torch} ({build.git_version}) was judged already"
            )
        expected = expectations.load(self.root / "matrix" / "expectations.toml")
        found = suspects.suspects(self.confirmed, tonight, expected, self.suite)
        settled = [] if suspects.is_mass(found) else self._settle(found, tonight)
        night = verdict.judged(
            self.date,
            self.confirmed,
            tonight,
            found,
            settled,
            unneeded=expectations.unneeded(expected, [*self.records, tonight]),
        )
        if not night.verdict.is_judged:
            return night, self.confirmed
        return night, verdict.next_confirmed(self.confirmed, tonight, night)

    def _settle(self, found: Suspects, tonight: Record) -> list[Settled]:
        """Run the changed cells again, in turn with the control release, and decide which changes stand."""
        runs: dict[Key, dict[str, list[Outcome]]] = {
            (one.id, one.world_size): {"new": [], "old": []} for one in found.changed
        }
        for number, side in enumerate(SIDES, 1):
            wanted = {
                key: runs[key][side]
                for one in found.changed
                if len(runs[key := (one.id, one.world_size)][side])
                < dict(zip(("new", "old"), settle.needed(one), strict=True))[side]
            }
            if wanted:
                self._again(number, side, wanted)
        digests = {entry.id: catalogue.digest_of(entry) for entry in catalogue.load().values()}
        expected = settle.control_statuses(self.control, tonight.environment, self.records, digests)
        return [
            settle.settle(
                one, **runs[one.id, one.world_size],
                control_expected=expected.get((one.id, one.world_size), Status.UNKNOWN),
            )
            for one in found.changed
        ]  # fmt: skip

    def _again(self, number: int, side: str, wanted: Mapping[Key, list[Outcome]]) -> None:
        """Run cells once more, on the night's build or on the control; what cannot be run stays missing."""
        print(f"\nrun {number} of {len(SIDES)} again: {len(wanted)} cells, {side} build", flush=True)
        options = [f"--case={case_id}" for case_id in sorted({key[0] for key in wanted})]
        options += [f"--world-size={size}" for size in sorted({key[1] for key in wanted})]
        version = self.version if side == "new" else self.control.version
        release = ["--release=nightly"] if side == "new" else []
        try:
            found = self._measure(version, f"again-{number}-{side}", [*release, *options])
        except InfraError as error:
            print(f"run {number}: {error}", file=sys.stderr)
            return
        for cell in found.cells:
            if cell.key in wanted:
                wanted[cell.key].append(cell)

    def _measure(self, version: str, name: str, options: Sequence[str]) -> Record:
        place = [f"--backend={self.said.backend}", f"--device={self.said.device}"]
        folder = self.said.out.absolute() / name
        session, variables = f"checks({version})", nightlies.environment(version, os.environ)
        return measure(
            session, folder, self.root, self.runner, options=[*place, *options], variables=variables
        )


def suite() -> set[Key]:
    """Return the cells that the checks declare now."""
    return {(entry.id, size) for entry in catalogue.load().values() for size in entry.world_sizes}
