"""Every class of change has its words once, and the same builds stand against each other."""

from __future__ import annotations

from typing import Any

import pytest
from made_up import record

from canishard.facts.compare import REGRESSIONS, Change
from canishard.record import Record
from canishard.report.changes import MEANINGS, WORDS, alike


def test_every_change_has_its_words_and_the_worst_comes_first() -> None:
    assert {*MEANINGS} == {*WORDS} == {*Change}
    order = list(MEANINGS)
    assert {*order[:2]} == REGRESSIONS
    assert order[-2:] == [Change.FIXED, Change.SAME]
    assert WORDS[Change.NEWLY_WRONG] == "newly wrong"


CPU, CUDA = {"flavour": "cpu"}, {"flavour": "cuda"}
ARM = {"machine": "arm64"}


@pytest.mark.parametrize(
    ("olds", "news", "wanted"),
    [
        ([CPU, CUDA], [CPU, CUDA], [(0, 0), (1, 1)]),
        ([CUDA, CPU], [CPU], [(1, 0)]),
        ([CPU], [{**CPU, "python": "3.12"}, CPU], [(0, 1)]),
        ([CPU], [{**CPU, "python": "3.12"}], [(0, 0)]),
        ([{**CPU, **ARM}, CPU], [CPU], [(1, 0)]),
        ([CUDA], [CPU], [(0, 0)]),
    ],
)
def test_builds_that_are_alike_are_compared(
    olds: list[dict[str, Any]], news: list[dict[str, Any]], wanted: list[tuple[int, int]]
) -> None:
    old, new = ([record(**place) for place in places] for places in (olds, news))

    def number(pair: tuple[Record, Record]) -> tuple[int, int]:
        return next(at for at, one in enumerate(old) if one is pair[0]), next(
            at for at, one in enumerate(new) if one is pair[1]
        )

    assert [number(pair) for pair in alike(old, new, lambda one: one.environment)] == wanted
