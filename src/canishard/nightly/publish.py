"""The half of a night that tells: issues filed, updated and closed, the summary shown, the state saved.

It runs no torch. What the measuring half left was made by code that nobody vouches for, so it is read strictly and
escaped where it is shown; what is to be done about issues is decided here.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime, timezone
from pathlib import Path

from canishard import catalogue, record
from canishard.errors import CanishardError, RecordError
from canishard.nightly import actions, causes, github, night, state, verdict
from canishard.nightly.actions import Action, Kind
from canishard.nightly.github import Done
from canishard.nightly.night import CONFIRMED, NIGHT_FILE, OUT, STATE
from canishard.nightly.state import NightVerdict
from canishard.nightly.summary import summary
from canishard.nightly.suspects import Key
from canishard.nightly.verdict import Night
from canishard.record import Record, merge

JOB_SUMMARY = "GITHUB_STEP_SUMMARY"
"""The environment variable that names the file which a job's page shows."""

Apply = Callable[[Iterable[Action]], list[Done]]


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line; argparse exits with 2 where it is wrong."""
    parser = argparse.ArgumentParser(
        prog="nox -s nightly-publish --",
        description="File, update and close issues for what a night came to, and remember it.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--state", type=Path, default=STATE, metavar="DIR", help=f"what is remembered (default: {STATE})")
    add("--from", type=Path, default=OUT, dest="source", metavar="DIR", help=f"the night (default: {OUT})")
    add("--backend", default="gloo", help="whose night it is (default: gloo)")
    add("--device", default="cpu", help="likewise (default: cpu)")
    add(
        "--dry-run",
        action="store_true",
        help="print what would be done; no issue is touched, nothing is saved",
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str], apply: Apply = github.apply) -> int:
    """Tell what a night came to; return 0, or an error's code. The state is saved last: a failure loses nothing."""
    said = parse(arguments)
    try:
        tonight = read_night(said.source, said.backend, said.device)
        tell(said.state, said.source, tonight, apply if not said.dry_run else None)
    except CanishardError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def tell(
    folder: Path,
    source: Path,
    tonight: Night,
    apply: Apply | None,
    suite: Collection[Key] | None = None,
) -> list[Done]:
    """Decide, do and save; ``apply`` None only shows what would be done.

    ``suite`` holds the cells that the checks declare, by default as they are here.
    """
    before = state.load(folder)
    confirmed = read_confirmed(source, tonight) if tonight.verdict.is_judged else None
    rows = catalogue.load()
    plan = actions.decide(before, tonight, confirmed, night.suite() if suite is None else suite, rows)
    text = summary(tonight, before, rows, plan)
    done = apply(plan.actions) if apply else [_undone(action) for action in plan.actions]
    if apply:
        lane = causes.lane(tonight.backend, tonight.device)
        done += github.forsake(actions.followed(plan.state), lane)
        if confirmed is not None:
            record.save(confirmed, folder / CONFIRMED / f"{confirmed.name}.json")
        state.save(actions.with_issues(plan.state, github.numbers(done)), folder)
    _show(text, done)
    return done


def _undone(action: Action) -> Done:
    word = {Kind.OPEN: "filed", Kind.UPDATE: "updated", Kind.REOPEN: "reopened", Kind.CLOSE: "closed"}[
        action.kind
    ]
    return Done(key=action.key, number=None, what=f"would be {word}: {action.title}")


def _show(text: str, done: Iterable[Done]) -> None:
    print(text)
    for one in done:
        print(one)
    page = os.environ.get(JOB_SUMMARY)
    if page:
        with Path(page).open("a", encoding="utf-8") as file:
            file.write(text + "\n")


def read_night(folder: Path, backend: str, device: str) -> Night:
    """Return the night that the measuring half left; where it left none, that is a night without a verdict."""
    path = folder / NIGHT_FILE
    if not path.exists():
        today = datetime.now(timezone.utc).strftime("%Y-%m-%d")
        reason = "the job that measures left nothing: see its log"
        return verdict.without(today, NightVerdict.INFRA, reason, backend=backend, device=device)
    tonight = verdict.decode(path.read_bytes(), str(path))
    if (tonight.backend, tonight.device) != (backend, device):
        msg = f"{path}: is a night of {tonight.backend} on {tonight.device}, expected {backend} on {device}"
        raise RecordError(msg)
    return tonight


def read_confirmed(folder: Path, tonight: Night) -> Record:
    """Return the record that a judged night left; RecordError where it is not what the night says it is."""
    found = record.load_all(folder / CONFIRMED)
    if len(found) != 1:
        msg = f"{folder / CONFIRMED}: expected the record of one night, found {len(found)}"
        raise RecordError(msg)
    place = found[0].environment
    if place.is_stable or (place.backend, place.device) != (tonight.backend, tonight.device):
        msg = f"{found[0].name}: is not the nightly's record of {tonight.backend} on {tonight.device}"
        raise RecordError(msg)
    merge.check_canary(found[0])
    return found[0]
