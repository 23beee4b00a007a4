"""How attempts fold, and which cases are confirmed by spawn."""

from __future__ import annotations

import pytest

from canishard.launch import Launcher, Rules, Where
from canishard.launch.launcher import fold
from canishard.launch.outcome import Attempt, Case, RankEvidence, Status

PASS, WRONG, CRASH, INFRA = Status.PASS, Status.WRONG, Status.CRASH, Status.INFRA


def case(name: str = "family.subject") -> Case:
    return Case(
        id=name, world_size=2, digest="d", family="family", feature="f", title="t", module="m", function="f"
    )  # fmt: skip


def attempt(status: Status) -> Attempt:
    return Attempt(
        status=status, start_method="fork", message=f"it was {status.value}", notes=[f"note {status.value}"]
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


def test_fold_keeps_notes_once_and_rank_zeros_measurements() -> None:
    first = attempt(PASS)
    first.ranks = [RankEvidence(rank=0, phase="teardown", measurements={"ratio": 1.0}, notes=["remark"]),
                   RankEvidence(rank=1, phase="teardown", measurements={"ratio": 2.0}, notes=["remark"])]  # fmt: skip

    outcome = fold(case(), [first, attempt(PASS)])

    assert (outcome.notes, outcome.measurements) == (["note pass", "remark"], {"ratio": 1.0})


def test_the_sample_is_the_same_whatever_the_order() -> None:
    rules = Rules(lambda _: False, lambda _: False)
    cases = [case(f"family.subject[n={number}]") for number in range(100)]
    one, other = Launcher(Where(), rules), Launcher(Where(), rules)

    one.choose_sample(cases, 20)
    other.choose_sample(reversed(cases), 20)

    assert len(one.sampled) == 20
    assert one.sampled == other.sampled
