"""Changes under the row that they are traced to."""

from __future__ import annotations

import itertools

from nightly.nights import GRADIENTS, OTHER, PIPE, PRIM, ROWS, TRAIN, catalogue, cell, row

from canishard.catalogue import Entry
from canishard.facts.compare import CellChange, compare
from canishard.nightly.causes import Direction, direction, key_of, roots, subject, trace


def change(case_id: str, old: str, new: str, world_size: int = 2) -> CellChange:
    before, after = cell(case_id, old), cell(case_id, new)
    return CellChange(id=case_id, world_size=world_size, change=compare(before, after), old=before, new=after)


def traced(changes: list[CellChange], rows: dict[str, Entry] = ROWS) -> dict[str, list[str]]:
    found = trace(changes, rows, backend="gloo", device="cpu")
    return {f"{cause.direction.value} {cause.root}": [one.id for one in cause.changes] for cause in found}


def test_a_subject_is_an_id_without_parameters() -> None:
    assert subject("a.b[x=1,y=2]") == "a.b"
    assert subject("a.b[x=1]+mended") == "a.b+mended"


def test_a_key_is_the_same_for_every_parameter_and_way() -> None:
    assert (
        key_of(PRIM, "gloo", "cpu") == key_of(OTHER, "gloo", "cpu") == key_of("prim.scatter", "gloo", "cpu")
    )
    assert (
        len({key_of(PRIM, backend, device) for backend in ("gloo", "nccl") for device in ("cpu", "cuda")})
        == 4
    )
    assert key_of("pp.gpipe", "gloo", "cpu") == "gloo-cpu-1913e82b44c1a669"
    assert key_of("pp.gpipe", "cpu:gloo,cuda:nccl", "cuda").startswith("cpu-gloo-cuda-nccl-cuda-")


def test_rows_are_explained_by_what_they_rest_on_transitively() -> None:
    changes = [change(case_id, "pass", "crash") for case_id in (TRAIN, GRADIENTS, PRIM, PIPE)]
    assert traced(changes) == {
        "worse pp.gpipe": [PIPE],
        "worse prim.scatter": [PRIM, GRADIENTS, TRAIN],
    }


def test_rows_that_differ_in_parameters_alone_are_one_cause() -> None:
    changes = [change(case_id, "pass", "wrong:summed") for case_id in (OTHER, PRIM)]
    assert traced(changes) == {"worse prim.scatter": [PRIM, OTHER]}


def test_what_did_not_change_explains_nothing() -> None:
    assert traced([change(TRAIN, "pass", "crash")]) == {"worse fsdp.train": [TRAIN]}
    apart = [change(TRAIN, "pass", "crash"), change(PRIM, "pass", "crash")]
    assert traced(apart) == {"worse fsdp.train": [TRAIN], "worse prim.scatter": [PRIM]}


def test_an_undecided_row_between_them_does_not_part_them() -> None:
    changes = [change(TRAIN, "pass", "crash"), change(PRIM, "pass", "crash")]
    found = trace(changes, ROWS, backend="gloo", device="cpu", undecided={GRADIENTS})
    assert [cause.root for cause in found] == ["prim.scatter"]


def test_directions_are_apart() -> None:
    changes = [
        change(PRIM, "wrong:summed", "pass"),
        change(GRADIENTS, "pass", "crash"),
        change(TRAIN, "error", "crash"),
    ]
    assert traced(changes) == {
        "worse fsdp.gradients": [GRADIENTS],
        "better prim.scatter": [PRIM],
        "otherwise fsdp.train": [TRAIN],
    }
    assert [direction(one) for one in changes] == [Direction.BETTER, Direction.WORSE, Direction.OTHERWISE]
    assert direction(change(PRIM, "pass", "flaky")) is None


def test_world_sizes_are_one_row() -> None:
    changes = [change(GRADIENTS, "pass", "crash", 2), change(PRIM, "pass", "crash", 4)]
    assert traced(changes) == {"worse prim.scatter": [PRIM, GRADIENTS]}


def test_the_nearest_cause_explains_then_the_first_named() -> None:
    rows = catalogue(row("a.far"), row("a.near"), row("b.mid", "a.far"), row("c.top", "b.mid", "a.near"))
    assert roots({"a.far", "a.near", "b.mid", "c.top"}, rows)["c.top"] == "a.near"
    rows = catalogue(row("a.one"), row("a.two"), row("c.top", "a.two", "a.one"))
    assert roots({"a.one", "a.two", "c.top"}, rows)["c.top"] == "a.two"


def test_rows_that_rest_on_each_other_are_one_cause() -> None:
    rows = catalogue(row("a.b", "b.a"), row("b.a", "a.b"), row("c.c", "b.a"), row("d.d", "d.*"))
    assert roots({"a.b", "b.a", "c.c", "d.d"}, rows) == {
        "a.b": "a.b",
        "b.a": "a.b",
        "c.c": "a.b",
        "d.d": "d.d",
    }


def test_the_order_of_changes_does_not_matter() -> None:
    changes = [change(case_id, "pass", "crash") for case_id in ROWS]
    wanted = trace(changes, ROWS, backend="gloo", device="cpu")
    for some in itertools.permutations(changes):
        assert trace(list(some), ROWS, backend="gloo", device="cpu") == wanted


def test_a_row_that_the_catalogue_does_not_have_is_its_own_cause() -> None:
    assert traced([change("own.row", "pass", "crash")]) == {"worse own.row": ["own.row"]}
