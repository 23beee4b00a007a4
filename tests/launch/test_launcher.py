"""How attempts fold, and which cases are confirmed by spawn."""

from __future__ import annotations

from typing import ClassVar

import pytest

from canishard.launch import Launcher, Rules, ServerLost, Where
from canishard.launch.launcher import SPAWNED, fold
from canishard.launch.outcome import Attempt, Case, Kind, RankEvidence, Status

PASS, WRONG, CRASH, INFRA = Status.PASS, Status.WRONG, Status.CRASH, Status.INFRA


def case(name: str = "family.subject") -> Case:
    return Case(
        id=name, world_size=2, digest="d", family="family", feature="f", title="t", module="m", function="f"
    )  # fmt: skip


def attempt(status: Status, deviation: str = "") -> Attempt:
    return Attempt(
        status=status,
        start_method="fork",
        message=f"it was {status.value}",
        deviation=deviation,
        notes=[f"note {status.value}"],
    )


@pytest.mark.parametrize(
    ("statuses", "status", "message"),
    [
        ([PASS], PASS, "it was pass"),
        ([WRONG, WRONG], WRONG, "it was wrong"),
        ([WRONG, PASS], Status.FLAKY, "1 pass, 1 wrong; it was wrong"),
        ([CRASH, CRASH, PASS], Status.FLAKY, "2 crash, 1 pass; it was crash"),
        ([PASS, PASS], PASS, "it was pass"),
        ([WRONG, INFRA], INFRA, "it was infra"),
    ],
)
def test_fold(statuses: list[Status], status: Status, message: str) -> None:
    outcome = fold(case(), [attempt(item) for item in statuses])

    assert (outcome.status, outcome.message) == (status, message)
    assert len(outcome.attempts) == len(statuses)


@pytest.mark.parametrize(
    ("deviations", "kind", "message"),
    [
        (["summed", "summed"], Kind(WRONG, "summed"), "it was wrong"),
        (["summed", "averaged"], Kind(Status.FLAKY), "1 wrong (averaged), 1 wrong (summed); it was wrong"),
        (["a", "a", "b"], Kind(Status.FLAKY), "2 wrong (a), 1 wrong (b); it was wrong"),
    ],
)
def test_wrong_in_different_ways_is_flaky(deviations: list[str], kind: Kind, message: str) -> None:
    outcome = fold(case(), [attempt(WRONG, deviation) for deviation in deviations])

    assert (outcome.kind, outcome.message) == (kind, message)


def test_what_proves_nothing_has_no_deviation() -> None:
    assert fold(case(), [attempt(WRONG, "summed"), attempt(INFRA)]).kind == Kind(INFRA)


SUMMED = Kind(WRONG, "summed")


@pytest.mark.parametrize(
    ("before", "found", "is_confirmed"),
    [
        (SUMMED, [SUMMED, SUMMED], False),
        (SUMMED, [Kind(WRONG, "averaged")] * 2, True),
        (SUMMED, [SUMMED, Kind(WRONG, "averaged")], True),
        (Kind(WRONG), [SUMMED, SUMMED], True),
        (Kind(PASS), [SUMMED, SUMMED], True),
        (Kind(PASS), [Kind(PASS)], False),
        (None, [SUMMED, SUMMED], False),
        (Kind(CRASH), [Kind(CRASH)] * 2, True),
        (None, [Kind(Status.HANG), Kind(PASS)], True),
        (Kind(PASS), [SUMMED, Kind(INFRA)], False),
    ],
)
def test_what_changed_is_confirmed_by_spawn(
    before: Kind | None, found: list[Kind], is_confirmed: bool
) -> None:
    launcher = Launcher(Where(), Rules(), baseline={case().key: before} if before else {})

    assert launcher._needs_spawn(case(), [attempt(*kind) for kind in found]) is is_confirmed


def test_fold_keeps_notes_once_and_rank_zeros_measurements() -> None:
    first = attempt(PASS)
    first.ranks = [RankEvidence(rank=0, phase="teardown", measurements={"ratio": 1.0}, notes=["remark"]),
                   RankEvidence(rank=1, phase="teardown", measurements={"ratio": 2.0}, notes=["remark"])]  # fmt: skip

    outcome = fold(case(), [first, attempt(PASS)])

    assert (outcome.notes, outcome.measurements) == (["note pass", "remark"], {"ratio": 1.0})


def test_the_sample_is_the_same_whatever_the_order() -> None:
    cases = [case(f"{family}.subject[n={number}]") for family in "abcdef" for number in range(50)]
    one, other = Launcher(Where(), Rules()), Launcher(Where(), Rules())

    one.choose_sample(cases, 20)
    other.choose_sample(reversed(cases), 20)

    assert len(one.sampled) == 20
    assert (one.sampled, one.spawned) == (other.sampled, other.spawned)


def test_few_of_the_sample_are_spawned_each_of_another_family() -> None:
    launcher = Launcher(Where(), Rules())

    launcher.choose_sample(
        [case(f"{family}.subject[n={number}]") for family in "abcdef" for number in range(50)]
    )

    assert launcher.spawned < launcher.sampled
    assert len({name.partition(".")[0] for name, _ in launcher.spawned}) == SPAWNED


def test_without_a_sample_nothing_is_spawned() -> None:
    launcher = Launcher(Where(), Rules())

    launcher.choose_sample([case()], 0)

    assert (launcher.sampled, launcher.spawned) == (frozenset(), frozenset())


class FakeServer:
    """A server that is not ready in time, the first time."""

    made: ClassVar[list[FakeServer]] = []

    def __init__(self, start_method: str, warm: tuple[str, ...], path: object, hash_seed: int) -> None:
        self.asked = (start_method, warm, path, hash_seed)
        self.is_closed = False
        self.made.append(self)

    def wait_until_ready(self) -> None:
        if len(self.made) == 1:
            msg = "the server was not ready within 300 s"
            raise ServerLost(msg)

    def is_alive(self) -> bool:
        return not self.is_closed

    def close(self) -> None:
        self.is_closed = True


def test_a_server_that_was_not_ready_in_time_keeps_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("canishard.launch.launcher.Server", FakeServer)
    monkeypatch.setattr(FakeServer, "made", [])
    launcher = Launcher(Where(), Rules())

    late = launcher._attempt(case(), "second", "fork")
    found: object = launcher._server("second", "fork")

    assert (late.status, late.message) == (INFRA, "the server was not ready within 300 s")
    assert [server.is_closed for server in FakeServer.made] == [True, False]
    assert found is FakeServer.made[1]
    again: object = launcher._server("second", "fork")
    assert again is found
