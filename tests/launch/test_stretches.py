"""Where the time of a case went."""

from __future__ import annotations

import pytest

from canishard.launch import stretches
from canishard.launch.judge import RankState


def rank(**began: float) -> RankState:
    return RankState(0, began=began)


@pytest.mark.parametrize(
    ("ranks", "seconds"),
    [
        ([rank(start=1, init=2, body=4), rank(start=3, init=3.5, body=7)], [3, 0.5, 3.5, 3, 2, 1]),
        ([rank(start=1, init=2), rank(start=1, init=3)], [1, 2, 0, 7, 2, 1]),
        ([rank(), rank()], [0, 0, 0, 10, 2, 1]),
    ],
    ids=["all ranks", "hang while joining", "nothing started"],
)
def test_a_stretch_ends_when_the_last_rank_gets_there(ranks: list[RankState], seconds: list[float]) -> None:
    spent = stretches.of_stage(ranks, 0.0, 10.0, 12.0, 13.0)

    assert spent == dict(zip(stretches.STRETCHES[1:], seconds, strict=True))
    assert sum(spent.values()) == 13.0


def test_seconds_add_up_and_are_shown_in_order() -> None:
    total: dict[str, float] = {}
    for spent in ({"body": 1.0}, {stretches.SERVER: 6.0, "body": 1.0}):
        stretches.add(total, spent)

    assert stretches.table(total) == "    6.00 s   75 %  server\n    2.00 s   25 %  body"
