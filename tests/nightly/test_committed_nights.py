"""Nights made of the committed records: 2.8.0 is confirmed, 2.9.1 is tonight's, then 2.10.0."""

from __future__ import annotations

import functools
from collections import Counter

import pytest

from canishard import catalogue, files, record
from canishard.facts.compare import Change
from canishard.launch.outcome import Outcome, Status
from canishard.nightly import actions, causes, verdict
from canishard.nightly.actions import Kind, Plan
from canishard.nightly.settle import settle
from canishard.nightly.state import NightVerdict, State
from canishard.nightly.suspects import is_mass, suspects
from canishard.nightly.verdict import Night
from canishard.record import Record

FLAVOUR = "cuda-nodriver"


@functools.cache
def committed(release: str) -> Record:
    path = files.matrix_dir() / "results" / f"torch-{release}-{FLAVOUR}-gloo-cpu-cp311-linux-x86_64.json"
    if not path.exists():
        pytest.skip(f"no record of {release} is committed")
    return record.load(path)


def control(key: tuple[str, int]) -> Outcome:
    cells = {cell.key: cell for cell in committed("2.15.0").cells}
    return cells[key]


def play(state: State, confirmed: Record, tonight: Record, date: str) -> tuple[Night, Record, Plan]:
    """Play a night whose repeated runs end as the record says."""
    rows = {
        row: entry for row, entry in catalogue.load().items() if row in {cell.id for cell in tonight.cells}
    }
    suite = {cell.key for cell in tonight.cells}
    found = suspects(confirmed, tonight, [], suite)
    assert not is_mass(found)
    settled = []
    for change in found.changed:
        assert change.new is not None
        expected = control((change.id, change.world_size))
        settled.append(settle(change, [change.new] * 3, [expected] * 2, expected.status))
    night = verdict.judged(date, confirmed, tonight, found, settled)
    after = verdict.next_confirmed(confirmed, tonight, night)
    return night, after, actions.decide(state, night, after, suite, rows)


def by_root(night: Night) -> dict[str, set[str]]:
    found = causes.trace(night.standing, catalogue.load(), backend=night.backend, device=night.device)
    return {f"{one.direction.value} {one.root}": {change.id for change in one.changes} for one in found}


def test_what_2_9_1_changed_and_2_10_0_mended() -> None:
    first, second, third = (committed(release) for release in ("2.8.0", "2.9.1", "2.10.0"))
    night, confirmed, plan = play(State(), first, second, "2026-01-01")

    found = by_root(night)
    assert set(found) == {
        "worse pp.gpipe",
        "better collectives.reduce_scatter",
        "better collectives.reduce_scatter_tensor",
    }
    assert found["worse pp.gpipe"] >= {"pp.gpipe", "pp.gpipe[scale_grads=True]"}
    assert {change.new.status for change in night.standing if change.new and change.id.startswith("pp.")} == {
        Status.CRASH
    }
    mended = found["better collectives.reduce_scatter_tensor"]
    assert mended >= {"collectives.reduce_scatter_tensor[op=avg]", "fsdp2.gradients[reduce=default]"}
    assert {Change.FIXED, Change.REGRESSED} == set(Counter(change.change for change in night.standing))
    assert [(action.kind, action.title) for action in plan.actions] == [
        (Kind.OPEN, "pp.gpipe: pass -> crash, and 1 more row (gloo, cpu)")
    ]
    assert "nox -s bisect -- pp.gpipe --good 2.8.0 --bad 2.9.1" in plan.actions[0].body

    state = actions.with_issues(plan.state, {plan.actions[0].key: 7})
    night, confirmed, plan = play(state, confirmed, third, "2026-01-02")
    assert set(by_root(night)) == {"better pp.gpipe"}
    assert [action.kind for action in plan.actions] == [Kind.CLOSE]
    assert plan.actions[0].comment.startswith("Confirmed fixed on `2.10.0")
    assert plan.actions[0].is_completed
    assert confirmed.cells == third.cells


def test_a_night_on_which_nothing_changed() -> None:
    night, confirmed, plan = play(State(), committed("2.10.0"), committed("2.10.0"), "2026-01-01")
    assert night.verdict is NightVerdict.CLEAN
    assert (night.standing, night.undecided, plan.actions) == ([], {}, [])
    assert confirmed.cells == committed("2.10.0").cells
