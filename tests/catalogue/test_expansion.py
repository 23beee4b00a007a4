"""The combinations of a check's parameters that make sense."""

from __future__ import annotations

from typing import Any

import pytest

from canishard.catalogue.expansion import Declared, Labels, expand


def declared(**more: Any) -> Declared:
    given = {"params": {"mesh": ["4", "2x2"], "dim": [0, 1]}, **more}
    return Declared(family="a", function="b", title="t", feature="f", **given)


def cells(**more: Any) -> list[str]:
    """Return the bracket of each row, with its world sizes."""
    return [f"{row.id[3:]}@{','.join(map(str, row.world_sizes))}" for row in expand(declared(**more))]


ALL = ["[mesh=4,dim=0]@2,4", "[mesh=4,dim=1]@2,4", "[mesh=2x2,dim=0]@2,4", "[mesh=2x2,dim=1]@2,4"]


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ({}, ALL),
        ({"exclude": [{"mesh": "2x2"}]}, ALL[:2]),
        ({"exclude": [{"mesh": "4", "dim": 1}, {"mesh": "2x2", "dim": 0}]}, [ALL[0], ALL[3]]),
        ({"exclude": [{"dim": (0, 1), "mesh": "4"}]}, ALL[2:]),
        ({"exclude": [{"mesh": "2x2", "world_size": 2}]}, [*ALL[:2], "[mesh=2x2,dim=0]@4", "[mesh=2x2,dim=1]@4"]),
        ({"exclude": [{"world_size": (2, 4)}]}, []),
        ({"combinations": [{"mesh": "4"}]}, ALL[:2]),
        ({"combinations": [{"mesh": "4", "dim": 0}, {"mesh": "2x2", "world_size": 4}]},
         [ALL[0], "[mesh=2x2,dim=0]@4", "[mesh=2x2,dim=1]@4"]),
        ({"combinations": [{"mesh": "4"}], "exclude": [{"dim": 1}]}, ALL[:1]),
        ({"params": {}}, ["@2,4"]),
        ({"params": {}, "workaround": "w", "world_sizes": [3]}, ["+w@3"]),
    ],
)  # fmt: skip
def test_only_combinations_that_make_sense_are_rows(more: dict[str, Any], wanted: list[str]) -> None:
    assert cells(**more) == wanted


def test_an_entry_of_a_table_says_where_it_applies() -> None:
    table = {"x": Labels(), "y": Labels(where={"mesh": "2x2", "dim": [1], "world_size": 4})}

    assert cells(rows={"op": table}) == [
        *(f"[op=x,{row[1:]}" for row in ALL),
        "[op=y,mesh=2x2,dim=1]@4",
    ]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"exclude": [{"mesh": "8"}]}, "b: {'mesh': '8'}: mesh='8': allowed: '4', '2x2'"),
        ({"combinations": [{"dims": 0}]}, "dims=0: allowed: 'mesh', 'dim', 'world_size'"),
        ({"exclude": [{"world_size": 8}]}, "world_size=8: allowed: 2, 4"),
        ({"exclude": [{"dim": ()}]}, "dim=(): allowed: 0, 1"),
        ({"rows": {"op": {"x": Labels(where={"op": "y"})}}}, "op='y': allowed: 'x'"),
        ({"rows": {"dim": {"x": Labels()}}}, "b: dim cannot be a parameter besides"),
        ({"params": {"world_size": [1]}}, "b: world_size cannot be a parameter besides"),
    ],
)
def test_a_pattern_that_fits_nothing_is_said(more: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=r"^b: ") as raised:
        expand(declared(**more))

    assert said in str(raised.value)
